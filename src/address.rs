//! Addresses of objects, and the parts of them that must not be shown.
//!
//! An address takes the place of a path wherever a file is named: `s3://bucket/key`, `gs://bucket/key`,
//! `az://container/key`, or `https://host/path.h5`. Presigned addresses carry their credentials in the query, and others
//! a password before the host. Both are kept here, and everybody else knows the address without them.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::Url;

/// What has a meaning of its own in an address: in the name of a file it is only a letter.
const LETTERS: &AsciiSet = &CONTROLS
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

/// The full addresses of those whose public form leaves something out, by their public form.
static FULL: LazyLock<Mutex<HashMap<String, Url>>> = LazyLock::new(Mutex::default);

/// The kind of store that an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    scheme: Scheme,
    public: String,
    full: Url,
}

/// Why a text that begins like an address is none.
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

impl Scheme {
    fn named(name: &str) -> Option<Self> {
        match name {
            "s3" => Some(Scheme::S3),
            "gs" => Some(Scheme::Gs),
            "az" => Some(Scheme::Az),
            "http" | "https" => Some(Scheme::Web),
            _ => None,
        }
    }

    fn of(text: &str) -> Option<Self> {
        Self::named(text.split_once("://")?.0)
    }
}

impl Address {
    /// The path that stands for an address as a user wrote it; `None` if the text is no address but a path of a file.
    ///
    /// What must not be shown is kept for [`Address::of`], and is not in the path.
    pub fn path_of(text: &str) -> Option<Result<PathBuf, NotAnObject>> {
        let scheme = Scheme::of(text)?;
        Some(Self::parse(scheme, text).map(|address| {
            if address.full.as_str() != address.public {
                let mut known = FULL.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(address.public.clone(), address.full);
            }
            PathBuf::from(address.public)
        }))
    }

    /// The address for which a path stands; `None` for a path in the file system.
    pub fn of(path: &Path) -> Option<Self> {
        let public = path.to_str()?;
        let scheme = Scheme::of(public)?;
        let known = FULL.lock().unwrap_or_else(PoisonError::into_inner).get(public).cloned();
        match known {
            Some(full) => Some(Self { scheme, public: public.to_owned(), full }),
            None => Self::parse(scheme, public).ok().map(Self::with_password),
        }
    }

    /// An object below the folder of one that was given with a password is asked for with it, too.
    fn with_password(mut self) -> Self {
        let known = FULL.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = |(public, full): &(&String, &Url)| {
            let folder = Path::new(public).parent();
            full.password().is_some() && folder.is_some_and(|folder| self.is_below(folder))
        };
        // The nearest, if there are several.
        if let Some((_, full)) = known.iter().filter(beside).max_by_key(|(public, _)| public.len()) {
            // An error means that the address cannot have what is set.
            let _ = self.full.set_username(full.username());
            let _ = self.full.set_password(full.password());
        }
        self
    }

    /// Whether the object lies below a folder, also if the server decodes more of the address than it should.
    pub fn is_below(&self, folder: &Path) -> bool {
        // `..` has been resolved. A server may take an encoded slash for a slash, and so resolve more.
        Path::new(&self.public).starts_with(folder) && !self.public.to_ascii_lowercase().contains("%2f")
    }

    /// What a user wrote as a file: a path, or the one that stands for an address.
    pub fn file(given: PathBuf) -> Result<PathBuf, NotAnObject> {
        given.to_str().and_then(Self::path_of).unwrap_or(Ok(given))
    }

    /// Whether a path stands for an address.
    pub fn is(path: &Path) -> bool {
        path.to_str().and_then(Scheme::of).is_some()
    }

    fn parse(scheme: Scheme, text: &str) -> Result<Self, NotAnObject> {
        let wrong = |problem: &str| {
            let text = text.split(['?', '#']).next().unwrap_or_default();
            let (scheme, rest) = text.split_once("://").unwrap_or_default();
            let rest = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
            NotAnObject { text: format!("{scheme}://{rest}"), problem: problem.to_owned() }
        };
        let mut full = Url::parse(text).map_err(|e| wrong(&e.to_string()))?;
        full.set_fragment(None);
        if full.host_str().is_none_or(str::is_empty) {
            return Err(wrong("the bucket or host is missing"));
        }
        if full.path().trim_matches('/').is_empty() {
            return Err(wrong("the key is missing"));
        }
        Ok(Self { scheme, public: public(&full), full })
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
    pub fn bucket(&self) -> &str {
        self.full.host_str().unwrap_or_default()
    }

    /// The key within the bucket, as it is in the store.
    pub fn key(&self) -> String {
        let key = self.full.path().trim_start_matches('/');
        percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned()
    }

    /// The scheme, the host and the port: servers that are reached, or not, together.
    pub fn server(&self) -> String {
        let port = self.full.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.full.scheme(), self.bucket())
    }

    /// The whole address. It may contain credentials: for requests only.
    pub(crate) fn full(&self) -> &Url {
        &self.full
    }
}

/// The path of a file that an object in `folder` refers to by name. A name is no address, so letters that have a meaning in
/// one are encoded. `..` is left at the front if the name leads out of the folder.
pub fn beside(folder: &Path, name: &str) -> PathBuf {
    let mut parts: Vec<String> = Vec::new();
    for part in name.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match (part, parts.last()) {
            ("..", Some(last)) if last != ".." => drop(parts.pop()),
            _ => parts.push(utf8_percent_encode(part, LETTERS).to_string()),
        }
    }
    folder.join(parts.join("/"))
}

/// The name of a file without its extension; that of an object as it is in the store.
pub fn stem(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_string_lossy();
    let is_encoded = Address::is(path);
    Some(if is_encoded {
        percent_encoding::percent_decode_str(&stem).decode_utf8_lossy().into_owned()
    } else {
        stem.into_owned()
    })
}

/// The path without symbolic links. One that stands for an address is what it is.
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    if Address::is(path) { Ok(path.to_owned()) } else { path.canonicalize() }
}

/// The length of a digest of a query, in hexadecimal digits.
const DIGITS: usize = 8;

/// Whether a query is the digest of one: a child process knows addresses in their public form only.
fn is_digest(query: &str) -> bool {
    let digits = query.strip_prefix('~').filter(|digits| digits.len() == DIGITS);
    digits.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// An address without query and password. Addresses that differ only in the query are told apart by a digest of it.
fn public(full: &Url) -> String {
    let mut public = full.clone();
    // An error means that the address cannot have what is removed.
    let _ = public.set_username("");
    let _ = public.set_password(None);
    let query = full.query().filter(|query| !query.is_empty());
    let digest = query.map(|query| match is_digest(query) {
        true => query.to_owned(),
        false => format!("~{}", &blake3::hash(query.as_bytes()).to_hex()[..DIGITS]),
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
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() {
        for path in ["a.h5", "/data/s3/a.h5", "s3:/a", "s3", "ftp://host/a.h5", "C://a"] {
            assert!(Address::path_of(path).is_none() && !Address::is(Path::new(path)), "{path}");
        }
        let address = Address::of(Path::new("s3://lab/mouse/brain%201.h5")).unwrap();
        assert_eq!((address.bucket(), address.key().as_str()), ("lab", "mouse/brain 1.h5"));
        assert_eq!(address.server(), "s3://lab");
        assert_eq!(stem(Path::new("s3://lab/mouse/brain%201.h5?0123")).as_deref(), Some("brain 1"));
        assert_eq!(stem(Path::new("/mouse/brain%201.h5")).as_deref(), Some("brain%201"));
        let wrong = Address::path_of("s3://lab").unwrap().unwrap_err().to_string();
        assert!(wrong.contains("the key is missing") && wrong.contains("s3://BUCKET/KEY"), "{wrong}");
    }

    #[test]
    fn credentials_are_in_no_path_and_no_error() {
        let given = "https://me:hunter2@host:81/a/b.h5?X-Amz-Signature=abcdef&part=1";
        let path = Address::path_of(given).unwrap().unwrap();
        let address = Address::of(&path).unwrap();
        assert_eq!(address.full().as_str(), given);
        assert_eq!(address.server(), "https://host:81");
        let shown = format!("{} {address} {address:?}", path.display());
        assert!(shown.contains("host:81/a/b.h5") && !shown.contains("hunter2") && !shown.contains("abcdef"));
        // Another query names another object.
        let other = Address::path_of(&given.replace("part=1", "part=2")).unwrap().unwrap();
        assert_ne!(path, other);
        // A child process, which knows nothing but the path, names the same object.
        assert_eq!(public(&Url::parse(path.to_str().unwrap()).unwrap()), path.to_str().unwrap());
        let wrong = Address::path_of("https://me:hunter2@/?sig=abcdef").unwrap().unwrap_err().to_string();
        assert!(!wrong.contains("hunter2") && !wrong.contains("abcdef"), "{wrong}");
    }

    #[test]
    fn names_lead_to_objects_below_a_folder_or_visibly_out_of_it() {
        let beside = |name: &str| beside(Path::new("https://h/a"), name).to_str().unwrap().to_owned();
        for (name, found) in [
            ("b.h5", "https://h/a/b.h5"),
            ("./c/../b 1%.h5", "https://h/a/b%201%25.h5"),
            ("../b.h5", "https://h/a/../b.h5"),
            ("c/../../b.h5", "https://h/a/../b.h5"),
            ("..%2fb.h5", "https://h/a/..%252fb.h5"),
            ("%2e%2e/b.h5", "https://h/a/%252e%252e/b.h5"),
            (r"..\b.h5", "https://h/a/..%5Cb.h5"),
            ("b.h5?c#d", "https://h/a/b.h5%3Fc%23d"),
            ("https://evil/b.h5", "https://h/a/https:/evil/b.h5"),
        ] {
            assert_eq!(beside(name), found, "{name}");
        }
        for (address, is_below) in [
            ("https://h/a/b.h5", true),
            ("https://h/a/../b.h5", false),
            ("https://h/a/%2e%2E/b.h5", false),
            (r"https://h/a/..\b.h5", false),
            ("https://h/a/..%2Fb.h5", false),
            ("https://h:8/a/b.h5", false),
            ("https://h/ab/b.h5", false),
        ] {
            let address = Address::of(Path::new(address)).unwrap();
            assert_eq!(address.is_below(Path::new("https://h/a")), is_below, "{address}");
        }
    }

    #[test]
    fn a_password_is_sent_for_objects_below_the_folder_of_its_own_only() {
        Address::path_of("https://me:word@below:81/a/b.h5").unwrap().unwrap();
        let password = |address: &str| Address::of(Path::new(address)).unwrap().full().password().is_some();
        assert!(password("https://below:81/a/b.xml") && password("https://below:81/a/c/d.h5"));
        for other in [
            "https://below/a/b.xml",
            "http://below:81/a/b.xml",
            "https://below:81/b.h5",
            "https://o:81/a/b.h5",
        ] {
            assert!(!password(other), "{other}");
        }
    }

    #[test]
    fn the_folder_of_an_address_is_its_prefix() {
        let path = Address::path_of("s3://lab/mouse/brain.h5").unwrap().unwrap();
        assert_eq!(path.parent().unwrap().join("other.h5"), Path::new("s3://lab/mouse/other.h5"));
        assert_eq!(path.parent().unwrap().join("other.h5").to_str(), Some("s3://lab/mouse/other.h5"));
    }
}
