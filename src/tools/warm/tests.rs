//! The order of many kinds of works, tested with an LRU cache that counts what it decodes.
//!
//! The chunks that a tile reads are computed with the renderer's geometry, not with the order's
//! own.

use std::collections::HashSet;
use std::num::NonZeroU64;

use lru::LruCache;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use voltile_base::description::DatasetDescription;
use voltile_base::geometry::{
    Axis, Level, LevelView, Orthogonal, Placement, Plane, Scaling, Xyz, patch,
};
use voltile_base::name::Name;
use voltile_base::request::{ChannelChoice, TileRequest};
use voltile_base::shard::Shard;

use super::*;

/// A channel that is stored in boxes, except for levels that are not stored.
#[derive(Debug, Clone)]
struct Volume {
    size: Xyz<u64>,
    chunk: Xyz<u64>,
    /// Which levels are stored; level 0 always.
    stored: Vec<u8>,
    scaling: Scaling,
    voxel: Option<Xyz<f64>>,
    offset: Xyz<i64>,
}

/// Bytes of a voxel.
const VOXEL: u64 = 2;

impl Volume {
    fn plain(size: Xyz<u64>, chunk: Xyz<u64>) -> Self {
        let (stored, scaling, offset) = (vec![0], Scaling::Zslices, Xyz::all(0));
        Self {
            size,
            chunk,
            stored,
            scaling,
            voxel: None,
            offset,
        }
    }

    /// The stored levels: number, z factor, size.
    fn pyramid(&self) -> Vec<(Level, u64, Xyz<u64>)> {
        let stored = self.stored.iter().map(|number| {
            let level = Level::new(u64::from(*number)).unwrap();
            let z = if self.scaling == Scaling::Isotropic {
                level.factor()
            } else {
                1
            };
            let factor = Xyz::new(level.factor(), level.factor(), z);
            (level, z, self.size.zip(factor, u64::div_ceil))
        });
        stored.collect()
    }

    fn views(&self) -> Vec<LevelView> {
        let pyramid = self.pyramid();
        let all = (0..).map_while(|n| LevelView::choose(Level::new(n)?, &pyramid, self.scaling));
        let mut views = Vec::new();
        for view in all {
            views.push(view);
            if view.end_fits_one_tile(Xyz::all(0)) {
                break;
            }
        }
        views
    }

    fn orthogonal(&self) -> Orthogonal {
        self.voxel.map_or(Orthogonal::Stored, Orthogonal::Isotropic)
    }

    fn placement(&self) -> Placement {
        Placement {
            slices: self.offset,
            ..Placement::default()
        }
    }

    /// Its description, as a server gives it.
    fn described(&self, name: &str) -> Value {
        let triple = |xyz: Xyz<u64>| [xyz.x, xyz.y, xyz.z];
        let pyramid = self.pyramid();
        let level = |view: &LevelView| {
            let (level, z, size) = pyramid[view.stored];
            json!({
                "level": view.level.number(), "size": triple(view.size), "factor": triple(view.factor),
                "drawn": Plane::ALL.map(|plane| <[u64; 2]>::from(view.drawn(plane, Xyz::all(0), self.orthogonal()))),
                "planes": ["xy", "xz", "yz"], "voxels_read": [0, 0, 0],
                "source": {
                    "id": format!("{name} {}", level.number()), "size": triple(size),
                    "factor": [level.factor(), level.factor(), z], "chunk": triple(self.chunk), "times": 1,
                    "bytes": self.chunk.volume() * VOXEL, "access": "cached",
                },
            })
        };
        json!({
            "name": name, "kind": "image", "dtype": "uint16", "voxel_unit": "nm",
            "voxel_size": self.voxel.map(|v| [v.x, v.y, v.z]),
            "orthogonal": if self.voxel.is_some() { "isotropic" } else { "stored" },
            "levels": self.views().iter().map(level).collect::<Vec<_>>(),
        })
    }

    /// The boxes that a tile is read from: the stored level, and indexes in its grid.
    fn boxes(&self, tile: &TileRequest) -> Vec<(usize, Xyz<u64>)> {
        let view = self.views()[usize::from(tile.address.level.number())];
        let patch = patch(&tile.address, &view, self.placement(), self.orthogonal())
            .expect("the tile lies inside");
        let mut boxes = HashSet::new();
        for run in patch.runs() {
            let region = view.stored_region(&patch.region(run));
            let along = |axis: Axis| {
                region.start[axis] / self.chunk[axis]..region.end()[axis].div_ceil(self.chunk[axis])
            };
            for z in along(Axis::Z) {
                for y in along(Axis::Y) {
                    boxes.extend(along(Axis::X).map(|x| (view.stored, Xyz::new(x, y, z))));
                }
            }
        }
        let mut boxes: Vec<_> = boxes.into_iter().collect();
        boxes.sort_by_key(|(level, at)| (*level, at.z, at.y, at.x));
        boxes
    }
}

fn datasets(offset: Xyz<i64>, channels: &[Value]) -> Vec<DatasetDescription> {
    let dataset = json!({
        "token": "a", "layouts": [], "scaling": "zslices", "offset": <[i64; 3]>::from(offset), "channels": channels,
    });
    vec![serde_json::from_value(dataset).unwrap()]
}

/// A work of `count` tiles: slices at one place.
pub(super) fn slices(count: u64) -> WarmWork {
    let volume = Volume::plain(Xyz::new(100, 90, count), Xyz::all(64));
    work(&volume, &selection(&[Plane::Xy])).unwrap()
}

fn work(volume: &Volume, selection: &Selection) -> Result<WarmWork, String> {
    let datasets = datasets(volume.offset, &[volume.described("c")]);
    WarmWork::new(selection, &datasets, None)
}

/// All tiles in some planes at the first time point.
fn selection(planes: &[Plane]) -> Selection {
    Selection {
        tokens: Vec::new(),
        channels: Vec::new(),
        planes: planes.to_vec(),
        levels: "all".parse().unwrap(),
        slices: "all".parse().unwrap(),
        times: "0".parse().unwrap(),
    }
}

/// The numbers of boxes and of distinct boxes that a cache of `bytes` decodes for these tiles.
fn decoded(volume: &Volume, tiles: impl Iterator<Item = TileRequest>, bytes: u64) -> (u64, u64) {
    let room = bytes / (volume.chunk.volume() * VOXEL + 256);
    let (mut kept, mut decodes, mut different) = (LruCache::unbounded(), 0, HashSet::new());
    for tile in tiles {
        for key in volume.boxes(&tile) {
            if kept.get(&key).is_none() {
                decodes += 1;
                different.insert(key);
                kept.put(key, ());
                while kept.len() as u64 > room {
                    kept.pop_lru();
                }
            }
        }
    }
    (decodes, different.len() as u64)
}

/// Every tile of every level and plane that shows anything, by exhaustive search.
fn all_tiles(volume: &Volume, planes: &[Plane]) -> HashSet<String> {
    let mut all = HashSet::new();
    for view in volume.views() {
        for plane in planes {
            let drawn = view.drawn(*plane, Xyz::all(0), volume.orthogonal());
            let factor = view.factor[plane.slice_axis()] as i64;
            let shift = volume.offset[plane.slice_axis()].div_euclid(factor);
            for slice in 0..view.size[plane.slice_axis()] {
                let Some(slice) = slice.checked_add_signed(shift) else {
                    continue;
                };
                for row in 0..drawn.1.div_ceil(512) {
                    for column in 0..drawn.0.div_ceil(512) {
                        all.insert(format!(
                            "a/c/{plane}/{slice}/{row}_{column}_{}.png",
                            view.level.number()
                        ));
                    }
                }
            }
        }
    }
    all
}

fn volumes() -> impl Strategy<Value = Volume> {
    let size = (1..1300u64, 1..1300u64, 1..130u64);
    let chunk = || select(vec![1u64, 20, 32, 48, 64, 100, 128, 512, 2000]);
    // Large enough in the plane to keep the number of boxes small.
    let wide = || select(vec![32u64, 48, 64, 100, 128, 512, 700]);
    let stored = select(vec![vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 2]]);
    let scaling = select(vec![Scaling::Zslices, Scaling::Isotropic]);
    let voxel = select(vec![None, None, Some(1.0), Some(5.0), Some(0.3), Some(3.7)]);
    let offset = (-3..9i64, -3..9i64, -3..9i64);
    (
        size,
        (wide(), wide(), chunk()),
        stored,
        scaling,
        voxel,
        offset,
    )
        .prop_map(|(size, chunk, stored, scaling, voxel, offset)| Volume {
            size: Xyz::new(size.0, size.1, size.2),
            chunk: Xyz::new(chunk.0, chunk.1, chunk.2),
            stored,
            scaling,
            voxel: voxel.map(|z| Xyz::new(1.0, 1.0, z)),
            // Not so negative that no slice has a number.
            offset: Xyz::new(
                offset.0.max(1 - size.0 as i64),
                offset.1.max(1 - size.1 as i64),
                offset.2.max(1 - size.2 as i64),
            ),
        })
}

fn planes() -> impl Strategy<Value = Vec<Plane>> {
    let all = Plane::ALL.to_vec();
    select(vec![
        vec![Plane::Xy],
        vec![Plane::Xz],
        vec![Plane::Yz],
        all,
        vec![Plane::Xz, Plane::Yz],
    ])
}

/// `VOLTILE_CASES=2000` tries many more.
fn cases() -> u32 {
    std::env::var("VOLTILE_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_tile_comes_once_and_shards_are_parts_of_the_order(
        volume in volumes(),
        planes in planes(),
        count in 1..9_u64,
    ) {
        let Ok(work) = work(&volume, &selection(&planes)) else {
            // All slice numbers are negative.
            prop_assert!(all_tiles(&volume, &planes).is_empty());
            return Ok(());
        };
        let tiles: Vec<TileRequest> = work.tiles().collect();
        let paths: HashSet<String> = tiles.iter().map(ToString::to_string).collect();
        prop_assert_eq!(paths.len(), tiles.len());
        prop_assert_eq!(tiles.len() as u64, work.total());
        prop_assert_eq!(paths, all_tiles(&volume, &planes));
        let datasets = datasets(volume.offset, &[volume.described("c")]);
        let mut parts = Vec::new();
        for shard in Shard::all(NonZeroU64::new(count).unwrap()) {
            let part = WarmWork::new(&selection(&planes), &datasets, Some(&shard)).unwrap();
            let before = parts.len() as u64;
            parts.extend(part.tiles());
            prop_assert_eq!(parts.len() as u64 - before, part.total());
        }
        prop_assert!(parts == tiles);
    }
}

/// How often a work has every box decoded by a cache of `bytes`.
fn passes(volume: &Volume, wanted: &Selection, bytes: u64) -> f64 {
    let work = work(volume, wanted).unwrap();
    let (decodes, different) = decoded(volume, work.tiles(), bytes);
    decodes as f64 / different as f64
}

#[test]
fn boxes_are_decoded_once_for_a_plane_if_the_cache_holds_a_slab() {
    let plain = Volume::plain(Xyz::new(2000, 1900, 100), Xyz::all(64));
    let stored = Volume {
        stored: vec![0, 1, 2],
        ..plain.clone()
    };
    for volume in [plain, stored] {
        for plane in Plane::ALL {
            let passes = passes(&volume, &selection(&[plane]), 1 << 30);
            assert_eq!(passes, 1.0, "{volume:?} {plane}");
        }
    }
    let by_slices = Volume::plain(Xyz::new(2000, 1900, 40), Xyz::new(2000, 1900, 1));
    assert_eq!(passes(&by_slices, &selection(&[Plane::Xy]), 16 << 20), 1.0);
}

#[test]
fn boxes_are_decoded_once_for_a_level_if_the_cache_holds_those_of_a_tile() {
    let volume = Volume::plain(Xyz::new(3000, 2900, 100), Xyz::all(64));
    let finest = Selection {
        levels: "0".parse().unwrap(),
        ..selection(&[Plane::Xy])
    };
    assert_eq!(passes(&volume, &finest, 36 << 20), 1.0);
    // Those that tiles cut, if it holds the boxes of a row of tiles.
    let cut = Volume {
        chunk: Xyz::new(100, 100, 10),
        ..volume
    };
    assert_eq!(passes(&cut, &finest, 48 << 20), 1.0);
}

#[test]
fn time_points_that_share_boxes_are_drawn_together() {
    let volume = Volume::plain(Xyz::new(900, 100, 4), Xyz::new(64, 64, 2));
    let mut channel = volume.described("c");
    channel["times"] = json!(5);
    for level in channel["levels"].as_array_mut().unwrap() {
        level["source"]["times"] = json!(2);
    }
    let wanted = Selection {
        levels: "0".parse().unwrap(),
        times: "1-".parse().unwrap(),
        ..selection(&[Plane::Xy])
    };
    let work = WarmWork::new(&wanted, &datasets(Xyz::all(0), &[channel]), None).unwrap();
    assert_eq!(work.total(), 4 * 4 * 2);
    let order: Vec<_> = work
        .tiles()
        .map(|tile| (tile.time.unwrap(), tile.address.slice, tile.address.column))
        .collect();
    let of_pair: Vec<_> = order[8..16].to_vec();
    let expected = [0, 1]
        .map(|column| [(2, 0), (2, 1), (3, 0), (3, 1)].map(|(time, slice)| (time, slice, column)));
    assert_eq!(of_pair, expected.concat());
}

#[test]
fn channels_in_colours_reach_as_far_as_the_largest() {
    let small = Volume::plain(Xyz::new(500, 400, 30), Xyz::all(64));
    let large = Volume::plain(Xyz::new(1500, 1000, 50), Xyz::all(64));
    let datasets = datasets(Xyz::all(0), &[small.described("a"), large.described("b")]);
    let wanted = Selection {
        channels: "a:R,b:".parse::<Channels>().unwrap().0,
        ..selection(&[Plane::Xy])
    };
    let work = WarmWork::new(&wanted, &datasets, None).unwrap();
    let paths: Vec<String> = work.tiles().map(|tile| tile.to_string()).collect();
    assert_eq!((paths.len(), work.total()), (50 * 6, 50 * 6));
    assert!(
        paths
            .iter()
            .all(|path| path.starts_with("mcfc/a/a:R,b:M/xy/"))
    );
}

/// The tiles of a selection, counted by level.
fn counted(wanted: &Selection) -> Result<Vec<u64>, String> {
    let mut volume = Volume::plain(Xyz::new(1000, 900, 50), Xyz::all(64));
    volume.offset = Xyz::new(0, 0, 10);
    let mut counts = Vec::new();
    for tile in work(&volume, wanted)?.tiles() {
        let level = usize::from(tile.address.level.number());
        counts.resize(counts.len().max(level + 1), 0);
        counts[level] += 1;
    }
    Ok(counts)
}

#[test]
fn selections_choose_what_they_say() {
    let all = selection(&[Plane::Xy]);
    assert_eq!(counted(&all).unwrap(), [200, 50]);
    let coarse = Selection {
        levels: "1".parse().unwrap(),
        ..all.clone()
    };
    assert_eq!(counted(&coarse).unwrap(), [0, 50]);
    // Slices are numbered from the offset.
    let slices = Selection {
        slices: "0-11,59-".parse().unwrap(),
        ..all
    };
    assert_eq!(counted(&slices).unwrap(), [12, 3]);
}

#[test]
fn a_selection_of_nothing_is_an_error_that_lists_what_there_is() {
    let all = || selection(&[Plane::Xy]);
    let name = |text: &str| Name::new(text).unwrap();
    for (wanted, known) in [
        (
            Selection {
                tokens: vec![name("b")],
                ..all()
            },
            "the datasets are a",
        ),
        (
            Selection {
                channels: vec![ChannelChoice::One(name("d"))],
                ..all()
            },
            "the channels are c",
        ),
        (
            Selection {
                levels: "2-".parse().unwrap(),
                ..all()
            },
            "levels 0 to 1",
        ),
        (
            Selection {
                slices: "0-9,60".parse().unwrap(),
                ..all()
            },
            "10 to 59",
        ),
        (
            Selection {
                times: "1".parse().unwrap(),
                ..all()
            },
            "the time points are 0 to 0",
        ),
    ] {
        let error = counted(&wanted).unwrap_err();
        assert!(error.contains(known), "{error}");
    }
}
