//! voltile's own volumes, written by `voltile pyramid --rechunk`, recognised by the attribute
//! `voltile_inventory`.
//!
//! Source: [`super::inventory`]. Sidecars are recognised too, for a helpful error message. A file
//! whose inventory cannot be understood is of the next layout that recognises it.
//!
//! Example: an inventory of the role "volume", whose channel `image` has levels at `/image/s0` and
//! `/image/s1`, is the channel `image` with these two levels.

use voltile_base::notice::Notice;
use voltile_hdf5::volume::hdf5::OpenError;

use super::FoundChannel;
use super::contents::Contents;
use super::inventory::{ChannelRecord, Inventory, Role};
use super::plain;

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    match Inventory::from_file(contents.file)? {
        Ok(_) => Some("it was written by voltile pyramid".to_owned()),
        Err(problem) => {
            contents.note(Notice::warning(format!(
                "{problem}; levels, names and ranges that it describes are not used"
            )));
            None
        }
    }
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let Some(Ok(inventory)) = Inventory::from_file(contents.file) else {
        // The inventory was there when the file was recognised; the file has been replaced since.
        return plain::channels(contents, |_| true);
    };
    if inventory.role == Role::Sidecar {
        let problem = "it only holds derived levels for another file; open that file instead, which is in the \
                       same folder";
        return Err(OpenError::File {
            file: contents.file.location().clone(),
            problem: problem.to_owned(),
        });
    }
    let channels = inventory.channels.iter();
    Ok(channels.filter_map(ChannelRecord::to_channel).collect())
}
