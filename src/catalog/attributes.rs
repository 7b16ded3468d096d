//! The attributes of a file, for people.
//!
//! A trial reads them before a server does, within the same limits.

use std::collections::{BTreeMap, VecDeque};

use super::{Dataset, StoredLevel};

/// The attributes of each group and dataset by its path, and the values by name, as text: long ones
/// are cut.
pub type FileAttributes = BTreeMap<String, BTreeMap<String, String>>;

/// Of at most so many groups and datasets are attributes looked for.
const MAX_OBJECTS: usize = 256;
/// At most so many attributes are read.
const MAX_ATTRIBUTES: usize = 1024;

impl Dataset {
    /// The attributes of the root group, of the channels' datasets, and of what hard links lead to,
    /// near the root first; objects without attributes are left out. Of a file in a store, those of
    /// the root group and the channels' datasets.
    pub fn attributes(&self) -> FileAttributes {
        let Some(file) = &self.file else {
            return FileAttributes::new();
        };
        let finest = self
            .listed()
            .filter_map(|channel| channel.levels().first().map(StoredLevel::path));
        let paths = std::iter::once("").chain(finest).take(MAX_OBJECTS);
        let mut paths: VecDeque<String> = paths.map(str::to_owned).collect();
        let (mut found, mut left) = (FileAttributes::new(), MAX_ATTRIBUTES);
        for _ in 0..MAX_OBJECTS {
            let Some(path) = paths.pop_front() else { break };
            let Some((attributes, members)) = file.object(&path) else {
                continue;
            };
            if !self.is_remote() {
                paths.extend(
                    members
                        .into_iter()
                        .take(MAX_OBJECTS)
                        .map(|name| format!("{path}/{name}")),
                );
            }
            let attributes = attributes.in_words(left);
            left -= attributes.len();
            if !attributes.is_empty() {
                found.insert(
                    if path.is_empty() {
                        "/".to_owned()
                    } else {
                        path
                    },
                    attributes,
                );
            }
        }
        found
    }
}
