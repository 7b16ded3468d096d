use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use super::*;

/// A server that answers `each` requests on successive connections and then closes them; returns
/// the requests it received after the last one.
fn listening(
    each: &'static [usize],
    answer: &'static str,
) -> (RemoteServer, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
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
    (RemoteServer::new(&address, 0).unwrap(), requests)
}

#[tokio::test]
async fn a_connection_is_kept_and_opened_again_if_the_server_closed_it() {
    let (server, requests) = listening(
        &[2, 1],
        "HTTP/1.1 200 OK\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nhi",
    );
    for path in ["/a", "/b", "/c"] {
        let answer = server.get(path).await.unwrap();
        assert_eq!((answer.status, answer.retry_after), (200, Some(7)));
        assert_eq!(answer.body, "hi");
    }
    let requests = requests.join().unwrap();
    for (request, path) in requests.iter().zip(["/a", "/b", "/c"]) {
        assert!(
            request.starts_with(&format!("get {path} http/1.1|"))
                && request.contains("|sec-purpose: prefetch")
                && !request.contains("accept-encoding"),
            "{requests:?}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_problem_is_reported_with_its_detail() {
    for (answer, problem) in [
        (
            "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
            "/a: the status is 302",
        ),
        (
            "HTTP/1.1 503 Full\r\nContent-Length: 31\r\n\r\n{\"detail\": \"the queue is full\"} ",
            "/a: the status is 503: the queue is full",
        ),
    ] {
        let (server, _) = listening(&[1], answer);
        assert_eq!(server.get("/a").await.unwrap().problem("/a"), problem);
    }
}

#[tokio::test]
async fn a_server_that_is_absent_or_no_http_server_is_reported_as_such() {
    let (server, _) = listening(&[1], "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell");
    let error = server.get("/a").await.err().unwrap();
    assert!(error.starts_with("/a: no answer: "), "{error}");
    let (server, _) = listening(&[1], "SSH-2.0-OpenSSH_9.2\r\n");
    let error = server.get("/a").await.err().unwrap();
    assert!(error.contains("invalid HTTP"), "{error}");
    // No test gets a port this low from the system.
    for (address, problem) in [
        (
            "http://127.0.0.1:1/k/secret",
            "http://127.0.0.1:1 cannot be reached: ",
        ),
        (
            "http://no-such-host.invalid",
            "http://no-such-host.invalid cannot be reached: ",
        ),
        (
            "unix:/absent.sock:/k/secret",
            "unix:/absent.sock cannot be reached: ",
        ),
    ] {
        let server = RemoteServer::new(address, 0).unwrap();
        let error = server.get("/a").await.err().unwrap();
        assert!(
            error.starts_with(&format!("/a: no answer: {problem}")) && !error.contains("secret"),
            "{error}"
        );
    }
}

#[test]
fn an_address_may_have_a_path_with_a_secret_which_is_not_shown() {
    for (address, base, name) in [
        ("http://a", "http://a", "http://a"),
        ("https://a:1/?b#c", "https://a:1", "https://a:1"),
        ("http://a/k/secret/", "http://a/k/secret", "http://a"),
        ("unix:/run/a.sock", "http://localhost", "unix:/run/a.sock"),
        ("unix:a:/k/secret", "http://localhost/k/secret", "unix:a"),
    ] {
        let server = RemoteServer::new(address, 0).unwrap();
        assert_eq!((server.base.as_str(), server.name.as_str()), (base, name));
    }
    for address in [
        "http://",
        "https://",
        "unix:",
        "unix::/k/secret",
        "http://a:65536",
        "http://a b",
    ] {
        let error = RemoteServer::new(address, 0).unwrap_err();
        assert!(error.contains("expected for example http://"), "{error}");
    }
}
