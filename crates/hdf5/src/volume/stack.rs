//! A volume whose parts along z are separate datasets, opened when first read.

use std::ops::Range;
use std::sync::Arc;

use voltile_base::geometry::{Region, Xyz};

use super::scatter::Sieve;
use super::series::moved;
use super::{
    BoxMut, Members, NoReferences, Part, Positions, ReadCost, ReadError, ReadRequest, Series,
    TakePart, Tally, Volume, VolumeShape,
};

/// Parts that follow each other along z and agree in everything but their extent along it; missing
/// ones read as 0.
///
/// Stored as a [`Series`] in which the number of the part is the time.
#[derive(Debug)]
pub struct Stack {
    parts: Arc<Series>,
    /// The slice after the last one of each part.
    ends: Vec<u64>,
    shape: VolumeShape,
}

/// The intersection of a box with a part.
struct Piece {
    /// The number of the part.
    part: u64,
    /// In slices of the stack.
    within_stack: Region,
    /// In slices of the part.
    within_part: Region,
}

impl Stack {
    /// A stack of the volumes of a series; `depths` are their extents along z, all positive.
    pub fn new(parts: Series, depths: Vec<u64>) -> Self {
        let mut end = 0u64;
        let ends: Vec<u64> = depths
            .iter()
            .map(|depth| {
                end = end.saturating_add(*depth);
                end
            })
            .collect();
        let part = parts.shape().clone();
        let size = Xyz {
            z: end,
            ..part.size
        };
        let coding = Err("its parts along z are separate datasets".to_owned());
        let shape = VolumeShape {
            size,
            times: 1,
            present: None,
            coding,
            fill: None,
            ..part
        };
        Self {
            parts: Arc::new(parts.with_depths(depths)),
            ends,
            shape,
        }
    }

    /// The first slice of a part.
    fn start(&self, part: usize) -> u64 {
        part.checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0)
    }

    /// The parts that contain some of the slices, each with its slices, counted in the stack;
    /// missing parts too.
    fn parts_of(&self, slices: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let first = self.ends.partition_point(|end| *end <= slices.start);
        let parts = self.ends.iter().enumerate().skip(first);
        let parts = parts.map(move |(part, end)| {
            (
                part,
                self.start(part).max(slices.start)..(*end).min(slices.end),
            )
        });
        parts.take_while(|(_, slices)| slices.start < slices.end)
    }

    /// The pieces of a box, missing ones too.
    fn pieces(&self, region: &Region) -> impl Iterator<Item = Piece> + '_ {
        let region = *region;
        self.parts_of(region.start.z..region.end().z)
            .map(move |(part, slices)| {
                let size = Xyz {
                    z: slices.end - slices.start,
                    ..region.size
                };
                let within_stack = Region {
                    start: Xyz {
                        z: slices.start,
                        ..region.start
                    },
                    size,
                };
                let mut within_part = within_stack;
                within_part.start.z -= self.start(part);
                Piece {
                    part: part as u64,
                    within_stack,
                    within_part,
                }
            })
    }

    fn present_pieces(&self, region: &Region) -> impl Iterator<Item = Piece> + '_ {
        self.pieces(region)
            .filter(|piece| self.parts.shape().has(piece.part))
    }
}

/// The request to the part of a piece; the first wanted slice of the piece is `offset`.
fn request_of(piece: &Piece, offset: u64, request: &ReadRequest) -> ReadRequest {
    let Region { start, size } = piece.within_part;
    let region = Region {
        start: Xyz {
            z: start.z + offset,
            ..start
        },
        size: Xyz {
            z: size.z - offset,
            ..size
        },
    };
    ReadRequest {
        time: piece.part,
        region,
        ..request.clone()
    }
}

impl Volume for Stack {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    fn read_box(&self, request: &ReadRequest, mut into: BoxMut<'_>) -> Result<(), ReadError> {
        for piece in self.pieces(&request.region) {
            let Some(sieve) = Sieve::new(&piece.within_stack, &request.region, request.step) else {
                continue;
            };
            let mut into = into.part(sieve.place, sieve.count);
            if self.parts.shape().has(piece.part) {
                self.parts
                    .read_box(&request_of(&piece, sieve.offset.z, request), into)?;
            } else {
                into.clear();
            }
        }
        Ok(())
    }

    fn members(&self) -> Members<'_> {
        Box::new(std::iter::once(Ok(
            Arc::clone(&self.parts) as Arc<dyn Volume>
        )))
    }

    fn parts(&self, _time: u64, region: &Region) -> Result<Vec<Part>, ReadError> {
        let parts = self.present_pieces(region).map(|piece| Part {
            volume: Arc::clone(&self.parts) as Arc<dyn Volume>,
            time: piece.part,
            region: piece.within_part,
        });
        Ok(parts.collect())
    }

    fn gaps(&self, _time: u64, region: &Region) -> Vec<Region> {
        let mut gaps = Vec::new();
        for Piece {
            part,
            within_stack,
            within_part,
        } in self.pieces(region)
        {
            if !self.parts.shape().has(part) {
                gaps.push(within_stack);
                continue;
            }
            for mut gap in self.parts.gaps(part, &within_part) {
                gap.start.z = gap.start.z - within_part.start.z + within_stack.start.z;
                gaps.push(gap);
            }
        }
        gaps
    }

    fn references(&self, path: &str, take: &mut TakePart<'_>) -> Result<(), NoReferences> {
        for part in (0..self.ends.len()).filter(|part| self.parts.shape().has(*part as u64)) {
            let start = [0, self.start(part), 0, 0];
            self.parts
                .volume(part as u64)?
                .references(path, &mut |part| take(moved(part, start)?))?;
        }
        Ok(())
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        let mut sum = ReadCost::default();
        for run in &wanted.z {
            for (part, slices) in self
                .parts_of(run.clone())
                .filter(|(part, _)| self.parts.shape().has(*part as u64))
            {
                let start = self.start(part);
                let z = std::iter::once(slices.start - start..slices.end - start).collect();
                sum += self.parts.cost(
                    &Positions {
                        z,
                        ..wanted.clone()
                    },
                    tally,
                )?;
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{MemoryVolume, Samples, VoxelType};

    #[test]
    fn a_part_of_unexpected_depth_is_an_error() {
        let part = |depth| MemoryVolume::of(VoxelType::U8, Xyz::new(4, 3, depth), |_| 1u8);
        let open = move |number: u64| Ok(Arc::new(part(2 + number)) as Arc<dyn Volume>);
        let stack = Stack::new(
            Series::new(part(2).shape().clone(), vec![true; 2], Box::new(open)),
            vec![2, 2],
        );
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
        let stack = Stack::new(
            Series::new(
                MemoryVolume::of(VoxelType::U8, Xyz::new(4, 3, 2), |_| 1u8)
                    .shape()
                    .clone(),
                vec![true, false, true],
                Box::new(|_| Err(ReadError::Abandoned(voltile_base::flow::cache::Abandoned))),
            ),
            vec![2, 1 << 40, 2],
        );
        let parts = |slices| stack.parts_of(slices).collect::<Vec<_>>();
        assert_eq!(parts(1..3), [(0, 1..2), (1, 2..3)]);
        let end = (1 << 40) + 2;
        assert_eq!(
            parts(end - 1..end + 2),
            [(1, end - 1..end), (2, end..end + 2)]
        );
        assert_eq!(parts(end + 2..end + 3), []);
    }
}
