//! The colours of images that are shown together: in composites of the page, and in OME-Zarr.

use std::collections::BTreeMap;

use voltile_base::color::{Colour, Rgb};
use voltile_base::name::Name;
use voltile_base::paint::Kind;

use super::Dataset;

impl Dataset {
    /// The colour of each image when images are shown together, as one of the six colours of
    /// composites and exactly: the colour in the file, unless it is grey or an earlier image has
    /// it; else the first of [`Colour::TOGETHER`] that is left.
    pub fn composite_colours(&self) -> BTreeMap<&Name, (Colour, Rgb)> {
        let mut given = BTreeMap::new();
        let mut taken = Vec::new();
        let mut others = Vec::new();
        for image in self.listed().filter(|channel| channel.kind == Kind::Image) {
            let code = image.facts.colour.as_deref().unwrap_or_default();
            match Colour::nearest(code).zip(Colour::code(code)) {
                Some(own) if !taken.contains(&own.0) => {
                    taken.push(own.0);
                    given.insert(&image.name, own);
                }
                _ => others.push(&image.name),
            }
        }
        let all = Colour::TOGETHER.into_iter();
        let free: Vec<Colour> = all
            .clone()
            .filter(|colour| !taken.contains(colour))
            .chain(all)
            .collect();
        let colours = free
            .iter()
            .cycle()
            .map(|colour| (*colour, colour.of_shade(u8::MAX)));
        given.extend(others.into_iter().zip(colours));
        given
    }
}
