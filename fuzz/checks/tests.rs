//! Every target on its corpus in `fixtures/fuzz`, and on mutations of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::*;

/// The limits on the time and the number of mutations of each target. Their number depends on the
/// machine, their order does not.
const PATIENCE: Duration = Duration::from_millis(400);
const MAX_MUTATIONS: usize = 4000;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fuzz")
}

/// The inputs of a target's corpus, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = corpora().join(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Changes an input in a few places, or joins it with another.
fn mutated(corpus: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = random.choice(corpus).unwrap().clone();
    for _ in 0..random.usize(1..6) {
        let place = random.usize(..=bytes.len());
        match random.u8(..6) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, random.u8(..)),
            2 => {
                let other = random.choice(corpus).unwrap();
                bytes.truncate(place);
                bytes.extend_from_slice(&other[random.usize(..=other.len())..]);
            }
            3 => {
                let end = (place + random.usize(..8)).min(bytes.len());
                bytes.drain(place..end);
            }
            _ if place < bytes.len() => {
                let extremes = [
                    0,
                    1,
                    0x7f,
                    0x80,
                    0xff,
                    bytes[place] ^ 1 << random.u8(..8),
                    random.u8(..),
                ];
                bytes[place] = *random.choice(&extremes).unwrap();
            }
            _ => {}
        }
    }
    bytes
}

#[test]
fn targets_run_on_their_corpora_and_on_mutations_of_them() {
    for target in targets() {
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "{target} has no corpus");
        corpus.iter().for_each(|input| run(target, input));
        let (mut random, began) = (fastrand::Rng::with_seed(16), Instant::now());
        for _ in 0..MAX_MUTATIONS {
            run(target, &mutated(&corpus, &mut random));
            if began.elapsed() > PATIENCE {
                break;
            }
        }
    }
}

#[test]
fn each_target_has_a_corpus_and_a_binary() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for target in [
        "addresses",
        "configuration",
        "filter",
        "pipeline",
        "requests",
    ] {
        assert!(
            manifest.contains(&format!("name = \"{target}\"")),
            "{target}"
        );
        let code = fs::read_to_string(root.join(format!("fuzz_targets/{target}.rs"))).unwrap();
        let argument = if target == "filter" {
            "&filter".to_owned()
        } else {
            format!("{target:?}")
        };
        assert!(code.contains(&format!("run({argument}, data)")), "{target}");
    }
    let mut folders: Vec<String> = fs::read_dir(corpora())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut known: Vec<&str> = targets().collect();
    folders.sort();
    known.sort_unstable();
    assert_eq!(folders, known);
}
