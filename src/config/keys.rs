//! The table of keys: every key there is, in the order of the example, with its default and what it is for.
//!
//! The reader knows no other keys than these (the rest are faults), the environment is matched against them, and
//! the example is written from them. The defaults' values live with the types; a test holds the texts here to them.

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub shape: Shape,
    /// One line for the example.
    pub doc: &'static str,
}

/// What stands below a key.
#[derive(Debug)]
pub(super) enum Shape {
    /// A value; the TOML text is its default.
    Default(&'static str),
    /// A value that may be left out; the TOML text is an example.
    Optional(&'static str),
    /// A value that is nearly always needed; the TOML text is an example.
    Needed(&'static str),
    /// A value in which tables with these keys may stand; the TOML text is an example.
    Inline(&'static str, &'static [Key]),
    /// One table.
    Table(&'static [Key]),
    /// Any number of tables in a row.
    List(&'static [Key]),
    /// Tables by names of the user's choice; one name as an example.
    Named(&'static str, &'static [Key]),
}

impl Key {
    /// The keys of the tables below this one.
    pub fn below(&self) -> &'static [Key] {
        match self.shape {
            Shape::Default(_) | Shape::Optional(_) | Shape::Needed(_) => &[],
            Shape::Inline(_, keys) | Shape::Table(keys) | Shape::List(keys) | Shape::Named(_, keys) => keys,
        }
    }
}

/// The key of that name.
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

/// The top of the file.
pub(super) const ROOT: &[Key] = &[
    Key { name: "server", shape: Shape::Table(SERVER), doc: "HTTP." },
    Key {
        name: "cache",
        shape: Shape::Table(CACHE),
        doc: "Memory, and a disk: bytes, or \"KiB\", \"MiB\", \"GiB\".",
    },
    Key { name: "render", shape: Shape::Table(RENDER), doc: "How tiles are made." },
    Key { name: "files", shape: Shape::Table(FILES), doc: "How HDF5 files are opened." },
    Key {
        name: "datasets",
        shape: Shape::Named("kasthuri11", DATASET),
        doc: "A dataset; the name is the token in URLs. Quote a name with a dot: [datasets.\"FlyEM.v1\"].",
    },
];

/// `[server]`
pub(super) const SERVER: &[Key] = &[
    default("bind", "\"127.0.0.1:8080\"", "Where to listen: HOST:PORT. Port 0 takes any free one."),
    optional("workers", "2", "HTTP threads, 1 to 1024. Default: as many as there are cores."),
    default("cache_control", "\"public, max-age=3600\"", "The Cache-Control header of tiles."),
    default(
        "cors_origins",
        "[\"*\"]",
        "Pages of which origins may read tiles; [] for none. With \"*\" any website open in the same browser can read all that is served.",
    ),
    default(
        "trusted_proxies",
        "[]",
        "Addresses or networks (\"10.0.0.0/8\") of proxies whose X-Forwarded-For, -Host and -Proto, or Forwarded, are believed.",
    ),
    default(
        "shutdown_timeout",
        "\"10s\"",
        "How long requests in flight may take to end: \"500ms\", \"10s\", \"2m\".",
    ),
    default("connections", "4096", "At most; fewer where the limit of open files (ulimit -n) asks for it."),
    default(
        "connections_for_each_client",
        "512",
        "At most from one address; for IPv6, from one /64 network.",
    ),
    default("head_timeout", "\"5s\"", "How long the request line and the headers of a request may take."),
    default("idle_timeout", "\"75s\"", "How long a connection may be without a request."),
    default("write_timeout", "\"60s\"", "How long a client may read nothing of its answer."),
    Key {
        name: "mounts",
        shape: Shape::List(MOUNT),
        doc: "Tiles are at /TILE_SERVICE/tilecache/... . Repeat the table for more mounts.",
    },
];

/// `[[server.mounts]]`
pub(super) const MOUNT: &[Key] = &[
    default("tile_service", "\"ndtilecache\"", "The first segment of the path."),
    default("content_type", "\"application/png\"", "Or \"image/png\", which CATMAID's probe wants."),
    default(
        "adjustable",
        "false",
        "Whether ?color=&min=&max=&gamma= change tiles, as CATMAID's tile source 9 asks.",
    ),
];

/// `[cache]`
pub(super) const CACHE: &[Key] = &[
    default("tiles", "\"512 MiB\"", "Encoded tiles."),
    default("chunks", "\"1 GiB\"", "Decoded chunks."),
    optional(
        "directory",
        "\"cache\"",
        "A directory for encoded tiles, which stay over restarts: empty, missing, or voltile's. Relative to this file.",
    ),
    default("disk", "\"10 GiB\"", "How much of its disk they may take."),
];

/// `[render]`
pub(super) const RENDER: &[Key] = &[
    optional(
        "threads",
        "2",
        "Threads that read, draw and encode, 1 to 1024. Default: as many as there are cores.",
    ),
    default("queue", "256", "Waiting renders beyond which the answer is 503."),
    default(
        "max_voxels_per_tile",
        "67108864",
        "Levels that would read more voxels for one tile are not offered.",
    ),
    default(
        "neighbours",
        "2",
        "Slices rendered ahead of a scroll while threads are idle, at most 64; 0: none.",
    ),
    default(
        "verify",
        "\"idle\"",
        "When checksums of chunks decoded in part are compared: \"idle\", \"always\" (before showing) or \"never\".",
    ),
    default("png", "\"fast\"", "Or \"small\": fewer bytes for more time."),
];

/// `[files]`
pub(super) const FILES: &[Key] = &[default(
    "trial",
    "\"on\"",
    "Each file is opened in a child process first, since some crash the HDF5 library. Or \"off\": without a trial.",
)];

/// `[datasets.TOKEN]`
pub(super) const DATASET: &[Key] = &[
    needed("file", "\"data/kasthuri11.h5\"", "The HDF5 file, relative to this configuration file."),
    default("scaling", "\"zslices\"", "Levels keep z; or \"isotropic\": they halve z as well."),
    optional("voxel_size", "[6.0, 6.0, 30.0]", "x, y, z in nanometres. Default: what the file says."),
    default("offset", "[0, 0, 0]", "x, y, z of the first voxel: what slice numbers begin at."),
    default(
        "orthogonal",
        "\"isotropic\"",
        "xz and yz tiles have square pixels; or \"stored\": one voxel, one row.",
    ),
    default("out_of_bounds", "\"black\"", "Tiles wholly outside; or \"not_found\"."),
    default("allow_external", "false", "Whether links may leave the directory of the file that names them."),
    default(
        "growing",
        "false",
        "Whether an instrument is writing the file: it is reopened every two seconds.",
    ),
    Key {
        name: "channels",
        shape: Shape::Named("image", CHANNEL),
        doc: "A channel; without path and levels it adjusts the discovered one. None: all as discovered.",
    },
];

/// `[datasets.TOKEN.channels.CHANNEL]`
pub(super) const CHANNEL: &[Key] = &[
    optional("path", "\"/volumes/raw\"", "The HDF5 dataset."),
    optional("file", "\"data/other.h5\"", "Where it is not the dataset's own file."),
    Key {
        name: "levels",
        shape: Shape::Inline("[\"/volumes/raw\", { path = \"/volumes/raw_4\", factor = [4, 4, 1] }]", LEVEL),
        doc: "An explicit pyramid in place of path, finest first; factor: x, y, z against the first, else from the sizes.",
    },
    optional(
        "axes",
        "\"czyx\"",
        "The axes as stored: any order of t c z y x. Default: from the layout or the rank.",
    ),
    optional("index", "{ c = 1 }", "Positions along axes that are not served."),
    optional("window", "[10, 240]", "What becomes black and white; or \"auto\", or \"full\"."),
    optional("kind", "\"image\"", "Or \"labels\", or \"rgb\". Default: what the layout says."),
];

/// A table within `levels`.
pub(super) const LEVEL: &[Key] = &[
    needed("path", "\"/volumes/raw_4\"", "The HDF5 dataset."),
    optional("factor", "[4, 4, 1]", "x, y, z against the first level."),
];
