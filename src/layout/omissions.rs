//! Messages about what the search for volumes could not open or did not follow, and short lists in
//! messages.

use std::collections::{BTreeMap, HashSet};

use voltile_base::notice::Notice;
use voltile_hdf5::volume::hdf5::UnfollowedLink;

use super::contents::{Contents, Search, UnlistedDataset};

/// Maximum number of links, objects or paths that a message names.
const MAX_NAMED: usize = 8;

/// Notes what the search has found and does not show: links that were not followed, objects that
/// cannot be opened, and datasets that may hold pictures, in one notice for each reason.
pub(super) fn note(contents: &Contents<'_>, search: &Search) {
    let links = search.unfollowed.iter();
    let link_notices = links.map(|UnfollowedLink { path, reason, .. }| {
        Notice::warning(format!("the link was not followed: {reason}")).about(path)
    });
    note_first(contents, link_notices, "other links were not followed");
    let reasons = search.unopened.iter();
    let object_notices = reasons.map(|reason| Notice::warning(reason.as_str()));
    let about_others = "other objects cannot be opened, and are left out";
    note_first(contents, object_notices, about_others);
    let mut hidden: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for dataset in &search.unlisted {
        if dataset.may_be_pictures {
            hidden.entry(&dataset.why).or_default().push(&dataset.path);
        }
    }
    for (why, paths) in hidden {
        contents.note(match paths[..] {
            [path] => Notice::warning(format!("it is not shown: {why}")).about(path),
            _ => Notice::warning(format!(
                "{} datasets are not shown ({}): {why}",
                paths.len(),
                first_of(paths.iter().map(|path| (*path).to_owned()))
            )),
        });
    }
}

/// Records the first notices, and a summary of the others: their number and `about_others`, as in
/// "3 other links were not followed".
fn note_first(
    contents: &Contents<'_>,
    notices: impl ExactSizeIterator<Item = Notice>,
    about_others: &str,
) {
    let count = notices.len().saturating_sub(MAX_NAMED);
    for notice in notices.take(MAX_NAMED) {
        contents.note(notice);
    }
    if count > 0 {
        contents.note(Notice::warning(format!("{count} {about_others}")));
    }
}

/// Why a file holds no volume: links that were not followed, the first object that cannot be
/// opened, and, unless there are links, the largest dataset that is never a channel, preferably one
/// that may hold pictures. `None` if there are none of these.
pub(super) fn explanation(
    unopened: &[String],
    unlisted: &[UnlistedDataset],
    links: &[UnfollowedLink],
) -> Option<String> {
    let mut reasons = Vec::new();
    let (missing, refused): (Vec<&UnfollowedLink>, Vec<_>) =
        links.iter().partition(|link| link.lacks_its_file());
    if !missing.is_empty() {
        let names = first_of(missing.iter().map(|link| link.target.clone()));
        reasons.push(format!(
            "its data is in linked files that are missing: {names}"
        ));
    }
    if !refused.is_empty() {
        let why = first_of(refused.iter().map(|link| link.reason.to_string()));
        reasons.push(format!(
            "its data may be where links lead that were not followed: {why}"
        ));
    }
    match unopened {
        [] => {}
        [reason] => reasons.push(reason.clone()),
        [reason, ..] => reasons.push(format!(
            "{reason} (the first of {} that cannot be opened)",
            unopened.len()
        )),
    }
    // Reversed, because the last of several maxima is taken.
    let likeliest = unlisted
        .iter()
        .rev()
        .max_by_key(|dataset| (dataset.may_be_pictures, dataset.elements));
    if let Some(UnlistedDataset { path, why, .. }) = likeliest
        && links.is_empty()
    {
        let count = match unlisted.len() {
            1 => String::new(),
            number => format!(" (of {number} datasets, none is a volume)"),
        };
        reasons.push(format!("{path}: {why}{count}"));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// The first texts without repetitions, and the number of further ones: `a, b and 492 more`. Empty
/// if there are no texts.
pub(crate) fn first_of(texts: impl IntoIterator<Item = String>) -> String {
    let mut known = HashSet::new();
    let mut all: Vec<String> = texts
        .into_iter()
        .filter(|text| known.insert(text.clone()))
        .collect();
    let further = all.len().saturating_sub(MAX_NAMED);
    all.truncate(MAX_NAMED);
    let shown = all.join(", ");
    if further > 0 {
        format!("{shown} and {further} more")
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
        let unlisted = |elements, path: &str| UnlistedDataset {
            may_be_pictures: false,
            elements,
            path: path.to_owned(),
            why: "it is a palette".to_owned(),
        };
        let all = [unlisted(1, "/a"), unlisted(9, "/b"), unlisted(9, "/c")];
        let told = |unlisted: &[UnlistedDataset], links: &[UnfollowedLink]| {
            explanation(&[], unlisted, links).unwrap()
        };
        assert_eq!(told(&all[..1], &[]), "/a: it is a palette");
        let largest = "/b: it is a palette (of 3 datasets, none is a volume)";
        assert_eq!(told(&all, &[]), largest);
        assert_eq!(
            told(&all, &[link(1, true)]),
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
            explanation.contains("\"2.h5\", which is not below its own folder"),
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
