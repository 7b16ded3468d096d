//! Volumes in many files: a missing part is a gap, and an unreadable one is an error.
//!
//! The volumes are BigDataViewer's with a file for each time point. All voxels at time t are 10 t +
//! 10.

use std::fs;

use crate::common::{Place, Server, made};
use ndarray::{ArrayD, IxDyn};

/// Writes `main.h5`, which links to `part0.h5`, `part1.h5`, …
fn spread(place: &Place, times: usize) {
    made::file(&place.path("main.h5"), |main| {
        let factors = ArrayD::from_elem(IxDyn(&[1, 3]), 1.0);
        made::put(main, "s00/resolutions", &factors);
        for time in 0..times {
            let group = main.create_group(&format!("t{time:05}/s00/0")).unwrap();
            group
                .link_external(&format!("part{time}.h5"), "/cells", "cells")
                .unwrap();
            made::file(&place.path(&format!("part{time}.h5")), |part| {
                made::put(
                    part,
                    "cells",
                    &ArrayD::from_elem(IxDyn(&[2, 5, 7]), 10 * time as u8 + 10),
                );
            });
        }
    });
}

/// The first pixel of a time point, or the status of the error.
fn pixel(server: &Server, time: usize) -> Result<u8, u16> {
    let answer = server.tile(&format!("main/s00/xy/{time}/1/0_0_0.png"));
    if answer.status == 200 {
        Ok(answer.picture().pixels[0])
    } else {
        Err(answer.status)
    }
}

fn pixels(server: &Server, times: usize) -> Vec<Result<u8, u16>> {
    (0..times).map(|time| pixel(server, time)).collect()
}

#[test]
fn a_missing_part_is_a_gap_and_an_unreadable_one_an_error() {
    let place = Place::new();
    spread(&place, 4);
    fs::remove_file(place.path("part1.h5")).unwrap();
    place.write("part2.h5", "this is not an HDF5 file");
    let server = place.serve(["main.h5", "--set", "datasets.main.channels.s00.window=full"]);
    server.expect_error("part2.h5: it is not an HDF5 file but text");
    assert_eq!(pixels(&server, 4), [Ok(10), Ok(0), Err(500), Ok(40)]);
}

#[test]
fn the_first_part_may_be_unreadable() {
    let place = Place::new();
    spread(&place, 3);
    place.write("part0.h5", "");
    let server = place.serve(["main.h5", "--set", "datasets.main.channels.s00.window=full"]);
    server.expect_error("part0.h5: it is empty");
    assert_eq!(pixels(&server, 3), [Err(500), Ok(20), Ok(30)]);
}

/// A server of `main.h5` with a limit on its descriptors. It has one worker, so that the number of
/// cores does not change how many it needs for itself.
fn with_limit(place: &Place, limit: &str) -> Server {
    let serve = [
        "serve",
        "--bind",
        "127.0.0.1:0",
        "--set",
        "server.workers=1",
        "main.h5",
    ];
    place.start(place.limited(limit, serve))
}

#[test]
fn more_parts_than_may_be_open_at_once_are_served() {
    const TIMES: usize = 24;
    let place = Place::new();
    spread(&place, TIMES);
    let all: Vec<_> = (0..TIMES).map(|time| Ok(10 * time as u8 + 10)).collect();
    // A soft limit is raised to the hard one; of 100 descriptors, a quarter is for open files.
    for limit in ["ulimit -S -n 48", "ulimit -n 100"] {
        let server = with_limit(&place, limit);
        assert_eq!(pixels(&server, TIMES), all, "{limit}");
    }
}

#[test]
fn parts_that_cannot_be_opened_for_lack_of_descriptors_are_errors_and_not_gaps() {
    const TIMES: usize = 24;
    let place = Place::new();
    spread(&place, TIMES);
    let server = with_limit(&place, "ulimit -n 48");
    server.expect_error("raise the limit of open files (`ulimit -n`)");
    // The time points requested last stay open, so that at some point there is no descriptor for
    // another.
    let pixels = pixels(&server, TIMES);
    let right = |time: usize| Ok(10 * time as u8 + 10);
    assert!(
        pixels
            .iter()
            .enumerate()
            .all(|(time, pixel)| *pixel == right(time) || *pixel == Err(500)),
        "{pixels:?}"
    );
    assert_eq!(pixels[0], right(0));
    assert!(pixels.contains(&Err(500)), "{pixels:?}");
}
