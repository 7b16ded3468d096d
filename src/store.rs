//! Objects in object storage and on web servers: their bytes, by range, of one version.
//!
//! [`Object`] is the counterpart of an open file. All its bytes are of the version that it was opened with: each request
//! says so (`If-Match`), and each answer is compared. Requests are made by a runtime of their own, so that many can be in
//! flight while threads that decode and encode do not wait for each of them.
//!
//! ```text
//! Object ── Blocks      metadata, in aligned blocks of growing size, each fetched once
//!        └─ Stored      stored chunks, merged over small gaps, many at once
//!             └─ Host ── Transport        attempts, retries, breaker · one request: web, cloud
//! ```
//!
//! A [`Folder`] holds small objects that are read and written whole: a cache of tiles.

mod blocks;
mod cloud;
mod error;
mod folder;
mod host;
mod kept;
mod merge;
mod object;
mod profile;
mod relay;
mod runtime;
mod sidecar;
mod stored;
mod transport;
mod version;
mod web;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::address::Address;

pub use error::StoreError;
pub use folder::{Folder, FolderError};
pub use kept::{Keeps, keep_chunks_in};
pub use merge::Requests;
pub use object::Object;
pub use relay::{Answer, Relay, Wanted, answer};
pub use sidecar::keep_in as keep_metadata_in;
pub use stored::Gathering;
pub use version::Version;

/// Room made for a body before it arrives; longer ones make more as they do.
const ROOM: u64 = 4 << 20;
/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long an answer, or its next bytes, may take.
const WAITING: Duration = Duration::from_secs(15);
/// After which time a failed request is worth repeating, unless the store says otherwise.
const RETRY: Duration = Duration::from_secs(1);

const USER_AGENT: &str = concat!("voltile/", env!("CARGO_PKG_VERSION"));

/// The folders with what connections and credentials take: names of hosts, certificates, and the clouds' own files.
pub fn files() -> Vec<PathBuf> {
    let system =
        ["/etc", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/run/systemd/resolve"];
    let named = [
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_FEDERATED_TOKEN_FILE",
        "SSL_CERT_FILE",
    ];
    let folder = |name: &str| PathBuf::from(std::env::var_os(name)?).parent().map(Path::to_owned);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let of_home =
        home.iter().flat_map(|home| [".aws", ".config/gcloud", ".azure"].map(|name| home.join(name)));
    system.into_iter().map(PathBuf::from).chain(named.into_iter().filter_map(folder)).chain(of_home).collect()
}

/// The servers that do not answer, and what happened last.
pub fn unreachable() -> Vec<String> {
    host::Host::unreachable()
}

/// The text of an object of at most `most` bytes; `None` if there is none.
pub fn text(address: &Address, most: u64) -> Option<String> {
    let read = || {
        let object = Object::open(address)?;
        let mut bytes = vec![0; object.length().min(most) as usize];
        object.read_metadata(&mut bytes, 0).map(|_| bytes)
    };
    match read() {
        Ok(bytes) => String::from_utf8(bytes).ok(),
        Err(StoreError::Missing) => None,
        Err(error) => {
            tracing::warn!("{address} cannot be read: {error}");
            None
        }
    }
}

/// Chooses the implementation of TLS's cryptography for this process, if nobody has.
fn install_cryptography() {
    // An error means that one was installed before.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}
