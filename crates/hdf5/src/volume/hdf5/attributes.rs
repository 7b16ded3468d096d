//! Reads attributes and small datasets as strings or numbers, whatever their stored type.

use std::collections::BTreeMap;

use hdf5::types::{
    FixedAscii, FixedUnicode, FloatSize, TypeDescriptor as Type, VarLenAscii, VarLenUnicode,
};
use hdf5::{Attribute, Container, H5Type, Location};
use voltile_base::paint::Number;
use voltile_base::text::joined;

use super::links::Node;

/// The maximum number of values that are read from an attribute or a small dataset; the known
/// layouts need fewer.
pub(super) const MAX_VALUES: usize = 1 << 16;
/// The maximum number of values that are read from a table, which may have one for each slice.
pub(super) const MAX_IN_TABLE: usize = 1 << 24;

/// Arrays of more values are not shown to people.
const MAX_SHOWN: usize = 64;
/// Longer texts are shown to people up to this number of characters.
const MAX_TEXT: usize = 2000;

/// The attributes of one object.
#[derive(Debug, Default)]
pub struct Attributes {
    /// `None` if the object cannot be opened.
    location: Option<Location>,
    /// The names, listed once because looking up a missing one is expensive; `None` if they cannot
    /// be listed.
    names: Option<Vec<String>>,
}

impl Attributes {
    pub(super) fn from_node(node: &Node) -> Self {
        match node {
            Node::Group(group) => Self::from_location((**group).clone()),
            Node::Dataset(dataset) => Self::from_location((***dataset).clone()),
        }
    }

    pub(super) fn from_location(location: Location) -> Self {
        Self {
            names: location.attr_names().ok(),
            location: Some(location),
        }
    }

    /// Whether the object has an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        match &self.names {
            Some(names) => names.iter().any(|known| known == name),
            None => self.attribute(name).is_some(),
        }
    }

    /// The attribute as one string; arrays (of single characters, for example) are joined.
    pub fn text(&self, name: &str) -> Option<String> {
        self.texts(name).map(|texts| texts.concat())
    }

    /// The attribute's strings, of fixed or variable length. Strings that are not UTF-8 are taken
    /// for Windows-1252.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        texts(&*self.attribute(name)?)
    }

    /// The attribute's numbers, of any integer or float type, or of an enumeration.
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        numbers(&*self.attribute(name)?, MAX_VALUES)
    }

    /// The first of the attribute's numbers.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers(name)?.first().copied()
    }

    /// The attribute's numbers, integers without rounding.
    pub fn exact_numbers(&self, name: &str) -> Option<Vec<Number>> {
        let values = self.attribute(name)?;
        if values.size() > MAX_VALUES {
            return None;
        }
        match descriptor(&values)? {
            Type::Integer(_) => Some(whole(values.read_raw::<i64>().ok()?)),
            Type::Unsigned(_) => Some(whole(values.read_raw::<u64>().ok()?)),
            _ => {
                let numbers = numbers(&values, MAX_VALUES)?;
                Some(numbers.into_iter().map(Number::Real).collect())
            }
        }
    }

    /// The attribute as a truth value: an HDF5 boolean (an enumeration of FALSE and TRUE), or a
    /// number.
    pub fn flag(&self, name: &str) -> Option<bool> {
        let values = self.attribute(name)?;
        match descriptor(&values)? {
            Type::Boolean => values.read_raw::<bool>().ok()?.first().copied(),
            _ => self.number(name).map(|number| number != 0.0),
        }
    }

    /// The first `most` attributes as text for people, by name.
    pub fn in_words(&self, most: usize) -> BTreeMap<String, String> {
        let mut words = BTreeMap::new();
        for name in self.names.iter().flatten().take(most) {
            let Some(mut text) = self.words(name) else {
                continue;
            };
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
                text.truncate(end);
                text.push('…');
            }
            words.insert(name.clone(), text);
        }
        words
    }

    fn words(&self, name: &str) -> Option<String> {
        let values = self.attribute(name)?;
        // Imaris writes texts as arrays of characters.
        if descriptor(&values) == Some(Type::FixedAscii(1)) {
            return self.text(name);
        }
        if values.size() > MAX_SHOWN {
            return Some(format!("{} values", values.size()));
        }
        let numbers = self.exact_numbers(name).map(|numbers| joined(&numbers));
        let words = numbers
            .or_else(|| self.texts(name).map(|texts| joined(&texts)))
            .or_else(|| self.flag(name).map(|flag| flag.to_string()));
        Some(words.unwrap_or_else(|| "a value of another type".to_owned()))
    }

    fn attribute(&self, name: &str) -> Option<Attribute> {
        if self.names.is_some() && !self.has(name) {
            return None;
        }
        self.location.as_ref()?.attr(name).ok()
    }
}

fn whole<T: Into<i128>>(numbers: Vec<T>) -> Vec<Number> {
    numbers
        .into_iter()
        .map(|number| Number::Whole(number.into()))
        .collect()
}

/// The type of the values of an attribute or dataset; `None` if the `hdf5` crate lacks it.
fn descriptor(values: &Container) -> Option<Type> {
    values.dtype().ok()?.to_descriptor().ok()
}

/// The strings of an attribute or dataset; `None` if it has another type or is too long.
pub(super) fn texts(values: &Container) -> Option<Vec<String>> {
    if values.size() > MAX_VALUES {
        return None;
    }
    // The length of a fixed-length string is a compile-time parameter, so strings are read into the
    // next longer one of four types. Long strings take much memory: only few are read at once.
    let size = values.size();
    match descriptor(values)? {
        Type::VarLenUnicode => texts_of::<VarLenUnicode>(values),
        Type::VarLenAscii => texts_of::<VarLenAscii>(values),
        Type::FixedAscii(1) => texts_of::<FixedAscii<1>>(values),
        Type::FixedAscii(2..=64) => texts_of::<FixedAscii<64>>(values),
        Type::FixedAscii(65..=4096) if size <= 256 => texts_of::<FixedAscii<4096>>(values),
        Type::FixedAscii(4097..=65536) if size == 1 => texts_of::<FixedAscii<65536>>(values),
        Type::FixedUnicode(1) => texts_of::<FixedUnicode<1>>(values),
        Type::FixedUnicode(2..=64) => texts_of::<FixedUnicode<64>>(values),
        Type::FixedUnicode(65..=4096) if size <= 256 => texts_of::<FixedUnicode<4096>>(values),
        Type::FixedUnicode(4097..=65536) if size == 1 => texts_of::<FixedUnicode<65536>>(values),
        _ => None,
    }
}

/// Reads strings, each of which ends at the first zero byte.
fn texts_of<T: H5Type + AsRef<[u8]>>(values: &Container) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    for string in &values.read_raw::<T>().ok()? {
        let text = string.as_ref().split(|byte| *byte == 0).next();
        texts.push(legible(text.unwrap_or_default()));
    }
    Some(texts)
}

/// The numbers of an attribute or dataset, also of an enumeration; `None` if it has another type or
/// more than `most` values.
pub(super) fn numbers(values: &Container, most: usize) -> Option<Vec<f64>> {
    if values.size() > most {
        return None;
    }
    match descriptor(values)? {
        Type::Float(FloatSize::U4 | FloatSize::U8)
        | Type::Integer(_)
        | Type::Unsigned(_)
        | Type::Enum(_) => values.read_raw::<f64>().ok(),
        _ => None,
    }
}

/// The characters of the bytes from 0x80 to 0x9f in Windows-1252. Any other byte is the number of
/// its character in Unicode.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Text in UTF-8, or else in Windows-1252, a superset of Latin-1.
pub(super) fn legible(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let latin = bytes.iter().map(|byte| match byte {
        0x80..0xa0 => WINDOWS[usize::from(byte - 0x80)],
        _ => char::from(*byte),
    });
    latin.collect()
}
