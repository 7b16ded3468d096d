//! Rows as text. They are printed one by one, so columns have fixed widths.

use std::fmt::Write;

use bytesize::ByteSize;

use crate::tools::bench::{Machine, Percentiles, RemoteRow, Row, ServerWork, Subject};

/// The machine, so that a report can be read elsewhere.
pub(super) fn machine(machine: &Machine) -> String {
    let Machine { cores, processor, memory, load, system } = machine;
    let mut line = format!("machine    {cores} cores");
    if let Some(processor) = processor {
        let _ = write!(line, ", {processor}");
    }
    if let Some(memory) = memory {
        let _ = write!(line, ", {}", ByteSize(*memory));
    }
    let _ = write!(line, ", {system}");
    if let Some(load) = load {
        let _ = write!(line, "; load {load:.1} at the start");
    }
    format!("{line}; voltile {}\n", env!("CARGO_PKG_VERSION"))
}

/// The heading of a level's rows.
pub(super) fn heading(row: &Row, subject: Option<&Subject>) -> String {
    let mut text = format!("\n{} {}, level {}", row.token, row.channel, row.level);
    if let Some(subject) = subject {
        let [x, y, z] = subject.size;
        let _ = write!(text, ": {x} × {y} × {z} of {}", subject.dtype);
        let made = if subject.made { "computed from stored levels" } else { "stored" };
        if let Some(storage) = &subject.storage {
            let chunk =
                storage.chunk.as_ref().map_or("contiguous".to_owned(), |chunk| format!("in {chunk:?}"));
            let filters =
                if storage.filters.is_empty() { "no filters".to_owned() } else { storage.filters.join(", ") };
            let _ = write!(text, ", {made} {chunk}, {filters}");
        }
    }
    let _ = writeln!(
        text,
        "\n  {:<9} {:<7} {:>7}  {:<11} {:>6} {:>8} {:>7}   {:>7} {:>7} {:>7} {:>7}   {:>7} {:>7} {:>7} {:>7} {:>7}",
        "plane",
        "pattern",
        "threads",
        "before",
        "tiles",
        "tiles/s",
        "MB/s",
        "p50 ms",
        "p90",
        "p99",
        "max",
        "read ms",
        "inflate",
        "wait",
        "draw",
        "encode"
    );
    text
}

/// One row; time in the HDF5 library counts as inflating, planning as drawing.
pub(super) fn row(row: &Row) -> String {
    let stages = &row.stages;
    let failed = failed(row.failed as u64);
    let parts =
        [stages.read, stages.inflate + stages.library, stages.wait, stages.draw + stages.plan, stages.encode];
    format!(
        "  {:<9} {:<7} {:>7}  {:<11} {:>6} {:>8} {:>7}   {}   {}{failed}\n",
        plane(&row.plane),
        row.pattern.name(),
        row.threads,
        row.state.words(),
        row.tiles,
        short(row.tiles_per_second),
        short(row.voxel_mb_per_second),
        times(&row.latency),
        columns(&parts),
    )
}

/// The heading of the rows of a level with one number of clients.
pub(super) fn remote_heading(row: &RemoteRow) -> String {
    let clients = if row.clients == 1 { "1 client".to_owned() } else { format!("{} clients", row.clients) };
    format!(
        "\n{} {}, level {}, {clients}\n  {:<9} {:<7} {:<5} {:>8} {:>8} {:>8}   {:>7} {:>7} {:>7} {:>7}   {:>9}   {:>7} {:>8} {:>6}\n",
        row.token,
        row.channel,
        row.level,
        "plane",
        "pattern",
        "asked",
        "requests",
        "tiles/s",
        "MB/s",
        "p50 ms",
        "p90",
        "p99",
        "max",
        "client µs",
        "kept",
        "rendered",
        "waited"
    )
}

/// One row of a server.
pub(super) fn remote_row(row: &RemoteRow) -> String {
    let server = row.server.as_ref();
    let count = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
    let statuses = row.statuses.iter().filter(|(status, _)| **status != 200);
    let mut others: Vec<String> = statuses.map(|(status, count)| format!("{count} × {status}")).collect();
    if row.unanswered > 0 {
        others.push(format!("{} without a response", row.unanswered));
    }
    let others = if others.is_empty() { String::new() } else { format!("   {}", others.join(", ")) };
    format!(
        "  {:<9} {:<7} {:<5} {:>8} {:>8} {:>8}   {}   {:>9}   {:>7} {:>8} {:>6}{others}\n",
        plane(&row.plane),
        row.pattern.name(),
        row.turn.name(),
        row.requests,
        short(row.tiles_per_second),
        short(row.mb_per_second),
        times(&row.latency),
        short(row.client_micros),
        count(server.map(ServerWork::kept)),
        count(server.map(|server| server.renders)),
        count(server.map(|server| server.waits)),
    )
}

/// Abbreviates all three planes.
fn plane(planes: &str) -> &str {
    if planes == "xy+xz+yz" { "all three" } else { planes }
}

fn failed(count: u64) -> String {
    if count == 0 { String::new() } else { format!("   {count} failed") }
}

fn times(latency: &Percentiles) -> String {
    columns(&[latency.p50, latency.p90, latency.p99, latency.max])
}

fn columns(numbers: &[f64]) -> String {
    numbers.iter().map(|number| format!("{:>7}", short(*number))).collect::<Vec<_>>().join(" ")
}

/// A number with about three digits.
fn short(number: f64) -> String {
    match number {
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n if n >= 0.9995 => format!("{n:.2}"),
        n if n >= 0.0005 => format!("{n:.3}"),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_have_three_digits() {
        let told: Vec<String> =
            [0.0, 0.0004, 0.0312, 0.9999, 3.144, 99.99, 1234.5].into_iter().map(short).collect();
        assert_eq!(told, ["0", "0", "0.031", "1.00", "3.14", "100", "1234"]);
    }
}
