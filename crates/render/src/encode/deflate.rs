//! A zlib stream for filtered micrographs: Huffman codes for all bytes, and matches only for runs
//! of zeros.
//!
//! Match search takes most of an encoder's time and finds nothing in sensor noise. Filtered flat
//! areas are zeros, which are found eight at a time. The output is one dynamic block (RFC 1951,
//! section 3.2.7) in a zlib stream (RFC 1950): a first pass counts bytes and a second one writes
//! their codes, both in pairs.

use libdeflater::adler32;

use super::bits::{Bits, Writer};
use super::huffman;
use super::pairs::Pairs;

/// The symbols for literals, the end of the block, and lengths.
const SYMBOLS: usize = 286;
const END_OF_BLOCK: usize = 256;
/// The order in which a block lists the lengths of its code length codes (RFC 1951, section 3.2.7).
const LENGTH_ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];
/// Four codes of at most 14 bits and up to 7 pending bits fit 64 bits.
const LONGEST_CODE: usize = 14;
/// Codes of code lengths have at most 7 bits.
const LONGEST_LENGTH_CODE: usize = 7;
const SHORTEST_MATCH: usize = 3;
const LONGEST_MATCH: usize = 258;
/// The code of the only distance, 1.
const DISTANCE: Bits = Bits::new(0, 1);
/// The size of the checksum at the end of a stream.
const CHECKSUM: usize = 4;
/// The number of bytes by which the output must be longer than the stream, which is written 8 bytes
/// at a time.
pub(super) const SLACK: usize = 8;

/// A stream that has been planned, so that its length is known before it is written.
pub(super) struct Stream<'a> {
    bytes: &'a [u8],
    codes: Codes<'a>,
    header: Vec<Bits>,
    length: usize,
}

impl<'a> Stream<'a> {
    /// Counts the bytes in one pass and derives codes. Overwrites `pairs`.
    pub fn new(bytes: &'a [u8], pairs: &'a mut Pairs) -> Self {
        let counts = Counts::count(bytes, pairs).total();
        let lengths = huffman::lengths(&counts, LONGEST_CODE);
        let header = header(&lengths);
        let header_bits: u64 = header.iter().map(|bits| u64::from(bits.count)).sum();
        let body_bits = body_bits(&counts, &lengths);
        let length = (header_bits + body_bits).div_ceil(8) as usize + CHECKSUM;
        Self {
            bytes,
            codes: Codes::from_lengths(&lengths, pairs),
            header,
            length,
        }
    }

    /// The length of the stream in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Writes the stream to the front of `out`, which has room for [`SLACK`] bytes more.
    pub fn write(&self, out: &mut [u8]) {
        let mut coder = Coder {
            writer: Writer::new(out),
            codes: &self.codes,
        };
        self.header.iter().for_each(|bits| coder.writer.bits(*bits));
        walk(self.bytes, &mut coder);
        let Coder { mut writer, codes } = coder;
        writer.bits(codes.single[END_OF_BLOCK]);
        writer.align();
        // The checksum is the only number with the highest byte first.
        writer.bits(Bits::new(adler32(self.bytes).swap_bytes().into(), 32));
    }
}

/// Receives the bytes, cut into words and runs.
trait Sink {
    /// Words of eight bytes, none of them zero.
    fn words(&mut self, words: &[[u8; 8]]);
    /// A byte of 0, then a match of `more` zeros.
    fn zeros(&mut self, more: usize);
    /// A single byte.
    fn byte(&mut self, byte: u8);
}

/// Cuts bytes into words and runs of zeros.
fn walk(bytes: &[u8], sink: &mut impl Sink) {
    let (mut words, rest) = bytes.as_chunks::<8>();
    while !words.is_empty() {
        let (plain, from_zeros) = words.split_at(leading(words, |word| word != 0));
        sink.words(plain);
        let run = leading(from_zeros, |word| word == 0);
        zeros(8 * run, sink);
        words = &from_zeros[run..];
    }
    rest.iter().for_each(|byte| sink.byte(*byte));
}

/// The number of leading words for which `holds` is true.
fn leading(words: &[[u8; 8]], holds: impl Fn(u64) -> bool) -> usize {
    const BLOCK: usize = 16;
    let word_holds = |word: &[u8; 8]| holds(u64::from_ne_bytes(*word));
    let one_by_one = |words: &[[u8; 8]]| {
        words
            .iter()
            .position(|word| !word_holds(word))
            .unwrap_or(words.len())
    };
    let near = one_by_one(&words[..words.len().min(BLOCK)]);
    if near < BLOCK {
        return near;
    }
    // Long prefixes are searched in blocks, which vectorise.
    let (blocks, _) = words.as_chunks::<BLOCK>();
    let holding = blocks
        .iter()
        .take_while(|block| block.iter().fold(true, |all, word| all & word_holds(word)));
    let in_blocks = BLOCK * holding.count();
    in_blocks + one_by_one(&words[in_blocks..])
}

/// Passes on a run of zeros as bytes of 0, each followed by a match of three or more zeros. If at
/// most three zeros are left, they are single bytes.
fn zeros(mut run: usize, sink: &mut impl Sink) {
    while run > SHORTEST_MATCH {
        let more = (run - 1).min(LONGEST_MATCH);
        sink.zeros(more);
        run -= more + 1;
    }
    (0..run).for_each(|_| sink.byte(0));
}

/// The symbol of a match length, and its extra bits (RFC 1951, section 3.2.5): 265 with one extra
/// bit, 1, for a length of 12. From 265 on, every four symbols have one bit more than the
/// four before.
fn length_symbol(length: usize) -> (usize, Bits) {
    if length == LONGEST_MATCH {
        return (285, Bits::default());
    }
    let above = length.saturating_sub(SHORTEST_MATCH);
    let count = above.checked_ilog2().unwrap_or(0).saturating_sub(2);
    let symbol = 257 + 4 * count as usize + (above >> count);
    let extra = above & ((1 << count) - 1);
    (symbol, Bits::new(extra as u64, count))
}

/// The number of extra bits that follow a symbol: 1 for symbols 265 to 268, 2 for the next four.
fn extra_bits(symbol: usize) -> u32 {
    match symbol {
        265..285 => (symbol as u32 - 261) / 4,
        _ => 0,
    }
}

/// The numbers of bytes and matches.
struct Counts<'a> {
    pairs: &'a mut Pairs,
    /// Bytes outside pairs.
    bytes: [u32; 256],
    /// Matches by length.
    matches: [u32; LONGEST_MATCH + 1],
}

impl<'a> Counts<'a> {
    fn count(bytes: &[u8], pairs: &'a mut Pairs) -> Self {
        pairs.clear();
        let mut counts = Self {
            pairs,
            bytes: [0; 256],
            matches: [0; LONGEST_MATCH + 1],
        };
        walk(bytes, &mut counts);
        counts
    }

    /// The number of occurrences of each symbol of a block.
    fn total(&self) -> [u32; SYMBOLS] {
        let mut all = [0; SYMBOLS];
        all[..256].copy_from_slice(&self.pairs.totals());
        all.iter_mut()
            .zip(&self.bytes)
            .for_each(|(sum, count)| *sum += count);
        for (length, count) in self.matches.iter().enumerate().skip(SHORTEST_MATCH) {
            all[length_symbol(length).0] += count;
        }
        all[END_OF_BLOCK] = 1;
        all
    }
}

impl Sink for Counts<'_> {
    fn words(&mut self, words: &[[u8; 8]]) {
        self.pairs.count(words);
    }

    fn zeros(&mut self, more: usize) {
        self.bytes[0] += 1;
        self.matches[more] += 1;
    }

    fn byte(&mut self, byte: u8) {
        self.bytes[usize::from(byte)] += 1;
    }
}

/// The total length of the codes of these symbols in bits, including extra bits and distances.
fn body_bits(counts: &[u32; SYMBOLS], lengths: &[u8]) -> u64 {
    let mut total = 0;
    for (symbol, (count, length)) in counts.iter().zip(lengths).enumerate() {
        let mut bits = u32::from(*length);
        if symbol > END_OF_BLOCK {
            bits += extra_bits(symbol) + DISTANCE.count;
        }
        total += u64::from(*count) * u64::from(bits);
    }
    total
}

/// The codes of a stream.
struct Codes<'a> {
    pairs: &'a Pairs,
    /// The code of each symbol.
    single: Vec<Bits>,
    /// The codes of a byte of 0 and a match, for each length of the match; those of the lengths 0
    /// to 2 are not used.
    runs: Vec<Bits>,
}

impl<'a> Codes<'a> {
    fn from_lengths(lengths: &[u8], pairs: &'a mut Pairs) -> Self {
        let single = huffman::codes(lengths);
        if let Some(bytes) = single.first_chunk() {
            pairs.code(bytes);
        }
        let runs = (0..=LONGEST_MATCH).map(|length| {
            let (symbol, extra) = length_symbol(length);
            single[0].then(single[symbol]).then(extra).then(DISTANCE)
        });
        let runs = runs.collect();
        Self {
            pairs,
            single,
            runs,
        }
    }
}

/// Writes the codes of bytes.
struct Coder<'a> {
    writer: Writer<'a>,
    codes: &'a Codes<'a>,
}

impl Sink for Coder<'_> {
    fn words(&mut self, words: &[[u8; 8]]) {
        self.writer.words(words, self.codes.pairs);
    }

    fn zeros(&mut self, more: usize) {
        self.writer.bits(self.codes.runs[more]);
    }

    fn byte(&mut self, byte: u8) {
        self.writer.bits(self.codes.single[usize::from(byte)]);
    }
}

/// The header of a stream and of its only block, with dynamic codes, given by their lengths.
fn header(lengths: &[u8]) -> Vec<Bits> {
    // A block lists the lengths of at least 257 codes, and of at least 4 code length codes.
    let used = lengths
        .iter()
        .rposition(|length| *length > 0)
        .map_or(0, |last| last + 1)
        .max(257);
    // One distance: 1, whose code has one bit.
    let words = run_lengths(&[&lengths[..used], &[1]].concat());
    let mut counts = [0u32; 19];
    words.iter().for_each(|word| counts[word.symbol] += 1);
    let length_lengths = huffman::lengths(&counts, LONGEST_LENGTH_CODE);
    let codes = huffman::codes(&length_lengths);
    let listed = LENGTH_ORDER
        .iter()
        .rposition(|symbol| length_lengths[*symbol] > 0)
        .map_or(4, |last| last + 1)
        .max(4);
    let mut header = vec![
        // Deflate with a window of 32 KiB. The second byte makes the header a multiple of 31.
        Bits::new(0x78, 8),
        Bits::new(0x01, 8),
        // The last block, with dynamic codes.
        Bits::new(1, 1),
        Bits::new(2, 2),
        // The numbers of codes: for literals and lengths, for distances, for code lengths.
        Bits::new(used as u64 - 257, 5),
        Bits::new(0, 5),
        Bits::new(listed as u64 - 4, 4),
    ];
    for symbol in &LENGTH_ORDER[..listed] {
        header.push(Bits::new(length_lengths[*symbol].into(), 3));
    }
    for word in words {
        header.extend([codes[word.symbol], word.extra]);
    }
    header
}

/// A code length or a repetition, as encoded in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LengthWord {
    symbol: usize,
    /// The bits after the symbol's code.
    extra: Bits,
}

impl LengthWord {
    fn new(symbol: usize, extra: usize, count: u32) -> Self {
        Self {
            symbol,
            extra: Bits::new(extra as u64, count),
        }
    }
}

/// Run-length encodes code lengths: 16 repeats the last length 3 to 6 times, 17 repeats 0 3 to 10
/// times, 18 repeats it 11 to 138 times. The lengths 5 5 5 5 are the words 5 and 16, whose extra
/// bits say three repetitions.
fn run_lengths(lengths: &[u8]) -> Vec<LengthWord> {
    let mut words = Vec::with_capacity(lengths.len());
    for group in lengths.chunk_by(|a, b| a == b) {
        let value = usize::from(group[0]);
        let mut left = group.len();
        if value != 0 {
            words.push(LengthWord::new(value, 0, 0));
            left -= 1;
        }
        while left >= 3 {
            let (taken, repeat) = match (value, left) {
                (0, 11..) => (left.min(138), LengthWord::new(18, left.min(138) - 11, 7)),
                (0, _) => (left, LengthWord::new(17, left - 3, 3)),
                _ => (left.min(6), LengthWord::new(16, left.min(6) - 3, 2)),
            };
            words.push(repeat);
            left -= taken;
        }
        words.extend(std::iter::repeat_n(LengthWord::new(value, 0, 0), left));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks with two independent decoders: libdeflate and miniz.
    fn comes_back(bytes: &[u8]) {
        comes_back_by(bytes, &mut Pairs::default());
    }

    fn comes_back_by(bytes: &[u8], pairs: &mut Pairs) {
        let known = Stream::new(bytes, pairs);
        let mut stream = vec![0xAA; known.len() + SLACK];
        known.write(&mut stream);
        let stream = &stream[..known.len()];
        let mut out = vec![0; bytes.len()];
        let length = libdeflater::Decompressor::new()
            .zlib_decompress(stream, &mut out)
            .unwrap();
        assert!(
            length == bytes.len() && out == bytes,
            "libdeflate reads something else"
        );
        // The length must match exactly: both decoders read to the last byte of the checksum.
        assert!(
            libdeflater::Decompressor::new()
                .zlib_decompress(&stream[..stream.len() - 1], &mut out)
                .is_err()
        );
        let miniz = miniz_oxide::inflate::decompress_to_vec_zlib(stream).unwrap();
        assert!(miniz == bytes, "miniz reads something else");
    }

    #[test]
    fn short_flat_and_rare_streams_come_back() {
        comes_back(&[]);
        comes_back(&[7]);
        for length in [
            1, 7, 8, 9, 15, 16, 17, 258, 259, 260, 261, 264, 265, 517, 518, 519, 520, 5000,
        ] {
            comes_back(&vec![0; length]);
            comes_back(&vec![9; length]);
            let mut ending = vec![0; length];
            ending.push(1);
            comes_back(&ending);
        }
        let skewed = (0..24u8)
            .flat_map(|i| std::iter::repeat_n(i, 1 << i.min(17)))
            .collect::<Vec<u8>>();
        comes_back(&skewed);
    }

    #[test]
    fn eight_codes_that_do_not_fit_a_word_come_back() {
        // The rarest come together and have codes of 14 bits.
        let often = (0..14u8).flat_map(|i| std::iter::repeat_n(i, 1 << (i + 2)));
        let bytes: Vec<u8> = (100..=255).chain(often).chain((100..=255).rev()).collect();
        let mut pairs = Pairs::default();
        assert!(Stream::new(&bytes, &mut pairs).codes.single[100].count == LONGEST_CODE as u32);
        (0..16).for_each(|from| comes_back_by(&bytes[from..], &mut pairs));
    }

    #[test]
    fn all_lengths_have_the_symbols_of_the_standard() {
        assert_eq!(length_symbol(3), (257, Bits::new(0, 0)));
        assert_eq!(length_symbol(10), (264, Bits::new(0, 0)));
        assert_eq!(length_symbol(11), (265, Bits::new(0, 1)));
        assert_eq!(length_symbol(12), (265, Bits::new(1, 1)));
        assert_eq!(length_symbol(130), (280, Bits::new(15, 4)));
        assert_eq!(length_symbol(257), (284, Bits::new(30, 5)));
        assert_eq!(length_symbol(258), (285, Bits::new(0, 0)));
        assert!(
            (3..=258)
                .map(length_symbol)
                .all(|(symbol, extra)| extra_bits(symbol) == extra.count)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn any_stream_comes_back(
            pieces in prop::collection::vec(
                prop_oneof![
                    (1..700usize).prop_map(|n| vec![0; n]),
                    prop::collection::vec(any::<u8>(), 1..300),
                    prop::collection::vec(0..4u8, 1..300),
                ],
                0..20,
            ),
        ) {
            let mut pairs = Pairs::default();
            comes_back_by(&pieces.concat(), &mut pairs);
            // Stale tables make no difference.
            comes_back_by(&pieces.concat()[pieces.first().map_or(0, Vec::len)..], &mut pairs);
        }
    }
}
