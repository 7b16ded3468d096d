//! Rows and verdicts as text. Rows are printed one by one, so columns have fixed widths.

use std::fmt::Write;

use bytesize::ByteSize;

use crate::tools::bench::{
    Course, Machine, RemoteRow, Row, Scaling, ServerWork, State, Subject, Verdict,
};

/// The machine, so that a report can be read elsewhere.
pub(super) fn machine(machine: &Machine) -> String {
    let Machine {
        cores,
        processor,
        memory,
        load,
        system,
    } = machine;
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
    let Course {
        token,
        channel,
        level,
        ..
    } = &row.course;
    let mut text = format!("\n{token} {channel}, level {level}");
    if let Some(subject) = subject {
        let [x, y, z] = subject.size;
        let _ = write!(text, ": {x} × {y} × {z} of {}", subject.dtype);
        let kind = if subject.derived {
            "computed from stored levels"
        } else {
            "stored"
        };
        if let Some(storage) = &subject.storage {
            let chunk = storage
                .chunk
                .as_ref()
                .map_or("contiguous".to_owned(), |chunk| format!("in {chunk:?}"));
            let filters = if storage.filters.is_empty() {
                "no filters".to_owned()
            } else {
                storage.filters.join(", ")
            };
            let _ = write!(text, ", {kind} {chunk}, {filters}");
        }
    }
    format!(
        "{text}\n{}",
        line(&ROW, |(_, title, ..)| (*title).to_owned(), "")
    )
}

/// One row.
pub(super) fn row(row: &Row) -> String {
    let failed = if row.failed == 0 {
        String::new()
    } else {
        format!("   {} failed", row.failed)
    };
    line(&ROW, |(.., text)| text(row), &failed)
}

/// The heading of the rows of a level with one number of clients.
pub(super) fn remote_heading(row: &RemoteRow) -> String {
    let Course {
        token,
        channel,
        level,
        ..
    } = &row.course;
    let clients = if row.clients == 1 {
        "1 client".to_owned()
    } else {
        format!("{} clients", row.clients)
    };
    let titles = line(&REMOTE_ROW, |(_, title, ..)| (*title).to_owned(), "");
    format!("\n{token} {channel}, level {level}, {clients}\n{titles}")
}

/// One row of a server.
pub(super) fn remote_row(row: &RemoteRow) -> String {
    let statuses = row.statuses.iter().filter(|(status, _)| **status != 200);
    let mut others: Vec<String> = statuses
        .map(|(status, count)| format!("{count} × {status}"))
        .collect();
    if row.unanswered > 0 {
        others.push(format!("{} without a response", row.unanswered));
    }
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("   {}", others.join(", "))
    };
    line(&REMOTE_ROW, |(.., text)| text(row), &others)
}

/// A column: the space before it, its title, its width, negative if it is aligned to the left, and
/// what it shows of a row.
type Column<R> = (&'static str, &'static str, isize, fn(&R) -> String);

/// Time in the HDF5 library counts as inflating, planning as drawing.
const ROW: [Column<Row>; 16] = [
    ("  ", "plane", -9, |row| plane(&row.course)),
    (" ", "pattern", -7, |row| {
        row.course.pattern.name().to_owned()
    }),
    (" ", "threads", 7, |row| row.threads.to_string()),
    ("  ", "before", -11, |row| row.state.words().to_owned()),
    (" ", "tiles", 6, |row| row.tiles.to_string()),
    (" ", "tiles/s", 8, |row| short(row.tiles_per_second)),
    (" ", "MB/s", 7, |row| short(row.voxel_mb_per_second)),
    ("   ", "p50 ms", 7, |row| short(row.latency.p50)),
    (" ", "p90", 7, |row| short(row.latency.p90)),
    (" ", "p99", 7, |row| short(row.latency.p99)),
    (" ", "max", 7, |row| short(row.latency.max)),
    ("   ", "read ms", 7, |row| short(row.stages.reading.read)),
    (" ", "inflate", 7, |row| {
        short(row.stages.reading.inflate + row.stages.reading.library)
    }),
    (" ", "wait", 7, |row| short(row.stages.reading.wait)),
    (" ", "draw", 7, |row| {
        short(row.stages.draw + row.stages.plan)
    }),
    (" ", "encode", 7, |row| short(row.stages.encode)),
];

const REMOTE_ROW: [Column<RemoteRow>; 14] = [
    ("  ", "plane", -9, |row| plane(&row.course)),
    (" ", "pattern", -7, |row| {
        row.course.pattern.name().to_owned()
    }),
    (" ", "request", -7, |row| row.turn.name().to_owned()),
    (" ", "requests", 8, |row| row.requests.to_string()),
    (" ", "tiles/s", 8, |row| short(row.tiles_per_second)),
    (" ", "MB/s", 8, |row| short(row.mb_per_second)),
    ("   ", "p50 ms", 7, |row| short(row.latency.p50)),
    (" ", "p90", 7, |row| short(row.latency.p90)),
    (" ", "p99", 7, |row| short(row.latency.p99)),
    (" ", "max", 7, |row| short(row.latency.max)),
    ("   ", "client µs", 9, |row| short(row.client_micros)),
    ("   ", "kept", 7, |row| counted(row, ServerWork::kept)),
    (" ", "rendered", 8, |row| counted(row, |work| work.renders)),
    (" ", "waited", 6, |row| counted(row, |work| work.waits)),
];

/// The texts of all columns, and what follows them.
fn line<R>(columns: &[Column<R>], text: impl Fn(&Column<R>) -> String, rest: &str) -> String {
    let cell = |column: &Column<R>| {
        let ((gap, _, width, _), text) = (column, text(column));
        let places = width.unsigned_abs();
        if *width < 0 {
            format!("{gap}{text:<places$}")
        } else {
            format!("{gap}{text:>places$}")
        }
    };
    columns.iter().map(cell).collect::<String>() + rest + "\n"
}

/// What a server counted; `?` if it does not tell.
fn counted(row: &RemoteRow, count: fn(&ServerWork) -> u64) -> String {
    row.server
        .as_ref()
        .map_or("?".to_owned(), |work| count(work).to_string())
}

/// The planes; all three are abbreviated.
fn plane(course: &Course) -> String {
    if course.plane == "xy+xz+yz" {
        "all three".to_owned()
    } else {
        course.plane.clone()
    }
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

/// All verdicts; empty if no tile could be rendered.
pub(super) fn verdicts(verdicts: &[Verdict], scaling: &[Scaling]) -> String {
    let verdicts = verdicts.iter().map(|verdict| {
        let Verdict {
            token,
            channel,
            state,
            rows,
            says,
            helps,
            ..
        } = verdict;
        let helps: Vec<&str> = helps.iter().map(|help| help.how.as_str()).collect();
        let helps = if helps.is_empty() {
            String::new()
        } else {
            format!("\n    would help: {}", helps.join("; "))
        };
        format!(
            "{token} {channel}, {}, {rows}:\n    {says}{helps}",
            state.words()
        )
    });
    sentences(
        &verdicts
            .chain(scaling.iter().map(Scaling::says))
            .collect::<Vec<_>>(),
    )
}

/// Sentences under the heading "verdict".
pub(super) fn sentences(sentences: &[String]) -> String {
    let lines: String = sentences
        .iter()
        .map(|sentence| format!("  {sentence}\n"))
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nverdict\n{lines}")
    }
}

/// Remarks on the rows, and failures.
pub(super) fn remarks(remarks: &[String], failures: &[String]) -> String {
    let remarks = remarks
        .iter()
        .map(|remark| format!("remark     {remark}\n"));
    let failures = failures
        .iter()
        .map(|failure| format!("failed     {failure}\n"));
    let lines: String = remarks.chain(failures).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

/// The channels left out because none was named.
pub(super) fn left_out(channels: &[String]) -> String {
    const MAX_SHOWN: usize = 8;
    if channels.is_empty() {
        return String::new();
    }
    let more = if channels.len() > MAX_SHOWN {
        ", …"
    } else {
        ""
    };
    let shown: Vec<&str> = channels
        .iter()
        .take(MAX_SHOWN)
        .map(String::as_str)
        .collect();
    format!(
        "not measured: {}{more}; name them with --channel\n",
        shown.join(", ")
    )
}

/// Remarks on rows that were meant to read from disk and did not.
pub(super) fn not_from_disk(rows: &[Row]) -> Vec<String> {
    let cold = || {
        rows.iter()
            .filter(|row| row.state == State::Disk && row.tiles > 0)
    };
    let count = |wanted: Option<bool>| cold().filter(|row| row.is_from_disk() == wanted).count();
    let (all, from_memory, unknown) = (cold().count(), count(Some(false)), count(None));
    let mut remarks = Vec::new();
    if from_memory > 0 {
        remarks.push(format!(
            "in {from_memory} of {all} rows \"cold disk\" little or nothing was read from disk: the file stayed in the page cache, or is in memory; these rows are equivalent to \"cold chunks\""
        ));
    }
    if unknown > 0 {
        remarks.push(format!(
            "the system does not report whether {unknown} of {all} rows \"cold disk\" were read from disk"
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_have_three_digits() {
        let texts: Vec<String> = [0.0, 0.0004, 0.0312, 0.9999, 3.144, 99.99, 1234.5]
            .into_iter()
            .map(short)
            .collect();
        assert_eq!(texts, ["0", "0", "0.031", "1.00", "3.14", "100", "1234"]);
    }
}
