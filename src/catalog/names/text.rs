//! Tables of labels in text files: CSV, separated by commas, tabs or semicolons.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use voltile_base::flow::stalls;

use super::table::{Labels, UnsortedTable};
use crate::config::NamesSettings;

/// The separator is looked for in at most this many bytes of the first line.
const MAX_LINE: u64 = 1 << 16;

/// Reads the table in a text file, whose first line names the columns. Errors name the row (the
/// header is row 1) and the column.
pub(super) fn read(
    path: &Path,
    settings: &NamesSettings,
    room: &Cell<usize>,
) -> Result<Labels, String> {
    let metadata = NotedFile::open(path)
        .and_then(|file| file.opened.metadata())
        .map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.len() > room.get() as u64 {
        room.set(0);
        return Err(format!(
            "it has {} bytes, more than a quarter of render.boxes",
            metadata.len()
        ));
    }
    let delimiter = delimiter(path).map_err(|error| unreadable(&error))?;
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(NotedFile::open(path).map_err(|error| unreadable(&error))?);
    let header = reader.headers().map_err(|error| in_words(&error))?;
    let header: Vec<&str> = header.iter().map(str::trim).collect();
    let first_row = 2;
    let mut table = UnsortedTable::new(&header, settings, first_row, room)?;
    let mut record = ByteRecord::new();
    while reader
        .read_byte_record(&mut record)
        .map_err(|error| in_words(&error))?
    {
        for (index, cell) in record.iter().enumerate() {
            table.push(index, cell)?;
        }
    }
    table.sorted()
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// The separator that occurs most often in the first line of a file; a comma if none occurs.
fn delimiter(path: &Path) -> io::Result<u8> {
    let mut line = Vec::new();
    let mut start = BufReader::new(NotedFile::open(path)?.take(MAX_LINE));
    start.read_until(b'\n', &mut line)?;
    // The last of several that occur equally often wins: the comma, if it is among them.
    let separators = [b';', b'\t', b','].into_iter();
    let most = separators.max_by_key(|wanted| line.iter().filter(|byte| *byte == wanted).count());
    Ok(most.unwrap_or(b','))
}

/// A file that registers each read with [`stalls`], because it may hang.
struct NotedFile {
    opened: File,
    place: Arc<Path>,
}

impl NotedFile {
    fn open(path: &Path) -> io::Result<Self> {
        let place: Arc<Path> = path.into();
        let _opening = stalls::reading(&place, false);
        // Opening or reading anything but a regular file may never end.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        Ok(Self {
            opened,
            place: Arc::clone(&place),
        })
    }
}

impl Read for NotedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let _reading = stalls::reading(&self.place, false);
        self.opened.read(buffer)
    }
}

fn in_words(error: &csv::Error) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths {
            pos: Some(pos),
            expected_len,
            len,
        } => format!(
            "row {}: it has {len} columns, and the first row {expected_len}; quote texts that contain the separator",
            pos.record() + 1
        ),
        _ => error.to_string(),
    }
}
