//! A writer of limited size for documents.

use std::io::{self, Write};

/// The maximum length in bytes. Thousands of channels, or hundreds of thousands of sections, take less.
pub(super) const MOST: usize = 16 << 20;

/// The bytes written so far.
#[derive(Debug, Default)]
pub(in crate::http) struct Bounded(Vec<u8>);

#[derive(Debug, thiserror::Error)]
#[error(
    "this document would be larger than {} MiB, the limit; serve fewer datasets or channels, or volumes with fewer sections",
    MOST >> 20
)]
pub(in crate::http) struct TooLarge;

impl Bounded {
    /// Runs `write`, and returns what it has written.
    pub fn written(write: impl FnOnce(&mut Self) -> io::Result<()>) -> Result<Vec<u8>, TooLarge> {
        let mut document = Self::default();
        // The limit is the only reason why writing fails.
        write(&mut document).map_err(|_| TooLarge)?;
        Ok(document.0)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_the_most_bytes_is_written_and_not_one_more() {
        let of = |length: usize| Bounded::written(|out| (0..length).try_for_each(|_| out.write_all(b"a")));
        assert_eq!(of(MOST).map(|document| document.len()).ok(), Some(MOST));
        assert!(of(MOST + 1).unwrap_err().to_string().contains("16 MiB"));
    }
}
