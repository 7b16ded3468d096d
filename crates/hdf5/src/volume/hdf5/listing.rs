//! Lists the datasets of a file: along hard links, and along external links that may be followed.
//! Each object is visited once, and the numbers of objects and of followed links are limited,
//! because groups may contain themselves, files may link to each other, and files may have millions
//! of objects.
//!
//! In the file itself, hard links lead to all objects, so soft links are not followed. In a linked
//! file they are, because hard links lead only to the objects below the link's target.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use hdf5::Group;

use super::OpenError;
use super::file::StoredFile;
use super::library::{self, Link, LinkKind};
use super::links::{Follower, root};
use crate::store::Location;

/// The maximum number of links that are listed, and so of objects that are visited.
const MAX_OBJECTS: usize = 50_000;
/// The maximum nesting of groups.
const MAX_DEPTH: usize = 32;
/// The maximum number of external and soft links followed.
const MAX_FOLLOWED: usize = 10_000;

/// The datasets that can be reached from a file.
#[derive(Debug, Default)]
pub struct Listing {
    /// The paths of the datasets, sorted by depth, then by name. A dataset that several paths lead
    /// to is listed once.
    pub datasets: Vec<String>,
    /// The external links that were not followed.
    pub unfollowed: Vec<UnfollowedLink>,
    /// The objects that were left out for other reasons, each a path and the reason.
    pub left_out: Vec<String>,
    /// The soft links in the file itself, each by its path and the path that it leads to.
    pub aliases: Vec<(String, String)>,
}

/// An external link that was not followed.
#[derive(Debug)]
pub struct UnfollowedLink {
    /// Its path.
    pub path: String,
    /// The file that it links to, by the name in the link.
    pub target: String,
    /// Why it was not followed.
    pub reason: OpenError,
}

impl UnfollowedLink {
    /// Whether the linked file, or the object in it, does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self.reason, OpenError::Missing { .. })
    }

    /// Whether the linked file does not exist.
    pub fn lacks_its_file(&self) -> bool {
        matches!(&self.reason, OpenError::Missing { name, .. } if *name == self.target)
    }

    /// Whether the link must not be followed.
    pub fn is_refused(&self) -> bool {
        matches!(self.reason, OpenError::Refused { .. })
    }
}

/// Lists the datasets that can be reached from a file.
pub(super) fn list(follower: &Follower<'_>, file: &Arc<StoredFile>) -> Result<Listing, OpenError> {
    let mut walk = ListingWalk {
        follower,
        first: file.location.clone(),
        seen: HashMap::new(),
        listed: 0,
        followed: 0,
        groups: VecDeque::new(),
        links: VecDeque::new(),
        listing: Listing::default(),
    };
    let place = ListedPlace {
        path: String::new(),
        file: Arc::clone(file),
    };
    walk.enter(place, root(file)?)?;
    // External links wait until there are no groups left, so that an object's path leads through as
    // few of them as possible.
    loop {
        if let Some((place, group)) = walk.groups.pop_front() {
            walk.list(&place, &group);
        } else if let Some(link) = walk.links.pop_front() {
            walk.follow(&link);
        } else {
            break;
        }
    }
    let mut listing = walk.listing;
    listing.datasets.sort();
    listing.datasets.sort_by_key(|path| depth(path));
    Ok(listing)
}

/// Where a group or a link is.
struct ListedPlace {
    /// The path from the file whose datasets are listed.
    path: String,
    /// The file that contains it.
    file: Arc<StoredFile>,
}

impl ListedPlace {
    fn below(&self, name: &str) -> Self {
        ListedPlace {
            path: format!("{}/{name}", self.path),
            file: Arc::clone(&self.file),
        }
    }

    fn wrong(&self, problem: &dyn std::fmt::Display) -> OpenError {
        OpenError::object(&self.file.location, &self.path, problem.to_string())
    }
}

/// The number of names on a path of the form `/a/b`. (A slash in the name of a link, which only
/// libraries other than HDF5's can write, counts as well.)
fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// A link that is still to be followed.
struct PendingLink {
    is_soft: bool,
    place: ListedPlace,
    /// The group that contains it, and its name there.
    group: Group,
    name: String,
}

/// The state of a walk.
struct ListingWalk<'a> {
    follower: &'a Follower<'a>,
    /// The file whose datasets are listed; all others are linked files.
    first: Location,
    /// The tokens of the objects visited, by the file that contains them.
    seen: HashMap<Location, HashSet<[u8; 16]>>,
    /// The number of links listed.
    listed: usize,
    /// The number of links followed.
    followed: usize,
    groups: VecDeque<(ListedPlace, Group)>,
    links: VecDeque<PendingLink>,
    /// The result so far; its datasets are not sorted yet.
    listing: Listing,
}

impl ListingWalk<'_> {
    /// Whether an object is visited for the first time.
    fn is_new(&mut self, file: &StoredFile, token: [u8; 16]) -> bool {
        let seen = self.seen.entry(file.location.clone()).or_default();
        seen.insert(token)
    }

    fn leave_out(&mut self, path: &str, reason: &str) {
        let path = if path.is_empty() { "/" } else { path };
        self.listing.left_out.push(format!("{path}: {reason}"));
    }

    /// Queues a group to be listed, unless it has been visited or is nested too deeply.
    fn enter(&mut self, place: ListedPlace, group: Group) -> Result<(), OpenError> {
        let info = library::object_info(&group, ".").map_err(|e| place.wrong(&e))?;
        if !self.is_new(&place.file, info.token) {
            return Ok(());
        }
        if depth(&place.path) > MAX_DEPTH {
            let reason = format!("it lies in more than {MAX_DEPTH} groups, and is left out");
            self.leave_out(&place.path, &reason);
        } else {
            self.groups.push_back((place, group));
        }
        Ok(())
    }

    /// Visits the objects of a group's hard links, and queues the links that are to be followed.
    fn list(&mut self, place: &ListedPlace, group: &Group) {
        let room = MAX_OBJECTS.saturating_sub(self.listed);
        let list = library::links(group, room);
        let listed = list.links.len();
        self.listed += listed;
        if let Some(problem) = list.problem {
            let why = if listed == room {
                format!("{MAX_OBJECTS} objects are listed, which is the limit")
            } else {
                problem
            };
            let reason = match listed {
                0 => format!("its links cannot be listed ({why})"),
                _ => format!("only the first {listed} of its links are listed ({why})"),
            };
            self.leave_out(&place.path, &reason);
        }
        for (name, kind) in list.links {
            let below = place.below(&name);
            match kind {
                LinkKind::Hard => self.visit(below, group, &name),
                LinkKind::Soft if below.file.location == self.first => {
                    if let Some(target) = soft_target(group, &name, &place.path) {
                        self.listing.aliases.push((below.path, target));
                    }
                }
                LinkKind::Soft | LinkKind::Other => {
                    self.links.push_back(PendingLink {
                        is_soft: kind == LinkKind::Soft,
                        place: below,
                        group: group.clone(),
                        name,
                    });
                }
            }
        }
    }

    /// Visits the object that a hard link leads to. If it cannot be opened, only this object is
    /// left out.
    fn visit(&mut self, place: ListedPlace, group: &Group, name: &str) {
        let path = place.path.clone();
        let visited = library::object_info(group, name).and_then(|info| {
            if info.is_dataset && self.is_new(&place.file, info.token) {
                self.listing.datasets.push(place.path);
            } else if info.is_group {
                let entered = self.enter(place, library::open_group(group, name)?);
                entered.map_err(|e| e.to_string())?;
            }
            Ok(())
        });
        if let Err(error) = visited {
            self.leave_out(&path, &format!("it cannot be opened ({error})"));
        }
    }

    /// Visits the object that a link leads to; notes the link if that fails.
    fn follow(&mut self, link: &PendingLink) {
        let path = &link.place.path;
        match self.try_follow(link) {
            Ok(()) => {}
            // Soft links to nothing are common, and so are soft links that lead through links which
            // are reported themselves.
            Err(reason) if link.is_soft => {
                tracing::debug!("the soft link {path} was not followed: {reason}");
            }
            Err(reason) => self.listing.unfollowed.push(UnfollowedLink {
                path: path.clone(),
                target: target(&link.group, &link.name),
                reason,
            }),
        }
    }

    /// Visits the object that a link leads to; the error says why it cannot.
    fn try_follow(&mut self, link: &PendingLink) -> Result<(), OpenError> {
        self.followed += 1;
        if self.followed > MAX_FOLLOWED {
            let problem = format!("{MAX_FOLLOWED} other links were followed, which is the limit");
            return Err(link.place.wrong(&problem));
        }
        let path = link.place.path.clone();
        let group = link.group.clone();
        let end = self
            .follower
            .member(&link.place.file, group, &path, link.name.clone())?;
        let place = ListedPlace {
            path,
            file: end.file,
        };
        let Some(name) = end.name else {
            return self.enter(place, end.group);
        };
        // `visit` would leave out a missing object without an error.
        library::object_info(&end.group, &name).map_err(|e| place.wrong(&e))?;
        self.visit(place, &end.group, &name);
        Ok(())
    }
}

/// The file that an external link leads to, by its name in the link; empty if the link cannot be
/// read.
fn target(group: &Group, name: &str) -> String {
    match library::link(group, name) {
        Ok(Link::External { file, .. }) => file,
        _ => String::new(),
    }
}

/// The path that a soft link in the group at `path` leads to.
fn soft_target(group: &Group, name: &str, path: &str) -> Option<String> {
    match library::link(group, name) {
        Ok(Link::Soft(target)) if target.starts_with('/') => Some(target),
        Ok(Link::Soft(target)) => Some(format!("{path}/{target}")),
        _ => None,
    }
}

/// The names of all links of a group, of any type, sorted.
pub(super) fn names(group: &Group) -> Vec<String> {
    links(group).map(|(name, _)| name).collect()
}

/// The names of the hard links of a group, sorted.
pub(super) fn members(group: &Group) -> Vec<String> {
    links(group)
        .filter(|(_, link)| *link == LinkKind::Hard)
        .map(|(name, _)| name)
        .collect()
}

/// The links of a group, sorted by name.
fn links(group: &Group) -> impl Iterator<Item = (String, LinkKind)> + use<> {
    let list = library::links(group, MAX_OBJECTS);
    if let Some(problem) = list.problem {
        tracing::warn!("a group is listed only in part: {problem}");
    }
    list.links.into_iter()
}
