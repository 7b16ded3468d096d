//! The cells of the demo tissue and what lies in them. Where they grow is left to `growth`, who neighbours whom to `tissue`.

use super::vector::{Frame, Rod, Vector};

/// What a cell looks like inside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// A cell body, with a nucleus and much endoplasmic reticulum.
    Body,
    /// A thin process, perhaps with a synapse.
    Neurite,
    /// A process in a sheath of myelin.
    Sheathed,
}

/// One cell (what is called a neurite here is a cell of its own: the body it hangs on lies elsewhere).
pub(super) struct Cell {
    /// Its number in the segmentation, never 0.
    pub label: u32,
    pub kind: Kind,
    /// What it grows from.
    pub rod: Rod,
    /// Leads along the rod.
    pub frame: Frame,
    /// A number in [0, 1) that sets this cell apart from others of its kind: shade, brightness of its stains.
    pub character: f32,
    pub mitochondria: Vec<Mitochondrion>,
}

/// A mitochondrion; what of it lies outside its cell is not there.
pub(super) struct Mitochondrion {
    /// Its shape.
    pub rod: Rod,
    /// Leads along the rod: across it lie the cristae.
    pub frame: Frame,
}

impl Cell {
    /// How far `point` lies outside this cell's nucleus, negative inside; infinitely far in a cell that has none.
    /// Here it is a perfect egg; `survey` dents it.
    pub fn beyond_nucleus(&self, point: Vector) -> f32 {
        if self.kind != Kind::Body {
            return f32::INFINITY;
        }
        let local = self.frame.local(point - self.rod.center());
        let stretched = Vector::new(local.x * 0.8, local.y, local.z * (0.95 + 0.3 * self.character));
        stretched.length() - (54.0 + 22.0 * self.character)
    }

    /// How far `point` lies outside the nucleolus, the dark ball in the nucleus.
    pub fn nucleolus(&self, point: Vector) -> f32 {
        let center =
            self.rod.center() + self.frame.across * (30.0 * self.character) + self.frame.aside * 12.0;
        (point - center).length() - 17.0
    }
}

impl Mitochondrion {
    /// Whether any of it can be seen within `reach` of `center`.
    pub fn is_within(&self, reach: f32, center: Vector) -> bool {
        self.rod.distance(center) < reach + 6.0
    }
}
