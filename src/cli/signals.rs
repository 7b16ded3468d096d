//! Signals: what Ctrl-C, SIGTERM and SIGHUP do to commands that do not simply end by them.
//!
//! They are heard on a thread of their own, so that none is missed while other threads are busy or blocked.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use tokio::sync::Notify;

use super::log;

/// How long a process that is to end at once may take to write the log.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Has `stop` called at the first Ctrl-C or SIGTERM; the second ends the process with `status`.
pub(super) fn stop_then_exit(status: i32, mut stop: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut is_told = false;
    listen(&[SIGINT, SIGTERM], move |_| {
        if is_told {
            exit_at_once(status);
        }
        is_told = true;
        stop();
    })
}

/// How far a server is, for whoever hears signals.
#[derive(Debug, Default)]
enum Phase {
    /// Files are being opened: a signal ends the process.
    #[default]
    Starting,
    /// The first signal has requests in flight answered.
    Serving(Arc<Notify>),
    /// The next signal ends the process.
    Stopping,
}

/// The signals of a server, from its start on.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerSignals(Arc<Mutex<Phase>>);

impl ServerSignals {
    /// Hears signals from now on. SIGHUP, which a closed terminal and service managers send, never ends the server.
    pub fn listen() -> io::Result<Self> {
        let signals = Self::default();
        let heard = signals.clone();
        listen(&[SIGINT, SIGTERM, SIGHUP], move |signal| heard.hear(signal))?;
        Ok(signals)
    }

    /// Has the next Ctrl-C or SIGTERM notify the server, rather than end the process.
    pub fn serving(&self) -> Arc<Notify> {
        let stop = Arc::new(Notify::new());
        self.enter(Phase::Serving(Arc::clone(&stop)));
        stop
    }

    fn hear(&self, signal: i32) {
        if signal == SIGHUP {
            tracing::info!("SIGHUP: the configuration is not read again; restart the server for that");
            return;
        }
        match self.enter(Phase::Stopping) {
            Phase::Starting => end_by(signal),
            Phase::Serving(stop) => {
                tracing::info!(
                    "stopping: requests in flight are answered first; a second signal ends at once"
                );
                stop.notify_one();
            }
            Phase::Stopping => exit_at_once(128 + signal),
        }
    }

    fn enter(&self, phase: Phase) -> Phase {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), phase)
    }
}

fn listen(signals: &[i32], mut hear: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let heard = move || signals.forever().for_each(&mut hear);
    thread::Builder::new().name("signals".to_owned()).spawn(heard).map(drop)
}

/// Ends the process as the signal would have without us: service managers take that for a clean end.
fn end_by(signal: i32) {
    log::flush(Some(LAST_WORDS));
    if let Err(error) = low_level::emulate_default_handler(signal) {
        tracing::debug!("signal {signal} cannot be passed on: {error}");
    }
    // The first process of a container survives that.
    exit_at_once(128 + signal);
}

/// Ends the process without the cleaning up of libraries, which may wait for threads that are at work.
fn exit_at_once(status: i32) {
    log::flush(Some(LAST_WORDS));
    low_level::exit(status);
}
