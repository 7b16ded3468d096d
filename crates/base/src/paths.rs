//! Paths of files.

use std::path::Path;

/// The folder of a file: `.` for `a.h5`.
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != "" => folder,
        _ => Path::new("."),
    }
}
