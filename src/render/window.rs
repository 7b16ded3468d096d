//! Windows: from stored values to 8 bits.

use crate::paint::{Finite, Window};
use crate::volume::{Samples, Voxel, with_samples};

/// Limits within which integer windows are exact in floating point; see [`whole_exact`].
const EXACT: i128 = 1 << 40;

/// The windowed values of `field`, in the same order: its own bytes where they are shown as stored, else `shades`,
/// which is filled with them. With an exponent, the curve from black to white is bent by it.
pub(super) fn apply<'a>(
    field: &'a Samples,
    window: &Window,
    gamma: Option<Finite>,
    shades: &'a mut Vec<u8>,
) -> &'a [u8] {
    if let Some(gamma) = gamma {
        shades.clear();
        with_samples!(field, voxels => bent(voxels, window.limits(), gamma.get(), shades));
        return shades;
    }
    if *window == Window::AsStored
        && let Some(bytes) = u8::slice(field)
    {
        return bytes;
    }
    shades.clear();
    with_samples!(field, voxels => paint(voxels, window, shades));
    shades
}

fn paint<T: Voxel>(voxels: &[T], window: &Window, shades: &mut Vec<u8>) {
    match *window {
        Window::AsStored => shades.extend(voxels.iter().map(|v| v.to_f64() as u8)),
        _ if size_of::<T>() == 1 && voxels.len() > 256 => by_table(voxels, window, shades),
        Window::Whole { lo, hi } if hi == lo => {
            let above = |v: &T| if T::IS_FLOAT { v.to_f64() > lo as f64 } else { v.to_whole() > lo };
            shades.extend(voxels.iter().map(|v| 255 * u8::from(above(v))));
        }
        Window::Whole { lo, hi } if !T::IS_FLOAT => whole(voxels, lo, hi, shades),
        Window::Whole { lo, hi } => real(voxels, lo as f64, hi as f64, shades),
        Window::Real { lo, hi } => real(voxels, lo, hi, shades),
    }
}

/// One byte has few values: each is windowed once.
fn by_table<T: Voxel>(voxels: &[T], window: &Window, shades: &mut Vec<u8>) {
    let values: Vec<u8> = (0..=u8::MAX).collect();
    let mut table = Vec::with_capacity(values.len());
    paint::<T>(bytemuck::cast_slice(&values), window, &mut table);
    let indices: &[u8] = bytemuck::cast_slice(voxels);
    shades.extend(indices.iter().map(|value| table[usize::from(*value)]));
}

fn whole<T: Voxel>(voxels: &[T], lo: i128, hi: i128, shades: &mut Vec<u8>) {
    if size_of::<T>() <= 4 && lo.abs() < EXACT && hi.abs() < EXACT {
        return whole_exact(voxels, lo as f64, hi as f64, shades);
    }
    // Inverted windows are mirrored, so that the division is by a positive number and rounds down.
    let (sign, range) = if hi < lo { (-1, lo - hi) } else { (1, hi - lo) };
    shades.extend(voxels.iter().map(|v| {
        let above = (v.to_whole().clamp(lo.min(hi), lo.max(hi)) - lo) * sign;
        (above.saturating_mul(510).saturating_add(range) / range.saturating_mul(2)).clamp(0, 255) as u8
    }));
}

/// floor((v − lo) · 255 / (hi − lo) + 1/2) as floor(a / b) of whole numbers, in floating point.
///
/// a and b stay below 2^53 and are exact. Where a / b is not whole it is at least 1 / b > 2^-43 from the next whole
/// number, which is further than the division rounds (2^-46 below 256): the floor is exact.
fn whole_exact<T: Voxel>(voxels: &[T], lo: f64, hi: f64, shades: &mut Vec<u8>) {
    let range = hi - lo;
    shades.extend(
        voxels.iter().map(|v| (((v.to_f64() - lo) * 510.0 + range) / (2.0 * range)).clamp(0.0, 255.0) as u8),
    );
}

/// The rule in 64-bit floating point; what is not a number becomes 0, by the cast.
fn real<T: Voxel>(voxels: &[T], lo: f64, hi: f64, shades: &mut Vec<u8>) {
    if hi == lo {
        shades.extend(voxels.iter().map(|v| 255 * u8::from(v.to_f64() > lo)));
        return;
    }
    let range = hi - lo;
    shades.extend(voxels.iter().map(|v| ((v.to_f64() - lo) * 255.0 / range + 0.5) as u8));
}

/// floor(255 · s^gamma + 0.5), s being the share of the window below the value; v ≤ lo → 0 whatever the exponent.
fn bent<T: Voxel>(voxels: &[T], (lo, hi): (f64, f64), gamma: f64, shades: &mut Vec<u8>) {
    let share =
        |v: f64| if hi == lo { f64::from(u8::from(v > lo)) } else { ((v - lo) / (hi - lo)).clamp(0.0, 1.0) };
    let shade = |v: f64| {
        let share = share(v);
        // What is not a number becomes 0, by the cast.
        if share <= 0.0 { 0 } else { (255.0 * share.powf(gamma) + 0.5) as u8 }
    };
    shades.extend(voxels.iter().map(|v| shade(v.to_f64())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windowed<T: Voxel>(voxels: &[T], window: Window) -> Vec<u8> {
        let mut shades = Vec::new();
        paint(voxels, &window, &mut shades);
        shades
    }

    /// The rule in whole numbers, as it is written down.
    fn rule(v: i128, lo: i128, hi: i128) -> u8 {
        let (a, b) = ((v - lo) * 510 + (hi - lo), 2 * (hi - lo));
        let (a, b) = if b < 0 { (-a, -b) } else { (a, b) };
        a.div_euclid(b).clamp(0, 255) as u8
    }

    #[test]
    fn whole_windows_are_exact_for_every_16_bit_value() {
        let all: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        for (lo, hi) in
            [(0, 255), (-1000, 20_000), (20_000, -20_000), (-32_768, 32_767), (3, 4), (0, 1 << 39)]
        {
            let want: Vec<u8> = all.iter().map(|v| rule(i128::from(*v), lo, hi)).collect();
            assert_eq!(windowed(&all, Window::Whole { lo, hi }), want, "[{lo}, {hi}]");
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
        let window = Window::Whole { lo: i128::from(u64::MAX) - 2, hi: i128::from(u64::MAX) };
        assert_eq!(windowed(&[u64::MAX - 2, u64::MAX - 1, u64::MAX], window), [0, 128, 255]);
        let full = Window::Whole { lo: i128::from(i64::MIN), hi: i128::from(i64::MAX) };
        assert_eq!(windowed(&[i64::MIN, 0, i64::MAX], full), [0, 128, 255]);
    }

    #[test]
    fn floats_clamp_and_what_is_no_number_is_black() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5, -1.0, 2.0];
        assert_eq!(windowed(&values, Window::Real { lo: 0.0, hi: 1.0 }), [0, 255, 0, 128, 0, 255]);
        assert_eq!(windowed(&values, Window::Real { lo: 1.0, hi: 0.0 }), [0, 0, 255, 128, 255, 0]);
    }

    #[test]
    fn an_exponent_bends_the_curve_and_leaves_its_ends() {
        let bent = |values: &[f32], window: (f64, f64), gamma: f64| {
            let mut shades = Vec::new();
            super::bent(values, window, gamma, &mut shades);
            shades
        };
        assert_eq!(bent(&[-1.0, 0.0, 0.5, 1.0, 2.0, f32::NAN], (0.0, 1.0), 2.0), [0, 0, 64, 255, 255, 0]);
        assert_eq!(bent(&[0.0, 0.25, 1.0], (0.0, 1.0), 0.5), [0, 128, 255]);
        assert_eq!(bent(&[0.0, 0.001, 1.0], (0.0, 1.0), 0.0), [0, 255, 255]);
        assert_eq!(bent(&[0.0, 0.25, 1.0], (1.0, 0.0), 1.0), [255, 191, 0]);
        assert_eq!(bent(&[4.0, 5.0, 6.0], (5.0, 5.0), 3.0), [0, 0, 255]);
    }

    #[test]
    fn an_empty_window_is_a_threshold() {
        assert_eq!(windowed(&[4u16, 5, 6], Window::Whole { lo: 5, hi: 5 }), [0, 0, 255]);
        assert_eq!(windowed(&[0.4f32, 0.5, f32::NAN], Window::Real { lo: 0.45, hi: 0.45 }), [0, 255, 0]);
    }

    #[test]
    fn bytes_go_through_a_table_and_come_out_the_same() {
        let all: Vec<i8> = (i8::MIN..=i8::MAX).cycle().take(1000).collect();
        let window = Window::Whole { lo: -100, hi: 100 };
        assert_eq!(windowed(&all, window)[..256], windowed(&all[..256], window));
    }
}
