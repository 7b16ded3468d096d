//! Reads the columns of tables, in blocks of rows. A table is a compound dataset, whose fields are
//! the columns, or a group, whose datasets are. Every dataset has one axis.

use std::fmt::Write;
use std::sync::Arc;

use hdf5::types::{CompoundField, CompoundType, FloatSize, IntSize, TypeDescriptor as Type};
use hdf5::{Dataset, Datatype};
use voltile_base::flow::stalls;

use super::file::StoredFile;
use super::links::{Follower, Node};
use super::{OpenError, dataset, library, library_lock, listing};

/// The size in bytes of a block of rows, unless a chunk is larger.
const ROW_BLOCK_BYTES: usize = 4 << 20;
/// The maximum size in bytes of a chunk, and of the texts of variable length in a block.
const MAX_BYTES: usize = 64 << 20;
/// The maximum number of datasets of a group that are looked at.
const MAX_DATASETS: usize = 256;

/// A column of a table.
#[derive(Debug)]
pub struct StoredColumn {
    /// The name of the field or of the dataset.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
    /// Whether its cells are strings rather than numbers.
    pub is_text: bool,
    file: Arc<StoredFile>,
    dataset: Dataset,
    /// The type of a cell in memory.
    cell: Type,
    /// Whether the column is a field of a compound dataset.
    is_field: bool,
    /// The number of rows that are read together.
    block_rows: usize,
}

/// Takes the cells of a column as texts, one after the other; an error ends the reading.
pub type TakeCell<'a> = dyn FnMut(&[u8]) -> Result<(), String> + 'a;

/// The columns of the table at a path whose cells are numbers or strings.
pub(super) fn columns(
    follower: &Follower<'_>,
    file: &Arc<StoredFile>,
    path: &str,
) -> Result<Vec<StoredColumn>, OpenError> {
    let Node::Group(group) = follower.node(file, path)?.object else {
        let (found, _) = follower.dataset(file, path)?;
        let fields = dataset_columns(&found.file, &found.object);
        return fields.map_err(|error| OpenError::object(&file.location, path, error.to_string()));
    };
    let mut columns = Vec::new();
    for name in listing::names(&group).into_iter().take(MAX_DATASETS) {
        let Ok((found, _)) = follower.dataset(file, &format!("{path}/{name}")) else {
            continue;
        };
        let own_columns = dataset_columns(&found.file, &found.object).unwrap_or_default();
        for column in own_columns.into_iter().filter(|column| !column.is_field) {
            columns.push(StoredColumn {
                name: name.clone(),
                ..column
            });
        }
    }
    Ok(columns)
}

/// The columns of one dataset: its fields, or one column without a name.
fn dataset_columns(file: &Arc<StoredFile>, dataset: &Dataset) -> hdf5::Result<Vec<StoredColumn>> {
    let [rows] = *dataset.shape() else {
        return Err("it does not have exactly one axis".into());
    };
    let stored = dataset.dtype()?;
    let row_bytes = stored.size().max(1);
    let chunk = dataset
        .chunk()
        .map_or(1, |chunk| chunk.iter().product::<usize>().max(1));
    if !dataset::is_own(dataset) || row_bytes.saturating_mul(chunk) > MAX_BYTES {
        return Err("its data is in other files, or its chunks are too large".into());
    }
    let (fields, is_field) = match stored.to_descriptor()? {
        Type::Compound(CompoundType { fields, .. }) => (fields, true),
        cell => (vec![CompoundField::new("", cell, 0, 0)], false),
    };
    let columns = fields.into_iter().filter_map(|field| {
        let (cell, is_text) = match field.ty {
            Type::Integer(_) | Type::Boolean | Type::Enum(_) => (Type::Integer(IntSize::U8), false),
            Type::Unsigned(_) => (Type::Unsigned(IntSize::U8), false),
            ty @ Type::Float(FloatSize::U4 | FloatSize::U8) => (ty, false),
            ty @ (Type::FixedAscii(_)
            | Type::FixedUnicode(_)
            | Type::VarLenAscii
            | Type::VarLenUnicode) => (ty, true),
            _ => return None,
        };
        let block_rows = (ROW_BLOCK_BYTES / row_bytes.max(cell.size()))
            .next_multiple_of(chunk)
            .max(chunk);
        Some(StoredColumn {
            name: field.name,
            rows: rows as u64,
            is_text,
            file: Arc::clone(file),
            dataset: dataset.clone(),
            cell,
            is_field,
            block_rows,
        })
    });
    Ok(columns.collect())
}

impl StoredColumn {
    /// Reads all cells. Errors do not name the file.
    pub fn read(&self, take: &mut TakeCell<'_>) -> Result<(), String> {
        for start in (0..self.rows).step_by(self.block_rows) {
            let wrong = |problem: String| format!("row {start}, column {:?}: {problem}", self.name);
            let count = (self.rows - start).min(self.block_rows as u64);
            let stuck = stalls::ensure_answer([&*self.file.bytes.path]);
            stuck.map_err(|error| wrong(error.to_string()))?;
            let _working = stalls::working_on(&self.file.bytes.path);
            let cells = self
                .cells(start, count)
                .map_err(|error| wrong(format!("it cannot be read: {error}")))?;
            self.file
                .bytes
                .ensure_unchanged(&self.name)
                .map_err(|error| error.public())?;
            self.pass_on(&cells, take)?;
        }
        Ok(())
    }

    /// The cells of some rows.
    fn cells(&self, start: u64, count: u64) -> hdf5::Result<Cells> {
        let cell = &self.cell;
        let size = cell.size();
        // The library finds the field by its name.
        let fields = vec![CompoundField::new(&self.name, cell.clone(), 0, 0)];
        let field_alone = Type::Compound(CompoundType { fields, size });
        let _library = library_lock::lock().map_err(|error| error.to_string())?;
        let memory = Datatype::from_descriptor(if self.is_field { &field_alone } else { cell })?;
        if matches!(cell, Type::VarLenAscii | Type::VarLenUnicode) {
            return library::read_strings(&self.dataset, &memory, start, count, MAX_BYTES)
                .map(Cells::Strings);
        }
        let mut bytes = vec![0; count as usize * size];
        library::read_as(&self.dataset, &memory, &[start], &[count], &mut bytes)?;
        Ok(Cells::Fixed(bytes))
    }

    /// Passes cells to `take`, as texts.
    fn pass_on(&self, cells: &Cells, take: &mut TakeCell<'_>) -> Result<(), String> {
        let size = self.cell.size();
        match cells {
            Cells::Strings(strings) => strings.iter().try_for_each(|string| take(string)),
            Cells::Fixed(bytes) if self.is_text => bytes
                .chunks_exact(size)
                .try_for_each(|cell| take(fixed_text(cell))),
            Cells::Fixed(bytes) => {
                let mut text = String::new();
                for number in bytes.chunks_exact(size) {
                    text.clear();
                    write_number(&mut text, &self.cell, number)?;
                    take(text.as_bytes())?;
                }
                Ok(())
            }
        }
    }
}

/// A string of fixed length: it ends at the first zero byte, and may be padded with spaces.
fn fixed_text(cell: &[u8]) -> &[u8] {
    let text = cell.split(|byte| *byte == 0).next();
    text.unwrap_or_default().trim_ascii_end()
}

/// Writes a number of one of the types that cells have in memory.
fn write_number(text: &mut String, number: &Type, cell: &[u8]) -> Result<(), String> {
    // All types have 8 bytes, except `f32`.
    let written = if let Ok(bytes) = <[u8; 8]>::try_from(cell) {
        match number {
            Type::Integer(_) => write!(text, "{}", i64::from_ne_bytes(bytes)),
            Type::Unsigned(_) => write!(text, "{}", u64::from_ne_bytes(bytes)),
            _ => write!(text, "{}", f64::from_ne_bytes(bytes)),
        }
    } else {
        let bytes = <[u8; 4]>::try_from(cell).map_err(|_| "it is not a number")?;
        write!(text, "{}", f32::from_ne_bytes(bytes))
    };
    written.map_err(|error| error.to_string())
}

/// Cells as they were read.
enum Cells {
    Strings(Vec<Vec<u8>>),
    Fixed(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use hdf5::types::VarLenUnicode;

    use super::*;

    #[test]
    fn strings_take_no_more_memory_than_allowed() {
        let place = tempfile::tempdir().unwrap();
        let file = hdf5::File::create(place.path().join("a.h5")).unwrap();
        let texts = ["short", "", "much longer than the rest"]
            .map(|text| text.parse::<VarLenUnicode>().unwrap());
        let stored = file
            .new_dataset_builder()
            .with_data(&texts)
            .create("texts")
            .unwrap();
        let memory = stored.dtype().unwrap();
        let read = |most| library::read_strings(&stored, &memory, 0, 3, most);
        assert_eq!(
            read(1000).unwrap(),
            texts.map(|text| text.as_bytes().to_vec())
        );
        assert!(read(40).is_err());
        assert!(
            library::read_strings(&stored, &memory, 1, 3, 1000).is_err(),
            "it ends after three"
        );
    }
}
