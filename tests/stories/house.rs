//! Compares the map of the code in the first pages of the crates with the code: the rows of modules
//! in `src`, the statics that hold state, and the functions named in `docs/architecture.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders with the code of each crate, and the prefix of their names in the documentation.
const CRATES: [(&str, &str); 5] = [
    ("base::", "crates/base/src"),
    ("demo::", "crates/demo/src"),
    ("hdf5::", "crates/hdf5/src"),
    ("render::", "crates/render/src"),
    ("", "src"),
];

/// Crates that only these modules of `src` name.
const NAMED_BY: [(&str, &[&str]); 5] = [
    ("anyhow", &["cli"]),
    ("clap", &["cli"]),
    ("landlock", &["confine"]),
    ("reqwest", &["tools"]),
    ("seccompiler", &["confine"]),
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn first_page(folder: &str) -> String {
    fs::read_to_string(project().join(folder).join("lib.rs")).unwrap()
}

/// A file without its tests.
struct SourceFile {
    /// The path of its module within the crate, such as `http/tiles`.
    name: String,
    /// The file's text without comments.
    code: String,
}

impl SourceFile {
    fn module(&self) -> &str {
        self.name.split('/').next().unwrap()
    }

    fn words(&self) -> BTreeSet<&str> {
        self.code
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .collect()
    }
}

/// The files of a crate, without tests, `lib.rs` and `main.rs`.
fn files_of(folder: &str) -> Vec<SourceFile> {
    let root = project().join(folder);
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    let mut files = Vec::new();
    for path in paths {
        let within = path.strip_prefix(&root).unwrap().with_extension("");
        let name = within.to_str().unwrap().to_owned();
        let is_test = name.split('/').any(|part| part.ends_with("tests"));
        if !is_test && name != "lib" && name != "main" {
            let code = code(&fs::read_to_string(&path).unwrap());
            files.push(SourceFile { name, code });
        }
    }
    files
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The code of the page, which is not Rust, is in `src/page`.
        if path.is_dir() && !path.ends_with("src/page") {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Removes comments, and the tests at the end.
fn code(text: &str) -> String {
    let own = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut code = String::new();
    for line in own.lines() {
        code.push_str(line.split("//").next().unwrap());
        code.push('\n');
    }
    code
}

/// The row of each module of `src` in the map.
fn rows() -> BTreeMap<String, u32> {
    let page = first_page("src");
    let map = page.split("//! ```").nth(1).unwrap();
    let mut rows = BTreeMap::new();
    for line in map.lines().filter_map(|line| line.strip_prefix("//! ")) {
        let mut words = line.split_whitespace();
        if let (Some(Ok(row)), Some(name)) = (words.next().map(str::parse), words.next()) {
            rows.insert(name.to_owned(), row);
        }
    }
    rows
}

#[test]
fn modules_name_only_modules_below_them() {
    let rows = rows();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in files_of("src") {
        let own_row = rows[file.module()];
        for rest in file.code.split("crate::").skip(1) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let named = &rest[..end.unwrap()];
            if named != file.module() && rows.get(named).is_none_or(|row| *row >= own_row) {
                wrong.push(format!("{} names {named}", file.name));
            }
        }
        seen.insert(file.module().to_owned());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen, rows.into_keys().collect(), "the modules, and the map");
}

#[test]
fn some_crates_are_named_by_few_modules() {
    let files = files_of("src");
    for (name, modules) in NAMED_BY {
        let naming = files.iter().filter(|file| file.words().contains(name));
        let naming: BTreeSet<&str> = naming.map(SourceFile::module).collect();
        assert_eq!(naming, modules.iter().copied().collect(), "{name}");
    }
}

/// The names of statics and thread-locals, except those of headers and of tables, which are
/// constant.
fn statics(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in code.lines() {
        let Some((before, rest)) = line.split_once("static ") else {
            continue;
        };
        let Some((name, kind)) = rest.split_once(": ") else {
            continue;
        };
        let is_declared = ["", "pub", "pub(super)", "pub(crate)"].contains(&before.trim());
        if is_declared && !kind.starts_with("HeaderName") && !kind.starts_with('[') {
            names.insert(name.to_owned());
        }
    }
    names
}

#[test]
fn statics_that_hold_state_are_listed_with_their_reasons() {
    for (_, folder) in CRATES {
        let page = first_page(folder);
        let section = page.split("//! # State").nth(1).unwrap_or_default();
        let section = section.split("//! # ").next().unwrap();
        let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut module = "";
        for name in section.split('`').skip(1).step_by(2) {
            if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                listed
                    .entry(module.to_owned())
                    .or_default()
                    .insert(name.to_owned());
            } else {
                module = name;
            }
        }
        let mut found = BTreeMap::new();
        for file in files_of(folder) {
            let statics = statics(&file.code);
            if !statics.is_empty() {
                found.insert(file.name.replace('/', "::"), statics);
            }
        }
        assert_eq!(listed, found, "{folder}");
    }
}

/// Whether a crate's function has this path, such as `http::tiles::answer`; a part that begins with
/// a capital is a type in the file of its module.
fn is_declared(path: &str) -> bool {
    let (prefix, folder) = CRATES
        .into_iter()
        .find(|(prefix, _)| path.starts_with(prefix))
        .unwrap();
    let parts: Vec<&str> = path[prefix.len()..].split("::").collect();
    let (function, parents) = parts.split_last().unwrap();
    let modules: Vec<&str> = parents
        .iter()
        .copied()
        .filter(|part| part.starts_with(char::is_lowercase))
        .collect();
    let file = project().join(folder).join(modules.join("/"));
    let code = fs::read_to_string(file.with_extension("rs")).unwrap_or_default();
    let declared = format!("fn {function}");
    let mut declarations = code.split(&declared).skip(1);
    declarations.any(|rest| rest.starts_with(['(', '<']))
}

#[test]
fn functions_named_on_the_page_about_architecture_exist() {
    let page = fs::read_to_string(project().join("docs/architecture.md")).unwrap();
    let mut missing = Vec::new();
    let mut found = 0;
    for name in page.split('`').skip(1).step_by(2) {
        let function = name.rsplit_once("::").map(|(_, function)| function);
        if !function.is_some_and(|function| function.starts_with(char::is_lowercase)) {
            continue;
        }
        if is_declared(name) {
            found += 1;
        } else {
            missing.push(name);
        }
    }
    assert!(
        missing.is_empty() && found > 40,
        "{found} of them exist, but not {missing:#?}"
    );
}
