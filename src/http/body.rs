//! A tile as the body of an answer, handed over in pieces.
//!
//! The framework copies every body into a buffer of its connection's, and writes that. A whole tile has to be copied
//! before its client gets the first byte of it, and makes the buffer larger than the framework keeps (128 KiB), so that
//! memory is taken and given back for each answer. Of a piece the buffer stays, in the core's cache even, and the client
//! reads one while the next is copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

/// The most bytes of a piece. The buffer holds it and an answer's headers, and must stay below what the framework keeps;
/// smaller ones cost more calls of the system.
const PIECE: usize = 96 << 10;

/// What is left of a body.
pub(super) struct Pieces(Bytes);

impl Pieces {
    /// The body of these bytes, which are shared and not copied.
    pub fn of(whole: Bytes) -> Self {
        Self(whole)
    }
}

impl MessageBody for Pieces {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let length = self.0.len().min(PIECE);
        Poll::Ready((length > 0).then(|| Ok(self.0.split_to(length))))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn pieces(whole: &Bytes) -> Vec<Bytes> {
        let mut body = Pieces::of(whole.clone());
        assert_eq!(body.size(), BodySize::Sized(whole.len() as u64));
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
            let pieces = pieces(&whole);
            assert_eq!(pieces.len(), count);
            assert!(pieces.concat() == whole, "{length} bytes");
        }
    }
}
