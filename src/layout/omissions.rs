//! Messages about what the search for volumes could not open or did not follow, and short lists in
//! messages.

use std::collections::{BTreeMap, HashSet};

use voltile_base::notice::Notice;
use voltile_hdf5::volume::hdf5::UnfollowedLink;

use super::contents::{Aside, Contents};

/// A message names at most this many links.
const MAX_NAMED: usize = 8;

/// Notes each of the first links, and the number of further links.
pub(super) fn note_links(contents: &Contents<'_>) {
    let links = contents.unfollowed();
    for UnfollowedLink { path, reason, .. } in links.iter().take(MAX_NAMED) {
        contents.note(Notice::warning(format!("the link was not followed: {reason}")).about(path));
    }
    let others = links.len().saturating_sub(MAX_NAMED);
    if others > 0 {
        contents.note(Notice::warning(format!(
            "{others} other links were not followed"
        )));
    }
}

/// Notes what the search has found and does not show: each of the first objects that cannot be
/// opened, and datasets that may hold pictures, together if the reason is the same.
pub(super) fn note_hidden(contents: &Contents<'_>) {
    let unopened = contents.unopened();
    for reason in unopened.iter().take(MAX_NAMED) {
        contents.note(Notice::warning(reason.as_str()));
    }
    let others = unopened.len().saturating_sub(MAX_NAMED);
    if others > 0 {
        contents.note(Notice::warning(format!(
            "{others} other objects cannot be opened, and are left out"
        )));
    }
    let mut hidden: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for aside in contents.set_aside() {
        if aside.may_be_pictures {
            hidden.entry(&aside.why).or_default().push(&aside.path);
        }
    }
    for (why, paths) in hidden {
        contents.note(match paths[..] {
            [path] => Notice::warning(format!("it is not shown: {why}")).about(path),
            _ => Notice::warning(format!(
                "{} datasets are not shown ({}): {why}",
                paths.len(),
                named(paths.iter().map(|path| (*path).to_owned()))
            )),
        });
    }
}

/// Why a file holds no volume: links that were not followed, the first object that cannot be
/// opened, and the largest dataset that is never a channel, which is left out if there are links.
/// `None` if there are none of them.
pub(super) fn explanation(
    unopened: &[String],
    aside: &[Aside],
    links: &[UnfollowedLink],
) -> Option<String> {
    let largest = aside
        .iter()
        .rev()
        .max_by_key(|aside| (aside.may_be_pictures, aside.elements))
        .filter(|_| links.is_empty());
    let aside = largest.map(|Aside { path, why, .. }| match aside.len() {
        1 => format!("{path}: {why}"),
        number => format!("{path}: {why} (of {number} datasets, none is a volume)"),
    });
    let closed = unopened.first().map(|reason| match unopened.len() {
        1 => reason.clone(),
        number => format!("{reason} (the first of {number} that cannot be opened)"),
    });
    let (missing, others): (Vec<&UnfollowedLink>, Vec<_>) =
        links.iter().partition(|link| link.lacks_its_file());
    let missing = (!missing.is_empty()).then(|| {
        let names = named(missing.iter().map(|link| link.target.clone()));
        format!("its data is in linked files that are missing: {names}")
    });
    let others = (!others.is_empty()).then(|| {
        let reasons = named(others.iter().map(|link| link.reason.to_string()));
        format!("its data may be where links lead that were not followed: {reasons}")
    });
    let all: Vec<String> = missing
        .into_iter()
        .chain(others)
        .chain(closed)
        .chain(aside)
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The first texts, without repetitions, and the number of further texts; empty if there are none.
pub(crate) fn named(texts: impl IntoIterator<Item = String>) -> String {
    let mut known = HashSet::new();
    let mut all: Vec<String> = texts
        .into_iter()
        .filter(|text| known.insert(text.clone()))
        .collect();
    let others = all.len().saturating_sub(MAX_NAMED);
    all.truncate(MAX_NAMED);
    let shown = all.join(", ");
    if others > 0 {
        format!("{shown} and {others} more")
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use voltile_hdf5::volume::hdf5::OpenError;

    use super::*;

    fn link(number: usize, is_missing: bool) -> UnfollowedLink {
        let (file, name) = (Path::new("/m.h5").into(), format!("{number}.h5"));
        let reason = match is_missing {
            true => OpenError::Missing {
                file,
                object: "/a".to_owned(),
                name: name.clone(),
            },
            false => OpenError::Refused {
                file,
                name: name.clone(),
                why: "which is elsewhere",
            },
        };
        UnfollowedLink {
            path: format!("/{number}"),
            target: name,
            reason,
        }
    }

    #[test]
    fn a_thousand_links_are_one_short_message() {
        let links: Vec<UnfollowedLink> = (0..1000).map(|number| link(number % 500, true)).collect();
        let explanation = explanation(&[], &[], &links).unwrap();
        assert!(
            explanation.ends_with("6.h5, 7.h5 and 492 more"),
            "{explanation}"
        );
    }

    #[test]
    fn datasets_that_are_no_volumes_explain_nothing_if_links_were_not_followed() {
        let aside = |elements, path: &str| Aside {
            may_be_pictures: false,
            elements,
            path: path.to_owned(),
            why: "it is a palette".to_owned(),
        };
        let aside = [aside(1, "/a"), aside(9, "/b"), aside(9, "/c")];
        let told =
            |aside: &[Aside], links: &[UnfollowedLink]| explanation(&[], aside, links).unwrap();
        assert_eq!(told(&aside[..1], &[]), "/a: it is a palette");
        let largest = "/b: it is a palette (of 3 datasets, none is a volume)";
        assert_eq!(told(&aside, &[]), largest);
        assert_eq!(
            told(&aside, &[link(1, true)]),
            "its data is in linked files that are missing: 1.h5"
        );
    }

    #[test]
    fn missing_files_are_told_from_forbidden_ones_and_from_damaged_objects() {
        let explanation = explanation(&[], &[], &[link(1, true), link(2, false)]).unwrap();
        assert!(
            explanation.starts_with("its data is in linked files that are missing: 1.h5; "),
            "{explanation}"
        );
        assert!(
            explanation.contains("\"2.h5\", which is elsewhere"),
            "{explanation}"
        );
        assert_eq!(super::explanation(&[], &[], &[]), None);
        let unopened = ["/a: its links cannot be listed (damaged)", "/b"].map(str::to_owned);
        assert_eq!(
            super::explanation(&unopened, &[], &[]).as_deref(),
            Some("/a: its links cannot be listed (damaged) (the first of 2 that cannot be opened)")
        );
    }
}
