//! Pyramids: computes the levels that a file lacks once, and stores them in a sidecar next to it or in a new volume.
//!
//! Every level is computed in one step from the stored level that the renderer would use, so that it equals what the
//! renderer would compute on the fly; `tests/stories/pyramid.rs` checks this. A volume is read once, node by node of its
//! `tree`, on all threads. Finished parts are stored as `piece`s in the work `folder`; after a kill, the next run
//! resumes from them. When all are there they are assembled into an HDF5 file, which gets its final name last. The
//! original is only read. Tiles play no part here.
//!
//! Memory: per thread, the voxels of one block (2^22), their sums (half as many numbers of 8 bytes each, 16 for 64-bit
//! integers), and the compressed chunks of one piece; plus the chunk cache.

mod assemble;
mod build;
mod error;
mod family;
mod folder;
mod grid;
mod piece;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::activity::Activity;
use crate::catalog::{Channel, StoredLevel};
use crate::geometry::{Scaling, Xyz};
use crate::layout::inventory::{ATTRIBUTE, ChannelRecord, Inventory, Role};
use crate::volume::Stamp;
use crate::volume::hdf5::{FileIdentity, Writer};

pub use error::PyramidError;

use family::{Family, families};
use folder::Folder;

/// A channel whose missing levels are to be computed.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The channel.
    pub channel: Arc<Channel>,
    /// How halving a level scales z.
    pub scaling: Scaling,
    /// The size of a voxel in nanometres, if configured.
    pub voxel_size: Option<Xyz<f64>>,
}

/// Receives progress updates. Called from many threads.
pub trait Progress: Sync {
    /// The work begins: the total number of voxels to read, and how many were done by an earlier run.
    fn begin(&self, total: u64, done: u64);
    /// This many more voxels have been processed.
    fn advance(&self, voxels: u64);
    /// All pieces are finished; assembly begins.
    fn assemble(&self);
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The levels that were written, by channel.
    pub levels: Vec<(String, Vec<u8>)>,
    /// The levels that could not be computed, by channel, and the reason.
    pub failed: Vec<(String, Vec<u8>, String)>,
}

/// The work for one file.
#[derive(Debug)]
pub struct Work {
    role: Role,
    output: PathBuf,
    original: PathBuf,
    stamps: Vec<Stamp>,
    records: Vec<ChannelRecord>,
    /// Each with the index of its channel's record.
    families: Vec<(usize, Family)>,
    paged: bool,
}

/// The minimum and the maximum size of the pages of a paged file.
const PAGE_SIZES: [u64; 2] = [1 << 20, 16 << 20];
/// A page is at least as large as this many chunks before compression. Chunks do not extend over pages, so that a part of
/// one chunk is lost at the end of each page: with chunks of 15 to 450 KB, files become 3 to 5 % larger.
const CHUNKS_PER_PAGE: u64 = 8;

impl Work {
    /// Plans to compute the levels that `original` lacks, or to re-chunk all of it. Writes nothing.
    ///
    /// # Errors
    /// If `output` exists, or the original's metadata cannot be read.
    pub fn plan(original: &Path, output: &Path, role: Role, wanted: &[Wanted]) -> Result<Self, PyramidError> {
        if output.exists() {
            Folder::sweep(output);
            return Err(PyramidError::Exists { path: output.to_owned() });
        }
        let (output, original) = (output.to_owned(), original.to_owned());
        let mut work = Self {
            role,
            output,
            original,
            stamps: Vec::new(),
            records: Vec::new(),
            families: Vec::new(),
            paged: false,
        };
        for wanted in wanted {
            work.add(wanted);
        }
        work.stamps = work.stamp()?;
        Ok(work)
    }

    fn add(&mut self, wanted: &Wanted) {
        let mut record = wanted.channel.record(wanted.scaling);
        if let Some(size) = wanted.voxel_size {
            record.voxel_size = Some(size.into());
            record.voxel_unit = Some("nm".to_owned());
        }
        let same = |other: &&ChannelRecord| {
            (&other.origin, &other.kind, &other.scaling) == (&record.origin, &record.kind, &record.scaling)
        };
        // The same channel may be served under several tokens.
        if self.role == Role::Sidecar && self.records.iter().any(|other| same(&other)) {
            return;
        }
        let taken = self.records.iter().filter(|other| other.name == record.name).count();
        let group = if taken == 0 { record.name.clone() } else { format!("{}.{}", record.name, taken + 1) };
        let copy = self.role == Role::Volume;
        let place = self.records.len();
        self.families.extend(
            families(&wanted.channel, wanted.scaling, copy, &group).into_iter().map(|family| (place, family)),
        );
        self.records.push(record);
    }

    /// Whether to store the metadata of the output in pages of its own, for object storage.
    pub fn paged(self, paged: bool) -> Self {
        Self { paged, ..self }
    }

    /// The page size of the output, if it is to be paged.
    fn page_size(&self) -> Option<u64> {
        let targets = self.families.iter().flat_map(|(_, family)| {
            family.targets.iter().map(|target| {
                let chunk = family.chunk(target.height);
                chunk.x * chunk.y * chunk.z * family.stored_as(target).voxel_bytes() as u64
            })
        });
        let [least, most] = PAGE_SIZES;
        let chunk = targets.max().unwrap_or(0);
        self.paged.then(|| (CHUNKS_PER_PAGE * chunk).next_power_of_two().clamp(least, most))
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// The file to be written.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Computes what an earlier run has not finished, and moves the complete file into place.
    ///
    /// # Errors
    /// If something cannot be written, or the original has changed since the work was planned. A level that cannot be
    /// read is not an error: it is listed in the report.
    pub fn run(
        &self,
        threads: NonZeroUsize,
        activity: &Activity,
        progress: &dyn Progress,
    ) -> Result<Report, PyramidError> {
        let (folder, resumes) = Folder::open(&self.output, &self.manifest())?;
        if resumes {
            tracing::info!("resuming the work in {}", Folder::of(&self.output).display());
        }
        let failures: Vec<OnceLock<String>> = self.families.iter().map(|_| OnceLock::new()).collect();
        self.make_pieces(&folder, &failures, threads, activity, progress)?;
        let failed: BTreeMap<usize, &String> =
            failures.iter().enumerate().filter_map(|(number, why)| Some((number, why.get()?))).collect();
        let report = self.report(&failed);
        if report.levels.is_empty() {
            folder.remove();
            return Ok(report);
        }
        progress.assemble();
        self.assemble(&folder, &failed)?;
        folder.publish(&self.output)?;
        Ok(report)
    }

    /// Identifies the work: only pieces with equal manifests may be combined.
    fn manifest(&self) -> String {
        let inventory = self.inventory(&self.stamps, &|_| true);
        let trees: Vec<String> =
            self.families.iter().map(|(_, family)| format!("{:?}", family.tree)).collect();
        format!("{} {}\n{}\n", env!("CARGO_PKG_VERSION"), trees.join(" "), inventory.to_text())
    }

    fn make_pieces(
        &self,
        folder: &Folder,
        failures: &[OnceLock<String>],
        threads: NonZeroUsize,
        activity: &Activity,
        progress: &dyn Progress,
    ) -> Result<(), PyramidError> {
        let mut tasks = Vec::new();
        let (mut total, mut done) = (0, 0);
        for (number, (_, family)) in self.families.iter().enumerate() {
            total += family.voxels();
            if let Some(why) = not_decoded(family) {
                let _ = failures[number].set(why);
            }
            for (piece, units) in family.pieces.iter().enumerate() {
                if folder.has(&piece_name(number, piece)) {
                    done += family.voxels_of(units);
                } else {
                    tasks.push((number, piece));
                }
            }
        }
        progress.begin(total, done);
        let work = |&(number, piece): &(usize, usize)| {
            let (family, failure) = (&self.families[number].1, &failures[number]);
            if failure.get().is_none() {
                match piece::make(family, &family.pieces[piece]) {
                    Ok(bytes) => folder.keep(&piece_name(number, piece), &bytes)?,
                    Err(PyramidError::Read(error)) => drop(failure.set(error.to_string())),
                    Err(error) => return Err(error),
                }
            }
            progress.advance(family.voxels_of(&family.pieces[piece]));
            Ok(())
        };
        in_turn(&tasks, threads, activity, &work)
    }

    fn assemble(&self, folder: &Folder, failed: &BTreeMap<usize, &String>) -> Result<(), PyramidError> {
        let path = folder.whole();
        let mut writer = Writer::create(&path, self.page_size())?;
        let lost = self.lost(failed);
        for (number, (_, family)) in
            self.families.iter().enumerate().filter(|(number, _)| !lost.contains(number))
        {
            assemble::family(family, number, folder, &mut writer)?;
        }
        let stamps = self.checked_stamps()?;
        let inventory = self.inventory(&stamps, &|number| !lost.contains(&number));
        writer.text(ATTRIBUTE, &inventory.to_text())?;
        Ok(writer.finish(&path)?)
    }

    /// The families to leave out: those that failed, and in a new volume all others of the same channels.
    fn lost(&self, failed: &BTreeMap<usize, &String>) -> BTreeSet<usize> {
        let channel = |number: &usize| self.families.get(*number).map(|(place, _)| *place);
        let channels: BTreeSet<usize> = failed.keys().filter_map(channel).collect();
        let whole = |number: &usize| {
            self.role == Role::Volume && channel(number).is_some_and(|place| channels.contains(&place))
        };
        (0..self.families.len()).filter(|number| failed.contains_key(number) || whole(number)).collect()
    }

    fn inventory(&self, stamps: &[Stamp], is_there: &dyn Fn(usize) -> bool) -> Inventory {
        let mut records = self.records.clone();
        let there = self.families.iter().enumerate().filter(|(number, _)| is_there(*number));
        for (_, (place, family)) in there {
            records[*place].levels.extend(family.targets.iter().map(|target| target.record.clone()));
        }
        records.iter_mut().for_each(|record| record.levels.sort_by_key(|level| level.level));
        records.retain(|record| !record.levels.is_empty());
        Inventory::new(self.role, stamps.to_vec(), records)
    }

    fn report(&self, failed: &BTreeMap<usize, &String>) -> Report {
        let lost = self.lost(failed);
        let numbers = |family: &Family| family.targets.iter().map(|target| target.record.level).collect();
        let mut report = Report { levels: Vec::new(), failed: Vec::new() };
        for (number, (place, family)) in self.families.iter().enumerate() {
            let name = self.records[*place].name.clone();
            match failed.get(&number) {
                Some(why) => report.failed.push((name, numbers(family), (*why).clone())),
                None if lost.contains(&number) => {
                    let why = "another level of the channel failed; a new volume gets all levels of a channel or none".to_owned();
                    report.failed.push((name, numbers(family), why));
                }
                None => report.levels.push((name, numbers(family))),
            }
        }
        report
    }

    /// Stamps of all files that are read.
    fn stamp(&self) -> Result<Vec<Stamp>, PyramidError> {
        let files: BTreeSet<&Path> = self
            .families
            .iter()
            .flat_map(|(_, family)| family.channel.levels())
            .flat_map(StoredLevel::files)
            .filter(|file| file.exists())
            .map(FileIdentity::path)
            .chain([self.original.as_path()])
            .collect();
        let folder = self.original.parent().unwrap_or(Path::new("/"));
        let stamp = |path: &Path| {
            let name = match path.strip_prefix(folder) {
                _ if path == self.original => String::new(),
                Ok(below) => below.to_string_lossy().into_owned(),
                Err(_) => path.to_string_lossy().into_owned(),
            };
            Stamp::of(path, name).map_err(|e| PyramidError::file("read", path, e))
        };
        files.into_iter().map(stamp).collect()
    }

    /// The stamps as written to the output; fails if a file has changed since the work was planned.
    fn checked_stamps(&self) -> Result<Vec<Stamp>, PyramidError> {
        let checked = |stamp: &Stamp| {
            let path = stamp.path(&self.original);
            stamp.check(&path).map_err(|reason| PyramidError::Changed { reason })?;
            stamp.clone().with_whole(&path).map_err(|e| PyramidError::file("read", &path, e))
        };
        let stamps: Vec<Stamp> = self.stamps.iter().map(checked).collect::<Result<_, _>>()?;
        Ok(if self.role == Role::Volume { Vec::new() } else { stamps })
    }
}

/// The file name of a family's piece.
fn piece_name(family: usize, piece: usize) -> String {
    format!("{family}-{piece}.{}", folder::PIECE)
}

/// The reason if no voxel of a family can be read: missing filters.
fn not_decoded(family: &Family) -> Option<String> {
    let filters = &family.stored()?.storage.missing_filters;
    let path = family.stored()?.path();
    (!filters.is_empty()).then(|| {
        format!("{path} is stored with the filter {}, which this build cannot decode", filters.join(", "))
    })
}

/// Runs the tasks in order on `threads` threads, until one fails.
fn in_turn<T: Sync>(
    tasks: &[T],
    threads: NonZeroUsize,
    activity: &Activity,
    work: &(dyn Fn(&T) -> Result<(), PyramidError> + Sync),
) -> Result<(), PyramidError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build()?;
    // All threads have work, so none should split its decoding over others.
    let _places: Vec<_> = (0..threads.get()).map(|_| activity.enter()).collect();
    let (next, stop, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let worker = || {
        while !stop.load(Ordering::Relaxed)
            && let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Err(error) = work(task) {
                stop.store(true, Ordering::Relaxed);
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    pool.scope(|scope| (0..threads.get()).for_each(|_| scope.spawn(|_| worker())));
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
