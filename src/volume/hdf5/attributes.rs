//! Attributes, and the small tables beside volumes, as text and numbers, however they were written.

use hdf5::types::{FixedAscii, FixedUnicode, FloatSize, TypeDescriptor, VarLenAscii, VarLenUnicode};
use hdf5::{Attribute, Container, Location};

use super::links::Node;

/// Attributes and tables longer than this are none that a layout knows.
const MOST_VALUES: usize = 1 << 16;

/// The attributes of one object.
#[derive(Debug)]
pub struct Attributes {
    location: Location,
    /// The names, listed once because asking for one that is missing is dear; `None` where they cannot be listed.
    names: Option<Vec<String>>,
}

impl Attributes {
    pub(super) fn of(node: &Node) -> Self {
        match node {
            Node::Group(group) => Self::at((**group).clone()),
            Node::Dataset(dataset) => Self::at((***dataset).clone()),
        }
    }

    pub(super) fn at(location: Location) -> Self {
        let names = location.attr_names().ok();
        Self { location, names }
    }

    /// Whether there is an attribute of that name.
    pub fn has(&self, name: &str) -> bool {
        match &self.names {
            Some(names) => names.iter().any(|known| known == name),
            None => self.location.attr(name).is_ok(),
        }
    }

    /// The attribute as text: a string of any kind, or an array of them joined, as of single characters.
    pub fn text(&self, name: &str) -> Option<String> {
        self.texts(name).map(|texts| texts.concat())
    }

    /// The attribute's strings, of any kind. Bytes that are not UTF-8 are replaced.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        texts(&*self.attribute(name)?)
    }

    /// The attribute's numbers, of any type.
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        numbers(&*self.attribute(name)?)
    }

    fn attribute(&self, name: &str) -> Option<Attribute> {
        self.has(name).then(|| self.location.attr(name).ok()).flatten()
    }
}

/// The strings of an attribute or a dataset; `None` where it holds something else, or too much.
pub(super) fn texts(held: &Container) -> Option<Vec<String>> {
    if held.size() > MOST_VALUES {
        return None;
    }
    match held.dtype().ok()?.to_descriptor().ok()? {
        TypeDescriptor::VarLenUnicode => {
            Some(each(&held.read_raw::<VarLenUnicode>().ok()?, VarLenUnicode::as_bytes))
        }
        TypeDescriptor::VarLenAscii => {
            Some(each(&held.read_raw::<VarLenAscii>().ok()?, VarLenAscii::as_bytes))
        }
        TypeDescriptor::FixedAscii(length) => fixed_ascii(held, length),
        TypeDescriptor::FixedUnicode(length) => fixed_unicode(held, length),
        _ => None,
    }
}

/// The numbers of an attribute or a dataset; `None` where it holds something else, or too much.
pub(super) fn numbers(held: &Container) -> Option<Vec<f64>> {
    if held.size() > MOST_VALUES {
        return None;
    }
    match held.dtype().ok()?.to_descriptor().ok()? {
        TypeDescriptor::Float(FloatSize::U4 | FloatSize::U8)
        | TypeDescriptor::Integer(_)
        | TypeDescriptor::Unsigned(_) => held.read_raw::<f64>().ok(),
        _ => None,
    }
}

/// The text of each part; what follows a zero byte is padding.
fn each<T>(parts: &[T], bytes: impl Fn(&T) -> &[u8]) -> Vec<String> {
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
        fn $name(held: &Container, length: usize) -> Option<Vec<String>> {
            match length {
                1 => Some(each(&held.read_raw::<$type<1>>().ok()?, $type::as_bytes)),
                2..=64 => Some(each(&held.read_raw::<$type<64>>().ok()?, $type::as_bytes)),
                65..=4096 if held.size() <= 256 => {
                    Some(each(&held.read_raw::<$type<4096>>().ok()?, $type::as_bytes))
                }
                4097..=65536 if held.size() == 1 => {
                    Some(each(&held.read_raw::<$type<65536>>().ok()?, $type::as_bytes))
                }
                _ => None,
            }
        }
    };
}
fixed!(fixed_ascii, FixedAscii);
fixed!(fixed_unicode, FixedUnicode);
