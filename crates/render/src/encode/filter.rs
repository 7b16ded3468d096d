//! PNG filters: the difference between each byte and a prediction from its neighbours.
//!
//! The five predictors come from the PNG specification (third edition, section 9). One filter is
//! used for a whole tile: the sensor noise of micrographs is similar in all rows, and one choice
//! costs less than 512 choices. The filter with the lowest entropy on a few rows is chosen. All
//! loops run over slices of equal length, so that the compiler vectorises them. `pixel` always is
//! the number of bytes of a pixel.

use voltile_base::simd::multiversion;

use super::entropy::entropy;

/// A predictor; its number is the filter type byte before each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    None = 0,
    Sub = 1,
    Up = 2,
    Average = 3,
    Paeth = 4,
}

/// The number of rows of a tile that are sampled to choose its filter.
const SAMPLED_ROWS: usize = 16;

impl Filter {
    const ALL: [Filter; 5] = [
        Filter::None,
        Filter::Sub,
        Filter::Up,
        Filter::Average,
        Filter::Paeth,
    ];

    /// The filter with the lowest entropy on a sample of the rows.
    ///
    /// `pixels` are rows of `row_bytes` bytes without gaps; `filtered` is overwritten.
    pub fn choose(pixels: &[u8], row_bytes: usize, pixel: usize, filtered: &mut Vec<u8>) -> Filter {
        let spacing = (pixels.len() / row_bytes / SAMPLED_ROWS).max(1);
        let zeros = vec![0; row_bytes];
        let sample: Vec<_> = rows(pixels, &zeros)
            .skip(spacing / 2)
            .step_by(spacing)
            .collect();
        let mut best = Filter::None;
        let mut fewest_bits = f32::INFINITY;
        for filter in Self::ALL {
            filtered.clear();
            for (row, above) in &sample {
                filter.append(row, above, pixel, filtered);
            }
            let bits = entropy(filtered);
            if bits < fewest_bits {
                best = filter;
                fewest_bits = bits;
            }
        }
        best
    }

    /// Filters all rows of `row_bytes` bytes into `out`, each after its filter type byte.
    pub fn apply(self, pixels: &[u8], row_bytes: usize, pixel: usize, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(pixels.len() + pixels.len() / row_bytes);
        for (row, above) in rows(pixels, &vec![0; row_bytes]) {
            self.append(row, above, pixel, out);
        }
    }

    /// Appends the filter type byte and one filtered row; `above` is the row above it.
    fn append(self, row: &[u8], above: &[u8], pixel: usize, out: &mut Vec<u8>) {
        out.push(self as u8);
        let start = out.len();
        out.extend_from_slice(row);
        let filtered = &mut out[start..];
        match self {
            Filter::None => {}
            Filter::Sub => subtract(row, filtered.get_mut(pixel..).unwrap_or_default()),
            Filter::Up => subtract(above, filtered),
            Filter::Average => average(row, above, pixel, filtered),
            Filter::Paeth => paeth(row, above, pixel, filtered),
        }
    }
}

/// Each row with the row above it, which is `zeros` for the first. Rows are as long as `zeros`.
fn rows<'a>(pixels: &'a [u8], zeros: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let rows = pixels.chunks_exact(zeros.len());
    rows.clone().zip(std::iter::once(zeros).chain(rows))
}

/// The sum of the absolute values of the bytes, taken as signed numbers.
fn sum(filtered: &[u8]) -> u64 {
    filtered
        .iter()
        .map(|byte| u64::from(byte.cast_signed().unsigned_abs()))
        .sum()
}

/// Filters all rows into `out`, each with the filter whose differences have the smallest sum: the
/// heuristic of the specification (section 12.7), and the one from which libdeflate's matching
/// gains most.
pub(super) fn least_sum(pixels: &[u8], row_bytes: usize, pixel: usize, out: &mut Vec<u8>) {
    out.clear();
    let mut tried = Vec::with_capacity(row_bytes + 1);
    let mut best = Vec::with_capacity(row_bytes + 1);
    for (row, above) in rows(pixels, &vec![0; row_bytes]) {
        let mut least = u64::MAX;
        for filter in Filter::ALL {
            tried.clear();
            filter.append(row, above, pixel, &mut tried);
            let sum = sum(&tried[1..]);
            if sum < least {
                least = sum;
                std::mem::swap(&mut best, &mut tried);
            }
        }
        out.extend_from_slice(&best);
    }
}

multiversion! {
    fn subtract(guess: &[u8], out: &mut [u8]) {
        for (byte, guess) in out.iter_mut().zip(guess) {
            *byte = byte.wrapping_sub(*guess);
        }
    }
}

/// Half the sum of two bytes, rounded down, without a wider type, which would halve the bytes per
/// vector.
fn half_sum(a: u8, b: u8) -> u8 {
    (a & b) + ((a ^ b) >> 1)
}

/// Fills `out`, except for its first pixel, with the bytes of a row less their predictions; `guess`
/// predicts a byte from the bytes to the left, above, and above left.
#[inline(always)]
fn subtract_guesses(
    row: &[u8],
    above: &[u8],
    pixel: usize,
    out: &mut [u8],
    guess: impl Fn(u8, u8, u8) -> u8,
) {
    const BLOCK: usize = 64;
    // Rows that are too short for a block are filtered byte by byte.
    let Some(last) = row.len().checked_sub(BLOCK).filter(|last| *last >= pixel) else {
        for at in pixel..row.len() {
            out[at] = row[at].wrapping_sub(guess(row[at - pixel], above[at], above[at - pixel]));
        }
        return;
    };
    // Whole blocks only: the one that starts at `last` may overlap the one before.
    for at in (pixel..row.len()).step_by(BLOCK).map(|at| at.min(last)) {
        let before = at - pixel;
        let bytes = &row[at..at + BLOCK];
        let left = &row[before..before + BLOCK];
        let corner = &above[before..before + BLOCK];
        let up = &above[at..at + BLOCK];
        let filtered = &mut out[at..at + BLOCK];
        for i in 0..BLOCK {
            filtered[i] = bytes[i].wrapping_sub(guess(left[i], up[i], corner[i]));
        }
    }
}

multiversion! {
    /// Left of the first pixel are zeros.
    fn average(row: &[u8], above: &[u8], pixel: usize, out: &mut [u8]) {
        for (byte, above) in out.iter_mut().zip(above).take(pixel) {
            *byte = byte.wrapping_sub(above / 2);
        }
        subtract_guesses(row, above, pixel, out, |left, above, _| half_sum(left, above));
    }
}

multiversion! {
    /// Left of the first pixel are zeros, so that it is predicted from the pixel above.
    fn paeth(row: &[u8], above: &[u8], pixel: usize, out: &mut [u8]) {
        for (byte, above) in out.iter_mut().zip(above).take(pixel) {
            *byte = byte.wrapping_sub(*above);
        }
        subtract_guesses(row, above, pixel, out, predict);
    }
}

/// The Paeth predictor: whichever of left, above and corner is nearest to left + above - corner, in
/// this order.
///
/// Computed in bytes, so that vectors hold more of them. The distance of left + above - corner to
/// left is that of above to the corner; its distance to above is that of left to the corner. Its
/// distance to the corner is the sum of the two if left and above are on the same side of the
/// corner, else their difference.
fn predict(left: u8, above: u8, corner: u8) -> u8 {
    let to_left = distance(above, corner);
    let to_above = distance(left, corner);
    let is_same_side = (left >= corner) == (above >= corner);
    let to_corner = if is_same_side {
        to_left.saturating_add(to_above)
    } else {
        distance(to_left, to_above)
    };
    let above_or_corner = if to_above <= to_corner { above } else { corner };
    if (to_left <= to_above) & (to_left <= to_corner) {
        left
    } else {
        above_or_corner
    }
}

/// The distance of two bytes. (`abs_diff` compiles to 32-bit arithmetic, in which a vector holds a
/// quarter as many numbers.)
fn distance(a: u8, b: u8) -> u8 {
    a.saturating_sub(b) | b.saturating_sub(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_filter_takes_its_guess_away() {
        let (above, row) = ([10, 20, 30, 250], [11, 19, 40, 5]);
        let filtered = |filter: Filter, above: [u8; 4]| {
            let mut out = Vec::new();
            filter.append(&row, &above, 1, &mut out);
            out
        };
        let minus = |n: u8| n.wrapping_neg();
        assert_eq!(filtered(Filter::None, above), [0, 11, 19, 40, 5]);
        assert_eq!(filtered(Filter::Sub, above), [1, 11, 8, 21, minus(35)]);
        assert_eq!(filtered(Filter::Up, above), [2, 1, minus(1), 10, 11]);
        assert_eq!(
            filtered(Filter::Average, above),
            [3, 6, 4, 16, 5u8.wrapping_sub(145)]
        );
        assert_eq!(filtered(Filter::Paeth, above), [4, 1, minus(1), 10, 11]);
        assert_eq!(
            filtered(Filter::Average, [0; 4]),
            [3, 11, 14, 31, minus(15)]
        );
        assert_eq!(filtered(Filter::Paeth, [0; 4]), [4, 11, 8, 21, minus(35)]);
        assert_eq!(filtered(Filter::Up, [0; 4]), [2, 11, 19, 40, 5]);
    }

    /// As in the specification (section 9.4).
    fn predicted(left: u8, above: u8, corner: u8) -> u8 {
        let (a, b, c) = (i32::from(left), i32::from(above), i32::from(corner));
        let guess = a + b - c;
        let (to_a, to_b, to_c) = ((guess - a).abs(), (guess - b).abs(), (guess - c).abs());
        match () {
            () if to_a <= to_b && to_a <= to_c => left,
            () if to_b <= to_c => above,
            () => corner,
        }
    }

    #[test]
    fn paeths_predictor_is_that_of_the_specification() {
        for (left, above) in (0..=255).flat_map(|left| (0..=255).map(move |above| (left, above))) {
            for corner in (0..=255).step_by(3) {
                assert_eq!(
                    predict(left, above, corner),
                    predicted(left, above, corner),
                    "{left} {above} {corner}"
                );
            }
        }
    }

    proptest! {
        /// Rows longer and shorter than a block.
        #[test]
        fn rows_of_any_length_are_filtered_as_the_specification_says(
            bytes in prop::collection::vec(any::<u8>(), 2..1200),
            pixel in prop_oneof![Just(1usize), Just(3)],
        ) {
            let (above, row) = bytes.split_at(bytes.len() / 2);
            let row = &row[..above.len()];
            let before = |line: &[u8], at: usize| if at < pixel { 0 } else { line[at - pixel] };
            for filter in Filter::ALL {
                let mut filtered = Vec::new();
                filter.append(row, above, pixel, &mut filtered);
                prop_assert_eq!(filtered[0], filter as u8);
                for (at, byte) in filtered[1..].iter().enumerate() {
                    let (left, up, corner) = (before(row, at), above[at], before(above, at));
                    let guess = match filter {
                        Filter::None => 0,
                        Filter::Sub => left,
                        Filter::Up => up,
                        Filter::Average => u16::midpoint(left.into(), up.into()) as u8,
                        Filter::Paeth => predicted(left, up, corner),
                    };
                    prop_assert_eq!(byte.wrapping_add(guess), row[at], "{:?} {}", filter, at);
                }
            }
        }
    }

    #[test]
    fn half_sums_round_down() {
        for (a, b) in [(0, 0), (1, 2), (255, 255), (254, 255), (3, 0)] {
            assert_eq!(half_sum(a, b), u16::midpoint(a.into(), b.into()) as u8);
        }
    }

    #[test]
    fn the_choice_follows_the_picture() {
        let rows = |f: fn(usize, usize) -> u8| {
            (0..64 * 64).map(|i| f(i % 64, i / 64)).collect::<Vec<u8>>()
        };
        let choose = |pixels: &[u8]| Filter::choose(pixels, 64, 1, &mut Vec::new());
        assert_eq!(choose(&rows(|_, _| 0)), Filter::None);
        assert_eq!(choose(&rows(|x, _| (x * x) as u8)), Filter::Up);
        assert_eq!(choose(&rows(|_, y| (y * y) as u8)), Filter::Sub);
    }
}
