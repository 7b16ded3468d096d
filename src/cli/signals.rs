//! Ctrl-C, SIGTERM and SIGHUP, for commands that must not simply be killed by them; and the end of
//! standard input, which may stand for SIGTERM.
//!
//! Signals are handled on a separate thread, so that none is missed while other threads are busy or
//! blocked.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use tokio::sync::Notify;

use super::log::Log;

/// Calls `stop` at the first Ctrl-C or SIGTERM; the second ends the process with `status`.
pub(super) fn stop_then_exit(
    log: &Log,
    status: i32,
    mut stop: impl FnMut() + Send + 'static,
) -> io::Result<()> {
    let (log, mut is_stopping) = (log.clone(), false);
    listen(&[SIGINT, SIGTERM], move |_| {
        if is_stopping {
            exit_at_once(&log, status);
        }
        is_stopping = true;
        stop();
    })
}

/// The phase of a server, which decides what a signal does.
#[derive(Debug, Default)]
enum Phase {
    /// Files are being opened: a signal ends the process.
    #[default]
    Starting,
    /// The first signal makes the server finish the requests in flight. SIGHUP makes it reload.
    Serving {
        stop: Arc<Notify>,
        reload: Sender<()>,
    },
    /// The next signal ends the process.
    Stopping,
}

/// The signal handling of a server.
#[derive(Clone)]
pub(super) struct ServerSignals {
    phase: Arc<Mutex<Phase>>,
    log: Log,
}

/// Keeps SIGHUP from ending this process before there is a [`ServerSignals`], which takes a thread.
pub(super) fn outlive_hangups() -> io::Result<()> {
    signal_hook::flag::register(SIGHUP, Arc::default()).map(drop)
}

impl ServerSignals {
    /// Starts handling signals. SIGHUP, which closed terminals send too, never ends the server.
    pub fn listen(log: &Log) -> io::Result<Self> {
        let signals = Self {
            phase: Arc::default(),
            log: log.clone(),
        };
        let heard = signals.clone();
        listen(&[SIGINT, SIGTERM, SIGHUP], move |signal| heard.hear(signal))?;
        Ok(signals)
    }

    /// From now on the first Ctrl-C or SIGTERM notifies the server instead of ending the process,
    /// and SIGHUP sends an order to `reload`.
    pub fn serving(&self, reload: Sender<()>) -> Arc<Notify> {
        let stop = Arc::new(Notify::new());
        self.enter(Phase::Serving {
            stop: Arc::clone(&stop),
            reload,
        });
        stop
    }

    /// The end of standard input counts as SIGTERM from now on.
    pub fn stop_with_input(&self) -> io::Result<()> {
        let signals = self.clone();
        let wait = move || {
            if let Err(error) = io::copy(&mut io::stdin().lock(), &mut io::sink()) {
                tracing::warn!("standard input cannot be read, which counts as its end: {error}");
            }
            // Whoever stops the server and what has started it together does not mean it twice.
            let is_stopping = matches!(*signals.phase.lock(), Phase::Stopping);
            if !is_stopping {
                signals.hear(SIGTERM);
            }
        };
        thread::Builder::new()
            .name("input".to_owned())
            .spawn(wait)
            .map(drop)
    }

    fn reload(&self) {
        match &*self.phase.lock() {
            Phase::Serving { reload, .. } if reload.send(()).is_ok() => {}
            Phase::Serving { .. } => tracing::error!("SIGHUP: the thread that reloads has ended"),
            Phase::Starting | Phase::Stopping => {
                tracing::info!("SIGHUP is ignored while the server starts or stops");
            }
        }
    }

    fn hear(&self, signal: i32) {
        if signal == SIGHUP {
            return self.reload();
        }
        match self.enter(Phase::Stopping) {
            Phase::Starting => end_by(&self.log, signal),
            Phase::Serving { stop, .. } => {
                tracing::info!(
                    "stopping: requests in flight are answered first; a second signal ends the process at once"
                );
                stop.notify_one();
            }
            Phase::Stopping => exit_at_once(&self.log, 128 + signal),
        }
    }

    fn enter(&self, phase: Phase) -> Phase {
        std::mem::replace(&mut self.phase.lock(), phase)
    }
}

fn listen(signals: &[i32], mut hear: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let heard = move || signals.forever().for_each(&mut hear);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(heard)
        .map(drop)
}

/// Ends the process by the signal's default action, which service managers treat as a clean exit.
fn end_by(log: &Log, signal: i32) {
    log.flush();
    if let Err(error) = low_level::emulate_default_handler(signal) {
        tracing::debug!("signal {signal} cannot be passed on: {error}");
    }
    // PID 1 of a container survives that.
    exit_at_once(log, 128 + signal);
}

/// Ends the process without running the exit handlers of libraries, which may wait for busy
/// threads.
fn exit_at_once(log: &Log, status: i32) {
    log.flush();
    low_level::exit(status);
}
