//! Tests of what a selection chooses, and of the errors otherwise.

use super::*;
use crate::base::description::SourceDescription;

/// A target with a level of 1000 × 700 × 30 voxels in all planes, and one of half that.
pub fn target(token: &str, channel: &str, is_image: bool) -> Target {
    let levels = [level(0, [1000, 700, 30], [1, 1, 1]), level(1, [500, 350, 30], [2, 2, 1])];
    let spaces = levels.iter().flat_map(|level| spaces(level, Xyz::all(0))).collect();
    let (token, channel) = (token.to_owned(), channel.to_owned());
    Target { token, channel, is_series: false, is_image, spaces }
}

/// A level without square pixels, offered in all planes.
fn level(level: u8, size: [u64; 3], factor: [u64; 3]) -> LevelDescription {
    let [x, y, z] = size;
    let access = "cached".to_owned();
    let source = SourceDescription {
        id: String::new(),
        size,
        factor,
        chunk: [64; 3],
        times: 1,
        bytes: 1 << 18,
        access,
    };
    LevelDescription {
        level,
        size,
        factor,
        drawn: [[x, y], [x, z], [y, z]],
        path: None,
        sidecar: None,
        storage: None,
        voxels_read: [0; 3],
        planes: Plane::ALL.map(|plane| plane.name().to_owned()).to_vec(),
        source,
    }
}

fn all() -> Vec<Target> {
    vec![target("a", "labels", false), target("a", "raw", true), target("b", "stain", true)]
}

fn names(choice: &Choice) -> Vec<&str> {
    choice.targets.iter().map(|target| target.channel.as_str()).collect()
}

#[test]
fn the_first_image_of_each_dataset_is_measured_unless_others_are_named() {
    let choice = Selection::default().choose(all()).unwrap();
    assert_eq!(names(&choice), ["raw", "stain"]);
    assert_eq!(choice.left_out, ["a/labels"]);
    let selection = Selection { channels: vec!["labels".to_owned()], ..Selection::default() };
    assert_eq!(names(&selection.choose(all()).unwrap()), ["labels"]);
    let selection = Selection { tokens: vec!["b".to_owned()], ..Selection::default() };
    assert_eq!(names(&selection.choose(all()).unwrap()), ["stain"]);
    let only = vec![target("c", "ids", false)];
    assert_eq!(names(&Selection::default().choose(only).unwrap()), ["ids"]);
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let wrong = |selection: Selection| selection.choose(all()).unwrap_err();
    let tokens = vec!["z".to_owned()];
    let text = wrong(Selection { tokens: tokens.clone(), ..Selection::default() });
    assert!(text.contains("\"z\"") && text.contains("a, b"), "{text}");
    let text = wrong(Selection { channels: tokens, ..Selection::default() });
    assert!(text.contains("labels, raw, stain"), "{text}");
    let text = wrong(Selection { levels: vec![1, 7], ..Selection::default() });
    assert!(text.contains("level 7") && text.contains("0, 1"), "{text}");
    let bounds = Bounds { slices: Some(5000..6000), ..Bounds::default() };
    assert!(wrong(Selection { bounds, ..Selection::default() }).contains("nothing is left"));
}

#[test]
fn bounds_cut_slices_rows_and_columns() {
    let bounds = Bounds { slices: Some(10..1000), rows: None, columns: Some(1..9) };
    let selection = Selection { bounds, planes: vec![Plane::Xy], levels: vec![0], ..Selection::default() };
    let choice = selection.choose(all()).unwrap();
    let space = &choice.targets[0].spaces[0];
    assert_eq!((&space.slices, &space.rows, &space.columns), (&(10..30), &(0..2), &(1..2)));
    assert_eq!(space.count(), 20 * 2);
}

#[test]
fn slices_have_the_numbers_of_addresses() {
    assert_eq!(slices(30, 7), 7..37);
    assert_eq!(slices(30, -10), 0..20);
    assert!(slices(30, -40).is_empty());
}

#[test]
fn a_voxel_lies_in_one_tile_of_each_plane() {
    let target = target("a", "raw", true);
    let around = |number: usize| {
        let address = target.spaces[number].around(Xyz::new(999, 600, 29));
        (address.slice, address.row, address.column)
    };
    assert_eq!((around(0), around(1), around(2)), ((29, 1, 1), (600, 0, 1), (999, 0, 1)));
    assert_eq!(target.path(&target.spaces[1].around(Xyz::all(5))), "a/raw/xz/5/0_0_0.png");
}

#[test]
fn a_channel_nobody_has_described_is_what_was_asked_for() {
    let bounds = Bounds { slices: Some(1..3), rows: Some(0..2), columns: Some(0..4) };
    let target = Target::unseen("k", "image", Level::FULL, &bounds).unwrap();
    assert_eq!(target.spaces[0].count(), 2 * 2 * 4);
    assert_eq!(Target::unseen("k", "image", Level::FULL, &Bounds::default()), None);
}
