//! Redis as a backend, against a small server of the tests' own that can keep silent.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use voltile_base::metrics::Metrics;
use voltile_base::tile::Tile;

use super::connection::Connection;
use super::*;
use crate::tier::tests::{name, tile};
use crate::tier::{Tier, TierKind, Tiers};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

type Word = Vec<u8>;

/// A server that knows a few commands.
#[derive(Default)]
pub(in crate::tier) struct Fake {
    strings: Mutex<HashMap<Word, Word>>,
    /// All commands but PING.
    commands: Mutex<Vec<Vec<Word>>>,
    pings: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
    /// Reads commands and does not answer.
    is_silent: AtomicBool,
    /// Stores nothing more.
    is_full: AtomicBool,
    address: OnceLock<RedisAddress>,
}

impl Fake {
    pub fn start() -> Arc<Self> {
        let (fake, listener) = (
            Arc::new(Self::default()),
            TcpListener::bind("127.0.0.1:0").unwrap(),
        );
        let port = listener.local_addr().unwrap().port();
        let address = RedisAddress::new(&format!("redis://:secret@127.0.0.1:{port}/3"));
        fake.address.set(address.unwrap()).unwrap();
        let serving = Arc::clone(&fake);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (fake, stream) = (Arc::clone(&serving), stream.unwrap());
                fake.streams.lock().push(stream.try_clone().unwrap());
                thread::spawn(move || fake.serve(&stream));
            }
        });
        fake
    }

    /// The backend, connected to this server.
    pub fn opened(&self, metrics: &Metrics) -> Redis {
        let redis = self.with_limit(metrics, PATIENCE);
        assert_eq!((redis.problem(), metrics.redis.open.get()), (None, 0));
        redis
    }

    fn with_limit(&self, metrics: &Metrics, limit: Duration) -> Redis {
        let address = self.address.get().unwrap();
        Redis::with_limit(address, Duration::from_secs(90), &metrics.redis, limit).unwrap()
    }

    /// Replaces what it has of a tile with the token `a`.
    pub fn replace(&self, key: &TileKey, value: Vec<u8>) {
        let name = name_of(&name("a"), key).into_bytes();
        self.strings.lock().insert(name, value);
    }

    /// Until the client is gone.
    fn serve(&self, stream: &TcpStream) {
        let (mut input, mut output) = (BufReader::new(stream), stream);
        while let Some(command) = words(&mut input) {
            let answer = self.answer(command);
            if !self.is_silent.load(Ordering::SeqCst) && output.write_all(&answer).is_err() {
                return;
            }
        }
    }

    fn answer(&self, command: Vec<Word>) -> Vec<u8> {
        if command[0] == b"PING" {
            self.pings.fetch_add(1, Ordering::SeqCst);
            return b"+PONG\r\n".to_vec();
        }
        let mut strings = self.strings.lock();
        let answer = match command
            .iter()
            .map(Vec::as_slice)
            .collect::<Vec<_>>()
            .as_slice()
        {
            [b"GET", key] => match strings.get(*key) {
                Some(value) => {
                    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }
                None => b"$-1\r\n".to_vec(),
            },
            [b"SET", ..] if self.is_full.load(Ordering::SeqCst) => b"-OOM no memory\r\n".to_vec(),
            [b"SET", key, value, ..] => {
                strings.insert(key.to_vec(), value.to_vec());
                b"+OK\r\n".to_vec()
            }
            [b"EXISTS", key] => format!(":{}\r\n", i32::from(strings.contains_key(*key))).into(),
            [b"DEL", key] => format!(":{}\r\n", i32::from(strings.remove(*key).is_some())).into(),
            [b"AUTH", b"secret"] | [b"SELECT", b"3"] => b"+OK\r\n".to_vec(),
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        self.commands.lock().push(command);
        answer
    }

    /// How often a command was sent.
    fn count(&self, command: &str) -> usize {
        self.commands
            .lock()
            .iter()
            .filter(|words| words[0] == command.as_bytes())
            .count()
    }

    pub fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    fn keep_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }
}

/// The next command: an array of strings.
fn words(input: &mut impl BufRead) -> Option<Vec<Word>> {
    let number = |input: &mut dyn BufRead| {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let count = number(input)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(input)? + 2];
        input.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Some(words)
}

#[test]
fn a_lookup_is_one_command_and_a_tile_expires() {
    let fake = Fake::start();
    let redis = fake.opened(&Metrics::default());
    let (
        token,
        Tile {
            key, bytes: png, ..
        },
    ) = (name("a"), tile(3));
    redis.put(&token, &key, &png).unwrap();
    let set = fake.commands.lock().drain(..).next_back().unwrap();
    assert_eq!(set[1], format!("voltile:1:a:{key}").into_bytes());
    assert_eq!(set[3..], [b"EX".to_vec(), b"90".to_vec()]);
    (0..20).for_each(|_| assert_eq!(redis.get(&token, &key), Ok(Some(png.clone()))));
    let others =
        |words: &&Vec<Word>| ![&b"GET"[..], b"AUTH", b"SELECT"].contains(&words[0].as_slice());
    assert_eq!(
        (fake.count("GET"), fake.commands.lock().iter().find(others)),
        (20, None)
    );
}

#[test]
fn an_answer_that_is_an_error_is_a_problem_until_the_same_succeeds_and_opens_no_breaker() {
    let fake = Fake::start();
    let metrics = Metrics::default();
    let redis = Tier::start(
        TierKind::Redis,
        fake.opened(&metrics),
        metrics.redis.clone(),
    )
    .unwrap();
    let (tiers, token) = (Tiers::new(vec![redis]), name("a"));
    fake.fill(true);
    (0..9).for_each(|_| tiers.store_later(&token, &tile(3), || true));
    while metrics.redis.errors.get() < 9 {
        thread::yield_now();
    }
    let [(TierKind::Redis, problem)] = &tiers.problems()[..] else {
        panic!("there is one problem")
    };
    assert!(
        problem.contains("no memory") && !problem.contains("secret"),
        "{problem}"
    );
    fake.fill(false);
    tiers.store_later(&token, &tile(3), || true);
    while metrics.redis.writes.get() < 1 {
        thread::yield_now();
    }
    assert_eq!((tiers.problems(), metrics.redis.open.get()), (vec![], 0));
}

#[test]
fn while_a_server_does_not_answer_it_is_not_asked_and_it_is_used_again_when_it_does() {
    let fake = Fake::start();
    let metrics = Metrics::default();
    fake.keep_silent(true);
    let redis = fake.with_limit(&metrics, Duration::from_millis(20));
    let redis = Tier::start(TierKind::Redis, redis, metrics.redis.clone()).unwrap();
    let (
        tiers,
        token,
        Tile {
            key, bytes: png, ..
        },
    ) = (Tiers::new(vec![redis]), name("a"), tile(3));
    while !tiers
        .problems()
        .iter()
        .any(|(_, problem)| problem.contains("could not be reached"))
    {
        thread::yield_now();
    }
    (0..1000).for_each(|_| assert_eq!(tiers.find(&token, &key), None));
    let counts = [
        &metrics.redis.skipped,
        &metrics.redis.errors,
        &metrics.redis.misses,
    ]
    .map(Counter::get);
    assert_eq!(
        (counts, fake.count("GET")),
        ([1000, 0, 0], 0),
        "nobody waits"
    );
    let [(TierKind::Redis, problem)] = &tiers.problems()[..] else {
        panic!("there is one problem")
    };
    assert!(
        problem.contains("could not be reached") && !problem.contains("secret"),
        "{problem}"
    );
    fake.keep_silent(false);
    // On a slow machine it may be found silent again.
    let tile = Tile::new(key, png.clone());
    while tiers.find(&token, &key).is_none() {
        tiers.store_later(&token, &tile, || true);
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_few_lookups_that_take_too_long_open_the_breaker() {
    let fake = Fake::start();
    let metrics = Metrics::default();
    let redis = fake.with_limit(&metrics, Duration::from_millis(200));
    while redis.problem().is_some() {
        thread::yield_now();
    }
    fake.keep_silent(true);
    let (token, Tile { key, .. }) = (name("a"), tile(3));
    let errors: Vec<_> = (0..50)
        .map(|_| redis.get(&token, &key).unwrap_err())
        .collect();
    let requested = errors
        .iter()
        .filter(|error| matches!(error, TierError::Unreachable { .. }))
        .count();
    assert!(
        errors[0]
            .to_string()
            .ends_with("could not be reached: it did not answer within 200ms"),
        "{}",
        errors[0]
    );
    // The first ones, and perhaps some after a probe that was answered before it kept silent.
    assert!(
        (1..=6).contains(&requested) && matches!(errors[49], TierError::Resting),
        "{errors:?}"
    );
}

#[test]
fn what_is_no_answer_to_the_command_is_an_error_and_read_in_a_limited_time() {
    let longest = entry::MAX_LENGTH;
    for (sent, expected) in [
        (
            format!("${longest}\r\n{}\r\n", "x".repeat(longest as usize)),
            None,
        ),
        (
            format!(
                "${}\r\n{}\r\n",
                longest + 100,
                "x".repeat(longest as usize + 200)
            ),
            Some("longer than any entry"),
        ),
        (
            format!("${}\r\n{}", i64::MAX, "x".repeat(2 << 20)),
            Some("longer than any entry"),
        ),
        ("$3\r\nabcde".to_owned(), Some("")),
        ("$3\r\nab".to_owned(), Some("")),
        ("*2147483647\r\n".repeat(100), Some("")),
        ("*2147483647\r\n".repeat(1 << 20), Some("")),
        ("+".repeat(2 << 20), Some("longer than any entry")),
        ("\r\n".to_owned(), Some("")),
        (String::new(), Some("")),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address =
            RedisAddress::new(&format!("redis://{}", listener.local_addr().unwrap())).unwrap();
        let mut connection = Connection::open(&address, PATIENCE).unwrap();
        let text = sent.clone();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            words(&mut BufReader::new(&stream)).unwrap();
            // The client may have gone.
            let _ = stream.write_all(text.as_bytes());
        });
        let answer = connection.run(redis::cmd("GET").arg("a"), Instant::now() + PATIENCE);
        let shown = &sent[..sent.len().min(20)];
        match (answer, expected) {
            (Ok(redis::Value::BulkString(bytes)), None) => assert_eq!(bytes.len() as u64, longest),
            (Err(failure), Some(why)) => {
                assert!(failure.to_string().contains(why), "{shown}: {failure}");
            }
            (other, _) => panic!("{shown}: {}", other.is_ok()),
        }
        drop(connection);
        server.join().unwrap();
    }
    // One byte after the other, for longer than a lookup may take.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address =
        RedisAddress::new(&format!("redis://{}", listener.local_addr().unwrap())).unwrap();
    let mut connection = Connection::open(&address, PATIENCE).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(b"+").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    });
    assert!(
        connection
            .run(
                &redis::cmd("PING"),
                Instant::now() + Duration::from_millis(50)
            )
            .is_err()
    );
}

#[test]
fn connections_that_were_closed_meanwhile_are_made_again() {
    let fake = Fake::start();
    let metrics = Metrics::default();
    let redis = fake.opened(&metrics);
    let (token, Tile { key, .. }) = (name("a"), tile(3));
    assert_eq!(redis.get(&token, &key), Ok(None));
    for stream in fake.streams.lock().drain(..) {
        stream.shutdown(Shutdown::Both).unwrap();
    }
    let before = fake.count("AUTH");
    (0..20).for_each(|_| assert_eq!(redis.get(&token, &key), Ok(None)));
    assert!(fake.count("AUTH") > before && metrics.redis.open.get() == 0);
}
