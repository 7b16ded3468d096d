//! The entropy of bytes, from the count of each value.

/// The approximate size of the bytes in bits once they are entropy-coded, as if code lengths could
/// be fractional. Words of eight zeros are not counted, since most of them become matches; neither
/// are the last bytes if they do not fill a word.
pub(super) fn entropy(bytes: &[u8]) -> f32 {
    // Four tables: in a single one, each byte of a run would wait for the increment before it.
    let mut tables = [[0u32; 256]; 4];
    let [one, two, three, four] = &mut tables;
    let (words, _) = bytes.as_chunks::<8>();
    for word in words.iter().filter(|word| **word != [0; 8]) {
        let [a, b, c, d, e, f, g, h] = word.map(usize::from);
        one[a] += 1;
        two[b] += 1;
        three[c] += 1;
        four[d] += 1;
        one[e] += 1;
        two[f] += 1;
        three[g] += 1;
        four[h] += 1;
    }
    let counts: [u32; 256] =
        std::array::from_fn(|byte| one[byte] + two[byte] + three[byte] + four[byte]);
    let all: u32 = counts.iter().sum();
    // The sum of n · log2(all / n) over all counts n.
    n_log2_n(all) - counts.iter().map(|count| n_log2_n(*count)).sum::<f32>()
}

/// A number times its binary logarithm; 0 for 0 and for 1.
fn n_log2_n(count: u32) -> f32 {
    if count > 1 {
        count as f32 * (count as f32).log2()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_best_codes_without_words_of_zeros() {
        assert_eq!(entropy(&[]), 0.0);
        assert_eq!(entropy(&[7; 64]), 0.0);
        assert_eq!(entropy(&[0; 64]), 0.0);
        assert_eq!(entropy(&[[0; 8], [1, 2, 3, 4, 5, 6, 7, 8]].concat()), 24.0);
        assert_eq!(entropy(&[1, 0, 2, 0, 3, 0, 4, 0]), 4.0 + 4.0 * 3.0);
    }
}
