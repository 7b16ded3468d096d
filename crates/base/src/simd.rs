//! The vector instructions that the inner loops use: all that the processor has, or fewer if
//! `VOLTILE_SIMD` says so.
//!
//! [`multiversion`] compiles a function once for each [`Path`]. All calls take the same path,
//! decided at the first one. The variable exists for tests and for comparing speeds: pixels are the
//! same on each path. It does not change what libraries (libdeflate, blake3, zstd, jpeg-encoder)
//! detect for themselves.

use std::sync::OnceLock;

/// The variable that limits the instructions.
const VARIABLE: &str = "VOLTILE_SIMD";

/// A set of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// The instructions that every processor of the architecture has.
    Baseline,
    /// AVX2 and BMI2.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Path {
    const ALL: [Path; 3] = [Path::Baseline, Path::Avx2, Path::Avx512];

    /// The name, which is a value of the variable.
    pub fn name(self) -> &'static str {
        match self {
            Path::Baseline => "baseline",
            Path::Avx2 => "avx2",
            Path::Avx512 => "avx512",
        }
    }

    /// The best path of this processor.
    #[cfg(target_arch = "x86_64")]
    fn best() -> Self {
        use std::arch::is_x86_feature_detected as has;
        let has_avx2 = has!("avx2") && has!("bmi2");
        if has_avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            Path::Avx512
        } else if has_avx2 {
            Path::Avx2
        } else {
            Path::Baseline
        }
    }

    /// Other architectures have only the baseline.
    #[cfg(not(target_arch = "x86_64"))]
    fn best() -> Self {
        Path::Baseline
    }

    /// Parses a value of the variable; empty text counts as an unset variable.
    fn parse(text: &str, best: Path) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(best);
        }
        let asked = Self::ALL.into_iter().find(|path| path.name() == text);
        let asked = asked.ok_or_else(|| {
            format!(
                "{VARIABLE}={text:?} is not a set of instructions: baseline, avx2 or avx512 is expected; without the \
                 variable the best that the processor has is used"
            )
        })?;
        if asked > best {
            let best = best.name();
            return Err(format!(
                "{VARIABLE}={text} cannot be used: this processor has only {best}; unset the variable, or set it to that"
            ));
        }
        Ok(asked)
    }
}

/// The path that the environment asks for.
///
/// # Errors
/// `VOLTILE_SIMD` does not name a path, or names one that the processor does not have.
pub fn requested() -> Result<Path, String> {
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    Path::parse(&text.to_string_lossy(), Path::best())
}

/// The path in force. If the environment asks for a path that cannot be used, that is ignored here:
/// the command line has reported it.
#[inline]
pub fn path() -> Path {
    static PATH: OnceLock<Path> = OnceLock::new();
    *PATH.get_or_init(|| requested().unwrap_or_else(|_| Path::best()))
}

/// Compiles a function for each [`Path`], and calls the one in force. Generic parameters are
/// written before `fn`, once with their bounds and once without:
/// `[T: Voxel] [T] fn sum(values: &[T]) -> u64 { … }`.
#[macro_export]
macro_rules! multiversion {
    ($(#[$attribute:meta])* fn $($rest:tt)*) => {
        $crate::simd::multiversion! { $(#[$attribute])* [] [] fn $($rest)* }
    };
    (
        $(#[$attribute:meta])* [$($bounds:tt)*] [$($generic:ident),*]
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $(#[$attribute])*
        fn $name<$($bounds)*>($($argument: $kind),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512<$($bounds)*>($($argument: $kind),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi2")]
            fn avx2<$($bounds)*>($($argument: $kind),*) $(-> $result)? $body

            #[inline(always)]
            fn baseline<$($bounds)*>($($argument: $kind),*) $(-> $result)? $body

            match $crate::simd::path() {
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code, reason = "instructions that not every processor has")]
                // SAFETY: a path is in force only if the processor has its instructions.
                $crate::simd::Path::Avx512 => unsafe { avx512::<$($generic),*>($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code, reason = "instructions that not every processor has")]
                // SAFETY: a path is in force only if the processor has its instructions.
                $crate::simd::Path::Avx2 => unsafe { avx2::<$($generic),*>($($argument),*) },
                _ => baseline::<$($generic),*>($($argument),*),
            }
        }
    };
}
pub use multiversion;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_and_must_be_one_that_the_processor_has() {
        for path in Path::ALL {
            assert_eq!(Path::parse(path.name(), Path::Avx512), Ok(path));
        }
        assert_eq!(Path::parse("", Path::Avx2), Ok(Path::Avx2));
        let unknown = Path::parse("sse9", Path::Avx512).unwrap_err();
        assert!(
            unknown.contains("VOLTILE_SIMD=\"sse9\"")
                && unknown.contains("baseline, avx2 or avx512"),
            "{unknown}"
        );
        let unsupported = Path::parse("avx512", Path::Avx2).unwrap_err();
        assert!(
            unsupported.contains("VOLTILE_SIMD=avx512") && unsupported.contains("only avx2"),
            "{unsupported}"
        );
    }
}
