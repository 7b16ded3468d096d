//! The axes of a stored dataset: any of t, c, z, y and x, each at most once, in storage order.

use std::fmt;

use serde::Deserialize;

/// One axis of a stored dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AxisName {
    /// Time points.
    T,
    /// Channels, or colour components.
    C,
    /// Sections.
    Z,
    /// Rows of a section.
    Y,
    /// Columns of a section.
    X,
}

impl AxisName {
    /// Every axis.
    pub const ALL: [AxisName; 5] = [
        AxisName::T,
        AxisName::C,
        AxisName::Z,
        AxisName::Y,
        AxisName::X,
    ];

    /// The letter, lower case.
    pub fn letter(self) -> char {
        match self {
            AxisName::T => 't',
            AxisName::C => 'c',
            AxisName::Z => 'z',
            AxisName::Y => 'y',
            AxisName::X => 'x',
        }
    }

    /// The axis for a lower-case letter.
    pub fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|axis| axis.letter() == letter)
    }
}

impl fmt::Display for AxisName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// The axes of a dataset, slowest first; 2 to 5 of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Axes(Vec<AxisName>);

impl TryFrom<String> for Axes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl Axes {
    /// Parses axis letters, slowest first.
    ///
    /// # Errors
    /// The text is not a list of axes; the error says what is expected.
    pub fn new(text: &str) -> Result<Self, String> {
        let axes: Option<Vec<AxisName>> = text.chars().map(AxisName::from_letter).collect();
        let axes = axes.unwrap_or_default();
        let are_distinct = axes
            .iter()
            .enumerate()
            .all(|(i, axis)| !axes[..i].contains(axis));
        if are_distinct && (2..=5).contains(&axes.len()) {
            return Ok(Axes(axes));
        }
        Err(format!(
            "{text:?} does not name axes: two to five different letters of t, c, z, y and x are expected, such as \"zyx\""
        ))
    }

    /// Axes known at compile time; they must be distinct.
    pub fn from_known<const N: usize>(axes: [AxisName; N]) -> Self {
        const { assert!(N >= 2 && N <= 5) };
        Axes(axes.to_vec())
    }

    /// The number of axes: the rank of the dataset.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The position of the axis, 0 for the slowest.
    pub fn position(&self, axis: AxisName) -> Option<usize> {
        self.0.iter().position(|a| *a == axis)
    }

    /// The axes in order, slowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = AxisName> + '_ {
        self.0.iter().copied()
    }

    /// The axes with the names of two of them exchanged.
    pub fn exchanged(&self, first: AxisName, second: AxisName) -> Self {
        let exchanged = self.iter().map(|axis| match axis {
            _ if axis == first => second,
            _ if axis == second => first,
            _ => axis,
        });
        Axes(exchanged.collect())
    }

    /// The fastest axis.
    pub fn last(&self) -> Option<AxisName> {
        self.0.last().copied()
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|axis| write!(f, "{axis}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_checked() {
        let axes = Axes::new("xyzct").unwrap();
        assert_eq!(
            (axes.rank(), axes.position(AxisName::Z), axes.to_string()),
            (5, Some(2), "xyzct".into())
        );
        for wrong in ["", "x", "zyxx", "zyw", "ZYX", "tczyxt"] {
            assert!(Axes::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
