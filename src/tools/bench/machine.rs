//! The machine of a measurement, so that a report can be read elsewhere; and the bytes read from
//! disk.
//!
//! Read from `/proc`; what a system does not report is absent.

use std::fs::read_to_string;

use serde::Serialize;

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The number of threads that run at once.
    pub cores: usize,
    /// The processor's model name.
    pub processor: Option<String>,
    /// Its memory, in bytes.
    pub memory: Option<u64>,
    /// The load average of the last minute, including other processes.
    pub load: Option<f64>,
    /// The operating system and the architecture of the processor.
    pub system: String,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let load = read_to_string("/proc/loadavg").ok();
        Self {
            cores,
            processor: value_of("/proc/cpuinfo", "model name"),
            memory: value_of("/proc/meminfo", "MemTotal")
                .as_deref()
                .and_then(kibibytes),
            load: load.and_then(|load| load.split(' ').next()?.parse().ok()),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// The bytes that this process has read from disk so far.
pub(super) fn bytes_from_disk() -> Option<u64> {
    value_of("/proc/self/io", "read_bytes")?.parse().ok()
}

fn kibibytes(value: &str) -> Option<u64> {
    value
        .strip_suffix(" kB")?
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// The first value of a key in a file of lines `key: value`.
fn value_of(file: &str, key: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let values = text.lines().filter_map(|line| line.split_once(':'));
    values
        .into_iter()
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_core_and_says_so() {
        let machine = Machine::here();
        assert!(machine.cores > 0 && !machine.system.is_empty());
        assert!(machine.load.is_none_or(|load| load >= 0.0));
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(kibibytes("3 kB"), Some(3072));
        assert_eq!(kibibytes("3"), None);
    }
}
