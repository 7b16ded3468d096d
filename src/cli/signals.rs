//! Ctrl-C, SIGTERM and SIGHUP, for commands that must not simply be killed by them; and the end of
//! standard input, which may stand for SIGTERM.
//!
//! Signals are handled on a separate thread, so that none is missed while other threads are busy or
//! blocked.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use tokio::sync::Notify;
use voltile_base::flow::start_thread;

use super::log::LogWriter;

/// The exit status after a signal is this plus the signal's number, as in shells.
const KILLED: i32 = 128;

/// Calls `stop` at the first Ctrl-C or SIGTERM. The second ends the process with status 1, as for
/// any unfinished work.
pub(super) fn stop_then_exit(
    log: &LogWriter,
    stop: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let log = log.clone();
    let mut stop = Some(stop);
    listen(&[SIGINT, SIGTERM], move |_| match stop.take() {
        Some(stop) => stop(),
        None => exit_at_once(&log, 1),
    })
}

/// The phase of a server, which decides what a signal does.
#[derive(Debug, Default)]
enum ServerPhase {
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
    phase: Arc<Mutex<ServerPhase>>,
    log: LogWriter,
}

/// Keeps SIGHUP from ending this process until [`ServerSignals`], which needs a thread, handles it.
pub(super) fn outlive_hangups() -> io::Result<()> {
    signal_hook::flag::register(SIGHUP, Arc::default()).map(drop)
}

impl ServerSignals {
    /// Starts handling signals. SIGHUP, which closed terminals send too, never ends the server.
    pub fn listen(log: &LogWriter) -> io::Result<Self> {
        let signals = Self {
            phase: Arc::default(),
            log: log.clone(),
        };
        let own = signals.clone();
        listen(&[SIGINT, SIGTERM, SIGHUP], move |signal| own.handle(signal))?;
        Ok(signals)
    }

    /// From now on the first Ctrl-C or SIGTERM notifies the server instead of ending the process,
    /// and SIGHUP sends an order to `reload`.
    pub fn start_serving(&self, reload: Sender<()>) -> Arc<Notify> {
        let stop = Arc::new(Notify::new());
        self.enter(ServerPhase::Serving {
            stop: Arc::clone(&stop),
            reload,
        });
        stop
    }

    /// The end of standard input counts as SIGTERM from now on.
    pub fn stop_with_input(&self) -> io::Result<()> {
        let signals = self.clone();
        start_thread("input", move || signals.wait_for_input_to_end())
    }

    fn wait_for_input_to_end(&self) {
        if let Err(error) = io::copy(&mut io::stdin().lock(), &mut io::sink()) {
            tracing::warn!("standard input cannot be read, which counts as its end: {error}");
        }
        // A signal to a process group ends the server's parent too, and so the input: that is one
        // request to stop, not two.
        let is_stopping = matches!(*self.phase.lock(), ServerPhase::Stopping);
        if !is_stopping {
            self.handle(SIGTERM);
        }
    }

    fn reload(&self) {
        match &*self.phase.lock() {
            ServerPhase::Serving { reload, .. } if reload.send(()).is_ok() => {}
            ServerPhase::Serving { .. } => {
                tracing::error!("SIGHUP: the thread that reloads has ended");
            }
            ServerPhase::Starting | ServerPhase::Stopping => {
                tracing::info!("SIGHUP is ignored while the server starts or stops");
            }
        }
    }

    fn handle(&self, signal: i32) {
        if signal == SIGHUP {
            return self.reload();
        }
        match self.enter(ServerPhase::Stopping) {
            ServerPhase::Starting => end_by(&self.log, signal),
            ServerPhase::Serving { stop, .. } => {
                tracing::info!(
                    "stopping: requests in flight are answered first; a second signal ends the process at once"
                );
                stop.notify_one();
            }
            ServerPhase::Stopping => exit_at_once(&self.log, KILLED + signal),
        }
    }

    fn enter(&self, phase: ServerPhase) -> ServerPhase {
        std::mem::replace(&mut self.phase.lock(), phase)
    }
}

fn listen(signals: &[i32], mut handle: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    start_thread("signals", move || signals.forever().for_each(&mut handle))
}

/// Ends the process by the signal's default action, which service managers treat as a clean exit.
fn end_by(log: &LogWriter, signal: i32) {
    log.flush();
    if let Err(error) = low_level::emulate_default_handler(signal) {
        tracing::debug!("signal {signal} cannot be passed on: {error}");
    }
    // PID 1 of a container survives the default action.
    exit_at_once(log, KILLED + signal);
}

/// Ends the process without running the exit handlers of libraries, which may wait for busy
/// threads.
fn exit_at_once(log: &LogWriter, status: i32) {
    log.flush();
    low_level::exit(status);
}
