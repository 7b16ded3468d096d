//! The site that every request is answered from: the service, and the settings for addresses and
//! headers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix_web::http::header::{HeaderValue, InvalidHeaderValue};
use parking_lot::RwLock;
use voltile_base::description::{CachesDescription, MountDescription, SiteDescription};
use voltile_base::request::TilePath;
use voltile_base::text::joined;

use super::document::Documents;
use super::events::Listeners;
use super::page::assets;
use crate::config;
use crate::service::TileService;

/// The site in force. A reload replaces it in one step.
pub struct LiveSite(RwLock<Arc<Site>>);

impl LiveSite {
    /// Fails if a header in the settings is not valid; settings that were read from a configuration
    /// have valid headers.
    pub fn new(
        service: Arc<TileService>,
        settings: &config::Settings,
    ) -> Result<Self, InvalidHeaderValue> {
        let started = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let started = u64::try_from(started.as_millis()).unwrap_or(u64::MAX);
        let site = Site::new(service, settings, started)?;
        Ok(Self(RwLock::new(Arc::new(site))))
    }

    /// Answers requests from now on by these settings.
    pub fn replace(&self, settings: &config::Settings) -> Result<(), InvalidHeaderValue> {
        let old = self.get();
        let mut site = Site::new(Arc::clone(&old.service), settings, old.description.started)?;
        site.listeners = Arc::clone(&old.listeners);
        // Documents depend on the settings only through the description.
        if site.description == old.description {
            site.documents = Arc::clone(&old.documents);
        }
        *self.0.write() = Arc::new(site);
        Ok(())
    }

    /// Ends the listeners of events; from now on `/readyz` says that the server is being stopped.
    pub fn drain(&self) {
        self.get().listeners.drain();
    }

    pub(super) fn get(&self) -> Arc<Site> {
        Arc::clone(&self.0.read())
    }
}

/// How requests are answered: the service, and the settings for addresses and headers.
pub(super) struct Site {
    pub service: Arc<TileService>,
    pub server: config::Server,
    /// The configured `Cache-Control`.
    pub cache_control: HeaderValue,
    /// The description of everything but the datasets.
    pub description: SiteDescription,
    pub documents: Arc<Documents>,
    pub listeners: Arc<Listeners>,
    pub log: config::Log,
    pub deadline: Duration,
}

impl Site {
    fn new(
        service: Arc<TileService>,
        settings: &config::Settings,
        started: u64,
    ) -> Result<Self, InvalidHeaderValue> {
        let server = settings.server.clone();
        Ok(Self {
            service,
            cache_control: HeaderValue::from_str(&server.cache_control)?,
            server,
            description: describe(settings, started),
            documents: Arc::default(),
            listeners: Arc::default(),
            log: settings.log,
            deadline: settings.render.deadline,
        })
    }

    /// The mount of a tile's path.
    pub fn mount(&self, path: &TilePath<'_>) -> Option<&config::Mount> {
        self.server
            .mounts
            .iter()
            .find(|mount| mount.tile_service.as_str() == path.tile_service)
    }

    /// The problem of a path with an unknown tile service.
    pub fn unknown_mount(&self, name: &str) -> String {
        let mounts = self.server.mounts.iter().map(|mount| &mount.tile_service);
        format!(
            "there is no tile service {name:?}; there is {}",
            joined(mounts)
        )
    }

    /// The problem of a path at which there is nothing.
    pub fn nothing_here(&self) -> String {
        let mounts: Vec<String> = self
            .server
            .mounts
            .iter()
            .map(|mount| format!("/{}/tilecache/", mount.tile_service))
            .collect();
        let mounts = mounts.join(" and ");
        format!("there is nothing at this path; tiles are below {mounts}")
    }
}

/// The description of a site without its datasets. `started` is in milliseconds since 1970.
fn describe(settings: &config::Settings, started: u64) -> SiteDescription {
    let server = &settings.server;
    let cache = &settings.cache;
    let has_disk = cache.directory.is_some() && cache.disk > 0;
    let mounts = server.mounts.iter().map(|mount| MountDescription {
        tile_service: mount.tile_service.to_string(),
        content_type: mount.content_type.name().to_owned(),
        adjustable: mount.adjustable,
    });
    SiteDescription {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        mounts: mounts.collect(),
        datasets: Vec::new(),
        caches: CachesDescription {
            tiles: cache.tiles,
            chunks: cache.chunks,
            disk: has_disk.then_some(cache.disk),
        },
        threads: settings.render.threads.get(),
        started,
        neuroglancer: assets::neuroglancer()
            .map(str::to_owned)
            .or_else(|| server.neuroglancer.clone()),
        adjust: server.adjust,
        protected: false,
    }
}
