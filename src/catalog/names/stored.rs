//! Tables of labels in HDF5 files.

use std::cell::Cell;

use voltile_hdf5::volume::hdf5::{OpenFile, StoredColumn};

use super::table::{Labels, UnsortedTable, id_and_name};
use crate::config::NamesSettings;

/// Reads the table at a path. Errors name the row, counted from 0, and the column.
pub(super) fn read(
    file: &OpenFile,
    path: &str,
    settings: &NamesSettings,
    room: &Cell<usize>,
) -> Result<Labels, String> {
    let mut columns = file.columns(path).map_err(|error| {
        tracing::warn!("{error}");
        "it cannot be opened; the log says why"
    })?;
    let (id, _) = id_and_name(&column_names(&columns), settings)?;
    // A group may also hold datasets that are no columns of the table: their lengths differ.
    let rows = columns.get(id).map_or(0, |column| column.rows);
    columns.retain(|column| column.rows == rows);
    let mut table = UnsortedTable::new(&column_names(&columns), settings, 0, room)?;
    for (index, column) in columns.iter().enumerate() {
        column.read(&mut |cell| table.push(index, cell))?;
    }
    table.sorted()
}

/// The names of columns.
pub(super) fn column_names(columns: &[StoredColumn]) -> Vec<&str> {
    columns.iter().map(|column| column.name.as_str()).collect()
}
