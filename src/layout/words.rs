//! The words of a name.

/// The words of a name, in lower case: `feature` and `ids` for `FeatureIds_2`. A word is a run of
/// ASCII letters; a capital after a small letter begins the next one.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for letter in name.chars() {
        if !letter.is_ascii_alphabetic() || (after_small && letter.is_ascii_uppercase()) {
            words.push(String::new());
        }
        after_small = letter.is_ascii_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphabetic()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether one of `words` is among `known`.
pub(super) fn has_word(words: &[String], known: &[&str]) -> bool {
    words.iter().any(|word| known.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_other_characters_and_before_capitals() {
        assert_eq!(words("nav_lat2"), ["nav", "lat"]);
        assert_eq!(
            words("PartitioningSchemeIds"),
            ["partitioning", "scheme", "ids"]
        );
        assert_eq!(words("XLONG"), ["xlong"]);
        assert_eq!(words("GT-mask"), ["gt", "mask"]);
    }
}
