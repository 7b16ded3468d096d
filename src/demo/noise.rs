//! Randomness without state: every value is a pure function of whole coordinates and a salt.
//!
//! Integer hashing, `+ - * /` and nothing transcendental, so the demo volume has the same bits on every machine and any
//! voxel can be made without the ones before it. The salt tells the uses apart: equal salts give equal noise.

use std::ops::{Add, Mul, Sub};

use super::vector::Vector;

/// A well mixed 32-bit hash of three whole coordinates.
pub(super) fn hash(x: i32, y: i32, z: i32, salt: u32) -> u32 {
    let mut bits = salt
        ^ (x as u32).wrapping_mul(0x9E37_79B1)
        ^ (y as u32).wrapping_mul(0x85EB_CA77).rotate_left(11)
        ^ (z as u32).wrapping_mul(0xC2B2_AE3D).rotate_left(21);
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7FEB_352D);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846C_A68B);
    bits ^ (bits >> 16)
}

/// Another hash made from one that is well mixed already; cheaper than [`hash`].
pub(super) fn remix(hash: u32) -> u32 {
    let bits = hash.wrapping_mul(0x7FEB_352D);
    bits ^ (bits >> 15)
}

/// A hash as a number in [0, 1).
pub(super) fn unit(hash: u32) -> f32 {
    (hash >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A hash as a bell-shaped number with mean 0 and standard deviation 1, within ±5.66: how many of its bits are set.
pub(super) fn bell(hash: u32) -> f32 {
    (hash.count_ones() as f32 - 16.0) * 0.353_553_4
}

/// Smooth noise in [-1, 1] with features about one unit wide: a random number at each whole point, blended between.
pub(super) fn value(point: Vector, salt: u32) -> f32 {
    blend(point, |x, y, z, _| unit(hash(x, y, z, salt)) * 2.0 - 1.0)
}

/// Smooth noise in about [-1, 1] that is 0 at every whole point (Perlin's): livelier than [`value`], its grid unseen.
pub(super) fn gradient(point: Vector, salt: u32) -> f32 {
    blend(point, |x, y, z, way| slope(hash(x, y, z, salt), way))
}

/// Three noises like [`gradient`] for little more than the price of one.
pub(super) fn gradients(point: Vector, salt: u32) -> Vector {
    blend(point, |x, y, z, way| {
        let first = hash(x, y, z, salt);
        let second = remix(first);
        Vector::new(slope(first, way), slope(second, way), slope(remix(second), way))
    })
}

/// The rise of one of twelve even slopes (towards the edges of a cube) along `way`.
fn slope(hash: u32, way: Vector) -> f32 {
    let (first, second) = match (hash >> 4) % 3 {
        0 => (way.x, way.y),
        1 => (way.y, way.z),
        _ => (way.z, way.x),
    };
    let first = if hash & 1 == 0 { first } else { -first };
    let second = if hash & 2 == 0 { second } else { -second };
    first + second
}

/// Blends what `corner` says at the eight whole points around `point`; it is given the point and the way from there.
fn blend<T>(point: Vector, corner: impl Fn(i32, i32, i32, Vector) -> T) -> T
where
    T: Copy + Add<Output = T> + Sub<Output = T> + Mul<f32, Output = T>,
{
    let (x, y, z) = (floor(point.x), floor(point.y), floor(point.z));
    let inside = point - Vector::new(x as f32, y as f32, z as f32);
    let at = |dx: i32, dy: i32, dz: i32| {
        corner(x + dx, y + dy, z + dz, inside - Vector::new(dx as f32, dy as f32, dz as f32))
    };
    let (u, v, w) = (ease(inside.x), ease(inside.y), ease(inside.z));
    let edge = |dy, dz| mix(at(0, dy, dz), at(1, dy, dz), u);
    let face = |dz| mix(edge(0, dz), edge(1, dz), v);
    mix(face(0), face(1), w)
}

/// The whole number at or below `number`; quicker than `f32::floor` where the processor has no instruction for it.
pub(super) fn floor(number: f32) -> i32 {
    let whole = number as i32;
    whole - i32::from((whole as f32) > number)
}

/// `from` where `share` is 0, `to` where it is 1.
pub(super) fn mix<T>(from: T, to: T, share: f32) -> T
where
    T: Copy + Add<Output = T> + Sub<Output = T> + Mul<f32, Output = T>,
{
    from + (to - from) * share
}

/// 0 up to `from`, 1 beyond `to`, a smooth S between. With `from` above `to` it falls instead.
pub(super) fn step(from: f32, to: f32, at: f32) -> f32 {
    // Multiplied, not divided: the compiler works out the factor where both ends are constants.
    ease(((at - from) * (1.0 / (to - from))).clamp(0.0, 1.0))
}

fn ease(share: f32) -> f32 {
    share * share * (3.0 - 2.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> impl Iterator<Item = Vector> {
        (0..30_000).map(|n| {
            let at = |salt| (unit(hash(n, 0, 0, salt)) - 0.5) * 200.0;
            Vector::new(at(1), at(2), at(3))
        })
    }

    #[test]
    fn hashes_never_change() {
        let found = [hash(0, 0, 0, 1), hash(-1, 2, -3, 4), hash(i32::MAX, i32::MIN, 7, u32::MAX)];
        assert_eq!(found, [1_753_845_952, 3_328_370_180, 2_806_224_395]);
    }

    #[test]
    fn noises_use_their_range_and_keep_to_it() {
        let noises: [fn(Vector) -> f32; 3] = [|p| value(p, 5), |p| gradient(p, 5), |p| gradients(p, 5).z];
        for noise in noises {
            let found: Vec<_> = points().map(noise).collect();
            let (low, high) =
                found.iter().fold((0.0_f32, 0.0_f32), |(low, high), &it| (low.min(it), high.max(it)));
            assert!((-1.05..-0.7).contains(&low), "lowest {low}");
            assert!((0.7..1.05).contains(&high), "highest {high}");
            let mean = found.iter().sum::<f32>() / found.len() as f32;
            assert!(mean.abs() < 0.02, "mean {mean}");
        }
    }

    #[test]
    fn noises_are_smooth() {
        for point in points() {
            let aside = point + Vector::new(0.01, -0.01, 0.01);
            assert!((value(point, 5) - value(aside, 5)).abs() < 0.1);
            assert!((gradient(point, 5) - gradient(aside, 5)).abs() < 0.1);
        }
    }

    #[test]
    fn the_bell_has_mean_0_and_deviation_1() {
        let thrown: Vec<_> = (0..30_000).map(|n| bell(hash(n, 0, 0, 6))).collect();
        let mean = thrown.iter().sum::<f32>() / 30_000.0;
        let square = thrown.iter().map(|it| it * it).sum::<f32>() / 30_000.0;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.03, "mean {mean}, mean square {square}");
    }

    #[test]
    fn floor_rounds_down() {
        assert_eq!([-2.0, -1.5, -0.1, 0.0, 0.9, 3.0].map(floor), [-2, -2, -1, 0, 0, 3]);
    }

    #[test]
    fn steps_rise_or_fall_between_their_ends() {
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0].map(|at| step(1.0, 3.0, at)), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0].map(|at| step(3.0, 1.0, at)), [1.0, 1.0, 0.5, 0.0, 0.0]);
    }
}
