//! Names for channels without one: the shortest suffix of the path that is unique.

use std::collections::{HashMap, HashSet};

use voltile_base::name::Name;

/// A name for each path: its last component, or as many components as make it unique. `/raw`,
/// `/a/seg` and `/b/seg` are `raw`, `a_seg` and `b_seg`.
pub(super) fn names(paths: &[&str]) -> Vec<Name> {
    let parts: Vec<Vec<&str>> = paths
        .iter()
        .map(|path| path.split('/').filter(|part| !part.is_empty()).collect())
        .collect();
    // How many components of each path are in its name so far.
    let mut lengths = vec![1; paths.len()];
    loop {
        let names: Vec<Name> = parts
            .iter()
            .zip(&lengths)
            .map(|(parts, length)| last_parts(parts, *length))
            .collect();
        let mut counts: HashMap<&Name, usize> = HashMap::new();
        for name in &names {
            *counts.entry(name).or_default() += 1;
        }
        let mut has_changed = false;
        for ((name, parts), length) in names.iter().zip(&parts).zip(&mut lengths) {
            if *length < parts.len() && counts.get(name).is_some_and(|count| *count > 1) {
                *length += 1;
                has_changed = true;
            }
        }
        if !has_changed {
            return number_duplicates(names);
        }
    }
}

/// The name made of the last `count` components of a path, joined by underscores.
fn last_parts(parts: &[&str], count: usize) -> Name {
    Name::nearest(&parts[parts.len().saturating_sub(count)..].join("_"))
}

/// Numbers equal names: the names of `/a b` and `/a_b`, which differ only in a character that names
/// cannot have, are `a_b` and `a_b_2`.
pub(super) fn number_duplicates(names: Vec<Name>) -> Vec<Name> {
    let mut taken = HashSet::with_capacity(names.len());
    let mut numbers: HashMap<Name, usize> = HashMap::new();
    let mut numbered = Vec::with_capacity(names.len());
    for name in names {
        let mut free = name.clone();
        // Numbers already used are not tried again: a thousand paths may map to the same name.
        let number = numbers.entry(name.clone()).or_insert(1);
        while !taken.insert(free.clone()) {
            *number += 1;
            free = Name::nearest(&format!("{name}_{number}"));
        }
        numbered.push(free);
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_as_much_of_a_path_as_they_need() {
        let text = |paths: &[&str]| names(paths).iter().map(Name::to_string).collect::<Vec<_>>();
        assert_eq!(
            text(&["/raw", "/a/seg", "/b/seg", "/c/d/seg"]),
            ["raw", "a_seg", "b_seg", "d_seg"]
        );
        assert_eq!(text(&["/a b", "/a_b"]), ["a_b", "a_b_2"]);
        assert_eq!(text(&["/x", "/y/x"]), ["x", "y_x"]);
    }
}
