//! Checks the module map in `lib.rs` against the code: a module names only modules in rows below
//! its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The row of each module in the map, which is the first block of text in the documentation of
/// `lib.rs`.
fn rows() -> BTreeMap<String, u32> {
    let map = include_str!("lib.rs").split("//! ```").nth(1).unwrap();
    let mut rows = BTreeMap::new();
    for line in map.lines().filter_map(|line| line.strip_prefix("//! ")) {
        let Some((row, rest)) = line.split_once("  ") else {
            continue;
        };
        let Ok(row) = row.parse() else { continue };
        // One module and what it does, or several modules.
        let names = rest.split("  ").next().unwrap();
        rows.extend(names.split(" · ").map(|name| (name.trim().to_owned(), row)));
    }
    rows
}

/// Crates that only these modules name.
const CRATES: [(&str, &[&str]); 8] = [
    ("anyhow", &["cli"]),
    ("clap", &["cli"]),
    ("hyper_util", &["store"]),
    ("landlock", &["confine"]),
    ("object_store", &["store"]),
    ("reqwest", &["store", "tools"]),
    ("seccompiler", &["confine"]),
    ("utoipa", &["base", "http"]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The code of the page, which is not Rust, is in `src/page`.
        if path.is_dir() && !path.ends_with("src/page") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without comments and without its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut lines = own.lines();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // `mod tests;`, or an import for tests.
            lines.next();
        } else {
            code.push_str(line.split("//").next().unwrap());
            code.push('\n');
        }
    }
    code
}

/// The modules that follow each `crate::`, also in braces.
fn named(code: &str) -> BTreeSet<String> {
    let first = |text: &str| {
        text.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let mut all = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => {
                all.extend(
                    group
                        .split('}')
                        .next()
                        .unwrap()
                        .split(',')
                        .map(|name| first(name.trim())),
                );
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
        let mut parts = within.iter().filter_map(|part| part.to_str());
        let is_test = parts.any(|part| part == "tests" || part.ends_with("tests.rs"));
        let is_left_out = is_test || ["lib", "main"].contains(&module.as_str());
        (!is_left_out).then(|| (module, within.to_owned(), code(&path)))
    };
    paths.into_iter().filter_map(file).collect()
}

/// The imports between files of one module.
struct Imports {
    /// Each file, named `volume/hdf5` if its path is `volume/hdf5.rs`, and the paths that it names:
    /// in `use` declarations, with braces expanded, and elsewhere.
    paths: BTreeMap<String, Vec<String>>,
    /// What each file imports for others (`pub use`): the name, and its path.
    exports: BTreeMap<String, BTreeMap<String, String>>,
}

impl Imports {
    fn of_all_files() -> Self {
        let name = |within: &Path| within.with_extension("").to_str().unwrap().to_owned();
        let codes: BTreeMap<String, String> = files()
            .into_iter()
            .map(|(_, within, code)| (name(&within), code))
            .collect();
        let mut imports = Self {
            paths: codes
                .keys()
                .map(|file| (file.clone(), Vec::new()))
                .collect(),
            exports: BTreeMap::new(),
        };
        for (file, code) in &codes {
            let mut rest = String::new();
            let (mut paths, mut exported) = (Vec::new(), BTreeMap::new());
            for statement in code.split_inclusive(';') {
                // What stands before `use` on its line: nothing, or its visibility.
                let (before, tree) = statement.rsplit_once("use ").unwrap_or((statement, ""));
                let start = before.rsplit('\n').next().unwrap().trim();
                let is_public =
                    start == "pub" || (start.starts_with("pub(") && start.ends_with(')'));
                if tree.is_empty() || tree.contains('"') || !(start.is_empty() || is_public) {
                    rest.push_str(statement);
                    continue;
                }
                rest.push_str(before);
                for path in expanded(tree.trim_end_matches(';')) {
                    let (path, alias) = path.split_once(" as ").unwrap_or((&path, &path));
                    let alias = alias.rsplit("::").next().unwrap().to_owned();
                    match imports.absolute(file, path) {
                        Some(path) if is_public => drop(exported.insert(alias, path)),
                        path => paths.extend(path),
                    }
                }
            }
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            for word in rest
                .split(|c| !is_part(c))
                .filter(|word| !word.starts_with("::"))
            {
                match exported.get(word.split("::").next().unwrap()) {
                    Some(path) => paths.push(path.clone()),
                    // A path to a file itself is a visibility.
                    None if word.contains("::") => {
                        paths.extend(
                            imports
                                .absolute(file, word)
                                .filter(|path| !imports.paths.contains_key(path)),
                        );
                    }
                    None => {}
                }
            }
            imports.paths.insert(file.clone(), paths);
            imports.exports.insert(file.clone(), exported);
        }
        imports
    }

    /// A path as seen from the root, with slashes; `None` if it does not lead to a file of this
    /// crate.
    fn absolute(&self, file: &str, path: &str) -> Option<String> {
        let mut parts: Vec<&str> = path
            .split("::")
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect();
        let mut from: Vec<&str> = file.split('/').collect();
        if *parts.first()? == "crate" {
            return Some(parts.split_off(1).join("/"));
        }
        let is_relative = ["self", "super"].contains(parts.first()?);
        while let Some(up @ ("self" | "super")) = parts.first().copied() {
            from.truncate(from.len() - usize::from(up == "super"));
            parts.remove(0);
        }
        let child = [&from[..], &parts[..parts.len().min(1)]].concat().join("/");
        let is_known = is_relative || self.paths.contains_key(&child);
        is_known.then(|| [&from[..], &parts[..]].concat().join("/"))
    }

    /// The file that declares what a path names.
    fn declaring(&self, path: &str) -> Option<String> {
        let mut file = path;
        while !self.paths.contains_key(file) {
            file = file.rsplit_once('/')?.0;
        }
        let mut rest = path[file.len()..].trim_start_matches('/').splitn(2, '/');
        let exported = rest
            .next()
            .and_then(|name| self.exports.get(file)?.get(name));
        match exported {
            Some(target) if target != path => match rest.next() {
                Some(more) => self.declaring(&format!("{target}/{more}")),
                None => self.declaring(target),
            },
            _ => Some(file.to_owned()),
        }
    }

    /// The other files of the same module that a file imports.
    fn imported(&self, file: &str) -> BTreeSet<String> {
        let module = |file: &str| file.split('/').next().unwrap().to_owned();
        let all = self.paths[file]
            .iter()
            .filter_map(|path| self.declaring(path));
        all.filter(|other| other != file && module(other) == module(file))
            .collect()
    }

    /// The sets of files of which each imports every other one, directly or through others.
    fn circles(&self) -> Vec<BTreeSet<String>> {
        let direct: BTreeMap<&String, BTreeSet<String>> = self
            .paths
            .keys()
            .map(|file| (file, self.imported(file)))
            .collect();
        let reached = |file: &String| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
            while let Some(file) = next.pop() {
                next.extend(
                    direct[file]
                        .iter()
                        .filter(|other| reached.insert((*other).clone())),
                );
            }
            reached
        };
        let reached: BTreeMap<&String, BTreeSet<String>> = self
            .paths
            .keys()
            .map(|file| (file, reached(file)))
            .collect();
        let circle = |file: &String| -> BTreeSet<String> {
            reached[file]
                .iter()
                .filter(|other| reached[other].contains(file))
                .cloned()
                .collect()
        };
        let circles: BTreeSet<BTreeSet<String>> = self.paths.keys().map(circle).collect();
        circles
            .into_iter()
            .filter(|circle| circle.len() > 1)
            .collect()
    }
}

/// The paths in the tree of a `use` declaration, on one line.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((before, group)) = tree.split_once('{') else {
        return vec![tree];
    };
    let group = &group[..group.rfind('}').unwrap()];
    let (mut depth, mut all) = (0, Vec::new());
    let parts = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        all.extend(expanded(&format!("{before}{part}")));
    }
    all
}

#[test]
fn files_of_a_module_do_not_import_one_another_in_circles() {
    let circles = Imports::of_all_files().circles();
    assert!(circles.is_empty(), "{circles:#?}");
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
                    wrong.push(format!(
                        "{module} ({own:?}) names {other} ({row:?}): {}",
                        within.display()
                    ));
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
        code.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map(str::to_owned)
            .collect()
    };
    let mut naming: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (module, _, code) in files() {
        let words = words(&code);
        for (name, _) in CRATES.iter().filter(|(name, _)| words.contains(*name)) {
            naming.entry(name).or_default().insert(module.clone());
        }
    }
    let expected =
        CRATES.map(|(name, modules)| (name, modules.iter().map(|m| (*m).to_owned()).collect()));
    assert_eq!(naming, BTreeMap::from(expected));
}

/// The names of statics and thread-locals, except those of headers and of tables, which are
/// constant.
fn statics(code: &str) -> BTreeSet<String> {
    let declared = code.lines().filter_map(|line| {
        line.split_once("static ")
            .filter(|(before, _)| ["", "pub", "pub(super)", "pub(crate)"].contains(&before.trim()))
    });
    let declared = declared.filter_map(|(_, rest)| rest.split_once(": "));
    declared
        .filter(|(_, kind)| !kind.starts_with("HeaderName") && !kind.starts_with('['))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[test]
fn statics_that_hold_state_are_listed_with_their_reasons() {
    let docs = include_str!("lib.rs")
        .split("//! # State")
        .nth(1)
        .unwrap()
        .split("//! # ")
        .next()
        .unwrap();
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut module = String::new();
    for name in docs.split('`').skip(1).step_by(2) {
        if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            listed
                .entry(module.clone())
                .or_default()
                .insert(name.to_owned());
        } else if name.contains("::") {
            module = name.to_owned();
        }
    }
    let mut found = BTreeMap::new();
    for (_, within, code) in files() {
        let statics = statics(&code);
        if !statics.is_empty() {
            found.insert(
                within
                    .with_extension("")
                    .to_str()
                    .unwrap()
                    .replace('/', "::"),
                statics,
            );
        }
    }
    assert_eq!(listed, found);
}

#[test]
fn functions_named_on_the_page_about_architecture_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let names: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let (mut missing, mut found) = (Vec::new(), 0);
    for name in names {
        let Some((path, function)) = name.rsplit_once("::") else {
            continue;
        };
        if !function.starts_with(char::is_lowercase) {
            continue;
        }
        // What begins with a capital is a type in the file of its module.
        let module: Vec<&str> = path
            .split("::")
            .filter(|part| part.starts_with(char::is_lowercase))
            .collect();
        let file = root.join("src").join(module.join("/")).with_extension("rs");
        let code = fs::read_to_string(&file).unwrap_or_default();
        let declared = format!("fn {function}");
        match code
            .split(&declared)
            .skip(1)
            .any(|rest| rest.starts_with(['(', '<']))
        {
            true => found += 1,
            false => missing.push(name),
        }
    }
    assert!(
        missing.is_empty() && found > 40,
        "{found} of them exist, but not {missing:#?}"
    );
}
