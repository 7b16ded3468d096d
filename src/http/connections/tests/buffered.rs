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
async fn answered(all: &Arc<Connections>) -> (DuplexStream, SequentialStream<Buffered>) {
    let (mut client_side, socket) = duplex(1000);
    client_side.write_all(&GET.repeat(2)).await.unwrap();
    let buffered = Buffered {
        socket,
        buffer: Vec::new(),
    };
    let mut stream = SequentialStream::new(buffered, all.admit(client(1)).unwrap());
    assert_eq!(read(&mut stream).await, GET);
    stream.exchange().set(Stage::Answering);
    stream.write_all(&[b'x'; 4000]).await.unwrap();
    stream.exchange().set(Stage::Answered { is_last: false });
    (client_side, stream)
}

#[tokio::test(start_paused = true)]
async fn the_next_request_waits_until_the_response_has_left_the_buffer() {
    let all = connections(10, 10);
    let (mut client_side, mut stream) = answered(&all).await;
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

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_the_rest_of_the_buffer_is_timed_out() {
    let all = connections(10, 10);
    let (_client_side, mut stream) = answered(&all).await;
    let began = Instant::now();
    assert_eq!(
        stream.flush().await.unwrap_err().kind(),
        io::ErrorKind::TimedOut
    );
    assert_eq!(
        (began.elapsed().as_secs(), all.metrics.write_timeout.get()),
        (60, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_forever_for_a_client_to_read() {
    let all = connections(10, 10);
    let (_client_side, mut stream) = answered(&all).await;
    let began = Instant::now();
    assert_eq!(
        stream.shutdown().await.unwrap_err().kind(),
        io::ErrorKind::TimedOut
    );
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_makes_room_for_another() {
    let all = connections(1, 1);
    let (_client_side, mut stream) = answered(&all).await;
    assert!(
        tokio::time::timeout(Duration::from_secs(2), stream.flush())
            .await
            .is_err()
    );
    let (_other, admitted) = duplex(10);
    let _other_stream =
        SequentialStream::new(admitted, all.admit(client(2)).expect("there is room"));
    assert_eq!(
        stream.flush().await.unwrap_err().kind(),
        io::ErrorKind::ConnectionAborted
    );
}

#[tokio::test(start_paused = true)]
async fn a_throttled_connection_is_neither_timed_out_nor_evicted() {
    let limits = Limits {
        bandwidth: std::num::NonZeroU64::new(1024),
        ..connections(1, 1).limits
    };
    let all = Arc::new(Connections::new(limits, metrics::Connections::default()));
    let (mut client_side, mut stream) = pair(&all, 1 << 20);
    client_side.write_all(GET).await.unwrap();
    assert_eq!(read(&mut stream).await, GET);
    let response = vec![b'x'; 1024 * 200];
    stream.exchange().set(Stage::Answering);
    let began = Instant::now();
    let (written, ()) = tokio::join!(stream.write_all(&response), async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(
            all.admit(client(2)).is_none(),
            "a throttled connection is busy"
        );
    });
    written.unwrap();
    assert!(
        (199..=200).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (all.metrics.write_timeout.get(), all.metrics.sent.get()),
        (0, response.len() as u64)
    );
    assert!((190.0..210.0).contains(&all.metrics.throttled.seconds()));
}
