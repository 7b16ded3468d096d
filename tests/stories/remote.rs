//! Files on web servers and in object storage, read from a server with faults
//! ([`crate::common::objects`]).
//!
//! Real stores and their emulators are compared with local files by `scripts/stores-check`.

mod changes;
mod failures;
mod kept;
mod pixels;
mod requests;
mod secrets;
mod tiles;

use std::fs;
use std::path::PathBuf;

use crate::common::objects::ObjectServer;
use crate::common::volumes::{self, Stored};
use crate::common::{CHANGED, Place, Server};

/// The planes of the volumes written here.
const PLANES: usize = 8;
/// No sample is taken, and nothing is fetched ahead: a tile asks for its own chunks and nothing
/// else.
const PLAIN: [&str; 4] = [
    "--set",
    "datasets.planes.channels.raw.window=full",
    "--set",
    "render.neighbours=0",
];

/// A place, and a web server of the files in its folder `objects`.
struct Remote {
    place: Place,
    objects: ObjectServer,
}

impl Remote {
    fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("objects")).unwrap();
        let objects = ObjectServer::of(place.path("objects"));
        Self { place, objects }
    }

    /// With `planes.h5`, whose planes all lie behind the first block of the file, so that each plane
    /// takes a request.
    fn with_scattered_planes() -> Self {
        let remote = Self::new();
        scattered(&remote.path("planes.h5"), 1);
        remote
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path("objects").join(name)
    }

    fn url(&self, name: &str) -> String {
        self.objects.url(name)
    }

    /// A server of objects that may change; tiles that are being rendered then fail.
    fn serve(&self, names: &[&str], more: &[&str]) -> Server {
        let urls = names.iter().map(|name| self.url(name));
        let server = self
            .place
            .serve(urls.chain(more.iter().map(|argument| (*argument).to_owned())));
        server.allow_error(CHANGED);
        server
    }

    fn serve_planes(&self) -> Server {
        self.serve(&["planes.h5"], &PLAIN)
    }

    /// Replaces an object by another one in one step, as stores do.
    fn replace(&self, name: &str, by: &[u8]) {
        fs::write(self.place.path("next"), by).unwrap();
        fs::rename(self.place.path("next"), self.path(name)).unwrap();
    }
}

/// The distance of the planes of [`scattered`] in the file: too far for one request.
const DISTANCE: usize = (1 << 20) + 0x1c38;

/// Writes `/raw` with planes far from each other, and from the metadata: between them is space for
/// other data.
fn scattered(path: &std::path::Path, seed: usize) {
    let near = path.with_extension("near");
    let ranges = volumes::planes_of_old(&near, PLANES, seed, Stored::Gzip);
    let stored = fs::read(&near).unwrap();
    fs::remove_file(&near).unwrap();
    let mut bytes = stored.clone();
    // Only the index of the chunks refers to them: each address occurs once.
    for (number, range) in ranges.iter().enumerate() {
        let old = range.start.to_le_bytes();
        let at: Vec<usize> = (0..stored.len() - 8)
            .filter(|at| stored[*at..*at + 8] == old)
            .collect();
        assert_eq!(
            at.len(),
            1,
            "the address of chunk {number} is {}",
            range.start
        );
        let place = (number + 1) * DISTANCE;
        bytes[at[0]..at[0] + 8].copy_from_slice(&(place as u64).to_le_bytes());
        bytes.resize(place, 0);
        bytes.extend_from_slice(&stored[range.start as usize..range.end as usize]);
    }
    // The superblock of the oldest format holds the end of the file at byte 40.
    let end = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&end.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

fn tile(z: usize) -> String {
    format!("{}/planes/raw/xy/{z}/0_0_0.png", crate::common::MOUNT)
}

/// Whether a plane is shown as it was written with this seed.
fn shows(server: &Server, seed: usize, z: usize) -> bool {
    let answer = server.get(&tile(z));
    answer.status == 200 && answer.picture() == volumes::plane(seed, z)
}

/// The problems in `/readyz`, whatever its status.
fn problems(server: &Server) -> String {
    let ready: serde_json::Value = serde_json::from_slice(&server.get("/readyz").body).unwrap();
    ready["problems"].to_string()
}
