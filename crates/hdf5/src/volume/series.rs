//! A time series whose time points are separate datasets, opened when first read.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use voltile_base::flow::trace::Trace;
use voltile_base::geometry::{Region, Xyz};

use super::{
    BoxMut, Members, NoReferences, Part, ReadError, ReadRequest, StoredChunk, StoredPart, TakePart,
    Tzyx, Volume, VolumeShape,
};

/// The maximum number of time points open at once: 64.
const KEPT_OPEN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Opens the volume of one time point; all must have the same shape.
type OpenTime = Box<dyn Fn(u64) -> Result<Arc<dyn Volume>, ReadError> + Send + Sync>;

/// Volumes of one shape, one per time point; some may be missing.
pub struct Series {
    shape: VolumeShape,
    /// The extent of each along z, if they differ in it.
    depths: Option<Vec<u64>>,
    open: OpenTime,
    kept: Mutex<LruCache<u64, Arc<dyn Volume>>>,
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl Series {
    /// A series of time points of one shape. `present` lists which of them exist; its length is
    /// their number.
    pub fn new(shape: VolumeShape, present: Vec<bool>, open: OpenTime) -> Self {
        let shape = VolumeShape {
            times: present.len() as u64,
            present: Some(present.into()),
            ..shape
        };
        Self {
            shape,
            depths: None,
            open,
            kept: Mutex::new(LruCache::new(KEPT_OPEN)),
        }
    }

    /// This series, whose volumes have the given extents along z.
    pub(super) fn with_depths(self, depths: Vec<u64>) -> Self {
        Self {
            depths: Some(depths),
            ..self
        }
    }

    /// The size that a volume must have.
    fn size_at(&self, time: u64) -> Xyz<u64> {
        let mut size = self.shape.size;
        if let Some(depths) = &self.depths
            && let Ok(time) = usize::try_from(time)
            && let Some(depth) = depths.get(time)
        {
            size.z = *depth;
        }
        size
    }

    pub(super) fn volume(&self, time: u64) -> Result<Arc<dyn Volume>, ReadError> {
        if let Some(volume) = self.kept.lock().get(&time) {
            return Ok(Arc::clone(volume));
        }
        let volume = (self.open)(time)?;
        let found = volume.shape();
        let size = self.size_at(time);
        let voxel = self.shape.voxel;
        if (found.size, found.voxel) != (size, voxel) {
            let problem = format!(
                "the dataset with index {time} has {} voxels of type {}; {size} of type {} are expected",
                found.size,
                found.voxel.name(),
                voxel.name()
            );
            return Err(ReadError::damaged("a series", problem));
        }
        self.kept.lock().put(time, Arc::clone(&volume));
        Ok(volume)
    }
}

/// Part of a volume as part of one in which the volume begins at `start`.
pub(super) fn moved(part: StoredPart<'_>, start: Tzyx) -> Result<StoredPart<'_>, NoReferences> {
    let chunk = part.array.chunk;
    if start
        .iter()
        .zip(chunk)
        .any(|(start, extent)| start % extent != 0)
    {
        return Err(NoReferences::unmapped(
            part.dataset,
            "it begins within a chunk of the whole volume",
        ));
    }
    let chunks = part.chunks.map(move |stored| StoredChunk {
        place: std::array::from_fn(|axis| stored.place[axis] + start[axis] / chunk[axis]),
        ..stored
    });
    Ok(StoredPart {
        chunks: Box::new(chunks),
        ..part
    })
}

impl Volume for Series {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    fn read_box(&self, request: &ReadRequest, into: BoxMut<'_>) -> Result<(), ReadError> {
        self.volume(request.time)?.read_box(
            &ReadRequest {
                time: 0,
                ..request.clone()
            },
            into,
        )
    }

    fn members(&self) -> Members<'_> {
        let present = (0..self.shape.times).filter(|time| self.shape.has(*time));
        Box::new(present.map(|time| self.volume(time)))
    }

    fn parts(&self, time: u64, region: &Region) -> Result<Vec<Part>, ReadError> {
        Ok(vec![Part {
            volume: self.volume(time)?,
            time: 0,
            region: *region,
        }])
    }

    fn gaps(&self, time: u64, region: &Region) -> Vec<Region> {
        // A member that cannot be opened is an error when it is read.
        self.volume(time)
            .map_or_else(|_| Vec::new(), |volume| volume.gaps(0, region))
    }

    fn stored_chunk(
        &self,
        time: u64,
        place: Xyz<u64>,
        trace: Option<&Trace>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let volume = self.volume(time)?;
        // Time points may be coded differently from the first.
        let own = volume.shape();
        let first = &self.shape;
        if (&own.coding, own.chunk) == (&first.coding, first.chunk) {
            volume.stored_chunk(0, place, trace)
        } else {
            Ok(None)
        }
    }

    fn references(&self, path: &str, take: &mut TakePart<'_>) -> Result<(), NoReferences> {
        for time in (0..self.shape.times).filter(|time| self.shape.has(*time)) {
            self.volume(time)?
                .references(path, &mut |part: StoredPart<'_>| {
                    if part.array.chunk[0] > 1 {
                        return Err(NoReferences::unmapped(
                            part.dataset,
                            "its chunks hold several time points",
                        ));
                    }
                    let chunks = Box::new(part.chunks.filter(|chunk| chunk.place[0] == 0));
                    take(moved(StoredPart { chunks, ..part }, [time, 0, 0, 0])?)
                })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use voltile_base::flow::cache::Abandoned;

    use super::*;
    use crate::volume::{MemoryVolume, VoxelType};

    #[test]
    fn what_a_series_is_is_known_before_a_time_point_is_opened() {
        let one = MemoryVolume::of(VoxelType::U8, Xyz::all(2), |_| 1u8);
        let shape = VolumeShape {
            is_remote: true,
            ..one.shape().clone()
        };
        let series = Series::new(
            shape,
            vec![true, false],
            Box::new(|_| Err(ReadError::Abandoned(Abandoned))),
        );
        let (shape, region) = (series.shape(), Region::whole(Xyz::all(2)));
        assert!(shape.is_remote && shape.has(0) && !shape.has(1) && !shape.has(2));
        assert!(series.gather(0, &region).is_err());
    }
}
