//! The work of the commands other than `serve`: warming caches, making pyramids, measuring.

pub mod bench;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../fuzz/checks/run.rs"]
pub mod fuzzing;
pub(crate) mod progress;
pub(crate) mod pyramid;
pub(crate) mod warm;
