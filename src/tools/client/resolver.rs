//! A resolver that remembers addresses. `ureq` resolves the host of every request, even if its
//! connection is kept.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::http::uri::Authority;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::flow::lock;

/// How long addresses are used.
const VALID: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Remembering {
    resolver: DefaultResolver,
    known: Mutex<HashMap<Authority, (Instant, ResolvedSocketAddrs)>>,
}

impl Resolver for Remembering {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let known = || lock(&self.known);
        let host = uri
            .authority()
            .ok_or_else(|| Error::BadUri(uri.to_string()))?;
        if let Some((since, addresses)) = known().get(host)
            && since.elapsed() < VALID
        {
            return Ok(addresses.clone());
        }
        let addresses = self.resolver.resolve(uri, config, timeout)?;
        known().insert(host.clone(), (Instant::now(), addresses.clone()));
        Ok(addresses)
    }
}
