//! A time series whose time points are separate datasets, opened when first read.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lru::LruCache;

use super::{
    ChunkId, Positions, ReadCost, ReadError, ReadRequest, Samples, Tally, Volume, VolumeShape, VolumeStorage,
};
use crate::geometry::Region;

/// The maximum number of time points open at once: 64.
const KEPT_OPEN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Opens the volume of one time point; all must have the same shape.
type OpenTime = Box<dyn Fn(u64) -> Result<Arc<dyn Volume>, ReadError> + Send + Sync>;

/// Volumes of one shape, one per time point; some may be missing.
pub struct Series {
    shape: VolumeShape,
    present: Vec<bool>,
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
        Self { shape, present, open, kept: Mutex::new(LruCache::new(KEPT_OPEN)) }
    }

    fn volume(&self, time: u64) -> Result<Arc<dyn Volume>, ReadError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(volume) = kept().get(&time) {
            return Ok(Arc::clone(volume));
        }
        let volume = (self.open)(time)?;
        let (found, wanted) = (volume.shape(), self.shape);
        if (found.size, found.voxel) != (wanted.size, wanted.voxel) {
            let problem = format!(
                "time point {time} has {} voxels of type {}, others have {} of type {}",
                found.size,
                found.voxel.name(),
                wanted.size,
                wanted.voxel.name()
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
        self.volume(request.time)?.read(&ReadRequest { time: 0, ..*request }, into)
    }

    fn unverified(&self, time: u64, region: &Region) -> Option<Vec<ChunkId>> {
        self.opened_at(time)?.unverified(0, region)
    }

    fn may_be_refused(&self, time: u64, region: &Region) -> bool {
        self.opened_at(time).is_none_or(|volume| volume.may_be_refused(0, region))
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

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        self.volumes().find_map(Result::ok)?.storage().cost(wanted, tally)
    }
}
