//! The words of a name.

/// The words of a name, in lower case: runs of letters, each begun by a capital after a small
/// letter, as in `FeatureIds`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_small = false;
    for letter in name.chars() {
        let begins = !letter.is_ascii_alphabetic() || (is_small && letter.is_ascii_uppercase());
        if begins {
            words.push(String::new());
        }
        is_small = letter.is_ascii_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphabetic()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether one of these words is a known one.
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
