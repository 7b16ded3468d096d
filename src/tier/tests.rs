//! The test suite for every backend, and tests of the directory.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;

use super::*;
use crate::base::name::Name;
use crate::base::tile::{Tile, TileKey};
use crate::metrics::{Metrics, TierCounters};

/// A backend in memory, which checks the suite itself.
#[derive(Default)]
struct Memory(Mutex<HashMap<(Name, TileKey), Bytes>>);

impl<T: TileTier> TileTier for Arc<T> {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        self.as_ref().get(token, key)
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.as_ref().put(token, key, png)
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.as_ref().has(token, key)
    }
}

impl TileTier for Memory {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        Ok(self.0.lock().unwrap().get(&(token.clone(), *key)).cloned())
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.0
            .lock()
            .unwrap()
            .insert((token.clone(), *key), png.clone());
        Ok(())
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        Ok(self.0.lock().unwrap().contains_key(&(token.clone(), *key)))
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn path_of(root: &Path, token: &Name, key: &TileKey) -> PathBuf {
    folders::Folder::new(token, folders::Kind::Tiles).path_of_tile(root, key)
}

/// Distinct noise of varying length.
pub(super) fn tile(number: usize) -> Tile {
    let mixed = |at: usize| (((number << 20) + at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    let png: Vec<u8> = (0..1 + number % 7 * 9000).map(mixed).collect();
    Tile::new(TileKey::digest(&number), png)
}

pub(super) fn satisfies_the_contract(tier: &dyn TileTier) {
    a_tile_is_found_by_its_token_and_key_only(tier);
    concurrent_threads_see_complete_tiles(tier);
}

fn a_tile_is_found_by_its_token_and_key_only(tier: &dyn TileTier) {
    let tokens = [name("a"), name(".."), name(&"long".repeat(100))];
    for token in &tokens {
        for number in 0..9 {
            let Tile {
                key, bytes: png, ..
            } = tile(number);
            assert_eq!(
                (tier.get(token, &key), tier.has(token, &key)),
                (Ok(None), Ok(false))
            );
            for _ in 0..2 {
                tier.put(token, &key, &png).unwrap();
                assert_eq!(
                    (tier.get(token, &key), tier.has(token, &key)),
                    (Ok(Some(png.clone())), Ok(true))
                );
            }
        }
        assert_eq!(tier.get(token, &tile(10).key), Ok(None));
    }
}

fn concurrent_threads_see_complete_tiles(tier: &dyn TileTier) {
    let token = name("many");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let token = &token;
            scope.spawn(move || {
                for step in 0..60 {
                    let Tile {
                        key, bytes: png, ..
                    } = tile((step + thread * 2) % 10);
                    match (thread + step) % 2 {
                        0 => tier.put(token, &key, &png).unwrap(),
                        _ => assert!(
                            tier.get(token, &key)
                                .unwrap()
                                .is_none_or(|found| found == png)
                        ),
                    }
                }
            });
        }
    });
    assert!(
        (0..10)
            .all(|number| tier.get(&token, &tile(number).key).unwrap() == Some(tile(number).bytes))
    );
}

#[test]
fn the_memory_backend_satisfies_the_contract() {
    satisfies_the_contract(&Memory::default());
}

#[test]
fn the_directory_satisfies_the_contract_and_outlives_its_handle() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("cache");
    satisfies_the_contract(&Directory::open(&path).unwrap());
    let again = Directory::open(&path).unwrap();
    let Tile {
        key, bytes: png, ..
    } = tile(5);
    assert_eq!(again.get(&name("a"), &key), Ok(Some(png)));
    for contents in again.contents(true).unwrap() {
        let Contents {
            damaged: corrupt,
            unfinished,
            foreign,
            ..
        } = contents;
        assert_eq!(
            (corrupt, unfinished, foreign),
            (vec![], 0, 0),
            "nothing is left over"
        );
    }
}

#[test]
fn a_tile_file_is_an_ordinary_png() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let mut png = Vec::new();
    let picture = image::GrayImage::from_fn(9, 7, |x, y| image::Luma([(x * y) as u8]));
    picture
        .write_to(&mut std::io::Cursor::new(&mut png), image::ImageFormat::Png)
        .unwrap();
    let (token, key) = (name("a"), TileKey::digest(&1));
    directory.put(&token, &key, &png.into()).unwrap();
    let shown = image::open(path_of(place.path(), &token, &key)).unwrap();
    assert_eq!(shown.into_luma8(), picture);
}

#[test]
fn a_damaged_tile_is_removed_and_can_be_stored_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let (
        token,
        Tile {
            key, bytes: png, ..
        },
    ) = (name("a"), tile(3));
    let path = path_of(place.path(), &token, &key);
    let other = tile(4);
    let damage: [(&str, &dyn Fn()); 10] = [
        ("cut off", &|| {
            fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(1000)
                .unwrap();
        }),
        ("empty", &|| fs::write(&path, "").unwrap()),
        ("a flipped bit", &|| {
            let mut bytes = fs::read(&path).unwrap();
            bytes[500] ^= 1;
            fs::write(&path, bytes).unwrap();
        }),
        ("another tile", &|| {
            directory.put(&token, &other.key, &other.bytes).unwrap();
            fs::copy(path_of(place.path(), &token, &other.key), &path)
                .map(drop)
                .unwrap();
        }),
        ("another file", &|| fs::write(&path, "dear diary").unwrap()),
        ("a huge file", &|| {
            fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        }),
        ("a link to an endless device", &|| {
            replaced_by_link("/dev/zero".as_ref(), &path);
        }),
        ("a link to another tile", &|| {
            directory.put(&token, &other.key, &other.bytes).unwrap();
            replaced_by_link(&path_of(place.path(), &token, &other.key), &path);
        }),
        ("a FIFO", &|| {
            fs::remove_file(&path).unwrap();
            let made = std::process::Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap();
            assert!(made.success());
        }),
        ("a directory", &|| {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }),
    ];
    for (what, damage) in damage {
        directory.put(&token, &key, &png).unwrap();
        damage();
        let error = directory.get(&token, &key).expect_err(what);
        assert!(
            matches!(error, TierError::Corrupt { .. }),
            "{what}: {error}"
        );
        assert_eq!(directory.get(&token, &key), Ok(None), "{what}");
    }
    directory.put(&token, &key, &png).unwrap();
    assert_eq!(directory.get(&token, &key), Ok(Some(png)));
}

fn replaced_by_link(target: &Path, path: &Path) {
    fs::remove_file(path).unwrap();
    symlink(target, path).unwrap();
}

#[test]
fn symbolic_links_to_folders_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("cache"), place.path().join("outside"));
    let directory = Directory::open(&root).unwrap();
    let (
        token,
        Tile {
            key, bytes: png, ..
        },
    ) = (name("a"), tile(3));
    directory.put(&token, &key, &png).unwrap();
    let fan = path_of(&root, &token, &key).parent().unwrap().to_owned();
    for folder in [fan, root.join("tiles/a"), root.join("tiles")] {
        fs::rename(&folder, &outside).unwrap();
        symlink(&outside, &folder).unwrap();
        let results = [
            directory.put(&token, &key, &png),
            directory.get(&token, &key).map(drop),
        ];
        assert!(
            results
                .iter()
                .all(|result| matches!(result, Err(TierError::System { .. }))),
            "{results:?}"
        );
        // Clearing does not follow links either: they are not listed.
        drop(directory.clear(None));
        fs::remove_file(&folder).unwrap();
        fs::rename(&outside, &folder).unwrap();
        assert_eq!(directory.get(&token, &key), Ok(Some(png.clone())));
    }
}

#[test]
fn a_file_in_place_of_a_folder_is_an_error_and_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let (
        token,
        Tile {
            key, bytes: png, ..
        },
    ) = (name("a"), tile(3));
    let folder = place.path().join("tiles/a");
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::write(&folder, "in the way").unwrap();
    for result in [
        directory.put(&token, &key, &png),
        directory.get(&token, &key).map(drop),
    ] {
        assert!(
            matches!(result, Err(TierError::System { .. })),
            "{result:?}"
        );
    }
    assert_eq!(fs::read_to_string(&folder).unwrap(), "in the way");
}

/// A backend whose writes block until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Default)]
struct Passage {
    is_open: bool,
    begun: usize,
    written: usize,
}

impl Gate {
    fn open(&self) {
        self.0.0.lock().unwrap().is_open = true;
        self.0.1.notify_all();
    }

    /// Waits until a write has begun.
    fn wait_for_write(&self) {
        let passage = self.0.0.lock().unwrap();
        drop(
            self.0
                .1
                .wait_while(passage, |passage| passage.begun == 0)
                .unwrap(),
        );
    }
}

impl TileTier for Gate {
    fn get(&self, _: &Name, _: &TileKey) -> Result<Option<Bytes>, TierError> {
        Ok(None)
    }

    fn put(&self, _: &Name, _: &TileKey, _: &Bytes) -> Result<(), TierError> {
        let mut passage = self.0.0.lock().unwrap();
        passage.begun += 1;
        self.0.1.notify_all();
        let mut passage = self
            .0
            .1
            .wait_while(passage, |passage| !passage.is_open)
            .unwrap();
        passage.written += 1;
        Ok(())
    }

    fn has(&self, _: &Name, _: &TileKey) -> Result<bool, TierError> {
        Ok(false)
    }
}

#[test]
fn queueing_never_blocks_and_a_full_queue_drops_tiles() {
    let (gate, metrics) = (Gate::default(), Metrics::default());
    let tier = Tier::start(Backend::Directory, gate.clone(), metrics.tier.clone()).unwrap();
    let tier = Tiers::new(vec![tier]).unwrap();
    let large = Tile::new(TileKey::digest(&1), vec![0; 10 << 20]);
    (0..5).for_each(|_| tier.keep_later(&name("a"), &large, || true));
    assert_eq!(
        metrics.tier.dropped.get(),
        2,
        "three of 10 MiB fit into the queue"
    );
    gate.wait_for_write();
    tier.finish(Duration::from_millis(20));
    assert_eq!(
        metrics.tier.dropped.get(),
        4,
        "the one being written is not dropped"
    );
    gate.open();
    while metrics.tier.writes.get() < 1 {
        std::thread::yield_now();
    }
    tier.keep_later(&name("a"), &large, || true);
    assert_eq!(
        (metrics.tier.dropped.get(), metrics.tier.writes.get()),
        (5, 1),
        "the queue is closed"
    );
}

#[test]
fn tiers_are_asked_in_order_and_what_a_later_one_has_is_written_to_those_before() {
    let metrics = Metrics::default();
    let [near, far] = [Arc::new(Memory::default()), Arc::new(Memory::default())];
    let tier = |backend, store: &Arc<Memory>, counters: &TierCounters| {
        Tier::start(backend, Arc::clone(store), counters.clone()).unwrap()
    };
    let tiers = Tiers::new(vec![
        tier(Backend::Directory, &near, &metrics.tier),
        tier(Backend::Redis, &far, &metrics.redis),
    ]);
    let (tiers, token) = (tiers.unwrap(), name("a"));
    assert_eq!(tiers.find(&token, &tile(1).key), None);
    let Tile {
        key, bytes: png, ..
    } = tile(1);
    far.put(&token, &key, &png).unwrap();
    let found = |backend| {
        Some(Found {
            png: png.clone(),
            backend,
        })
    };
    assert_eq!(tiers.find(&token, &key), found(Backend::Redis));
    while metrics.tier.writes.get() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(tiers.find(&token, &key), found(Backend::Directory));
    let counts = |counters: &TierCounters| {
        [&counters.hits, &counters.misses, &counters.writes].map(Counter::get)
    };
    assert_eq!(
        (counts(&metrics.tier), counts(&metrics.redis)),
        ([1, 2, 1], [1, 1, 0])
    );
    tiers.keep(&token, &tile(2)).unwrap();
    assert_eq!(
        near.has(&token, &tile(2).key),
        Ok(true),
        "it waits for a tier that is to last"
    );
    tiers.finish(Duration::from_secs(300));
    assert_eq!(far.has(&token, &tile(2).key), Ok(true));
}

#[test]
fn queued_tiles_are_written_before_the_end_unless_they_became_invalid() {
    let (gate, metrics) = (Gate::default(), Metrics::default());
    gate.open();
    let tier = Tier::start(Backend::Directory, gate.clone(), metrics.tier.clone()).unwrap();
    let tier = Tiers::new(vec![tier]).unwrap();
    (0..50).for_each(|number| tier.keep_later(&name("a"), &tile(number), move || number % 10 != 0));
    tier.finish(Duration::from_secs(60));
    assert_eq!(
        (
            metrics.tier.writes.get(),
            metrics.tier.dropped.get(),
            gate.0.0.lock().unwrap().written
        ),
        (45, 5, 45)
    );
}
