//! Pyramids: computes the levels that a file lacks once, and stores them in a sidecar next to it or
//! in a new volume.
//!
//! Every level is computed in one step from the stored level that the renderer would use, so that
//! it equals what the renderer would compute on the fly; `tests/stories/pyramid.rs` checks this. A
//! volume is read once, node by node of its `tree`, on all threads. Finished parts are stored as
//! `piece`s in the work `folder`; after a kill, the next run resumes from them. When all are there
//! they are assembled into an HDF5 file, which gets its final name last. The original is only read.
//! Tiles play no part here.
//!
//! Several processes can share the work ([`PyramidWork::run_shard`]): each makes pieces that follow
//! one another, and one process assembles them later ([`PyramidWork::assemble`]). Only the presence
//! of pieces says what is done: it does not matter which process made one, on which machine, and
//! into how many shards the work was divided then. No shard waits for another, because the levels
//! above pieces are built during assembly, from the sums in the pieces.
//!
//! Memory: for each thread, the voxels of one block (2^22), their sums (half as many numbers, of 8
//! bytes each, or 16 for 64-bit integers), and the compressed chunks of one piece; besides, the
//! chunk cache.

mod assemble;
mod build;
mod error;
mod family;
mod folder;
mod gaps;
mod grid;
mod piece;
mod tree;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::iter::{ParallelBridge, ParallelIterator};
use voltile_base::flow::activity::Activity;
use voltile_base::geometry::{Scaling, Xyz};
use voltile_base::shard::Shard;
use voltile_hdf5::store::Location;
use voltile_hdf5::volume::Stamp;
use voltile_hdf5::volume::hdf5::{FileIdentity, Writer};

use crate::catalog::{Channel, StoredLevel};
use crate::layout::inventory::{ATTRIBUTE, ChannelRecord, Inventory, Role};
use crate::tools::progress::Progress;

pub use error::PyramidError;

use family::{Family, Piece, families};
use folder::{PieceId, WorkFolder};

/// A channel whose missing levels are to be computed.
#[derive(Debug, Clone)]
pub struct WantedChannel {
    /// The channel.
    pub channel: Arc<Channel>,
    /// How halving a level scales z.
    pub scaling: Scaling,
    /// The size of a voxel in nanometres, if configured.
    pub voxel_size: Option<Xyz<f64>>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct PyramidReport {
    /// The levels that were written, by channel.
    pub levels: Vec<(String, Vec<u8>)>,
    /// The levels that could not be computed, by channel, and the reason.
    pub failed: Vec<(String, Vec<u8>, String)>,
}

/// The result of one shard.
#[derive(Debug)]
pub struct ShardReport {
    /// The number of pieces of this shard.
    pub pieces: usize,
    /// The number of pieces of the whole work.
    pub all: usize,
    /// The number of pieces of the whole work that are missing.
    pub missing: usize,
    /// The levels that could not be computed, by channel, and the reason.
    pub failed: Vec<(String, Vec<u8>, String)>,
}

/// The reasons why families could not be computed, by number.
type FamilyFailures = BTreeMap<usize, String>;

/// The work for one file.
#[derive(Debug)]
pub struct PyramidWork {
    /// The number of the file among the command's files. The shards of each file are rotated by it,
    /// so that no shard gets all the files that consist of a single piece.
    pub number: u64,
    /// Whether to store the metadata of the output in pages of its own, for object storage.
    pub paged: bool,
    role: Role,
    /// The file to be written.
    pub output: PathBuf,
    original: Location,
    /// The stamps of all files that are read.
    stamps: Vec<(Location, Stamp)>,
    records: Vec<ChannelRecord>,
    families: Vec<Family>,
}

/// The minimum and the maximum size of the pages of a paged file, in bytes.
const PAGE_SIZES: [u64; 2] = [1 << 20, 16 << 20];
/// A page is at least as large as this many chunks before compression. A chunk that does not fit
/// into the rest of a page is written to the next one, and the rest stays empty: with chunks of 15
/// to 450 KB, files become 3 to 5 % larger.
const CHUNKS_PER_PAGE: u64 = 8;

impl PyramidWork {
    /// Plans to compute the levels that `original` lacks, or to re-chunk all of it. Writes nothing.
    ///
    /// # Errors
    /// If `output` exists, or the original's metadata cannot be read.
    pub fn plan(
        original: &Location,
        output: &Path,
        role: Role,
        wanted: &[WantedChannel],
    ) -> Result<Self, PyramidError> {
        if output.exists() {
            WorkFolder::sweep(output);
            return Err(PyramidError::Exists(output.to_owned()));
        }
        let mut work = Self {
            number: 0,
            paged: false,
            role,
            output: output.to_owned(),
            original: original.clone(),
            stamps: Vec::new(),
            records: Vec::new(),
            families: Vec::new(),
        };
        for wanted in wanted {
            work.add(wanted);
        }
        work.stamps = work.read_stamps()?;
        Ok(work)
    }

    /// Adds a channel's record, and the families of levels to compute.
    fn add(&mut self, wanted: &WantedChannel) {
        let mut record = wanted.channel.record(wanted.scaling);
        if let Some(size) = wanted.voxel_size {
            record.facts.voxel_size = Some(size);
            record.facts.voxel_unit = Some("nm".to_owned());
        }
        // The same channel may be served under several tokens; its levels are written once.
        let is_known = self.records.iter().any(|known| {
            known.origin == record.origin
                && known.kind == record.kind
                && known.scaling == record.scaling
        });
        if self.role == Role::Sidecar && is_known {
            return;
        }
        let records = self.records.iter();
        let namesakes = records.filter(|known| known.name == record.name).count();
        let group = match namesakes {
            0 => record.name.clone(),
            _ => format!("{}.{}", record.name, namesakes + 1),
        };
        let copies_stored = self.role == Role::Volume;
        let index = self.records.len();
        self.families
            .extend(families(wanted, copies_stored, &group, index));
        self.records.push(record);
    }

    /// The page size of the output, if it is to be paged.
    fn page_size(&self) -> Option<u64> {
        if !self.paged {
            return None;
        }
        let mut largest_chunk = 0;
        for family in &self.families {
            for target in &family.targets {
                let voxel_bytes = family.empty_samples_of(target).voxel_bytes() as u64;
                let chunk_bytes = family.chunk(target.height).volume() * voxel_bytes;
                largest_chunk = largest_chunk.max(chunk_bytes);
            }
        }
        let [least, most] = PAGE_SIZES;
        let wanted = (CHUNKS_PER_PAGE * largest_chunk).next_power_of_two();
        Some(wanted.clamp(least, most))
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Computes the pieces that earlier runs have not finished, and moves the complete file into
    /// place.
    ///
    /// # Errors
    /// If something cannot be written, or the original has changed since the work was planned. A
    /// level that cannot be read is not an error: it is listed in the report.
    pub fn run(
        &self,
        threads: NonZeroUsize,
        activity: &Activity,
        progress: &Progress,
    ) -> Result<PyramidReport, PyramidError> {
        let folder = WorkFolder::open(&self.output, &self.manifest())?;
        let failed = self.make_pieces(&folder, &self.pieces(), threads, activity, progress)?;
        let report = self.report(&failed);
        if report.levels.is_empty() {
            folder.remove();
        } else {
            self.publish(folder, &failed)?;
        }
        Ok(report)
    }

    /// Makes the pieces of one shard that do not exist yet.
    ///
    /// # Errors
    /// If something cannot be written. Pieces that cannot be read are not an error: they are listed
    /// in the report, and recorded for the assembly.
    pub fn run_shard(
        &self,
        shard: &Shard,
        threads: NonZeroUsize,
        activity: &Activity,
        progress: &Progress,
    ) -> Result<ShardReport, PyramidError> {
        let folder = WorkFolder::open_shared(&self.output, &self.manifest(), shard.count())?;
        let all = self.pieces();
        let own = all.get(self.part(shard, &all)).unwrap_or_default();
        let failed = self.make_pieces(&folder, own, threads, activity, progress);
        let failed = failed.map_err(|error| self.error_to_report(error))?;
        let missing = all.iter().filter(|id| !folder.has(**id)).count();
        Ok(ShardReport {
            pieces: own.len(),
            all: all.len(),
            missing,
            failed: self.report(&failed).failed,
        })
    }

    /// Assembles the pieces that shards have made, and moves the complete file into place.
    ///
    /// # Errors
    /// If pieces are missing, something cannot be written, or the original has changed since the
    /// work was planned. A level with a piece that could not be read is not an error: it is listed
    /// in the report.
    pub fn assemble(&self) -> Result<PyramidReport, PyramidError> {
        let folder = WorkFolder::existing(&self.output, &self.manifest());
        let mut failed = self.undecodable();
        failed.extend(folder.failures());
        if let Some(missing) = self.missing(&folder, &failed) {
            return Err(self.error_to_report(missing));
        }
        let report = self.report(&failed);
        // Without any level the pieces stay: a shard that is run again may succeed.
        if !report.levels.is_empty() {
            self.publish(folder, &failed)
                .map_err(|error| self.error_to_report(error))?;
        }
        Ok(report)
    }

    /// Returns `error`, but [`PyramidError::Exists`] if the output exists: another process has then
    /// assembled the output and removed the work folder, which explains any other error.
    fn error_to_report(&self, error: PyramidError) -> PyramidError {
        if self.output.exists() {
            PyramidError::Exists(self.output.clone())
        } else {
            error
        }
    }

    /// Assembles the file from the pieces, and moves it into place.
    fn publish(&self, folder: WorkFolder, failed: &FamilyFailures) -> Result<(), PyramidError> {
        tracing::debug!("all voxels are read; assembling the pieces");
        let whole = folder.whole();
        self.write(&folder, &whole, failed)?;
        folder.publish(&whole, &self.output)
    }

    /// The ids of all pieces, in order.
    fn pieces(&self) -> Vec<PieceId> {
        let mut pieces = Vec::new();
        for (family, own) in self.families.iter().enumerate() {
            for piece in 0..own.pieces.len() {
                pieces.push(PieceId { family, piece });
            }
        }
        pieces
    }

    fn piece(&self, id: PieceId) -> &Piece {
        &self.families[id.family].pieces[id.piece]
    }

    /// The number of voxels to read for each piece.
    fn voxels(&self, pieces: &[PieceId]) -> Vec<u64> {
        pieces.iter().map(|id| self.piece(*id).voxels).collect()
    }

    /// The indices of the pieces that a shard makes, among all pieces.
    fn part(&self, shard: &Shard, pieces: &[PieceId]) -> Range<usize> {
        shard.rotated(self.number).part(&self.voxels(pieces))
    }

    /// Identifies the work: only pieces with equal manifests may be combined.
    fn manifest(&self) -> String {
        let stamps = self.stamps.iter().map(|(_, stamp)| stamp.clone()).collect();
        let inventory = self.inventory(stamps, &FamilyFailures::new());
        let trees: Vec<String> = self
            .families
            .iter()
            .map(|family| format!("{:?}", family.tree))
            .collect();
        format!(
            "{} {}\n{}\n",
            env!("CARGO_PKG_VERSION"),
            trees.join(" "),
            inventory.to_text()
        )
    }

    /// Makes the pieces that do not exist yet. Returns the families with a piece that could not be
    /// read. After such a failure no further piece of the family is made.
    fn make_pieces(
        &self,
        folder: &WorkFolder,
        pieces: &[PieceId],
        threads: NonZeroUsize,
        activity: &Activity,
        progress: &Progress,
    ) -> Result<FamilyFailures, PyramidError> {
        let (done, missing): (Vec<PieceId>, Vec<PieceId>) =
            pieces.iter().partition(|id| folder.has(**id));
        let voxels_of = |pieces: &[PieceId]| self.voxels(pieces).iter().sum();
        progress.begin(voxels_of(pieces), voxels_of(&done));
        let failures = Mutex::new(self.undecodable());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.get())
            .build()?;
        // All threads have work, so no thread should split its decoding.
        let _places: Vec<_> = (0..threads.get()).map(|_| activity.enter()).collect();
        // In order: neighbours may share stored chunks, which are still cached.
        pool.install(|| {
            missing.into_iter().par_bridge().try_for_each(|id| {
                let is_made = self.make_piece(folder, id, &failures)?;
                progress.advance(self.piece(id).voxels, !is_made);
                Ok::<(), PyramidError>(())
            })
        })?;
        Ok(failures.into_inner())
    }

    /// Makes a piece unless it exists. Returns false if a piece of its family cannot be read; the
    /// reason is then among `failures`.
    fn make_piece(
        &self,
        folder: &WorkFolder,
        id: PieceId,
        failures: &Mutex<FamilyFailures>,
    ) -> Result<bool, PyramidError> {
        if failures.lock().contains_key(&id.family) {
            return Ok(false);
        }
        // Another process may have made the piece in the meantime.
        if folder.has(id) {
            return Ok(true);
        }
        match piece::make(&self.families[id.family], &self.piece(id).units) {
            Ok(bytes) => folder.store_piece(id, &bytes).map(|()| true),
            Err(PyramidError::Read(error)) => {
                folder.record_failure(id, &error.to_string())?;
                failures.lock().insert(id.family, error.to_string());
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The families none of whose voxels can be read, because this build lacks a filter.
    fn undecodable(&self) -> FamilyFailures {
        let mut failed = FamilyFailures::new();
        for (number, family) in self.families.iter().enumerate() {
            let stored = family.stored();
            let filters = &stored.storage.missing_filters;
            if !filters.is_empty() {
                let reason = format!(
                    "{} is stored with the filter {}, which this build cannot decode",
                    stored.path(),
                    filters.join(", ")
                );
                failed.insert(number, reason);
            }
        }
        failed
    }

    /// Writes all levels, and the inventory.
    fn write(
        &self,
        folder: &WorkFolder,
        path: &Path,
        failed: &FamilyFailures,
    ) -> Result<(), PyramidError> {
        let mut writer = Writer::create(path, self.page_size())?;
        for (number, family) in self.families.iter().enumerate() {
            if !self.is_left_out(number, failed) {
                assemble::write_family(family, number, folder, &mut writer)?;
            }
        }
        let inventory = self.inventory(self.checked_stamps()?, failed);
        writer.text(ATTRIBUTE, &inventory.to_text())?;
        Ok(writer.finish(path)?)
    }

    /// Whether a family is not written: because it failed or, in a new volume, because another
    /// family of the same channel failed.
    fn is_left_out(&self, number: usize, failed: &FamilyFailures) -> bool {
        if failed.contains_key(&number) {
            return true;
        }
        if self.role != Role::Volume {
            return false;
        }
        let record = self.families[number].record;
        failed.keys().any(|other| {
            let family = self.families.get(*other);
            family.is_some_and(|family| family.record == record)
        })
    }

    fn inventory(&self, stamps: Vec<Stamp>, failed: &FamilyFailures) -> Inventory {
        let mut records = self.records.clone();
        for (number, family) in self.families.iter().enumerate() {
            if self.is_left_out(number, failed) {
                continue;
            }
            let levels = &mut records[family.record].levels;
            levels.extend(family.targets.iter().map(|target| target.record.clone()));
            levels.sort_by_key(|level| level.level);
        }
        records.retain(|record| !record.levels.is_empty());
        Inventory::new(self.role, stamps, records)
    }

    fn report(&self, failed: &FamilyFailures) -> PyramidReport {
        let mut report = PyramidReport::default();
        for (number, family) in self.families.iter().enumerate() {
            let name = self.records[family.record].name.clone();
            let targets = family.targets.iter();
            let levels = targets.map(|target| target.record.level).collect();
            if self.is_left_out(number, failed) {
                let why = failed.get(&number).cloned().unwrap_or_else(|| {
                    "another level of the channel failed; a new volume gets all levels of a channel or none".to_owned()
                });
                report.failed.push((name, levels, why));
            } else {
                report.levels.push((name, levels));
            }
        }
        report
    }

    /// The stamps of all files that are read. A stamp names its file relative to the original's
    /// folder; the name of the original itself is empty.
    fn read_stamps(&self) -> Result<Vec<(Location, Stamp)>, PyramidError> {
        let files: BTreeMap<&Location, &FileIdentity> = self
            .families
            .iter()
            .flat_map(|family| family.channel.levels())
            .flat_map(StoredLevel::files)
            .filter(|file| file.exists())
            .map(|file| (file.location(), file))
            .collect();
        let folder = self.original.as_path().parent().unwrap_or(Path::new("/"));
        let mut stamps = Vec::new();
        for (location, file) in files {
            let path = file.path();
            let name = if *location == self.original {
                String::new()
            } else {
                let relative = path.strip_prefix(folder).unwrap_or(path);
                relative.to_string_lossy().into_owned()
            };
            let stamp = match file.version() {
                Some(version) => Stamp::of_object(version, name),
                None => Stamp::read(path, name).map_err(|e| PyramidError::file("read", path, e))?,
            };
            stamps.push((location.clone(), stamp));
        }
        Ok(stamps)
    }

    /// Checks that no file has changed since the work was planned. Returns the stamps to write to
    /// the output: none for a volume, which does not need its original.
    fn checked_stamps(&self) -> Result<Vec<Stamp>, PyramidError> {
        let mut stamps = Vec::new();
        for (file, stamp) in &self.stamps {
            // An object needs no check: all its reads are of one version.
            let Some(path) = file.path() else {
                stamps.push(stamp.clone());
                continue;
            };
            stamp.check(path).map_err(PyramidError::Changed)?;
            let whole = stamp.clone().with_whole(path);
            stamps.push(whole.map_err(|e| PyramidError::file("read", path, e))?);
        }
        if self.role == Role::Volume {
            return Ok(Vec::new());
        }
        Ok(stamps)
    }
}
