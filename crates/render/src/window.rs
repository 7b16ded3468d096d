//! Windows: map stored values to 8 bits.
//!
//! Each window has a rule for one voxel that is exact and slow. Shades are first estimated in
//! 32-bit floating point, which vectorises; the rule decides only if the estimate could round to
//! either of two shades. With a gamma, 8- and 16-bit voxels are looked up in a table, for which the
//! curve is evaluated only as often as needed to find its 255 steps.

use bytemuck::Pod;
use voltile_base::paint::Window;
use voltile_base::simd::multiversion;
use voltile_hdf5::volume::{Samples, Voxel, with_samples};

use crate::plan::Shading;

/// Integer windows with limits below this are exact in floating point; see [`whole_exact`].
const EXACT: i128 = 1 << 40;

/// Windows `field` into `shades`, which is overwritten, and returns it; if voxels are shown as
/// stored, returns the bytes of `field` instead. Where `opacity` is 0, data is missing: it is
/// black, whatever the window.
pub(super) fn apply<'a>(
    field: &'a Samples,
    shading: &Shading,
    opacity: &[u8],
    shades: &'a mut Vec<u8>,
) -> &'a [u8] {
    let Shading { window, gamma } = shading;
    if gamma.is_none()
        && *window == Window::AsStored
        && opacity.is_empty()
        && let Some(bytes) = u8::slice(field)
    {
        return bytes;
    }
    // All old values are overwritten below.
    shades.resize(field.len(), 0);
    with_samples!(field, voxels => match gamma {
        Some(gamma) => with_gamma(voxels, window.limits(), gamma.get(), shades),
        None => paint(voxels, window, shades),
    });
    shades
        .iter_mut()
        .zip(opacity)
        .for_each(|(shade, opacity)| *shade &= opacity);
    shades
}

/// Windows voxels without a gamma. An empty window is a threshold.
fn paint<T: Voxel>(voxels: &[T], window: &Window, shades: &mut [u8]) {
    match *window {
        Window::AsStored => shade_each(voxels, shades, |v| v.to_f64() as u8),
        Window::Whole { lo, hi } if hi == lo => shade_each(voxels, shades, |v| {
            255 * u8::from(if T::IS_FLOAT {
                v.to_f64() > lo as f64
            } else {
                v.to_whole() > lo
            })
        }),
        Window::Whole { lo, hi } if !T::IS_FLOAT => paint_integers(voxels, lo, hi, shades),
        Window::Whole { lo, hi } => paint_reals(voxels, lo as f64, hi as f64, shades),
        Window::Real { lo, hi } => paint_reals(voxels, lo, hi, shades),
    }
}

/// Shades each voxel by the rule.
fn shade_each<T: Voxel>(voxels: &[T], shades: &mut [u8], rule: impl Fn(T) -> u8) {
    voxels
        .iter()
        .zip(shades)
        .for_each(|(voxel, shade)| *shade = rule(*voxel));
}

/// Windows integers: 255 times the position in the window, rounded half up. In the window from 0 to
/// 100, 50 is 128.
fn paint_integers<T: Voxel>(voxels: &[T], lo: i128, hi: i128, shades: &mut [u8]) {
    // Shades change at multiples of 1/510, some of which are whole numbers: at such a voxel the
    // estimate would be undecided. With a shift by half of 1/510 they change only between voxels.
    let least = lo as f64;
    let greatest = hi as f64;
    let estimate = Estimate::new(
        least - (greatest - least).signum() / 1020.0,
        greatest - least,
    );
    if size_of::<T>() <= 4 && lo.abs() < EXACT && hi.abs() < EXACT {
        return shade_estimated(voxels, estimate, shades, |v| {
            whole_exact(v.to_f64(), least, greatest)
        });
    }
    // Inverted windows are mirrored, so that the division is by a positive number and rounds down.
    let (sign, range) = if hi < lo { (-1, lo - hi) } else { (1, hi - lo) };
    shade_estimated(voxels, estimate, shades, |v| {
        let above = (v.to_whole().clamp(lo.min(hi), lo.max(hi)) - lo) * sign;
        // 255 · above / range + 1/2, rounded down.
        let shade = above.saturating_mul(510).saturating_add(range) / range.saturating_mul(2);
        shade.clamp(0, 255) as u8
    });
}

/// floor((v − lo) · 255 / (hi − lo) + 1/2), computed in floating point as floor(a / b) of integers.
///
/// a and b stay below 2^53 and are exact. If a / b is not an integer, it is at least 1 / b > 2^-43
/// away from the next one, which is more than the rounding error of the division (2^-46 below 256):
/// the floor is exact.
fn whole_exact(v: f64, lo: f64, hi: f64) -> u8 {
    let range = hi - lo;
    (((v - lo) * 510.0 + range) / (2.0 * range)).clamp(0.0, 255.0) as u8
}

/// Windows voxels in 64-bit floating point; the cast to `u8` turns NaN into 0.
fn paint_reals<T: Voxel>(voxels: &[T], lo: f64, hi: f64, shades: &mut [u8]) {
    if hi == lo {
        return shade_each(voxels, shades, |v| 255 * u8::from(v.to_f64() > lo));
    }
    let estimate = Estimate::new(lo, hi - lo);
    let scale = finite_scale(lo, hi);
    let black = lo * scale;
    let range = hi * scale - black;
    shade_estimated(voxels, estimate, shades, |v| {
        ((v.to_f64() * scale - black) * 255.0 / range + 0.5) as u8
    });
}

/// A factor for voxels and limits that keeps 255 times the width of the window finite. It is a
/// power of two and thus changes no shade.
fn finite_scale(lo: f64, hi: f64) -> f64 {
    if ((hi - lo) * 255.0).is_finite() {
        1.0
    } else {
        1.0 / 1024.0
    }
}

/// A window in 32-bit floating point, and the maximum error (`slack`) of estimates, in shades.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    lo: f32,
    scale: f32,
    slack: f32,
}

impl Estimate {
    /// `None` if the error would be too large for the estimate to be useful.
    fn new(lo: f64, range: f64) -> Option<Self> {
        // Each step has a relative error of up to 2^-24: the voxel and lo (2 |lo| + |range|
        // together), their difference (|range|), the scale, the product and what is added to it
        // (256 shades each). That comes to less than 2^-16 · (5.1 + 2 |lo / range|) shades inside
        // the window; outside, every step is monotone in the voxel.
        let slack = (8.0 + 2.0 * (lo / range).abs()) / 65536.0;
        // Values that become infinite must lie outside the window.
        let fits = lo.abs().max((lo + range).abs()) < f64::from(f32::MAX) / 2.0;
        let lo = lo as f32;
        let scale = (255.0 / range) as f32;
        (slack < 0.125 && fits && scale.is_normal()).then_some(Self {
            lo,
            scale,
            slack: slack as f32,
        })
    }
}

/// Shades every voxel as `exact` would: by the estimate if it rounds to the same shade with the
/// slack subtracted and added, else by `exact`.
fn shade_estimated<T: Voxel>(
    voxels: &[T],
    estimate: Option<Estimate>,
    shades: &mut [u8],
    exact: impl Fn(T) -> u8,
) {
    let Some(estimate) = estimate else {
        return shade_each(voxels, shades, exact);
    };
    let (groups, rest) = voxels.as_chunks();
    let (group_shades, rest_shades) = shades.as_chunks_mut();
    shade_groups(groups, estimate, group_shades, &exact);
    shade_each(rest, rest_shades, exact);
}

/// The number of voxels whose estimates are checked together.
const GROUP: usize = 32;

multiversion! {
    [T: Voxel] [T]
    fn shade_groups(
        groups: &[[T; GROUP]],
        estimate: Estimate,
        group_shades: &mut [[u8; GROUP]],
        exact: &impl Fn(T) -> u8,
    ) {
        /// Added to a number below 2^22, leaves it rounded in the lowest bits: cheaper than a
        /// conversion.
        const ROUNDING: f32 = (1 << 23) as f32;
        let Estimate { lo, scale, slack } = estimate;
        for (voxels, shades) in groups.iter().zip(group_shades) {
            // Not 0 if a shade differs at the two ends of the slack.
            let mut undecided = 0;
            for (voxel, shade) in voxels.iter().zip(shades.iter_mut()) {
                let estimate = (voxel.to_f64() as f32 - lo) * scale;
                // Written so that NaN becomes 0.
                let estimate = if estimate > 0.0 { estimate } else { 0.0 };
                let estimate = if estimate < 255.0 { estimate } else { 255.0 };
                let least = (estimate - slack + ROUNDING).to_bits();
                undecided |= least ^ (estimate + slack + ROUNDING).to_bits();
                *shade = least as u8;
            }
            if undecided != 0 {
                shade_each(voxels, shades, exact);
            }
        }
    }
}

/// floor(255 · share^gamma + 0.5), where `share` is the value's position in the window (0 to 1).
/// Values up to `lo` are 0 for any gamma.
fn with_gamma<T: Voxel>(voxels: &[T], (lo, hi): (f64, f64), gamma: f64, shades: &mut [u8]) {
    let scale = finite_scale(lo, hi);
    let black = lo * scale;
    let range = hi * scale - black;
    let shade = |v: T| {
        let v = v.to_f64();
        let share = if hi == lo {
            f64::from(u8::from(v > lo))
        } else {
            ((v * scale - black) / range).clamp(0.0, 1.0)
        };
        // The cast turns NaN into 0.
        if share <= 0.0 {
            0
        } else {
            (255.0 * share.powf(gamma) + 0.5) as u8
        }
    };
    match size_of::<T>() {
        1 => shade_by_table::<T, u8, 256>(voxels, 0..=u8::MAX, shade, shades),
        2 => shade_by_table::<T, u16, 65536>(voxels, 0..=u16::MAX, shade, shades),
        _ => shade_each(voxels, shades, shade),
    }
}

/// Shades voxels of an 8- or 16-bit type by table lookup. `patterns` are all values of the unsigned
/// integer of this size, in order: read as `T`, their bits are all of its values.
fn shade_by_table<T: Voxel, I: Pod + Into<usize>, const VALUES: usize>(
    voxels: &[T],
    patterns: impl Iterator<Item = I>,
    shade: impl Fn(T) -> u8,
    shades: &mut [u8],
) {
    let patterns: Vec<I> = patterns.collect();
    let values: &[T] = bytemuck::cast_slice(&patterns);
    let mut table = vec![0; values.len()];
    // Negative values come after positive ones; the curve is monotone within either half.
    let half = values.len() / 2;
    for (half_values, half_table) in values.chunks(half).zip(table.chunks_mut(half)) {
        half_table[0] = shade(half_values[0]);
        half_table[half - 1] = shade(half_values[half - 1]);
        fill_between(half_values, &shade, half_table);
    }
    let Some(table) = table.first_chunk::<VALUES>() else {
        return;
    };
    let indices: &[I] = bytemuck::cast_slice(voxels);
    indices
        .iter()
        .zip(shades)
        .for_each(|(index, shade)| *shade = table[(*index).into()]);
}

/// Fills in the shades between the first and the last, which are set, of a monotone curve: if both
/// are equal, so are all in between.
///
/// Finding the 255 steps takes some thousand evaluations; evaluating all 65,536 values would take a
/// millisecond per curve. Neighbouring values lie further apart than the rounding error of a power,
/// so computed curves are monotone too.
fn fill_between<T: Copy>(values: &[T], shade: &impl Fn(T) -> u8, shades: &mut [u8]) {
    let (Some(first), Some(last)) = (shades.first().copied(), shades.last()) else {
        return;
    };
    if first == *last {
        shades.fill(first);
    } else if shades.len() > 2 {
        let middle = shades.len() / 2;
        shades[middle] = shade(values[middle]);
        fill_between(&values[..=middle], shade, &mut shades[..=middle]);
        fill_between(&values[middle..], shade, &mut shades[middle..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windowed<T: Voxel>(voxels: &[T], window: Window) -> Vec<u8> {
        let mut shades = vec![77; voxels.len()];
        paint(voxels, &window, &mut shades);
        shades
    }

    /// The rule in integers, as specified.
    fn rule(v: i128, lo: i128, hi: i128) -> u8 {
        let (a, b) = ((v - lo) * 510 + (hi - lo), 2 * (hi - lo));
        let (a, b) = if b < 0 { (-a, -b) } else { (a, b) };
        a.div_euclid(b).clamp(0, 255) as u8
    }

    #[test]
    fn whole_windows_are_exact_for_every_16_bit_value() {
        let all: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        for (lo, hi) in [
            (0, 255),
            (-1000, 20_000),
            (20_000, -20_000),
            (-32_768, 32_767),
            (3, 4),
            (0, 1 << 39),
        ] {
            let want: Vec<u8> = all.iter().map(|v| rule(i128::from(*v), lo, hi)).collect();
            assert_eq!(
                windowed(&all, Window::Whole { lo, hi }),
                want,
                "[{lo}, {hi}]"
            );
        }
    }

    #[test]
    fn both_ways_of_whole_windows_agree() {
        let values: Vec<u32> = (0..5000).map(|i| i * 858_993).collect();
        let wide: Vec<u64> = values.iter().map(|v| u64::from(*v)).collect();
        for (lo, hi) in [(0, i128::from(u32::MAX)), (4_000_000_000, 17)] {
            let window = Window::Whole { lo, hi };
            assert_eq!(windowed(&values, window), windowed(&wide, window));
        }
    }

    #[test]
    fn sixty_four_bit_ids_do_not_pass_through_floats() {
        let window = Window::Whole {
            lo: i128::from(u64::MAX) - 2,
            hi: i128::from(u64::MAX),
        };
        assert_eq!(
            windowed(&[u64::MAX - 2, u64::MAX - 1, u64::MAX], window),
            [0, 128, 255]
        );
        let full = Window::Whole {
            lo: i128::from(i64::MIN),
            hi: i128::from(i64::MAX),
        };
        assert_eq!(windowed(&[i64::MIN, 0, i64::MAX], full), [0, 128, 255]);
    }

    #[test]
    fn floats_clamp_and_what_is_no_number_is_black() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5, -1.0, 2.0];
        assert_eq!(
            windowed(&values, Window::Real { lo: 0.0, hi: 1.0 }),
            [0, 255, 0, 128, 0, 255]
        );
        assert_eq!(
            windowed(&values, Window::Real { lo: 1.0, hi: 0.0 }),
            [0, 0, 255, 128, 255, 0]
        );
    }

    #[test]
    fn an_exponent_bends_the_curve_and_leaves_its_ends() {
        let with_gamma = |values: &[f32], window: (f64, f64), gamma: f64| {
            let mut shades = vec![77; values.len()];
            super::with_gamma(values, window, gamma, &mut shades);
            shades
        };
        assert_eq!(
            with_gamma(&[-1.0, 0.0, 0.5, 1.0, 2.0, f32::NAN], (0.0, 1.0), 2.0),
            [0, 0, 64, 255, 255, 0]
        );
        assert_eq!(
            with_gamma(&[0.0, 0.25, 1.0], (0.0, 1.0), 0.5),
            [0, 128, 255]
        );
        assert_eq!(
            with_gamma(&[0.0, 0.001, 1.0], (0.0, 1.0), 0.0),
            [0, 255, 255]
        );
        assert_eq!(
            with_gamma(&[0.0, 0.25, 1.0], (1.0, 0.0), 1.0),
            [255, 191, 0]
        );
        assert_eq!(with_gamma(&[4.0, 5.0, 6.0], (5.0, 5.0), 3.0), [0, 0, 255]);
    }

    #[test]
    fn an_empty_window_is_a_threshold() {
        assert_eq!(
            windowed(&[4u16, 5, 6], Window::Whole { lo: 5, hi: 5 }),
            [0, 0, 255]
        );
        assert_eq!(
            windowed(
                &[0.4f32, 0.5, f32::NAN],
                Window::Real { lo: 0.45, hi: 0.45 }
            ),
            [0, 255, 0]
        );
    }

    #[test]
    fn windows_whose_width_is_infinite_are_those_of_the_rule() {
        let voxels = [
            f64::NEG_INFINITY,
            f64::MIN,
            f64::MIN / 2.0,
            0.0,
            f64::MAX / 2.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        let widest = Window::Real {
            lo: f64::MIN,
            hi: f64::MAX,
        };
        assert_eq!(windowed(&voxels, widest), [0, 0, 64, 128, 191, 255, 255, 0]);
        let inverted = Window::Real {
            lo: f64::MAX,
            hi: f64::MIN,
        };
        assert_eq!(
            windowed(&voxels, inverted),
            [255, 255, 191, 128, 64, 0, 0, 0]
        );
        // This width is finite, and 255 times it is not.
        let wide = Window::Real {
            lo: 0.0,
            hi: f64::MAX,
        };
        assert_eq!(windowed(&voxels, wide), [0, 0, 0, 0, 128, 255, 255, 0]);
        let mut shades = vec![77; voxels.len()];
        with_gamma(&voxels, (f64::MIN, f64::MAX), 2.0, &mut shades);
        assert_eq!(shades, [0, 0, 16, 64, 143, 255, 255, 0]);
        let whole = Window::Whole {
            lo: i128::MIN / 1024,
            hi: i128::MAX / 1024,
        };
        assert_eq!(
            windowed(&[f32::NEG_INFINITY, 0.0, f32::INFINITY], whole),
            [0, 128, 255]
        );
    }

    fn all_16_bits<T: Voxel>() -> Vec<T> {
        bytemuck::cast_slice(&(0..=u16::MAX).collect::<Vec<_>>()).to_vec()
    }

    fn is_exact<T: Voxel>(voxels: &[T], lo: i128, hi: i128) {
        let want: Vec<u8> = voxels.iter().map(|v| rule(v.to_whole(), lo, hi)).collect();
        assert!(
            windowed(voxels, Window::Whole { lo, hi }) == want,
            "[{lo}, {hi}]"
        );
    }

    #[test]
    fn every_window_of_bytes_is_exact_for_every_byte() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let signed: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        for (lo, hi) in (-3..260)
            .flat_map(|lo| (-3..260).map(move |hi| (lo, hi)))
            .filter(|(lo, hi)| lo != hi)
        {
            is_exact(&all, lo, hi);
            is_exact(&signed, lo - 128, hi - 128);
        }
    }

    /// The rule in 64-bit floating point, as specified.
    fn real_rule(v: f64, lo: f64, hi: f64) -> u8 {
        let scale = if (hi - lo).abs() > 1e300 {
            2f64.powi(-12)
        } else {
            1.0
        };
        ((v * scale - lo * scale) * 255.0 / (hi * scale - lo * scale) + 0.5) as u8
    }

    #[test]
    fn voxels_on_the_border_of_two_shades_get_that_of_the_rule() {
        for (lo, hi) in [
            (0.0, 1.0),
            (0.1, 0.9),
            (-3.0, 507.0),
            (1000.0, -20.0),
            (1e6, 1e6 + 3.0),
            (0.0, 1e-30),
        ] {
            let borders = (0..=256).map(|k| lo + (f64::from(k) - 0.5) * (hi - lo) / 255.0);
            let near = borders.flat_map(|v| {
                [-2, -1, 0, 1, 2]
                    .map(|step| f32::from_bits((v as f32).to_bits().wrapping_add_signed(step)))
            });
            let voxels: Vec<f32> = near.collect();
            let want: Vec<u8> = voxels
                .iter()
                .map(|v| real_rule(f64::from(*v), lo, hi))
                .collect();
            assert_eq!(
                windowed(&voxels, Window::Real { lo, hi }),
                want,
                "[{lo}, {hi}]"
            );
        }
    }

    #[test]
    fn absurd_windows_are_not_estimated() {
        assert!(Estimate::new(0.1, 0.8).is_some() && Estimate::new(300.0, -3600.0).is_some());
        for (lo, range) in [
            (1e9, 1.0),
            (0.0, f64::INFINITY),
            (0.0, 1e-40),
            (0.0, 1e200),
            (f64::NAN, 1.0),
            (0.0, f64::MAX),
        ] {
            assert_eq!(Estimate::new(lo, range), None, "{lo} {range}");
        }
    }

    #[test]
    fn windows_near_the_end_of_32_bit_floats_are_those_of_the_rule() {
        let ends: [f64; 8] = [
            -6.3e37, 1.33e40, 3.3e38, 3.5e38, -3.3e38, -1.7e38, 1.6e38, 0.0,
        ];
        let wide: Vec<f64> = (-64..64)
            .map(|step| f64::from(step) * 6e36)
            .chain(ends)
            .collect();
        let narrow: Vec<f32> = wide.iter().map(|v| *v as f32).collect();
        for (lo, hi) in ends
            .iter()
            .flat_map(|lo| ends.map(|hi| (*lo, hi)))
            .filter(|(lo, hi)| lo != hi)
        {
            let want = |v: f64| real_rule(v, lo, hi);
            let window = Window::Real { lo, hi };
            assert_eq!(
                windowed(&wide, window),
                wide.iter().map(|v| want(*v)).collect::<Vec<_>>(),
                "[{lo}, {hi}]"
            );
            let rule: Vec<u8> = narrow.iter().map(|v| want(f64::from(*v))).collect();
            assert_eq!(windowed(&narrow, window), rule, "[{lo}, {hi}]");
        }
    }

    #[test]
    fn curves_that_are_looked_up_are_those_of_the_rule_for_every_value() {
        fn both<T: Voxel>(values: &[T], limits: (f64, f64), gamma: f64) {
            let wide: Vec<f64> = values.iter().map(|v| v.to_f64()).collect();
            let (mut shades, mut want) = (vec![77; values.len()], vec![77; values.len()]);
            with_gamma(values, limits, gamma, &mut shades);
            with_gamma(&wide, limits, gamma, &mut want);
            assert!(shades == want, "{limits:?} {gamma}");
        }
        for gamma in [0.0, 1e-9, 0.1, 0.45, 1.0, 2.2, 7.3, 300.0] {
            for limits in [
                (0.0, 65535.0),
                (300.0, 3900.0),
                (40_000.5, -7000.0),
                (12.0, 12.0),
                (0.0, 1e9),
            ] {
                both(&all_16_bits::<u16>(), limits, gamma);
                both(&all_16_bits::<i16>(), limits, gamma);
                both(&(i8::MIN..=i8::MAX).collect::<Vec<_>>(), limits, gamma);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_whole_window_is_exact_for_every_16_bit_value(lo in -70_000..70_000i128, hi in -70_000..70_000i128) {
            prop_assume!(lo != hi);
            is_exact(&all_16_bits::<u16>(), lo, hi);
            is_exact(&all_16_bits::<i16>(), lo, hi);
        }

        #[test]
        fn any_window_of_wide_voxels_is_exact(
            lo in any::<i64>(), hi in any::<i64>(), shift in 0..60u32, voxels in prop::collection::vec(any::<i64>(), 0..200),
        ) {
            let (lo, hi) = (i128::from(lo >> shift), i128::from(hi >> shift));
            prop_assume!(lo != hi);
            let voxels: Vec<i64> = voxels.iter().map(|v| v >> shift).collect();
            is_exact(&voxels, lo, hi);
            is_exact(&voxels.iter().map(|v| *v as i32).collect::<Vec<_>>(), lo, hi);
        }

        #[test]
        fn any_window_of_floats_is_that_of_the_rule(
            lo in any::<f32>(), width in -300.0..300.0f64, wide in any::<f64>(), shares in prop::collection::vec(-0.2..1.2f64, 1..200),
        ) {
            let lo = f64::from(lo);
            let others = [lo + width, lo + lo * width, lo + wide, lo + 1.0 / wide];
            for hi in others.into_iter().filter(|hi| *hi != lo && hi.is_finite()) {
                let inside = shares.iter().map(|share| (lo + share * (hi - lo)) as f32);
                let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, -0.0];
                let voxels: Vec<f32> = inside.chain(odd).collect();
                let want: Vec<u8> = voxels.iter().map(|v| real_rule(f64::from(*v), lo, hi)).collect();
                prop_assert_eq!(windowed(&voxels, Window::Real { lo, hi }), want, "[{}, {}]", lo, hi);
            }
        }
    }
}
