//! Ctrl-C and SIGTERM, handled while the work runs on other threads.

use std::sync::Arc;

use super::Failure;
use crate::cli::signals;
use crate::warm::Stop;

/// On the first Ctrl-C or SIGTERM, stops the work after finishing tiles in flight and writing the journal.
/// The second ends the process with status 1, as for any unfinished work.
pub(super) fn stop_on_signals() -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::default());
    let stopped = Arc::clone(&stop);
    signals::stop_then_exit(1, move || {
        tracing::info!("stopping: finishing the tiles in flight");
        stopped.tell();
    })?;
    Ok(stop)
}
