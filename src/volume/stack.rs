//! A volume whose sections along z are separate datasets, opened when first read.

use std::time::Instant;

use super::scatter::{Lattice, copy_box, fill_box};
use super::{
    ChunkId, Positions, ReadCost, ReadError, ReadRequest, Samples, Series, Tally, Volume, VolumeShape,
    VolumeStorage,
};
use crate::geometry::{Region, Xyz};

/// Sections of one shape; missing ones read as 0.
///
/// Stored as a [`Series`] in which the section number is the time.
#[derive(Debug)]
pub struct Stack {
    sections: Series,
    shape: VolumeShape,
}

impl Stack {
    /// A stack of as many sections as the series has time points.
    pub fn new(sections: Series) -> Self {
        let shape = sections.shape();
        let size = Xyz { z: shape.times, ..shape.size };
        Self { sections, shape: VolumeShape { size, times: 1, ..shape } }
    }

    /// The existing sections that a box intersects, with the part of the box in each.
    fn sections_of(&self, region: &Region) -> impl Iterator<Item = (u64, Region)> + '_ {
        let flat = Region { start: Xyz { z: 0, ..region.start }, size: Xyz { z: 1, ..region.size } };
        let all = region.start.z..region.start.z + region.size.z;
        all.filter(|section| self.sections.has(*section)).map(move |section| (section, flat))
    }
}

impl Volume for Stack {
    fn shape(&self) -> VolumeShape {
        self.shape
    }

    fn read(&self, request: &ReadRequest, into: &mut Samples) -> Result<(), ReadError> {
        let (region, step, all) = (request.region, request.step, request.size());
        into.reset(self.shape.voxel, all.volume() as usize);
        let flat = Region { start: Xyz { z: 0, ..region.start }, size: Xyz { z: 1, ..region.size } };
        let size = Xyz { z: 1, ..all };
        let mut section = Samples::default();
        for row in 0..all.z {
            let at = Lattice::dense(all, Xyz::new(0, 0, row));
            let number = region.start.z + row * step.z;
            let fits = if self.sections.has(number) {
                let request =
                    ReadRequest { time: number, region: flat, step: Xyz { z: 1, ..step }, ..*request };
                self.sections.read(&request, &mut section)?;
                copy_box(&section, Lattice::dense(size, Xyz::all(0)), into, at, size)
            } else {
                section.reset(self.shape.voxel, 0);
                section.reset(self.shape.voxel, 1);
                fill_box(&section, into, at, size)
            };
            if !fits {
                let problem = format!("section {number} has another voxel type than the first");
                return Err(ReadError::Damaged { place: "a stack".to_owned(), problem });
            }
        }
        Ok(())
    }

    fn unverified(&self, _time: u64, region: &Region) -> Option<Vec<ChunkId>> {
        let mut all = Vec::new();
        for (section, flat) in self.sections_of(region) {
            all.extend(self.sections.unverified(section, &flat)?);
        }
        Some(all)
    }

    fn may_be_refused(&self, _time: u64, region: &Region) -> bool {
        self.sections_of(region).any(|(section, flat)| self.sections.may_be_refused(section, &flat))
    }

    fn storage(&self) -> &dyn VolumeStorage {
        self
    }
}

impl VolumeStorage for Stack {
    fn rehearse(&self, until: Instant) {
        self.sections.rehearse(until);
    }

    fn forget_chunks(&self) {
        self.sections.forget_chunks();
    }

    fn forget_pages(&self) -> std::io::Result<()> {
        self.sections.forget_pages()
    }

    fn tally(&self, most: usize) -> Result<Tally, ReadError> {
        self.sections.tally(most)
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        let sections = wanted.z.iter().map(|run| run.end - run.start).sum();
        let flat = Positions { z: std::iter::once(0..1).collect(), ..wanted.clone() };
        Some(self.sections.cost(&flat, tally)?.times(sections))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::volume::{MemoryVolume, VoxelType};

    #[test]
    fn a_box_is_put_together_from_its_sections() {
        let size = Xyz::new(4, 3, 1);
        let section = move |z: u64| {
            Arc::new(MemoryVolume::of(VoxelType::U8, size, move |at| (100 * z + 10 * at.y + at.x) as u8))
        };
        let open = move |z| Ok(section(z) as Arc<dyn Volume>);
        let series = Series::new(section(0).shape(), vec![true, false, true], Box::new(open));
        let stack = Stack::new(series);
        assert_eq!((stack.shape().size, stack.shape().times), (Xyz::new(4, 3, 3), 1));
        let mut read = Samples::default();
        let region = Region { start: Xyz::new(1, 2, 0), size: Xyz::new(2, 1, 3) };
        stack.read(&ReadRequest::new(0, region), &mut read).unwrap();
        assert_eq!(read.bytes(), [21, 22, 0, 0, 221, 222]);
        let whole = ReadRequest::new(0, Region::whole(stack.shape().size));
        stack.read(&whole.every(Xyz::new(3, 2, 2)), &mut read).unwrap();
        assert_eq!(read.bytes(), [0, 3, 20, 23, 200, 203, 220, 223]);
    }
}
