//! The settings that a running server keeps until it is started again.

use super::settings::Settings;

/// Makes the function `keep` from a list of keys, each with its field of [`Settings`]: `keep`
/// restores the old values of these settings, and returns the keys of those that differed.
macro_rules! fixed {
    ($($key:literal: $($field:ident).+,)*) => {
        /// The keys in the list.
        #[cfg(test)]
        pub(super) const KEYS: &[&str] = &[$($key),*];

        fn keep(started: &Settings, settings: &mut Settings) -> Vec<String> {
            let mut kept = Vec::new();
            $(
                if settings.$($field).+ != started.$($field).+ {
                    settings.$($field).+.clone_from(&started.$($field).+);
                    kept.push($key.to_owned());
                }
            )*
            kept
        }
    };
}

fixed! {
    "server.bind": server.bind,
    "server.unix_socket": server.unix_socket,
    "server.unix_socket_mode": server.unix_socket_mode,
    "server.tls": server.tls,
    "server.workers": server.workers,
    "server.adjust": server.adjust,
    "server.drain_delay": server.drain_delay,
    "server.shutdown_timeout": server.shutdown_timeout,
    "server.connections": server.connections,
    "server.head_timeout": server.head_timeout,
    "server.idle_timeout": server.idle_timeout,
    "server.write_timeout": server.write_timeout,
    "cache.tiles": cache.tiles,
    "cache.chunks": cache.chunks,
    "cache.directory": cache.directory,
    "cache.disk": cache.disk,
    "cache.blocks": cache.blocks,
    "cache.redis": cache.redis,
    "cache.redis_expiry": cache.redis_expiry,
    "cache.store": cache.store,
    "render.threads": render.threads,
    "render.queue": render.queue,
    "render.boxes": render.boxes,
    "render.neighbours": render.neighbours,
    "render.verify": render.verify,
    "render.png": render.style.png,
    "files.identity": files.identity,
}

/// Restores the old values of the settings that a running server cannot change; returns the keys of
/// the settings that differed.
pub fn restart_only(started: &Settings, settings: &mut Settings) -> Vec<String> {
    let mut started = started.clone();
    // Only turning TLS on or off needs a restart.
    if started.server.tls.is_some() == settings.server.tls.is_some() {
        started.server.tls.clone_from(&settings.server.tls);
    }
    keep(&started, settings)
}
