//! A zlib stream made for filtered micrographs: Huffman codes for all bytes, and matches for runs of zeros alone.
//!
//! Looking for matches costs most of an encoder's time and finds none in sensor noise. What filters leave of flat
//! areas is zeros, and those are found eight at a time. One dynamic block (RFC 1951, section 3.2.7) in a zlib stream
//! (RFC 1950): bytes are counted in a first walk and written in a second one, eight to a step.

use simd_adler32::adler32;

use super::huffman::{self, Code};

/// The symbols for literals, the end of the block, and lengths.
const SYMBOLS: usize = 286;
const END_OF_BLOCK: usize = 256;
/// Four codes of at most 14 bits, and the 7 bits that may be left over, fit a word of 64.
const LONGEST_CODE: usize = 14;
/// The codes of code lengths have at most 7 bits, and are listed in this order.
const LONGEST_LENGTH_CODE: usize = 7;
const LENGTH_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// The longest match.
const LONGEST_MATCH: usize = 258;
/// The one code of distances, 1, has one bit: 0.
const DISTANCE_BITS: u32 = 1;
/// The bytes of the checksum that ends a stream.
const CHECKSUM: usize = 4;
/// How many bytes more than a stream must be there to write it: it is written in whole words.
pub(super) const SLACK: usize = 8;

/// A stream that is known, but not yet written.
pub(super) struct Stream<'a> {
    bytes: &'a [u8],
    codes: Codes,
    header: Vec<Bits>,
    length: usize,
}

/// Some bits, at most 56, the first one lowest.
#[derive(Debug, Clone, Copy)]
struct Bits {
    bits: u64,
    count: u32,
}

impl<'a> Stream<'a> {
    /// The stream for these bytes, which are walked through once to count them.
    pub fn of(bytes: &'a [u8]) -> Self {
        let counts = Counts::of(bytes);
        let lengths = huffman::lengths(&counts.total(), LONGEST_CODE);
        let header = header(&lengths);
        let told: u64 = header.iter().map(|bits| u64::from(bits.count)).sum();
        let length = (told + counts.bits(&lengths)).div_ceil(8) as usize + CHECKSUM;
        Self { bytes, codes: Codes::of(&lengths), header, length }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Writes it to the front of `out`, which has room for [`SLACK`] bytes more.
    pub fn write(&self, out: &mut [u8]) {
        let mut writer = Writer { out, length: 0, pending: 0, count: 0, codes: &self.codes };
        self.header.iter().for_each(|bits| writer.bits(*bits));
        walk(self.bytes, &mut writer);
        writer.code(END_OF_BLOCK);
        writer.finish(adler32(&self.bytes));
    }
}

/// About how many bits the codes for these bytes take, were their lengths no whole numbers.
pub(super) fn entropy(bytes: &[u8]) -> f32 {
    let counts = Counts::of(bytes).total();
    let logged = |count: u32| count as f32 * (count.max(1) as f32).log2();
    let all: u32 = counts.iter().sum();
    logged(all) - counts.iter().map(|count| logged(*count)).sum::<f32>()
}

/// What takes the bytes, as they are cut into words and runs.
trait Sink {
    /// Words of eight bytes, none of them all 0.
    fn words(&mut self, words: &[[u8; 8]]);
    /// A byte of 0, then a match of that many more.
    fn zeros(&mut self, more: usize);
    /// A byte.
    fn byte(&mut self, byte: u8);
}

/// Cuts bytes into words and runs of zeros.
fn walk(bytes: &[u8], sink: &mut impl Sink) {
    let (mut words, rest) = bytes.as_chunks::<8>();
    let length_of = |words: &[[u8; 8]], zero: bool| {
        words.iter().position(|word| (u64::from_ne_bytes(*word) == 0) != zero).unwrap_or(words.len())
    };
    while !words.is_empty() {
        let (plain, others) = words.split_at(length_of(words, false));
        sink.words(plain);
        let run = length_of(others, true);
        zeros(8 * run, sink);
        words = &others[run..];
    }
    rest.iter().for_each(|byte| sink.byte(*byte));
}

/// A run of at least 8 zeros as matches; what is too short for one goes byte by byte.
fn zeros(mut run: usize, sink: &mut impl Sink) {
    while run > 3 {
        let more = (run - 1).min(LONGEST_MATCH);
        sink.zeros(more);
        run -= more + 1;
    }
    (0..run).for_each(|_| sink.byte(0));
}

/// The symbol of a match's length, and how many extra bits say the rest (RFC 1951, section 3.2.5).
fn length_symbol(length: usize) -> (usize, u64, u32) {
    if length == LONGEST_MATCH {
        return (285, 0, 0);
    }
    let above = length.saturating_sub(3);
    let extra = above.checked_ilog2().unwrap_or(0).saturating_sub(2);
    let symbol = 257 + 4 * extra as usize + (above >> extra);
    (symbol, (above & ((1 << extra) - 1)) as u64, extra)
}

/// How many extra bits follow the symbol of a length.
fn extra_bits(symbol: usize) -> u32 {
    match symbol {
        265..285 => (symbol as u32 - 261) / 4,
        _ => 0,
    }
}

/// How often each symbol occurs. Bytes are counted in four tables, so that equal neighbours need not wait for each
/// other's count.
struct Counts {
    bytes: [[u32; 256]; 4],
    lengths: [u32; SYMBOLS - 256],
}

impl Default for Counts {
    fn default() -> Self {
        Self { bytes: [[0; 256]; 4], lengths: [0; SYMBOLS - 256] }
    }
}

impl Counts {
    fn of(bytes: &[u8]) -> Self {
        let mut counts = Self::default();
        walk(bytes, &mut counts);
        counts
    }

    /// How many bits the codes take, with what follows those of lengths and the end of the block.
    fn bits(&self, lengths: &[u8]) -> u64 {
        let coded = self
            .total()
            .iter()
            .zip(lengths)
            .map(|(n, length)| u64::from(*n) * u64::from(*length))
            .sum::<u64>();
        let extra = |symbol: usize| extra_bits(symbol + 256) + DISTANCE_BITS;
        let following =
            self.lengths.iter().zip(0..).map(|(n, symbol)| u64::from(*n) * u64::from(extra(symbol)));
        coded + following.sum::<u64>()
    }

    fn total(&self) -> [u32; SYMBOLS] {
        let mut all = [0; SYMBOLS];
        for table in &self.bytes {
            all.iter_mut().zip(table).for_each(|(sum, count)| *sum += count);
        }
        all[256..].copy_from_slice(&self.lengths);
        all[END_OF_BLOCK] = 1;
        all
    }
}

impl Sink for Counts {
    fn words(&mut self, words: &[[u8; 8]]) {
        let [one, two, three, four] = &mut self.bytes;
        for word in words {
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
    }

    fn zeros(&mut self, more: usize) {
        self.byte(0);
        self.lengths[length_symbol(more).0 - 256] += 1;
    }

    fn byte(&mut self, byte: u8) {
        self.bytes[0][usize::from(byte)] += 1;
    }
}

/// The codes of all symbols.
struct Codes {
    /// Those of bytes: bits and lengths apart, so that neither has to be cut out of the other.
    bits_of: [u64; 256],
    length_of: [u8; 256],
    others: [Code; SYMBOLS - 256],
}

impl Codes {
    fn of(lengths: &[u8]) -> Self {
        let (mut bits_of, mut length_of) = ([0; 256], [0; 256]);
        let mut others = [Code::default(); SYMBOLS - 256];
        for (symbol, code) in huffman::codes(lengths).into_iter().enumerate() {
            match symbol {
                0..256 => (bits_of[symbol], length_of[symbol]) = (u64::from(code.bits), code.length),
                _ => others[symbol - 256] = code,
            }
        }
        Self { bits_of, length_of, others }
    }

    #[inline]
    fn byte(&self, byte: u8) -> (u64, u32) {
        (self.bits_of[usize::from(byte)], u32::from(self.length_of[usize::from(byte)]))
    }

    /// The codes of four bytes in a row, as one.
    #[inline]
    fn four(&self, bytes: &[u8; 4]) -> (u64, u32) {
        // In pairs, so that no code waits for the length of more than one other.
        let [one, two, three, four] = bytes.map(|byte| self.byte(byte));
        let pair = |(a, i): (u64, u32), (b, j): (u64, u32)| (a | b << (i & 63), i + j);
        pair(pair(one, two), pair(three, four))
    }
}

/// Writes codes, the first bit lowest.
struct Writer<'a> {
    out: &'a mut [u8],
    length: usize,
    /// Bits not yet written, and how many: fewer than 8 between calls.
    pending: u64,
    count: u32,
    codes: &'a Codes,
}

impl Writer<'_> {
    /// Writes some bits. Whole bytes go out, fewer than 8 bits wait for the next ones.
    #[inline]
    fn bits(&mut self, Bits { bits, count }: Bits) {
        let pending = self.pending | bits << self.count;
        let count = self.count + count;
        if let Some(room) = self.out.get_mut(self.length..).and_then(|out| out.first_chunk_mut::<8>()) {
            *room = pending.to_le_bytes();
        }
        self.length += (count / 8) as usize;
        self.pending = pending.wrapping_shr(count & !7);
        self.count = count % 8;
    }

    /// Writes the code of the end of the block or of a length.
    fn code(&mut self, symbol: usize) {
        let code = self.codes.others[symbol - 256];
        self.bits(Bits { bits: u64::from(code.bits), count: u32::from(code.length) });
    }

    /// Writes what still waits, and the checksum.
    fn finish(mut self, checksum: u32) {
        self.bits(Bits { bits: 0, count: self.count.wrapping_neg() % 8 });
        self.bits(Bits { bits: u64::from(checksum.swap_bytes()), count: 32 });
    }
}

impl Sink for Writer<'_> {
    // What waits is kept in registers from word to word; four codes are written at once.
    fn words(&mut self, words: &[[u8; 8]]) {
        let (mut pending, mut count, mut length) = (self.pending, self.count, self.length);
        for half in words.as_flattened().as_chunks::<4>().0 {
            let (bits, more) = self.codes.four(half);
            pending |= bits << (count & 63);
            count += more;
            if let Some(room) = self.out.get_mut(length..length + 8) {
                room.copy_from_slice(&pending.to_le_bytes());
            }
            length += (count / 8) as usize;
            pending >>= count & 0x38;
            count %= 8;
        }
        (self.pending, self.count, self.length) = (pending, count, length);
    }

    fn zeros(&mut self, more: usize) {
        self.byte(0);
        let (symbol, extra, count) = length_symbol(more);
        self.code(symbol);
        self.bits(Bits { bits: extra, count: count + DISTANCE_BITS });
    }

    fn byte(&mut self, byte: u8) {
        let (bits, count) = self.codes.byte(byte);
        self.bits(Bits { bits, count });
    }
}

/// The header of a stream and of its only block: dynamic codes, told by their lengths.
fn header(lengths: &[u8]) -> Vec<Bits> {
    let used = lengths.iter().rposition(|length| *length > 0).map_or(0, |last| last + 1).max(257);
    // One distance: 1, whose code has one bit.
    let told = shortened(&[&lengths[..used], &[1]].concat());
    let mut counts = [0u32; 19];
    told.iter().for_each(|word| counts[word.symbol] += 1);
    let length_lengths = huffman::lengths(&counts, LONGEST_LENGTH_CODE);
    let codes = huffman::codes(&length_lengths);
    let listed =
        LENGTH_ORDER.iter().rposition(|symbol| length_lengths[*symbol] > 0).map_or(4, |last| last + 1).max(4);
    // Deflate with a window of 32 KiB; the second byte makes the first two a multiple of 31.
    let stream = [(0x78, 8), (0x01, 8)];
    let block = [(1, 1), (2, 2), (used as u64 - 257, 5), (0, 5), (listed as u64 - 4, 4)];
    let listed = LENGTH_ORDER[..listed].iter().map(|symbol| (u64::from(length_lengths[*symbol]), 3));
    let words = told.iter().flat_map(|word| {
        let code = codes[word.symbol];
        [(u64::from(code.bits), u32::from(code.length)), (word.extra, word.bits)]
    });
    stream
        .into_iter()
        .chain(block)
        .chain(listed)
        .chain(words)
        .map(|(bits, count)| Bits { bits, count })
        .collect()
}

/// A code length, or a repetition of one, as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LengthWord {
    symbol: usize,
    extra: u64,
    bits: u32,
}

/// Code lengths with their repetitions told by number: 16 repeats the last one, 17 and 18 repeat 0.
fn shortened(lengths: &[u8]) -> Vec<LengthWord> {
    let word = |symbol: usize, extra: usize, bits: u32| LengthWord { symbol, extra: extra as u64, bits };
    let mut words = Vec::with_capacity(lengths.len());
    for group in lengths.chunk_by(|a, b| a == b) {
        let value = usize::from(group[0]);
        let mut left = group.len();
        if value != 0 {
            words.push(word(value, 0, 0));
            left -= 1;
        }
        while left >= 3 {
            let (taken, told) = match (value, left) {
                (0, 11..) => (left.min(138), word(18, left.min(138) - 11, 7)),
                (0, _) => (left, word(17, left - 3, 3)),
                _ => (left.min(6), word(16, left.min(6) - 3, 2)),
            };
            words.push(told);
            left -= taken;
        }
        words.extend(std::iter::repeat_n(word(value, 0, 0), left));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two decoders that share no code: libdeflate and miniz.
    fn comes_back(bytes: &[u8]) {
        let known = Stream::of(bytes);
        let mut stream = vec![0xAA; known.len() + SLACK];
        known.write(&mut stream);
        let stream = &stream[..known.len()];
        let mut out = vec![0; bytes.len()];
        let length = libdeflater::Decompressor::new().zlib_decompress(stream, &mut out).unwrap();
        assert!(length == bytes.len() && out == bytes, "libdeflate reads something else");
        // Of the very length that was told: both read to the last byte of the checksum.
        assert!(
            libdeflater::Decompressor::new().zlib_decompress(&stream[..stream.len() - 1], &mut out).is_err()
        );
        let miniz = miniz_oxide::inflate::decompress_to_vec_zlib(stream).unwrap();
        assert!(miniz == bytes, "miniz reads something else");
    }

    #[test]
    fn short_flat_and_rare_streams_come_back() {
        comes_back(&[]);
        comes_back(&[7]);
        for length in [1, 7, 8, 9, 15, 16, 17, 258, 259, 260, 261, 264, 265, 517, 518, 519, 520, 5000] {
            comes_back(&vec![0; length]);
            comes_back(&vec![9; length]);
            let mut ending = vec![0; length];
            ending.push(1);
            comes_back(&ending);
        }
        let rabbits = (0..24u8).flat_map(|i| std::iter::repeat_n(i, 1 << i.min(17))).collect::<Vec<u8>>();
        comes_back(&rabbits);
    }

    #[test]
    fn all_lengths_have_the_symbols_of_the_standard() {
        assert_eq!(length_symbol(3), (257, 0, 0));
        assert_eq!(length_symbol(10), (264, 0, 0));
        assert_eq!(length_symbol(11), (265, 0, 1));
        assert_eq!(length_symbol(12), (265, 1, 1));
        assert_eq!(length_symbol(130), (280, 15, 4));
        assert_eq!(length_symbol(257), (284, 30, 5));
        assert_eq!(length_symbol(258), (285, 0, 0));
        assert!((3..=258).map(length_symbol).all(|(symbol, _, extra)| extra_bits(symbol) == extra));
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
            comes_back(&pieces.concat());
        }
    }
}
