//! Keeps the metadata of an object: pages of its bytes, which are fetched in aligned blocks, and
//! notes, which are texts that were computed from its bytes.
//!
//! libhdf5 asks for metadata in pieces of a few bytes, and a file has it in a few places. A block
//! holds the bytes around a piece that was asked for; while reading continues where the last block
//! ended, blocks grow.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use parking_lot::Mutex;

/// The length of a page. Every page but the object's last is whole.
pub(super) const PAGE: u64 = 4 << 10;
/// The length of the first block at a place, and its alignment.
pub(super) const BLOCK: u64 = 64 << 10;
/// The length up to which blocks grow.
const MAX_BLOCK: u64 = 1 << 20;
/// Beyond this number of bytes all pages are dropped. It happens rarely: the metadata of one volume
/// is smaller.
pub(super) const MAX_BYTES: u64 = 128 << 20;

/// Pages with their numbers, in order, and notes by their keys.
pub(super) type SavedMetadata = (Vec<(u64, Bytes)>, BTreeMap<String, String>);

/// The pages of one object, by number.
#[derive(Debug, Default)]
pub(super) struct MetadataBlocks(Mutex<BlockState>);

#[derive(Debug, Default)]
struct BlockState {
    pages: BTreeMap<u64, Bytes>,
    /// The end of the block that was fetched last.
    last_end: u64,
    /// The length of that block before it was cut off at a known page or the object's end.
    last_size: u64,
    notes: BTreeMap<String, String>,
    /// Whether pages or notes were added or replaced since they were saved.
    is_unsaved: bool,
}

impl MetadataBlocks {
    /// Copies the known bytes from `position` up to the first gap, and returns their number.
    pub fn copy(&self, into: &mut [u8], position: u64) -> usize {
        let state = self.0.lock();
        let mut done = 0;
        while done < into.len() {
            let at = position + done as u64;
            let Some(page) = state.pages.get(&(at / PAGE)) else {
                break;
            };
            // The object's last page may end before the position.
            let bytes = page.get((at % PAGE) as usize..).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            let more = bytes.len().min(into.len() - done);
            into[done..done + more].copy_from_slice(&bytes[..more]);
            done += more;
        }
        done
    }

    /// The block to fetch for a missing range of an object of `length` bytes.
    pub fn around(&self, missing: &Range<u64>, length: u64) -> Range<u64> {
        let mut state = self.0.lock();
        let page_start = missing.start / PAGE * PAGE;
        let (mut start, size) = if page_start == state.last_end {
            // Reading continues: the block grows.
            (page_start, (2 * state.last_size).min(MAX_BLOCK))
        } else {
            (page_start / BLOCK * BLOCK, BLOCK)
        };
        // Known pages are not fetched again: the block begins after the last known page before the
        // range, and ends before the first known page after it.
        if let Some((before, _)) = state.pages.range(..missing.start / PAGE).next_back() {
            start = start.max((before + 1) * PAGE);
        }
        let mut end = (start + size)
            .max(missing.end.next_multiple_of(PAGE))
            .min(length);
        if let Some((after, _)) = state.pages.range(missing.end.div_ceil(PAGE)..).next() {
            end = end.min(after * PAGE);
        }
        state.last_end = end;
        state.last_size = size;
        start..end
    }

    /// The ranges that are not known yet, widened to pages of an object of `length` bytes.
    pub fn unknown(&self, ranges: &[Range<u64>], length: u64) -> Vec<Range<u64>> {
        let state = self.0.lock();
        let mut unknown = Vec::new();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let mut pages = range.start / PAGE..range.end.div_ceil(PAGE);
            if !pages.all(|page| state.pages.contains_key(&page)) {
                let end = range.end.next_multiple_of(PAGE).min(length);
                unknown.push(range.start / PAGE * PAGE..end);
            }
        }
        unknown
    }

    /// Adds bytes that begin at the start of a page, and end at the end of a page or of the object.
    pub fn add(&self, start: u64, bytes: &Bytes) {
        let mut state = self.0.lock();
        if state.pages.len() as u64 * PAGE > MAX_BYTES {
            state.pages.clear();
        }
        for at in (0..bytes.len()).step_by(PAGE as usize) {
            let page = bytes.slice(at..bytes.len().min(at + PAGE as usize));
            let number = start / PAGE + at as u64 / PAGE;
            state.is_unsaved |= state.pages.insert(number, page).is_none();
        }
    }

    /// The note under a key.
    pub fn noted(&self, key: &str) -> Option<String> {
        self.0.lock().notes.get(key).cloned()
    }

    /// Adds a note, or replaces that of the key.
    pub fn note(&self, key: &str, text: String) {
        let mut state = self.0.lock();
        if state.notes.get(key) != Some(&text) {
            state.notes.insert(key.to_owned(), text);
            state.is_unsaved = true;
        }
    }

    /// All pages and notes, if any was added or replaced since they were last saved. Marks them as
    /// saved.
    pub fn take_unsaved(&self) -> Option<SavedMetadata> {
        let mut state = self.0.lock();
        if !std::mem::take(&mut state.is_unsaved) {
            return None;
        }
        let pages = state.pages.clone().into_iter().collect();
        Some((pages, state.notes.clone()))
    }

    /// Records that all pages and notes are saved.
    pub fn mark_saved(&self) {
        self.0.lock().is_unsaved = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(blocks: &MetadataBlocks, range: Range<u64>) {
        let bytes: Vec<u8> = range.clone().map(|at| at as u8).collect();
        blocks.add(range.start, &bytes.into());
    }

    #[test]
    fn what_was_added_is_copied_up_to_the_first_gap() {
        let blocks = MetadataBlocks::default();
        added(&blocks, PAGE..3 * PAGE);
        let mut into = [0; 10];
        assert_eq!(blocks.copy(&mut into, 2 * PAGE - 5), 10);
        assert_eq!(into[..2], [(2 * PAGE - 5) as u8, (2 * PAGE - 4) as u8]);
        assert_eq!(blocks.copy(&mut into, 3 * PAGE - 4), 4);
        assert_eq!(blocks.copy(&mut into, 0), 0);
    }

    #[test]
    fn blocks_grow_while_reading_continues_and_leave_out_what_is_known() {
        let (blocks, length) = (MetadataBlocks::default(), 1 << 30);
        let first = blocks.around(&(70_000..70_008), length);
        assert_eq!(first, BLOCK..2 * BLOCK);
        added(&blocks, first);
        let second = blocks.around(&(2 * BLOCK + 5..2 * BLOCK + 6), length);
        assert_eq!(second, 2 * BLOCK..4 * BLOCK);
        let far = blocks.around(&(10 * BLOCK + 100..12 * BLOCK + 100), length);
        assert_eq!(
            far,
            10 * BLOCK..12 * BLOCK + PAGE,
            "at least what is asked for"
        );
        let before = blocks.around(&(10..20), length);
        assert_eq!(before, 0..BLOCK);
        added(&blocks, 5 * BLOCK..5 * BLOCK + PAGE);
        assert_eq!(
            blocks.around(&(6 * BLOCK - PAGE..6 * BLOCK), length),
            5 * BLOCK + PAGE..6 * BLOCK + PAGE
        );
        assert_eq!(blocks.around(&(100..200), 300), 0..300, "an object ends");
    }

    #[test]
    fn unknown_ranges_are_widened_to_pages() {
        let blocks = MetadataBlocks::default();
        added(&blocks, 0..PAGE);
        let ranges = [5..10, PAGE - 1..PAGE + 1, 0..0];
        assert_eq!(blocks.unknown(&ranges, 5000), vec![0..5000; 1]);
    }

    #[test]
    fn pages_and_notes_are_saved_once() {
        let blocks = MetadataBlocks::default();
        assert!(blocks.take_unsaved().is_none());
        added(&blocks, 0..2 * PAGE);
        assert_eq!(blocks.take_unsaved().unwrap().0.len(), 2);
        assert!(blocks.take_unsaved().is_none());
        blocks.note("a", "b".to_owned());
        assert_eq!(blocks.take_unsaved().unwrap().1["a"], "b");
        blocks.note("a", "b".to_owned());
        assert!(blocks.take_unsaved().is_none() && blocks.noted("a").as_deref() == Some("b"));
        blocks.note("a", "c".to_owned());
        assert_eq!(blocks.take_unsaved().unwrap().1["a"], "c");
    }
}
