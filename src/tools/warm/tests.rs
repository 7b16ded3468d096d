//! The order of many kinds of works, tested with an LRU cache that counts what it decodes.
//!
//! What a tile reads is computed with the renderer's geometry, not with the order's own.

use std::collections::HashSet;
use std::num::NonZeroU64;

use lru::LruCache;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::base::description::DatasetDescription;
use crate::base::request::{ChannelChoice, TileRequest};
use crate::base::shard::Shard;
use crate::geometry::{Axis, Level, LevelView, Orthogonal, Placement, Plane, Scaling, Xyz, patch};

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
pub(super) fn slices(count: u64) -> Work {
    work(
        &Volume::plain(Xyz::new(100, 90, count), Xyz::all(64)),
        &Selection::default(),
        1 << 30,
    )
    .unwrap()
}

fn work(volume: &Volume, selection: &Selection, chunks: u64) -> Result<Work, String> {
    Work::new(
        selection,
        &datasets(volume.offset, &[volume.described("c")]),
        chunks,
    )
}

/// What a cache of `bytes` decodes for these tiles: how many boxes, and how many distinct ones.
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

fn selection(planes: &[Plane]) -> Selection {
    Selection {
        planes: planes.to_vec(),
        ..Selection::default()
    }
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
    fn every_tile_comes_once_and_a_block_has_each_of_its_boxes_decoded_once(
        volume in volumes(),
        planes in planes(),
        chunks in select(vec![0u64, 8 << 20, 64 << 20, 1 << 30]),
    ) {
        let Ok(work) = work(&volume, &selection(&planes), chunks) else {
            // All slice numbers are negative.
            prop_assert!(all_tiles(&volume, &planes).is_empty());
            return Ok(());
        };
        let tiles: Vec<TileRequest> = work.tiles().collect();
        let paths: HashSet<String> = tiles.iter().map(ToString::to_string).collect();
        prop_assert_eq!(paths.len(), tiles.len());
        prop_assert_eq!(tiles.len() as u64, work.total());
        prop_assert_eq!(paths, all_tiles(&volume, &planes));
        let (decodes, different) = decoded(&volume, tiles.iter().cloned(), chunks);
        // Square pixels may skip rows of voxels that are thinner than the pixels of some level.
        let widest = volume.views().last().map_or(1, |view| view.factor.x) as f64;
        let is_flat = volume.voxel.is_some_and(|voxel| voxel.z < widest);
        if work.remarks().is_empty() {
            prop_assert!(different <= work.boxes().0);

            // Each block fits into the cache, which has each of its boxes decoded at most once.
            let mut by_blocks = 0;
            for block in work.blocks() {
                let boxes: HashSet<_> = block.tiles().flat_map(|tile| volume.boxes(&tile)).collect();
                let counted: u64 = block.boxes().iter().map(|(count, _)| count).sum();
                let boxes = boxes.len() as u64;
                prop_assert!(boxes == counted || is_flat && boxes < counted, "{} of {}", boxes, counted);
                by_blocks += boxes;
            }
            prop_assert!(decodes <= by_blocks, "{} decoded, {} in blocks", decodes, by_blocks);
        }
    }

    #[test]
    fn shards_are_disjoint_and_together_the_work(
        volume in volumes(),
        planes in planes(),
        count in 1..9_u64,
    ) {
        let Ok(work) = work(&volume, &selection(&planes), 16 << 20) else { return Ok(()) };
        let shards = Shard::all(NonZeroU64::new(count).unwrap()).map(|shard| work.clone().shard(&shard));
        let mut parts = Vec::new();
        for part in shards {
            let before = parts.len() as u64;
            parts.extend(part.tiles());
            prop_assert_eq!(parts.len() as u64 - before, part.total());
        }
        prop_assert!(parts == work.tiles().collect::<Vec<_>>());
    }
}

#[test]
fn samples_are_spread_over_all_tiles() {
    let work = slices(1000);
    let sampled: Vec<u64> = work
        .samples(10)
        .iter()
        .map(|tile| tile.address.slice)
        .collect();
    // A pair does not extend over two blocks.
    assert!((18..=20).contains(&sampled.len()), "{sampled:?}");
    assert!(
        sampled.windows(3).all(|three| three[2] - three[0] < 200),
        "{sampled:?}"
    );
    assert!(
        sampled.first() < Some(&100) && sampled.last() > Some(&850),
        "{sampled:?}"
    );
    assert_eq!(
        slices(1).samples(10).first(),
        slices(1).tiles().next().as_ref()
    );
}

/// How often a work has every box decoded.
fn passes(volume: &Volume, planes: &[Plane], chunks: u64) -> f64 {
    let work = work(volume, &selection(planes), chunks).unwrap();
    let (decodes, different) = decoded(volume, work.tiles(), chunks);
    decodes as f64 / different as f64
}

#[test]
fn boxes_are_decoded_once_where_they_fit() {
    let volume = |x, y, z, chunk| Volume::plain(Xyz::new(x, y, z), Xyz::all(chunk));
    let stored = Volume {
        stored: vec![0, 1, 2],
        ..volume(2000, 1900, 100, 64)
    };
    let gzipped = Volume {
        chunk: Xyz::new(2000, 1900, 1),
        ..volume(2000, 1900, 40, 1)
    };
    for (volume, chunks) in [
        (volume(2000, 1900, 100, 64), 1 << 30),
        (stored, 128 << 20),
        (gzipped, 1 << 30),
    ] {
        for planes in [&[Plane::Xy][..], &[Plane::Xz], &[Plane::Yz]] {
            assert_eq!(
                passes(&volume, planes, chunks),
                1.0,
                "{volume:?} {planes:?}"
            );
        }
    }
    // All planes at once, since everything fits.
    assert_eq!(
        passes(&volume(900, 800, 100, 64), &Plane::ALL, 1 << 30),
        1.0
    );
}

#[test]
fn planes_that_do_not_fit_together_take_a_pass_each() {
    let volume = Volume::plain(Xyz::new(2048, 2048, 256), Xyz::all(64));
    let found = passes(&volume, &Plane::ALL, 1 << 30);
    // What one pass leaves in the cache is found by the next.
    assert!(found > 2.0 && found <= 3.0, "{found}");
}

#[test]
fn boxes_that_tiles_cut_are_decoded_little_more_than_once() {
    let mut volume = Volume::plain(Xyz::new(3000, 2900, 100), Xyz::new(100, 100, 10));
    let found = passes(&volume, &[Plane::Xy], 256 << 20);
    assert!(found < 1.05, "{found}");
    volume.voxel = Some(Xyz::new(6.0, 6.0, 30.0));
    let found = passes(&volume, &[Plane::Xz], 256 << 20);
    assert!(found < 1.05, "{found}");
    // The smaller the cache, the shorter the blocks.
    let finest = Selection {
        levels: Numbers::single(0),
        ..Selection::default()
    };
    let work = work(&volume, &finest, 48 << 20).unwrap();
    let (decodes, different) = decoded(&volume, work.tiles(), 48 << 20);
    assert!(
        decodes as f64 <= 1.1 * different as f64,
        "{decodes} {different}"
    );
}

#[test]
fn what_does_not_fit_is_remarked_with_what_helps() {
    let volume = Volume::plain(Xyz::new(8000, 8000, 64), Xyz::all(64));
    let work = work(
        &volume,
        &Selection {
            levels: "3-4".parse().unwrap(),
            ..Selection::default()
        },
        256 << 20,
    )
    .unwrap();
    let remark = work.remarks().first().expect("it is said");
    assert!(
        remark.contains("decoded again for every tile") && remark.contains("voltile pyramid"),
        "{remark}"
    );
}

#[test]
fn channels_in_colours_are_read_together() {
    let volume = Volume::plain(Xyz::new(1500, 1000, 50), Xyz::all(64));
    let datasets = datasets(Xyz::all(0), &[volume.described("a"), volume.described("b")]);
    let composite = Channels(
        vec!["a".parse::<Channels>().unwrap(), "a:R,b:".parse().unwrap()]
            .into_iter()
            .flat_map(|c| c.0)
            .collect(),
    );
    let wanted = Selection {
        channels: composite.0,
        ..Selection::default()
    };
    let work = Work::new(&wanted, &datasets, 1 << 30).unwrap();
    let block = work.blocks().next().unwrap();
    let kinds: HashSet<_> = block
        .tiles()
        .map(|tile| matches!(tile.channels, ChannelChoice::One(_)))
        .collect();
    assert_eq!(kinds.len(), 2, "a block has tiles of both");
    let first = work.tiles().next().unwrap();
    let (one, both): (Vec<TileRequest>, _) = work
        .tiles()
        .partition(|t| matches!(t.channels, ChannelChoice::One(_)));
    assert_eq!(
        (one.len(), both.len()),
        (50 * (6 + 2 + 1), 50 * (6 + 2 + 1))
    );
    assert!(
        both.iter()
            .all(|tile| tile.to_string().starts_with("mcfc/a/a:R,b:M/xy/")),
        "{first}"
    );
}

/// The tiles of a selection, counted by level.
fn counted(wanted: &Selection) -> Result<Vec<u64>, String> {
    let mut volume = Volume::plain(Xyz::new(1000, 900, 50), Xyz::all(64));
    (volume.offset, volume.voxel) = (Xyz::new(0, 0, 10), Some(Xyz::new(10.0, 10.0, 20.0)));
    let work = work(&volume, wanted, 1 << 30)?;
    let mut counts = Vec::new();
    for tile in work.tiles() {
        let level = usize::from(tile.address.level.number());
        counts.resize(counts.len().max(level + 1), 0);
        counts[level] += 1;
    }
    Ok(counts)
}

#[test]
fn selections_choose_what_they_say() {
    let all = Selection::default;
    assert_eq!(counted(&all()).unwrap(), [200, 50]);
    assert_eq!(
        counted(&Selection {
            levels: Numbers::single(1),
            ..all()
        })
        .unwrap(),
        [0, 50]
    );
    // Slices are numbered from the offset.
    assert_eq!(
        counted(&Selection {
            slices: "0-11,59-".parse().unwrap(),
            ..all()
        })
        .unwrap(),
        [12, 3]
    );
    let within = |text: &str| Selection {
        within: Some(text.parse().unwrap()),
        ..all()
    };
    assert_eq!(counted(&within("0-512,0-512,10-20")).unwrap(), [10, 10]);
    assert_eq!(counted(&within("511-513,*,10-11")).unwrap(), [4, 1]);
    assert_eq!(
        counted(&within("0-5.12,0-10.24,0.2-0.3um")).unwrap(),
        [10, 5]
    );
    let xz = Selection {
        planes: vec![Plane::Xz],
        ..within("0-512,8-10,*")
    };
    assert_eq!(counted(&xz).unwrap(), [2, 1]);
    let (level, cutout) = Extent::cutout("1/0,300/0,512/10,12").unwrap();
    let cutout = Selection {
        levels: Numbers::from_first(level),
        within: Some(cutout),
        planes: Plane::ALL.to_vec(),
        ..all()
    };
    // Two slices of xy, 450 of xz, 300 of yz; each is one tile.
    assert_eq!(counted(&cutout).unwrap(), [0, 2 + 450 + 300]);
}

#[test]
fn a_selection_of_nothing_is_an_error_that_lists_what_there_is() {
    let error = |wanted: Selection| counted(&wanted).unwrap_err();
    let all = Selection::default;
    let name = |text: &str| crate::base::name::Name::new(text).unwrap();
    assert!(
        error(Selection {
            tokens: vec![name("b")],
            ..all()
        })
        .contains("the datasets are a")
    );
    let channels = vec![ChannelChoice::One(name("d"))];
    assert!(error(Selection { channels, ..all() }).contains("the channels are c"));
    assert!(
        error(Selection {
            levels: Numbers::from_first(2),
            ..all()
        })
        .contains("levels 0 to 1")
    );
    assert!(
        error(Selection {
            slices: "0-9,60".parse().unwrap(),
            ..all()
        })
        .contains("10 to 59")
    );
    assert!(
        error(Selection {
            times: Numbers::single(1),
            ..all()
        })
        .contains("the time points are 0 to 0")
    );
    assert!(
        error(Selection {
            within: "0-1,0-1,0-9".parse().ok(),
            ..all()
        })
        .contains("outside")
    );
}

#[test]
fn endless_volumes_are_walked_through_without_a_list() {
    let volume = Volume::plain(Xyz::new(1 << 40, 1 << 40, 1 << 30), Xyz::all(64));
    let work = work(
        &volume,
        &Selection {
            levels: Numbers::single(0),
            ..Selection::default()
        },
        1 << 30,
    )
    .unwrap();
    assert_eq!(work.total(), u64::MAX);
    let mut tiles = work.tiles();
    let far = [(); 3].map(|()| tiles.next().unwrap());
    assert_eq!(far.map(|tile| tile.address.slice), [0, 1, 2]);
}
