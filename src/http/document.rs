//! Documents, and the cache of built documents.
//!
//! The public address of the server is not part of a document: it is inserted when the document is
//! sent, so that requests with different `Host`s are answered from one copy. Documents without that
//! address are compressed once, when they are built.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor};
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use tokio::sync::Semaphore;
use voltile_base::flow::cache::Cache;
use voltile_base::tile::TileKey;

use super::body::{self, Pieces};
use super::caching::is_known;
use super::{codings, problem, range};
use crate::service::{HeldMemory, TileError};

/// The maximum number of bytes of all documents that are kept.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// The maximum number of documents that are built at once, each on a thread of its own. Documents
/// that read files are counted separately, up to the same number.
const MAX_BUILT: usize = 2;

/// The maximum length of a document with the server's address, and of a page of labels, in bytes.
/// Thousands of channels, or hundreds of thousands of sections, take less. Longer documents are not
/// compressed.
pub(super) const MAX_LENGTH: usize = 16 << 20;
/// The maximum length of the properties of labels, in bytes: even the longest fit into the cache,
/// with the bookkeeping of [`Document::weight`].
pub(super) const MAX_PROPERTIES_LENGTH: usize = MAX_KEPT_BYTES - 4096;

/// The shortest document that is compressed, in bytes: a shorter one fits into one packet as it is.
const SHORTEST_COMPRESSED: usize = 1024;

/// Stands for the public address of the server while a document is built: a character that Unicode
/// reserves for the internal use of programs.
pub(super) const BASE: &str = "\u{FDD0}";

/// A document that has been built; clones share its bytes.
#[derive(Debug, Clone)]
pub(super) struct Document {
    content_type: &'static str,
    /// The parts of its text; the public address of the server is sent between any two of them.
    parts: Arc<[Bytes]>,
    /// The text as a gzip file. Only documents of one part (without the server's address) have one,
    /// and only if that saves enough and does not take long.
    gzip: Option<Bytes>,
    /// A digest of the text, from which ETags are made.
    digest: TileKey,
    /// The number of windows and statistics of channels that were known when it was requested: once
    /// more are known, it is built again.
    pub measured: usize,
    /// Memory that is held until the document is sent; `None` for a document that is kept.
    pub held: Option<Arc<HeldMemory>>,
}

/// The documents of a site.
pub(super) struct Documents {
    /// By the generation of the catalogue, and a digest of everything else that decides them.
    pub kept: Cache<(u64, TileKey), Document, TileError>,
    /// The newest generation that was requested: documents of older generations are not kept.
    pub newest: Arc<AtomicU64>,
    /// Limits how many documents are built at once without reading files.
    pub builders: Arc<Semaphore>,
    /// Limits how many documents are built at once from files.
    pub readers: Arc<Semaphore>,
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            kept: Cache::new(MAX_KEPT_BYTES, Gauge::default()),
            newest: Arc::default(),
            builders: Arc::new(Semaphore::new(MAX_BUILT)),
            readers: Arc::new(Semaphore::new(MAX_BUILT)),
        }
    }
}

impl Document {
    /// A JSON document without the server's address.
    pub fn json(value: &impl Serialize) -> Result<Self, TileError> {
        let text = serde_json::to_vec(value).map_err(|error| failed(&error))?;
        Ok(Self::new("application/json", vec![text.into()]))
    }

    /// A document of the text that `write` writes, with the server's address in place of each
    /// [`BASE`]. Fails if the text is longer than [`MAX_LENGTH`].
    pub fn addressed(
        content_type: &'static str,
        write: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
    ) -> Result<Self, TileError> {
        // The limit is the only reason why writing fails.
        let whole = write_to_bytes(MAX_LENGTH, write).map_err(|_| too_large())?;
        let text = std::str::from_utf8(&whole).map_err(|error| failed(&error))?;
        let parts = text.split(BASE);
        let parts = parts.map(|part| whole.slice_ref(part.as_bytes())).collect();
        Ok(Self::new(content_type, parts))
    }

    /// A document with the server's address between any two of its parts.
    pub fn new(content_type: &'static str, parts: Vec<Bytes>) -> Self {
        let digest = TileKey::digest(&("document", content_type, &parts));
        let gzip = match parts.as_slice() {
            [whole] => gzipped(whole),
            _ => None,
        };
        Self {
            content_type,
            gzip,
            parts: parts.into(),
            digest,
            measured: 0,
            held: None,
        }
    }

    /// Its length in bytes, without the server's address.
    pub fn length(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// The bytes that the document takes of the budget of kept documents, including bookkeeping.
    pub fn weight(&self) -> usize {
        const BOOKKEEPING: usize = 256;
        let compressed = self.gzip.as_ref().map_or(0, Bytes::len);
        self.length() + compressed + self.parts.len() * size_of::<Bytes>() + BOOKKEEPING
    }

    /// The response: this document, the requested range of it (never compressed), or 304. `base` is
    /// the server's address if the document contains it, escaped as the document requires.
    pub fn response(
        &self,
        request: &HttpRequest,
        lifetime: HeaderValue,
        base: Option<String>,
    ) -> HttpResponse {
        let gzip = match &self.gzip {
            Some(gzip)
                if codings::accepted(request).gzip
                    && !request.headers().contains_key(header::RANGE) =>
            {
                Some(gzip)
            }
            _ => None,
        };
        let digest = match (&base, gzip) {
            (Some(base), _) => TileKey::digest(&(self.digest, base)),
            (None, Some(_)) => TileKey::digest(&(self.digest, "gzip")),
            (None, None) => self.digest,
        };
        let etag = digest.etag();
        let is_known = is_known(request, &etag);
        let mut response = if is_known {
            HttpResponse::NotModified()
        } else {
            HttpResponse::Ok()
        };
        response
            .insert_header((header::ETAG, etag.as_str()))
            .insert_header((header::CACHE_CONTROL, lifetime));
        if self.gzip.is_some() {
            response.insert_header((header::VARY, "Accept-Encoding"));
        }
        if is_known {
            return response.finish();
        }
        response.content_type(self.content_type);
        let Some(base) = base else {
            if let Some(gzip) = gzip {
                response.insert_header((header::CONTENT_ENCODING, "gzip"));
                return response.body(Pieces::new(gzip.clone(), self.held.clone()));
            }
            let whole = self.parts.first().cloned().unwrap_or_default();
            return range::respond(request, response, &etag, whole, self.held.clone());
        };
        let length = self.length() + base.len() * self.parts.len().saturating_sub(1);
        if length > MAX_LENGTH {
            return problem::response(&too_large());
        }
        response.body(body::joined(Arc::clone(&self.parts), base.into(), length))
    }
}

/// A document as a gzip file; `None` if that would save little, or take long.
fn gzipped(whole: &[u8]) -> Option<Bytes> {
    if !(SHORTEST_COMPRESSED..=MAX_LENGTH).contains(&whole.len()) {
        return None;
    }
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut gzip = vec![0; compressor.gzip_compress_bound(whole.len())];
    // The bound leaves no reason to fail.
    let length = compressor.gzip_compress(whole, &mut gzip).ok()?;
    gzip.truncate(length);
    gzip.shrink_to_fit();
    Some(gzip.into())
}

/// Returns the bytes that `write` writes. Writing more than `max_length` bytes fails.
pub(super) fn write_to_bytes<E>(
    max_length: usize,
    write: impl FnOnce(&mut &mut [u8]) -> Result<(), E>,
) -> Result<Bytes, E> {
    let mut whole = vec![0; max_length];
    let mut rest = whole.as_mut_slice();
    write(&mut rest)?;
    let length = max_length - rest.len();
    whole.truncate(length);
    whole.shrink_to_fit();
    Ok(whole.into())
}

fn too_large() -> TileError {
    TileError::Document(format!(
        "this document would be larger than {} MiB, the limit; serve fewer datasets or channels, or volumes with fewer \
         sections",
        MAX_LENGTH >> 20
    ))
}

fn failed(error: &dyn std::error::Error) -> TileError {
    TileError::Document(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_the_most_bytes_is_written_and_not_one_more() {
        let of = |length: usize| {
            Document::addressed("text/plain", |out| {
                let pieces = vec![b'a'; length];
                pieces
                    .chunks(1000)
                    .try_for_each(|piece| io::Write::write_all(out, piece))
            })
        };
        assert_eq!(
            of(MAX_LENGTH).map(|document| document.length()).ok(),
            Some(MAX_LENGTH)
        );
        assert!(
            of(MAX_LENGTH + 1)
                .unwrap_err()
                .to_string()
                .contains("16 MiB")
        );
    }
}
