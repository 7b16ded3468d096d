//! The settings that a running server cannot change. All others are applied by a reload; a test compares both with the
//! table of keys and with the manual.

use super::Settings;

/// A key, and what gives its setting the old value, and says whether it was another.
type Fixed = (&'static str, fn(&Settings, &mut Settings) -> bool);

macro_rules! fixed {
    ($($section:ident . $name:ident),* $(,)?) => {
        &[$((concat!(stringify!($section), ".", stringify!($name)), |started, settings| {
            keep(&started.$section.$name, &mut settings.$section.$name)
        })),*]
    };
}

const FIXED: &[Fixed] = fixed! {
    server.bind, server.unix_socket, server.unix_socket_mode, server.workers, server.shutdown_timeout,
    server.connections, server.connections_for_each_client, server.bandwidth_for_each_client, server.head_timeout,
    server.idle_timeout, server.write_timeout,
    cache.tiles, cache.chunks, cache.directory, cache.disk, cache.blocks, cache.redis, cache.redis_expiry, cache.store,
    render.threads, render.queue, render.boxes, render.neighbours, render.verify, render.png,
    files.confinement, files.identity,
};

/// Only turning it on or off needs a restart.
const TLS: Fixed = ("server.tls", |started, settings| {
    let is_other = started.server.tls.is_some() != settings.server.tls.is_some();
    is_other && keep(&started.server.tls, &mut settings.server.tls)
});

fn all() -> impl Iterator<Item = &'static Fixed> {
    FIXED.iter().chain([&TLS])
}

/// Gives those settings back their old values that a running server cannot change; returns their keys.
pub fn keep_fixed(started: &Settings, settings: &mut Settings) -> Vec<&'static str> {
    all().filter(|(_, keep)| keep(started, settings)).map(|(key, _)| *key).collect()
}

fn keep<T: Clone + PartialEq>(old: &T, new: &mut T) -> bool {
    let is_other = old != new;
    if is_other {
        new.clone_from(old);
    }
    is_other
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::keys::{ROOT, Shape};

    /// The settings of the whole server that a reload applies.
    const APPLIED: [&str; 17] = [
        "server.base_path",
        "server.hosts",
        "server.cache_control",
        "server.immutable",
        "server.cors_origins",
        "server.neuroglancer",
        "server.trusted_proxies",
        "server.mounts",
        "render.max_voxels_per_tile",
        "render.max_voxels_per_box",
        "render.deadline",
        "files.trial",
        "files.watch",
        "files.depth",
        "log.format",
        "log.access",
        "log.slow",
    ];

    #[test]
    fn every_key_is_applied_by_a_reload_or_named_by_it_and_by_the_manual() {
        let fixed: BTreeSet<&str> = all().map(|(key, _)| *key).collect();
        let sections = ROOT.iter().filter(|key| matches!(key.shape, Shape::Table(_)));
        let keys = sections.flat_map(|of| of.below().iter().map(|key| format!("{}.{}", of.name, key.name)));
        let keys: BTreeSet<String> = keys.collect();
        let known: Vec<&str> = fixed.iter().copied().chain(APPLIED).collect();
        assert_eq!(known.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), keys);
        assert_eq!(known.len(), keys.len(), "no key is both");
        let manual = include_str!("../../docs/operation.md");
        let named = manual.split("take effect only after a restart").nth(1).unwrap().split("\n\n").next();
        let named = named.unwrap().split('`').skip(1).step_by(2).collect::<BTreeSet<_>>();
        assert_eq!(named, fixed, "the keys in the manual's section on reloading");
    }

    #[test]
    fn settings_that_need_a_restart_are_kept_and_named() {
        let started = Settings::default();
        let mut settings = Settings::default();
        settings.cache.tiles = 1;
        settings.render.queue = 1;
        settings.render.max_voxels_per_box = 1;
        settings.server.cors_origins = Vec::new();
        settings.server.tls = Some(crate::config::Tls::default());
        assert_eq!(keep_fixed(&started, &mut settings), ["cache.tiles", "render.queue", "server.tls"]);
        assert_eq!((&settings.cache, &settings.server.tls), (&started.cache, &None));
        assert!(settings.render.queue == started.render.queue && settings.render.max_voxels_per_box == 1);
        assert!(settings.server.cors_origins.is_empty());
        // Other files of TLS are applied.
        let [one, mut other] = ["a", "b"].map(|key| {
            let mut settings = Settings::default();
            settings.server.tls = Some(crate::config::Tls { key: key.into(), ..Default::default() });
            settings
        });
        assert!(keep_fixed(&one, &mut other).is_empty() && one != other);
    }
}
