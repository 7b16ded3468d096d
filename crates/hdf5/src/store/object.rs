//! An object that is open: one version of it, with what was read of its metadata.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::blocks::{BLOCK, MetadataBlocks, PAGE};
use super::context::StoreContext;
use super::error::StoreError;
use super::merge::merge;
use super::sidecar;
use super::source::ObjectSource;
use super::version::Version;
use crate::store::address::Address;

/// One version of an object. Two objects are equal if their versions are.
#[derive(Debug)]
pub struct Object {
    /// Unique in this process: even another version of the same object has another number.
    pub(super) number: u64,
    version: Version,
    source: Arc<ObjectSource>,
    blocks: MetadataBlocks,
}

impl Object {
    pub(super) async fn open(source: Arc<ObjectSource>) -> Result<Arc<Self>, StoreError> {
        let first = source.get_current(0..BLOCK).await?;
        let blocks = MetadataBlocks::default();
        blocks.add(0, &first.bytes);
        if let Some(folder) = &source.shared.metadata {
            sidecar::load(folder, source.address.public(), &first.version, &blocks);
        }
        let number = source.shared.next_number.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self {
            number,
            version: first.version,
            source,
            blocks,
        }))
    }

    pub(super) fn shared(&self) -> &Arc<StoreContext> {
        &self.source.shared
    }

    /// Its address.
    pub fn address(&self) -> &Address {
        &self.source.address
    }

    /// Whether the object still had this version when it was last seen. Never waits: an object that
    /// was last seen a while ago is checked in the background.
    pub fn is_current(&self) -> bool {
        let is_current = self.source.had(&self.version);
        if self.source.needs_check() {
            self.source.check();
        }
        is_current
    }

    /// Whether the object was seen lately, and had this version then.
    pub(super) fn is_fresh(&self) -> bool {
        self.source.had(&self.version) && !self.source.needs_check()
    }

    /// The version of all its bytes.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The length in bytes.
    pub fn length(&self) -> u64 {
        self.version.length
    }

    /// Copies the metadata from `position` on, and returns the number of bytes, which is less than
    /// the buffer's length only at the end of the object. Blocks the calling thread while missing
    /// blocks are fetched.
    pub(crate) fn read_metadata(
        self: &Arc<Self>,
        into: &mut [u8],
        position: u64,
    ) -> Result<usize, StoreError> {
        let rest = self.length().saturating_sub(position);
        let length = rest.min(into.len() as u64) as usize;
        let into = &mut into[..length];
        let mut done = self.blocks.copy(into, position);
        while done < length {
            let missing = position + done as u64..position + length as u64;
            let block = self.blocks.around(&missing, self.length());
            let object = Arc::clone(self);
            let fetched = async move { object.add_block(block).await };
            self.shared().threads.wait(fetched)?;
            let more = self.blocks.copy(&mut into[done..], missing.start);
            if more == 0 {
                return Err(lacks_bytes());
            }
            done += more;
        }
        Ok(length)
    }

    /// The metadata in a range, which lies in the object. The bytes around it are not fetched,
    /// because the child process that asks has chosen its own blocks.
    pub(super) async fn read_exactly(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(known) = self.known(&range) {
            return Ok(known);
        }
        let pages = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE).min(self.length());
        self.add_block(pages).await?;
        self.known(&range).ok_or_else(lacks_bytes)
    }

    /// Fetches a block, which begins on a page.
    async fn add_block(&self, block: Range<u64>) -> Result<(), StoreError> {
        let bytes = self.get(block.clone()).await?;
        self.blocks.add(block.start, &bytes);
        Ok(())
    }

    /// Fetches pieces of metadata side by side, so that [`Object::read_metadata`] finds them.
    pub(crate) fn gather_metadata(
        self: &Arc<Self>,
        ranges: &[Range<u64>],
    ) -> Result<(), StoreError> {
        let unknown = self.blocks.unknown(ranges, self.length());
        let requests = merge(unknown.into_iter().map(|range| (range, ())).collect());
        let object = Arc::clone(self);
        self.shared().threads.wait(async move {
            let blocks = requests
                .into_iter()
                .map(|request| object.add_block(request.range));
            futures_util::future::try_join_all(blocks).await.map(drop)
        })
    }

    /// Keeps the metadata that is known, and the notes, for the next start.
    pub fn save_metadata(&self) {
        if let Some(folder) = &self.shared().metadata
            && let Some(unsaved) = self.blocks.take_unsaved()
        {
            sidecar::save(folder, self.address().public(), self.version(), unsaved);
        }
    }

    /// The note about this version under a key.
    pub fn noted(&self, key: &str) -> Option<String> {
        self.blocks.noted(key)
    }

    /// Notes something that was made from the bytes of this version, and keeps it for the next
    /// start. Writes a file.
    pub fn note(&self, key: &str, text: String) {
        self.blocks.note(key, text);
        self.save_metadata();
    }

    /// Bytes that are known because they lie among the metadata.
    pub(super) fn known(&self, range: &Range<u64>) -> Option<Bytes> {
        // Memory for the range, which may be long, is reserved only if its first byte is known.
        if self.blocks.copy(&mut [0], range.start) == 0 {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        let copied = self.blocks.copy(&mut bytes, range.start);
        (copied == bytes.len()).then(|| bytes.into())
    }

    /// Fetches a range of this version.
    pub(super) async fn get(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        Ok(self.source.get(range, &self.version).await?.bytes)
    }
}

fn lacks_bytes() -> StoreError {
    StoreError::invalid("a block lacks the bytes that it was fetched for")
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl Eq for Object {}

impl PartialOrd for Object {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Object {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.version.cmp(&other.version)
    }
}
