//! Warming without a server: tiles are drawn in this process and written to the disk cache or object storage.

use std::cell::OnceCell;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::estimate::{Probe, Sample};
use super::run::{Outcome, Producer, Stop};
use crate::base::request::TileRequest;
use crate::service::{Client, Demand, ErrorKind, TileError, TileService, Warmed};

/// The delay before retrying if all render threads are busy.
const SOON: Duration = Duration::from_millis(20);
/// The delay before retrying if a store or a server of tiles fails, and the time after which the work ends instead.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

/// How the render queue sees these requests.
const OURS: Demand = Demand::prefetch(Client::InProcess);

/// A service that writes its tiles to a disk cache.
pub struct InProcess {
    service: Arc<TileService>,
}

impl InProcess {
    /// The service needs a lasting tier (disk cache or object storage), unless only sample tiles are drawn.
    pub fn new(service: Arc<TileService>) -> Self {
        Self { service }
    }

    async fn warm(&self, tile: &TileRequest) -> Result<Warmed, TileError> {
        let identified = self.service.identify(&self.service.catalog(), tile, OURS).await?;
        self.service.warm(&identified).await
    }
}

impl Producer for InProcess {
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Outcome {
        let began = Instant::now();
        loop {
            let warmed = match here(self.warm(tile)) {
                Ok(warmed) => warmed,
                Err(error) => return Outcome::Over(error.to_string()),
            };
            return match warmed {
                Ok(Warmed::Drawn(bytes)) => Outcome::Rendered(bytes as u64),
                Ok(Warmed::WasThere) => Outcome::Stored,
                Ok(Warmed::Black) => Outcome::Black,
                Err(TileError::Tier(error)) if error.is_transient() && began.elapsed() < PATIENCE => {
                    if stop.wait(PAUSE) {
                        return Outcome::Stopped;
                    }
                    continue;
                }
                Err(error @ (TileError::Tier(_) | TileError::Changed { .. })) => {
                    Outcome::Over(error.to_string())
                }
                Err(error) if error.kind() == ErrorKind::Busy => {
                    if stop.wait(SOON) {
                        return Outcome::Stopped;
                    }
                    continue;
                }
                Err(error) => Outcome::Failed(error.to_string()),
            };
        }
    }
}

impl Probe for InProcess {
    fn render(&self, tile: &TileRequest) -> Option<Sample> {
        let decoded = &self.service.metrics().chunk_decoded_bytes;
        let (began, before) = (Instant::now(), decoded.get());
        let drawn = here(async {
            let identified = self.service.identify(&self.service.catalog(), tile, OURS).await.ok()?;
            self.service.fetch(&identified, OURS, &Arc::default()).await.ok()
        });
        let bytes = drawn.ok().flatten()?.bytes.len() as u64;
        Some(Sample { bytes, inflated: decoded.get() - before, took: began.elapsed() })
    }
}

/// Runs a future to completion on this thread.
fn here<T>(work: impl Future<Output = T>) -> io::Result<T> {
    thread_local! {
        static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    }
    RUNTIME.with(|cell| {
        if cell.get().is_none() {
            // Cannot be set already: the cell belongs to this thread.
            let _ = cell.set(Builder::new_current_thread().enable_time().build()?);
        }
        cell.get()
            .map(|runtime| runtime.block_on(work))
            .ok_or_else(|| io::Error::other("there is no runtime"))
    })
}
