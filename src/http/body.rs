//! The body of a tile response, passed to actix-http in pieces.
//!
//! actix-http copies every body into the connection's write buffer, and writes that. If the body
//! were a whole tile, all of it would be copied before the first byte is sent, and the buffer would
//! exceed the size that actix-http retains (128 KiB), so that it would be allocated and freed for
//! each response. With pieces the buffer stays allocated, and even stays in the core's cache; and
//! the client reads one piece while the next is copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody, SizedStream};
use bytes::Bytes;
use futures_util::stream;

use crate::service::HeldMemory;

/// The longest piece in bytes. With the response headers it fits into the write buffer that
/// actix-http retains (128 KiB); smaller pieces cost more system calls.
const PIECE: usize = 96 << 10;

/// A body whose remaining bytes are passed on in pieces.
pub(super) struct Pieces {
    rest: Bytes,
    /// Memory that is given back when the body has been sent, or the client has gone.
    _held: Option<Arc<HeldMemory>>,
}

impl Pieces {
    /// A body, and the memory that is held for it.
    pub fn new(whole: Bytes, held: Option<Arc<HeldMemory>>) -> Self {
        Self {
            rest: whole,
            _held: held,
        }
    }
}

impl MessageBody for Pieces {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.rest.len() as u64)
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(next_piece(&mut self.rest))
    }
}

/// Takes the next piece from the bytes that remain; `None` if none remain.
fn next_piece(rest: &mut Bytes) -> Option<Result<Bytes, Infallible>> {
    let length = rest.len().min(PIECE);
    (length > 0).then(|| Ok(rest.split_to(length)))
}

/// A body of `length` bytes: the parts, with the bytes `between` after each part except the last.
pub(super) fn joined(
    parts: Arc<[Bytes]>,
    between: Bytes,
    length: usize,
) -> impl MessageBody<Error = Infallible> + Unpin + 'static {
    // The parts have the even indices, and the bytes between them the odd ones.
    let count = (2 * parts.len()).saturating_sub(1);
    let parts = (0..count).filter_map(move |index| {
        if index.is_multiple_of(2) {
            parts.get(index / 2).cloned()
        } else {
            Some(between.clone())
        }
    });
    let pieces = parts.flat_map(|mut part| std::iter::from_fn(move || next_piece(&mut part)));
    SizedStream::new(length as u64, stream::iter(pieces))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn pieces(mut body: impl MessageBody<Error = Infallible> + Unpin, length: usize) -> Vec<Bytes> {
        assert_eq!(body.size(), BodySize::Sized(length as u64));
        let mut context = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match Pin::new(&mut body).poll_next(&mut context) {
            Poll::Ready(piece) => piece.map(|piece| piece.unwrap()),
            Poll::Pending => panic!("there is nothing to wait for"),
        })
        .collect()
    }

    #[test]
    fn pieces_make_up_the_whole() {
        for (length, count) in [(0, 0), (1, 1), (PIECE, 1), (PIECE + 1, 2), (5 * PIECE, 5)] {
            let whole: Bytes = (0..length).map(|at| (at % 251) as u8).collect();
            let pieces = pieces(Pieces::new(whole.clone(), None), length);
            assert_eq!(pieces.len(), count);
            assert!(pieces.concat() == whole, "{length} bytes");
        }
    }

    #[test]
    fn parts_are_sent_with_the_same_bytes_between_them() {
        let long = "long".repeat(PIECE);
        for parts in [
            &[""][..],
            &["a"],
            &["", ""],
            &["a", "", "c"],
            &["", "b", ""],
            &[&long, "b", &long],
        ] {
            for between in ["", "-", "http://host"] {
                let whole = parts.join(between);
                let bytes = parts
                    .iter()
                    .map(|part| Bytes::copy_from_slice(part.as_bytes()))
                    .collect();
                let between = Bytes::from_static(between.as_bytes());
                let pieces = pieces(joined(bytes, between, whole.len()), whole.len());
                assert!(
                    pieces
                        .iter()
                        .all(|piece| (1..=PIECE).contains(&piece.len()))
                );
                assert!(pieces.concat() == whole.as_bytes(), "{parts:.9?}");
            }
        }
    }
}
