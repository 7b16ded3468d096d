//! A short series of live nuclei that drift and divide, as a light microscope shows them.
//!
//! A nucleus about to divide grows dense, then parts in two along an axis of its own. Everything is a smooth function
//! of time, so that playing the series looks like one film. The camera is that of `fluorescence`.

use super::fluorescence::expose;
use super::noise::{hash, mix, step, unit, value};
use super::vector::Vector;

/// Depth of a slice in voxel widths: voxels of 0.2 x 0.2 x 1 micrometres.
const SLICE_DEPTH: f32 = 5.0;

/// Mean distance of the nuclei.
const SPACING: f32 = 62.0;

/// One nucleus, or the two that it becomes.
struct Nucleus {
    start: Vector,
    /// Way per time point.
    drift: Vector,
    radius: f32,
    photons: f32,
    /// The time point at which it parts; after the end for most.
    division: f32,
    /// Along which it parts.
    axis: Vector,
    salt: u32,
}

/// A nucleus as it is at one time point: an egg.
struct Egg {
    center: Vector,
    /// Across the egg; along its axis it is longer by [`Egg::LENGTH`].
    radius: f32,
    axis: Vector,
    photons: f32,
    salt: u32,
}

/// The nuclei at time point `t` in `[z, y, x]` voxels, in that order.
pub(super) fn frame(t: usize, [depth, height, width]: [usize; 3]) -> Vec<u16> {
    let eggs = eggs(t as f32, height as f32, width as f32);
    let mut frame = Vec::with_capacity(depth * height * width);
    for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
        let row = Vector::new(0.0, y as f32, z as f32 * SLICE_DEPTH);
        let near: Vec<_> = eggs.iter().filter(|egg| egg.meets_row(row)).collect();
        frame.extend((0..width).map(|x| {
            let point = Vector { x: x as f32, ..row };
            let photons = near.iter().map(|egg| egg.photons_at(point)).fold(0.0, f32::max);
            expose(0.1 + photons, hash(x as i32, y as i32, z as i32, 140 + t as u32))
        }));
    }
    frame
}

fn eggs(t: f32, height: f32, width: f32) -> Vec<Egg> {
    let steps = |length: f32| -1..(length / SPACING) as i32 + 2;
    steps(height)
        .flat_map(|y| steps(width).map(move |x| Nucleus::new(x, y)))
        .flat_map(|it| it.at(t))
        .collect()
}

impl Nucleus {
    /// The nucleus at one place of a grid.
    fn new(x: i32, y: i32) -> Self {
        let dice = |salt| unit(hash(x, y, 0, salt));
        let place = |step: i32, salt| (step as f32 + 0.2 + 0.6 * dice(salt)) * SPACING;
        let direction = Vector::new(dice(121) - 0.5, dice(122) - 0.5, 0.3 * (dice(123) - 0.5));
        Self {
            start: Vector::new(place(x, 124), place(y, 125), 16.0 + 26.0 * dice(126)),
            drift: direction * 8.0,
            radius: 14.0 + 5.0 * dice(127),
            photons: 6.0 + 8.0 * dice(128),
            division: if dice(129) < 0.45 { 1.0 + 6.0 * dice(130) } else { f32::INFINITY },
            axis: Vector::new(dice(131) - 0.5, dice(132) - 0.5, 0.2 * (dice(133) - 0.5)).unit(),
            salt: hash(x, y, 0, 134),
        }
    }

    fn at(self, t: f32) -> [Egg; 2] {
        let dense = step(2.5, 0.0, (t - self.division).abs());
        let parted = step(0.0, 2.5, t - self.division);
        let center = self.start + self.drift * t;
        let apart = self.axis * (self.radius * 1.3 * parted);
        let egg = |center, salt| Egg {
            center,
            axis: self.axis,
            radius: self.radius * mix(1.0, 0.8, parted.max(dense)),
            photons: self.photons * mix(1.0, 1.6, dense),
            salt,
        };
        [egg(center + apart, self.salt), egg(center - apart, self.salt)]
    }
}

impl Egg {
    const LENGTH: f32 = 1.25;
    /// How far beyond its edge an egg still glows.
    const GLOW: f32 = 14.0;

    fn meets_row(&self, row: Vector) -> bool {
        let away = Vector { x: 0.0, ..self.center - row };
        away.length() < (self.radius + Self::GLOW) * Self::LENGTH
    }

    fn photons_at(&self, point: Vector) -> f32 {
        let offset = point - self.center;
        let shortened = offset - self.axis * (offset.dot(self.axis) * (1.0 - 1.0 / Self::LENGTH));
        let beyond = shortened.length() - self.radius;
        if beyond > Self::GLOW {
            return 0.0;
        }
        let clumps = 1.0 + 0.5 * value(offset * (1.0 / 7.0), self.salt);
        let nucleus = step(2.5, -5.0, beyond);
        self.photons * nucleus * clumps + 0.6 * step(Self::GLOW, 0.0, beyond)
    }
}
