//! Where a file is.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::address::{Address, NotAnObject, published};

/// Where a file is: in the file system, or in a store.
///
/// Only the public part of an address is displayed or serialised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// In the file system.
    Path(PathBuf),
    /// In a store.
    Object(Address),
}

impl Location {
    /// Parses a user's text: an address if it begins like one, else a path.
    pub fn given(text: PathBuf) -> Result<Self, NotAnObject> {
        match text.to_str().and_then(Address::parsed) {
            Some(address) => address.map(Location::Object),
            None => Ok(Location::Path(text)),
        }
    }

    /// The path of a file in the file system.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Location::Path(path) => Some(path),
            Location::Object(_) => None,
        }
    }

    /// The path, or the address without query and password, as other programs expect it: the
    /// address of an object on a web server is percent-encoded, the address of one in a bucket is
    /// not. `None` if the path is not UTF-8.
    pub fn plain(&self) -> Option<String> {
        match self {
            Location::Path(path) => path.to_str().map(str::to_owned),
            Location::Object(address) => {
                published(&format!("{}/", address.server()), Path::new(&address.key()))
            }
        }
    }

    /// A path to compare with the paths of folders. That of an object is its address without query
    /// and password, percent-decoded.
    pub fn named(&self) -> PathBuf {
        match self {
            Location::Path(path) => path.clone(),
            Location::Object(address) => Path::new(&address.server()).join(address.key()),
        }
    }

    /// Whether it is an object in a store.
    pub fn is_remote(&self) -> bool {
        self.path().is_none()
    }

    /// A path that tells files apart. That of an object is its public address, and cannot be
    /// opened.
    pub fn as_path(&self) -> &Path {
        match self {
            Location::Path(path) => path,
            Location::Object(address) => Path::new(address.public()),
        }
    }

    /// The name of the file without its extension; the name of an object is percent-decoded.
    pub fn stem(&self) -> Option<String> {
        let stem = self.as_path().file_stem()?.to_string_lossy();
        Some(match self {
            Location::Path(_) => stem.into_owned(),
            Location::Object(_) => percent_encoding::percent_decode_str(&stem)
                .decode_utf8_lossy()
                .into_owned(),
        })
    }

    /// The location without symbolic links.
    pub fn resolved(&self) -> io::Result<Self> {
        match self {
            Location::Path(path) => path.canonicalize().map(Location::Path),
            Location::Object(_) => Ok(self.clone()),
        }
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Location::Path(path.to_owned())
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Location::Path(path)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().display().fmt(f)
    }
}

impl Hash for Location {
    /// Hashes what earlier versions hashed, a path, so that the keys of their caches stay valid.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.as_path().hash(hasher);
    }
}

impl Serialize for Location {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Location {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::given(String::deserialize(deserializer)?.into()).map_err(de::Error::custom)
    }
}
