//! Warming without a server: tiles are drawn in this process and written to the disk cache or
//! object storage.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::run::{Counters, Outcome, Producer, Stop};
use crate::base::request::TileRequest;
use crate::service::{Client, Demand, ErrorKind, TileError, TileService, Warmed};

/// The delay before retrying if all render threads are busy.
const SOON: Duration = Duration::from_millis(20);
/// The delay before retrying if a store or a server of tiles fails, and the time after which the
/// work ends instead.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

/// How the render queue sees these requests.
const OURS: Demand = Demand::prefetch(Client::InProcess);

/// A service that writes its tiles to a disk cache.
pub struct InProcess {
    service: Arc<TileService>,
    runtime: Runtime,
}

impl InProcess {
    /// The service needs a lasting tier (disk cache or object storage), unless only sample tiles
    /// are drawn.
    pub fn new(service: Arc<TileService>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()?;
        Ok(Self { service, runtime })
    }

    async fn warm(&self, tile: &TileRequest) -> Result<Warmed, TileError> {
        let identified = self
            .service
            .identify(&self.service.catalog(), tile, OURS)
            .await?;
        self.service.warm(&identified).await
    }
}

impl Producer for InProcess {
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Outcome {
        let began = Instant::now();
        loop {
            let pause = match self.runtime.block_on(self.warm(tile)) {
                Ok(Warmed::Drawn(bytes)) => return Outcome::Rendered(bytes as u64),
                Ok(Warmed::WasThere) => return Outcome::Stored,
                Ok(Warmed::Black) => return Outcome::Empty,
                Err(TileError::Tier(error))
                    if error.is_transient() && began.elapsed() < PATIENCE =>
                {
                    PAUSE
                }
                Err(error @ (TileError::Tier(_) | TileError::Changed { .. })) => {
                    return Outcome::Over(error.to_string());
                }
                Err(error) if error.kind() == ErrorKind::Busy => SOON,
                Err(error) => return Outcome::Failed(error.to_string()),
            };
            if stop.wait(pause) {
                return Outcome::Stopped;
            }
        }
    }

    fn counters(&self) -> Option<Counters> {
        let metrics = self.service.metrics();
        let (evicted, bytes_inflated) = (
            metrics.tier_evicted.get(),
            metrics.chunk_decoded_bytes.get(),
        );
        Some(Counters {
            evicted,
            bytes_inflated,
        })
    }
}
