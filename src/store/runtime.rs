//! The threads that talk to stores. They only pass bytes on: two are enough.

use std::future::Future;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::error::StoreError;
use super::relay::Relay;

static RUNTIME: LazyLock<Result<Runtime, String>> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).thread_name("store").enable_time();
    // A process that reads through another one opens no connections, and may lack the calls that they take.
    if Relay::in_force().is_none() {
        builder.enable_io();
    }
    let built = builder.build();
    built.map_err(|error| format!("the threads that read from stores cannot be started: {error}"))
});

fn runtime() -> Result<&'static Runtime, StoreError> {
    RUNTIME.as_ref().map_err(|problem| StoreError::Settings { problem: problem.clone() })
}

/// Runs a task in the background. Aborting the handle ends it.
pub(super) fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, StoreError> {
    Ok(runtime()?.spawn(task))
}

/// Runs a task, and blocks the calling thread, which must not be an async one, until it is done.
pub(super) fn wait<T: Send + 'static>(
    task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // The receiver waits below.
    let _running = spawn(async move { drop(sender.send(task.await)) })?;
    receiver.blocking_recv().unwrap_or(Err(crate::cache::Lost.into()))
}
