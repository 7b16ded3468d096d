//! Warming without a server: tiles are drawn here, and written to the second tier of a service of our own.

use std::cell::OnceCell;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::estimate::{Drawn, Probe};
use super::run::{Filled, Hand, Stop};
use crate::request::TileRequest;
use crate::service::{Client, Demand, ErrorKind, TileError, TileService, Warmed};

/// How long is waited where all render threads are taken, which others than us must have done.
const SOON: Duration = Duration::from_millis(20);

/// Who asks here.
const OURS: Demand = Demand::prefetch(Client::InProcess);

/// A service with a second tier, whose tiles go there.
pub struct InProcess {
    service: Arc<TileService>,
}

impl InProcess {
    /// Of a service that has a second tier, unless tiles are only drawn to see what that takes.
    pub fn new(service: Arc<TileService>) -> Self {
        Self { service }
    }

    /// What identifies a tile's bytes; nothing is drawn, though a sample may be taken of the channel.
    pub fn entity_tag(&self, tile: &TileRequest) -> Result<String, String> {
        let tag =
            here(async { self.service.identify(tile, OURS).await.map(|identified| identified.key().etag()) });
        tag.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    async fn warm(&self, tile: &TileRequest) -> Result<Warmed, TileError> {
        let identified = self.service.identify(tile, OURS).await?;
        self.service.warm(&identified).await
    }
}

impl Hand for InProcess {
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Filled {
        loop {
            let warmed = match here(self.warm(tile)) {
                Ok(warmed) => warmed,
                Err(error) => return Filled::Over(error.to_string()),
            };
            return match warmed {
                Ok(Warmed::Drawn(bytes)) => Filled::Made(bytes as u64),
                Ok(Warmed::WasThere) => Filled::Held,
                Ok(Warmed::Black) => Filled::Black,
                Err(error @ (TileError::Tier(_) | TileError::Changed { .. })) => {
                    Filled::Over(error.to_string())
                }
                Err(error) if error.kind() == ErrorKind::Busy => {
                    if stop.wait(SOON) {
                        return Filled::Stopped;
                    }
                    continue;
                }
                Err(error) => Filled::Failed(error.to_string()),
            };
        }
    }

    fn is_there(&self, tile: &TileRequest) -> bool {
        let there = here(async {
            let identified = self.service.identify(tile, OURS).await.ok()?;
            self.service.is_kept(&identified).ok()
        });
        there.ok().flatten().unwrap_or(false)
    }
}

impl Probe for InProcess {
    fn draw(&self, tile: &TileRequest) -> Option<Drawn> {
        let decoded = &self.service.metrics().chunk_decoded_bytes;
        let (began, before) = (Instant::now(), decoded.get());
        let drawn = here(async {
            let identified = self.service.identify(tile, OURS).await.ok()?;
            self.service.fetch(identified, OURS).await.ok()
        });
        let bytes = drawn.ok().flatten()?.png.len() as u64;
        Some(Drawn { bytes, inflated: decoded.get() - before, took: began.elapsed() })
    }
}

/// Waits for something on this thread.
fn here<T>(work: impl Future<Output = T>) -> io::Result<T> {
    thread_local! {
        static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    }
    RUNTIME.with(|cell| {
        if cell.get().is_none() {
            // Nobody else can have set it: it is this thread's.
            let _ = cell.set(Builder::new_current_thread().enable_time().build()?);
        }
        cell.get()
            .map(|runtime| runtime.block_on(work))
            .ok_or_else(|| io::Error::other("there is no runtime"))
    })
}
