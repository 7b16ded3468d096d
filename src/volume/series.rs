//! A time series whose time points are separate datasets, opened when first read.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lru::LruCache;

use super::{
    ChunkCoding, ChunkId, Positions, ReadCost, ReadError, ReadRequest, Samples, Tally, Volume, VolumeShape,
    VolumeStorage,
};
use crate::geometry::{Region, Xyz};
use crate::store::Gathering;
use crate::trace::Trace;

/// The maximum number of time points open at once: 64.
const KEPT_OPEN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Opens the volume of one time point; all must have the same shape.
type OpenTime = Box<dyn Fn(u64) -> Result<Arc<dyn Volume>, ReadError> + Send + Sync>;

/// Volumes of one shape, one per time point; some may be missing.
pub struct Series {
    shape: VolumeShape,
    present: Vec<bool>,
    /// The extent of each along z, if they differ in it.
    depths: Option<Vec<u64>>,
    open: OpenTime,
    kept: Mutex<LruCache<u64, Arc<dyn Volume>>>,
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("shape", &self.shape)
            .field("present", &self.present)
            .finish_non_exhaustive()
    }
}

impl Series {
    /// A series of time points of one shape. `present` lists which of them exist; its length is their number.
    pub fn new(shape: VolumeShape, present: Vec<bool>, open: OpenTime) -> Self {
        let shape = VolumeShape { times: present.len() as u64, ..shape };
        Self { shape, present, depths: None, open, kept: Mutex::new(LruCache::new(KEPT_OPEN)) }
    }

    /// The same, of volumes that have these extents along z.
    pub(super) fn with_depths(self, depths: Vec<u64>) -> Self {
        Self { depths: Some(depths), ..self }
    }

    /// The size that a volume must have.
    fn size_at(&self, time: u64) -> Xyz<u64> {
        let depth = |depths: &Vec<u64>| usize::try_from(time).ok().and_then(|time| depths.get(time)).copied();
        let z = self.depths.as_ref().and_then(depth).unwrap_or(self.shape.size.z);
        Xyz { z, ..self.shape.size }
    }

    fn volume(&self, time: u64) -> Result<Arc<dyn Volume>, ReadError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(volume) = kept().get(&time) {
            return Ok(Arc::clone(volume));
        }
        let volume = (self.open)(time)?;
        let (found, size, voxel) = (volume.shape(), self.size_at(time), self.shape.voxel);
        if (found.size, found.voxel) != (size, voxel) {
            let problem = format!(
                "the dataset with index {time} has {} voxels of type {}; {size} of type {} are expected",
                found.size,
                found.voxel.name(),
                voxel.name()
            );
            return Err(ReadError::Damaged { place: "a series".to_owned(), problem });
        }
        kept().put(time, Arc::clone(&volume));
        Ok(volume)
    }

    /// The existing volumes, each opened when the iterator reaches it.
    fn volumes(&self) -> impl Iterator<Item = Result<Arc<dyn Volume>, ReadError>> {
        (0..self.shape.times).filter(|time| self.has(*time)).map(|time| self.volume(time))
    }

    /// The volume of a time point, if it is open.
    fn opened_at(&self, time: u64) -> Option<Arc<dyn Volume>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).peek(&time).map(Arc::clone)
    }

    fn opened(&self) -> Vec<Arc<dyn Volume>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|(_, volume)| Arc::clone(volume)).collect()
    }
}

impl Volume for Series {
    fn shape(&self) -> VolumeShape {
        self.shape
    }

    fn has(&self, time: u64) -> bool {
        usize::try_from(time).ok().and_then(|time| self.present.get(time)).copied().unwrap_or(false)
    }

    fn read(&self, request: &ReadRequest, into: &mut Samples) -> Result<(), ReadError> {
        self.volume(request.time)?.read(&ReadRequest { time: 0, ..request.clone() }, into)
    }

    fn is_remote(&self) -> bool {
        self.opened().first().is_some_and(|volume| volume.is_remote())
    }

    fn gather(&self, time: u64, region: &Region) -> Result<Gathering, ReadError> {
        self.volume(time)?.gather(0, region)
    }

    fn unverified(&self, time: u64, region: &Region) -> Option<Vec<ChunkId>> {
        self.opened_at(time)?.unverified(0, region)
    }

    fn may_be_refused(&self, time: u64, region: &Region) -> bool {
        self.opened_at(time).is_none_or(|volume| volume.may_be_refused(0, region))
    }

    fn stored_chunk(
        &self,
        time: u64,
        place: Xyz<u64>,
        trace: Option<&Trace>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let volume = self.volume(time)?;
        // Time points may be coded differently from the first.
        let is_alike = self.chunk_coding() == volume.storage().chunk_coding();
        if is_alike && volume.shape().chunk == self.shape.chunk {
            volume.stored_chunk(0, place, trace)
        } else {
            Ok(None)
        }
    }

    fn is_written(&self, time: u64, region: &Region) -> Result<bool, ReadError> {
        let volume = self.volume(time)?;
        // Time points may have another fill value than the first.
        let fill = |storage: &dyn VolumeStorage| storage.fill_value().map(|fill| fill.bytes().to_vec());
        if fill(self) == fill(volume.storage()) { volume.is_written(0, region) } else { Ok(true) }
    }

    fn storage(&self) -> &dyn VolumeStorage {
        self
    }
}

impl VolumeStorage for Series {
    fn rehearse(&self, until: Instant) {
        for time in (0..self.shape.times).filter(|time| self.has(*time)) {
            if Instant::now() > until {
                break;
            }
            if let Ok(volume) = self.volume(time) {
                volume.storage().rehearse(until);
            }
        }
    }

    fn forget_chunks(&self) {
        self.opened().iter().for_each(|volume| volume.storage().forget_chunks());
    }

    fn forget_pages(&self) -> std::io::Result<()> {
        self.opened().iter().try_for_each(|volume| volume.storage().forget_pages())
    }

    fn tally(&self, most: usize) -> Result<Tally, ReadError> {
        let mut sum = Tally::default();
        let mut problem = None;
        for volume in self.volumes().take(most) {
            match volume.and_then(|volume| volume.storage().tally(1)) {
                Ok(one) => sum += one,
                Err(error) => {
                    tracing::warn!("a dataset of a series is missing from its statistics: {error}");
                    sum.unreadable += 1;
                    problem = problem.or(Some(error));
                }
            }
        }
        match problem {
            Some(error) if sum.datasets == 0 => Err(error),
            _ => Ok(sum),
        }
    }

    fn chunk_coding(&self) -> Result<ChunkCoding, String> {
        match self.volumes().find_map(Result::ok) {
            Some(volume) => volume.storage().chunk_coding(),
            None => Err("none of its time points can be opened".to_owned()),
        }
    }

    fn fill_value(&self) -> Option<Samples> {
        self.volumes().find_map(Result::ok)?.storage().fill_value()
    }

    fn located(&self, time: u64, region: &Region) -> Option<Vec<Range<u64>>> {
        self.volume(time).ok()?.storage().located(0, region)
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        self.volumes().find_map(Result::ok)?.storage().cost(wanted, tally)
    }
}
