//! What to read and how to paint it: the renderer's only input, made by the catalogue.

use std::sync::Arc;

use crate::color::Colour;
use crate::geometry::{LevelView, Patch, Region};
use crate::paint::{Finite, PngProfile, Window};
use crate::volume::Volume;

/// One tile to be rendered.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it shows.
    pub picture: Picture,
    /// How it is encoded.
    pub profile: PngProfile,
}

/// One slice drawn small, put together from tiles.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The tiles, row by row; never none, all of one kind.
    pub tiles: Vec<Plan>,
    /// How many tiles there are in a row.
    pub across: usize,
    /// The slice's own width and height among the tiles' pixels.
    pub extent: (usize, usize),
    /// What its longer edge is drawn as, at most.
    pub edge: usize,
}

/// The kinds of picture that a tile can be.
#[derive(Debug, Clone)]
pub enum Picture {
    /// One channel of intensities, in grey.
    Grey(Layer),
    /// Intensities in colours, added up.
    Composite(Vec<(Layer, Colour)>),
    /// Label ids, each in its own colour.
    Labels(Source),
    /// Red, green and blue, each read from a volume of its own.
    Rgb(Box<[Layer; 3]>),
}

/// Intensities and the window that makes them 8 bits.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Where they come from.
    pub source: Source,
    /// The window in force.
    pub window: Window,
    /// The exponent of a curve from black to white; none is a straight line.
    pub gamma: Option<Finite>,
}

/// The voxels of one channel that one tile shows.
#[derive(Debug, Clone)]
pub struct Source {
    /// The stored level to read.
    pub volume: Arc<dyn Volume>,
    /// The time point.
    pub time: u64,
    /// How the tile's level is had from the stored one.
    pub view: LevelView,
    /// Which part of the level the tile shows; `None` where it lies wholly outside.
    pub patch: Option<Patch>,
}

/// Whether a tile is grey or coloured: the two kinds of image there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PixelKind {
    /// One byte a pixel.
    Grey,
    /// Three bytes a pixel: red, green, blue.
    Rgb,
}

impl PixelKind {
    /// Bytes a pixel.
    pub fn bytes(self) -> usize {
        match self {
            PixelKind::Grey => 1,
            PixelKind::Rgb => 3,
        }
    }
}

impl Source {
    /// The boxes of stored voxels that it shows; none where it lies outside.
    pub fn regions(&self) -> impl Iterator<Item = Region> + '_ {
        let runs = self.patch.iter().flat_map(|patch| patch.runs().iter().map(move |run| patch.region(run)));
        runs.map(|region| self.view.stored_region(&region))
    }
}

impl Picture {
    /// Where its voxels come from.
    pub fn sources(&self) -> Vec<&Source> {
        match self {
            Picture::Grey(layer) => vec![&layer.source],
            Picture::Labels(source) => vec![source],
            Picture::Composite(layers) => layers.iter().map(|(layer, _)| &layer.source).collect(),
            Picture::Rgb(layers) => layers.iter().map(|layer| &layer.source).collect(),
        }
    }

    /// What its pixels are.
    pub fn pixels(&self) -> PixelKind {
        match self {
            Picture::Grey(_) => PixelKind::Grey,
            _ => PixelKind::Rgb,
        }
    }

    /// Whether nothing of any volume is in it.
    pub fn is_black(&self) -> bool {
        let outside = |layer: &Layer| layer.source.patch.is_none();
        match self {
            Picture::Grey(layer) => outside(layer),
            Picture::Composite(layers) => layers.iter().all(|(layer, _)| outside(layer)),
            Picture::Labels(source) => source.patch.is_none(),
            Picture::Rgb(layers) => layers.iter().all(outside),
        }
    }
}
