//! Names for channels without one: the shortest suffix of the path that is unique.

use std::collections::{HashMap, HashSet};

use voltile_base::name::Name;

/// A name for each path: its last component, or as many more as make it unique.
pub(super) fn names(paths: &[&str]) -> Vec<Name> {
    let parts: Vec<Vec<&str>> = paths
        .iter()
        .map(|path| path.split('/').filter(|part| !part.is_empty()).collect())
        .collect();
    let mut used = vec![1; paths.len()];
    loop {
        let names: Vec<Name> = parts
            .iter()
            .zip(&used)
            .map(|(parts, used)| tail(parts, *used))
            .collect();
        let mut count: HashMap<&Name, usize> = HashMap::new();
        for name in &names {
            *count.entry(name).or_default() += 1;
        }
        let mut clashing = false;
        for ((name, parts), used) in names.iter().zip(&parts).zip(&mut used) {
            if *used < parts.len() && count.get(name).is_some_and(|count| *count > 1) {
                *used += 1;
                clashing = true;
            }
        }
        if !clashing {
            return numbered(names);
        }
    }
}

fn tail(parts: &[&str], count: usize) -> Name {
    Name::nearest(&parts[parts.len().saturating_sub(count)..].join("_"))
}

/// Numbers names that are equal because their paths differ only in characters that names cannot
/// have.
fn numbered(names: Vec<Name>) -> Vec<Name> {
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
