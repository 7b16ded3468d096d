//! The manual: its links lead somewhere, the README leads to each page, and no page is long.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Place, made};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files in a folder and below it, but for npm's.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    let entries = entries.filter(|path| !path.ends_with("node_modules"));
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn text(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).expect("it can be read")).into_owned()
}

/// The pages of the manual, and the other texts that link to them.
fn pages() -> Vec<PathBuf> {
    let others = [
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "fixtures/README.md",
    ];
    files(&root().join("docs"))
        .into_iter()
        .chain(others.map(|page| root().join(page)))
        .collect()
}

/// A page without its blocks of code.
fn prose(page: &Path) -> String {
    let text = text(page);
    // Every second part lies between two fences.
    text.split("```").step_by(2).collect()
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let anchor = |heading: &str| {
        let kept = heading
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        kept.chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect()
    };
    prose(page)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(anchor)
        .collect()
}

#[test]
fn every_link_in_the_manual_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut broken = Vec::new();
    for page in pages() {
        let prose = prose(&page);
        let links = prose
            .split("](")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.with_file_name(file)
            };
            if !target.exists() || !anchor.is_empty() && !anchors(&target).contains(anchor) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}

#[test]
fn code_and_packages_name_only_pages_that_exist() {
    for file in ["src", "scripts", "packaging", "fixtures/README.md"].map(|path| root().join(path))
    {
        for file in if file.is_dir() {
            files(&file)
        } else {
            vec![file]
        } {
            for named in text(&file).split("docs/").skip(1) {
                let Some((name, _)) = named.split_once(".md") else {
                    continue;
                };
                let is_page = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
                let page = root().join("docs").join(name).with_extension("md");
                assert!(
                    !is_page || page.exists(),
                    "{} names docs/{name}.md",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn the_readme_leads_to_each_page_and_no_page_is_long() {
    let readme = text(&root().join("README.md"));
    for page in files(&root().join("docs")) {
        let name = page
            .strip_prefix(root())
            .expect("it is below")
            .display()
            .to_string();
        assert!(
            readme.contains(&format!("]({name})")),
            "the README has no link to {name}"
        );
        assert!(text(&page).lines().count() <= 200, "{name} is too long");
    }
    assert!(readme.lines().count() <= 150, "the README is too long");
}

#[test]
fn the_requests_of_viewers_by_hand_have_the_answers_that_the_manual_says() {
    let place = Place::new();
    made::file(&place.path("TOKEN.h5"), |file| {
        made::put(file, "raw", &made::cube([2, 40, 40]));
    });
    let server = place.serve(["TOKEN.h5"]);
    let page = text(&root().join("docs/viewers.md"));
    let lines: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("curl "))
        .collect();
    assert!(lines.len() >= 7, "{lines:?}");
    for line in lines {
        let (request, expected) = line.split_once('#').expect("it says what the answer is");
        let (_, target) = request.trim_end().split_once("8080").expect("an address");
        let answer = server.ask(
            "HEAD",
            &target.replace("CHANNEL", "raw"),
            &[("Origin", "https://example.org")],
        );
        let kind = answer.header("content-type").unwrap_or_default();
        assert!(
            format!("{} {kind}", answer.status).starts_with(expected.trim()),
            "{line}: {answer:?}"
        );
        assert!(answer.header("content-length").is_some(), "{line}");
        assert!(
            answer.header("access-control-allow-origin").is_some(),
            "{line}"
        );
    }
}
