//! The files of the page and of Neuroglancer, as `build.rs` has embedded them.

/// A file of a page.
pub(in crate::http) struct Asset {
    /// The path below `/`; the pages themselves are `index.html` and `neuroglancer/index.html`.
    pub name: &'static str,
    pub digest: &'static str,
    pub plain: &'static [u8],
    pub gzip: &'static [u8],
}

// Defines `static ASSETS: &[Asset]`; empty if the viewers are not built in.
include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The path of Neuroglancer; its files are below it.
pub(super) const NEUROGLANCER: &str = "neuroglancer/";

/// Whether the viewer is built in.
pub fn has_viewer() -> bool {
    !ASSETS.is_empty()
}

/// The path of Neuroglancer relative to `/`, if it is built in.
pub(in crate::http) fn neuroglancer() -> Option<&'static str> {
    ASSETS
        .iter()
        .any(|asset| asset.name.starts_with(NEUROGLANCER))
        .then_some(NEUROGLANCER)
}

/// The file at a path below `/`.
pub(super) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}
