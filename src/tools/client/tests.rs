use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use super::*;

/// A server that answers `each` requests on successive connections and then closes them; returns
/// the requests it received after the last one.
fn server(each: &'static [usize], answer: &'static str) -> (Client, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(&listener.local_addr().unwrap().to_string()).unwrap();
    let requests = thread::spawn(move || {
        let mut requests = Vec::new();
        for count in each {
            let mut stream = listener.accept().unwrap().0;
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for _ in 0..*count {
                let request: Vec<String> = lines
                    .by_ref()
                    .map(Result::unwrap)
                    .take_while(|line| !line.is_empty())
                    .collect();
                requests.push(request.join("|").to_lowercase());
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
        requests
    });
    (client, requests)
}

fn get(client: &Client, path: &str) -> Result<Answer, String> {
    client.request(&Method::GET, path, &[("Sec-Purpose", "prefetch")])
}

#[test]
fn a_connection_is_kept_and_opened_again_if_the_server_closed_it() {
    let (client, requests) = server(
        &[2, 1],
        "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nhi",
    );
    for path in ["/a", "/b", "/c"] {
        let answer = get(&client, path).unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hi"[..]));
        assert_eq!(
            (answer.header("ETag"), answer.header("x")),
            (Some("\"x\""), None)
        );
    }
    let requests = requests.join().unwrap();
    for (request, path) in requests.iter().zip(["/a", "/b", "/c"]) {
        assert!(
            request.starts_with(&format!("get {path} http/1.1|")),
            "{requests:?}"
        );
        assert!(
            request.contains("|sec-purpose: prefetch") && !request.contains("accept-encoding"),
            "{requests:?}"
        );
    }
}

#[test]
fn a_connection_that_is_not_kept_is_not_used_again() {
    let (client, requests) = server(
        &[1, 1],
        "HTTP/1.1 503 Full\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(
        ["/a", "/b"].map(|path| get(&client, path).unwrap().status),
        [503, 503]
    );
    assert_eq!(requests.join().unwrap().len(), 2);
}

#[test]
fn a_body_ends_with_its_chunks_or_the_connection() {
    for answer in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\nhello",
        "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        let (client, _) = server(&[1], answer);
        assert_eq!(get(&client, "/a").unwrap().body, b"hello", "{answer}");
    }
}

#[test]
fn an_answer_that_ends_too_early_is_not_requested_again() {
    let (client, requests) = server(&[1, 1], "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell");
    for path in ["/a", "/b"] {
        let error = get(&client, path).unwrap_err();
        assert!(error.contains("closed before the end"), "{error}");
    }
    let requests = requests.join().unwrap();
    assert!(
        requests[0].starts_with("get /a ") && requests[1].starts_with("get /b "),
        "{requests:?}"
    );
}

#[test]
fn a_server_that_is_silent_or_absent_or_no_http_server_is_reported_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let silent = Client::with_patience(
        Server::parse(&host).unwrap().0,
        String::new(),
        Duration::from_millis(30),
    );
    let error = get(&silent, "/").unwrap_err();
    assert_eq!(
        error,
        format!("GET http://{host}/: no answer: no complete response within 0.03 s")
    );
    // No test gets a port this low from the system.
    let error = get(&Client::new("127.0.0.1:1").unwrap(), "/").unwrap_err();
    assert!(
        error.contains(": no answer: 127.0.0.1:1 cannot be reached: Connection refused"),
        "{error}"
    );
    let error = get(&Client::new("no-such-host.invalid").unwrap(), "/").unwrap_err();
    assert!(
        error.contains(": no answer: no-such-host.invalid cannot be reached: "),
        "{error}"
    );
    for wrong in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
    ] {
        let (client, _) = server(&[1], wrong);
        let error = get(&client, "/").unwrap_err();
        assert!(
            error.contains(": no answer: the response is not valid HTTP/1.1: "),
            "{error}"
        );
    }
}

#[test]
fn a_path_that_cannot_be_requested_is_an_error() {
    let (client, requests) = server(&[], "");
    requests.join().unwrap();
    for path in ["/a b", "/a\r\nX: y"] {
        let error = get(&client, path).unwrap_err();
        assert!(
            error.ends_with(": the URL cannot be requested: invalid uri character"),
            "{error}"
        );
    }
}

#[test]
fn an_address_is_reduced_to_its_host() {
    for url in [
        "http://host:1",
        "host:1",
        "http://host:1/",
        "http://host:1/a/b?c",
    ] {
        assert_eq!(Client::new(url).unwrap().base(), "http://host:1", "{url}");
    }
    for url in [
        "ftp://host",
        "",
        "http://",
        "https://",
        "unix:",
        "unix::/k/secret",
        "a host",
        "[::1",
        "host:65536",
        "0:70000",
        "host:x",
    ] {
        assert!(Client::new(url).is_err(), "{url}");
    }
}

#[test]
fn a_problem_is_reported_with_the_detail_in_its_body() {
    let answer = |body: &str| Answer {
        url: "/a".to_owned(),
        status: 503,
        headers: HeaderMap::new(),
        body: body.as_bytes().to_vec(),
    };
    assert_eq!(
        answer(r#"{"detail": "the queue is full"}"#).problem(),
        "/a: the status is 503: the queue is full"
    );
    assert_eq!(
        answer("<html>").found().unwrap_err(),
        "/a: the status is 503"
    );
}

#[test]
fn a_secret_in_the_address_comes_before_every_path() {
    for (url, prefix) in [
        ("http://a", ""),
        ("http://a/", ""),
        ("http://a/volumes/", ""),
        ("http://a/k/secret", "/k/secret"),
        ("http://a/k/secret/ndtilecache/x?y", "/k/secret"),
        ("http://a/volumes/k/secret/", "/volumes/k/secret"),
        ("a:80/k/", ""),
        ("https://a/k/secret/x", "/k/secret"),
        ("unix:/k/run/a.sock", ""),
        ("unix:/run/a.sock:/k/secret/x", "/k/secret"),
    ] {
        let client = Client::new(url).unwrap();
        assert_eq!(client.prefix, prefix, "{url}");
        assert!(!client.base().contains("secret"));
    }
}
