//! The threads that talk to stores. They only pass bytes on: two are enough.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::error::StoreError;

/// The threads, which are started for the first task.
#[derive(Debug)]
pub(super) struct Threads {
    opens_connections: bool,
    runtime: OnceLock<Result<Runtime, StoreError>>,
}

impl Threads {
    /// A process that reads through another one opens no connections, and may lack the calls that
    /// they take.
    pub fn new(opens_connections: bool) -> Self {
        Self {
            opens_connections,
            runtime: OnceLock::new(),
        }
    }

    fn start(&self) -> Result<Runtime, StoreError> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("store").enable_time();
        if self.opens_connections {
            builder.enable_io();
        }
        builder.build().map_err(|error| StoreError::Settings {
            problem: format!("the threads that read from stores cannot be started: {error}"),
        })
    }

    /// Runs a task in the background. Aborting the handle ends it.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, StoreError> {
        let runtime = self.runtime.get_or_init(|| self.start());
        Ok(runtime.as_ref().map_err(StoreError::clone)?.spawn(task))
    }

    /// Runs a task, and blocks the calling thread, which must not be an async one, until it is
    /// done.
    pub fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // The receiver waits below.
        let _running = self.spawn(async move { drop(sender.send(task.await)) })?;
        receiver
            .blocking_recv()
            .unwrap_or(Err(voltile_base::flow::cache::Abandoned.into()))
    }
}

impl Drop for Threads {
    /// Waits for no task: the last user may be an async thread, which must not block.
    fn drop(&mut self) {
        if let Some(Ok(runtime)) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
