//! The three URL forms give the same pixels.
//!
//! One address of every channel of the fixtures is requested; plane and level vary from channel to
//! channel.

use std::thread;

use crate::common::picture::Picture;
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, fixture};
use serde_json::Value;

/// The letters of colours, and whether they add to red, green and blue.
const COLOURS: [(char, [bool; 3]); 6] = [
    ('C', [false, true, true]),
    ('M', [true, false, true]),
    ('Y', [true, true, false]),
    ('R', [true, false, false]),
    ('G', [false, true, false]),
    ('B', [false, false, true]),
];

/// An address in a channel of the fixtures.
#[derive(Debug)]
struct Somewhere {
    token: String,
    channel: String,
    kind: String,
    level: u64,
    /// The middle slice along z, y and x, as in URLs.
    middle: [u64; 3],
}

fn channels(server: &Server) -> Vec<Somewhere> {
    let datasets = server.json("/datasets.json");
    let mut channels = Vec::new();
    for dataset in datasets["datasets"].as_array().unwrap() {
        for channel in dataset["channels"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let along = |axis: usize| {
                let offset = dataset["offset"][axis].as_i64().unwrap();
                (channel["levels"][0]["size"][axis].as_u64().unwrap() / 2)
                    .saturating_add_signed(offset)
            };
            channels.push(Somewhere {
                token: text(&dataset["token"]),
                channel: text(&channel["name"]),
                kind: text(&channel["kind"]),
                level: channels.len() as u64 % 2,
                middle: [along(2), along(1), along(0)],
            });
        }
    }
    channels
}

fn picture(connection: &mut Connection, path: &str) -> Picture {
    let answer = connection.get(&format!("{MOUNT}/{path}"));
    assert_eq!(
        answer.status,
        200,
        "{path}: {}",
        String::from_utf8_lossy(&answer.body)
    );
    answer.picture()
}

impl Somewhere {
    /// The part of simple and mcfc paths after the channel's name.
    fn rest(&self, plane: &str, slice: u64) -> String {
        // Levels halve y and x, and so the slice numbers along them.
        let slice = if plane == "xy" {
            slice
        } else {
            slice >> self.level
        };
        format!("{plane}/{slice}/0_0_{}.png", self.level)
    }

    fn agrees(&self, connection: &mut Connection, number: usize) {
        let (token, channel) = (&self.token, &self.channel);
        let [z, ..] = self.middle;
        let xy = picture(
            connection,
            &format!("{token}/{channel}/{}", self.rest("xy", z)),
        );
        let viking = format!(
            "viking/{token}/volume/{channel}/{}/X0_Y0_Z{z}.png",
            self.level
        );
        assert_eq!(picture(connection, &viking), xy, "{self:?}");
        let which = number % 3;
        let rest = self.rest(["xy", "xz", "yz"][which], self.middle[which]);
        if self.kind == "image" {
            let simple = picture(connection, &format!("{token}/{channel}/{rest}"));
            self.agrees_in_colour(connection, &simple, &rest);
        } else {
            let refused = connection.get(&format!("{MOUNT}/mcfc/{token}/{channel}:R/{rest}"));
            assert_eq!((xy.mode, refused.status), ("RGB", 404), "{self:?}");
        }
    }

    fn agrees_in_colour(&self, connection: &mut Connection, simple: &Picture, rest: &str) {
        assert_eq!(simple.mode, "L", "{self:?}");
        for (letter, adds) in COLOURS {
            let path = format!("mcfc/{}/{}:{letter}/{rest}", self.token, self.channel);
            let composite = picture(connection, &path);
            assert_eq!(composite.mode, "RGB", "{path}");
            let [red, green, blue] = adds.map(|added| if added { 255 } else { 0 });
            for (value, rgb) in simple.pixels.iter().zip(composite.pixels.chunks_exact(3)) {
                let expected = [value & red, value & green, value & blue];
                assert_eq!(rgb, expected, "{path} differs from the grey tile");
            }
        }
    }
}

#[test]
#[ignore = "slow: reads every channel of the fixtures three times"]
fn simple_viking_and_mcfc_agree_on_every_channel_of_the_fixtures() {
    let place = Place::new();
    let server = place.serve(["--config".as_ref(), fixture("voltile.toml").as_os_str()]);
    let channels = channels(&server);
    assert!(channels.len() > 200, "there are only {}", channels.len());
    let halves = [0, 1];
    thread::scope(|scope| {
        for half in halves {
            let (channels, mut connection) = (&channels, server.connect());
            scope.spawn(move || {
                let mine = channels.iter().enumerate().skip(half).step_by(halves.len());
                mine.for_each(|(number, channel)| channel.agrees(&mut connection, number / 2));
            });
        }
    });
}

/// A composite is the sum of its channels, which saturates at 255.
#[test]
fn composites_add_up_and_saturate() {
    let place = Place::new();
    let server = place.serve(["--config".as_ref(), fixture("voltile.toml").as_os_str()]);
    let mut connection = server.connect();
    let rest = "xy/1/2/0_0_0.png";
    let [first, second] =
        ["first", "second"].map(|name| picture(&mut connection, &format!("series/{name}/{rest}")));
    let sum = picture(
        &mut connection,
        &format!("mcfc/series/first:Y,second:R,first:B/{rest}"),
    );
    let mut saturated = 0;
    for ((a, b), rgb) in first
        .pixels
        .iter()
        .zip(&second.pixels)
        .zip(sum.pixels.chunks_exact(3))
    {
        assert_eq!(rgb, [a.saturating_add(*b), *a, *a]);
        saturated += usize::from(a.checked_add(*b).is_none());
    }
    assert!(saturated > 0, "no pixel was bright enough to saturate");
}

#[test]
fn a_channel_without_a_colour_has_that_of_its_position() {
    let place = Place::new();
    let server = place.serve(["--config".as_ref(), fixture("voltile.toml").as_os_str()]);
    let mut connection = server.connect();
    for (short, long) in [
        ("first", "first:C"),
        ("first:,second", "first:C,second:M"),
        (
            "first:R,second,first:,second",
            "first:R,second:M,first:Y,second:R",
        ),
        (
            "first,first,first,first,first,second",
            "first:C,first:M,first:Y,first:R,first:G,second:B",
        ),
    ] {
        let [short, long] = [short, long].map(|list| {
            picture(
                &mut connection,
                &format!("mcfc/series/{list}/xy/0/1/0_0_0.png"),
            )
        });
        assert_eq!(short, long);
    }
}
