//! Volumes whose stored values stand for other values: indices into a palette, ids that were
//! merged, and integers that are scaled slice by slice.

use std::cmp::Reverse;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ndarray::ArrayViewMut3;
use voltile_base::geometry::Xyz;
use voltile_base::tile::Fingerprint;

use super::{
    BoxMut, ReadError, ReadRequest, Samples, Volume, VolumeShape, Voxel, VoxelType, with_samples,
};

/// Maps stored values to the values for which they stand. Mappings are compared and hashed by their
/// digests.
#[derive(Clone)]
pub struct Values {
    digest: Fingerprint,
    map: Arc<ValueMap>,
}

#[derive(Hash)]
enum ValueMap {
    Palette(Vec<[u8; 3]>),
    Component(Vec<u8>),
    Ids(IdTable),
    Scaling(Scaling),
}

/// Pairs of an id and the id that it stands for, each id once, in ascending order. Tables may be
/// long, so that a faster structure would take too much memory.
#[derive(Hash)]
struct IdTable(Vec<(u64, u64)>);

/// The linear functions that map stored integers to real values, one for each position along some
/// of the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Stored values are clamped to this range first.
    pub valid: [f64; 2],
    /// The slope and the intercept for each position.
    pub lines: Vec<[f64; 2]>,
    /// The distance in `lines` between adjacent time points; 0 if they share their lines.
    pub time: usize,
    /// The distances in `lines` between adjacent voxels along x, y and z; 0 along an axis whose
    /// voxels share a line.
    pub space: Xyz<usize>,
}

impl Values {
    fn new(map: ValueMap) -> Self {
        Self {
            digest: Fingerprint::digest(&map),
            map: Arc::new(map),
        }
    }

    /// Indices into a table of colours (red, green, blue). Indices beyond the table are black.
    pub fn palette(colours: Vec<[u8; 3]>) -> Self {
        Self::new(ValueMap::Palette(colours))
    }

    /// Ids that stand for other ids; an id that is not in the table stands for itself.
    pub fn ids(mut pairs: Vec<(u64, u64)>) -> Self {
        // Of several entries for an id, the one with the greatest value comes first and is kept.
        pairs.sort_unstable_by_key(|pair| Reverse(*pair));
        pairs.dedup_by_key(|(id, _)| *id);
        pairs.reverse();
        Self::new(ValueMap::Ids(IdTable(pairs)))
    }

    /// Integers that are scaled to real values, which become 32-bit floats.
    pub fn scaled(scaling: Scaling) -> Self {
        Self::new(ValueMap::Scaling(scaling))
    }

    /// One component (0 red, 1 green, 2 blue) of a palette's colours; `None` unless it is a
    /// palette.
    pub fn component(&self, component: usize) -> Option<Self> {
        let ValueMap::Palette(colours) = &*self.map else {
            return None;
        };
        let table = colours
            .iter()
            .filter_map(|colour| colour.get(component))
            .copied()
            .collect();
        Some(Self::new(ValueMap::Component(table)))
    }

    /// Whether they are indices into a palette.
    pub fn is_palette(&self) -> bool {
        matches!(*self.map, ValueMap::Palette(_))
    }

    /// Identifies the mapping.
    pub fn digest(&self) -> Fingerprint {
        self.digest
    }

    /// The type of the mapped voxels.
    fn voxel(&self) -> VoxelType {
        match &*self.map {
            ValueMap::Palette(_) | ValueMap::Component(_) => VoxelType::U8,
            ValueMap::Ids(_) => VoxelType::U64,
            ValueMap::Scaling(_) => VoxelType::F32,
        }
    }

    /// Maps the stored values of a read, and writes the results into a box. Returns `false` and
    /// writes nothing if the box is of another type.
    #[must_use]
    fn apply<T: Voxel>(&self, stored: &[T], request: &ReadRequest, into: BoxMut<'_>) -> bool {
        match (&*self.map, into) {
            // If no component of the palette was chosen, the red one is shown.
            (ValueMap::Palette(colours), BoxMut::U8(into)) => {
                let table: Vec<u8> = colours.iter().map(|colour| colour[0]).collect();
                write(stored, into, |voxel| entry(&table, voxel));
            }
            (ValueMap::Component(table), BoxMut::U8(into)) => {
                write(stored, into, |voxel| entry(table, voxel));
            }
            (ValueMap::Ids(ids), BoxMut::U64(into)) => write(stored, into, ids.lookup()),
            (ValueMap::Scaling(scaling), BoxMut::F32(into)) => scaling.apply(stored, request, into),
            _ => return false,
        }
        true
    }
}

/// Writes a value for each voxel into a box; the voxels are contiguous in z, y, x order.
fn write<T, V>(stored: &[T], mut into: ArrayViewMut3<'_, V>, mut value: impl FnMut(&T) -> V) {
    into.iter_mut()
        .zip(stored)
        .for_each(|(place, voxel)| *place = value(voxel));
}

/// The entry of a table whose index is the value of a voxel; 0 if there is none.
#[inline]
fn entry<T: Voxel>(table: &[u8], voxel: &T) -> u8 {
    match usize::try_from(voxel.to_whole()) {
        Ok(index) => table.get(index).copied().unwrap_or(0),
        Err(_) => 0,
    }
}

impl IdTable {
    /// A function that looks up the id for which a stored id stands. It remembers the last one:
    /// neighbours mostly have the same id.
    fn lookup<T: Voxel>(&self) -> impl FnMut(&T) -> u64 {
        let mut last = None;
        move |voxel: &T| {
            let id = voxel.to_label();
            match last {
                Some((known, stands_for)) if known == id => stands_for,
                _ => {
                    let stands_for = self.get(id);
                    last = Some((id, stands_for));
                    stands_for
                }
            }
        }
    }

    /// The id for which an id stands.
    fn get(&self, id: u64) -> u64 {
        match self.0.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(place) => self.0[place].1,
            Err(_) => id,
        }
    }
}

impl Scaling {
    fn apply<T: Voxel>(
        &self,
        stored: &[T],
        request: &ReadRequest,
        mut into: ArrayViewMut3<'_, f32>,
    ) {
        let size = request.size();
        let step = request.step;
        let [lowest, highest] = self.valid;
        let stored_rows = stored.chunks_exact(size.x.max(1) as usize);
        let rows = into.rows_mut().into_iter().zip(stored_rows);
        // Rows follow each other along y, then along z.
        for (number, (mut row, voxels)) in (0..).zip(rows) {
            let mut place = request.region.start;
            place.y += number % size.y * step.y;
            place.z += number / size.y * step.z;
            for (scaled, voxel) in row.iter_mut().zip(voxels) {
                let [slope, intercept] = self.line(request.time, place);
                let value = voxel.to_f64().max(lowest).min(highest);
                *scaled = (value * slope + intercept) as f32;
                place.x += step.x;
            }
        }
    }

    /// The slope and the intercept for a voxel; voxels beyond the last line are not scaled.
    fn line(&self, time: u64, place: Xyz<u64>) -> [f64; 2] {
        let along = place.zip(self.space, |position, step| position as usize * step);
        let number = time as usize * self.time + along.x + along.y + along.z;
        self.lines.get(number).copied().unwrap_or([1.0, 0.0])
    }
}

impl Hash for Scaling {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.valid.map(f64::to_bits).hash(state);
        for line in &self.lines {
            line.map(f64::to_bits).hash(state);
        }
        (self.time, self.space).hash(state);
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values({})", self.digest)
    }
}

/// A volume that shows the values for which the voxels of another volume stand.
#[derive(Debug)]
pub struct Mapped {
    shape: VolumeShape,
    stored: Arc<dyn Volume>,
    values: Values,
}

impl Mapped {
    /// The volume of the values for which the values of `stored` stand.
    pub fn new(stored: Arc<dyn Volume>, values: Values) -> Self {
        let shape = VolumeShape {
            voxel: values.voxel(),
            coding: Err("its stored values stand for other values".to_owned()),
            fill: None,
            ..stored.shape().clone()
        };
        Self {
            shape,
            stored,
            values,
        }
    }
}

impl Volume for Mapped {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    fn read_box(&self, request: &ReadRequest, into: BoxMut<'_>) -> Result<(), ReadError> {
        let mut stored = Samples::default();
        self.stored.read(request, &mut stored)?;
        let is_mapped = with_samples!(&stored, stored => self.values.apply(stored, request, into));
        ReadError::ensure_copied(is_mapped, "a volume of mapped values")
    }

    fn source(&self) -> Option<&Arc<dyn Volume>> {
        Some(&self.stored)
    }
}

#[cfg(test)]
mod tests {
    use voltile_base::geometry::Region;

    use super::*;
    use crate::volume::MemoryVolume;

    fn read(values: Values, stored: MemoryVolume, request: &ReadRequest) -> Samples {
        let mut samples = Samples::default();
        Mapped::new(Arc::new(stored), values)
            .read(request, &mut samples)
            .unwrap();
        samples
    }

    fn whole(size: Xyz<u64>) -> ReadRequest {
        ReadRequest::new(0, Region::whole(size))
    }

    #[test]
    fn ids_stand_for_others_or_for_themselves() {
        let size = Xyz::new(6, 1, 1);
        let stored = MemoryVolume::of(VoxelType::I32, size, |at| {
            [3, 3, -1, 7, 3, 0][at.x as usize]
        });
        let values = Values::ids(vec![(3, 1), (u64::MAX, 5), (3, 1 << 40)]);
        let ids = read(values, stored, &whole(size));
        assert_eq!(ids, Samples::U64(vec![1 << 40, 1 << 40, 5, 7, 1 << 40, 0]));
    }

    #[test]
    fn indices_stand_for_components_of_colours() {
        let size = Xyz::new(3, 1, 1);
        let stored = || MemoryVolume::of(VoxelType::U8, size, |at| [1_u8, 0, 200][at.x as usize]);
        let palette = Values::palette(vec![[1, 2, 3], [4, 5, 6]]);
        let blue = palette.component(2).unwrap();
        assert_eq!(
            read(blue.clone(), stored(), &whole(size)),
            Samples::U8(vec![6, 3, 0])
        );
        assert_ne!(Some(blue), palette.component(1));
        assert_eq!(Values::ids(Vec::new()).component(0), None);
    }

    #[test]
    fn each_slice_has_its_own_scale() {
        let size = Xyz::new(2, 2, 3);
        let stored = MemoryVolume::of(VoxelType::U8, size, |at| {
            (10 * at.z + 2 * at.y + at.x) as u8
        });
        let lines = vec![[1.0, 0.5], [2.0, 0.0], [0.5, -1.0]];
        let values = |space| {
            Values::scaled(Scaling {
                valid: [1.0, 21.0],
                lines: lines.clone(),
                time: 0,
                space,
            })
        };
        let along_z = values(Xyz::new(0, 0, 1));
        let last = Region {
            start: Xyz::new(0, 0, 2),
            size: Xyz::new(2, 2, 1),
        };
        let scaled = read(along_z.clone(), stored.clone(), &ReadRequest::new(0, last));
        assert_eq!(scaled, Samples::F32(vec![9.0, 9.5, 9.5, 9.5]));
        let every_second = read(
            along_z,
            stored.clone(),
            &whole(size).every(Xyz::new(1, 2, 2)),
        );
        assert_eq!(every_second, Samples::F32(vec![1.5, 1.5, 9.0, 9.5]));
        let along_x = read(values(Xyz::new(1, 0, 0)), stored, &whole(Xyz::new(2, 1, 1)));
        assert_eq!(along_x, Samples::F32(vec![1.5, 2.0]));
    }
}
