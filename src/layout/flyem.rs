//! FlyEM and gala: `/stack`, with `/transforms` next to it.
//!
//! Source: NeuroProof (`create_volume`, which reads both) and gala (`imio.read_h5_stack`). A stack
//! of 32 or 64 bits holds ids of superpixels. Each row of `transforms` is the id of a superpixel
//! and that of its body; superpixels that are not listed are bodies of their own. The channel
//! `stack` shows the bodies, `superpixels` the stored ids. A stack of bytes is an image, one of
//! floats probabilities.
//!
//! Example: with the rows (7, 3) and (9, 3) in `/transforms`, voxels of 7 and 9 in `/stack` are 3
//! in the channel `stack`, and 7 and 9 in `superpixels`.

use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_hdf5::volume::hdf5::{MAX_IDS, OpenError, StoredDataset};
use voltile_hdf5::volume::{Values, VoxelType};

use super::contents::{About, Contents};
use super::marks::Marks;
use super::{FoundChannel, plain};

const STACK: &str = "/stack";
const TRANSFORMS: &str = "/transforms";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    // With one of these attributes, a dataset of this name is of MATLAB or another program.
    if about.attributes.has("MATLAB_class") || about.attributes.has("CLASS") {
        return None;
    }
    match about.path {
        STACK => Some(stack_marks(about)),
        TRANSFORMS if about.file.has(STACK) => Some(Marks {
            unlisted_as: Some("a table of bodies"),
            ..Marks::default()
        }),
        _ => None,
    }
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let mut channels = plain::channels(contents, |_| true)?;
    if let Some(place) = channels.iter().position(shows_bodies) {
        let stored = superpixels(&channels[place], free_name(&channels));
        channels.insert(place + 1, stored);
    }
    Ok(channels)
}

fn stack_marks(about: &About<'_>) -> Marks {
    let table = about.file.dataset(TRANSFORMS).ok();
    let Some(table) = table.filter(|table| table.shape.len() == 2 && table.shape[1] == 2) else {
        use VoxelType::{I32, I64, U32, U64};
        let are_ids = matches!(about.dataset.stored.voxel, U32 | I32 | U64 | I64);
        return Marks {
            because: Some("it has /stack".to_owned()),
            ..Marks::labels_if(are_ids, "/stack has ids of 32 or 64 bits")
        };
    };
    let because = "it has /stack and /transforms".to_owned();
    if !about.is_integer() {
        return Marks::because(because);
    }
    match bodies(&table) {
        Some(bodies) => Marks {
            because: Some(because),
            values: Some(bodies),
            ..Marks::labels("/transforms maps its ids to bodies")
        },
        None => Marks {
            because: Some(because),
            notices: vec![Notice::warning(format!(
                "its ids are shown as stored, not the ids of bodies: {TRANSFORMS} does not hold integers, or holds more \
                 than the {MAX_IDS} that are read"
            ))],
            ..Marks::labels("/stack has ids next to /transforms")
        },
    }
}

/// The bodies of superpixels; `None` if the table is too long, or not of integers.
fn bodies(table: &StoredDataset) -> Option<Values> {
    let ids = table.ids()?;
    let rows = ids.chunks_exact(2).map(|row| (row[0], row[1]));
    Some(Values::ids(rows.collect()))
}

/// Whether a channel shows the bodies of the stack.
fn shows_bodies(channel: &FoundChannel) -> bool {
    let finest = channel.levels.first();
    finest.is_some_and(|level| level.paths.first() == Some(STACK) && level.view.values.is_some())
}

/// The name of the channel of superpixels, which no other channel has.
fn free_name(channels: &[FoundChannel]) -> Name {
    let numbered = (2u64..).map(|number| Name::nearest(&format!("stack_superpixels_{number}")));
    let mut names = ["superpixels", "stack_superpixels"]
        .map(Name::nearest)
        .into_iter()
        .chain(numbered);
    names
        .find(|name| channels.iter().all(|channel| channel.name != *name))
        .unwrap_or_else(|| Name::nearest("superpixels"))
}

/// The stack of `bodies` with its stored ids.
fn superpixels(bodies: &FoundChannel, name: Name) -> FoundChannel {
    let mut stored = FoundChannel {
        name,
        ..bodies.clone()
    };
    stored.facts.labels_because = Some("/stack holds ids of superpixels".to_owned());
    stored.show_stored_values();
    stored
}
