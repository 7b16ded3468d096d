//! A table of labels in memory: found by id, listed in pages, searched by text.

use std::cell::Cell;
use std::sync::OnceLock;

use memchr::memmem::Finder;

use crate::config::NamesSettings;

/// The size in bytes of an id while the table is sorted: the id, and a pair of id and row.
const ID: usize = 24;
/// The size in bytes of a cell without its text while its column is sorted: the end of the cell in
/// the old and in the new order.
const CELL: usize = 8;
/// The maximum number of columns that are read.
const MAX_COLUMNS: usize = 256;
/// Neuroglancer is given the names of at most this many labels: it loads all of them at once.
const MAX_SEGMENTS: usize = 500_000;
/// The usual names of the column of ids, the most telling name first. ilastik, NWB and BrainGlobe
/// use them.
pub(super) const IDS: [&str; 8] = [
    "id",
    "ids",
    "label_id",
    "labelimage_oid",
    "segment_id",
    "cell_id",
    "object_id",
    "label",
];
/// The usual names of the column of names, the most telling name first.
const NAMES: [&str; 8] = [
    "name",
    "names",
    "label_name",
    "predicted class",
    "class",
    "cell_type",
    "acronym",
    "label",
];

/// Labels with names and properties, in the order of their ids.
#[derive(Debug)]
pub struct Labels {
    ids: Vec<u64>,
    /// The column of names, if there is one.
    pub names: Option<Column>,
    /// All columns but the columns of ids and names.
    pub properties: Vec<Column>,
    /// Why the names cannot be written for Neuroglancer, if an attempt has failed.
    pub unwritable: OnceLock<String>,
}

/// A column of a table: a text for each label.
#[derive(Debug, Default)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// Whether each cell is a number or empty.
    pub is_number: bool,
    /// All cells, one after the other.
    text: String,
    /// The end of each cell in the text.
    ends: Vec<u32>,
}

/// A table that is being read: columns one after the other, or row by row.
pub(super) struct UnsortedTable<'r> {
    ids: Vec<u64>,
    columns: Vec<Column>,
    /// The indices of the columns of ids and of names.
    id_and_name: (usize, Option<usize>),
    /// The number of the first row, for errors.
    first: usize,
    /// The number of bytes that the table may still take; 0 after it was too large.
    room: &'r Cell<usize>,
}

/// The indices of the columns of ids and of names: the columns that the settings name, else columns
/// with usual names.
pub(super) fn id_and_name(
    columns: &[&str],
    settings: &NamesSettings,
) -> Result<(usize, Option<usize>), String> {
    let id = match &settings.id {
        Some(id) => index_of(columns, id).ok_or_else(|| no_column(columns, id))?,
        None => IDS
            .into_iter()
            .find_map(|usual| index_of(columns, usual))
            .ok_or_else(|| no_column(columns, &IDS.join(" or ")))?,
    };
    let name = match &settings.name {
        Some(name) => Some(index_of(columns, name).ok_or_else(|| no_column(columns, name))?),
        None => NAMES
            .into_iter()
            .filter_map(|usual| index_of(columns, usual))
            .find(|index| *index != id),
    };
    Ok((id, name.filter(|index| *index != id)))
}

fn index_of(columns: &[&str], wanted: &str) -> Option<usize> {
    columns
        .iter()
        .position(|column| column.eq_ignore_ascii_case(wanted))
}

fn no_column(columns: &[&str], wanted: &str) -> String {
    format!(
        "it has no column {wanted}; its columns are {}. Say which are meant: names = {{ …, id = \"…\", name = \"…\" }}",
        columns.join(", ")
    )
}

impl<'r> UnsortedTable<'r> {
    pub fn new(
        header: &[&str],
        settings: &NamesSettings,
        first: usize,
        room: &'r Cell<usize>,
    ) -> Result<Self, String> {
        if header.len() > MAX_COLUMNS {
            return Err(format!(
                "it has {} columns; at most {MAX_COLUMNS} are read",
                header.len()
            ));
        }
        let id_and_name = id_and_name(header, settings)?;
        let columns = header.iter().map(|name| Column {
            name: (*name).to_owned(),
            is_number: true,
            ..Column::default()
        });
        Ok(Self {
            ids: Vec::new(),
            columns: columns.collect(),
            id_and_name,
            first,
            room,
        })
    }

    /// Adds the next cell of the column with this index.
    pub fn push(&mut self, index: usize, cell: &[u8]) -> Result<(), String> {
        let Some(column) = self.columns.get_mut(index) else {
            return Ok(());
        };
        let is_id = index == self.id_and_name.0;
        let cells_before = if is_id {
            self.ids.len()
        } else {
            column.ends.len()
        };
        let row = self.first + cells_before;
        let Ok(cell) = str::from_utf8(cell) else {
            let problem = "it is not UTF-8; write the table with texts in UTF-8";
            return Err(cell_error(row, column, problem));
        };
        let bytes = if is_id { ID } else { CELL + cell.len() };
        self.room.set(self.room.get().saturating_sub(bytes));
        if self.room.get() == 0 {
            let problem = "up to here the table takes a quarter of render.boxes, the limit";
            return Err(cell_error(row, column, problem));
        }
        if is_id {
            let Some(id) = parsed_id(cell) else {
                let most = u64::MAX;
                let problem =
                    format!("{cell:?} is not an id: a whole number from 0 to {most} is expected");
                return Err(cell_error(row, column, &problem));
            };
            self.ids.push(id);
            return Ok(());
        }
        let number = cell.trim();
        column.is_number &= number.is_empty() || number.parse::<f64>().is_ok();
        column.push(cell);
        Ok(())
    }

    /// The whole table, in which each id occurs once.
    pub fn sorted(self) -> Result<Labels, String> {
        let (id, name) = self.id_and_name;
        let mut columns = self.columns;
        let mut names = name.map(|name| columns.remove(name));
        // Removing the column of names has moved the columns after it.
        let is_id_moved = name.is_some_and(|name| name < id);
        columns.remove(if is_id_moved { id - 1 } else { id });
        let mut order: Vec<(u64, u32)> = self.ids.into_iter().zip(0..).collect();
        order.sort_unstable();
        let (ids, rows): (Vec<u64>, Vec<u32>) = order.into_iter().unzip();
        // Columns that are in order already are copied too, to free memory that they do not need.
        for column in names.iter_mut().chain(&mut columns) {
            column.arrange(&rows);
        }
        if let Some(rank) = ids.windows(2).position(|pair| pair[0] == pair[1]) {
            let id = ids[rank];
            let before = self.first + rows[rank] as usize;
            let row = self.first + rows[rank + 1] as usize;
            return Err(format!(
                "row {row}, column of ids: {id} is the id of row {before}, too; each id is expected once"
            ));
        }
        Ok(Labels {
            ids,
            names,
            properties: columns,
            unwritable: OnceLock::new(),
        })
    }
}

fn cell_error(row: usize, column: &Column, problem: &str) -> String {
    format!("row {row}, column {:?}: {problem}", column.name)
}

/// The id in a cell, such as `7`; some programs store ids as floats and write `7.0`.
fn parsed_id(cell: &str) -> Option<u64> {
    let (whole, zeros) = cell.trim().split_once('.').unwrap_or((cell.trim(), ""));
    whole
        .parse()
        .ok()
        .filter(|_| zeros.bytes().all(|digit| digit == b'0'))
}

impl Column {
    /// The cell of the label with this rank among all ids.
    pub fn get(&self, rank: usize) -> &str {
        let start = rank.checked_sub(1).map_or(0, |before| self.end(before));
        self.text.get(start..self.end(rank)).unwrap_or_default()
    }

    fn end(&self, rank: usize) -> usize {
        self.ends.get(rank).map_or(0, |end| *end as usize)
    }

    fn push(&mut self, cell: &str) {
        self.text.push_str(cell);
        self.ends.push(self.text.len() as u32);
    }

    /// Brings the cells into the order of these rows.
    fn arrange(&mut self, rows: &[u32]) {
        let mut arranged = Self {
            name: std::mem::take(&mut self.name),
            is_number: self.is_number,
            text: String::with_capacity(self.text.len()),
            ends: Vec::with_capacity(rows.len()),
        };
        for row in rows {
            arranged.push(self.get(*row as usize));
        }
        *self = arranged;
    }
}

impl Labels {
    /// The number of labels.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Their size in memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.names.iter().chain(&self.properties);
        let cells: usize = columns
            .map(|column| column.text.len() + size_of_val(&*column.ends))
            .sum();
        cells + size_of_val(&*self.ids)
    }

    /// Why Neuroglancer is not given the names; `None` if it is.
    pub fn left_out(&self) -> Option<String> {
        let count = self.count();
        if count > MAX_SEGMENTS {
            return Some(format!(
                "{count} labels have names, and Neuroglancer is given at most {MAX_SEGMENTS}"
            ));
        }
        self.unwritable.get().cloned()
    }

    /// The id of the label with this rank among all ids.
    pub fn id(&self, rank: usize) -> u64 {
        self.ids.get(rank).copied().unwrap_or_default()
    }

    /// The rank of an id among all ids.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// The ranks of at most `most` labels with ids above `after` and a text that contains `wanted`,
    /// whatever the case; and whether there are more. Ends early once `goes_on` is false.
    pub fn page(
        &self,
        after: Option<u64>,
        most: usize,
        wanted: &str,
        goes_on: impl Fn() -> bool,
    ) -> (Vec<usize>, bool) {
        let first = after.map_or(0, |id| self.ids.partition_point(|known| *known <= id));
        let wanted = wanted.to_lowercase();
        let finder = Finder::new(&wanted);
        let mut lower = String::new();
        let properties = self.properties.iter().filter(|column| !column.is_number);
        let searched: Vec<&Column> = self.names.iter().chain(properties).collect();
        let mut found = Vec::new();
        for rank in first..self.count() {
            if !goes_on() {
                break;
            }
            let mut texts = searched.iter().map(|column| column.get(rank));
            if !wanted.is_empty() && !texts.any(|text| contains(&finder, text, &mut lower)) {
                continue;
            }
            if found.len() == most {
                return (found, true);
            }
            found.push(rank);
        }
        (found, false)
    }
}

/// Whether a text contains the wanted one in lower case; `lower` is reused memory.
fn contains(wanted: &Finder<'_>, text: &str, lower: &mut String) -> bool {
    lower.clear();
    if text.is_ascii() {
        lower.push_str(text);
        lower.make_ascii_lowercase();
    } else {
        *lower = text.to_lowercase();
    }
    wanted.find(lower.as_bytes()).is_some()
}
