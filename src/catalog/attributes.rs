//! The attributes of a file, shown to people who inspect it.
//!
//! A trial reads them before a server does, within the same limits.

use std::collections::{BTreeMap, VecDeque};

use super::Dataset;

/// The attributes of groups and datasets. The outer keys are the paths of the objects, the inner
/// ones the names of the attributes. Values are text; long values are cut.
pub type FileAttributes = BTreeMap<String, BTreeMap<String, String>>;

/// The maximum number of groups and datasets whose attributes are read.
const MAX_OBJECTS: usize = 256;
/// The maximum number of attributes that are read.
const MAX_ATTRIBUTES: usize = 1024;

impl Dataset {
    /// The attributes of the root group, of the channels' datasets, and of the objects that hard
    /// links lead to, nearest to the root first. Objects without attributes are left out. In a file
    /// in a store, links are not followed.
    pub fn attributes(&self) -> FileAttributes {
        let Some(file) = &self.file else {
            return FileAttributes::new();
        };
        let finest = self.listed().map(|channel| channel.finest().path());
        // The path of the root group is empty.
        let paths = std::iter::once("").chain(finest).take(MAX_OBJECTS);
        let mut paths: VecDeque<String> = paths.map(str::to_owned).collect();
        let mut shown = FileAttributes::new();
        let mut remaining = MAX_ATTRIBUTES;
        let is_remote = self.is_remote();
        for _ in 0..MAX_OBJECTS {
            let Some(path) = paths.pop_front() else { break };
            let Some((attributes, members)) = file.object(&path) else {
                continue;
            };
            if !is_remote {
                let members = members.into_iter().take(MAX_OBJECTS);
                paths.extend(members.map(|name| format!("{path}/{name}")));
            }
            let attributes = attributes.in_words(remaining);
            remaining -= attributes.len();
            if !attributes.is_empty() {
                let path = if path.is_empty() { "/" } else { path.as_str() };
                shown.insert(path.to_owned(), attributes);
            }
        }
        shown
    }
}
