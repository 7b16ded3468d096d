//! Configurations as typed, and the resulting settings or faults.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::{Scaling, Xyz};
use voltile_base::name::Name;
use voltile_base::paint::{Kind, PngProfile, Window, WindowRule};

use super::*;

/// A configuration file in a directory of its own.
struct Typed {
    directory: tempfile::TempDir,
    layers: Layers,
}

fn typed(text: &str) -> Typed {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("voltile.toml");
    std::fs::write(&config, text).unwrap();
    Typed {
        directory,
        layers: Layers {
            config: Some(config),
            ..Layers::default()
        },
    }
}

impl Typed {
    fn set(mut self, flags: &[&str]) -> Self {
        self.layers
            .set
            .extend(flags.iter().map(ToString::to_string));
        self
    }

    fn env(mut self, variables: &[(&str, &str)]) -> Self {
        self.layers.env.extend(
            variables
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string())),
        );
        self
    }

    fn load(&self) -> Loaded {
        load(&self.layers)
    }

    /// Each fault as a line, without the directory's path.
    fn faults(&self) -> Vec<String> {
        let here = format!("{}/", self.directory.path().display());
        self.load()
            .faults
            .iter()
            .map(|fault| fault.to_string().replace(&here, ""))
            .collect()
    }

    fn settings(&self) -> Settings {
        let loaded = self.load();
        assert_eq!(loaded.faults, [], "no fault was expected");
        loaded.settings
    }

    fn dataset(&self, token: &str) -> DatasetSettings {
        self.settings()
            .datasets
            .remove(&name(token))
            .expect("the dataset is there")
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A configuration file with most of the keys.
const TYPICAL: &str = r#"
[server]
bind = "127.0.0.1:8080"
workers = 2                        # HTTP threads; default: cores
cache_control = "public, max-age=3600"
cors_origins = ["*"]
shutdown_timeout = "10s"

[[server.mounts]]                  # default: this one mount
tile_service = "ndtilecache"
content_type = "application/png"   # or "image/png"

[cache]
tiles = "512 MiB"                  # encoded tiles, LRU by bytes
chunks = "1 GiB"                   # decoded chunks

[render]
threads = 2                        # default: cores
queue = 256                        # maximum number of waiting renders; beyond it the response is 503
max_voxels_per_tile = 67108864
max_voxels_per_box = 67108864
png = "fast"                       # or "small"

[datasets.kasthuri11]              # the token
file = "data/kasthuri11.h5"        # relative to this configuration file
scaling = "zslices"                # or "isotropic"
voxel_size = [6.0, 6.0, 30.0]      # x, y, z in nanometres (only ratios matter for tiles); overrides the file's
offset = [0, 0, 1]                 # x, y, z; default 0
orthogonal = "isotropic"           # or "stored"
out_of_bounds = "black"            # or "not_found"

[datasets.kasthuri11.channels.image]   # optional: without it, channels are discovered
path = "/volumes/raw"              # the HDF5 dataset
# file = "other.h5"                # if it is not in the dataset's file
# levels = ["/raw", "/raw_2", { path = "/raw_4", factor = [4, 4, 1] }]   # an explicit pyramid, finest first;
                                   # factor is x, y, z relative to the first; default from the sizes
axes = "zyx"                       # any order of t c z y x; default from the layout or the rank
index = { c = 1 }                  # fixes an axis that is not served
window = [10, 240]                 # or "auto" or "full"
kind = "image"                     # image | labels | rgb
"#;

#[test]
fn a_full_configuration_is_read() {
    let typed = typed(
        &TYPICAL
            .replace("# file =", "file =")
            .replace("# levels =", "levels ="),
    );
    let dataset = typed.dataset("kasthuri11");
    let channel = &dataset.channels[&name("image")];
    assert_eq!(
        dataset.file,
        Some(typed.directory.path().join("data/kasthuri11.h5").into())
    );
    assert_eq!(dataset.style.voxel_size, Some(Xyz::new(6.0, 6.0, 30.0)));
    assert_eq!(dataset.style.offset, Xyz::new(0, 0, 1));
    assert_eq!(
        (
            dataset.style.square_pixels,
            dataset.style.not_found_outside,
            dataset.allow_external
        ),
        (true, false, false)
    );
    assert_eq!(channel.path.as_deref(), Some("/volumes/raw"));
    assert_eq!(
        channel.file,
        Some(typed.directory.path().join("other.h5").into())
    );
    let paths: Vec<_> = channel
        .levels
        .iter()
        .map(|level| (level.path.as_str(), level.factor))
        .collect();
    assert_eq!(
        paths,
        [
            ("/raw", None),
            ("/raw_2", None),
            ("/raw_4", Some(Xyz::new(4, 4, 1)))
        ]
    );
    assert_eq!(channel.axes, Some(Axes::new("zyx").unwrap()));
    assert_eq!(channel.index, BTreeMap::from([(AxisName::C, 1)]));
    assert_eq!(
        channel.window,
        Some(WindowRule::Fixed(Window::Whole { lo: 10, hi: 240 }))
    );
    assert_eq!(channel.kind, Some(Kind::Image));
    assert_eq!(
        typed.settings().server.workers,
        NonZeroUsize::new(2).unwrap()
    );
}

#[test]
fn an_index_along_a_missing_axis_is_a_warning() {
    let warnings = typed(TYPICAL).load().warnings;
    let expected = "datasets.kasthuri11.channels.image.index: c has no effect: the axes \"zyx\" do not have it";
    assert_eq!(
        warnings.iter().map(Fault::to_string).collect::<Vec<_>>(),
        [expected]
    );
}

#[test]
fn an_empty_configuration_gives_the_defaults() {
    let loaded = load(&Layers::default());
    assert_eq!(loaded, Loaded::default());
    assert_eq!(loaded.settings.server.mounts, [Mount::default()]);
    assert_eq!(
        (loaded.settings.cache.tiles, loaded.settings.cache.chunks),
        (536_870_912, 1_073_741_824)
    );
}

#[test]
fn all_mistakes_in_a_file_are_reported_at_once() {
    let typed = typed(
        r#"[server]
bind = "localhost"
worker = 4
shutdown_timeout = 10

[cache]
tiles = "lots"

[render]
threads = 0
png = "tiny"

[datasets.viking]
file = "a.h5"

[datasets.em]
voxel_size = [4.0, 4.0]
[datasets.em.channels."my channel"]
window = [0, inf]
[datasets.em.channels.raw]
kind = "grey"
axes = "zy"
"#,
    );
    let faults = typed.faults();
    assert_eq!(
        faults,
        [
            "cache.tiles: a size such as \"512 MiB\", \"1 GiB\" or a number of bytes is expected, not the text \"lots\" (line 7)",
            "datasets.em.channels.\"my channel\": \"my channel\" is not a name: names have one or more letters, digits, '_', '-' or '.'",
            "datasets.em.channels.\"my channel\".window: two limits such as [10, 240] (finite, whole ones from -2^63 to 2^64-1), \"auto\" or \"full\" is expected, not a list of 2 (line 19)",
            "datasets.em.channels.raw.axes: \"zy\" lacks y or x (line 22)",
            "datasets.em.channels.raw.kind: \"image\" or \"labels\" or \"rgb\" is expected, not the text \"grey\" (line 21)",
            "datasets.em.file: a file is needed here, or in each channel; missing for raw",
            "datasets.em.voxel_size: a list of three numbers [x, y, z] is expected, not a list of 2 (line 17)",
            "datasets.viking: \"viking\" cannot be a token: paths in Viking's form begin with it; \"viking_\" would do",
            "render.png: \"fast\" or \"small\" is expected, not the text \"tiny\" (line 11)",
            "render.threads: a whole number from 1 to 1024 is expected, not the whole number 0 (line 10)",
            "server.bind: \"localhost\" is not an address with a port: expected HOST:PORT, such as \"127.0.0.1:8080\", \"localhost:0\" (any free port) or \"[::]:80\" (every interface) (line 2)",
            "server.shutdown_timeout: a time with its unit in quotes, such as \"500ms\", \"10s\" or \"2m\", at most a day, is expected, not the whole number 10 (line 4)",
            "server.worker: there is no such key; did you mean \"workers\"? (line 3)",
        ]
    );
}

#[test]
fn tokens_survive_exactly_through_every_layer() {
    let typed = typed(
        "[datasets.\"FlyEM.v1\"]\nfile = \"a.h5\"\n[datasets.a-B_c]\nfile = \"b.h5\"\n[datasets.\"1[0]\"]\nfile = \"c.h5\"",
    )
    .set(&["datasets.\"FlyEM.v1\".scaling=isotropic", "datasets.'New.one'.file=d.h5"])
    .env(&[("VOLTILE_DATASETS__A-B_C__ALLOW_EXTERNAL", "true"), ("VOLTILE_DATASETS__FlyEM.v1__OFFSET", "[1,2,3]")]);
    let Loaded {
        settings, faults, ..
    } = typed.load();
    let tokens: Vec<&str> = settings.datasets.keys().map(Name::as_str).collect();
    assert_eq!(tokens, ["FlyEM.v1", "New.one", "a-B_c"]);
    assert_eq!(
        faults
            .iter()
            .map(|fault| fault.key.as_str())
            .collect::<Vec<_>>(),
        ["datasets.\"1[0]\""]
    );
    let fly = &settings.datasets[&name("FlyEM.v1")];
    assert_eq!(
        (fly.style.scaling, fly.style.offset),
        (Scaling::Isotropic, Xyz::new(1, 2, 3))
    );
    assert!(settings.datasets[&name("a-B_c")].allow_external);
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let file = "[server]\nbind = \"a:1\"\n[render]\nqueue = 1\nthreads = 1\npng = \"small\"\n[cache]\ntiles = 1";
    let mut typed = typed(file)
        .env(&[
            ("VOLTILE_SERVER__BIND", "b:2"),
            ("VOLTILE_RENDER__QUEUE", "2"),
            ("VOLTILE_RENDER__THREADS", "2"),
        ])
        .env(&[
            ("VOLTILE_CACHE__TILES", ""),
            ("VOLTILE_LOG", "debug"),
            ("PATH", "/bin"),
        ])
        .set(&["server.bind=c:3", "render.queue=3", "render.queue=4"]);
    let settings = typed.settings();
    assert_eq!(settings.server.bind, Some(vec![address("c:3")]));
    assert_eq!(
        (settings.render.queue, settings.render.threads.get()),
        (4, 2)
    );
    assert_eq!(
        (settings.render.style.png, settings.cache.tiles),
        (PngProfile::Small, 1)
    );
    typed.layers.bind = vec!["localhost:0".to_owned(), "[::1]:1".to_owned()];
    assert_eq!(
        typed.settings().server.bind,
        Some(vec![address("localhost:0"), address("[::1]:1")])
    );
}

fn address(text: &str) -> BindAddress {
    BindAddress::new(text).unwrap()
}

#[test]
fn where_to_listen_is_one_address_or_a_list_or_a_unix_socket() {
    let server = |text: &str| typed(&format!("[server]\n{text}")).settings().server;
    assert_eq!(server("").addresses(false), [address("127.0.0.1:8080")]);
    assert_eq!(server("").addresses(true), []);
    assert_eq!(server("unix_socket = \"/run/a\"").addresses(false), []);
    assert_eq!(
        server("bind = []\nunix_socket = \"/run/a\"").addresses(false),
        []
    );
    let both = server("bind = [\"a:1\", \"b:2\"]\nunix_socket = \"/run/a\"");
    assert_eq!(both.addresses(true), [address("a:1"), address("b:2")]);
    assert_eq!(
        (both.unix_socket, both.unix_socket_mode),
        (Some("/run/a".into()), 0o660)
    );
    let relative = typed("[server]\nunix_socket = \"http.sock\"\nunix_socket_mode = \"0600\"");
    let settings = relative.settings().server;
    assert_eq!(
        settings.unix_socket,
        Some(relative.directory.path().join("http.sock"))
    );
    assert_eq!(settings.unix_socket_mode, 0o600);
    let set = typed("")
        .set(&["server.bind=[\"a:1\", \"b:2\"]"])
        .settings()
        .server;
    assert_eq!(set.addresses(false).len(), 2);
}

#[test]
fn tls_needs_a_certificate_and_a_key() {
    let file = typed("[server]\ntls = { certificate = \"a.pem\", key = \"/b.pem\" }");
    let tls = file.settings().server.tls.expect("it is set");
    assert_eq!(
        (tls.certificate, tls.key),
        (file.directory.path().join("a.pem"), "/b.pem".into())
    );
    let half = typed("[server.tls]\ncertificate = \"a.pem\"").faults();
    assert!(
        half.len() == 1 && half[0].starts_with("server.tls.key: "),
        "{half:?}"
    );
    let empty = typed("[server]\ntls = {}").faults();
    assert_eq!(empty.len(), 2, "{empty:?}");
    let neither = typed("[server]\ntls = true").faults();
    assert!(
        neither.len() == 1 && neither[0].starts_with("server.tls: a table"),
        "{neither:?}"
    );
}

#[test]
fn values_of_flags_and_variables_are_toml_or_else_text() {
    let typed = typed("[datasets.Em]\nfile = \"a.h5\"").set(&[
        "server.cache_control=public, max-age=60",
        "server.mounts=[{tile_service=\"tiles\", content_type=\"image/png\"}]",
        "cache={tiles = \"1 KiB\", chunks = 2048}",
        "datasets.Em.voxel_size=[4, 4, 40.5]",
    ]);
    let typed = typed.env(&[
        ("VOLTILE_DATASETS__EM__CHANNELS__RAW__WINDOW", "[0, 1]"),
        ("VOLTILE_DATASETS__EM__CHANNELS__RAW__INDEX__C", "2"),
        ("VOLTILE_SERVER__SHUTDOWN_TIMEOUT", "1500ms"),
    ]);
    let settings = typed.settings();
    assert_eq!(settings.server.cache_control, "public, max-age=60");
    let mount = Mount {
        tile_service: name("tiles"),
        content_type: ContentType::ImagePng,
        adjustable: false,
    };
    assert_eq!(settings.server.mounts, [mount]);
    assert_eq!((settings.cache.tiles, settings.cache.chunks), (1024, 2048));
    assert_eq!(
        settings.server.shutdown_timeout,
        Duration::from_millis(1500)
    );
    let dataset = &settings.datasets[&name("Em")];
    assert_eq!(dataset.style.voxel_size, Some(Xyz::new(4.0, 4.0, 40.5)));
    assert_eq!(
        dataset.channels[&name("raw")].index,
        BTreeMap::from([(AxisName::C, 2)])
    );
    assert_eq!(
        dataset.channels[&name("raw")].window,
        Some(WindowRule::Fixed(Window::Whole { lo: 0, hi: 1 }))
    );
}

#[test]
fn faults_name_the_flag_or_variable_they_came_from() {
    let typed = typed("")
        .env(&[
            ("VOLTILE_RENDER__QUEUE", "-1"),
            ("VOLTILE_NOSUCH__KEY", "1"),
        ])
        .set(&["render.threads=many", "server.bind", "a\n[b]\nc=1"]);
    let faults = typed.faults();
    let begin: Vec<&str> = faults
        .iter()
        .map(|fault| fault.split(':').next().unwrap())
        .collect();
    assert_eq!(
        begin,
        [
            "--set a\n[b]\nc=1",
            "--set server.bind",
            "nosuch",
            "render.queue",
            "render.threads"
        ]
    );
    assert!(
        faults[2]
            .ends_with("the keys here are server, cache, render, files, log, access, datasets"),
        "{faults:#?}"
    );
    assert!(
        faults[3].ends_with("not the whole number -1 (VOLTILE_RENDER__QUEUE)"),
        "{faults:#?}"
    );
    assert!(
        faults[4].ends_with("not the text \"many\" (--set)"),
        "{faults:#?}"
    );
}

#[test]
fn a_variable_with_a_single_underscore_is_a_warning() {
    let typed = typed("").env(&[
        ("VOLTILE_SERVER_BIND", "x"),
        ("VOLTILE_SERVER_PORT", "tcp://10.0.0.1:80"),
    ]);
    let loaded = typed.load();
    assert_eq!(loaded.faults, []);
    let warnings: Vec<_> = loaded
        .warnings
        .iter()
        .map(|warning| warning.key.as_str())
        .collect();
    assert_eq!(warnings, ["VOLTILE_SERVER_BIND"]);
    assert!(
        loaded.warnings[0]
            .problem
            .contains("VOLTILE_SERVER__BIND would set it")
    );
}

#[test]
fn a_syntax_error_is_reported_with_its_position() {
    for (text, position) in [
        (
            "[server]\nbind = 127.0.0.1:80\nworkers = 0\n",
            "line 2, column 13: ",
        ),
        ("[datasets.a]\nfile =\n[datasets.b]\n", "line 2, column 7: "),
        (
            "[server]\ncors_origins = [\"*\"\nworkers = 2\n",
            "line 3, column 1: ",
        ),
    ] {
        let faults = typed(text).faults();
        let begin = format!("voltile.toml: {position}");
        assert!(
            faults.len() == 1 && faults[0].starts_with(&begin),
            "{faults:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault() {
    let mut typed = typed("");
    typed.layers.config = Some(typed.directory.path().join("absent.toml"));
    let faults = typed.faults();
    assert!(
        faults.len() == 1 && faults[0].starts_with("absent.toml: cannot be read: "),
        "{faults:?}"
    );
}

#[test]
fn files_are_served_under_their_stems() {
    let files = [
        "em/vol 1.h5",
        "fluo/vol_1.hdf",
        "mcfc.h5",
        "b.h5",
        "b.tar.h5",
        "/x/b.h5",
        "größe.h5",
        "..h5",
    ];
    let config = typed("[datasets.b]\nfile = \"c.h5\"");
    let files = files.map(|file| Path::new(file).into()).to_vec();
    let set = vec!["datasets.vol_1.voxel_size=[1,1,9]".to_owned()];
    let loaded = load(&Layers {
        files,
        set,
        ..config.layers.clone()
    });
    assert_eq!(loaded.faults, []);
    let file = |dataset: &DatasetSettings| dataset.file.clone().unwrap().to_string();
    let served: Vec<_> = loaded
        .settings
        .datasets
        .iter()
        .map(|(token, dataset)| (token.as_str(), file(dataset)))
        .collect();
    let configured = config.directory.path().join("c.h5").display().to_string();
    let expected = [
        ("._", "..h5"),
        ("b", configured.as_str()),
        ("b.tar", "b.tar.h5"),
        ("b_2", "b.h5"),
        ("b_3", "/x/b.h5"),
        ("gr__e", "größe.h5"),
        ("mcfc_", "mcfc.h5"),
        ("vol_1", "em/vol 1.h5"),
        ("vol_1_2", "fluo/vol_1.hdf"),
    ];
    assert_eq!(
        served,
        expected.map(|(token, file)| (token, file.to_owned()))
    );
    assert_eq!(
        loaded.settings.datasets[&name("vol_1")].style.voxel_size,
        Some(Xyz::new(1.0, 1.0, 9.0))
    );
}

#[test]
fn paths_in_flags_are_relative_to_the_working_directory() {
    let typed = typed("[datasets.a]\nfile = \"a.h5\"\n[datasets.b]\nfile = \"/data/b.h5\"");
    assert_eq!(
        typed.dataset("a").file,
        Some(typed.directory.path().join("a.h5").into())
    );
    assert_eq!(
        typed.dataset("b").file,
        Some(Path::new("/data/b.h5").into())
    );
    assert_eq!(
        typed.set(&["datasets.a.file=x/a.h5"]).dataset("a").file,
        Some(Path::new("x/a.h5").into())
    );
}

#[test]
fn a_text_that_only_begins_like_a_number_is_a_text() {
    let typed = typed("").set(&["datasets.a.file=2020.h5", "server.cache_control=1 2"]);
    assert_eq!(typed.dataset("a").file, Some(Path::new("2020.h5").into()));
    assert_eq!(typed.settings().server.cache_control, "1 2");
}

#[test]
fn every_dataset_needs_a_file_somewhere() {
    let cases = [
        (
            "[datasets.a]",
            "datasets.a.file: a dataset needs a file, such as file = \"data/kasthuri11.h5\"",
        ),
        (
            "[datasets.a.channels.c]\nlevels = [\"/x\"]",
            "datasets.a.file: a file is needed here, or in each channel; missing for c",
        ),
        (
            "[datasets.a.channels.c]\nfile = \"x.h5\"",
            "datasets.a.channels.c.path: a channel with a file of its own needs the path of the HDF5 dataset in it",
        ),
    ];
    for (text, fault) in cases {
        assert_eq!(typed(text).faults(), [fault], "{text}");
    }
    for right in [
        "file = \"x.h5\"\npath = \"/x\"",
        "file = \"x.h5\"\nlevels = [\"/x\"]",
    ] {
        assert_eq!(
            typed(&format!("[datasets.a.channels.c]\n{right}")).faults(),
            [] as [&str; 0]
        );
    }
}

#[test]
fn a_token_with_a_dot_that_was_not_quoted_is_explained() {
    let faults = typed("[datasets.FlyEM.v1]\nfile = \"a.h5\"").faults();
    assert!(
        faults
            .iter()
            .any(|fault| fault.contains("must be quoted: \"FlyEM.v1\"")),
        "{faults:?}"
    );
}

#[test]
fn windows_are_integers_if_both_limits_are() {
    let window = |text: &str| {
        let typed = typed(&format!(
            "[datasets.a]\nfile = \"a\"\n[datasets.a.channels.c]\nwindow = {text}"
        ));
        typed.dataset("a").channels[&name("c")].window
    };
    let whole = |lo, hi| Some(WindowRule::Fixed(Window::Whole { lo, hi }));
    let real = |lo, hi| Some(WindowRule::Fixed(Window::Real { lo, hi }));
    assert_eq!(window("[240, -10]"), whole(240, -10));
    assert_eq!(window("[10.0, 20]"), whole(10, 20));
    assert_eq!(
        window("[0, 18446744073709551615]"),
        whole(0, u64::MAX.into())
    );
    assert_eq!(
        window("[-9223372036854775808, 9223372036854775807]"),
        whole(i64::MIN.into(), i64::MAX.into())
    );
    assert_eq!(window("[0, 0.5]"), real(0.0, 0.5));
    assert_eq!(window("[0.0, 1e30]"), real(0.0, 1e30));
    assert_eq!(
        (window("\"auto\""), window("\"full\"")),
        (Some(WindowRule::Auto), Some(WindowRule::Full))
    );
}

#[test]
fn wrong_values_are_refused() {
    let wrong = [
        ("channels.c.window", "[0, nan]"),
        ("channels.c.window", "[0, 18446744073709551616]"),
        ("channels.c.window", "[0, 1e400]"),
        ("channels.c.window", "[1]"),
        ("channels.c.window", "\"Auto\""),
        ("channels.c.path", "\"\""),
        ("channels.c.path", "\"a\\u0000\""),
        ("channels.c.axes", "\"zyxx\""),
        ("channels.c.index", "{ x = 1 }"),
        ("channels.c.index.c", "-1"),
        ("channels.c.index", "{ C = 1 }"),
        ("channels.c.levels", "[]"),
        ("channels.c.levels[0]", "[1]"),
        (
            "channels.c.levels[0].factor",
            "[{ path = \"/a\", factor = [2, 2, 2] }]",
        ),
        (
            "channels.c.levels[1].factor",
            "[\"/a\", { path = \"/b\", factor = [2, 2, 0] }]",
        ),
        (
            "channels.c.levels[1].path",
            "[\"/a\", { factor = [2, 2, 1] }]",
        ),
        (
            "channels.c.levels[1].scale",
            "[\"/a\", { path = \"/b\", scale = [2, 2, 1] }]",
        ),
        ("voxel_size", "[1, 1, 0]"),
        ("voxel_size", "[1, 1, inf]"),
        ("voxel_size[2]", "[1, 1, \"1\"]"),
        ("offset[2]", "[0, 0, 1.5]"),
        ("offset[2]", "[0, 0, 9223372036854775808]"),
        ("allow_external", "\"true\""),
        ("file", "2024-01-01"),
    ];
    for (key, value) in wrong {
        let line = format!("datasets.a.{}={value}", key.split('[').next().unwrap());
        let typed = typed("[datasets.a]\nfile = \"a.h5\"").set(&[&line]);
        let keys: Vec<_> = typed
            .load()
            .faults
            .into_iter()
            .map(|fault| fault.key)
            .collect();
        assert_eq!(keys, [format!("datasets.a.{key}")], "{line}");
    }
}

#[test]
fn wrong_values_of_the_server_are_refused() {
    let wrong = [
        ("server.bind", "8080"),
        ("server.workers", "1025"),
        ("server.workers", "2.0"),
        ("server.cache_control", "\"a\\r\\nX: y\""),
        ("server.cache_control", "\" \""),
        ("server.cors_origins", "\"*\""),
        ("server.cors_origins", "[\"https://a.org/\"]"),
        ("server.cors_origins", "[\"a.org\"]"),
        ("server.neuroglancer", "\"neuroglancer.example.org\""),
        ("server.neuroglancer", "\"https://a.org/#!{}\""),
        ("server.neuroglancer", "\"javascript://a.org\""),
        ("server.references", "\"https://me:word@a.org/\""),
        ("server.references", "\"https://a.org/?signature\""),
        ("server.trusted_proxies", "\"127.0.0.1\""),
        ("server.trusted_proxies[0]", "[\"localhost\"]"),
        (
            "server.trusted_proxies[1]",
            "[\"127.0.0.1\", \"10.0.0.1/8\"]",
        ),
        ("server.shutdown_timeout", "\"1M\""),
        ("server.shutdown_timeout", "\"10\""),
        ("server.connections", "0"),
        ("server.head_timeout", "\"0s\""),
        ("server.idle_timeout", "75"),
        ("server.write_timeout", "\"2 days\""),
        ("server.mounts", "[]"),
        (
            "server.mounts[0].tile_service",
            "[{ tile_service = \"..\" }]",
        ),
        ("server.mounts[1]", "[{}, {}]"),
        ("server.mounts[0]", "[1]"),
        ("cache.tiles", "\"99999999999 GiB\""),
        ("cache.tiles", "-1"),
        ("cache.tiles", "1.5"),
        ("render.max_voxels_per_tile", "0"),
        ("render", "1"),
        ("datasets", "1"),
        ("datasets.a", "1"),
    ];
    for (key, value) in wrong {
        let line = format!("{}={value}", key.split('[').next().unwrap());
        let keys: Vec<_> = typed("")
            .set(&[&line])
            .load()
            .faults
            .into_iter()
            .map(|fault| fault.key)
            .collect();
        assert_eq!(keys, [key], "{line}");
    }
}

#[test]
fn sizes_and_durations_are_exact() {
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("\"4096\"", 4096),
        ("\"1KiB\"", 1024),
        ("\"512 MiB\"", 1 << 29),
    ] {
        assert_eq!(
            typed(&format!("cache.tiles = {text}"))
                .settings()
                .cache
                .tiles,
            bytes,
            "{text}"
        );
    }
    for (text, millis) in [
        ("500ms", 500),
        ("10s", 10_000),
        ("2m", 120_000),
        ("1m 30s", 90_000),
        ("0s", 0),
    ] {
        let settings = typed(&format!("server.shutdown_timeout = \"{text}\"")).settings();
        assert_eq!(
            settings.server.shutdown_timeout,
            Duration::from_millis(millis),
            "{text}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        text in "([a-z\\[\\]{}=.,\"'#é\n 0-9_-]|datasets\\.|server|channels\\.|levels|\"\"\"){0,60}",
    ) {
        let set = vec![text.clone(), format!("datasets={text}"), format!("{text}=1"), format!("server.{text}")];
        let env = vec![(format!("VOLTILE_{text}__{text}"), text.clone())];
        load(&Layers { set, env, bind: vec![text.clone()], files: vec![Path::new(&text).into()], ..Layers::default() });
        let _ = toml_file::tree(&text);
    }
}

/// The example with every key uncommented.
fn uncommented() -> String {
    let on = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(on).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_unchanged_gives_the_defaults_and_one_dataset() {
    let typed = typed(EXAMPLE);
    let settings = typed.settings();
    let file = typed.directory.path().join("data/kasthuri11.h5");
    let dataset = DatasetSettings {
        below: "data".into(),
        ..DatasetSettings::of_file(file)
    };
    let datasets = BTreeMap::from([(name("kasthuri11"), dataset)]);
    assert_eq!(
        settings,
        Settings {
            datasets,
            ..Settings::default()
        }
    );
}

#[test]
fn the_example_with_every_key_uncommented_is_valid() {
    let loaded = typed(&uncommented()).load();
    assert_eq!((loaded.faults, loaded.warnings), (vec![], vec![]));
    let channel = &loaded.settings.datasets[&name("kasthuri11")].channels[&name("image")];
    assert_eq!(channel.levels.len(), 2);
    assert!(channel.window.is_some() && channel.kind.is_some() && channel.axes.is_some());
}

/// The keys of the example by their tables, such as `server.mounts`; with the values of those that
/// are not commented out.
fn example_keys() -> BTreeMap<String, BTreeMap<&'static str, Option<&'static str>>> {
    let mut tables: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    let mut table = String::new();
    for line in EXAMPLE.lines().filter(|line| !line.starts_with("# ")) {
        let text = line.trim_start_matches('#');
        if text.starts_with('[') {
            table = text.trim_matches(['[', ']']).to_owned();
            tables.entry(table.clone()).or_default();
        } else if let Some((key, value)) = text.split_once(" = ") {
            let value = Some(value).filter(|_| !line.starts_with('#'));
            tables.get_mut(&table).unwrap().insert(key, value);
        }
    }
    tables
}

/// The keys that may stand in a table, as a fault tells; `flag` sets one that does not exist there.
fn known_keys(flag: &str) -> BTreeSet<String> {
    let faults = typed("").set(&[flag]).faults();
    let told = faults.iter().find_map(|fault| {
        let (_, keys) = fault.split_once("there is no such key; the keys here are ")?;
        keys.split_once(" (--set)")
    });
    let (keys, _) = told.unwrap_or_else(|| panic!("{flag}: {faults:?}"));
    keys.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_example_has_every_key() {
    let set =
        |keys: &[&str]| -> BTreeSet<String> { keys.iter().map(ToString::to_string).collect() };
    let tables = example_keys();
    for (table, keys) in &tables {
        let flag = match table.as_str() {
            "server.mounts" | "access" => format!("{table}=[{{ absent-key = 1 }}]"),
            _ => format!("{table}.absent-key=1"),
        };
        let mut there: BTreeSet<String> = keys.keys().map(ToString::to_string).collect();
        // The tables below it, and below their names.
        for below in tables.keys() {
            let rest = below.strip_prefix(&format!("{table}."));
            there.extend(rest.map(|rest| rest.split('.').next().unwrap().to_owned()));
        }
        assert_eq!(there, known_keys(&flag), "{table}");
    }
    let channel = "datasets.a.channels.c";
    assert_eq!(
        known_keys("server.tls.absent-key=1"),
        set(&["certificate", "key"])
    );
    assert_eq!(
        known_keys(&format!("{channel}.names.absent-key=1")),
        set(&["file", "path", "id", "name"])
    );
    assert_eq!(
        known_keys(&format!("{channel}.levels=[{{ absent-key = 1 }}]")),
        set(&["path", "factor"])
    );
    assert_eq!(
        known_keys("absent-key=1"),
        set(&[
            "server", "cache", "render", "files", "log", "access", "datasets"
        ])
    );
}

#[test]
fn a_cache_directory_is_relative_to_its_source() {
    let file = typed("[cache]\ndirectory = \"tiles\"\ndisk = \"2 GiB\"");
    let cache = file.settings().cache;
    assert_eq!(
        (cache.directory, cache.disk),
        (Some(file.directory.path().join("tiles")), 2 << 30)
    );
    let set = typed("[cache]\ndirectory = \"tiles\"")
        .set(&["cache.directory=\"here\""])
        .settings()
        .cache;
    assert_eq!((set.directory, set.disk), (Some("here".into()), 10 << 30));
    assert_eq!(typed("").settings().cache.directory, None);
    let faults = typed("[cache]\ndirectory = 7\ndisk = \"much\"").faults();
    assert!(
        faults[0].starts_with("cache.directory: a path in quotes")
            && faults[1].contains("cache.disk"),
        "{faults:?}"
    );
}

#[test]
fn the_manual_names_the_keys_that_need_a_restart() {
    let manual = include_str!("../../docs/reloading.md");
    let named = manual
        .split("take effect only after a restart")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next();
    let named = named
        .unwrap()
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned);
    let fixed = restart::KEYS.iter().map(ToString::to_string);
    assert_eq!(
        named.collect::<BTreeSet<_>>(),
        fixed.collect::<BTreeSet<_>>()
    );
}

/// The rows of the manual's table below a heading: key and default.
fn manual_rows(heading: &str) -> Vec<(&'static str, &'static str)> {
    let manual = include_str!("../../docs/configuration.md");
    let section = manual
        .split(&format!("\n## `{heading}`\n"))
        .nth(1)
        .expect(heading);
    let rows = section
        .split("\n## ")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' '])))
        .map(|mut cells| {
            (
                cells.next().unwrap().trim_matches('`'),
                cells.next().unwrap(),
            )
        })
        .collect()
}

#[test]
fn the_manual_has_every_key_with_its_default() {
    for (table, keys) in example_keys() {
        let name = table
            .replace("kasthuri11", "TOKEN")
            .replace("image", "CHANNEL");
        let heading = match table.as_str() {
            "server.mounts" | "access" => format!("[[{name}]]"),
            _ => format!("[{name}]"),
        };
        let rows: BTreeMap<&str, &str> = manual_rows(&heading).into_iter().collect();
        assert_eq!(
            rows.keys().collect::<Vec<_>>(),
            keys.keys().collect::<Vec<_>>(),
            "{heading}"
        );
        for (key, default) in keys {
            // The file of the example's dataset is no default.
            if let Some(default) = default.filter(|_| key != "file") {
                assert_eq!(rows[key], format!("`{default}`"), "{heading} {key}");
            }
        }
    }
}

#[test]
fn settings_that_need_a_restart_are_kept_and_named() {
    let started = Settings::default();
    let mut settings = Settings::default();
    settings.cache.tiles = 1;
    settings.render.queue = 1;
    settings.render.max_voxels_per_box = 1;
    settings.server.cors_origins = Vec::new();
    settings.server.tls = Some(Tls::default());
    assert_eq!(
        restart_only(&started, &mut settings),
        ["server.tls", "cache.tiles", "render.queue"]
    );
    assert_eq!(
        (&settings.cache, &settings.server.tls),
        (&started.cache, &None)
    );
    assert!(
        settings.render.queue == started.render.queue && settings.render.max_voxels_per_box == 1
    );
    assert!(settings.server.cors_origins.is_empty());
    // Other files of TLS are applied.
    let [one, mut other] = ["a", "b"].map(|key| {
        let mut settings = Settings::default();
        settings.server.tls = Some(Tls {
            key: key.into(),
            ..Default::default()
        });
        settings
    });
    assert!(restart_only(&one, &mut other).is_empty() && one != other);
}
