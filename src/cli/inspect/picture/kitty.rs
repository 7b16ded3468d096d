//! The Kitty graphics protocol: a PNG in base64, in pieces of at most 4096 characters.
//!
//! Source: <https://sw.kovidgoyal.net/kitty/graphics-protocol/>.

use std::fmt::Write;

use base64::prelude::{BASE64_STANDARD, Engine};

/// The maximum number of characters of data in one escape sequence.
const PIECE: usize = 4096;

/// Displays a PNG at the cursor, unscaled: transmit and display (`a=T`) a PNG (`f=100`) without an answer (`q=2`); another
/// piece follows if `m=1`.
pub(super) fn encoded(png: &[u8]) -> String {
    let pieces: Vec<String> = png.chunks(PIECE / 4 * 3).map(|bytes| BASE64_STANDARD.encode(bytes)).collect();
    let mut out = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        let keys = if number == 0 { "a=T,f=100,q=2," } else { "" };
        let more = u8::from(number + 1 < pieces.len());
        // Writing to a string cannot fail.
        let _ = write!(out, "\x1b_G{keys}m={more};{piece}\x1b\\");
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_picture_is_sent_in_pieces() {
        assert_eq!(encoded(b"abc"), "\x1b_Ga=T,f=100,q=2,m=0;YWJj\x1b\\\n");
        let sent = encoded(&[0; 3073]);
        let pieces: Vec<&str> = sent.trim_end().split_inclusive("\x1b\\").collect();
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[0], format!("\x1b_Ga=T,f=100,q=2,m=1;{}\x1b\\", "A".repeat(PIECE)));
        assert_eq!(pieces[1], "\x1b_Gm=0;AA==\x1b\\");
    }
}
