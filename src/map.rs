//! Checks the module map in `lib.rs` against the code: a module names only modules in rows below its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The row of each module in the map, which is the first block of text in the documentation of `lib.rs`.
fn rows() -> BTreeMap<String, u32> {
    let map = include_str!("lib.rs").split("//! ```").nth(1).unwrap();
    let mut rows = BTreeMap::new();
    for line in map.lines().filter_map(|line| line.strip_prefix("//! ")) {
        let Some((row, rest)) = line.split_once("  ") else { continue };
        let Ok(row) = row.parse() else { continue };
        // One module and what it does, or several modules.
        let names = rest.split("  ").next().unwrap();
        rows.extend(names.split(" · ").map(|name| (name.trim().to_owned(), row)));
    }
    rows
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().unwrap() != "page" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without comments and without its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let own = text.split("#[cfg(test)]\nmod ").next().unwrap();
    own.lines().filter_map(|line| line.split("//").next()).collect::<Vec<_>>().join("\n")
}

/// The modules that follow each `crate::`, also in braces.
fn named(code: &str) -> BTreeSet<String> {
    let first =
        |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut all = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => {
                all.extend(group.split('}').next().unwrap().split(',').map(|name| first(name.trim())));
            }
            None => drop(all.insert(first(rest))),
        }
    }
    all.retain(|name| !name.is_empty());
    all
}

#[test]
fn modules_name_only_modules_below_them() {
    let (rows, root) = (rows(), Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for path in files {
        let within = path.strip_prefix(&root).unwrap();
        let first = within.iter().next().unwrap().to_str().unwrap();
        let module = first.strip_suffix(".rs").unwrap_or(first).to_owned();
        let is_test = within.iter().any(|part| part == "tests.rs" || part == "tests");
        if ["lib", "main", "map"].contains(&module.as_str()) || is_test {
            continue;
        }
        let own = rows.get(&module).copied();
        for other in named(&code(&path)).into_iter().filter(|other| *other != module) {
            match (own, rows.get(&other)) {
                (Some(own), Some(row)) if *row < own => {}
                (own, row) => {
                    wrong.push(format!("{module} ({own:?}) names {other} ({row:?}): {}", within.display()));
                }
            }
        }
        seen.insert(module);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen, rows.into_keys().collect(), "the map and the modules");
}
