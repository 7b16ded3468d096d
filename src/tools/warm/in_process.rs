//! Warming without a server: tiles are rendered in this process and written to the disk cache or
//! object storage.

use std::time::{Duration, Instant};

use voltile_base::flow::interest::Interest;
use voltile_base::request::TileRequest;

use super::run::{Producer, TileOutcome, is_stopped_during};
use crate::service::{Client, Demand, ErrorKind, TileError, TileService, WarmOutcome};

/// The pause before a retry if all render threads are busy.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// The pause before a retry if a tier (the disk cache, Redis or a store) fails.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// The whole run ends if a tier fails for this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Produces tiles with a service that writes them to a disk cache or object storage.
pub struct InProcess<'a>(pub &'a TileService);

impl InProcess<'_> {
    async fn warm(&self, tile: &TileRequest) -> Result<WarmOutcome, TileError> {
        let demand = Demand::prefetch(Client::InProcess);
        let catalog = self.0.catalog();
        let plan = self
            .0
            .plan(&catalog, &tile.token, demand, || catalog.plan_tile(tile))
            .await?;
        self.0.warm(&plan).await
    }
}

impl Producer for InProcess<'_> {
    async fn fill(&self, tile: &TileRequest, interest: &Interest) -> TileOutcome {
        let began = Instant::now();
        loop {
            let pause = match self.warm(tile).await {
                Ok(WarmOutcome::Drawn(bytes)) => return TileOutcome::Rendered(bytes as u64),
                Ok(WarmOutcome::WasThere) => return TileOutcome::Stored,
                Ok(WarmOutcome::Black) => return TileOutcome::Empty,
                Err(TileError::Tier(error))
                    if error.is_transient() && began.elapsed() < PATIENCE =>
                {
                    FAILURE_PAUSE
                }
                Err(error @ (TileError::Tier(_) | TileError::Changed { .. })) => {
                    return TileOutcome::Over(error.to_string());
                }
                Err(error) if error.kind() == ErrorKind::Busy => BUSY_PAUSE,
                Err(error) => return TileOutcome::Failed(error.to_string()),
            };
            if is_stopped_during(pause, interest).await {
                return TileOutcome::Stopped;
            }
        }
    }
}
