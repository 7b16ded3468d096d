//! Tables of labels in text files: CSV, also with tabs or semicolons.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use super::table::{Labels, Unsorted};

/// The longest file, in bytes.
const MAX_LENGTH: u64 = 1 << 30;
/// The separator is told from this many bytes of the first line.
const MAX_LINE: u64 = 1 << 16;

/// Reads the table in a text file, whose first line names the columns. Errors name the row (the header is row 1) and the
/// column. `id` and `name`: the columns of ids and of names, if they are known.
pub(super) fn read(path: &Path, id: Option<&str>, name: Option<&str>) -> Result<Labels, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = || File::open(path).map_err(unreadable);
    let length = file()?.metadata().map_err(unreadable)?.len();
    if length > MAX_LENGTH {
        return Err(format!("it has {length} bytes; at most {} MiB are read", MAX_LENGTH >> 20));
    }
    let mut line = Vec::new();
    BufReader::new(file()?.take(MAX_LINE)).read_until(b'\n', &mut line).map_err(unreadable)?;
    let count = |wanted: &u8| line.iter().filter(|byte| *byte == wanted).count();
    let delimiter = [b';', b'\t', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(file()?);
    let header = reader.headers().map_err(|error| in_words(&error))?;
    let header: Vec<&str> = header.iter().map(str::trim).collect();
    let (mut table, mut record) = (Unsorted::new(&header, id, name, 2)?, ByteRecord::new());
    while reader.read_byte_record(&mut record).map_err(|error| in_words(&error))? {
        record.iter().enumerate().try_for_each(|(place, cell)| table.push(place, cell))?;
    }
    table.sorted()
}

fn in_words(error: &csv::Error) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths { pos: Some(pos), expected_len, len } => format!(
            "row {}: it has {len} columns, and the first row {expected_len}; quote texts that contain the separator",
            pos.record() + 1
        ),
        _ => error.to_string(),
    }
}
