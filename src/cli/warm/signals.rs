//! Ctrl-C and SIGTERM, heard while the work is done on other threads.

use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use crate::warm::Stop;

/// Hears Ctrl-C and SIGTERM: the first ends the work, with what is under way done and the journal written.
pub(super) fn stop_on_signals() -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::default());
    let told = Arc::clone(&stop);
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let (interrupt, terminate) = &mut signals;
            for times in 0.. {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if times > 0 {
                    // Who says so twice means at once.
                    std::process::exit(1);
                }
                tracing::info!("stopping: tiles under way are finished first");
                told.tell();
            }
        });
    })?;
    Ok(stop)
}
