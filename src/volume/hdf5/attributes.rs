//! Attributes as text and numbers, however they were written.

use hdf5::types::{FixedAscii, FixedUnicode, FloatSize, TypeDescriptor, VarLenAscii, VarLenUnicode};
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

    /// The attribute as text: a string of any kind, or an array of single characters joined. Bytes that are not UTF-8
    /// are replaced.
    pub fn text(&self, name: &str) -> Option<String> {
        let attribute = self.attribute(name)?;
        match attribute.dtype().ok()?.to_descriptor().ok()? {
            TypeDescriptor::VarLenUnicode => {
                Some(joined(&attribute.read_raw::<VarLenUnicode>().ok()?, VarLenUnicode::as_bytes))
            }
            TypeDescriptor::VarLenAscii => {
                Some(joined(&attribute.read_raw::<VarLenAscii>().ok()?, VarLenAscii::as_bytes))
            }
            TypeDescriptor::FixedAscii(length) => fixed_ascii(&attribute, length),
            TypeDescriptor::FixedUnicode(length) => fixed_unicode(&attribute, length),
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

/// Parts of a text, joined; what follows a zero byte is padding.
fn joined<T>(parts: &[T], bytes: impl Fn(&T) -> &[u8]) -> String {
    let text = |part| {
        let bytes = bytes(part);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    parts.iter().map(text).collect()
}

/// Reads strings of a fixed length, which the library wants to know beforehand, into somewhat longer ones.
macro_rules! fixed {
    ($name:ident, $type:ident) => {
        fn $name(attribute: &Attribute, length: usize) -> Option<String> {
            match length {
                1 => Some(joined(&attribute.read_raw::<$type<1>>().ok()?, $type::as_bytes)),
                2..=64 => Some(joined(&attribute.read_raw::<$type<64>>().ok()?, $type::as_bytes)),
                65..=4096 if attribute.size() <= 256 => {
                    Some(joined(&attribute.read_raw::<$type<4096>>().ok()?, $type::as_bytes))
                }
                4097..=65536 if attribute.size() == 1 => {
                    Some(joined(&attribute.read_raw::<$type<65536>>().ok()?, $type::as_bytes))
                }
                _ => None,
            }
        }
    };
}
fixed!(fixed_ascii, FixedAscii);
fixed!(fixed_unicode, FixedUnicode);
