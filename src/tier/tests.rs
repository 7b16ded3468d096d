//! The suite that every backend passes, and tests of tiers in order.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::{ObjectStoreExt, PutPayload};
use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;
use voltile_base::metrics::{Metrics, TierCounters};
use voltile_base::name::Name;
use voltile_base::tile::{Tile, TileKey};
use voltile_hdf5::store::Store;

use super::redis::tests::Fake;
use super::*;

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Distinct noise of varying length.
pub(super) fn tile(number: usize) -> Tile {
    let mixed = |at: usize| (((number << 20) + at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    let png: Vec<u8> = (0..1 + number % 7 * 9000).map(mixed).collect();
    Tile::new(TileKey::digest(&number), png)
}

/// The tile whose entry is damaged, with the token `a`, and the bytes of an entry.
const DAMAGED: usize = 3;

/// A backend under test.
struct Subject {
    kind: TierKind,
    backend: Box<dyn Backend>,
    /// Replaces the bytes of the entry of the tile [`DAMAGED`].
    replace: Box<dyn Fn(Vec<u8>)>,
    /// A backend of this kind that has no room; `None` if there always is room.
    full: Option<Box<dyn Backend>>,
}

/// Every backend; `place` is for files.
fn subjects(place: &Path) -> [Subject; 3] {
    let metrics = Metrics::default();
    let path = place.join("cache");
    let file = folder::TokenFolder::new(&path, folder::EntryKind::Tile, &name("a"));
    let file = file.file(&tile(DAMAGED).key);
    let limited = Directory::open(&place.join("limited")).unwrap();
    let directory = Subject {
        kind: TierKind::Directory,
        backend: Box::new(Directory::open(&path).unwrap()),
        replace: Box::new(move |bytes| fs::write(&file, bytes).unwrap()),
        full: Some(Box::new(limited.with_budget(4096, &metrics).unwrap())),
    };
    let [fake, other] = [Fake::start(), Fake::start()];
    other.fill(true);
    let redis = Subject {
        kind: TierKind::Redis,
        backend: Box::new(fake.opened(&metrics)),
        replace: Box::new(move |bytes| fake.replace(&tile(DAMAGED).key, bytes)),
        full: Some(Box::new(other.opened(&metrics))),
    };
    let (folder, bucket) = Store::folder_in_memory();
    let object = format!("tiles/{}/a/{}.png", entry::FORMAT, tile(DAMAGED).key);
    let objects = Subject {
        kind: TierKind::Objects,
        backend: Box::new(folder),
        replace: Box::new(move |bytes| {
            let path = object.as_str().into();
            let put = bucket.put(&path, PutPayload::from(bytes));
            futures_util::FutureExt::now_or_never(put).unwrap().unwrap();
        }),
        full: None,
    };
    [directory, redis, objects]
}

#[test]
fn every_backend_passes_the_suite() {
    let place = tempfile::tempdir().unwrap();
    for subject in subjects(place.path()) {
        let kind = subject.kind;
        a_tile_is_found_by_its_token_and_key_only(&*subject.backend);
        concurrent_threads_see_complete_tiles(&*subject.backend);
        damaged_entries_are_removed_and_can_be_stored_again(&subject);
        if let Some(full) = &subject.full {
            let Tile { key, bytes, .. } = tile(1);
            assert!(full.put(&name("a"), &key, &bytes).is_err(), "{kind:?}");
            assert_eq!(full.get(&name("a"), &key), Ok(None), "{kind:?}");
        }
    }
}

fn a_tile_is_found_by_its_token_and_key_only(tier: &dyn Backend) {
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

fn concurrent_threads_see_complete_tiles(tier: &dyn Backend) {
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

fn damaged_entries_are_removed_and_can_be_stored_again(subject: &Subject) {
    let Subject {
        kind,
        backend,
        replace,
        ..
    } = subject;
    let (
        token,
        Tile {
            key, bytes: png, ..
        },
    ) = (name("a"), tile(DAMAGED));
    let entry = |key: &TileKey, png: &[u8]| [png, &entry::trailer(key, png)].concat();
    let whole = entry(&key, &png);
    let other = tile(4);
    let mut flipped = whole.clone();
    flipped[500] ^= 1;
    let damaged = [
        ("cut off", whole[..1000].to_vec()),
        ("empty", Vec::new()),
        ("a flipped bit", flipped),
        ("another tile", entry(&other.key, &other.bytes)),
        ("another file", b"dear diary".to_vec()),
        (
            "too long",
            [&whole[..], &vec![0; entry::MAX_LENGTH as usize]].concat(),
        ),
    ];
    for (what, bytes) in damaged {
        backend.put(&token, &key, &png).unwrap();
        replace(bytes);
        let error = backend.get(&token, &key).expect_err(what);
        // Redis does not even read what is too long.
        let is_corrupt = matches!(error, TierError::Corrupt { .. });
        assert!(
            is_corrupt || what == "too long",
            "{kind:?}, {what}: {error}"
        );
        if is_corrupt {
            assert_eq!(backend.get(&token, &key), Ok(None), "{kind:?}, {what}");
        }
        backend.put(&token, &key, &png).unwrap();
        assert_eq!(
            backend.get(&token, &key),
            Ok(Some(png.clone())),
            "{kind:?}, {what}"
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
    let shown = image::open(
        folder::TokenFolder::new(place.path(), folder::EntryKind::Tile, &token).file(&key),
    )
    .unwrap();
    assert_eq!(shown.into_luma8(), picture);
}

#[test]
fn nothing_is_written_to_a_directory_without_its_marker_until_it_is_made_a_cache_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("cache");
    let directory = Directory::open(&path).unwrap();
    let (token, Tile { key, bytes, .. }) = (name("a"), tile(3));
    let is_refused = || {
        let refused = directory.put(&token, &key, &bytes);
        matches!(refused, Err(TierError::Unmarked { .. })) && !path.join("tiles").exists()
    };
    fs::rename(&path, place.path().join("elsewhere")).unwrap();
    assert!(is_refused() && !path.exists());
    assert_eq!(directory.get(&token, &key), Ok(None));
    // What an unmounted file system leaves: an empty directory.
    fs::create_dir(&path).unwrap();
    assert!(is_refused());
    Directory::make(&path).unwrap();
    directory.put(&token, &key, &bytes).unwrap();
    assert_eq!(directory.get(&token, &key), Ok(Some(bytes)));
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
        self.0.0.lock().is_open = true;
        self.0.1.notify_all();
    }

    /// Waits until a write has begun.
    fn wait_for_write(&self) {
        let mut passage = self.0.0.lock();
        self.0
            .1
            .wait_while(&mut passage, |passage| passage.begun == 0);
    }
}

impl Backend for Gate {
    fn get(&self, _: &Name, _: &TileKey) -> Result<Option<Bytes>, TierError> {
        Ok(None)
    }

    fn put(&self, _: &Name, _: &TileKey, _: &Bytes) -> Result<(), TierError> {
        let mut passage = self.0.0.lock();
        passage.begun += 1;
        self.0.1.notify_all();
        self.0
            .1
            .wait_while(&mut passage, |passage| !passage.is_open);
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
    let tier = Tier::start(TierKind::Directory, gate.clone(), metrics.tier.clone()).unwrap();
    let tier = Tiers::new(vec![tier]);
    let large = Tile::new(TileKey::digest(&1), vec![0; 10 << 20]);
    (0..5).for_each(|_| tier.store_later(&name("a"), &large, || true));
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
    tier.store_later(&name("a"), &large, || true);
    assert_eq!(
        (metrics.tier.dropped.get(), metrics.tier.writes.get()),
        (5, 1),
        "the queue is closed"
    );
}

#[test]
fn tiers_are_asked_in_order_and_what_a_later_one_has_is_written_to_those_before() {
    let metrics = Metrics::default();
    let place = tempfile::tempdir().unwrap();
    let store = |name: &str| Directory::open(&place.path().join(name)).unwrap();
    let tier = |kind, folder, counters: &TierCounters| {
        Tier::start(kind, store(folder), counters.clone()).unwrap()
    };
    let tiers = Tiers::new(vec![
        tier(TierKind::Directory, "near", &metrics.tier),
        tier(TierKind::Redis, "far", &metrics.redis),
    ]);
    let [near, far] = ["near", "far"].map(store);
    let token = name("a");
    assert_eq!(tiers.find(&token, &tile(1).key), None);
    let Tile {
        key, bytes: png, ..
    } = tile(1);
    far.put(&token, &key, &png).unwrap();
    let found = |kind| Some((png.clone(), kind));
    assert_eq!(tiers.find(&token, &key), found(TierKind::Redis));
    while metrics.tier.writes.get() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(tiers.find(&token, &key), found(TierKind::Directory));
    let counts = |counters: &TierCounters| {
        [&counters.hits, &counters.misses, &counters.writes].map(Counter::get)
    };
    assert_eq!(
        (counts(&metrics.tier), counts(&metrics.redis)),
        ([1, 2, 1], [1, 1, 0])
    );
    tiers.store(&token, &tile(2)).unwrap();
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
    let tier = Tier::start(TierKind::Directory, gate.clone(), metrics.tier.clone()).unwrap();
    let tier = Tiers::new(vec![tier]);
    (0..50)
        .for_each(|number| tier.store_later(&name("a"), &tile(number), move || number % 10 != 0));
    tier.finish(Duration::from_secs(60));
    assert_eq!(
        (
            metrics.tier.writes.get(),
            metrics.tier.dropped.get(),
            gate.0.0.lock().written
        ),
        (45, 5, 45)
    );
}
