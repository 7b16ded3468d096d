//! FlyEM and gala: `/stack`, with `/transforms` next to it.
//!
//! Source: NeuroProof's example data and gala (`imio.read_h5_stack`). A stack of 32 or 64 bits holds ids of
//! supervoxels; `transforms` is a table that maps these to bodies and is not applied: colours are those of
//! the stored ids. A stack of bytes is an image, one of floats probabilities.

use super::contents::About;
use super::marks::Marks;
use super::{Layout, holds_ids};
use crate::paint::Kind;

const STACK: &str = "/stack";
const TRANSFORMS: &str = "/transforms";

pub(super) struct FlyEm;

impl Layout for FlyEm {
    fn name(&self) -> &'static str {
        "FlyEM/gala"
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        match about.path {
            STACK => Some(stack(about)),
            TRANSFORMS if about.file.has(STACK) => Some(Marks { is_aside: true, ..Marks::default() }),
            _ => None,
        }
    }
}

fn stack(about: &About<'_>) -> Marks {
    let has_bodies = about.file.has(TRANSFORMS);
    let is_labels = holds_ids(about.dataset.stored.voxel) || (has_bodies && about.is_integer());
    let because = if has_bodies { "it has /stack and /transforms" } else { "it has /stack" };
    let remark = "its colours are those of supervoxels: the bodies of /transforms are not applied";
    Marks {
        kind: is_labels.then_some(Kind::Labels),
        remarks: has_bodies.then(|| remark.to_owned()).into_iter().collect(),
        ..Marks::because(because.to_owned())
    }
}
