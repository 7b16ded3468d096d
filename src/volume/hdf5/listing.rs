//! Finds the datasets of a file: along hard links only, each object once, within bounds.
//!
//! Files exist whose groups contain themselves, and files with millions of objects; a walk must end for both.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use hdf5::{Group, IndexType, IterationOrder, LinkType, LocationToken, LocationType};

use super::OpenError;
use super::file::StoredFile;

/// How many objects are looked at before the walk ends.
const MOST_OBJECTS: usize = 50_000;
/// How many groups deep the walk goes.
const MOST_DEPTH: usize = 32;

/// The paths of all datasets that hard links lead to, each object once, shallow ones first, then by name.
pub(super) fn datasets(file: &Arc<StoredFile>) -> Result<Vec<String>, OpenError> {
    let wrong = |path: &str, e: hdf5::Error| OpenError::object(file, path, e.to_string());
    let root = file.handle.group("/").map_err(|e| wrong("/", e))?;
    let mut seen = HashSet::from([key(root.loc_info().map_err(|e| wrong("/", e))?.token)]);
    let mut ahead = VecDeque::from([(String::new(), root, 0)]);
    let mut found = Vec::new();
    let mut objects = 0;
    while let Some((path, group, depth)) = ahead.pop_front() {
        // A group that cannot be listed is left out: the rest of the file may be sound.
        for (name, token, kind) in members(&group) {
            objects += 1;
            if objects > MOST_OBJECTS || !seen.insert(key(token)) {
                continue;
            }
            let path = format!("{path}/{name}");
            match kind {
                LocationType::Dataset => found.push(path),
                LocationType::Group if depth < MOST_DEPTH => {
                    if let Ok(child) = group.group(&name) {
                        ahead.push_back((path, child, depth + 1));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// What tells an object from others. The crate's tokens can be compared and printed, but not hashed.
fn key(token: LocationToken) -> String {
    format!("{token:?}")
}

/// What the hard links of a group lead to, by name.
fn members(group: &Group) -> Vec<(String, LocationToken, LocationType)> {
    let about =
        |name: String| group.loc_info_by_name(&name).ok().map(|info| (name, info.token, info.loc_type));
    links(group, |kind| kind == LinkType::Hard).into_iter().filter_map(about).collect()
}

/// The names of all links of a group, wherever they lead, sorted.
pub(super) fn names(group: &Group) -> Vec<String> {
    links(group, |_| true)
}

fn links(group: &Group, wanted: impl Fn(LinkType) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    let listed = group.iter_visit(IndexType::Name, IterationOrder::Increasing, |name, info| {
        if names.len() >= MOST_OBJECTS {
            return Err("it has too many links".into());
        }
        if wanted(info.link_type) {
            names.push(name.to_owned());
        }
        Ok(())
    });
    if let Err(e) = listed {
        tracing::warn!(group = group.name(), "only some of the group is listed: {e}");
    }
    names
}
