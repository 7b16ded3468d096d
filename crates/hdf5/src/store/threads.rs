//! The threads that talk to stores. They only pass bytes on: two are enough.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use voltile_base::flow::cache::Abandoned;

use super::error::StoreError;

/// Runs tasks on the threads, which are started when the first task is.
#[derive(Debug)]
pub(super) struct Threads {
    /// Whether tasks may open connections.
    opens_connections: bool,
    runtime: OnceLock<Result<Runtime, StoreError>>,
}

impl Threads {
    /// Starts no thread yet. A confined child process leaves all connections to its parent: it
    /// passes `false`, because the system calls that open them may be forbidden to it.
    pub fn new(opens_connections: bool) -> Self {
        Self {
            opens_connections,
            runtime: OnceLock::new(),
        }
    }

    fn runtime(&self) -> Result<&Runtime, StoreError> {
        let runtime = self.runtime.get_or_init(|| {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(2).thread_name("store").enable_time();
            if self.opens_connections {
                builder.enable_io();
            }
            builder.build().map_err(|error| {
                let problem = "the threads that read from stores cannot be started";
                StoreError::Settings(format!("{problem}: {error}"))
            })
        });
        runtime.as_ref().map_err(StoreError::clone)
    }

    /// Runs a task in the background. Aborting the handle ends it.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, StoreError> {
        Ok(self.runtime()?.spawn(task))
    }

    /// Runs a task and blocks the calling thread until it is done. The calling thread must not be
    /// one that runs async tasks.
    pub fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let runtime = self.runtime()?;
        // The outer error means that the task has panicked.
        let result = runtime.block_on(runtime.spawn(task));
        result.unwrap_or(Err(Abandoned.into()))
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
