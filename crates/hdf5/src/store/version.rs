//! The version of an object in a store. It changes whenever the object's bytes change.

use serde::{Deserialize, Serialize};

/// The state of an object at one moment: its length, and the tag or time that distinguishes it from
/// other states of the same length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// The object's length in bytes.
    pub length: u64,
    /// The strong entity tag, including its quotes; `None` if there is none or a weak one.
    pub etag: Option<String>,
    /// The time of the last modification, as the store writes it. It is only compared. For a web
    /// server that gives neither a strong tag nor a time, it is a text that only this process uses.
    pub modified: Option<String>,
}

impl Version {
    /// Makes a version. A weak `etag` is dropped, because it does not promise equal bytes.
    pub fn new(length: u64, etag: Option<String>, modified: Option<String>) -> Self {
        Self {
            length,
            etag: etag.filter(|tag| !tag.starts_with("W/")),
            modified,
        }
    }

    /// Whether two answers describe the same state of the object: they have the same length and the
    /// same tag. If either has no tag, their times of modification decide.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let has_same_mark = match (&self.etag, &other.etag) {
            (Some(tag), Some(other_tag)) => tag == other_tag,
            // Only one answer has a tag, so only a time could show that the state is the same.
            (Some(_), None) | (None, Some(_)) if self.modified.is_none() => false,
            _ => self.modified == other.modified,
        };
        has_same_mark && self.length == other.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(length: u64, etag: &str, modified: &str) -> Version {
        let unless_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Version::new(length, unless_empty(etag), unless_empty(modified))
    }

    #[test]
    fn tags_decide_and_times_where_a_tag_is_missing_or_weak() {
        let first = version(9, "\"a\"", "Mon");
        assert!(first.matches(&version(9, "\"a\"", "Tue")));
        assert!(
            !first.matches(&version(9, "\"b\"", "Mon"))
                && !first.matches(&version(8, "\"a\"", "Mon"))
        );
        assert!(first.matches(&version(9, "", "Mon")) && !first.matches(&version(9, "", "Tue")));
        assert!(!version(9, "W/\"a\"", "Mon").matches(&version(9, "W/\"a\"", "Tue")));
        assert!(
            !first.matches(&version(9, "", ""))
                && !version(9, "\"a\"", "").matches(&version(9, "", ""))
        );
        assert!(
            version(9, "", "").matches(&version(9, "", "")),
            "nothing tells them apart but the length"
        );
    }
}
