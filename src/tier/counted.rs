//! A tier whose deeds are counted, and whose failures are told to the log and to whoever called.

use bytes::Bytes;

use super::complaints::Complaints;
use super::{TierError, TileTier};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::tile::TileKey;

/// Any tier, counted.
pub(super) struct Counted {
    tier: Box<dyn TileTier>,
    metrics: Metrics,
    complaints: Complaints,
}

impl Counted {
    pub fn new(tier: Box<dyn TileTier>, metrics: Metrics) -> Self {
        Self { tier, metrics, complaints: Complaints::default() }
    }

    fn told<T>(&self, result: Result<T, TierError>) -> Result<T, TierError> {
        result.inspect_err(|error| {
            match error {
                TierError::Corrupt { .. } => self.metrics.tier_corrupt.inc(),
                _ => self.metrics.tier_errors.inc(),
            };
            self.complaints.tell(error);
        })
    }
}

impl TileTier for Counted {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let found = self.told(self.tier.get(token, key))?;
        if found.is_some() {
            self.metrics.tier_hits.inc();
        }
        Ok(found)
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.told(self.tier.put(token, key, png))?;
        self.metrics.tier_writes.inc();
        Ok(())
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.told(self.tier.has(token, key))
    }
}
