//! The table of keys: every key, in the order of the example, with its default and its purpose.
//!
//! The reader knows no other keys (others are faults), the environment is matched against them, and the
//! example is generated from them. The actual defaults are defined with the types; a test compares them with
//! the texts here.

#[derive(Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub shape: Shape,
    /// One line for the example.
    pub doc: &'static str,
}

/// What is below a key.
#[derive(Debug)]
pub(super) enum Shape {
    /// A value; the TOML text is its default.
    Default(&'static str),
    /// An optional value; the TOML text is an example.
    Optional(&'static str),
    /// A value that is nearly always needed; the TOML text is an example.
    Needed(&'static str),
    /// A value that may contain tables with these keys; the TOML text is an example.
    Inline(&'static str, &'static [Key]),
    /// An optional table, usually written in one line; the TOML text is an example.
    InlineTable(&'static str, &'static [Key]),
    /// One table.
    Table(&'static [Key]),
    /// An array of tables, of which one is there by default.
    List(&'static [Key]),
    /// An array of tables, empty by default.
    OptionalList(&'static [Key]),
    /// Tables with names chosen by the user; one name as an example.
    Named(&'static str, &'static [Key]),
}

impl Key {
    /// The keys of the tables below this one.
    pub fn below(&self) -> &'static [Key] {
        match self.shape {
            Shape::Default(_) | Shape::Optional(_) | Shape::Needed(_) => &[],
            Shape::Inline(_, keys)
            | Shape::InlineTable(_, keys)
            | Shape::Table(keys)
            | Shape::List(keys)
            | Shape::OptionalList(keys)
            | Shape::Named(_, keys) => keys,
        }
    }
}

pub(super) fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}

const fn default(name: &'static str, value: &'static str, doc: &'static str) -> Key {
    Key { name, shape: Shape::Default(value), doc }
}

const fn optional(name: &'static str, example: &'static str, doc: &'static str) -> Key {
    Key { name, shape: Shape::Optional(example), doc }
}

const fn needed(name: &'static str, example: &'static str, doc: &'static str) -> Key {
    Key { name, shape: Shape::Needed(example), doc }
}

/// The top level of the file.
pub(super) const ROOT: &[Key] = &[
    Key { name: "server", shape: Shape::Table(SERVER), doc: "HTTP." },
    Key {
        name: "cache",
        shape: Shape::Table(CACHE),
        doc: "Cache sizes: bytes, or \"KiB\", \"MiB\", \"GiB\".",
    },
    Key { name: "render", shape: Shape::Table(RENDER), doc: "Rendering." },
    Key { name: "files", shape: Shape::Table(FILES), doc: "How HDF5 files are opened." },
    Key { name: "log", shape: Shape::Table(LOG), doc: "The log on standard error." },
    Key {
        name: "access",
        shape: Shape::OptionalList(ACCESS),
        doc: "Who may see which datasets. Without any entry everything is public. Repeat the table for more entries.",
    },
    Key {
        name: "datasets",
        shape: Shape::Named("kasthuri11", DATASET),
        doc: "A dataset; the name is the token in URLs. Quote a name with a dot: [datasets.\"FlyEM.v1\"].",
    },
];

/// `[server]`
pub(super) const SERVER: &[Key] = &[
    optional(
        "bind",
        "\"127.0.0.1:8080\"",
        "Where to listen: HOST:PORT, or a list of them. Port 0 takes any free one. Default: this address, unless unix_socket is set or systemd passes sockets.",
    ),
    optional(
        "unix_socket",
        "\"/run/voltile/http.sock\"",
        "A Unix socket to listen on, beside bind if that is set, otherwise instead of it.",
    ),
    default("unix_socket_mode", "\"660\"", "The permissions of the Unix socket, in octal."),
    Key {
        name: "tls",
        shape: Shape::InlineTable("{ certificate = \"cert.pem\", key = \"key.pem\" }", TLS),
        doc: "HTTPS instead of HTTP on all addresses but the Unix socket: PEM files, relative to this file.",
    },
    optional("workers", "2", "HTTP threads, 1 to 1024. Default: the number of cores."),
    optional(
        "base_path",
        "\"/volumes\"",
        "The path prefix of the public address. Requests may arrive with or without it.",
    ),
    default(
        "hosts",
        "[]",
        "The host names (without port) that requests may be addressed to, such as \"tiles.example.org\"; [] for any.",
    ),
    default("cache_control", "\"public, max-age=3600\"", "The Cache-Control header of tiles."),
    default(
        "immutable",
        "false",
        "Whether the page and viewers' documents name datasets as TOKEN@VERSION, at addresses that never change their content and are cached for a year.",
    ),
    default(
        "cors_origins",
        "[\"*\"]",
        "Origins whose pages may read tiles; [] for none. With \"*\" any website open in the same browser can read everything served.",
    ),
    optional(
        "neuroglancer",
        "\"https://neuroglancer.example.org/\"",
        "The Neuroglancer that the page links to if none is built in. Its site must be among cors_origins.",
    ),
    default(
        "trusted_proxies",
        "[]",
        "Addresses or networks (\"10.0.0.0/8\") of proxies whose X-Forwarded-For, -Host and -Proto, or Forwarded, are trusted; \"unix\": whoever connects to the Unix socket.",
    ),
    default(
        "shutdown_timeout",
        "\"10s\"",
        "Time for requests in flight to finish after a stop: \"500ms\", \"10s\", \"2m\".",
    ),
    default("connections", "4096", "Maximum; lower if the limit of open files (ulimit -n) requires it."),
    default("connections_for_each_client", "512", "Maximum per client address; for IPv6, per /64 network."),
    optional(
        "bandwidth_for_each_client",
        "\"50 MiB\"",
        "Bytes sent per second to each client address, at least 1 KiB. Default: no limit.",
    ),
    default("head_timeout", "\"5s\"", "Time limit for a request line and headers to arrive."),
    default("idle_timeout", "\"75s\"", "Time a connection may be idle."),
    default("write_timeout", "\"60s\"", "Time a client may stop reading a response."),
    Key {
        name: "mounts",
        shape: Shape::List(MOUNT),
        doc: "Tiles are at /TILE_SERVICE/tilecache/... . Repeat the table for more mounts.",
    },
];

/// `server.tls`
pub(super) const TLS: &[Key] = &[
    needed("certificate", "\"cert.pem\"", "The certificate, followed by the intermediate ones."),
    needed("key", "\"key.pem\"", "Its private key."),
];

/// `[[server.mounts]]`
pub(super) const MOUNT: &[Key] = &[
    default("tile_service", "\"ndtilecache\"", "The first segment of the path."),
    default("content_type", "\"application/png\"", "Or \"image/png\", which CATMAID's probe requires."),
    default(
        "adjustable",
        "false",
        "Whether ?color=&min=&max=&gamma= change tiles, as in CATMAID's tile source 9.",
    ),
];

/// `[cache]`
pub(super) const CACHE: &[Key] = &[
    optional(
        "tiles",
        "\"512 MiB\"",
        "Encoded tiles in memory. Default: this, or less if the memory of the machine or the control group requires it.",
    ),
    optional("chunks", "\"1 GiB\"", "Decoded chunks in memory. Default: as for tiles."),
    optional(
        "directory",
        "\"cache\"",
        "Disk cache of encoded tiles, kept across restarts: a missing, empty or existing cache directory, relative to this file.",
    ),
    default("disk", "\"10 GiB\"", "Size of the disk cache."),
    default("blocks", "0", "Stored chunks of files in object storage, kept in the directory; 0: none."),
    optional(
        "redis",
        "\"redis://127.0.0.1:6379/0\"",
        "A Redis server in which several voltiles share encoded tiles: redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE].",
    ),
    default("redis_expiry", "\"7d\"", "How long Redis keeps a tile."),
    optional(
        "store",
        "\"s3://bucket/tiles\"",
        "A folder in object storage in which several voltiles share encoded tiles: s3://, gs:// or az://BUCKET/FOLDER.",
    ),
];

/// `[render]`
pub(super) const RENDER: &[Key] = &[
    optional(
        "threads",
        "2",
        "Threads that read, draw and encode, 1 to 1024. Default: the number of cores, or fewer if there is little memory.",
    ),
    default("queue", "256", "Maximum number of waiting renders; beyond it the response is 503."),
    default(
        "max_voxels_per_tile",
        "67108864",
        "Levels that need to read more voxels for one tile are not offered.",
    ),
    default("max_voxels_per_box", "67108864", "Boxes of voxels that need to read more are refused (413)."),
    optional(
        "boxes",
        "\"2 GiB\"",
        "Memory for boxes of voxels being made or sent; a quarter of it for each client. Default: as for cache.tiles.",
    ),
    default(
        "neighbours",
        "2",
        "Slices prefetched ahead of a scroll while threads are idle, at most 64; 0: none.",
    ),
    default(
        "verify",
        "\"idle\"",
        "When checksums of chunks decoded in part are compared: \"idle\", \"always\" (before showing) or \"never\".",
    ),
    default("png", "\"fast\"", "Or \"small\": fewer bytes, more time."),
    default(
        "deadline",
        "\"60s\"",
        "Time for a request's render, waiting included; beyond it the response is 503.",
    ),
];

/// `[log]`
pub(super) const LOG: &[Key] = &[
    default("format", "\"text\"", "Or \"json\": one object per line."),
    default("access", "false", "Whether every request is logged."),
    default(
        "slow",
        "\"1s\"",
        "Tiles, overviews and boxes that take longer are logged with the time of each stage; \"0s\": none.",
    ),
];

/// `[files]`
pub(super) const FILES: &[Key] = &[
    default(
        "trial",
        "\"on\"",
        "Open each file in a child process first, because some crash the HDF5 library; or \"off\".",
    ),
    default(
        "confinement",
        "\"on\"",
        "Give up the right to read other folders than those of the files, where the kernel has Landlock; or \"off\".",
    ),
    default(
        "watch",
        "false",
        "An interval, such as \"30s\", at which configuration and files are read again if they have changed.",
    ),
    default(
        "depth",
        "4",
        "How many folders deep the folders named on the command line are searched for HDF5 files; 0: only their own files.",
    ),
    default(
        "identity",
        "\"file\"",
        "What keys and ETags of tiles are made from: path, inode and times of the files; or \"content\": a digest of each whole file, the same in every replica.",
    ),
];

/// `[[access]]`
pub(super) const ACCESS: &[Key] = &[
    needed(
        "secrets",
        "\"secrets/lab.txt\"",
        "A file with one secret per line, relative to this file. Each of them opens the datasets.",
    ),
    default(
        "datasets",
        "[\"*\"]",
        "The protected datasets: tokens, in which * stands for any text and ? for one character.",
    ),
];

/// `[datasets.TOKEN]`
pub(super) const DATASET: &[Key] = &[
    needed("file", "\"data/kasthuri11.h5\"", "The HDF5 file, relative to this configuration file."),
    default("scaling", "\"zslices\"", "Downsampling keeps z; or \"isotropic\": halves z as well."),
    optional("voxel_size", "[6.0, 6.0, 30.0]", "x, y, z in nanometres. Default: from the file."),
    default("offset", "[0, 0, 0]", "x, y, z of the first voxel: where slice numbers start."),
    default(
        "orthogonal",
        "\"isotropic\"",
        "xz and yz tiles have square pixels; or \"stored\": one voxel per pixel.",
    ),
    default("out_of_bounds", "\"black\"", "Tiles entirely outside; or \"not_found\"."),
    default("allow_external", "false", "Whether links may leave the directory of the file that names them."),
    default(
        "growing",
        "false",
        "Whether the file is still being written: it is checked every two seconds, and reopened if it has changed.",
    ),
    Key {
        name: "channels",
        shape: Shape::Named("image", CHANNEL),
        doc: "A channel; without path and levels it adjusts the discovered one. No channels: all as discovered.",
    },
];

/// `[datasets.TOKEN.channels.CHANNEL]`
pub(super) const CHANNEL: &[Key] = &[
    optional("path", "\"/volumes/raw\"", "The HDF5 dataset."),
    optional("file", "\"data/other.h5\"", "If it is in another file than the dataset's."),
    Key {
        name: "levels",
        shape: Shape::Inline("[\"/volumes/raw\", { path = \"/volumes/raw_4\", factor = [4, 4, 1] }]", LEVEL),
        doc: "An explicit pyramid instead of path, finest first; factor: x, y, z relative to the first, default: from the sizes.",
    },
    optional(
        "axes",
        "\"czyx\"",
        "The axes as stored: any order of t c z y x. Default: from the layout or the rank.",
    ),
    optional("index", "{ c = 1 }", "Positions along axes that are not served."),
    optional("window", "[10, 240]", "The values shown as black and white; or \"auto\", or \"full\"."),
    optional("kind", "\"image\"", "Or \"labels\", or \"rgb\". Default: from the layout."),
    optional(
        "offset",
        "[300, 200, 15]",
        "x, y, z of the first voxel in voxels of the dataset's first channel. Default: from the file for discovered channels, else 0.",
    ),
    optional(
        "missing",
        "[65535]",
        "Values that stand for missing data: black, and left out of means and windows.",
    ),
    optional(
        "stored_values",
        "true",
        "Serve stored values although they stand for others (superpixels, indices into a palette). Default: false.",
    ),
];

/// A table within `levels`.
pub(super) const LEVEL: &[Key] = &[
    needed("path", "\"/volumes/raw_4\"", "The HDF5 dataset."),
    optional("factor", "[4, 4, 1]", "x, y, z relative to the first level."),
];
