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

/// Crates that only these modules name.
const CRATES: [(&str, &[&str]); 9] = [
    ("anyhow", &["cli"]),
    ("clap", &["cli"]),
    ("hyper_util", &["store"]),
    ("landlock", &["confine"]),
    ("object_store", &["store"]),
    ("reqwest", &["store"]),
    ("seccompiler", &["confine"]),
    ("ureq", &["client"]),
    ("utoipa", &["description", "http"]),
];

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

/// Every file of a module, without tests: the module, the file within `src`, and its code.
fn files() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let file = |path: PathBuf| {
        let within = path.strip_prefix(&root).unwrap();
        let first = within.iter().next().unwrap().to_str().unwrap();
        let module = first.strip_suffix(".rs").unwrap_or(first).to_owned();
        let is_test = within.iter().any(|part| part == "tests.rs" || part == "tests");
        let is_left_out = is_test || ["lib", "main", "map"].contains(&module.as_str());
        (!is_left_out).then(|| (module, within.to_owned(), code(&path)))
    };
    paths.into_iter().filter_map(file).collect()
}

#[test]
fn modules_name_only_modules_below_them() {
    let rows = rows();
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for (module, within, code) in files() {
        let own = rows.get(&module).copied();
        for other in named(&code).into_iter().filter(|other| *other != module) {
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

#[test]
fn some_crates_are_named_by_few_modules() {
    let words = |code: &str| -> BTreeSet<String> {
        code.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned).collect()
    };
    let mut naming: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (module, _, code) in files() {
        let words = words(&code);
        for (name, _) in CRATES.iter().filter(|(name, _)| words.contains(*name)) {
            naming.entry(name).or_default().insert(module.clone());
        }
    }
    let expected = CRATES.map(|(name, modules)| (name, modules.iter().map(|m| (*m).to_owned()).collect()));
    assert_eq!(naming, BTreeMap::from(expected));
}
