//! One array for each level, over one channel or several: axes, extents, and the box of voxels
//! behind each chunk.

use std::sync::Arc;

use voltile_base::geometry::{Affine, Level, Region, Xyz};
use voltile_base::paint::Kind;
use voltile_base::text::joined;
use voltile_hdf5::volume::VoxelType;

use super::array::ArrayLevel;
use crate::catalog::{Channel, Dataset, NotFound, StoredLevel};

/// The axes of an image: always y and x; t, c and z if it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageAxes {
    /// The number of time points, if it has an axis t.
    pub times: Option<u64>,
    /// The number of channels or of colour components, if it has an axis c.
    pub channels: Option<u64>,
    /// Whether it has an axis z.
    pub has_z: bool,
}

/// The arrays of an image or a label image.
#[derive(Debug, Clone)]
pub struct Multiscale<'a> {
    /// The dataset.
    pub dataset: &'a Dataset,
    /// The channels, in the order of the axis c: at least one; all share everything that metadata
    /// describes.
    pub channels: Vec<&'a Arc<Channel>>,
    /// The levels, finest first.
    pub levels: &'a [ArrayLevel],
    /// The axes.
    pub axes: ImageAxes,
}

impl ImageAxes {
    /// The letters of the axes that exist.
    pub fn letters(self) -> Vec<char> {
        self.chosen('t', 'c', ['z', 'y', 'x'])
    }

    /// The values of the axes that exist, in the order t, c, z, y, x.
    pub fn chosen<T>(self, t: T, c: T, [z, y, x]: [T; 3]) -> Vec<T> {
        let t = self.times.map(|_| t);
        let c = self.channels.map(|_| c);
        let z = self.has_z.then_some(z);
        [t, c, z, Some(y), Some(x)].into_iter().flatten().collect()
    }
}

impl<'a> Multiscale<'a> {
    /// The arrays of `channels`: at least one; all share everything that metadata describes.
    pub(super) fn new(
        dataset: &'a Dataset,
        channels: Vec<&'a Arc<Channel>>,
        levels: &'a [ArrayLevel],
    ) -> Self {
        let first = channels[0];
        let components = match first.kind {
            Kind::Rgb => 3,
            Kind::Image | Kind::Labels => channels.len() as u64,
        };
        let axes = ImageAxes {
            times: first.is_series.then_some(first.times),
            channels: (components > 1).then_some(components),
            has_z: first.has_sections(),
        };
        Self {
            dataset,
            channels,
            levels,
            axes,
        }
    }

    /// These arrays with the axes of another image. An axis that the arrays lack has extent 1.
    pub(super) fn along(self, axes: ImageAxes) -> Self {
        let times = axes.times.map(|_| self.axes.times.unwrap_or(1));
        let channels = axes.channels.map(|_| self.axes.channels.unwrap_or(1));
        Self {
            axes: ImageAxes {
                times,
                channels,
                has_z: axes.has_z,
            },
            ..self
        }
    }

    /// The position of the first voxel in voxels of level 0, see [`Dataset::position`].
    pub fn position(&self) -> Xyz<i64> {
        self.dataset.position(self.first())
    }

    /// Where the voxels lie in the space of the file, at the first time point.
    pub fn transform(&self) -> Option<Affine> {
        self.dataset.transforms(self.first()).first().copied()
    }

    /// The first channel; all are like it.
    pub fn first(&self) -> &'a Arc<Channel> {
        self.channels[0]
    }

    /// The type of voxels.
    pub fn voxel(&self) -> VoxelType {
        self.first().voxel
    }

    /// The array of a level.
    pub fn level(&self, level: Level) -> Result<&'a ArrayLevel, NotFound> {
        let wanted = self.levels.iter().find(|array| array.level == level);
        wanted.ok_or_else(|| {
            let numbers = self.levels.iter().map(|array| array.level.number());
            NotFound::Other(format!(
                "the image has the arrays {}; there is no {}",
                joined(numbers),
                level.number()
            ))
        })
    }

    /// How a level is stored, for each channel; `None` if it is derived.
    pub fn stored(&self, level: &ArrayLevel) -> Option<Vec<&'a StoredLevel>> {
        let scaling = self.dataset.style.scaling;
        let mut stored = Vec::new();
        for channel in &self.channels {
            let view = channel.view(level.level, scaling)?;
            stored.push(channel.stored_level(&view)?);
        }
        Some(stored)
    }

    /// The extents of a level's array, slowest axis first.
    pub fn shape(&self, level: &ArrayLevel) -> Vec<u64> {
        let Xyz { x, y, z } = level.size;
        self.axes.chosen(
            self.axes.times.unwrap_or(1),
            self.axes.channels.unwrap_or(1),
            [z, y, x],
        )
    }

    /// The extents of a level's chunks, slowest axis first.
    pub fn chunk_shape(&self, level: &ArrayLevel) -> Vec<u64> {
        let Xyz { x, y, z } = level.chunk;
        // A chunk holds all components of a colour, but only one channel.
        let components = match self.first().kind {
            Kind::Rgb => 3,
            Kind::Image | Kind::Labels => 1,
        };
        self.axes.chosen(1, components, [z, y, x])
    }

    /// The voxels that the chunk at `place` holds: their channel, time point, and box. `place` is
    /// the chunk's index along each axis.
    pub fn chunk(
        &self,
        level: &ArrayLevel,
        place: &[u64],
    ) -> Result<(&'a Arc<Channel>, u64, Region), NotFound> {
        let shape = self.shape(level);
        let chunk = self.chunk_shape(level);
        let grid: Vec<u64> = shape
            .iter()
            .zip(&chunk)
            .map(|(size, edge)| size.div_ceil(*edge))
            .collect();
        let letters = self.axes.letters();
        let is_within =
            grid.len() == place.len() && place.iter().zip(&grid).all(|(at, count)| at < count);
        let index_along = |letter: char| {
            let mut axes = letters.iter().zip(place);
            axes.find(|(axis, _)| **axis == letter)
                .map_or(0, |(_, at)| *at)
        };
        // The index along c is that of a channel, or 0 in an RGB image: each chunk of its only
        // channel holds all components.
        let channel = if is_within {
            self.channels.get(index_along('c') as usize)
        } else {
            None
        };
        let Some(channel) = channel else {
            let grid: Vec<String> = grid.iter().map(u64::to_string).collect();
            return Err(NotFound::Other(format!(
                "there is no such chunk: level {} is {} chunks along the axes {}",
                level.level.number(),
                grid.join(" × "),
                String::from_iter(letters)
            )));
        };
        let index = Xyz::new('x', 'y', 'z').map(index_along);
        let start = index.zip(level.chunk, u64::saturating_mul);
        let size = level
            .size
            .zip(start, u64::saturating_sub)
            .zip(level.chunk, u64::min);
        Ok((*channel, index_along('t'), Region { start, size }))
    }
}
