//! Attributes as text and numbers, however they were written.

use hdf5::types::{FixedAscii, FloatSize, TypeDescriptor, VarLenAscii, VarLenUnicode};
use hdf5::{Attribute, Location};

use super::links::Node;

/// Attributes longer than this are none that a layout knows.
const MOST_VALUES: usize = 1 << 16;

/// The attributes of one object.
#[derive(Debug)]
pub struct Attributes(Location);

impl Attributes {
    pub(super) fn of(node: Node) -> Self {
        match node {
            Node::Group(group) => Self((*group).clone()),
            Node::Dataset(dataset) => Self((**dataset).clone()),
        }
    }

    /// The attribute as text: a string of any kind, or an array of single characters joined.
    pub fn text(&self, name: &str) -> Option<String> {
        let attribute = self.attribute(name)?;
        match attribute.dtype().ok()?.to_descriptor().ok()? {
            TypeDescriptor::VarLenUnicode => attribute
                .read_raw::<VarLenUnicode>()
                .ok()
                .map(|parts| parts.iter().map(VarLenUnicode::as_str).collect()),
            TypeDescriptor::VarLenAscii => attribute
                .read_raw::<VarLenAscii>()
                .ok()
                .map(|parts| parts.iter().map(VarLenAscii::as_str).collect()),
            TypeDescriptor::FixedAscii(length) | TypeDescriptor::FixedUnicode(length) => {
                fixed(&attribute, length)
            }
            _ => None,
        }
    }

    /// The attribute's numbers, of any type.
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        let attribute = self.attribute(name)?;
        match attribute.dtype().ok()?.to_descriptor().ok()? {
            TypeDescriptor::Float(FloatSize::U4 | FloatSize::U8)
            | TypeDescriptor::Integer(_)
            | TypeDescriptor::Unsigned(_) => attribute.read_raw::<f64>().ok(),
            _ => None,
        }
    }

    fn attribute(&self, name: &str) -> Option<Attribute> {
        let attribute = self.0.attr(name).ok()?;
        (attribute.size() <= MOST_VALUES).then_some(attribute)
    }
}

/// Strings of a fixed length, joined; what follows a zero byte is padding.
fn fixed(attribute: &Attribute, length: usize) -> Option<String> {
    fn joined<const N: usize>(attribute: &Attribute) -> Option<String> {
        let parts = attribute.read_raw::<FixedAscii<N>>().ok()?;
        Some(parts.iter().map(|part| part.as_str().trim_end_matches('\0')).collect())
    }
    match length {
        1 => joined::<1>(attribute),
        2..=64 => joined::<64>(attribute),
        65..=4096 => joined::<4096>(attribute),
        _ => joined::<65536>(attribute),
    }
}
