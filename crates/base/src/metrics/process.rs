//! Metrics of the process under the names that Prometheus' client libraries use, read from `/proc`
//! for each scrape.

use std::fs;

use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Registers what the system reports; nothing where there is no `/proc`.
pub(super) fn register(registry: &mut Registry) {
    let mut register = |name, help, value: Option<u64>| {
        if let Some(value) = value {
            registry.register(name, help, ConstGauge::new(value));
        }
    };
    let open = open_descriptors();
    register("process_open_fds", "Open file descriptors", open);
    let max = max_descriptors();
    register("process_max_fds", "The limit of open file descriptors", max);
    let resident = resident_bytes();
    register("process_resident_memory_bytes", "Resident memory", resident);
}

/// The number of open descriptors, without the one that lists them.
fn open_descriptors() -> Option<u64> {
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// The soft limit, from a line such as `Max open files   1024   4096   files`.
fn max_descriptors() -> Option<u64> {
    let limits = rest_of_line("/proc/self/limits", "Max open files")?;
    match limits.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The resident memory, from a line such as `VmRSS:   1234 kB`: the system means KiB.
fn resident_bytes() -> Option<u64> {
    let resident = rest_of_line("/proc/self/status", "VmRSS:")?;
    Some(resident.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The rest of the first line of a file that begins with `beginning`.
fn rest_of_line(file: &str, beginning: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(beginning));
    rest.map(str::to_owned)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_reports_all_of_them() {
        let (open, max) = (open_descriptors().unwrap(), max_descriptors().unwrap());
        assert!((3..=max).contains(&open), "{open} of {max}");
        assert!(resident_bytes().unwrap() > 1 << 20);
    }
}
