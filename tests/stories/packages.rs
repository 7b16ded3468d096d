//! The contents of packages beside the program: manual pages and completions, generated from its
//! commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Place, outcome};

/// Every command that the help texts list, with those above it: `cache`, `cache stats`, ….
fn commands(place: &Place, above: &[String]) -> Vec<Vec<String>> {
    let help = place.run(above.iter().map(String::as_str).chain(["--help"]));
    assert_eq!(help.code, 0, "{}", help.err);
    let listed = help.out.split("Commands:\n").nth(1).unwrap_or_default();
    let names = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            // Continued lines are indented further.
            let name = line
                .strip_prefix("  ")
                .filter(|line| !line.starts_with(' '))?
                .split(' ')
                .next()?;
            (name != "help").then(|| [above, &[name.to_owned()]].concat())
        });
    names
        .flat_map(|command| [vec![command.clone()], commands(place, &command)].concat())
        .collect()
}

/// Is this program installed? A story about it says so if not.
fn installed(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn completions(place: &Place, shell: &str) -> String {
    let printed = place.run(["completions", shell]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    printed.out
}

#[test]
fn every_command_has_a_manual_page_with_all_of_its_options() {
    let place = Place::new();
    let written = place.run(["man", "below/pages"]);
    assert_eq!(
        (written.code, written.out.as_str()),
        (0, ""),
        "{}",
        written.err
    );
    let commands = commands(&place, &[]);
    assert!(commands.len() >= 13, "{commands:?}");
    for command in &commands {
        let page =
            fs::read_to_string(place.path(&format!("below/pages/voltile-{}.1", command.join("-"))))
                .unwrap();
        let page = page.replace("\\-", "-");
        let help = place
            .run(command.iter().map(String::as_str).chain(["--help"]))
            .out;
        let options = help
            .split_whitespace()
            .filter(|word| word.starts_with("--"));
        for option in options {
            let option = option.trim_matches(|c: char| !c.is_ascii_lowercase());
            assert!(page.contains(option), "{command:?}: {option}");
        }
    }
    let pages = fs::read_dir(place.path("below/pages")).unwrap().count();
    assert_eq!(
        pages,
        commands.len() + 1,
        "and one for voltile itself; none for hidden commands"
    );
}

#[test]
fn manual_pages_that_cannot_be_written_are_reported() {
    let place = Place::new();
    place.write("file", "");
    let refused = place.run(["man", "file/pages"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .err
            .contains("file/pages: the directory cannot be created"),
        "{}",
        refused.err
    );
}

#[test]
fn completions_parse_in_their_shells_and_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = completions(&place, shell);
        for command in commands(&place, &[]) {
            assert!(
                script.contains(command.last().unwrap().as_str()),
                "{shell}: {command:?}"
            );
        }
        assert!(
            !script.contains("probe"),
            "{shell}: hidden commands are not completed"
        );
        let path = place.write(shell, &script);
        if installed(shell) {
            let parsed = outcome(Command::new(shell).arg("-n").arg(path));
            assert_eq!((parsed.code, parsed.err.as_str()), (0, ""), "{shell}");
        }
    }
}

#[test]
fn bash_completes_commands_and_options() {
    if !installed("bash") {
        return;
    }
    let place = Place::new();
    let script = completions(&place, "bash");
    let complete = |words: &str, current: &str| {
        let words =
            format!("COMP_WORDS=({words} '{current}'); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))");
        let call = format!(
            "{script}\n{words}\n_voltile voltile '{current}' ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        outcome(Command::new("bash").args(["--norc", "-c", &call])).out
    };
    assert_eq!(complete("voltile", "ins"), "inspect\n");
    assert_eq!(complete("voltile serve", "--bi"), "--bind\n");
}

/// The arguments with which `scripts/serve` runs a program that has been built.
fn passed_by_script(place: &Place, arguments: &[&str]) -> Vec<String> {
    let ran = outcome(
        place
            .started(&place.path("scripts/serve"))
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", place.path("bin").display()),
            )
            .args(arguments),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn the_script_serves_the_demo_if_it_is_given_flags_alone() {
    let place = Place::new();
    for folder in ["scripts", "bin", "target/release"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, place.path("scripts").join(path.file_name().unwrap())).unwrap();
        }
    }
    // Nothing is fetched or built: the script only has to pass its arguments on.
    let target = place.path("target");
    let cargo = format!(
        "case $1 in metadata) echo '{{\"target_directory\":\"{}\"}}' ;; esac",
        target.display()
    );
    for (name, text) in [
        ("scripts/setup", ""),
        ("bin/cargo", cargo.as_str()),
        (
            "target/release/voltile",
            "for argument; do echo \"$argument\"; done",
        ),
    ] {
        let path = place.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for flags in [
        &[][..],
        &["--bind", "127.0.0.1:9000"],
        &["--bind=127.0.0.1:9000", "--set", "render.threads=2"],
        &["--set=cache.tiles=0", "--bind", "[::1]:0"],
    ] {
        let expected: Vec<&str> = ["serve", "--demo"].iter().chain(flags).copied().collect();
        assert_eq!(passed_by_script(&place, flags), expected);
    }
    for other in [
        &["my.h5"][..],
        &["--bind", "127.0.0.1:9000", "my.h5"],
        &["--config", "lab.toml", "--bind", "127.0.0.1:9000"],
        &["--demo", "--bind", "127.0.0.1:9000"],
        &["--set", "datasets.a.file=a.h5"],
        &["--help"],
        &["--bind"],
    ] {
        let expected: Vec<&str> = ["serve"].iter().chain(other).copied().collect();
        assert_eq!(passed_by_script(&place, other), expected);
    }
    place.write("voltile.toml", "");
    assert_eq!(
        passed_by_script(&place, &["--bind", "[::1]:0"]),
        ["serve", "--bind", "[::1]:0"]
    );
}

#[test]
fn no_package_names_an_address_that_cannot_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(
        manifest.contains("\nmaintainer = \"voltile developers\"\n"),
        "the maintainer is named"
    );
    for file in [
        "Cargo.toml",
        "README.md",
        "SECURITY.md",
        "scripts/package",
        "packaging/pyproject.toml",
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert!(!text.contains("@voltile"), "{file}");
    }
}
