//! Credentials in addresses and in the environment are sent to their own store, and to nobody else:
//! no log, error, description, metric or kept file has them.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::{PLANES, Remote, tile};
use crate::common::objects::Fault;
use crate::common::{Place, outcome, wait_until};

const PASSWORD: &str = "hunter2hunter2";
const SIGNATURE: &str = "5ec4e7s16na70fe";
const KEY: &str = "AKIAVOLTILETEST00001";
const SECRET: &str = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE";
const TOKEN: &str = "FwoGZXIvYXdzSESSION70KEN";

/// Base64 of `me:hunter2hunter2`, as it is sent.
const BASIC: &str = "bWU6aHVudGVyMmh1bnRlcjI=";

/// That a text has no credentials in it. The key and the signature of a request to S3 are
/// credentials, too.
fn assert_clean(text: &str, place: &str) {
    for secret in [PASSWORD, SIGNATURE, KEY, SECRET, TOKEN, BASIC, "Signature="] {
        let line = text.lines().find(|line| line.contains(secret));
        assert!(
            line.is_none(),
            "{place} has {secret}: {}",
            line.unwrap_or_default()
        );
    }
}

/// All files below a folder.
pub(super) fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
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

/// Addresses with credentials, of three kinds.
fn addresses(remote: &Remote) -> [String; 3] {
    fs::create_dir_all(remote.path("bucket")).unwrap();
    for name in ["a.h5", "b.h5", "bucket/c.h5"] {
        super::scattered(&remote.path(name), 1);
    }
    [
        remote
            .url("a.h5")
            .replace("://", &format!("://me:{PASSWORD}@")),
        remote.url(&format!(
            "b.h5?X-Amz-Signature={SIGNATURE}&X-Amz-Credential={KEY}"
        )),
        "s3://bucket/c.h5".to_owned(),
    ]
}

pub(super) fn with_keys<'a>(command: &'a mut Command, remote: &Remote) -> &'a mut Command {
    command
        .env(
            "AWS_ENDPOINT_URL",
            format!("http://{}", remote.objects.address),
        )
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_SESSION_TOKEN", TOKEN)
}

#[test]
fn credentials_are_in_nothing_that_the_server_says_or_keeps() {
    for level in ["debug", "trace"] {
        let remote = Remote::new();
        let addresses = addresses(&remote);
        let mut command = remote.place.voltile([
            "serve",
            "--bind",
            "127.0.0.1:0",
            "--set",
            "cache.directory=cache",
        ]);
        with_keys(command.args(&addresses).env("VOLTILE_LOG", level), &remote);
        let server = remote.place.start(command);
        server.allow_error("");
        for token in ["a", "b", "c"] {
            let path = tile(3).replace("planes", token);
            assert_eq!(server.get(&path).status, 200, "{token}: {}", server.log());
        }
        let mut bodies = Vec::new();
        let faults = [
            Fault::Status(403, String::new()),
            Fault::Status(400, String::new()),
            Fault::Status(302, "Location: /elsewhere.h5".to_owned()),
            Fault::Status(
                302,
                format!("Location: http://127.0.0.1:1/x?X-Amz-Signature={SIGNATURE}"),
            ),
            Fault::Twice,
            Fault::Whole,
            Fault::Bytes(b"what?\r\n\r\n".to_vec()),
            Fault::Status(503, String::new()),
        ];
        for (number, fault) in faults.into_iter().enumerate() {
            // A server may redirect to an address that it has signed.
            remote.objects.break_down("", fault);
            for token in ["a", "b", "c"] {
                bodies.push(server.get(&tile(number % PLANES).replace("planes", token)));
            }
        }
        remote.objects.go_down();
        for token in ["a", "b", "c"] {
            bodies.push(server.get(&tile(5).replace("planes", token)));
        }
        for path in [
            "/datasets.json",
            "/readyz",
            "/metrics",
            "/",
            "/simple",
            "/projects.json",
            "/datasets/a.json",
        ] {
            bodies.push(server.get(path));
        }
        for answer in &bodies {
            assert_clean(&String::from_utf8_lossy(&answer.body), "an answer");
        }
        assert_clean(&server.printed(), "the output");
        assert_clean(&server.log(), &format!("the log at {level}"));
        for file in files(&remote.place.path("cache")) {
            assert_clean(&file.display().to_string(), "a name");
            assert_clean(
                &String::from_utf8_lossy(&fs::read(&file).unwrap()),
                &file.display().to_string(),
            );
        }
    }
}

#[test]
fn credentials_are_sent_to_the_store_that_they_are_for() {
    let remote = Remote::new();
    let addresses = addresses(&remote);
    let mut command = remote.place.voltile(["serve", "--bind", "127.0.0.1:0"]);
    with_keys(command.args(&addresses), &remote);
    let server = remote.place.start(command);
    for token in ["a", "b", "c"] {
        assert_eq!(
            server.get(&tile(3).replace("planes", token)).status,
            200,
            "{token}"
        );
    }
    let asked = remote.objects.asked();
    let of = |path: &str| {
        asked
            .iter()
            .filter(|asked| asked.path == path)
            .collect::<Vec<_>>()
    };
    assert!(of("a.h5").len() > 1 && of("b.h5").len() > 1 && of("bucket/c.h5").len() > 1);
    for asked in &asked {
        let authorization = asked
            .headers
            .get("authorization")
            .map_or("", String::as_str);
        match asked.path.as_str() {
            "a.h5" => assert_eq!(authorization, format!("Basic {BASIC}")),
            "b.h5" => assert!(
                asked.query.contains(SIGNATURE) && authorization.is_empty(),
                "{asked:?}"
            ),
            "bucket/c.h5" => {
                assert!(
                    authorization.starts_with("AWS4-HMAC-SHA256") && authorization.contains(KEY),
                    "{asked:?}"
                );
                assert_eq!(asked.headers["x-amz-security-token"], TOKEN);
            }
            _ => {}
        }
        assert!(!format!("{asked:?}").contains(SECRET), "{asked:?}");
    }
}

#[test]
fn credentials_are_in_no_output_of_a_command() {
    let remote = Remote::new();
    let addresses = addresses(&remote);
    let mut text = String::new();
    for (token, address) in ["a", "b", "c"].iter().zip(&addresses) {
        text += &format!("[datasets.{token}]\nfile = \"{address}\"\n");
    }
    remote.place.write("voltile.toml", &text);
    let run = |place: &Place, arguments: &[&str], level: &str| {
        let mut command = place.voltile(arguments);
        let outcome = outcome(with_keys(command.env("VOLTILE_LOG", level), &remote));
        assert_clean(&outcome.out, &format!("the output of {arguments:?}"));
        assert_clean(
            &outcome.err,
            &format!("the messages of {arguments:?} at {level}"),
        );
        outcome
    };
    for level in ["info", "trace"] {
        for arguments in [
            &["config", "example"][..],
            &["check"],
            &["render", &tile(1).replace("planes", "a"), "-o", "x.png"],
        ] {
            assert_eq!(
                run(&remote.place, arguments, level).code,
                0,
                "{arguments:?}"
            );
        }
        for address in &addresses {
            assert_eq!(run(&remote.place, &["inspect", address], level).code, 0);
            let wrong = address.replace(".h5", "_absent.h5");
            assert_eq!(run(&remote.place, &["check", &wrong], level).code, 1);
        }
    }
    remote.objects.go_down();
    for address in &addresses {
        assert_ne!(run(&remote.place, &["check", address], "trace").code, 0);
    }
    let wrong = format!("https://me:{PASSWORD}@/?X-Amz-Signature={SIGNATURE}");
    assert_ne!(run(&remote.place, &["check", &wrong], "trace").code, 0);
}

#[test]
fn rotated_credentials_are_read_again_when_they_are_refused_and_when_told_to() {
    let remote = Remote::new();
    fs::create_dir(remote.path("bucket")).unwrap();
    super::scattered(&remote.path("bucket/planes.h5"), 1);
    let rotated = |key: &str| {
        let text =
            format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n");
        remote.place.write("credentials", &text);
        remote
            .objects
            .break_down("", Fault::Unless(format!("Credential={key}/")));
    };
    rotated("ONE");
    let mut command =
        remote
            .place
            .voltile(["serve", "s3://bucket/planes.h5", "--bind", "127.0.0.1:0"]);
    with_keys(command.args(super::PLAIN), &remote);
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    ] {
        command.env_remove(name);
    }
    command.env(
        "AWS_SHARED_CREDENTIALS_FILE",
        remote.place.path("credentials"),
    );
    let server = remote.place.start(command);
    assert!(super::shows(&server, 1, 2), "{}", server.log());
    rotated("TWO");
    assert!(super::shows(&server, 1, 3), "{}", server.log());
    // They were read a moment ago, and are not read again at once.
    rotated("THREE");
    assert_eq!(server.get(&tile(4)).status, 503);
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded");
    wait_until("the third key is used", || super::shows(&server, 1, 4));
}

#[test]
fn settings_of_stores_are_read_in_all_their_spellings() {
    let remote = Remote::new();
    fs::create_dir_all(remote.path("bucket")).unwrap();
    super::scattered(&remote.path("bucket/planes.h5"), 1);
    let server = format!("http://{}", remote.objects.address);
    let s3 = ("AWS_ENDPOINT_URL_S3", server.as_str());
    let azure = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "lab"),
        ("AZURE_SKIP_SIGNATURE", "1"),
    ];
    let any = ("AWS_SKIP_SIGNATURE", "yes");
    let hosted = ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "1");
    for (address, settings) in [
        ("s3", vec![s3, any, ("AWS_ALLOW_HTTP", "1")]),
        // A number cannot be part of a bucket's host name.
        ("s3", vec![s3, any, hosted, ("AWS_ALLOW_HTTP", "TRUE")]),
        ("az", [&azure[..], &[("AZURE_ENDPOINT", &server)]].concat()),
        (
            "az",
            [&azure[..], &[("AZURE_STORAGE_ENDPOINT", &server)]].concat(),
        ),
    ] {
        let address = format!("{address}://bucket/planes.h5");
        let mut command = remote.place.voltile(["check", &address]);
        let outcome = outcome(command.envs(settings.iter().copied()));
        assert_eq!(outcome.code, 0, "{settings:?}: {}", outcome.err);
    }
    let mut command = remote.place.voltile(["check", "s3://bucket/planes.h5"]);
    let outcome = outcome(command.envs([s3, any, ("AWS_ALLOW_HTTP", "perhaps")]));
    assert!(
        outcome.code == 1 && outcome.err.contains("failed to parse \"perhaps\""),
        "{}",
        outcome.err
    );
}

#[test]
fn missing_credentials_are_told_from_a_store_that_is_down() {
    let place = Place::new();
    let mut command = place.voltile(["check", "s3://bucket/planes.h5"]);
    // Without a way to the machine that would be asked for credentials.
    command
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_REGION", "eu-central-1");
    command
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("AWS_SHARED_CREDENTIALS_FILE", place.path("none"));
    command.env("AWS_CONFIG_FILE", place.path("none"));
    let outcome = outcome(&mut command);
    assert!(
        outcome.code == 1 && outcome.err.contains("there are no credentials"),
        "{}",
        outcome.err
    );
}

/// The children of a process that exist now.
fn children(of: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        status.lines().any(|line| {
            line.strip_prefix("PPid:")
                .is_some_and(|id| id.trim() == of.to_string())
        })
    };
    numbers.filter(is_child).collect()
}

#[test]
fn a_trial_child_has_neither_the_environment_nor_the_open_files_of_the_server() {
    let remote = Remote::with_scattered_planes();
    let place = &remote.place;
    place.write("lab.txt", "secret-of-the-lab-of-today");
    place.write(
        "voltile.toml",
        &format!(
            "[server]\nbind = \"127.0.0.1:0\"\n[[access]]\nsecrets = \"/dev/fd/7\"\n[datasets.planes]\nfile = {:?}\n",
            remote.url("planes.h5")
        ),
    );
    // The child waits for its object until somebody has looked at it.
    remote.objects.break_down("planes.h5", Fault::Silence);
    let mut command = place.limited("exec 7<lab.txt", ["serve"]);
    let mut server = with_keys(&mut command, &remote).spawn().unwrap();
    let mut child = None;
    wait_until("a trial waits for its object", || {
        child = children(server.id()).first().copied();
        child.is_some() && remote.objects.waiting() > 0
    });
    let child = child.unwrap();
    let environment = fs::read(format!("/proc/{child}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment).replace('\0', "\n");
    let open: Vec<_> = fs::read_dir(format!("/proc/{child}/fd"))
        .unwrap()
        .flatten()
        .collect();
    let open: Vec<_> = open
        .iter()
        .map(|entry| fs::read_link(entry.path()).unwrap_or_default())
        .collect();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_clean(&environment, "the environment of a trial child");
    assert!(
        !open.contains(&place.path("lab.txt").canonicalize().unwrap()),
        "{open:?}"
    );
}
