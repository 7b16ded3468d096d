//! The version of an object, which changes whenever its bytes do.

use serde::{Deserialize, Serialize};

/// The state of an object: its length, and what tells it from other states of the same length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// The length in bytes.
    pub length: u64,
    /// The strong entity tag, with its quotes.
    pub etag: Option<String>,
    /// The time of the last modification, as the store gives it.
    pub modified: Option<String>,
}

impl Version {
    /// A weak tag does not promise equal bytes, and is left out.
    pub fn new(length: u64, etag: Option<String>, modified: Option<String>) -> Self {
        Self {
            length,
            etag: etag.filter(|tag| !tag.starts_with("W/")),
            modified,
        }
    }

    /// Whether two answers are of one state: their tags are equal; where one lacks a tag, the times
    /// are.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        let same = match (&self.etag, &other.etag) {
            (Some(one), Some(two)) => one == two,
            // A tag that has gone, or come, says nothing; something else must.
            (Some(_), None) | (None, Some(_)) if self.modified.is_none() => false,
            _ => self.modified == other.modified,
        };
        same && self.length == other.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(length: u64, etag: &str, modified: &str) -> Version {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Version::new(length, given(etag), given(modified))
    }

    #[test]
    fn tags_decide_and_times_where_a_tag_is_missing_or_weak() {
        let first = version(9, "\"a\"", "Mon");
        assert!(first.is_of(&version(9, "\"a\"", "Tue")));
        assert!(
            !first.is_of(&version(9, "\"b\"", "Mon")) && !first.is_of(&version(8, "\"a\"", "Mon"))
        );
        assert!(first.is_of(&version(9, "", "Mon")) && !first.is_of(&version(9, "", "Tue")));
        assert!(!version(9, "W/\"a\"", "Mon").is_of(&version(9, "W/\"a\"", "Tue")));
        assert!(
            !first.is_of(&version(9, "", ""))
                && !version(9, "\"a\"", "").is_of(&version(9, "", ""))
        );
        assert!(
            version(9, "", "").is_of(&version(9, "", "")),
            "nothing tells them apart but the length"
        );
    }
}
