//! zstd (filter 32015): frames that may or may not state their decoded size.

use std::cell::RefCell;
use std::io;

use zstd::bulk::Decompressor;

use super::{FilterError, ensure_fits};

/// Decodes to at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
    let mut out = Vec::with_capacity(limit);
    let length = with_decoder(|decoder| decoder.decompress_to_buffer(bytes, &mut out))?;
    // A vector's capacity may exceed the requested one.
    ensure_fits(length, limit)?;
    Ok(out)
}

/// Decodes frames that must fill `target`.
pub(super) fn block(bytes: &[u8], target: &mut [u8]) -> Result<(), FilterError> {
    let length = with_decoder(|decoder| decoder.decompress_to_buffer(bytes, target))?;
    ensure_fills(length, target)
}

/// Decodes frames that were compressed with a dictionary and must fill `target`.
pub(super) fn block_with_dictionary(
    dictionary: &[u8],
    bytes: &[u8],
    target: &mut [u8],
) -> Result<(), FilterError> {
    let length = Decompressor::with_dictionary(dictionary)
        .and_then(|mut decoder| decoder.decompress_to_buffer(bytes, target))
        .map_err(|e| format!("zstd: {e}"))?;
    ensure_fills(length, target)
}

fn ensure_fills(length: usize, target: &[u8]) -> Result<(), FilterError> {
    if length == target.len() {
        Ok(())
    } else {
        Err("a zstd frame is too short".into())
    }
}

/// Lends the thread's decoder: creating one for each small block would cost more than decoding it.
fn with_decoder<T>(
    work: impl FnOnce(&mut Decompressor<'static>) -> io::Result<T>,
) -> Result<T, FilterError> {
    thread_local! {
        static DECODER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    DECODER.with_borrow_mut(|decoder| {
        let result = match decoder {
            Some(decoder) => work(decoder),
            None => Decompressor::new().and_then(|new| work(decoder.insert(new))),
        };
        result.map_err(|e| format!("zstd: {e}").into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_a_size_is_decoded() {
        let text = b"voxels voxels voxels voxels voxels".repeat(9);
        let mut stored = Vec::new();
        let mut writer = zstd::stream::Encoder::new(&mut stored, 3).unwrap();
        std::io::Write::write_all(&mut writer, &text).unwrap();
        writer.finish().unwrap();
        assert!(matches!(
            zstd::zstd_safe::get_frame_content_size(&stored),
            Ok(None)
        ));
        assert_eq!(decode(&stored, text.len()).as_ref(), Ok(&text));
        assert_eq!(decode(&stored, 2 * text.len()).as_ref(), Ok(&text));
        assert!(decode(&stored, text.len() - 1).is_err());
        assert!(block(&stored, &mut vec![0; text.len() + 1]).is_err());
        let twice = text.repeat(2);
        assert_eq!(decode(&stored.repeat(2), twice.len()), Ok(twice));
    }
}
