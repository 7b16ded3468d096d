//! Reads the sections other than datasets: `[server]`, `[cache]`, `[render]`, `[files]` and `[log]`.

use std::collections::BTreeSet;
use std::path::Path;

use config::Value;

use super::keys;
use super::reader::{Entry, Notes, Section, at};
use super::settings::{
    Caches, ContentType, Files, IdentityRule, Log, LogFormat, Mount, Render, Server, Settings, Tls, Verify,
};
use super::values;
use crate::name::Name;
use crate::paint::PngProfile;

/// Reads these sections into the settings; `base` is the directory of the configuration file.
pub(super) fn read(root: &mut Section<'_, '_>, base: &Path, settings: &mut Settings) {
    server(root.section("server", keys::SERVER), base, &mut settings.server);
    cache(root.section("cache", keys::CACHE), base, &mut settings.cache);
    render(root.section("render", keys::RENDER), &mut settings.render);
    files(root.section("files", keys::FILES), &mut settings.files);
    log(root.section("log", keys::LOG), &mut settings.log);
}

fn server(mut section: Section<'_, '_>, base: &Path, server: &mut Server) {
    section.set("bind", values::bind, &mut server.bind);
    section.set("unix_socket", values::path_below(base), &mut server.unix_socket);
    section.set("unix_socket_mode", values::permissions, &mut server.unix_socket_mode);
    if section.has("tls") {
        server.tls = Some(tls(section.section("tls", keys::TLS), base));
    }
    section.set("workers", values::threads, &mut server.workers);
    section.set("base_path", base_path, &mut server.base_path);
    section.set("hosts", values::list(values::host), &mut server.hosts);
    section.set("cache_control", values::header, &mut server.cache_control);
    section.set("immutable", values::flag, &mut server.immutable);
    section.set("cors_origins", values::list(values::origin), &mut server.cors_origins);
    section.set("neuroglancer", values::viewer, &mut server.neuroglancer);
    section.set("trusted_proxies", values::list(values::proxy), &mut server.trusted_proxies);
    section.set("shutdown_timeout", values::duration, &mut server.shutdown_timeout);
    section.set("connections", values::whole(1, usize::MAX), &mut server.connections);
    section.set(
        "connections_for_each_client",
        values::whole(1, usize::MAX),
        &mut server.connections_for_each_client,
    );
    section.set("bandwidth_for_each_client", values::bandwidth, &mut server.bandwidth_for_each_client);
    section.set("head_timeout", values::timeout, &mut server.head_timeout);
    section.set("idle_timeout", values::timeout, &mut server.idle_timeout);
    section.set("write_timeout", values::timeout, &mut server.write_timeout);
    match section.list("mounts") {
        None => {}
        Some(entries) if entries.is_empty() => {
            section.fault("mounts", "expected at least one mount; omit the key for the default one");
        }
        Some(entries) => server.mounts = mounts(entries, section.notes()),
    }
    let first = server.base_path.split('/').nth(1).unwrap_or_default();
    if server.mounts.iter().any(|mount| mount.tile_service.as_str() == first) {
        section.fault(
            "base_path",
            format!("it begins with {first:?}, which is a tile service; rename one of them"),
        );
        server.base_path = String::new();
    }
}

/// A path prefix; its first segment has no other meaning. `/` is the empty one.
fn base_path(value: &Value) -> Result<String, String> {
    let path = values::url_path(value)?;
    match path.split('/').nth(1) {
        Some(first) if TAKEN.contains(&first) => {
            Err(format!("{path:?} cannot be the base path: other addresses begin with {first:?}"))
        }
        _ => Ok(path),
    }
}

fn tls(mut section: Section<'_, '_>, base: &Path) -> Tls {
    let mut tls = Tls::default();
    for (name, slot) in [("certificate", &mut tls.certificate), ("key", &mut tls.key)] {
        if section.has(name) {
            section.set(name, values::path_below(base), slot);
        } else {
            section.missing(name, "is required for TLS: the path of a file in PEM format");
        }
    }
    tls
}

fn mounts(entries: Vec<Entry<'_, usize>>, notes: &mut Notes) -> Vec<Mount> {
    let mut seen = BTreeSet::new();
    let mut mounts = Vec::new();
    for entry in entries {
        let mount = mount(Section::open(entry.path.clone(), Some(entry.value), keys::MOUNT, notes));
        if !seen.insert(mount.tile_service.clone()) {
            let problem =
                format!("a mount {} exists already; each needs a different tile_service", mount.tile_service);
            notes.fault(entry.path, at(&problem, entry.value));
        }
        mounts.push(mount);
    }
    mounts
}

/// First segments of paths that have another meaning.
const TAKEN: [&str; 12] = [
    "datasets",
    "datasets.json",
    "healthz",
    "k",
    "livez",
    "metrics",
    "neuroglancer",
    "openapi.json",
    "projects.json",
    "readyz",
    "voxels",
    "zarr",
];

fn mount_name(value: &Value) -> Result<Name, String> {
    let name = values::name_value(value)?;
    if TAKEN.contains(&name.as_str()) {
        return Err(format!("{:?} cannot be a tile service: other addresses begin with it", name.as_str()));
    }
    Ok(name)
}

fn mount(mut section: Section<'_, '_>) -> Mount {
    let types = [ContentType::ApplicationPng, ContentType::ImagePng].map(|kind| (kind.name(), kind));
    let mut mount = Mount::default();
    section.set("tile_service", mount_name, &mut mount.tile_service);
    section.set("content_type", values::choice(&types), &mut mount.content_type);
    section.set("adjustable", values::flag, &mut mount.adjustable);
    mount
}

fn cache(mut section: Section<'_, '_>, base: &Path, cache: &mut Caches) {
    section.set("tiles", values::size, &mut cache.tiles);
    section.set("chunks", values::size, &mut cache.chunks);
    section.set("directory", values::path_below(base), &mut cache.directory);
    section.set("disk", values::size, &mut cache.disk);
    section.set("blocks", values::size, &mut cache.blocks);
    section.set("redis", values::redis, &mut cache.redis);
    section.set("redis_expiry", values::expiry, &mut cache.redis_expiry);
    section.set("store", values::bucket_folder, &mut cache.store);
}

fn render(mut section: Section<'_, '_>, render: &mut Render) {
    let profiles = [("fast", PngProfile::Fast), ("small", PngProfile::Small)];
    section.set("threads", values::threads, &mut render.threads);
    section.set("queue", values::whole(0, usize::MAX), &mut render.queue);
    section.set("max_voxels_per_tile", values::whole(1, u64::MAX), &mut render.max_voxels_per_tile);
    section.set("max_voxels_per_box", values::whole(1, u64::MAX), &mut render.max_voxels_per_box);
    section.set("boxes", values::size, &mut render.boxes);
    section.set("neighbours", values::whole(0u32, 64), &mut render.neighbours);
    section.set("verify", values::choice(&Verify::NAMES), &mut render.verify);
    section.set("png", values::choice(&profiles), &mut render.png);
    section.set("deadline", values::timeout, &mut render.deadline);
}

fn log(mut section: Section<'_, '_>, log: &mut Log) {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    section.set("format", values::choice(&formats), &mut log.format);
    section.set("access", values::flag, &mut log.access);
    section.set("slow", values::duration, &mut log.slow);
}

fn files(mut section: Section<'_, '_>, files: &mut Files) {
    section.set("trial", values::choice(&[("on", true), ("off", false)]), &mut files.trial);
    section.set("confinement", values::choice(&[("on", true), ("off", false)]), &mut files.confinement);
    section.set("watch", values::interval, &mut files.watch);
    section.set("depth", values::whole(0usize, 64), &mut files.depth);
    let rules = [("file", IdentityRule::File), ("content", IdentityRule::Content)];
    section.set("identity", values::choice(&rules), &mut files.identity);
}
