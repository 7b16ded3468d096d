//! Metadata and chunks of objects that the cache directory keeps from one start to the next.

use std::fs::{self, File};
use std::path::Path;

use super::{PLAIN, Remote, shows};
use crate::common::objects::{Manner, Tags};
use crate::common::volumes::{self, Stored};
use crate::common::wait_until;

/// A file as the server writes it: the digest of the rest, a line of JSON, and pages.
fn sealed(head: &str, pages: &[u8]) -> Vec<u8> {
    let rest = [head.as_bytes(), b"\n", pages].concat();
    [blake3::hash(&rest).as_bytes().as_slice(), &rest].concat()
}

#[test]
fn what_is_no_kept_metadata_is_not_used_and_takes_no_memory() {
    let remote = Remote::with_scattered_planes();
    let settings = [&PLAIN[..], &["--set", "cache.directory=cache"]].concat();
    let mut first = remote.serve(&["planes.h5"], &settings);
    assert!(shows(&first, 1, 1));
    let usual = first.peak_memory();
    first.stop();
    let kept: Vec<_> = fs::read_dir(remote.place.path("cache/objects"))
        .unwrap()
        .collect();
    let [kept] = &kept[..] else {
        panic!("{kept:?}")
    };
    let kept = kept.as_ref().unwrap().path();
    let bytes = fs::read(&kept).unwrap();
    let line = &bytes[32..];
    let line =
        String::from_utf8_lossy(&line[..line.iter().position(|byte| *byte == b'\n').unwrap()])
            .into_owned();
    let with_pages = |pages: &str| {
        let (before, rest) = line.split_once("\"pages\":").unwrap();
        sealed(
            &format!(
                "{before}\"pages\":{pages},\"notes\"{}",
                rest.split_once("\"notes\"").unwrap().1
            ),
            &[7; 4096],
        )
    };
    let most = u64::MAX;
    let replacing: [&dyn Fn(&Path); 3] = [
        &|path| fs::write(path, with_pages(&format!("[[0,4096],[1,{most}]]"))).unwrap(),
        &|path| fs::write(path, with_pages(&format!("[[{most},4096]]"))).unwrap(),
        &|path| File::create(path).unwrap().set_len(1 << 31).unwrap(),
    ];
    for (number, replace) in replacing.iter().enumerate() {
        fs::remove_file(&kept).unwrap();
        replace(&kept);
        let mut server = remote.serve(&["planes.h5"], &settings);
        assert!(shows(&server, 1, 2), "{number}: {}", server.log());
        let taken = server.peak_memory().saturating_sub(usual) >> 20;
        assert!(taken < 200, "{number}: {taken} MiB");
        server.stop();
        assert!(
            !server.log().contains("panicked"),
            "{number}: {}",
            server.log()
        );
        assert!(
            fs::metadata(&kept).unwrap().len() < 1 << 30,
            "{number}: it is replaced"
        );
    }
}

#[test]
fn nothing_is_kept_of_an_object_whose_server_does_not_tell_its_states_apart() {
    let remote = Remote::new();
    remote.objects.answer(
        "",
        Manner {
            tags: Tags::None,
            ..Manner::default()
        },
    );
    let settings = ["cache.directory=cache", "cache.blocks=10 MiB"];
    let settings: Vec<&str> = settings
        .iter()
        .flat_map(|setting| ["--set", setting])
        .chain(PLAIN)
        .collect();
    let mut length = None;
    for seed in [1, 2] {
        let next = remote.place.path("written.h5");
        volumes::planes_of_old(&next, 3, seed, Stored::Flat);
        let bytes = fs::read(&next).unwrap();
        fs::remove_file(&next).unwrap();
        assert_eq!(*length.get_or_insert(bytes.len()), bytes.len());
        remote.replace("planes.h5", &bytes);
        let mut server = remote.serve(&["planes.h5"], &settings);
        for z in 0..3 {
            assert!(shows(&server, seed, z), "{seed} {z}");
        }
        wait_until("tiles are written", || {
            server.count("voltile_tier_writes_total") == 3
        });
        server.stop();
    }
}
