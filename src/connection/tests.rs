use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::answer::{self, Head};
use super::incoming::Incoming;
use super::{Answer, Broken, Connection};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

/// A reader that returns its bytes in pieces of this size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let length = self.1.min(self.0.len()).min(into.len());
        let (now, later) = self.0.split_at(length);
        into[..length].copy_from_slice(now);
        self.0 = later;
        Ok(length)
    }
}

/// A status, a body, and whether the connection can be reused; or the error.
type Came = Result<(u16, Vec<u8>, bool), String>;

/// All responses in a stream.
fn answers(stream: &[u8], pieces: usize) -> Vec<Came> {
    let mut from = Incoming::new(Pieces(stream, pieces));
    let (mut head, mut body, mut all) = (Vec::new(), vec![7; 3], Vec::new());
    loop {
        from.begin(Instant::now() + LONG);
        match answer::read(&mut from, &mut head, &mut body) {
            Ok(Head { status, is_kept, length }) => all.push(Ok((status, body[..length].to_vec(), is_kept))),
            Err(Broken::Closed) if !from.has_come() && !all.is_empty() => return all,
            Err(error) => {
                all.push(Err(error.to_string()));
                return all;
            }
        }
        if !all.last().is_some_and(|last| matches!(last, Ok((_, _, true)))) {
            return all;
        }
    }
}

fn one(stream: &str) -> Came {
    answers(stream.as_bytes(), usize::MAX).remove(0)
}

#[test]
fn a_body_ends_where_its_head_says_however_it_comes() {
    let framed = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nConnection: Close\r\n\r\nhello", false),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n",
            true,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: x, keep-alive\r\n\r\nhello", true),
        ("HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
    ];
    for (stream, is_kept) in framed {
        for pieces in [1, 2, 3, 7, usize::MAX] {
            let expected = vec![Ok((200, b"hello".to_vec(), is_kept))];
            assert_eq!(answers(stream.as_bytes(), pieces), expected, "{stream} in pieces of {pieces}");
        }
    }
    for (status, length) in [(204, ""), (304, "Content-Length: 90\r\n"), (404, "Content-Length: 0\r\n")] {
        let stream = format!("HTTP/1.1 {status} So\r\n{length}\r\n");
        assert_eq!(one(&stream), Ok((status, Vec::new(), true)));
    }
}

#[test]
fn what_is_no_answer_is_an_error_that_says_what_is_wrong() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(200));
    let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(100_000));
    let wrong = [
        ("SSH-2.0-OpenSSH_9.2\r\n", "not valid HTTP/1.1: its head"),
        ("HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello", "Content-Length is \"five\""),
        ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", "Content-Length is \"+5\""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "expected one number"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "expected at most 67108864"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "Transfer-Encoding is \"gzip, chunked\"",
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\n", "size of a chunk is not a number"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", "at most 67108864"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n",
            "longer than its stated size",
        ),
        (&many, "its head: too many headers"),
        (&endless, "its head has more than"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "closed before the end"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "closed before the end"),
        ("HTTP/1.1 200", "closed before the end"),
        ("", "closed before the end"),
    ];
    for (stream, because) in wrong {
        let error = one(stream).unwrap_err();
        assert!(error.contains(because), "{stream:.80}: {error}");
    }
}

proptest! {
    #[test]
    fn answers_behind_one_another_are_told_apart(
        bodies in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40_000), 0..3usize), 1..5),
        pieces in 1..20_000usize,
    ) {
        let mut stream = Vec::new();
        for (body, chunks) in &bodies {
            stream.extend_from_slice(&framed(body, *chunks));
        }
        // In sequence: each is requested when the previous one has arrived.
        let mut from = Incoming::new(Pieces(&stream, pieces));
        let (mut head, mut body) = (Vec::new(), Vec::new());
        for (expected, _) in &bodies {
            from.begin(Instant::now() + LONG);
            let Head { length, .. } = answer::read(&mut from, &mut head, &mut body).unwrap();
            prop_assert!(&body[..length] == expected);
        }
    }

    #[test]
    fn no_bytes_whatever_make_a_reader_panic(stream in prop::collection::vec(any::<u8>(), 0..200), start in 0..3usize) {
        let before = ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"][start];
        answers(&[before.as_bytes(), &stream].concat(), 5);
    }
}

/// A body with its length, or in this many chunks.
fn framed(body: &[u8], chunks: usize) -> Vec<u8> {
    if chunks == 0 {
        return [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body]
            .concat();
    }
    let mut stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks((body.len() / chunks).max(1)) {
        stream.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        stream.extend_from_slice(&[chunk, b"\r\n"].concat());
    }
    [stream, b"0\r\n\r\n".to_vec()].concat()
}

/// A server that answers `each` requests on successive connections and then closes them; returns the requests
/// it received after the last one.
fn server(each: &'static [usize], answer: &'static str) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let asked = thread::spawn(move || {
        let mut asked = Vec::new();
        for requests in each {
            let mut stream = listener.accept().unwrap().0;
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for _ in 0..*requests {
                let request: Vec<String> =
                    lines.by_ref().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
                asked.push(request.join("|"));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
        asked
    });
    (host, asked)
}

#[test]
fn a_connection_is_kept_and_opened_again_where_the_server_closed_it() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nhi";
    let (host, asked) = server(&[2, 1], ANSWER);
    let mut connection = Connection::new(&host);
    for path in ["/a", "/b", "/c"] {
        let answer = connection.get(path, &[("Sec-Purpose", "prefetch")]).unwrap();
        assert_eq!((answer.status, answer.body), (200, &b"hi"[..]));
        assert_eq!((answer.header("etag").as_deref(), answer.header("x")), (Some("\"x\""), None));
    }
    let expected = ["/a", "/b", "/c"]
        .map(|path| format!("GET {path} HTTP/1.1|Host: {host}|Accept: */*|Sec-Purpose: prefetch"));
    assert_eq!(asked.join().unwrap(), expected);
}

#[test]
fn what_is_not_kept_is_not_used_again() {
    let (host, asked) =
        server(&[1, 1], "HTTP/1.1 503 Full\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let mut connection = Connection::new(&host);
    assert_eq!(connection.get("/a", &[]).unwrap().status, 503);
    assert_eq!(connection.get("/b", &[]).unwrap().status, 503);
    assert_eq!(asked.join().unwrap().len(), 2);
}

#[test]
fn an_answer_that_ends_too_early_is_not_asked_for_again() {
    let (host, asked) = server(&[1, 1], "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell");
    let mut connection = Connection::new(&host);
    assert!(matches!(connection.get("/a", &[]), Err(Broken::Closed)));
    assert!(matches!(connection.get("/b", &[]), Err(Broken::Closed)));
    let asked = asked.join().unwrap();
    assert!(asked[0].starts_with("GET /a ") && asked[1].starts_with("GET /b "), "{asked:?}");
}

#[test]
fn a_server_that_is_silent_or_absent_is_told_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let patience = Duration::from_millis(30);
    let error = Connection::with_patience(&host, patience).get("/", &[]).unwrap_err();
    assert!(matches!(error, Broken::Late(_)), "{error}");
    drop(listener);
    let error = Connection::new(&host).get("/", &[]).unwrap_err();
    assert!(error.to_string().contains(&format!("{host} cannot be reached")), "{error}");
    let error = Connection::new("no such host").get("/", &[]).unwrap_err();
    assert!(matches!(error, Broken::Unreached { .. }), "{error}");
    for path in ["", "a", "/a b", "/a\r\nX: y", "/ä"] {
        assert!(matches!(Connection::new(&host).get(path, &[]), Err(Broken::NoPath(_))), "{path:?}");
    }
}

#[test]
fn a_problem_is_told_with_what_its_body_says() {
    let said = |body: &'static [u8]| Answer { status: 503, head: b"", body }.problem();
    assert_eq!(said(br#"{"detail": "too many wait"}"#), "the status is 503: too many wait");
    assert_eq!(said(b"<html>"), "the status is 503");
}
