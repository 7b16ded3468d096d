//! voltile's own volumes, written by `voltile pyramid --rechunk`, recognised by the attribute
//! `voltile_inventory`.
//!
//! Source: [`super::inventory`]. Sidecars are recognised too, for a helpful error message.

use voltile_hdf5::volume::hdf5::OpenError;

use super::contents::Contents;
use super::inventory::{Inventory, Role};
use super::{FoundChannel, Layout};

pub(super) struct Voltile;

impl Layout for Voltile {
    fn recognise(&self, _name: &str, contents: &Contents<'_>) -> Option<String> {
        Inventory::from_file(contents.file).map(|_| "it was written by voltile pyramid".to_owned())
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Option<Vec<FoundChannel>>, OpenError> {
        let inventory = Inventory::from_file(contents.file);
        if inventory
            .as_ref()
            .is_some_and(|inventory| inventory.role == Role::Sidecar)
        {
            let problem = "it only holds derived levels for another file; open that file instead, which is in the \
                           same folder";
            let file = contents.file.location().clone();
            return Err(OpenError::File {
                file,
                problem: problem.to_owned(),
            });
        }
        let channels = inventory
            .map(|inventory| inventory.channels)
            .unwrap_or_default();
        Ok(Some(
            channels
                .iter()
                .filter_map(super::inventory::ChannelRecord::found)
                .collect(),
        ))
    }
}
