//! Names of choices on the command line, with their help texts.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::tools::bench::{Pattern, State};
use crate::tools::verify::Viewer;

impl ValueEnum for Viewer {
    fn value_variants<'a>() -> &'a [Self] {
        &Viewer::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Viewer::Catmaid => "CATMAID: its importer, its canary tile, its tile layers",
            Viewer::Viking => "Viking: its volume file and its URL form",
            Viewer::Openseadragon => {
                "OpenSeadragon and pages built on it: the whole pyramid, with browser caching"
            }
            Viewer::Neuroglancer => "Neuroglancer and other clients of its precomputed format",
            Viewer::Zarr => "readers of OME-Zarr 0.4 and 0.5",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for Pattern {
    fn value_variants<'a>() -> &'a [Self] {
        &Pattern::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Pattern::Random => {
                "Tiles of the level in random order, all of them before any is repeated: consecutive tiles rarely share chunks"
            }
            Pattern::Scroll => "Runs of neighbouring slices at one place, up or down",
            Pattern::Walk => {
                "Steps of one voxel through the volume, with the tile of each plane that contains it: three linked planes"
            }
            Pattern::Sweep => {
                "Every tile of the first slice, then of the next: the order of ndtilecache's benchmark"
            }
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for State {
    fn value_variants<'a>() -> &'a [Self] {
        &State::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            State::Disk => (
                "disk",
                "Nothing: the file's pages were dropped from the page cache if the system permits; no chunk is cached",
            ),
            State::Chunks => ("chunks", "The file's pages, in the page cache; no chunk is cached"),
            State::Warm => (
                "warm",
                "The file's pages, and the decoded chunks that these tiles need, if they fit into the budget of the chunk cache",
            ),
        };
        Some(PossibleValue::new(name).help(help))
    }
}
