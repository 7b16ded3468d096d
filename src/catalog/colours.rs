//! The colours of images that are shown together: in composites of the page, and in OME-Zarr.

use std::collections::BTreeMap;

use voltile_base::color::{Colour, Rgb};
use voltile_base::name::Name;
use voltile_base::paint::Kind;

use super::Dataset;

impl Dataset {
    /// The colour of each image when images are shown together: first as one of the six colours of
    /// composites, then exactly. It is the colour in the file, unless that is grey or taken by an
    /// earlier image; else the first of [`Colour::TOGETHER`] that is free.
    pub fn composite_colours(&self) -> BTreeMap<&Name, (Colour, Rgb)> {
        let mut colours = BTreeMap::new();
        let mut taken = Vec::new();
        let mut uncoloured = Vec::new();
        for image in self.listed().filter(|channel| channel.kind == Kind::Image) {
            let code = image.facts.colour.as_deref().unwrap_or_default();
            match Colour::nearest(code).zip(Colour::code(code)) {
                Some((nearest, exact)) if !taken.contains(&nearest) => {
                    taken.push(nearest);
                    colours.insert(&image.name, (nearest, exact));
                }
                _ => uncoloured.push(&image.name),
            }
        }
        // The free colours, then all: with more than six images, some share a colour.
        let all = Colour::TOGETHER.into_iter();
        let free = all.clone().filter(|colour| !taken.contains(colour));
        let order: Vec<Colour> = free.chain(all).collect();
        for (name, colour) in uncoloured.into_iter().zip(order.iter().cycle()) {
            colours.insert(name, (*colour, colour.of_shade(u8::MAX)));
        }
        colours
    }
}
