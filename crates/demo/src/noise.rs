//! Randomness without state: every value is a pure function of whole coordinates and a salt. Only
//! integer hashing, `+ - * /` and square roots are used, which give the same bits on every machine.

/// A point or a vector: x, y, z in voxel widths.
pub(crate) type Point = [f32; 3];

/// `point + way * factor`.
pub(crate) fn shift(point: Point, way: Point, factor: f32) -> Point {
    [0, 1, 2].map(|axis| point[axis] + way[axis] * factor)
}

/// The vector from one point to another.
pub(crate) fn vector(from: Point, to: Point) -> Point {
    shift(to, from, -1.0)
}

pub(crate) fn dot(a: Point, b: Point) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn length(way: Point) -> f32 {
    dot(way, way).sqrt()
}

/// `way` with length 1; (almost) zero stays (almost) zero.
pub(crate) fn direction(way: Point) -> Point {
    shift([0.0; 3], way, 1.0 / length(way).max(1e-6))
}

/// A well-mixed hash, with the constants of xxHash and lowbias32.
pub(crate) fn hash([x, y, z]: [i32; 3], salt: u32) -> u32 {
    let mut bits = salt
        ^ (x as u32).wrapping_mul(0x9E37_79B1)
        ^ (y as u32).wrapping_mul(0x85EB_CA77).rotate_left(11)
        ^ (z as u32).wrapping_mul(0xC2B2_AE3D).rotate_left(21);
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7FEB_352D);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846C_A68B);
    bits ^ (bits >> 16)
}

/// Another hash from a well-mixed one; cheaper than [`hash`].
pub(crate) fn rehash(bits: u32) -> u32 {
    let bits = bits.wrapping_mul(0x7FEB_352D);
    bits ^ (bits >> 15)
}

/// A hash as a number in [0, 1): its upper 24 bits, which a 32-bit float holds exactly.
pub(crate) fn unit(hash: u32) -> f32 {
    (hash >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A hash as a roughly normal number (mean 0, standard deviation 1): the count of its set bits,
/// which has the mean 16 and the standard deviation √8.
pub(crate) fn normal(hash: u32) -> f32 {
    (hash.count_ones() as f32 - 16.0) * 0.353_553_4
}

/// `N` gradient noises (Perlin's) in about [-1, 1], with features of about `size`.
pub(crate) fn noise<const N: usize>(point: Point, size: f32, salt: u32) -> [f32; N] {
    let point = point.map(|it| it / size);
    let cube = point.map(floor);
    let inside = vector(cube.map(|it| it as f32), point);
    let share = inside.map(|it| step(0.0, 1.0, it));
    let mut sums = [0.0; N];
    for corner in 0..8 {
        // For each axis, 1 if the corner is at the upper end of the cube.
        let far = [corner & 1, corner >> 1 & 1, corner >> 2];
        let weights = [0, 1, 2].map(|axis| {
            if far[axis] == 1 {
                share[axis]
            } else {
                1.0 - share[axis]
            }
        });
        let from_corner = vector(far.map(|it| it as f32), inside);
        let mut bits = hash([0, 1, 2].map(|axis| cube[axis] + far[axis]), salt);
        for sum in &mut sums {
            // The gradient at the corner: a byte of the hash for each axis, as -1.16 to 1.16.
            let slope = [0, 8, 16].map(|bit| (bits >> bit & 0xFF) as f32 * (1.0 / 110.0) - 1.16);
            *sum += dot(slope, from_corner) * weights[0] * weights[1] * weights[2];
            bits = rehash(bits);
        }
    }
    sums
}

/// The floor of a number; quicker than `f32::floor` where the processor has no instruction for it.
pub(crate) fn floor(number: f32) -> i32 {
    let whole = number as i32;
    whole - i32::from(whole as f32 > number)
}

/// `from` where `share` is 0, `to` where it is 1.
pub(crate) fn mix(from: f32, to: f32, share: f32) -> f32 {
    from + (to - from) * share
}

/// 0 up to `from`, 1 from `to` on, and smooth between. With `from` above `to`, it falls: 1 up to
/// `to`, 0 from `from` on.
pub(crate) fn step(from: f32, to: f32, at: f32) -> f32 {
    let share = ((at - from) * (1.0 / (to - from))).clamp(0.0, 1.0);
    share * share * (3.0 - 2.0 * share)
}
