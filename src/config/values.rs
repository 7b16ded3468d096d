//! Reads single values with serde: sizes, times, names, windows.
//!
//! Every error says what is expected. Types are as strict as TOML's: a quoted number is a text.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use config::{Value, ValueKind};
use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::Xyz;
use voltile_base::name::Name;
use voltile_base::paint::{Number, Window, WindowRule};
use voltile_base::request::{MCFC, VIKING};
use voltile_hdf5::store::Location;
use voltile_hdf5::store::address::{Address, Scheme};

use super::address::{BindAddress, is_host_label};
use super::network::Proxy;
use super::redis::RedisAddress;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Integers up to 2^53 are exact as floating point numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// First segments of paths that have another meaning than a tile service.
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

/// Reads types that are written as a text, which their own constructor checks.
macro_rules! read_from_text {
    ($($checked:ty),*) => {$(
        impl<'de> Deserialize<'de> for $checked {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(&String::deserialize(from)?).map_err(D::Error::custom)
            }
        }
    )*};
}

read_from_text!(Proxy, RedisAddress);

/// Reads a value that `parse` understands. The error is `right`, "is expected", and the wrong
/// value, which [`tree`](super::tree) adds; so a long `right` ends with a comma.
fn read<'de, D: Deserializer<'de>, T>(
    from: D,
    right: &str,
    parse: impl FnOnce(&Value) -> Option<T>,
) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    parse(&value).ok_or_else(|| D::Error::invalid_type(Unexpected::Other("another value"), &right))
}

/// Reads a text that passes a check; `right` names the expected text in the error.
fn text<'de, D: Deserializer<'de>>(
    from: D,
    right: &str,
    is_right: impl Fn(&str) -> bool,
) -> Result<String, D::Error> {
    read(from, right, |value| {
        let text = text_of(value).filter(|text| is_right(text));
        text.map(str::to_owned)
    })
}

/// Reads a list of texts that pass a check; `right` names the expected text in the error.
fn list<'de, D: Deserializer<'de>>(
    from: D,
    right: &str,
    is_right: impl Fn(&str) -> bool,
) -> Result<Vec<String>, D::Error> {
    let items = Vec::<String>::deserialize(from)?;
    match items.iter().find(|item| !is_right(item)) {
        None => Ok(items),
        Some(item) => Err(D::Error::custom(format!(
            "{right} is expected, not the text {item:?}"
        ))),
    }
}

fn text_of(value: &Value) -> Option<&str> {
    match &value.kind {
        ValueKind::String(text) => Some(text),
        _ => None,
    }
}

fn whole_of(value: &Value) -> Option<i128> {
    match value.kind {
        ValueKind::I64(number) => Some(number.into()),
        ValueKind::I128(number) => Some(number),
        _ => None,
    }
}

/// A time with its unit, within limits.
fn time_of(value: &Value, limits: RangeInclusive<Duration>) -> Option<Duration> {
    let time = humantime::parse_duration(text_of(value)?).ok()?;
    limits.contains(&time).then_some(time)
}

/// One or more addresses to listen on.
pub(super) fn bind<'de, D>(from: D) -> Result<Option<Vec<BindAddress>>, D::Error>
where
    D: Deserializer<'de>,
{
    let right = "an address such as \"127.0.0.1:8080\", or a list of them,";
    let texts: Vec<String> = read(from, right, |value| match &value.kind {
        ValueKind::Array(items) => items
            .iter()
            .map(|item| text_of(item).map(str::to_owned))
            .collect(),
        _ => Some(vec![text_of(value)?.to_owned()]),
    })?;
    let addresses: Result<Vec<_>, _> = texts.iter().map(|text| BindAddress::new(text)).collect();
    addresses.map(Some).map_err(D::Error::custom)
}

/// A list of at least one item.
pub(super) fn nonempty<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let items = Vec::deserialize(from)?;
    if items.is_empty() {
        return Err(D::Error::custom(
            "at least one is expected; omit the key for the default",
        ));
    }
    Ok(items)
}

/// A whole number within inclusive limits.
pub(super) fn whole<'de, D, T, const LEAST: i128, const MOST: i128>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i128>,
{
    let right = format!("a whole number from {LEAST} to {MOST}");
    read(from, &right, |value| {
        let number = whole_of(value).filter(|number| (LEAST..=MOST).contains(number))?;
        T::try_from(number).ok()
    })
}

/// A whole number above 0.
pub(super) fn positive<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i128>,
{
    read(from, "a whole number above 0", |value| {
        let number = whole_of(value).filter(|number| *number > 0)?;
        T::try_from(number).ok()
    })
}

/// A number of threads.
pub(super) fn threads<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroUsize, D::Error> {
    let number = whole::<_, _, 1, 1024>(from)?;
    Ok(NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN))
}

/// Reads one of two words. Returns whether it is the first one.
fn is_first_of<'de, D: Deserializer<'de>>(
    from: D,
    [first, second]: [&str; 2],
) -> Result<bool, D::Error> {
    let right = format!("{first:?} or {second:?}");
    read(from, &right, |value| match text_of(value)? {
        text if text == first => Some(true),
        text if text == second => Some(false),
        _ => None,
    })
}

/// `"on"` or `"off"`.
pub(super) fn switch<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    is_first_of(from, ["on", "off"])
}

/// Whether pixels of xz and yz tiles are square.
pub(super) fn orthogonal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    is_first_of(from, ["isotropic", "stored"]).map(Some)
}

/// Whether tiles outside of the volume are answered with 404, rather than black.
pub(super) fn out_of_bounds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    let is_black = is_first_of(from, ["black", "not_found"])?;
    Ok(Some(!is_black))
}

/// A non-empty text without NUL, such as a path in a file system or in an HDF5 file.
pub(super) fn path<'de, D: Deserializer<'de>, T: From<String>>(from: D) -> Result<T, D::Error> {
    let is_path = |text: &str| !text.is_empty() && !text.contains('\0');
    text(from, "a path in quotes", is_path).map(T::from)
}

/// Like [`path`], for an optional setting.
pub(super) fn optional_path<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: From<String>,
{
    path(from).map(Some)
}

/// The path of a file of secrets. The error does not repeat the wrong value: it may be a secret.
pub(super) fn secrets<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    path(from).map_err(|_| D::Error::custom("the path of a file, in quotes, is expected"))
}

/// A path, or the address of an object in a store.
pub(super) fn file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Location>, D::Error> {
    Location::given(path(from)?)
        .map(Some)
        .map_err(D::Error::custom)
}

/// The lengths of a voxel's edges along x, y and z; finite and above 0.
pub(super) fn voxel_size<'de, D>(from: D) -> Result<Option<Xyz<f64>>, D::Error>
where
    D: Deserializer<'de>,
{
    let Xyz { x, y, z } = Xyz::<f64>::deserialize(from)?;
    for (axis, length) in [("x", x), ("y", y), ("z", z)] {
        if !length.is_finite() || length <= 0.0 {
            return Err(D::Error::custom(format!(
                "{axis}: a finite number above 0 is expected, not {length}"
            )));
        }
    }
    Ok(Some(Xyz::new(x, y, z)))
}

/// A factor along x, y and z: whole numbers above 0.
pub(super) fn factor<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Xyz<u64>>, D::Error> {
    let Xyz { x, y, z } = Xyz::<u64>::deserialize(from)?;
    if x == 0 || y == 0 || z == 0 {
        return Err(D::Error::custom("whole numbers above 0 are expected"));
    }
    Ok(Some(Xyz::new(x, y, z)))
}

/// A number of bytes: plain, or followed by `KiB`, `MiB`, `GiB`.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let right = "a size such as \"512 MiB\", \"1 GiB\" or a number of bytes";
    read(from, right, |value| {
        let bytes: i128 = match text_of(value) {
            Some(text) => {
                let size: bytesize::ByteSize = text.trim().parse().ok()?;
                size.as_u64().into()
            }
            None => whole_of(value)?,
        };
        // No allocation can be larger than `isize::MAX`. For a text beyond 64 bits the parser
        // returns the largest number, which is refused, too.
        let bytes = usize::try_from(bytes).ok()?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    })
}

/// A time with its unit, at most a day.
pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let right =
        "a time with its unit in quotes, such as \"500ms\", \"10s\" or \"2m\", at most a day,";
    read(from, right, |value| time_of(value, Duration::ZERO..=DAY))
}

/// A time with its unit, above 0: a time limit of 0 would always be exceeded.
pub(super) fn timeout<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let right = "a time with its unit in quotes, such as \"5s\", from \"1ms\" to a day,";
    let limits = Duration::from_millis(1)..=DAY;
    read(from, right, |value| time_of(value, limits))
}

/// An interval, long enough that looking for changes does not keep a thread busy; `false`: none.
pub(super) fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let right = "false, or an interval from \"100ms\" to a day, such as \"30s\",";
    let limits = Duration::from_millis(100)..=DAY;
    read(from, right, |value| match value.kind {
        ValueKind::Boolean(false) => Some(None),
        _ => time_of(value, limits).map(Some),
    })
}

/// The time after which a tile expires.
pub(super) fn expiry<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let right = "a time from \"1s\" to \"3650d\", such as \"7d\",";
    let limits = Duration::from_secs(1)..=3650 * DAY;
    read(from, right, |value| time_of(value, limits))
}

/// A path in a URL: empty, or a slash and segments that need no percent-encoding. The first
/// segment must not be in [`TAKEN`]. A final slash is dropped.
pub(super) fn base_path<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let right = "a path such as \"/volumes\", of letters, digits and - . _ ~ between slashes,";
    let path = read(from, right, |value| {
        let text = text_of(value)?;
        let path = text.strip_suffix('/').unwrap_or(text);
        let mut segments = path.split('/');
        let is_right = segments.next() == Some("") && segments.all(is_url_segment);
        is_right.then(|| path.to_owned())
    })?;
    match path.split('/').nth(1) {
        Some(first) if TAKEN.contains(&first) => Err(D::Error::custom(format!(
            "{path:?} cannot be the base path: other addresses begin with {first:?}"
        ))),
        _ => Ok(path),
    }
}

fn is_url_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// Host names or IP addresses as in the `Host` header, without a port; returned in lower case.
pub(super) fn hosts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let right = "a host name without a port, such as \"tiles.example.org\" or \"[::1]\",";
    let hosts = list(from, right, |text| {
        is_host_name(text) || is_bracketed_address(text)
    })?;
    Ok(hosts.iter().map(|host| host.to_ascii_lowercase()).collect())
}

fn is_host_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.split('.').all(is_host_label)
}

fn is_bracketed_address(text: &str) -> bool {
    let address = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
}

/// Permissions of a file, in octal.
pub(super) fn permissions<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let right = "permissions in octal and in quotes, such as \"660\" or \"600\",";
    read(from, right, |value| {
        let text = text_of(value).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
        u32::from_str_radix(text, 8)
            .ok()
            .filter(|mode| *mode <= 0o777)
    })
}

/// The address of a folder in a bucket.
pub(super) fn bucket_folder<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Address>, D::Error> {
    let right = "the address of a folder in a bucket, such as \"s3://bucket/tiles\",";
    let address = read(from, right, |value| Address::parsed(text_of(value)?))?;
    let address = address.map_err(D::Error::custom)?;
    if address.scheme() == Scheme::Web {
        return Err(D::Error::invalid_value(
            Unexpected::Other("an address on the web"),
            &right,
        ));
    }
    Ok(Some(address))
}

/// The value of an HTTP header.
pub(super) fn header<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let right =
        "a header's value of visible ASCII, such as \"no-cache\" or \"public, max-age=3600\",";
    text(from, right, |text| {
        !text.is_empty()
            && text == text.trim()
            && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
    })
}

/// Origins as browsers send them, or `*`.
pub(super) fn origins<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let right =
        "\"*\" or an origin such as \"https://example.org\", lower case and without a path,";
    list(from, right, |text| {
        let host = text.split_once("://").map_or("", |(_, host)| host);
        let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
        text == "*" || (is_host && text.bytes().all(|b| !b.is_ascii_uppercase()))
    })
}

/// The address of a viewer, to which a fragment can be appended.
pub(super) fn viewer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let right =
        "an address such as \"https://neuroglancer.example.org/\", without a query or a fragment,";
    text(from, right, |text| is_address(text, &["https", "http"])).map(Some)
}

/// The public address of a folder; it gets a slash at its end. The error does not repeat a wrong
/// value: it may hold a password.
pub(super) fn public_folder<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    // `me:word@a.org` in `https://me:word@a.org/folder`.
    let host = text.split('/').nth(2).unwrap_or_default();
    if host.contains('@') || !is_address(&text, &["https", "http", "s3", "gs", "az"]) {
        return Err(D::Error::custom(
            "an address such as \"https://data.example.org/\" or \"s3://bucket/folder/\" is expected, \
             without a query and a password",
        ));
    }
    Ok(Some(format!("{}/", text.trim_end_matches('/'))))
}

/// Whether a text is an address with one of `schemes`, without a query and a fragment.
fn is_address(text: &str, schemes: &[&str]) -> bool {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    schemes.contains(&scheme)
        && !rest.is_empty()
        && !rest.starts_with('/')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte))
}

/// A name that can be a segment of a URL.
pub(super) fn name(text: &str) -> Result<Name, String> {
    match text {
        "." | ".." => Err(format!(
            "{text:?} cannot be a name: in a URL it means a directory"
        )),
        _ => Name::new(text).map_err(|error| error.to_string()),
    }
}

/// The name of a dataset.
pub(super) fn token(text: &str) -> Result<Name, String> {
    match text {
        MCFC => Err(format!(
            "{text:?} cannot be a token: paths of composites begin with it; \"{text}_\" would do"
        )),
        VIKING => Err(format!(
            "{text:?} cannot be a token: paths in Viking's form begin with it; \"{text}_\" would do"
        )),
        _ => name(text),
    }
}

/// The name of a mount.
pub(super) fn tile_service<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
    let name = name(&String::deserialize(from)?).map_err(D::Error::custom)?;
    if TAKEN.contains(&name.as_str()) {
        return Err(D::Error::custom(format!(
            "{:?} cannot be a tile service: other addresses begin with it",
            name.as_str()
        )));
    }
    Ok(name)
}

/// Tables by the tokens of datasets.
pub(super) fn by_token<'de, D, T>(from: D) -> Result<BTreeMap<Name, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(named(BTreeMap::deserialize(from)?, token))
}

/// Tables by the names of channels.
pub(super) fn by_name<'de, D, T>(from: D) -> Result<BTreeMap<Name, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(named(BTreeMap::deserialize(from)?, name))
}

/// The tables with valid names; [`check_names`](super::check) reports the invalid names.
fn named<T>(
    tables: BTreeMap<String, T>,
    check: fn(&str) -> Result<Name, String>,
) -> BTreeMap<Name, T> {
    tables
        .into_iter()
        .filter_map(|(text, table)| Some((check(&text).ok()?, table)))
        .collect()
}

/// The axes of a volume, including y and x.
pub(super) fn axes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Axes>, D::Error> {
    let axes = Axes::deserialize(from)?;
    for axis in [AxisName::Y, AxisName::X] {
        if axes.position(axis).is_none() {
            return Err(D::Error::custom(format!("\"{axes}\" lacks y or x")));
        }
    }
    Ok(Some(axes))
}

/// Positions by axis, as in `{ c = 1 }`.
pub(super) fn index<'de, D>(from: D) -> Result<BTreeMap<AxisName, u64>, D::Error>
where
    D: Deserializer<'de>,
{
    let mut index = BTreeMap::new();
    for (letter, position) in BTreeMap::<String, u64>::deserialize(from)? {
        let axis = match letter.as_str() {
            "t" => AxisName::T,
            "c" => AxisName::C,
            "z" => AxisName::Z,
            _ => {
                return Err(D::Error::custom(format!(
                    "{letter:?} is none of t, c and z, the axes that can be fixed"
                )));
            }
        };
        index.insert(axis, position);
    }
    Ok(index)
}

/// The rule that finds a window: two limits, `"auto"` or `"full"`.
pub(super) fn window<'de, D: Deserializer<'de>>(from: D) -> Result<Option<WindowRule>, D::Error> {
    let right = "two limits such as [10, 240] (finite, whole ones from -2^63 to 2^64-1), \"auto\" or \"full\"";
    read(from, right, |value| match &value.kind {
        ValueKind::String(text) if text == "auto" => Some(WindowRule::Auto),
        ValueKind::String(text) if text == "full" => Some(WindowRule::Full),
        ValueKind::Array(limits) => match limits.as_slice() {
            [lo, hi] => Some(WindowRule::Fixed(window_from(number(lo)?, number(hi)?))),
            _ => None,
        },
        _ => None,
    })
    .map(Some)
}

/// A window in integers if both limits are integers, else in floating point.
fn window_from(lo: Number, hi: Number) -> Window {
    match (lo, hi) {
        (Number::Whole(lo), Number::Whole(hi)) => Window::Whole { lo, hi },
        _ => Window::Real {
            lo: lo.to_f64(),
            hi: hi.to_f64(),
        },
    }
}

/// A list of values that voxels can have, or NaN.
pub(super) fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Number>>, D::Error> {
    let right = "a list of numbers (finite or nan, whole ones from -2^63 to 2^64-1)";
    read(from, right, |value| match &value.kind {
        ValueKind::Array(items) => items.iter().map(number_or_nan).collect(),
        _ => None,
    })
    .map(Some)
}

fn number_or_nan(value: &Value) -> Option<Number> {
    match value.kind {
        ValueKind::Float(number) if number.is_nan() => Some(Number::Real(number)),
        _ => number(value),
    }
}

/// A value that voxels can have.
fn number(value: &Value) -> Option<Number> {
    // The integers of all voxel types.
    let integers = i128::from(i64::MIN)..=i128::from(u64::MAX);
    match value.kind {
        ValueKind::Float(number) if number.fract() == 0.0 && number.abs() <= EXACT => {
            Some(Number::Whole(number as i128))
        }
        ValueKind::Float(number) if number.is_finite() => Some(Number::Real(number)),
        ValueKind::Float(_) => None,
        _ => whole_of(value)
            .filter(|number| integers.contains(number))
            .map(Number::Whole),
    }
}
