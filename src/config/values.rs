//! Parses single values: numbers, sizes, durations, names, windows.
//!
//! Every error says what is expected and what was found. Types are as strict as TOML's: a quoted
//! number is a text. A path in the configuration file is relative to that file, one in a flag or a
//! variable to the working directory, as in a shell.

use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Value, ValueKind};

use super::address::BindAddress;
use super::network::Proxy;
use super::redis::RedisAddress;
use super::toml_file::is_in_file;
use crate::base::axes::{Axes, AxisName};
use crate::base::name::{Name, Pattern};
use crate::base::paint::{Number, Window, WindowRule};
use crate::base::request::{MCFC, VIKING};
use crate::geometry::Xyz;
use crate::store::Location;
use crate::store::address::{Address, Scheme};

/// The parsed value, or what is wrong.
pub(super) type Parsed<T> = Result<T, String>;

/// The maximum number of threads.
const MAX_THREADS: usize = 1024;
/// The maximum shutdown timeout.
const LONGEST_STOP: Duration = Duration::from_secs(24 * 3600);
/// The minimum of other timeouts.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
/// The minimum bandwidth of a client, in bytes per second.
const LEAST_BANDWIDTH: u64 = 1024;
/// The limits of how long something is kept.
const SHORTEST_EXPIRY: Duration = Duration::from_secs(1);
const LONGEST_EXPIRY: Duration = Duration::from_secs(3650 * 24 * 3600);
/// The minimum interval at which files are looked at.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Integers up to here are exact as floating point numbers (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The error for a value of the wrong kind.
pub(super) fn expected(right: &str, found: &Value) -> String {
    format!("{right} is expected, not {}", described(found))
}

fn described(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) if text.chars().count() > 60 => "a longer text".to_owned(),
        ValueKind::String(text) => format!("the text {text:?}"),
        ValueKind::Boolean(flag) => flag.to_string(),
        ValueKind::Float(number) => format!("the number {number:?}"),
        ValueKind::Table(_) => "a table".to_owned(),
        ValueKind::Array(items) => format!("a list of {}", items.len()),
        ValueKind::Nil => "a date or a time".to_owned(),
        ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => {
            format!("the whole number {value}")
        }
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
        ValueKind::U64(number) => Some(number.into()),
        ValueKind::I128(number) => Some(number),
        ValueKind::U128(number) => number.try_into().ok(),
        _ => None,
    }
}

fn items_of(value: &Value) -> Option<&[Value]> {
    match &value.kind {
        ValueKind::Array(items) => Some(items),
        _ => None,
    }
}

/// A non-empty text without NUL, such as a path in a file system or in an HDF5 file.
pub(super) fn path(value: &Value) -> Parsed<String> {
    let wrong = || expected("a path in quotes", value);
    text_of(value)
        .filter(|text| !text.is_empty() && !text.contains('\0'))
        .map(str::to_owned)
        .ok_or_else(wrong)
}

/// A path in the file system, relative to `base` (the configuration file's directory) if the value
/// is in the file.
pub(super) fn path_below(base: &Path) -> impl Fn(&Value) -> Parsed<PathBuf> + use<> {
    let base = base.to_owned();
    move |value| {
        let path = PathBuf::from(path(value)?);
        Ok(if is_in_file(value) {
            base.join(path)
        } else {
            path
        })
    }
}

/// A path as [`path_below`] reads it, or the address of an object in a store.
pub(super) fn file_below(base: &Path) -> impl Fn(&Value) -> Parsed<Location> + use<> {
    let below = path_below(base);
    move |value| match Address::parsed(&path(value)?) {
        Some(address) => address
            .map(Location::Object)
            .map_err(|error| error.to_string()),
        None => below(value).map(Location::Path),
    }
}

/// `true` or `false`.
pub(super) fn flag(value: &Value) -> Parsed<bool> {
    match value.kind {
        ValueKind::Boolean(flag) => Ok(flag),
        _ => Err(expected("true or false", value)),
    }
}

pub(super) fn choice<T: Copy, const N: usize>(
    words: [(&'static str, T); N],
) -> impl Fn(&Value) -> Parsed<T> {
    move |value| {
        let found = words.iter().find(|(word, _)| text_of(value) == Some(word));
        let all = || {
            words
                .iter()
                .map(|(word, _)| format!("{word:?}"))
                .collect::<Vec<_>>()
                .join(" or ")
        };
        found
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| expected(&all(), value))
    }
}

/// A whole number within inclusive limits.
pub(super) fn whole<T>(least: T, most: T) -> impl Fn(&Value) -> Parsed<T>
where
    T: TryFrom<i128> + PartialOrd + fmt::Display,
{
    move |value| {
        let number = whole_of(value).and_then(|number| T::try_from(number).ok());
        let within = number.filter(|number| (&least..=&most).contains(&number));
        within.ok_or_else(|| expected(&format!("a whole number from {least} to {most}"), value))
    }
}

/// A number of threads.
pub(super) fn threads(value: &Value) -> Parsed<NonZeroUsize> {
    let number = whole(1, MAX_THREADS)(value)?;
    NonZeroUsize::new(number).ok_or_else(|| expected("a number of threads above 0", value))
}

/// The length of an edge: a finite number above 0.
pub(super) fn length(value: &Value) -> Parsed<f64> {
    let number = match value.kind {
        ValueKind::Float(number) => Some(number),
        _ => whole_of(value).map(|number| number as f64),
    };
    let right = number.filter(|number| number.is_finite() && *number > 0.0);
    right.ok_or_else(|| expected("a finite number above 0", value))
}

/// Three values, in the order x, y, z.
pub(super) fn triple<T>(item: impl Fn(&Value) -> Parsed<T>) -> impl Fn(&Value) -> Parsed<Xyz<T>> {
    move |value| {
        let Some([x, y, z]) = items_of(value) else {
            return Err(expected("a list of three numbers [x, y, z]", value));
        };
        let along = |axis: &str, value| item(value).map_err(|problem| format!("{axis}: {problem}"));
        Ok(Xyz::new(along("x", x)?, along("y", y)?, along("z", z)?))
    }
}

/// Any number of values.
pub(super) fn list<T>(item: impl Fn(&Value) -> Parsed<T>) -> impl Fn(&Value) -> Parsed<Vec<T>> {
    move |value| {
        let items = items_of(value).ok_or_else(|| expected("a list", value))?;
        let numbered =
            |(i, value)| item(value).map_err(|problem| format!("item {}: {problem}", i + 1));
        items.iter().enumerate().map(numbered).collect()
    }
}

/// A number of bytes: plain, or followed by `KiB`, `MiB`, `GiB`.
pub(super) fn size(value: &Value) -> Parsed<usize> {
    let bytes = match text_of(value) {
        Some(text) => text
            .trim()
            .parse::<bytesize::ByteSize>()
            .ok()
            .map(|size| i128::from(size.as_u64())),
        None => whole_of(value),
    };
    // No allocation can be larger, and the parser saturates above it.
    let fits = bytes
        .filter(|bytes| *bytes <= isize::MAX as i128)
        .and_then(|bytes| usize::try_from(bytes).ok());
    fits.ok_or_else(|| {
        expected(
            "a size such as \"512 MiB\", \"1 GiB\" or a number of bytes",
            value,
        )
    })
}

/// A time with its unit, at most a day.
pub(super) fn duration(value: &Value) -> Parsed<Duration> {
    let parsed = text_of(value).and_then(|text| humantime::parse_duration(text).ok());
    let right = parsed.filter(|duration| *duration <= LONGEST_STOP);
    right.ok_or_else(|| {
        expected(
            "a time with its unit in quotes, such as \"500ms\", \"10s\" or \"2m\", at most a day,",
            value,
        )
    })
}

/// A time with its unit, not too short to be useful.
pub(super) fn timeout(value: &Value) -> Parsed<Duration> {
    let time = duration(value)?;
    if time < SHORTEST_TIMEOUT {
        return Err(expected(
            "a time of at least \"1ms\", such as \"5s\",",
            value,
        ));
    }
    Ok(time)
}

/// An interval, or `false` for none.
pub(super) fn interval(value: &Value) -> Parsed<Option<Duration>> {
    if let ValueKind::Boolean(false) = value.kind {
        return Ok(None);
    }
    let time = duration(value)
        .ok()
        .filter(|time| *time >= SHORTEST_INTERVAL);
    time.map(Some).ok_or_else(|| {
        expected(
            "false, or an interval from \"100ms\" to a day, such as \"30s\",",
            value,
        )
    })
}

/// A path in a URL: empty, or a slash and segments that need no percent-encoding. A final slash is
/// dropped.
pub(super) fn url_path(value: &Value) -> Parsed<String> {
    let legal = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let path = text_of(value).map(|text| text.strip_suffix('/').unwrap_or(text));
    let right = path.filter(|path| {
        path.is_empty()
            || path
                .strip_prefix('/')
                .is_some_and(|path| path.split('/').all(legal))
    });
    right.map(str::to_owned).ok_or_else(|| {
        expected(
            "a path such as \"/volumes\", of letters, digits and - . _ ~ between slashes,",
            value,
        )
    })
}

/// A host name or IP address as in the `Host` header, without a port; returned in lower case.
pub(super) fn host(value: &Value) -> Parsed<String> {
    let is_name = |text: &str| {
        let text = text.strip_suffix('.').unwrap_or(text);
        text.split('.').all(|label| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
    };
    let is_v6 = |text: &str| {
        let address = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let right = text_of(value).filter(|text| is_name(text) || is_v6(text));
    right.map(str::to_ascii_lowercase).ok_or_else(|| {
        expected(
            "a host name without a port, such as \"tiles.example.org\" or \"[::1]\",",
            value,
        )
    })
}

/// Tokens, in which `*` and `?` are wildcards.
pub(super) fn pattern(value: &Value) -> Parsed<Pattern> {
    let text =
        text_of(value).ok_or_else(|| expected("a token such as \"brain\" or \"raw-*\"", value))?;
    Pattern::new(text).map_err(|error| error.to_string())
}

/// One or more addresses to listen on.
pub(super) fn bind(value: &Value) -> Parsed<Vec<BindAddress>> {
    match items_of(value) {
        Some(_) => list(address)(value),
        None => Ok(vec![address(value)?]),
    }
}

fn address(value: &Value) -> Parsed<BindAddress> {
    let wrong = || {
        expected(
            "an address such as \"127.0.0.1:8080\", or a list of them,",
            value,
        )
    };
    BindAddress::new(text_of(value).ok_or_else(wrong)?).map_err(|error| error.to_string())
}

/// Permissions of a file, in octal.
pub(super) fn permissions(value: &Value) -> Parsed<u32> {
    let digits = text_of(value).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let mode = digits
        .and_then(|text| u32::from_str_radix(text, 8).ok())
        .filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        expected(
            "permissions in octal and in quotes, such as \"660\" or \"600\",",
            value,
        )
    })
}

/// The address of a proxy, a network of them, or the Unix socket.
pub(super) fn proxy(value: &Value) -> Parsed<Proxy> {
    let text = text_of(value).ok_or_else(|| expected("an address such as \"127.0.0.1\"", value))?;
    Proxy::new(text).map_err(|error| error.to_string())
}

/// The address of a Redis server. The error does not repeat it.
pub(super) fn redis(value: &Value) -> Parsed<Option<RedisAddress>> {
    let text = text_of(value).ok_or_else(|| expected("an address in quotes", value))?;
    RedisAddress::new(text)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// The address of a folder in a bucket.
pub(super) fn bucket_folder(value: &Value) -> Parsed<Option<Address>> {
    let wrong = || {
        expected(
            "the address of a folder in a bucket, such as \"s3://bucket/tiles\",",
            value,
        )
    };
    let address = Address::parsed(text_of(value).ok_or_else(wrong)?).ok_or_else(wrong)?;
    let address = address.map_err(|error| error.to_string())?;
    if address.scheme() == Scheme::Web {
        Err(wrong())
    } else {
        Ok(Some(address))
    }
}

/// How long something is kept.
pub(super) fn expiry(value: &Value) -> Parsed<Duration> {
    let parsed = text_of(value).and_then(|text| humantime::parse_duration(text).ok());
    let right = parsed.filter(|time| (SHORTEST_EXPIRY..=LONGEST_EXPIRY).contains(time));
    right.ok_or_else(|| expected("a time from \"1s\" to \"3650d\", such as \"7d\",", value))
}

/// A number of bytes per second.
pub(super) fn bandwidth(value: &Value) -> Parsed<NonZeroU64> {
    let bytes = size(value)? as u64;
    let enough = NonZeroU64::new(bytes).filter(|_| bytes >= LEAST_BANDWIDTH);
    enough.ok_or_else(|| {
        expected(
            "at least \"1 KiB\" per second, or no such key for no limit,",
            value,
        )
    })
}

/// The value of an HTTP header.
pub(super) fn header(value: &Value) -> Parsed<String> {
    let legal = |text: &&str| {
        !text.trim().is_empty()
            && *text == text.trim()
            && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
    };
    let wrong = || {
        expected(
            "a header's value of visible ASCII, such as \"no-cache\" or \"public, max-age=3600\",",
            value,
        )
    };
    text_of(value)
        .filter(legal)
        .map(str::to_owned)
        .ok_or_else(wrong)
}

/// An origin as browsers send it, or `*`.
pub(super) fn origin(value: &Value) -> Parsed<String> {
    let legal = |text: &&str| {
        let host = text.split_once("://").map(|(_, host)| host);
        let clean = host
            .is_some_and(|h| !h.is_empty() && h.bytes().all(|b| b.is_ascii_graphic() && b != b'/'));
        *text == "*" || (clean && text.bytes().all(|b| !b.is_ascii_uppercase()))
    };
    let wrong = || {
        expected(
            "\"*\" or an origin such as \"https://example.org\", lower case and without a path,",
            value,
        )
    };
    text_of(value)
        .filter(legal)
        .map(str::to_owned)
        .ok_or_else(wrong)
}

/// The address of a viewer, to which a fragment can be appended.
pub(super) fn viewer(value: &Value) -> Parsed<Option<String>> {
    let wrong = || {
        expected(
            "an address such as \"https://neuroglancer.example.org/\", without a query or a fragment,",
            value,
        )
    };
    let text = text_of(value).filter(|text| is_address(text, &["https", "http"]));
    text.map(|text| Some(text.to_owned())).ok_or_else(wrong)
}

/// The public address of a folder; it gets a slash at its end.
pub(super) fn public_folder(value: &Value) -> Parsed<Option<String>> {
    let has_user = |text: &str| {
        text.split('/')
            .nth(2)
            .is_some_and(|host| host.contains('@'))
    };
    let is_good =
        |text: &str| is_address(text, &["https", "http", "s3", "gs", "az"]) && !has_user(text);
    let right = "an address such as \"https://data.example.org/\" or \"s3://bucket/folder/\"";
    match text_of(value) {
        Some(text) if is_good(text) => Ok(Some(format!("{}/", text.trim_end_matches('/')))),
        // It may hold a password, and is not repeated.
        Some(_) => Err(format!(
            "{right} is expected, without a query and a password"
        )),
        None => Err(expected(right, value)),
    }
}

/// Whether it is an address with one of these schemes, without a query and a fragment.
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
pub(super) fn name(text: &str) -> Parsed<Name> {
    match text {
        "." | ".." => Err(format!(
            "{text:?} cannot be a name: in a URL it means a directory"
        )),
        _ => Name::new(text).map_err(|error| error.to_string()),
    }
}

/// The name of a dataset.
pub(super) fn token(text: &str) -> Parsed<Name> {
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

/// A name as a value.
pub(super) fn name_value(value: &Value) -> Parsed<Name> {
    name(text_of(value).ok_or_else(|| expected("a name in quotes", value))?)
}

/// The axes of a volume, including y and x.
pub(super) fn axes(value: &Value) -> Parsed<Axes> {
    let text = text_of(value).ok_or_else(|| expected("a text such as \"zyx\"", value))?;
    let axes = Axes::new(text).map_err(|error| error.to_string())?;
    let plane = [AxisName::Y, AxisName::X]
        .iter()
        .all(|axis| axes.position(*axis).is_some());
    if plane {
        Ok(axes)
    } else {
        Err(format!("{text:?} lacks y or x"))
    }
}

/// How to find a window: two limits, `"auto"` or `"full"`.
pub(super) fn window(value: &Value) -> Parsed<WindowRule> {
    match (text_of(value), items_of(value)) {
        (Some("auto"), _) => Ok(WindowRule::Auto),
        (Some("full"), _) => Ok(WindowRule::Full),
        (_, Some([lo, hi])) => Ok(WindowRule::Fixed(limits(number(lo)?, number(hi)?))),
        _ => Err(expected(
            "two limits such as [10, 240], \"auto\" or \"full\"",
            value,
        )),
    }
}

/// Integer only if both limits are: a window is computed either in integers or in floating point.
fn limits(lo: Number, hi: Number) -> Window {
    match (lo, hi) {
        (Number::Whole(lo), Number::Whole(hi)) => Window::Whole { lo, hi },
        _ => Window::Real {
            lo: lo.to_f64(),
            hi: hi.to_f64(),
        },
    }
}

/// Values of voxels, NaN among them.
pub(super) fn numbers(value: &Value) -> Parsed<Vec<Number>> {
    list(|item| match &item.kind {
        ValueKind::Float(number) if number.is_nan() => Ok(Number::Real(*number)),
        _ => number(item),
    })(value)
}

/// A value that voxels can have.
fn number(value: &Value) -> Parsed<Number> {
    let stored = i128::from(i64::MIN)..=i128::from(u64::MAX);
    match (whole_of(value), &value.kind) {
        (Some(number), _) if stored.contains(&number) => Ok(Number::Whole(number)),
        (_, ValueKind::Float(number)) if number.fract() == 0.0 && number.abs() <= EXACT => {
            Ok(Number::Whole(*number as i128))
        }
        (_, ValueKind::Float(number)) if number.is_finite() => Ok(Number::Real(*number)),
        _ => Err(expected(
            "a finite number, whole ones from -2^63 to 2^64-1,",
            value,
        )),
    }
}
