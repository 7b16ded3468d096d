//! `/events`: pages learn of datasets that come, change and go.

use std::io::Read;
use std::net::TcpStream;

use rustix::process::Signal;

use crate::common::volumes::{self, Stored};
use crate::common::{PATIENCE, Place, Server, wait_until};

/// An open stream of events.
pub struct Events {
    stream: TcpStream,
    seen: String,
}

impl Events {
    pub fn of(server: &Server, prefix: &str) -> Self {
        use std::io::Write;
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "GET {prefix}/events HTTP/1.1\r\nHost: voltile.test\r\n\r\n"
        )
        .unwrap();
        let mut events = Self {
            stream,
            seen: String::new(),
        };
        events.wait_for("\r\n\r\n");
        events
    }

    /// Reads on; false at the end of the connection.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let length = self.stream.read(&mut bytes).unwrap();
        self.seen
            .push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        length > 0
    }

    pub fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.read(), "the stream ended: {}", self.seen);
        }
    }
}

fn datasets(place: &Place, tokens: &[&str]) {
    let listed: String = tokens
        .iter()
        .map(|token| format!("[datasets.{token}]\nfile = \"{token}.h5\"\n"))
        .collect();
    let access = "[[access]]\nsecrets = \"lab.txt\"\ndatasets = [\"hidden*\"]\n";
    place.write("voltile.toml", &format!("{access}{listed}"));
}

fn place() -> Place {
    let place = Place::new();
    place.write("lab.txt", "a-secret-of-this-year\n");
    for (seed, name) in ["a", "b", "c", "hidden"].into_iter().enumerate() {
        volumes::planes(&place.path(&format!("{name}.h5")), 3, seed, Stored::Flat);
    }
    datasets(&place, &["a", "b"]);
    place
}

#[test]
fn what_comes_changes_and_goes_is_told_to_those_who_may_see_it() {
    let place = place();
    let server = place.serve::<&str>([]);
    let (mut open, mut lab) = (
        Events::of(&server, ""),
        Events::of(&server, "/k/a-secret-of-this-year"),
    );
    for events in [&mut open, &mut lab] {
        events.wait_for(&format!(
            "event: hello\ndata: {{\"started\":{}",
            server.json("/datasets.json")["started"]
        ));
        let head = events.seen.to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        for header in [
            "content-type: text/event-stream",
            "no-store",
            "x-accel-buffering: no",
        ] {
            assert!(head.contains(header), "{head}");
        }
    }
    datasets(&place, &["a", "hidden", "c"]);
    server.signal(Signal::HUP);
    open.wait_for(
        "event: datasets\ndata: {\"added\":[\"c\"],\"changed\":[],\"removed\":[\"b\"]}\n\n",
    );
    lab.wait_for(
        "event: datasets\ndata: {\"added\":[\"c\",\"hidden\"],\"changed\":[],\"removed\":[\"b\"]}\n\n",
    );
    // A file is replaced; a request for its tile notices that.
    server.allow_error("has changed");
    volumes::planes(&place.path("new.h5"), 3, 9, Stored::Flat);
    std::fs::rename(place.path("new.h5"), place.path("a.h5")).unwrap();
    wait_until("it is opened again", || {
        let answer = server.tile("a/raw/xy/1/0_0_0.png");
        answer.status == 200 && answer.picture() == volumes::plane(9, 1)
    });
    open.wait_for("{\"added\":[],\"changed\":[\"a\"],\"removed\":[]}");
    datasets(&place, &["a", "c"]);
    server.signal(Signal::HUP);
    lab.wait_for("{\"added\":[],\"changed\":[],\"removed\":[\"hidden\"]}");
    assert!(!open.seen.contains("hidden"), "{}", open.seen);
}

#[test]
fn a_client_has_at_most_32_listeners_and_those_that_leave_make_room() {
    let place = place();
    let server = place.serve::<&str>([]);
    let mut listeners: Vec<Events> = (0..32).map(|_| Events::of(&server, "")).collect();
    let refused = server.get("/events");
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("1"))
    );
    listeners.pop();
    wait_until("there is room", || {
        let mut events = Events::of(&server, "");
        events.seen.starts_with("HTTP/1.1 200") && {
            events.wait_for("hello");
            true
        }
    });
}

#[test]
fn the_streams_end_when_the_server_is_stopped_and_when_the_rules_of_access_change() {
    let place = place();
    let mut server = place.serve(["--set", "server.shutdown_timeout=5m"]);
    let mut events = Events::of(&server, "/k/a-secret-of-this-year");
    place.write("lab.txt", "a-secret-of-next-year\n");
    server.signal(Signal::HUP);
    events.wait_for("\r\n0\r\n\r\n");
    let mut events = Events::of(&server, "");
    server.terminate();
    while events.read() {}
    assert!(
        events.seen.ends_with("\r\n0\r\n\r\n"),
        "the answer is whole: {:?}",
        events.seen
    );
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_question_for_the_head_of_the_stream_takes_no_place_and_keeps_the_connection() {
    use std::io::Write;
    let place = place();
    let server = place.serve::<&str>([]);
    let mut connections: Vec<Events> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            write!(
                stream,
                "HEAD /events HTTP/1.1\r\nHost: voltile.test\r\n\r\n"
            )
            .unwrap();
            let mut asked = Events {
                stream,
                seen: String::new(),
            };
            asked.wait_for("\r\n\r\n");
            asked
        })
        .collect();
    let asked = &mut connections[0];
    assert!(
        asked
            .seen
            .to_lowercase()
            .contains("content-type: text/event-stream"),
        "{}",
        asked.seen
    );
    write!(
        asked.stream,
        "GET /livez HTTP/1.1\r\nHost: voltile.test\r\n\r\n"
    )
    .unwrap();
    asked.wait_for("}");
    assert_eq!(
        asked.seen.matches("HTTP/1.1 200").count(),
        2,
        "{}",
        asked.seen
    );
    Events::of(&server, "").wait_for("event: hello");
}

#[test]
fn events_for_http_1_0_are_not_chunked_and_end_with_the_connection() {
    use std::io::Write;
    let place = place();
    let mut server = place.serve::<&str>([]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET /events HTTP/1.0\r\nHost: voltile.test\r\nConnection: keep-alive\r\n\r\n"
    )
    .unwrap();
    let mut events = Events {
        stream,
        seen: String::new(),
    };
    events.wait_for("event: hello\ndata: ");
    let (head, body) = events.seen.split_once("\r\n\r\n").unwrap();
    assert!(
        !head.to_ascii_lowercase().contains("transfer-encoding"),
        "{head}"
    );
    assert!(body.starts_with("retry: 3000\n"), "{body:?}");
    server.stop();
    while events.read() {}
    assert!(events.seen.ends_with("\n\n"), "{:?}", events.seen);
}
