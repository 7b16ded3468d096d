//! Pictures and voxels for all benchmarks. They are computed without real randomness, so that every
//! machine measures the same bytes.

#![allow(
    dead_code,
    missing_docs,
    reason = "each benchmark uses a part, and the names say what it is"
)]

/// Pixels of a tile, row by row without gaps.
pub struct Picture {
    pub name: &'static str,
    pub pixels: Vec<u8>,
    /// Bytes per pixel: 1 or 3.
    pub bytes: usize,
}

/// The side of a tile.
pub const SIDE: usize = 512;

/// Pseudorandom numbers (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform within 0..1.
    pub fn unit(&mut self) -> f32 {
        (self.roll() >> 40) as f32 / (1 << 24) as f32
    }

    /// Roughly normal, with the mean 0 and the standard deviation 1: a sum of four numbers with the
    /// variance 1/12 each, times √3.
    pub fn bell(&mut self) -> f32 {
        (0..4).map(|_| self.unit() - 0.5).sum::<f32>() * 1.732
    }
}

/// A voxel of something like a micrograph: membranes around cells, texture within, and the noise of
/// a sensor.
pub fn micrograph(x: usize, y: usize, z: usize, noise: f32) -> f32 {
    let (x, y, z) = (x as f32, y as f32, z as f32 * 4.0);
    let bend = 9.0 * ((x + z) / 61.0).sin() + 7.0 * ((y - z) / 43.0).cos();
    let wall =
        (((x + bend) / 37.0).sin() * ((y - bend) / 29.0).sin() + (z / 53.0).sin() / 3.0).abs();
    let membrane = if wall < 0.08 { -55.0 } else { 0.0 };
    let texture = 10.0 * ((x / 5.1).sin() * (y / 4.3).cos() + (x / 11.0 + y / 7.0).sin());
    140.0 + membrane + texture + 9.0 * noise
}

/// The kinds of content that tiles have.
pub fn pictures() -> Vec<Picture> {
    let mut dice = Dice(7);
    let positions = || (0..SIDE * SIDE).map(|i| (i % SIDE, i / SIDE));
    let em: Vec<f32> = positions()
        .map(|(x, y)| micrograph(x, y, 3, dice.bell()))
        .collect();
    let grey = |f: &dyn Fn(f32) -> f32| em.iter().map(|v| f(*v) as u8).collect::<Vec<u8>>();
    let plain = grey(&|v| v);
    let stretched = grey(&|v| (v - 60.0) * 2.2);
    let fluorescence: Vec<u8> = positions()
        .map(|(x, y)| {
            let spot = |cx: f32, cy: f32| {
                (-((x as f32 - cx).powi(2) + (y as f32 - cy).powi(2)) / 4000.0).exp()
            };
            let light = 180.0 * (spot(120.0, 150.0) + spot(380.0, 300.0) + spot(250.0, 440.0));
            (8.0 + light + dice.bell() * (2.0 + light).sqrt()) as u8
        })
        .collect();
    let cells: Vec<u8> = positions()
        .flat_map(|(x, y)| {
            let bend = (9.0 * (x as f32 / 31.0).sin() + 7.0 * (y as f32 / 23.0).cos()) as usize;
            let id = (((x + bend) / 40) * 31 + ((y + 2 * bend) / 36) * 17) as u8;
            [
                id.wrapping_mul(37),
                id.wrapping_mul(91),
                id.wrapping_mul(151),
            ]
        })
        .collect();
    let colour = plain
        .iter()
        .zip(&fluorescence)
        .flat_map(|(a, b)| [*a, *b, a.saturating_add(*b)])
        .collect();
    let picture = |name, bytes, pixels| Picture {
        name,
        pixels,
        bytes,
    };
    vec![
        picture("em", 1, plain),
        picture("em stretched", 1, stretched),
        picture("fluorescence", 1, fluorescence),
        picture("labels", 3, cells),
        picture("colour", 3, colour),
        picture("black", 1, vec![0; SIDE * SIDE]),
    ]
}
