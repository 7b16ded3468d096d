//! A volume whose time points, or whose parts along z, are separate datasets, opened when first
//! read.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use voltile_base::flow::trace::Trace;
use voltile_base::geometry::{Region, Xyz};

use super::scatter::Sieve;
use super::{
    BoxMut, Members, NoReferences, Positions, ReadCost, ReadError, ReadRequest, StoredChunk,
    StoredPart, TakePart, Tally, Tzyx, Volume, VolumePart, VolumeShape,
};

/// The maximum number of members that are open at once: 64.
const MAX_OPEN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Opens a member by its number; all must have the same shape, but for their extent along z.
type OpenMember = Box<dyn Fn(u64) -> Result<Arc<dyn Volume>, ReadError> + Send + Sync>;

/// Volumes that follow each other in time, one for each time point, or along z. Some may be
/// missing, and are read as 0.
pub struct Series {
    shape: VolumeShape,
    /// Which members exist.
    present: Arc<[bool]>,
    /// Where each member ends, counted in slices of the series; `None` if the members are time
    /// points.
    ends: Option<Vec<u64>>,
    open: OpenMember,
    /// The members that were used last.
    kept: Mutex<LruCache<u64, Arc<dyn Volume>>>,
}

/// The part of a box that lies in one member.
struct MemberBox {
    /// The number of the member.
    member: u64,
    /// The part, in voxels of the series.
    within_series: Region,
    /// The same part, in voxels of the member.
    within_member: Region,
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl Series {
    /// A series of time points of one shape. `present` says for each time point whether it exists.
    pub fn new(shape: VolumeShape, present: Vec<bool>, open: OpenMember) -> Self {
        let present: Arc<[bool]> = present.into();
        let shape = VolumeShape {
            times: present.len() as u64,
            present: Some(Arc::clone(&present)),
            ..shape
        };
        Self {
            shape,
            present,
            ends: None,
            open,
            kept: Mutex::new(LruCache::new(MAX_OPEN)),
        }
    }

    /// The same volumes as parts that follow each other along z at one time point; `depths` are
    /// their extents along z, all positive.
    #[must_use]
    pub fn along_z(self, depths: &[u64]) -> Self {
        let mut end = 0u64;
        let mut ends = Vec::with_capacity(depths.len());
        for depth in depths {
            end = end.saturating_add(*depth);
            ends.push(end);
        }
        let size = Xyz {
            z: end,
            ..self.shape.size
        };
        let shape = VolumeShape {
            size,
            times: 1,
            present: None,
            coding: Err("its parts along z are separate datasets".to_owned()),
            fill: None,
            ..self.shape
        };
        Self {
            shape,
            ends: Some(ends),
            ..self
        }
    }

    /// The slices of a member, counted in the series.
    fn slices(&self, member: u64) -> Range<u64> {
        let Some(ends) = &self.ends else {
            return 0..self.shape.size.z;
        };
        let end_of = |member: u64| ends.get(member as usize).copied();
        // A member begins where the one before it ends.
        let start = member.checked_sub(1).and_then(end_of).unwrap_or(0);
        start..end_of(member).unwrap_or(start)
    }

    /// The numbers of the members that contain some of the slices at a time point, including
    /// missing members.
    fn members_in(&self, time: u64, slices: &Range<u64>) -> Range<u64> {
        let Some(ends) = &self.ends else {
            return time..time + 1;
        };
        // The member that contains a slice is the first one that ends after it.
        let first = ends.partition_point(|end| *end <= slices.start);
        let last = ends.partition_point(|end| *end < slices.end);
        first as u64..ends.len().min(last + 1) as u64
    }

    fn has_member(&self, member: u64) -> bool {
        self.present.get(member as usize) == Some(&true)
    }

    fn present_members(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.present.len() as u64).filter(|member| self.has_member(*member))
    }

    /// The pieces of a box, each in one member. Missing members have pieces, too.
    fn pieces(&self, time: u64, region: &Region) -> impl Iterator<Item = MemberBox> + '_ {
        let region = *region;
        let wanted = region.start.z..region.end().z;
        self.members_in(time, &wanted).map(move |member| {
            let own = self.slices(member);
            let mut within_series = region;
            within_series.start.z = own.start.max(wanted.start);
            within_series.size.z = own.end.min(wanted.end) - within_series.start.z;
            let mut within_member = within_series;
            within_member.start.z -= own.start;
            MemberBox {
                member,
                within_series,
                within_member,
            }
        })
    }

    /// A member that exists.
    fn member(&self, number: u64) -> Result<Arc<dyn Volume>, ReadError> {
        if let Some(volume) = self.kept.lock().get(&number) {
            return Ok(Arc::clone(volume));
        }
        let volume = (self.open)(number)?;
        let own = volume.shape();
        let slices = self.slices(number);
        let size = Xyz {
            z: slices.end - slices.start,
            ..self.shape.size
        };
        let voxel = self.shape.voxel;
        if own.size != size || own.voxel != voxel {
            let problem = format!(
                "the dataset with index {number} has {} voxels of type {}; {size} of type {} are expected",
                own.size,
                own.voxel.name(),
                voxel.name()
            );
            return Err(ReadError::damaged("a series", problem));
        }
        self.kept.lock().put(number, Arc::clone(&volume));
        Ok(volume)
    }
}

/// Moves the chunks of a member to their places in a series, in which the member begins at `start`.
fn moved(part: StoredPart<'_>, start: Tzyx) -> Result<StoredPart<'_>, NoReferences> {
    let chunk = part.array.chunk;
    if (0..4).any(|axis| !start[axis].is_multiple_of(chunk[axis])) {
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

    fn read_box(&self, request: &ReadRequest, mut into: BoxMut<'_>) -> Result<(), ReadError> {
        for piece in self.pieces(request.time, &request.region) {
            let Some(sieve) = Sieve::new(&piece.within_series, &request.region, request.step)
            else {
                continue;
            };
            let mut into = into.part(sieve.place, sieve.count);
            if !self.has_member(piece.member) {
                into.clear();
                continue;
            }
            // Along x and y, pieces begin where the box does, and so with a wanted voxel.
            let mut region = piece.within_member;
            region.start.z += sieve.offset.z;
            region.size.z -= sieve.offset.z;
            let request = ReadRequest {
                time: 0,
                region,
                ..request.clone()
            };
            self.member(piece.member)?.read_box(&request, into)?;
        }
        Ok(())
    }

    fn members(&self) -> Members<'_> {
        Box::new(self.present_members().map(|number| self.member(number)))
    }

    fn parts(&self, time: u64, region: &Region) -> Result<Vec<VolumePart>, ReadError> {
        let mut parts = Vec::new();
        for piece in self.pieces(time, region) {
            if self.has_member(piece.member) {
                parts.push(VolumePart {
                    volume: self.member(piece.member)?,
                    time: 0,
                    region: piece.within_member,
                });
            }
        }
        Ok(parts)
    }

    fn gaps(&self, time: u64, region: &Region) -> Vec<Region> {
        let mut gaps = Vec::new();
        for piece in self.pieces(time, region) {
            if !self.has_member(piece.member) {
                gaps.push(piece.within_series);
                continue;
            }
            // A member that cannot be opened is an error when it is read.
            let Ok(volume) = self.member(piece.member) else {
                continue;
            };
            for mut gap in volume.gaps(0, &piece.within_member) {
                gap.start.z += self.slices(piece.member).start;
                gaps.push(gap);
            }
        }
        gaps
    }

    fn stored_chunk(
        &self,
        time: u64,
        place: Xyz<u64>,
        trace: Option<&Trace>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let volume = self.member(time)?;
        let own = volume.shape();
        // A time point may be coded differently from the first one.
        if own.coding != self.shape.coding || own.chunk != self.shape.chunk {
            return Ok(None);
        }
        volume.stored_chunk(0, place, trace)
    }

    fn references(&self, path: &str, take: &mut TakePart<'_>) -> Result<(), NoReferences> {
        for number in self.present_members() {
            let start = match self.ends {
                Some(_) => [0, self.slices(number).start, 0, 0],
                None => [number, 0, 0, 0],
            };
            let member = self.member(number)?;
            member.references(path, &mut |part: StoredPart<'_>| {
                if self.ends.is_none() && part.array.chunk[0] > 1 {
                    return Err(NoReferences::unmapped(
                        part.dataset,
                        "its chunks hold several time points",
                    ));
                }
                // Only the first time point of a member is shown.
                let chunks = Box::new(part.chunks.filter(|chunk| chunk.place[0] == 0));
                take(moved(StoredPart { chunks, ..part }, start)?)
            })?;
        }
        Ok(())
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        let first = self.members().find_map(Result::ok)?;
        if self.ends.is_none() {
            return first.cost(wanted, tally);
        }
        let mut sum = ReadCost::default();
        for run in &wanted.z {
            for number in self.members_in(0, run) {
                if !self.has_member(number) {
                    continue;
                }
                let own = self.slices(number);
                let start = run.start.max(own.start) - own.start;
                let end = run.end.min(own.end) - own.start;
                let wanted_of_member = Positions {
                    z: std::iter::once(start..end).collect(),
                    ..wanted.clone()
                };
                // The members are taken to be stored alike.
                sum += first.cost(&wanted_of_member, tally)?;
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use voltile_base::flow::cache::Abandoned;

    use super::*;
    use crate::volume::{MemoryVolume, Samples, VoxelType};

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
        assert_eq!(series.gaps(1, &region), [region]);
    }

    #[test]
    fn a_part_of_unexpected_depth_is_an_error() {
        let part = |depth| MemoryVolume::of(VoxelType::U8, Xyz::new(4, 3, depth), |_| 1u8);
        let open = move |number: u64| Ok(Arc::new(part(2 + number)) as Arc<dyn Volume>);
        let parts = Series::new(part(2).shape().clone(), vec![true; 2], Box::new(open));
        let stack = parts.along_z(&[2, 2]);
        let read = |z| {
            let region = Region {
                start: Xyz::new(0, 0, z),
                size: Xyz::new(4, 3, 1),
            };
            stack.read(&ReadRequest::new(0, region), &mut Samples::default())
        };
        assert!(read(1).is_ok() && matches!(read(2), Err(ReadError::Damaged { .. })));
    }

    #[test]
    fn slices_of_parts_are_found_where_a_gap_is_longer_than_any_volume() {
        let one = MemoryVolume::of(VoxelType::U8, Xyz::new(4, 3, 2), |_| 1u8);
        let stack = Series::new(
            one.shape().clone(),
            vec![true, false, true],
            Box::new(|_| Err(ReadError::Abandoned(Abandoned))),
        );
        let stack = stack.along_z(&[2, 1 << 40, 2]);
        let parts = |slices: Range<u64>| {
            let region = Region {
                start: Xyz::new(0, 0, slices.start),
                size: Xyz::new(4, 3, slices.end - slices.start),
            };
            stack
                .pieces(0, &region)
                .map(|piece| {
                    let own = piece.within_member;
                    (
                        piece.member,
                        piece.within_series.start.z,
                        own.start.z..own.end().z,
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(parts(1..3), [(0, 1, 1..2), (1, 2, 0..1)]);
        let end = (1 << 40) + 2;
        assert_eq!(
            parts(end - 1..end + 2),
            [(1, end - 1, (1 << 40) - 1..1 << 40), (2, end, 0..2)]
        );
        assert_eq!(parts(end + 2..end + 3), []);
    }
}
