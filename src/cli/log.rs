//! The log: lines for standard error that never fail or block the thread that logs them.
//!
//! A full disk, a closed pipe, or a pipe that nobody reads must not stop a server, but the standard library's macros
//! panic or block there. So lines go through a bounded queue to one thread that writes them. A line that does not
//! fit, or that standard error rejects, is lost and counted (`voltile_log_lines_lost_total`). Messages of commands to
//! the user take the same path, which keeps the order, but wait for room.

mod format;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::EnvFilter;

/// The capacity of the queue in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The pause before a write to a non-blocking standard error is retried.
const RETRY: Duration = Duration::from_millis(10);

pub(super) use format::choose as choose_format;

static QUEUE: Queue = Queue::new();
static STARTED: Once = Once::new();
static LOST: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Sends log lines and panic messages to the queue. `VOLTILE_LOG` filters the log, in the syntax of `EnvFilter`.
pub(super) fn install() {
    let filter =
        EnvFilter::try_from_env("VOLTILE_LOG").unwrap_or_else(|_| EnvFilter::new("warn,voltile=info"));
    // Otherwise a line that cannot be written is reported by a macro that panics for the same reason.
    let log = tracing_subscriber::fmt().log_internal_errors(false).with_ansi(io::stderr().is_terminal());
    log.event_format(format::Chosen::default()).with_env_filter(filter).with_writer(|| Line).init();
    std::panic::set_hook(Box::new(|panic| QUEUE.push(panic_text(panic).into_bytes())));
}

/// Starts the thread that writes the queue, unless it runs. If it cannot start, all lines are lost, which is better than
/// not running.
pub(super) fn start_writing() {
    STARTED.call_once(|| {
        let thread = thread::Builder::new().name("log".to_owned());
        if thread.spawn(|| QUEUE.write_to(&mut io::stderr())).is_err() {
            QUEUE.close();
        }
    });
}

/// Loses all lines, without a thread: for a process whose standard error nobody reads.
pub(super) fn discard() {
    STARTED.call_once(|| QUEUE.close());
}

/// The number of lost lines; a handle to the counter itself.
pub(super) fn lost() -> Counter {
    LOST.clone()
}

/// Writes a message to the user, after the lines logged before it. Waits for room in the queue, up to `patience`.
pub(super) fn message(text: &str, patience: Option<Duration>) {
    start_writing();
    QUEUE.push_when_room(format!("{text}\n").into_bytes(), patience);
}

/// Waits until everything is written, up to `patience`.
pub(super) fn flush(patience: Option<Duration>) {
    start_writing();
    QUEUE.flush(patience);
}

/// The writer for `tracing`, which writes each line with one call.
struct Line;

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        QUEUE.push(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The message of the standard library's panic hook, which itself would write to standard error and could block.
fn panic_text(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let mut text = format!("thread '{}' {panic}", thread.name().unwrap_or("<unnamed>"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("\n{backtrace}"));
    }
    format::panic_line(panic, &text)
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    lines: VecDeque<Vec<u8>>,
    /// Of the waiting lines and the one being written.
    bytes: usize,
    /// Lines lost since the last note about lost lines.
    lost: u64,
    /// There is no writing thread.
    closed: bool,
}

impl Queue {
    const fn new() -> Self {
        let state = State { lines: VecDeque::new(), bytes: 0, lost: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds a line, or drops it if there is no room.
    fn push(&self, line: Vec<u8>) {
        self.push_into(self.lock(), line);
    }

    fn push_into(&self, mut state: MutexGuard<'_, State>, line: Vec<u8>) {
        if !state.has_room(&line) {
            state.lose();
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.changed.notify_all();
    }

    /// Adds a line as soon as there is room.
    fn push_when_room(&self, line: Vec<u8>, patience: Option<Duration>) {
        let state = self.wait_until(patience, |state| state.closed || state.has_room(&line));
        self.push_into(state, line);
    }

    fn flush(&self, patience: Option<Duration>) {
        drop(self.wait_until(patience, |state| state.closed || state.bytes == 0));
    }

    fn wait_until(
        &self,
        patience: Option<Duration>,
        is_so: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut state = self.lock();
        while !is_so(&state) {
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state
    }

    /// Writes the lines to `out` until the queue is closed.
    fn write_to(&self, out: &mut impl Write) {
        while let Some(line) = self.next() {
            let lost = std::mem::take(&mut self.lock().lost);
            if lost > 0 && write_all(out, format::lost_line(lost).as_bytes()).is_err() {
                self.lock().lost += lost;
            }
            let written = write_all(out, &line);
            let mut state = self.lock();
            state.bytes -= line.len();
            if written.is_err() {
                state.lose();
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.wait_until(None, |state| state.closed || !state.lines.is_empty());
        state.lines.pop_front()
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// If nothing is waiting, a line of any length fits.
    fn has_room(&self, line: &[u8]) -> bool {
        !self.closed && (self.bytes == 0 || self.bytes + line.len() <= MAX_BYTES)
    }

    fn lose(&mut self) {
        self.lost += 1;
        LOST.inc();
    }
}

fn write_all(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts all input or none.
    struct Sink {
        taken: Vec<u8>,
        is_full: bool,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_full {
                return Err(ErrorKind::StorageFull.into());
            }
            // In small pieces, as a pipe may.
            let taken = bytes.len().min(7);
            self.taken.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(queue: &Queue, is_full: bool) -> String {
        let mut sink = Sink { taken: Vec::new(), is_full };
        queue.close();
        queue.write_to(&mut sink);
        queue.lock().closed = false;
        String::from_utf8(sink.taken).unwrap()
    }

    #[test]
    fn lines_come_out_in_their_order() {
        let queue = Queue::new();
        queue.push(b"one line\n".to_vec());
        queue.push_when_room(b"and another\n".to_vec(), None);
        assert_eq!(written(&queue, false), "one line\nand another\n");
        queue.flush(None);
    }

    #[test]
    fn what_does_not_fit_is_lost_and_told_once_there_is_room() {
        let queue = Queue::new();
        queue.push(vec![b'x'; MAX_BYTES + 1]);
        queue.push(b"lost\n".to_vec());
        queue.push_when_room(b"lost too\n".to_vec(), Some(Duration::from_millis(1)));
        queue.flush(Some(Duration::from_millis(1)));
        let text = written(&queue, false);
        assert!(text.starts_with("2 lines of this log were lost") && text.ends_with("xxx"), "it was long");
        queue.push(b"kept\n".to_vec());
        assert_eq!(written(&queue, false), "kept\n");
    }

    #[test]
    fn what_cannot_be_written_is_lost_and_nothing_waits_for_it() {
        let queue = Queue::new();
        queue.push(b"lost\n".to_vec());
        assert_eq!(written(&queue, true), "");
        queue.flush(None);
        queue.push(b"kept\n".to_vec());
        assert!(written(&queue, false).starts_with("1 lines"), "it is told");
    }

    #[test]
    fn where_nobody_writes_nobody_waits() {
        let queue = Queue::new();
        queue.close();
        queue.push(b"lost\n".to_vec());
        queue.push_when_room(b"lost\n".to_vec(), None);
        queue.flush(None);
        assert_eq!(queue.lock().lost, 2);
    }
}
