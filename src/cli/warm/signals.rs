//! Ctrl-C and SIGTERM, heard while the work is done on other threads.

use std::sync::Arc;

use super::Failure;
use crate::cli::signals;
use crate::warm::Stop;

/// Hears Ctrl-C and SIGTERM: the first ends the work, with what is under way done and the journal written. The second ends
/// the process with status 1, as any work that is not finished.
pub(super) fn stop_on_signals() -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::default());
    let told = Arc::clone(&stop);
    signals::stop_then_exit(1, move || {
        tracing::info!("stopping: tiles under way are finished first");
        told.tell();
    })?;
    Ok(stop)
}
