//! bzip2 (filter 307): one bzip2 stream, or several in a row. Bytes after the last one are ignored.

use bzip2::{Decompress, Status};

use super::FilterError;

/// The first bytes of a stream.
const MAGIC: &[u8] = b"BZh";

/// Decodes to at most `limit` bytes; the format does not state the decoded size.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
    // One extra byte, so that the end of the stream is reached and overlong streams are detected.
    let mut out = Vec::with_capacity(limit.saturating_add(1));
    let mut rest = bytes;
    loop {
        // `false`: by the faster algorithm, which takes more memory.
        let mut stream = Decompress::new(false);
        match stream.decompress_vec(rest, &mut out) {
            Ok(Status::StreamEnd) if out.len() <= limit => {}
            Ok(_) if out.len() > limit => return Err("it is longer than a chunk".into()),
            Ok(_) => return Err("it ends too early".into()),
            Err(e) => return Err(format!("its stream is invalid ({e})").into()),
        }
        rest = rest.get(stream.total_in() as usize..).unwrap_or_default();
        if !rest.starts_with(MAGIC) {
            return Ok(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_stream_is_decoded_and_no_further_than_allowed() {
        let text = b"voxels and more voxels, ".repeat(500);
        let mut stored = Vec::new();
        let level = bzip2::Compression::new(1);
        bzip2::read::BzEncoder::new(text.as_slice(), level)
            .read_to_end(&mut stored)
            .unwrap();
        assert_eq!(decode(&stored, text.len()).as_ref(), Ok(&text));
        assert_eq!(decode(&stored, text.len() + 5).as_ref(), Ok(&text));
        assert!(decode(&stored, text.len() - 1).is_err());
        let twice = text.repeat(2);
        assert_eq!(decode(&stored.repeat(2), twice.len()), Ok(twice));
        assert!(decode(&stored.repeat(2), text.len()).is_err());
        assert!(decode(&stored[..stored.len() - 1], text.len()).is_err());
    }
}
