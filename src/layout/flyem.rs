//! FlyEM and gala: `/stack`, with `/transforms` next to it.
//!
//! Source: NeuroProof (`create_volume`, which reads both) and gala (`imio.read_h5_stack`). A stack of 32 or 64 bits holds
//! ids of superpixels. Each row of `transforms` is the id of a superpixel and that of its body; superpixels that are not
//! listed are bodies of their own. The channel `stack` shows the bodies, `superpixels` the stored ids. A stack of bytes is
//! an image, one of floats probabilities.

use super::contents::{About, Contents};
use super::marks::Marks;
use super::{FoundChannel, Layout, holds_ids, plain};
use crate::name::Name;
use crate::volume::Values;
use crate::volume::hdf5::{OpenError, OpenFile};

const STACK: &str = "/stack";
const TRANSFORMS: &str = "/transforms";

pub(super) struct FlyEm;

impl Layout for FlyEm {
    fn name(&self) -> &'static str {
        "FlyEM/gala"
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        match about.path {
            _ if about.attributes.has("MATLAB_class") => None,
            STACK => Some(stack(about)),
            TRANSFORMS if about.file.has(STACK) => Some(Marks { is_aside: true, ..Marks::default() }),
            _ => None,
        }
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
        let mut channels = plain::channels(contents, |_| true)?;
        if let Some(place) = channels.iter().position(shows_bodies) {
            let stored = superpixels(&channels[place]);
            channels.insert(place + 1, stored);
        }
        Ok(channels)
    }
}

fn stack(about: &About<'_>) -> Marks {
    let table = about.file.dataset(TRANSFORMS);
    let has_bodies = table.is_ok_and(|table| table.shape.len() == 2 && table.shape[1] == 2);
    let (because, reason) = if has_bodies {
        ("it has /stack and /transforms", "/transforms maps its ids to bodies")
    } else {
        ("it has /stack", "/stack has ids of 32 or 64 bits")
    };
    let is_labels = holds_ids(about.dataset.stored.voxel) || (has_bodies && about.is_integer());
    let marks = if is_labels { Marks::labels(reason) } else { Marks::default() };
    Marks {
        because: Some(because.to_owned()),
        values: (is_labels && has_bodies).then(|| bodies(about.file)).flatten(),
        ..marks
    }
}

/// The bodies of superpixels.
fn bodies(file: &OpenFile) -> Option<Values> {
    let table = file.dataset(TRANSFORMS).ok()?;
    if table.shape.len() != 2 || table.shape[1] != 2 {
        return None;
    }
    Some(Values::ids(table.ids()?.chunks_exact(2).map(|row| (row[0], row[1])).collect()))
}

fn shows_bodies(channel: &FoundChannel) -> bool {
    let finest = channel.levels.first();
    finest.is_some_and(|level| level.paths.first() == Some(STACK) && level.view.values.is_some())
}

/// The same stack with its stored ids.
fn superpixels(bodies: &FoundChannel) -> FoundChannel {
    let mut stored = FoundChannel { name: Name::nearest("superpixels"), ..bodies.clone() };
    stored.labels_because = Some("/stack holds ids of superpixels".to_owned());
    stored.levels.iter_mut().for_each(|level| level.view.values = None);
    stored
}
