//! Addresses of objects, and the parts of them that must not be shown.
//!
//! Addresses are `s3://bucket/key`, `gs://bucket/key`, `az://container/key`, or
//! `https://host/path.h5`. Presigned addresses carry their credentials in the query; other
//! addresses may have a password before the host. Both are sent with requests, and shown nowhere.

use std::fmt;
use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::Url;

/// Characters that have a meaning of their own in an address, but not in the name of a file.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The kind of store that an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Amazon S3, or a store with its interface.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
    /// A web server.
    Web,
}

/// The address of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    public: String,
    scheme: Scheme,
    /// The whole address. Boxed, because errors contain addresses and should stay small.
    full: Box<Url>,
}

/// Why a text that begins like an address is not the address of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not the address of an object: {problem}; expected s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY or \
     https://HOST/PATH"
)]
pub struct NotAnObject {
    /// The address without its query and password.
    text: String,
    problem: String,
}

impl NotAnObject {
    fn new(text: &str, problem: &str) -> Self {
        let text = text.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        // User and password end at the last `@`.
        let rest = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
        Self {
            text: format!("{scheme}://{rest}"),
            problem: problem.to_owned(),
        }
    }
}

impl Address {
    /// An address as a user wrote it; `None` if the text is no address but a path of a file.
    pub fn parsed(text: &str) -> Option<Result<Self, NotAnObject>> {
        let scheme = match text.split_once("://")?.0 {
            "s3" => Scheme::S3,
            "gs" => Scheme::Gs,
            "az" => Scheme::Az,
            "http" | "https" => Scheme::Web,
            _ => return None,
        };
        Some(Self::parse(scheme, text))
    }

    /// The object to which this one refers by the name of a file: `c d.h5` in `https://h/a/b.h5`
    /// leads to `https://h/a/c%20d.h5`. Characters that have a meaning in an address, but not in a
    /// name, are encoded. The password is kept if the object lies in the folder of this one, or
    /// below.
    pub fn beside(&self, name: &str) -> Result<Self, NotAnObject> {
        let mut parts: Vec<String> = Vec::new();
        for part in name.split('/').filter(|part| !matches!(*part, "" | ".")) {
            match (part, parts.last()) {
                // `..` at the beginning stays, and leads out of the folder when this is parsed.
                ("..", Some(last)) if last != ".." => {
                    parts.pop();
                }
                _ => parts.push(utf8_percent_encode(part, ENCODED).to_string()),
            }
        }
        let folder = self
            .public
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        let target = Self::parse(self.scheme, &format!("{folder}/{}", parts.join("/")))?;
        Ok(target.trusted_by(self))
    }

    /// The whole address of an object that a child process requests by its public address while
    /// this object is on trial; `None` unless it is this object, or one in its folder or below. The
    /// child process knows only public addresses.
    pub fn asked_on_trial(&self, public: &str) -> Option<Self> {
        if public == self.public {
            return Some(self.clone());
        }
        let requested = Self::parsed(public)?.ok()?;
        requested
            .is_beside(self)
            .then(|| requested.trusted_by(self))
    }

    /// This object, with the password of `other` if it lies in the folder of `other`, or below.
    fn trusted_by(mut self, other: &Self) -> Self {
        if self.is_beside(other) {
            // An error means that an address of this scheme cannot have a user or password.
            let _ = self.full.set_username(other.full.username());
            let _ = self.full.set_password(other.full.password());
        }
        self
    }

    /// Whether this object lies in the folder of another object, or below, even if the server
    /// decodes more of the address than it should.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        // `..` was resolved when the address was parsed. But a server may decode `%2f` to a slash,
        // and then resolve the `..` in `..%2fb.h5`.
        let folder = Path::new(&other.public).parent();
        folder.is_some_and(|folder| Path::new(&self.public).starts_with(folder))
            && !self.public.to_ascii_lowercase().contains("%2f")
    }

    /// Parses an address that begins with this scheme.
    fn parse(scheme: Scheme, text: &str) -> Result<Self, NotAnObject> {
        let mut full = Url::parse(text).map_err(|e| NotAnObject::new(text, &e.to_string()))?;
        full.set_fragment(None);
        if full.host_str().is_none_or(str::is_empty) {
            return Err(NotAnObject::new(text, "the bucket or host is missing"));
        }
        if full.path().trim_matches('/').is_empty() {
            return Err(NotAnObject::new(text, "the key is missing"));
        }
        Ok(Self {
            scheme,
            public: public(&full),
            full: full.into(),
        })
    }

    /// The kind of store.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The address without query and password.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The bucket, the container, or the host.
    pub(crate) fn bucket(&self) -> &str {
        self.full.host_str().unwrap_or_default()
    }

    /// The key within the bucket, as it is in the store.
    pub fn key(&self) -> String {
        let key = self.full.path().trim_start_matches('/');
        percent_encoding::percent_decode_str(key)
            .decode_utf8_lossy()
            .into_owned()
    }

    /// The last part of the address, for people.
    pub fn name(&self) -> &str {
        let path = self.public.split('?').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default()
    }

    /// The scheme, the host and the port. Either all objects of a server can be reached or none.
    pub fn server(&self) -> String {
        let port = self
            .full
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        format!("{}://{}{port}", self.full.scheme(), self.bucket())
    }

    /// The whole address. It may contain credentials: for requests only.
    pub fn full(&self) -> &Url {
        &self.full
    }
}

/// The address of the file at a path below a public folder, whose address ends with a slash; `None`
/// if the path is not UTF-8.
pub fn published(folder: &str, path: &Path) -> Option<String> {
    let path = path.to_str()?;
    // Unlike the paths of web addresses, keys in buckets are written as they are.
    let is_encoded = folder.starts_with("http");
    let path = if is_encoded {
        utf8_percent_encode(path, ENCODED).to_string()
    } else {
        path.to_owned()
    };
    Some(format!("{folder}{path}"))
}

/// The length of a digest of a query, in hexadecimal digits.
const DIGEST_DIGITS: usize = 8;

/// Whether a query is itself a digest, such as `~0123abcd`. A child process, which knows only
/// public addresses, must not digest it again.
fn is_digest(query: &str) -> bool {
    query.strip_prefix('~').is_some_and(|digits| {
        digits.len() == DIGEST_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// An address without query and password. Addresses that differ only in the query are told apart by
/// a digest of it.
fn public(full: &Url) -> String {
    let mut public = full.clone();
    // An error means that an address of this scheme cannot have a user or password.
    let _ = public.set_username("");
    let _ = public.set_password(None);
    let query = full.query().filter(|query| !query.is_empty());
    let digest = query.map(|query| {
        if is_digest(query) {
            return query.to_owned();
        }
        let digest = blake3::hash(query.as_bytes()).to_hex();
        format!("~{}", &digest[..DIGEST_DIGITS])
    });
    public.set_query(digest.as_deref());
    public.into()
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.public)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::super::location::Location;
    use super::*;

    fn address(text: &str) -> Address {
        Address::parsed(text).unwrap().unwrap()
    }

    #[test]
    fn addresses_are_told_from_paths() {
        for path in [
            "a.h5",
            "/data/s3/a.h5",
            "s3:/a",
            "s3",
            "ftp://host/a.h5",
            "C://a",
        ] {
            assert_eq!(
                Location::given(path.into()),
                Ok(Location::Path(path.into()))
            );
        }
        let brain = address("s3://lab/mouse/brain%201.h5");
        assert_eq!(
            (brain.bucket(), brain.key().as_str()),
            ("lab", "mouse/brain 1.h5")
        );
        assert_eq!(brain.server(), "s3://lab");
        let stem = |text: &str| Location::given(text.into()).unwrap().stem();
        assert_eq!(
            stem("s3://lab/mouse/brain%201.h5?0123").as_deref(),
            Some("brain 1")
        );
        assert_eq!(stem("/mouse/brain%201.h5").as_deref(), Some("brain%201"));
        let wrong = Location::given("s3://lab".into()).unwrap_err().to_string();
        assert!(
            wrong.contains("the key is missing") && wrong.contains("s3://BUCKET/KEY"),
            "{wrong}"
        );
    }

    #[test]
    fn credentials_are_shown_nowhere() {
        let given = "https://me:hunter2@host:81/a/b.h5?X-Amz-Signature=abcdef&part=1";
        let location = Location::given(given.into()).unwrap();
        let address = address(given);
        assert_eq!(address.full().as_str(), given);
        assert_eq!(address.server(), "https://host:81");
        let written = serde_json::to_string(&location).unwrap();
        let shown = format!(
            "{location} {location:?} {} {written}",
            location.as_path().display()
        );
        assert!(
            shown.contains("host:81/a/b.h5")
                && !shown.contains("hunter2")
                && !shown.contains("abcdef")
        );
        // Another query names another object.
        let other = Location::given(given.replace("part=1", "part=2").into()).unwrap();
        assert_ne!(location.as_path(), other.as_path());
        // A child process, which knows nothing but the public address, names the same object.
        let read: Location = serde_json::from_str(&written).unwrap();
        assert_eq!(read.as_path(), location.as_path());
        let wrong = Location::given("https://me:hunter2@/?sig=abcdef".into())
            .unwrap_err()
            .to_string();
        assert!(
            !wrong.contains("hunter2") && !wrong.contains("abcdef"),
            "{wrong}"
        );
    }

    #[test]
    fn names_lead_to_objects_below_a_folder_or_visibly_out_of_it() {
        let own = address("https://h/a/own.h5?key");
        for (name, found, is_beside) in [
            ("b.h5", "https://h/a/b.h5", true),
            ("./c/../b 1%.h5", "https://h/a/b%201%25.h5", true),
            ("../b.h5", "https://h/b.h5", false),
            ("c/../../b.h5", "https://h/b.h5", false),
            ("..%2fb.h5", "https://h/a/..%252fb.h5", true),
            ("%2e%2e/b.h5", "https://h/a/%252e%252e/b.h5", true),
            (r"..\b.h5", "https://h/a/..%5Cb.h5", true),
            ("b.h5?c#d", "https://h/a/b.h5%3Fc%23d", true),
            ("https://evil/b.h5", "https://h/a/https:/evil/b.h5", true),
        ] {
            let beside = own.beside(name).unwrap();
            assert_eq!(
                (beside.public(), beside.is_beside(&own)),
                (found, is_beside),
                "{name}"
            );
        }
        for (text, is_beside) in [
            ("https://h/a/b.h5", true),
            ("https://h/a/../b.h5", false),
            ("https://h/a/%2e%2E/b.h5", false),
            (r"https://h/a/..\b.h5", false),
            ("https://h/a/..%2Fb.h5", false),
            ("https://h:8/a/b.h5", false),
            ("https://h/ab/b.h5", false),
        ] {
            assert_eq!(address(text).is_beside(&own), is_beside, "{text}");
        }
    }

    #[test]
    fn a_password_is_sent_for_objects_below_the_folder_of_its_own_only() {
        let own = address("https://me:word@below:81/a/b.h5?key");
        let has_password = |address: Address| address.full().password().is_some();
        assert!(
            has_password(own.beside("b.xml").unwrap())
                && has_password(own.beside("c/d.h5").unwrap())
        );
        assert!(!has_password(own.beside("../b.h5").unwrap()));
        assert_eq!(own.asked_on_trial(own.public()), Some(own.clone()));
        for below in ["https://below:81/a/b.xml", "https://below:81/a/c/d.h5"] {
            assert!(
                own.asked_on_trial(below).is_some_and(has_password),
                "{below}"
            );
        }
        for other in [
            "https://below/a/b.xml",
            "http://below:81/a/b.xml",
            "https://below:81/b.h5",
            "https://o:81/a/b.h5",
            "/a/b.h5",
        ] {
            assert_eq!(own.asked_on_trial(other), None, "{other}");
        }
    }
}
