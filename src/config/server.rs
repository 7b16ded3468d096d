//! The sections other than datasets: `[server]`, `[cache]`, `[render]`, `[files]` and `[log]`.
//! `base` is the directory of the configuration file.

use std::collections::BTreeSet;
use std::path::Path;

use config::Value;

use super::keys::{Key, Shape, default, needed, optional};
use super::reader::{Entry, Notes, Section, Setting, keys, located};
use super::settings::{
    Caches, ContentType, Files, IdentityRule, Log, LogFormat, Mount, Render, Server, Tls, Verify,
};
use super::values;
use crate::base::name::Name;
use crate::base::paint::PngProfile;

/// `[server]`
pub(super) fn server(base: &Path) -> Vec<Setting<Server>> {
    vec![
        optional("bind", "\"127.0.0.1:8080\"")
            .doc(
                "Where to listen: HOST:PORT, or a list of them. Port 0 takes any free one. Default: this \
                 address, unless unix_socket is set or systemd passes sockets.",
            )
            .sets_at_start(values::bind, |s| &mut s.bind),
        optional("unix_socket", "\"/run/voltile/http.sock\"")
            .doc("A Unix socket to listen on, beside bind if that is set, otherwise instead of it.")
            .sets_at_start(values::path_below(base), |s| &mut s.unix_socket),
        default("unix_socket_mode", "\"660\"")
            .doc("The permissions of the Unix socket, in octal.")
            .sets_at_start(values::permissions, |s| &mut s.unix_socket_mode),
        tls(base),
        optional("workers", "2")
            .doc("HTTP threads, 1 to 1024. Default: the number of cores.")
            .sets_at_start(values::threads, |s| &mut s.workers),
        optional("base_path", "\"/volumes\"")
            .doc("The path prefix of the public address. Requests may arrive with or without it.")
            .sets(base_path, |s| &mut s.base_path),
        default("hosts", "[]")
            .doc(
                "The host names (without port) that requests may be addressed to, such as \
                 \"tiles.example.org\"; [] for any.",
            )
            .sets(values::list(values::host), |s| &mut s.hosts),
        default("cache_control", "\"public, max-age=3600\"")
            .doc("The Cache-Control header of tiles.")
            .sets(values::header, |s| &mut s.cache_control),
        default("adjust", "true")
            .doc(
                "Whether the page may have tiles drawn with another range, gamma and colours, at /view/: on at \
                 most half of the render threads, after everything else.",
            )
            .sets_at_start(values::flag, |s| &mut s.adjust),
        default("immutable", "false")
            .doc(
                "Whether the page and viewers' documents name datasets as TOKEN@VERSION, at addresses that \
                 never change their content and are cached for a year.",
            )
            .sets(values::flag, |s| &mut s.immutable),
        default("cors_origins", "[\"*\"]")
            .doc(
                "Origins whose pages may read tiles; [] for none. With \"*\" any website open in the same \
                 browser can read everything served.",
            )
            .sets(values::list(values::origin), |s| &mut s.cors_origins),
        optional("neuroglancer", "\"https://neuroglancer.example.org/\"")
            .doc(
                "The Neuroglancer that the page links to if none is built in. Its site must be among \
                 cors_origins.",
            )
            .sets(values::viewer, |s| &mut s.neuroglancer),
        optional("references", "\"https://data.example.org/\"")
            .doc(
                "The public address of the folder that holds the data, at an object store or a web server: \
                 references to it are served at /references/. Default: none are.",
            )
            .sets(values::public_folder, |s| &mut s.references),
        default("trusted_proxies", "[]")
            .doc(
                "Addresses or networks (\"10.0.0.0/8\") of proxies whose X-Forwarded-For, -Host and -Proto, \
                 or Forwarded, are trusted; \"unix\": whoever connects to the Unix socket.",
            )
            .sets(values::list(values::proxy), |s| &mut s.trusted_proxies),
        default("drain_delay", "\"0s\"")
            .doc(
                "Time after a signal to stop in which connections are still accepted while /readyz is 503, so \
                 that load balancers notice.",
            )
            .sets_at_start(values::duration, |s| &mut s.drain_delay),
        default("shutdown_timeout", "\"10s\"")
            .doc("Time for requests in flight to finish after that: \"500ms\", \"10s\", \"2m\".")
            .sets_at_start(values::duration, |s| &mut s.shutdown_timeout),
        default("connections", "4096")
            .doc("Maximum; lower if the limit of open files (ulimit -n) requires it.")
            .sets_at_start(values::whole(1, usize::MAX), |s| &mut s.connections),
        default("connections_for_each_client", "512")
            .doc("Maximum per client address; for IPv6, per /64 network.")
            .sets_at_start(values::whole(1, usize::MAX), |s| &mut s.connections_for_each_client),
        optional("bandwidth_for_each_client", "\"50 MiB\"")
            .doc("Bytes sent per second to each client address, at least 1 KiB. Default: no limit.")
            .sets_at_start(values::bandwidth, |s| &mut s.bandwidth_for_each_client),
        default("head_timeout", "\"5s\"")
            .doc("Time limit for a request line and headers to arrive.")
            .sets_at_start(values::timeout, |s| &mut s.head_timeout),
        default("idle_timeout", "\"75s\"")
            .doc("Time a connection may be idle.")
            .sets_at_start(values::timeout, |s| &mut s.idle_timeout),
        default("write_timeout", "\"60s\"")
            .doc("Time a client may stop reading a response.")
            .sets_at_start(values::timeout, |s| &mut s.write_timeout),
        mounts(),
    ]
}

/// A path prefix; its first segment has no other meaning. `/` is the empty one.
fn base_path(value: &Value) -> Result<String, String> {
    let path = values::url_path(value)?;
    match path.split('/').nth(1) {
        Some(first) if TAKEN.contains(&first) => Err(format!(
            "{path:?} cannot be the base path: other addresses begin with {first:?}"
        )),
        _ => Ok(path),
    }
}

/// `server.tls`: only turning it on or off needs a restart.
fn tls(base: &Path) -> Setting<Server> {
    let table: Vec<Setting<Tls>> = vec![
        needed("certificate", "\"cert.pem\"")
            .doc("The certificate, followed by the intermediate ones.")
            .sets(values::path_below(base), |s| &mut s.certificate),
        needed("key", "\"key.pem\"")
            .doc("Its private key.")
            .sets(values::path_below(base), |s| &mut s.key),
    ];
    Key::new("tls", Shape::InlineTable("{ certificate = \"cert.pem\", key = \"key.pem\" }", keys(&table)))
        .doc("HTTPS instead of HTTP on all addresses but the Unix socket: PEM files, relative to this file.")
        .reads(move |section, server: &mut Server| {
            if !section.has("tls") {
                return;
            }
            let mut tls = Tls::default();
            let mut section = section.below("tls", &table, &mut tls);
            for name in ["certificate", "key"] {
                section.require(name, "is required for TLS: the path of a file in PEM format");
            }
            server.tls = Some(tls);
        })
        .kept_if(|started, server| started.tls.is_some() != server.tls.is_some(), |server| &mut server.tls)
}

/// `[[server.mounts]]`
fn mounts() -> Setting<Server> {
    let types =
        [ContentType::ApplicationPng, ContentType::ImagePng].map(|kind| (kind.name(), kind));
    let table: Vec<Setting<Mount>> = vec![
        default("tile_service", "\"ndtilecache\"")
            .doc("The first segment of the path.")
            .sets(mount_name, |s| &mut s.tile_service),
        default("content_type", "\"application/png\"")
            .doc("Or \"image/png\", which CATMAID's probe requires.")
            .sets(values::choice(types), |s| &mut s.content_type),
        default("adjustable", "false")
            .doc("Whether ?color=&min=&max=&gamma= change tiles, as in CATMAID's tile source 9.")
            .sets(values::flag, |s| &mut s.adjustable),
    ];
    Key::new("mounts", Shape::List(keys(&table)))
        .doc("Tiles are at /TILE_SERVICE/tilecache/... . Repeat the table for more mounts.")
        .reads(move |section, server: &mut Server| {
            match section.list("mounts") {
                None => {}
                Some(entries) if entries.is_empty() => {
                    section.fault(
                        "mounts",
                        "expected at least one mount; omit the key for the default one",
                    );
                }
                Some(entries) => server.mounts = read_mounts(entries, &table, section.notes()),
            }
            let first = server.base_path.split('/').nth(1).unwrap_or_default();
            if server
                .mounts
                .iter()
                .any(|mount| mount.tile_service.as_str() == first)
            {
                section.fault(
                    "base_path",
                    format!(
                        "it begins with {first:?}, which is a tile service; rename one of them"
                    ),
                );
                server.base_path = String::new();
            }
        })
}

fn read_mounts(
    entries: Vec<Entry<'_, usize>>,
    table: &[Setting<Mount>],
    notes: &mut Notes,
) -> Vec<Mount> {
    let mut seen = BTreeSet::new();
    let mut mounts = Vec::new();
    for entry in entries {
        let mut mount = Mount::default();
        Section::read(
            entry.path.clone(),
            Some(entry.value),
            table,
            &mut mount,
            notes,
        );
        if !seen.insert(mount.tile_service.clone()) {
            let problem = format!(
                "a mount {} exists already; each needs a different tile_service",
                mount.tile_service
            );
            notes.fault(entry.path, located(&problem, entry.value));
        }
        mounts.push(mount);
    }
    mounts
}

/// First segments of paths that have another meaning.
const TAKEN: [&str; 15] = [
    "datasets",
    "datasets.json",
    "events",
    "healthz",
    "k",
    "livez",
    "metrics",
    "neuroglancer",
    "openapi.json",
    "projects.json",
    "readyz",
    "references",
    "view",
    "voxels",
    "zarr",
];

fn mount_name(value: &Value) -> Result<Name, String> {
    let name = values::name_value(value)?;
    if TAKEN.contains(&name.as_str()) {
        return Err(format!(
            "{:?} cannot be a tile service: other addresses begin with it",
            name.as_str()
        ));
    }
    Ok(name)
}

/// `[cache]`
pub(super) fn cache(base: &Path) -> Vec<Setting<Caches>> {
    vec![
        optional("tiles", "\"512 MiB\"")
            .doc(
                "Encoded tiles in memory. Default: this, or less if the memory of the machine or the \
                 control group requires it.",
            )
            .sets_at_start(values::size, |s| &mut s.tiles),
        optional("chunks", "\"1 GiB\"")
            .doc("Decoded chunks in memory. Default: as for tiles.")
            .sets_at_start(values::size, |s| &mut s.chunks),
        optional("directory", "\"cache\"")
            .doc(
                "Disk cache of encoded tiles, kept across restarts: a missing, empty or existing cache \
                 directory, relative to this file.",
            )
            .sets_at_start(values::path_below(base), |s| &mut s.directory),
        default("disk", "\"10 GiB\"")
            .doc("Size of the disk cache.")
            .sets_at_start(values::size, |s| &mut s.disk),
        default("blocks", "0")
            .doc("Stored chunks of files in object storage, kept in the directory; 0: none.")
            .sets_at_start(values::size, |s| &mut s.blocks),
        optional("redis", "\"redis://127.0.0.1:6379/0\"")
            .doc(
                "A Redis server in which several voltiles share encoded tiles: \
                 redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE].",
            )
            .sets_at_start(values::redis, |s| &mut s.redis),
        default("redis_expiry", "\"7d\"")
            .doc("How long Redis keeps a tile.")
            .sets_at_start(values::expiry, |s| &mut s.redis_expiry),
        optional("store", "\"s3://bucket/tiles\"")
            .doc(
                "A folder in object storage in which several voltiles share encoded tiles: s3://, gs:// or \
                 az://BUCKET/FOLDER.",
            )
            .sets_at_start(values::bucket_folder, |s| &mut s.store),
    ]
}

/// `[render]`
pub(super) fn render() -> Vec<Setting<Render>> {
    vec![
        optional("threads", "2")
            .doc(
                "Threads that read, draw and encode, 1 to 1024. Default: the number of cores, or fewer if \
                 there is little memory.",
            )
            .sets_at_start(values::threads, |s| &mut s.threads),
        default("queue", "256")
            .doc("Maximum number of waiting renders; beyond it the response is 503.")
            .sets_at_start(values::whole(0, usize::MAX), |s| &mut s.queue),
        default("max_voxels_per_tile", "67108864")
            .doc("Levels that need to read more voxels for one tile are not offered.")
            .sets(values::whole(1, u64::MAX), |s| &mut s.max_voxels_per_tile),
        default("max_voxels_per_box", "67108864")
            .doc("Boxes of voxels that need to read more are refused (413).")
            .sets(values::whole(1, u64::MAX), |s| &mut s.max_voxels_per_box),
        optional("boxes", "\"2 GiB\"")
            .doc(
                "Memory for boxes of voxels being made or sent; a quarter of it for each client. Default: \
                 as for cache.tiles.",
            )
            .sets_at_start(values::size, |s| &mut s.boxes),
        default("neighbours", "2")
            .doc("Slices prefetched ahead of a scroll while threads are idle, at most 64; 0: none.")
            .sets_at_start(values::whole(0u32, 64), |s| &mut s.neighbours),
        default("verify", "\"idle\"")
            .doc(
                "When checksums of chunks decoded in part are compared: \"idle\", \"always\" (before \
                 showing) or \"never\".",
            )
            .sets_at_start(values::choice(Verify::NAMES), |s| &mut s.verify),
        default("png", "\"fast\"")
            .doc("Or \"small\": fewer bytes, more time.")
            .sets_at_start(values::choice([("fast", PngProfile::Fast), ("small", PngProfile::Small)]), |s| {
                &mut s.style.png
            }),
        default("deadline", "\"60s\"")
            .doc("Time for a request's render, waiting included; beyond it the response is 503.")
            .sets(values::timeout, |s| &mut s.deadline),
    ]
}

/// `[files]`
pub(super) fn files() -> Vec<Setting<Files>> {
    vec![
        default("trial", "\"on\"")
            .doc("Open each file in a child process first, because some crash the HDF5 library; or \"off\".")
            .sets(values::choice([("on", true), ("off", false)]), |s| &mut s.trial),
        default("watch", "false")
            .doc(
                "An interval, such as \"30s\", at which configuration and files are read again if they have \
                 changed.",
            )
            .sets(values::interval, |s| &mut s.watch),
        default("depth", "4")
            .doc(
                "How many folders deep the folders named on the command line are searched for HDF5 files; \
                 0: only their own files.",
            )
            .sets(values::whole(0usize, 64), |s| &mut s.depth),
        default("identity", "\"file\"")
            .doc(
                "What keys and ETags of tiles are made from: path, inode and times of the files; or \
                 \"content\": a digest of each whole file, the same in every replica.",
            )
            .sets_at_start(
                values::choice([("file", IdentityRule::File), ("content", IdentityRule::Content)]),
                |s| &mut s.identity,
            ),
    ]
}

/// `[log]`
pub(super) fn log() -> Vec<Setting<Log>> {
    vec![
        default("format", "\"text\"")
            .doc("Or \"json\": one object per line.")
            .sets(values::choice([("text", LogFormat::Text), ("json", LogFormat::Json)]), |s| &mut s.format),
        default("access", "false")
            .doc("Whether every request is logged.")
            .sets(values::flag, |s| &mut s.access),
        default("slow", "\"1s\"")
            .doc(
                "Tiles, overviews and boxes that take longer are logged with the time of each stage; \
                 \"0s\": none.",
            )
            .sets(values::duration, |s| &mut s.slow),
    ]
}
