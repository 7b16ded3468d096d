//! Streams between a simulated client and a simulated server framework, with a paused clock.

mod buffered;

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use proptest::prelude::*;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::time::Instant;

use super::progress::AnswerStage;
use super::*;

type Stream = SequentialStream<DuplexStream>;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";

const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
    head: Duration::from_secs(5),
    idle: Duration::from_secs(75),
};

/// A client and the stream to it, with buffers of `room` bytes.
fn pair(room: usize) -> (DuplexStream, Stream) {
    let (client_side, server_side) = duplex(room);
    let open = OpenConnection::new(Gauge::default());
    (
        client_side,
        SequentialStream::new(server_side, TIMEOUTS, open),
    )
}

/// One read: `None` if it is pending.
async fn read_now(stream: &mut Stream) -> Option<io::Result<Vec<u8>>> {
    let mut bytes = vec![0; 128 << 10];
    poll_fn(|context| {
        let mut room = ReadBuf::new(&mut bytes);
        let read = std::pin::Pin::new(&mut *stream).poll_read(context, &mut room);
        Poll::Ready(match read {
            Poll::Pending => None,
            Poll::Ready(read) => Some(read.map(|()| room.filled().to_vec())),
        })
    })
    .await
}

/// Reads all of a head; empty at the end of the stream.
async fn read<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut SequentialStream<S>) -> Vec<u8> {
    let mut head = Vec::new();
    loop {
        let read = stream.read_buf(&mut head).await.unwrap();
        if read == 0 || head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n") {
            return head;
        }
    }
}

/// Answers a request as actix-http does.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SequentialStream<S>,
    response: &[u8],
) {
    stream.write_all(response).await.unwrap();
    stream
        .progress()
        .set(AnswerStage::Answered { is_last: false });
    stream.flush().await.unwrap();
}

/// Reads to the end of the stream.
async fn seconds_to_end(stream: &mut Stream) -> u64 {
    let began = Instant::now();
    while stream.read(&mut [0; 1024]).await.unwrap() > 0 {}
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_comes_is_closed() {
    let (mut client, mut stream) = pair(1024);
    assert_eq!(
        seconds_to_end(&mut stream).await,
        5,
        "the first request must come soon"
    );
    let (mut other, mut stream) = pair(1024);
    other.write_all(&[GET, b"\r\n"].concat()).await.unwrap();
    assert_eq!(read(&mut stream).await, GET);
    assert!(read_now(&mut stream).await.is_none());
    answer(&mut stream, ANSWER).await;
    assert_eq!(
        seconds_to_end(&mut stream).await,
        75,
        "an empty line begins no head"
    );
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    other.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, ANSWER);
    drop(stream);
    client.write_all(GET).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_later_head_must_come_in_time_too() {
    let (mut client, mut stream) = pair(1024);
    client.write_all(&[GET, b"G"].concat()).await.unwrap();
    assert_eq!(read(&mut stream).await, GET);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(
        read_now(&mut stream).await.is_none(),
        "a tile may take long"
    );
    answer(&mut stream, ANSWER).await;
    let trickle = async {
        for byte in b"ET / HTTP/1.1\r\n" {
            tokio::time::sleep(Duration::from_secs(1)).await;
            client.write_all(&[*byte]).await.unwrap();
        }
    };
    tokio::select! {
        () = trickle => panic!("it was let go on"),
        seconds = seconds_to_end(&mut stream) => assert_eq!(seconds, 5),
    }
    stream.shutdown().await.unwrap();
    let mut got = vec![0; 1024];
    let length = client.read(&mut got).await.unwrap();
    let text = String::from_utf8_lossy(&got[ANSWER.len()..length]);
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_is_noticed_and_one_that_only_ends_its_side_is_answered() {
    let (mut client, mut stream) = pair(1024);
    client.write_all(&[GET, GET].concat()).await.unwrap();
    client.shutdown().await.unwrap();
    for _ in 0..2 {
        assert_eq!(read(&mut stream).await, GET);
        assert!(
            read_now(&mut stream).await.is_none(),
            "an answer at once would not be too late"
        );
        answer(&mut stream, ANSWER).await;
    }
    assert!(read(&mut stream).await.is_empty());
    let (mut client, mut stream) = pair(1024);
    client.write_all(GET).await.unwrap();
    assert_eq!(read(&mut stream).await, GET);
    drop(client);
    assert!(read_now(&mut stream).await.is_none());
    assert!(
        read_now(&mut stream).await.unwrap().unwrap().is_empty(),
        "the one who waits has left"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_client_that_is_closed_still_sends_is_taken_for_a_while() {
    let (mut client, mut stream) = pair(256);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")
        .await
        .unwrap();
    assert!(read(&mut stream).await.starts_with(b"POST"));
    stream.write_all(ANSWER).await.unwrap();
    stream
        .progress()
        .set(AnswerStage::Answered { is_last: true });
    stream.flush().await.unwrap();
    assert!(
        read(&mut stream).await.is_empty(),
        "a body is not read as a request"
    );
    let (sent, closed) = tokio::join!(client.write_all(&[b'x'; 900]), stream.shutdown());
    sent.unwrap();
    closed.unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, ANSWER);
}

/// Requests as clients send them, some of them with line endings that only a lenient parser
/// accepts.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![Just("\r\n"), Just("\n")];
    let method = prop_oneof![4 => Just("GET"), 1 => Just("HEAD"), 1 => Just("OPTIONS")];
    let version = prop_oneof![3 => Just("HTTP/1.1"), 1 => Just("HTTP/1.0")];
    (
        method,
        version,
        line,
        0usize..300,
        prop_oneof![9 => 0usize..200, 1 => 200usize..9000],
    )
        .prop_map(|(method, version, line, path, long)| {
            let (path, long) = ("p".repeat(path), "v".repeat(long));
            let head = [
                format!("{method} /{path} {version}"),
                "Host: a".into(),
                "Connection: keep-alive".into(),
            ];
            format!("{}{line}long: {long}{line}{line}", head.join(line)).into_bytes()
        })
}

/// Simulates a framework that answers every request, and returns the bytes of each.
async fn answered(mut stream: Stream, pieces: usize) -> Vec<Vec<u8>> {
    let mut handed = Vec::new();
    loop {
        let head = read(&mut stream).await;
        if head.is_empty() {
            return handed;
        }
        assert!(
            read_now(&mut stream)
                .await
                .is_none_or(|read| read.unwrap().is_empty()),
            "two at a time"
        );
        let answer = if head.starts_with(b"HEAD") {
            &ANSWER[..ANSWER.len() - 3]
        } else {
            ANSWER
        };
        handed.push(head);
        for piece in answer.chunks(pieces) {
            stream.write_all(piece).await.unwrap();
        }
        stream
            .progress()
            .set(AnswerStage::Answered { is_last: false });
        stream.flush().await.unwrap();
    }
}

proptest! {
    #[test]
    fn pipelined_requests_are_handed_on_one_at_a_time_and_in_order(
        requests in prop::collection::vec(request(), 1..40),
        splits in prop::collection::vec(1usize..700, 1..20),
        pieces in 1usize..60,
        room in 100usize..9000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let handed = runtime.unwrap().block_on(async {
            let (mut client, stream) = pair(room);
            let sent = requests.concat();
            let expected: usize = requests.iter().map(|r| ANSWER.len() - if r.starts_with(b"HEAD") { 3 } else { 0 }).sum();
            let exchange = async move {
                let (mut reader, mut writer) = tokio::io::split(&mut client);
                let send = async {
                    let mut rest = &sent[..];
                    for split in splits.iter().cycle() {
                        let (now, later) = rest.split_at((*split).min(rest.len()));
                        writer.write_all(now).await.unwrap();
                        tokio::task::yield_now().await;
                        rest = later;
                        if rest.is_empty() { break }
                    }
                };
                let mut got = vec![0; expected];
                let receive = reader.read_exact(&mut got);
                tokio::join!(send, async { receive.await.unwrap() });
            };
            tokio::join!(answered(stream, pieces), exchange).0
        });
        prop_assert_eq!(handed, requests);
    }
}
