//! Objects that are replaced while they are served: each tile is of one generation, whatever the
//! store says of its objects.

use std::fs::{self, File};
use std::thread;
use std::time::{Duration, SystemTime};

use super::{PLANES, Remote, scattered, shows, tile};
use crate::common::objects::{Manner, Tags};
use crate::common::picture::Picture;
use crate::common::wire::Answer;
use crate::common::{MOUNT, Server, volumes, wait_until};

/// The bytes of `planes.h5` as [`scattered`] writes them.
fn generation(remote: &Remote, seed: usize) -> Vec<u8> {
    scattered(&remote.place.path("generation.h5"), seed);
    fs::read(remote.place.path("generation.h5")).unwrap()
}

/// The generation whose plane an answer shows; `None` if it is an error that asks to come back.
fn shown(answer: &Answer, z: usize) -> Option<usize> {
    if [500, 503].contains(&answer.status) {
        return None;
    }
    let picture = answer.picture();
    Some(
        (1..4)
            .find(|seed| picture == volumes::plane(*seed, z))
            .expect("it is of one generation"),
    )
}

/// Asks for all planes until all are of a generation; meanwhile, each is of one, and none goes
/// back.
fn wait_for_generation(server: &Server, seed: usize, story: &str) {
    let mut latest = [None; PLANES];
    let mut bodies = vec![Vec::new(); PLANES];
    wait_until(&format!("generation {seed} is served ({story})"), || {
        for (z, (latest, body)) in latest.iter_mut().zip(&mut bodies).enumerate() {
            let answer = server.get(&tile(z));
            if answer.body == *body {
                continue;
            }
            let now = shown(&answer, z);
            *body = answer.body;
            assert!(
                !(now.is_some() && now != Some(seed) && *latest == Some(seed)),
                "{story}: plane {z} went back"
            );
            *latest = now.or(*latest);
        }
        latest.iter().all(|shown| *shown == Some(seed))
    });
}

#[test]
#[ignore = "slow: replaces an object a hundred times"]
fn a_replaced_object_is_a_new_generation_with_other_tags_whatever_tells_them_apart() {
    for tags in [Tags::Strong, Tags::Weak, Tags::Times] {
        for ignores_match in [false, true] {
            let story = format!("{tags:?}, ignores If-Match: {ignores_match}");
            let remote = Remote::with_scattered_planes();
            remote.objects.answer(
                "",
                Manner {
                    tags,
                    ignores_match,
                    ..Manner::default()
                },
            );
            let old = fs::read(remote.path("planes.h5")).unwrap();
            let server = remote.serve_planes();
            server.allow_error("a tile could not be rendered");
            let first = server.get(&tile(0));
            assert_eq!(shown(&first, 0), Some(1));
            let new = generation(&remote, 2);
            assert!(new != old);
            fs::write(remote.place.path("next"), &new).unwrap();
            // The times of web servers have a resolution of a second.
            let file = File::options()
                .write(true)
                .open(remote.place.path("next"))
                .unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(5))
                .unwrap();
            fs::rename(remote.place.path("next"), remote.path("planes.h5")).unwrap();
            wait_for_generation(&server, 2, &story);
            assert_ne!(server.get(&tile(0)).etag(), first.etag(), "{story}");
            // Another length.
            let mut longer = generation(&remote, 3);
            longer.extend_from_slice(&[0; 1000]);
            remote.replace("planes.h5", &longer);
            wait_for_generation(&server, 3, &story);
        }
    }
}

#[test]
fn without_tags_and_times_the_length_tells_generations_apart() {
    let remote = Remote::with_scattered_planes();
    remote.objects.answer(
        "",
        Manner {
            tags: Tags::None,
            ..Manner::default()
        },
    );
    let server = remote.serve_planes();
    server.allow_error("a tile could not be rendered");
    assert!(shows(&server, 1, 0));
    let mut longer = generation(&remote, 2);
    longer.extend_from_slice(&[0; 1000]);
    remote.replace("planes.h5", &longer);
    wait_for_generation(&server, 2, "no tags");
}

#[test]
fn a_change_of_an_object_whose_tiles_are_all_cached_is_noticed() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    assert!((0..PLANES).all(|z| shows(&server, 1, z)));
    remote.replace("planes.h5", &generation(&remote, 2));
    wait_for_generation(&server, 2, "all cached");
}

#[test]
#[ignore = "slow: replaces an object sixty times"]
fn no_tile_is_made_from_two_generations_of_an_object() {
    let remote = Remote::with_scattered_planes();
    // Each row of an xz tile is of another chunk. Chunks take a while, so that some come before a
    // change and some after.
    let path = format!("{MOUNT}/planes/raw/xz/7/0_0_0.png");
    let generations = [generation(&remote, 1), generation(&remote, 2)];
    let expected: Vec<Picture> = (0..2)
        .map(|number| {
            let folder = remote.place.path(&format!("local{number}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("planes.h5"), &generations[number]).unwrap();
            let mut arguments = vec![folder.join("planes.h5").into_os_string()];
            arguments.extend(super::PLAIN.map(Into::into));
            remote.place.serve(arguments).get(&path).picture()
        })
        .collect();
    assert!(expected[0] != expected[1]);
    for ignores_match in [false, true] {
        let delay = Duration::from_millis(10);
        remote.objects.answer(
            "",
            Manner {
                delay,
                ignores_match,
                ..Manner::default()
            },
        );
        let server = remote.serve_planes();
        server.allow_error("a tile could not be rendered");
        for round in 0..30 {
            let mut connection = server.connect();
            connection.send("GET", &path, &[]);
            thread::sleep(Duration::from_millis(round % 15 * 3));
            remote.replace("planes.h5", &generations[round as usize % 2]);
            let answer = connection.receive("GET").unwrap();
            if ![500, 503].contains(&answer.status) {
                assert!(expected.contains(&answer.picture()), "round {round}");
            }
        }
        let last = &expected[1];
        wait_until("the last generation is served", || {
            let answer = server.get(&path);
            answer.status == 200 && answer.picture() == *last
        });
    }
}

#[test]
fn metadata_kept_of_another_generation_is_not_used() {
    let remote = Remote::with_scattered_planes();
    let settings = [&super::PLAIN[..], &["--set", "cache.directory=cache"]].concat();
    drop({
        let server = remote.serve(&["planes.h5"], &settings);
        assert!(shows(&server, 1, 0));
        server
    });
    // The planes are stored in another order.
    let mut file = generation(&remote, 2);
    let (one, two) = (super::DISTANCE as u64, 2 * super::DISTANCE as u64);
    let place = |file: &[u8], address: u64| {
        (0..file.len() - 8)
            .find(|at| file[*at..*at + 8] == address.to_le_bytes())
            .expect("it is in the index")
    };
    let (first, second) = (place(&file, one), place(&file, two));
    file[first..first + 8].copy_from_slice(&two.to_le_bytes());
    file[second..second + 8].copy_from_slice(&one.to_le_bytes());
    remote.replace("planes.h5", &file);
    let server = remote.serve(&["planes.h5"], &settings);
    server.allow_error("a tile could not be rendered");
    server.allow_error("every tile that touches this chunk is an error");
    for z in 2..PLANES {
        assert!(shows(&server, 2, z), "plane {z}");
    }
    for (z, other) in [(0, 1), (1, 0)] {
        let answer = server.get(&tile(z));
        // The sizes of the chunks are those of the other planes.
        assert!(
            answer.status == 500 || answer.picture() == volumes::plane(2, other),
            "{answer:?}"
        );
    }
}

#[test]
fn a_server_that_always_says_that_an_object_has_changed_harms_nobody_else() {
    let remote = Remote::with_scattered_planes();
    volumes::planes(
        &remote.place.path("local.h5"),
        PLANES,
        2,
        volumes::Stored::Gzip,
    );
    let server = remote.serve(&["planes.h5"], &[&["local.h5"][..], &super::PLAIN].concat());
    server.allow_error("a tile could not be rendered");
    remote.objects.answer(
        "planes.h5",
        Manner {
            fault: Some((
                crate::common::objects::Fault::Status(412, String::new()),
                usize::MAX,
            )),
            ..Manner::default()
        },
    );
    for z in 1..PLANES {
        assert_eq!(server.get(&tile(z)).status, 500);
        let local = server.tile(&format!("local/raw/xy/{z}/0_0_0.png"));
        assert_eq!(local.picture(), volumes::plane(2, z));
    }
    remote.objects.mend();
    wait_until("it is served again", || {
        (0..PLANES).all(|z| shows(&server, 1, z))
    });
}

#[test]
#[ignore = "slow: an object that was seen is looked at again after ten seconds"]
fn an_object_that_crashed_the_library_is_served_once_it_is_replaced() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    server.allow_error("a tile could not be rendered");
    server.allow_error("crashes the HDF5 library");
    assert!(shows(&server, 1, 0));
    volumes::crashing(&remote.place.path("crash.h5"));
    let crashing = fs::read(remote.place.path("crash.h5")).unwrap();
    remote.replace("planes.h5", &crashing);
    wait_until("it is refused", || {
        server.get(&tile(1));
        server.log().contains("crashes the HDF5 library")
    });
    remote.replace("planes.h5", &generation(&remote, 2));
    wait_for_generation(&server, 2, "repaired");
}
