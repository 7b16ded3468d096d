//! Writes files of the cache directory: under a temporary name first, so that no process ever sees
//! a part of one, even if the writer is killed.

use std::io::{self, Write};
use std::path::Path;

/// The beginning of temporary names.
pub const TEMPORARY: &str = ".voltile-";

/// Writes a file that consists of the given parts. It replaces any file of its name as a whole.
pub fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempfile_in(folder)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.persist(path)?;
    Ok(())
}
