//! Sockets with a buffer of their own, as TLS has: what they accept has not been sent yet.

use std::pin::Pin;
use std::task::{Context, ready};

use super::*;

/// Accepts everything, and sends it when flushed or shut down.
struct Buffered {
    socket: DuplexStream,
    buffer: Vec<u8>,
}

impl Buffered {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffer.is_empty() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, &self.buffer))?;
            self.buffer.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Buffered {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Buffered {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().buffer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.socket).poll_shutdown(context)
    }
}

/// A client that has sent two requests, and the stream to it with the first response written; the
/// buffers between them take a quarter of it.
async fn answered() -> (DuplexStream, SequentialStream<Buffered>) {
    let (mut client_side, socket) = duplex(1000);
    client_side.write_all(&GET.repeat(2)).await.unwrap();
    let buffered = Buffered {
        socket,
        buffer: Vec::new(),
    };
    let open = OpenConnection::new(Gauge::default());
    let mut stream = SequentialStream::new(buffered, TIMEOUTS, open);
    assert_eq!(read(&mut stream).await, GET);
    stream.write_all(&[b'x'; 4000]).await.unwrap();
    stream
        .progress()
        .set(AnswerStage::Answered { is_last: false });
    (client_side, stream)
}

#[tokio::test(start_paused = true)]
async fn the_next_request_waits_until_the_response_has_left_the_buffer() {
    let (mut client_side, mut stream) = answered().await;
    let mut bytes = vec![0; 4096];
    let early = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut bytes)).await;
    assert!(early.is_err(), "{early:?}");
    let (flushed, got) = tokio::join!(stream.flush(), async {
        client_side.read_exact(&mut [0; 4000]).await
    });
    flushed.unwrap();
    assert_eq!(got.unwrap(), 4000);
    assert_eq!(read(&mut stream).await, GET);
}
