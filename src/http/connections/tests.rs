//! Streams between a simulated client and a simulated server framework, with a paused clock.

mod buffered;

use std::future::poll_fn;
use std::io;
use std::net::Ipv4Addr;
use std::task::Poll;

use proptest::prelude::*;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};

use super::exchange::Stage;
use super::*;

/// What actix-http answers where it cannot parse a head.
const MALFORMED: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
const TOO_LARGE: &[u8] =
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";

type Stream = SequentialStream<DuplexStream>;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";

fn connections(connections: usize, for_each_client: usize) -> Arc<Connections> {
    let [head, idle, write] = [5, 75, 60].map(Duration::from_secs);
    let limits = Limits {
        connections,
        for_each_client,
        bandwidth: None,
        head,
        idle,
        write,
    };
    Arc::new(Connections::new(limits, metrics::Connections::default()))
}

fn client(number: u8) -> Option<IpAddr> {
    Some(Ipv4Addr::new(10, 0, 0, number).into())
}

/// A client and the stream to it, with buffers of `room` bytes.
fn pair(all: &Arc<Connections>, room: usize) -> (DuplexStream, Stream) {
    let (client_side, server_side) = duplex(room);
    (
        client_side,
        SequentialStream::new(server_side, all.admit(client(1)).unwrap()),
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

/// Reads until the stream fails; returns the seconds that it took.
async fn seconds_to_refusal(stream: &mut Stream) -> u64 {
    let began = Instant::now();
    while stream.read(&mut [0; 1024]).await.is_ok() {}
    began.elapsed().as_secs()
}

/// Answers a request as actix-http does.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SequentialStream<S>,
    response: &[u8],
) {
    stream.exchange().set(Stage::Answering);
    stream.write_all(response).await.unwrap();
    stream.exchange().set(Stage::Answered { is_last: false });
    stream.flush().await.unwrap();
}

async fn seconds_to_end(stream: &mut Stream) -> u64 {
    let began = Instant::now();
    assert!(read(stream).await.is_empty());
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_comes_is_closed() {
    let all = connections(10, 10);
    let (mut client, mut stream) = pair(&all, 1024);
    assert_eq!(
        seconds_to_end(&mut stream).await,
        5,
        "the first request must come soon"
    );
    assert_eq!(all.metrics.head_timeout.get(), 1);
    let (mut other, mut stream) = pair(&all, 1024);
    other.write_all(&[GET, b"\r\n"].concat()).await.unwrap();
    assert_eq!(read(&mut stream).await, GET);
    assert!(read_now(&mut stream).await.is_none());
    answer(&mut stream, ANSWER).await;
    assert_eq!(
        seconds_to_end(&mut stream).await,
        75,
        "an empty line begins no head"
    );
    assert_eq!(all.metrics.idle_timeout.get(), 1);
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    other.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, ANSWER);
    drop(stream);
    client.write_all(GET).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_later_head_must_come_in_time_too() {
    let all = connections(10, 10);
    let (mut client, mut stream) = pair(&all, 1024);
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
        seconds = seconds_to_refusal(&mut stream) => assert_eq!(seconds, 5 + 1, "the client has a second to read it"),
    }
    let mut got = vec![0; 1024];
    let length = client.read(&mut got).await.unwrap();
    let text = String::from_utf8_lossy(&got[ANSWER.len()..length]);
    assert!(
        text.starts_with("HTTP/1.1 408 ") && text.contains("head_timeout"),
        "{text}"
    );
    assert_eq!(all.metrics.head_timeout.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_ends_the_connection() {
    let all = connections(10, 10);
    let (mut client, mut stream) = pair(&all, 64);
    client.write_all(GET).await.unwrap();
    assert_eq!(read(&mut stream).await, GET);
    let response = [b'x'; 1000];
    stream.exchange().set(Stage::Answering);
    // A client that reads a little now and then is not disconnected.
    let reading = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            client.read_exact(&mut [0; 64]).await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let began = Instant::now();
    tokio::select! {
        () = reading => {}
        written = stream.write_all(&response) => assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut),
    }
    assert_eq!(
        (began.elapsed().as_secs(), all.metrics.write_timeout.get()),
        (250 + 60, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_request_is_refused_with_our_headers() {
    let all = connections(10, 10);
    let long = [b"GET / HTTP/1.1\r\nHost: ".to_vec(), vec![b'a'; 70 << 10]].concat();
    for (sent, written, expected) in [
        (
            &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
            MALFORMED,
            "https://",
        ),
        (b"\x80\x80\x80\x80", MALFORMED, "HTTP/1.1 400 "),
        (b"GET / HTTP/1.1\r\n\r\n", MALFORMED, "Host"),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\na: b\r\n\r\n",
            TOO_LARGE,
            "HTTP/1.1 431 ",
        ),
        (&long, b"", "HTTP/1.1 431 "),
    ] {
        let (mut client, mut stream) = pair(&all, 128 << 10);
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        if written.is_empty() {
            seconds_to_refusal(&mut stream).await;
        } else {
            assert_eq!(read_now(&mut stream).await.unwrap().unwrap(), sent);
            stream.write_all(written).await.unwrap_err();
        }
        drop(stream);
        let mut got = String::new();
        client.read_to_string(&mut got).await.unwrap();
        assert!(
            got.contains(expected) && got.contains("connection: close"),
            "{got}"
        );
        assert!(
            got.contains("x-request-id: ") && got.contains("content-security-policy: "),
            "{got}"
        );
    }
    assert_eq!(all.metrics.malformed.get(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_is_noticed_and_one_that_only_ends_its_side_is_answered() {
    let all = connections(10, 10);
    let (mut client, mut stream) = pair(&all, 1024);
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
    let (mut client, mut stream) = pair(&all, 1024);
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
    let all = connections(10, 10);
    let (mut client, mut stream) = pair(&all, 256);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")
        .await
        .unwrap();
    assert!(read(&mut stream).await.starts_with(b"POST"));
    stream.exchange().set(Stage::Answering);
    stream.write_all(ANSWER).await.unwrap();
    stream.exchange().set(Stage::Answered { is_last: true });
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

#[tokio::test(start_paused = true)]
async fn at_the_limit_the_longest_idle_one_is_closed() {
    let all = connections(3, 3);
    let mut streams: Vec<_> = (0..3).map(|_| pair(&all, 1024)).collect();
    let answer_one = async |(client, stream): &mut (DuplexStream, Stream)| {
        client.write_all(GET).await.unwrap();
        assert_eq!(read(stream).await, GET);
        answer(stream, ANSWER).await;
    };
    for pair in &mut streams {
        answer_one(pair).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    answer_one(&mut streams[0]).await;
    let (_client, _newcomer) = pair(&all, 1024);
    assert_eq!(seconds_to_end(&mut streams[1].1).await, 0);
    assert!(
        read_now(&mut streams[0].1).await.is_none() && read_now(&mut streams[2].1).await.is_none()
    );
    assert_eq!(
        (
            all.metrics.evicted.get(),
            all.metrics.refused.get(),
            all.metrics.open.get()
        ),
        (1, 0, 4)
    );
    drop(streams);
    assert_eq!((all.metrics.open.get(), lock(&all.open).len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_being_answered_keeps_the_place() {
    let all = connections(1, 9);
    let (mut client, mut stream) = pair(&all, 64);
    client.write_all(GET).await.unwrap();
    assert_eq!(read(&mut stream).await, GET);
    assert!(all.admit(self::client(2)).is_none());
    assert_eq!(all.metrics.refused.get(), 1);
    // A client that does not read its response does not keep its place.
    let response = [b'x'; 1000];
    stream.exchange().set(Stage::Answering);
    let newcomer = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        all.admit(self::client(2))
    };
    let (written, newcomer) = tokio::join!(stream.write_all(&response), newcomer);
    assert_eq!(
        written.unwrap_err().kind(),
        io::ErrorKind::ConnectionAborted
    );
    assert!(newcomer.is_some());
}

#[test]
fn a_client_has_a_limit_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _context = runtime.enter();
    let all = connections(10, 2);
    let mut admitted: Vec<_> = [1, 2, 1]
        .map(|number| all.admit(client(number)).unwrap())
        .into();
    admitted
        .iter()
        .for_each(|one| one.set_activity(Activity::Busy));
    assert!(
        all.admit(client(1)).is_none(),
        "all of its connections are busy"
    );
    admitted.push(all.admit(client(2)).unwrap());
    admitted[2].set_activity(Activity::Idle(Instant::now()));
    admitted.push(all.admit(client(1)).unwrap());
    let evicted: Vec<bool> = admitted
        .iter_mut()
        .map(|one| one.is_evicted(Waker::noop()))
        .collect();
    assert_eq!(evicted, [false, false, true, false, false]);
    admitted.clear();
    assert!(lock(&all.open).is_empty());
    let [one, same, other] = ["2001:db8:1:2::1", "2001:db8:1:2:f::", "2001:db8:1:3::1"]
        .map(|text| counted_as(text.parse().unwrap()));
    assert!(one == same && one != other);
    assert_eq!(
        counted_as("::ffff:10.0.0.1".parse().unwrap()),
        client(1).unwrap()
    );
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
        stream.exchange().set(Stage::Answering);
        for piece in answer.chunks(pieces) {
            stream.write_all(piece).await.unwrap();
        }
        stream.exchange().set(Stage::Answered { is_last: false });
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
            let (mut client, stream) = pair(&connections(1, 1), room);
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
