//! Pyramids: the levels that a file lacks, made once and stored, in a sidecar beside it or in a new volume.
//!
//! Every level is made in one step from the stored level that the renderer would make it of, so that it equals what
//! would be made on the fly. A volume is read once, node by node of its `tree`, on all threads; what is finished is
//! kept as `piece`s in the work `folder`, and goes on from there if the program was killed. When all are there they
//! are put together to an HDF5 file, which gets its name last. The original is only read.
//!
//! The odd thing: nothing here knows tiles. That made levels equal those of the renderer is what `tests/pyramid.rs`
//! watches.
//!
//! Memory: for each thread the voxels of one block (2^22), their sums (half as many bytes of 8 each, 16 for 64-bit
//! whole numbers), and the packed chunks of one piece; and the chunk cache.

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

use crate::catalog::{Channel, StoredLevel};
use crate::crew::Crew;
use crate::geometry::{Scaling, Xyz};
use crate::layout::inventory::{ATTRIBUTE, ChannelRecord, Inventory, Role};
use crate::volume::Stamp;
use crate::volume::hdf5::{FileIdentity, Writer};

pub use error::PyramidError;

use family::{Family, families};
use folder::Folder;

/// A channel whose levels are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The channel.
    pub channel: Arc<Channel>,
    /// What halving a level does to z.
    pub scaling: Scaling,
    /// The size of a voxel in nanometres, where it is configured.
    pub voxel_size: Option<Xyz<f64>>,
}

/// Who wants to know how far the work is. Called from many threads.
pub trait Progress: Sync {
    /// So many voxels are to be read, of which so many have been, by an earlier run.
    fn begin(&self, total: u64, done: u64);
    /// So many more have been read.
    fn advance(&self, voxels: u64);
    /// All is read; the pieces are put together.
    fn assemble(&self);
}

/// What came of a work.
#[derive(Debug)]
pub struct Report {
    /// The levels that were written, by channel.
    pub levels: Vec<(String, Vec<u8>)>,
    /// The levels that could not be made, by channel, and why.
    pub failed: Vec<(String, Vec<u8>, String)>,
}

/// The work on one file.
#[derive(Debug)]
pub struct Work {
    role: Role,
    output: PathBuf,
    original: PathBuf,
    stamps: Vec<Stamp>,
    records: Vec<ChannelRecord>,
    /// Each with the place of its channel's record.
    families: Vec<(usize, Family)>,
}

impl Work {
    /// The work of making the levels that `original` lacks, or of re-chunking all of it. Nothing is written yet.
    ///
    /// # Errors
    /// Where `output` is there already, or the original cannot be looked at.
    pub fn plan(original: &Path, output: &Path, role: Role, wanted: &[Wanted]) -> Result<Self, PyramidError> {
        if output.exists() {
            Folder::sweep(output);
            return Err(PyramidError::Exists { path: output.to_owned() });
        }
        let (output, original) = (output.to_owned(), original.to_owned());
        let mut work =
            Self { role, output, original, stamps: Vec::new(), records: Vec::new(), families: Vec::new() };
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

    /// Whether there is nothing to be made.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// What will be written.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Makes everything that an earlier run has not made, and puts the whole file in its place.
    ///
    /// # Errors
    /// Where something cannot be written, or the original changes meanwhile. That a level cannot be read is not one of
    /// these: it is told in the report.
    pub fn run(
        &self,
        threads: NonZeroUsize,
        crew: &Crew,
        progress: &dyn Progress,
    ) -> Result<Report, PyramidError> {
        let (folder, goes_on) = Folder::open(&self.output, &self.manifest())?;
        if goes_on {
            tracing::info!("going on with the work in {}", Folder::of(&self.output).display());
        }
        let failures: Vec<OnceLock<String>> = self.families.iter().map(|_| OnceLock::new()).collect();
        self.make_pieces(&folder, &failures, threads, crew, progress)?;
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

    /// What is being made of what: pieces of one manifest fit together.
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
        crew: &Crew,
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
        in_turn(&tasks, threads, crew, &work)
    }

    fn assemble(&self, folder: &Folder, failed: &BTreeMap<usize, &String>) -> Result<(), PyramidError> {
        let path = folder.whole();
        let mut writer = Writer::create(&path)?;
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

    /// The families that are left out: those that failed, and in a volume the others of their channels.
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
                    let why = "a volume has all levels of a channel or none".to_owned();
                    report.failed.push((name, numbers(family), why));
                }
                None => report.levels.push((name, numbers(family))),
            }
        }
        report
    }

    /// Every file that is read, as it is now.
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

    /// The stamps as they are written; fails where a file has changed since the work was planned.
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

/// Why a family cannot even be begun.
fn not_decoded(family: &Family) -> Option<String> {
    let filters = &family.stored()?.storage.missing_filters;
    let path = family.stored()?.path();
    (!filters.is_empty()).then(|| {
        format!("{path} is stored with the filter {}, which this build cannot decode", filters.join(", "))
    })
}

/// Has the tasks done one after the other by so many threads, until one fails.
fn in_turn<T: Sync>(
    tasks: &[T],
    threads: NonZeroUsize,
    crew: &Crew,
    work: &(dyn Fn(&T) -> Result<(), PyramidError> + Sync),
) -> Result<(), PyramidError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build()?;
    // All threads are busy: none shall look for others to help it decode.
    let _places: Vec<_> = (0..threads.get()).map(|_| crew.enter()).collect();
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
