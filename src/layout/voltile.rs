//! voltile's own: volumes written by `voltile pyramid --rechunk`, known by the attribute `voltile_inventory`.
//!
//! Source: [`super::inventory`]. A sidecar is known too, so that whoever asks for one is told what it is.

use super::contents::Contents;
use super::inventory::{Inventory, Role};
use super::{FoundChannel, Layout};
use crate::volume::hdf5::OpenError;

/// The layout.
pub(super) struct Voltile;

impl Layout for Voltile {
    fn name(&self) -> &'static str {
        "voltile"
    }

    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        Inventory::of(contents.file).map(|_| "it was written by voltile pyramid".to_owned())
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
        let inventory = Inventory::of(contents.file);
        if inventory.as_ref().is_some_and(|inventory| inventory.role == Role::Sidecar) {
            let problem = "it holds the levels that another file lacks, and is no volume by itself; name that file, \
                           which it lies beside";
            let path = contents.file.path().to_owned();
            return Err(OpenError::File { path, problem: problem.to_owned() });
        }
        let channels = inventory.map(|inventory| inventory.channels).unwrap_or_default();
        Ok(channels.iter().filter_map(super::inventory::ChannelRecord::found).collect())
    }
}
