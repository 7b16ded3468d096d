//! Tests of what a selection chooses, and of the errors otherwise.

use serde_json::json;

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A dataset with channels of these names and kinds, each with a level of 1000 × 700 × 30 voxels in
/// all planes, and one of half that.
fn dataset(token: &str, channels: &[(&str, &str)], offset: [i64; 3]) -> DatasetDescription {
    let level = |level: u8, [x, y, z]: [u64; 3], factor: [u64; 3]| {
        json!({
            "level": level, "size": [x, y, z], "factor": factor, "drawn": [[x, y], [x, z], [y, z]],
            "planes": ["xy", "xz", "yz"], "voxels_read": [0, 0, 0],
            "source": {
                "id": "", "size": [x, y, z], "factor": factor, "chunk": [64, 64, 64], "times": 1, "bytes": 1 << 18,
                "access": "cached",
            },
        })
    };
    let channel = |(name, kind): &(&str, &str)| {
        json!({
            "name": name, "kind": kind, "dtype": "uint8", "orthogonal": "stored",
            "levels": [level(0, [1000, 700, 30], [1, 1, 1]), level(1, [500, 350, 30], [2, 2, 1])],
        })
    };
    let channels: Vec<_> = channels.iter().map(channel).collect();
    serde_json::from_value(json!({
        "token": token, "layouts": [], "scaling": "zslices", "offset": offset, "channels": channels,
    }))
    .unwrap()
}

fn all() -> Vec<DatasetDescription> {
    vec![
        dataset("a", &[("labels", "labels"), ("raw", "image")], [0; 3]),
        dataset("b", &[("stain", "image")], [0; 3]),
    ]
}

fn everything() -> Selection {
    Selection {
        planes: Plane::ALL.to_vec(),
        ..Selection::default()
    }
}

/// The channel `raw` of `a`, in all planes.
pub fn target() -> Target {
    Choice::new(all(), &everything(), &Bounds::default())
        .unwrap()
        .targets
        .remove(0)
}

fn names(selection: &Selection) -> Vec<String> {
    let choice = Choice::new(all(), selection, &Bounds::default()).unwrap();
    choice
        .targets
        .iter()
        .map(|target| target.channel.to_string())
        .collect()
}

#[test]
fn the_first_image_of_each_dataset_is_measured_unless_others_are_named() {
    assert_eq!(names(&everything()), ["raw", "stain"]);
    assert_eq!(
        Choice::new(all(), &everything(), &Bounds::default())
            .unwrap()
            .left_out,
        ["a/labels"]
    );
    let labels = vec![ChannelChoice::One(name("labels"))];
    assert_eq!(
        names(&Selection {
            channels: labels,
            ..everything()
        }),
        ["labels"]
    );
    assert_eq!(
        names(&Selection {
            tokens: vec![name("b")],
            ..everything()
        }),
        ["stain"]
    );
    let only = vec![dataset("c", &[("ids", "labels")], [0; 3])];
    let choice = Choice::new(only, &everything(), &Bounds::default()).unwrap();
    assert_eq!(
        (choice.targets[0].channel.as_str(), choice.left_out.len()),
        ("ids", 0)
    );
}

#[test]
fn bounds_cut_slices_rows_and_columns() {
    let bounds = Bounds {
        slices: Some(10..1000),
        rows: None,
        columns: Some(1..9),
    };
    let selection = Selection {
        levels: "0".parse().unwrap(),
        ..Selection::default()
    };
    let choice = Choice::new(all(), &selection, &bounds).unwrap();
    let space = &choice.targets[0].spaces[0];
    assert_eq!(
        (&space.slices, &space.rows, &space.columns),
        (&(10..30), &(0..2), &(1..2))
    );
    assert_eq!(space.count(), 20 * 2);
    let beyond = Bounds {
        slices: Some(5000..6000),
        ..Bounds::default()
    };
    assert!(
        Choice::new(all(), &selection, &beyond)
            .unwrap_err()
            .contains("nothing is left")
    );
}

#[test]
fn slices_have_the_numbers_of_addresses() {
    let slices = |offset: i64| {
        let datasets = vec![dataset("a", &[("raw", "image")], [0, 0, offset])];
        let choice = Choice::new(datasets, &Selection::default(), &Bounds::default());
        choice.map(|choice| choice.targets[0].spaces[0].slices.clone())
    };
    assert_eq!((slices(7), slices(-10)), (Ok(7..37), Ok(0..20)));
    assert!(slices(-40).is_err());
}

#[test]
fn a_voxel_lies_in_one_tile_of_each_plane() {
    let target = target();
    let around = |number: usize| {
        let address = target.spaces[number].around(Xyz::new(999, 600, 29));
        (address.slice, address.row, address.column)
    };
    assert_eq!(
        (around(0), around(1), around(2)),
        ((29, 1, 1), (600, 0, 1), (999, 0, 1))
    );
    assert_eq!(
        target
            .request(target.spaces[1].around(Xyz::all(5)))
            .to_string(),
        "a/raw/xz/5/0_0_0.png"
    );
}

#[test]
fn a_channel_nobody_has_described_is_what_was_named() {
    let bounds = Bounds {
        slices: Some(1..3),
        rows: Some(0..2),
        columns: Some(0..4),
    };
    let choose =
        |bounds: &Bounds| Choice::undescribed(name("k"), name("image"), Level::FULL, bounds);
    assert_eq!(
        choose(&bounds).unwrap().targets[0].spaces[0].count(),
        2 * 2 * 4
    );
    assert_eq!(choose(&Bounds::default()), None);
}
