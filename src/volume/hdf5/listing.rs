//! Lists the datasets of a file: along hard links only, each object once, up to a limit.
//!
//! The limits exist because groups may contain themselves, and files may have millions of objects.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use hdf5::{Group, IndexType, IterationOrder, LinkType, LocationToken, LocationType};

use super::OpenError;
use super::file::StoredFile;

/// The maximum number of objects visited.
const MOST_OBJECTS: usize = 50_000;
/// The maximum nesting of groups.
const MOST_DEPTH: usize = 32;

/// The paths of all datasets reachable by hard links, each object once: breadth first, then by name.
pub(super) fn datasets(file: &Arc<StoredFile>) -> Result<Vec<String>, OpenError> {
    let wrong = |path: &str, e: hdf5::Error| OpenError::object(file, path, e.to_string());
    let root = file.handle.group("/").map_err(|e| wrong("/", e))?;
    let mut seen = HashSet::from([key(root.loc_info().map_err(|e| wrong("/", e))?.token)]);
    let mut ahead = VecDeque::from([(String::new(), root, 0)]);
    let mut found = Vec::new();
    let mut objects = 0;
    while let Some((path, group, depth)) = ahead.pop_front() {
        // A group that cannot be listed is skipped; the rest of the file may be intact.
        for (name, token, kind) in members(&group) {
            objects += 1;
            if objects > MOST_OBJECTS || !seen.insert(key(token)) {
                continue;
            }
            let path = format!("{path}/{name}");
            match kind {
                LocationType::Dataset => found.push(path),
                LocationType::Group if depth < MOST_DEPTH => match group.group(&name) {
                    Ok(child) => ahead.push_back((path, child, depth + 1)),
                    Err(error) => {
                        let file = file.path.display();
                        tracing::warn!(
                            "the group {path} in {file} cannot be opened, and is left out: {error}"
                        );
                    }
                },
                _ => {}
            }
        }
    }
    Ok(found)
}

/// A hashable identity of an object: the crate's tokens can only be compared and printed.
fn key(token: LocationToken) -> String {
    format!("{token:?}")
}

/// The targets of a group's hard links, sorted by name.
fn members(group: &Group) -> Vec<(String, LocationToken, LocationType)> {
    let about =
        |name: String| group.loc_info_by_name(&name).ok().map(|info| (name, info.token, info.loc_type));
    links(group, |kind| kind == LinkType::Hard).into_iter().filter_map(about).collect()
}

/// The names of all links of a group, of any type, sorted.
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
        tracing::warn!(group = group.name(), "the group is listed only in part: {e}");
    }
    names
}
