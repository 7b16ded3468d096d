//! Names of datasets (tokens), channels and mounts, which have only characters that a URL path
//! allows; and patterns that select names.

use std::cmp::Ordering;
use std::fmt;

use serde::Deserialize;
use wildmatch::WildMatch;

/// A non-empty name of ASCII letters, digits, `_`, `-` and `.`. Numbers in names are ordered by
/// their value: `c2` comes before `c10`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a name: names have one or more letters, digits, '_', '-' or '.'")]
pub struct NotAName {
    /// The text as given.
    pub text: String,
}

impl Name {
    /// The text as a name, if it is one.
    pub fn new(text: &str) -> Result<Self, NotAName> {
        let is_name = !text.is_empty() && text.bytes().all(is_name_byte);
        if is_name {
            Ok(Name(text.to_owned()))
        } else {
            Err(NotAName {
                text: text.to_owned(),
            })
        }
    }

    /// The text with `_` in place of each character that a name cannot have; `_` if it is empty.
    pub fn nearest(text: &str) -> Self {
        if text.is_empty() {
            return Name("_".to_owned());
        }
        Name(text.chars().map(name_character).collect())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Compares texts as people sort them. Numbers in them are compared by their value, so `_2` comes
/// before `_10`. Texts that differ only in leading zeros are not equal.
pub fn natural(a: &str, b: &str) -> Ordering {
    // Every successful lookup in a map compares two equal names, and comparing by numbers is slow.
    if a == b {
        return Ordering::Equal;
    }
    alphanumeric_sort::compare_str(a, b).then_with(|| a.cmp(b))
}

/// The character, or `_` if a name cannot have it.
fn name_character(character: char) -> char {
    let is_allowed = character.is_ascii() && is_name_byte(character as u8);
    if is_allowed { character } else { '_' }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        natural(&self.0, &other.0)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pattern that names match or not: `*` stands for any characters, also none, and `?` for one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    text: String,
    matcher: WildMatch,
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl Pattern {
    /// The text as a pattern.
    ///
    /// # Errors
    /// No name can match it; the error says what is expected.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut bytes = text.bytes();
        if text.is_empty() || !bytes.all(|byte| is_name_byte(byte) || is_wildcard(byte)) {
            return Err(format!(
                "{text:?} matches no name: letters, digits, '_', '-' and '.' are expected, and '*' or '?' as wildcards"
            ));
        }
        Ok(Self {
            text: text.to_owned(),
            matcher: WildMatch::new(text),
        })
    }

    /// The pattern that every name matches.
    pub fn any() -> Self {
        Self {
            text: "*".to_owned(),
            matcher: WildMatch::new("*"),
        }
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a name matches the pattern.
    pub fn matches(&self, name: &Name) -> bool {
        self.matcher.matches(name.as_str())
    }

    /// The only name that matches; `None` if the pattern has wildcards.
    pub fn literal(&self) -> Option<&str> {
        (!self.text.bytes().any(is_wildcard)).then_some(&self.text)
    }
}

fn is_wildcard(byte: u8) -> bool {
    matches!(byte, b'*' | b'?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        let matches = |pattern, name| Pattern::new(pattern).unwrap().matches(&Name::nearest(name));
        assert!(
            matches("raw-*", "raw-1")
                && matches("*", "a")
                && matches("a?c", "abc")
                && matches("a.b", "a.b")
        );
        assert!(
            !matches("raw-*", "Raw-1")
                && !matches("a", "ab")
                && !matches("a.b", "axb")
                && !matches("a?c", "ac")
        );
        assert!(
            Pattern::new("").is_err() && Pattern::new("a b").is_err() && Pattern::new("ä").is_err()
        );
        assert_eq!(Pattern::new("a*").unwrap().literal(), None);
        assert_eq!(Pattern::new("a.b").unwrap().literal(), Some("a.b"));
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(
            Name::new("kasthuri11.v2-a_b").unwrap().as_str(),
            "kasthuri11.v2-a_b"
        );
        for wrong in ["", "a b", "a/b", "a:b", "ä", "a%20"] {
            assert!(Name::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn numbers_in_names_are_ordered_by_value() {
        let mut names = ["c10", "c2", "a", "c02", "c1_b", "c1"].map(Name::nearest);
        names.sort();
        assert_eq!(
            names.each_ref().map(Name::as_str),
            ["a", "c1", "c1_b", "c2", "c02", "c10"]
        );
    }

    #[test]
    fn numbers_in_paths_are_compared_by_value() {
        let mut names = [
            "/a/10/x",
            "/a/9/x",
            "/a/b",
            "/a/1/x",
            "/a/09/x",
            "/a",
            "/a/100000000000000000000000/x",
        ];
        names.sort_by(|a, b| natural(a, b));
        let sorted = [
            "/a",
            "/a/1/x",
            "/a/9/x",
            "/a/09/x",
            "/a/10/x",
            "/a/100000000000000000000000/x",
            "/a/b",
        ];
        assert_eq!(names, sorted);
    }

    #[test]
    fn any_text_has_a_nearest_name() {
        assert_eq!(
            Name::nearest("my volume (1).v2").as_str(),
            "my_volume__1_.v2"
        );
        assert_eq!(Name::nearest("größe").as_str(), "gr__e");
        assert_eq!(Name::nearest("").as_str(), "_");
    }
}
