//! Stories of volumes that are spread over many files: what is not there is a gap, what cannot be read is an error.
//!
//! The volumes are BigDataViewer's, with a file for each time point. All voxels of time t are 10 t + 10.

use std::fs;
use std::process::Command;

use crate::common::{Place, Server, made};
use ndarray::{ArrayD, IxDyn};

/// Writes `main.h5`, which leads to `part0.h5`, `part1.h5`, …
fn spread(place: &Place, times: usize) {
    made::file(&place.path("main.h5"), |main| {
        let factors = ArrayD::from_elem(IxDyn(&[1, 3]), 1.0);
        made::put(main, "s00/resolutions", &factors);
        for time in 0..times {
            let group = main.create_group(&format!("t{time:05}/s00/0")).unwrap();
            group.link_external(&format!("part{time}.h5"), "/cells", "cells").unwrap();
            made::file(&place.path(&format!("part{time}.h5")), |part| {
                made::put(part, "cells", &ArrayD::from_elem(IxDyn(&[2, 5, 7]), 10 * time as u8 + 10));
            });
        }
    });
}

/// The first pixel at a time, or the status of the error.
fn pixel(server: &Server, time: usize) -> Result<u8, u16> {
    let answer = server.tile(&format!("main/s00/xy/{time}/1/0_0_0.png"));
    if answer.status == 200 { Ok(answer.picture().pixels[0]) } else { Err(answer.status) }
}

fn pixels(server: &Server, times: usize) -> Vec<Result<u8, u16>> {
    (0..times).map(|time| pixel(server, time)).collect()
}

#[test]
fn a_part_that_is_missing_is_a_gap_and_one_that_cannot_be_read_an_error() {
    let place = Place::new();
    spread(&place, 4);
    fs::remove_file(place.path("part1.h5")).unwrap();
    place.write("part2.h5", "this is no HDF5 file");
    let server = place.serve(["main.h5"]);
    assert_eq!(pixels(&server, 4), [Ok(10), Ok(0), Err(500), Ok(40)]);
    assert!(server.log().contains("part2.h5"), "the log names the file: {}", server.log());
}

#[test]
fn the_first_part_need_not_be_the_one_that_can_be_read() {
    let place = Place::new();
    spread(&place, 3);
    place.write("part0.h5", "");
    assert_eq!(pixels(&place.serve(["main.h5"]), 3), [Err(500), Ok(20), Ok(30)]);
}

/// `voltile serve main.h5` by a shell that lowers a limit first. Of the descriptors the server's own threads take some
/// each, so that it has one of a kind however many cores there are.
fn with_limit(place: &Place, limit: &str) -> Server {
    let program = place.voltile(["serve"]).get_program().to_owned();
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{limit}; exec \"$0\" serve --bind 127.0.0.1:0 --set server.workers=1 main.h5"))
        .arg(program);
    command.env_clear().current_dir(place.path(""));
    place.start(command)
}

#[test]
fn more_parts_than_may_be_open_at_once_are_served_all_the_same() {
    const TIMES: usize = 24;
    let place = Place::new();
    spread(&place, TIMES);
    let all: Vec<_> = (0..TIMES).map(|time| Ok(10 * time as u8 + 10)).collect();
    // The first is raised to what the system allows; of the other's 100 descriptors 25 files may be open.
    for limit in ["ulimit -S -n 48", "ulimit -n 100"] {
        let server = with_limit(&place, limit);
        assert_eq!(pixels(&server, TIMES), all, "{limit}");
    }
}

#[test]
fn parts_for_which_there_are_no_descriptors_are_errors_and_never_gaps() {
    const TIMES: usize = 24;
    let place = Place::new();
    spread(&place, TIMES);
    let server = with_limit(&place, "ulimit -n 48");
    // The time points that were looked at last are kept open, so that at some time there is no room for another.
    let pixels = pixels(&server, TIMES);
    let right = |time: usize| Ok(10 * time as u8 + 10);
    assert!(
        pixels.iter().enumerate().all(|(time, pixel)| *pixel == right(time) || *pixel == Err(500)),
        "{pixels:?}"
    );
    assert_eq!(pixels[0], right(0));
    assert!(pixels.contains(&Err(500)), "{pixels:?}");
    assert!(server.log().contains("ulimit -n"), "{}", server.log());
}
