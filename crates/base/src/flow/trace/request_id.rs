//! The id of a request: from a header of the proxy in front, or generated.

use bytes::Bytes;

/// The maximum number of characters accepted from a header.
const MAX_LENGTH: usize = 128;

/// The id of a request: visible ASCII, so that it can be a header's value and be written to a log.
/// It is cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Bytes);

impl RequestId {
    /// The value of `X-Request-Id`; `None` unless it is visible ASCII, of 128 characters at most.
    pub fn given(value: &[u8]) -> Option<Self> {
        let is_sound =
            (1..=MAX_LENGTH).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
        is_sound.then(|| Self(Bytes::copy_from_slice(value)))
    }

    /// The trace id in the value of `traceparent`: `VERSION-TRACE-PARENT-FLAGS`, in hexadecimal
    /// (W3C Trace Context, section 3.2). `None` if the value is malformed.
    pub fn traced(value: &[u8]) -> Option<Self> {
        let mut fields = value.split(|byte| *byte == b'-');
        let version = fields.next()?;
        let trace = fields.next()?;
        let parent = fields.next()?;
        let flags = fields.next()?;
        let is_sound =
            is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
        // Later versions may have more fields. Ids of zeros are invalid.
        let is_known = version != b"ff" && (version != b"00" || fields.next().is_none());
        let has_zero_id = [trace, parent]
            .iter()
            .any(|id| id.iter().all(|digit| *digit == b'0'));
        (is_sound && is_known && !has_zero_id).then(|| Self(Bytes::copy_from_slice(trace)))
    }

    /// A random id, of 16 hexadecimal digits.
    pub fn random() -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = fastrand::u64(..);
        let digits: [u8; 16] = std::array::from_fn(|at| DIGITS[(number >> (4 * at)) as usize & 15]);
        Self(Bytes::copy_from_slice(&digits))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The bytes, without a copy.
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

fn is_hex(field: &[u8], digits: usize) -> bool {
    field.len() == digits
        && field
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_ids_are_bounded_and_visible() {
        assert_eq!(RequestId::given(b"a-1/Z\"").unwrap().as_str(), "a-1/Z\"");
        assert!(RequestId::given(&[b'x'; MAX_LENGTH]).is_some());
        for wrong in [
            &b""[..],
            b"a b",
            b"a\n",
            b"\x1b[1m",
            "é".as_bytes(),
            &[b'x'; MAX_LENGTH + 1],
        ] {
            assert_eq!(RequestId::given(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_trace_id_is_taken_from_a_well_formed_traceparent() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        let traced =
            |text: String| RequestId::traced(text.as_bytes()).map(|id| id.as_str().to_owned());
        let parent = "00f067aa0ba902b7";
        assert_eq!(
            traced(format!("00-{TRACE}-{parent}-01")),
            Some(TRACE.to_owned())
        );
        assert_eq!(
            traced(format!("cc-{TRACE}-{parent}-01-more")),
            Some(TRACE.to_owned())
        );
        for wrong in [
            format!("00-{TRACE}-{parent}-01-more"),
            format!("ff-{TRACE}-{parent}-01"),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{parent}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{parent}"),
            format!("0-{TRACE}-{parent}-01"),
            String::new(),
        ] {
            assert_eq!(traced(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn random_ids_differ() {
        let (one, other) = (RequestId::random(), RequestId::random());
        assert!(one != other && is_hex(&one.bytes(), 16));
    }
}
