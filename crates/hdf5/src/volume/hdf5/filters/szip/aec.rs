//! The decoder of CCSDS 121.0-B, "Lossless Data Compression", for unsigned numbers.
//!
//! Numbers come in blocks, each in the coding that was shortest for it. A fixed number of blocks
//! forms an interval. With prediction, an interval starts with one raw number, and each further
//! number is stored as the difference from the number before it.

use super::super::FilterError;
use super::super::bits::BitReader;

const ENDS: &str = "it ends too early";

/// The parameters of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamCoding {
    /// Bits per number, 1 to 32.
    pub bits: u32,
    /// Numbers per block, even.
    pub block: usize,
    /// Blocks per interval.
    pub interval: usize,
    /// Whether differences were coded.
    pub predicted: bool,
}

/// Decodes `count` numbers and passes them to `put` interval by interval.
pub(super) fn decode(
    bytes: &[u8],
    coding: StreamCoding,
    count: usize,
    mut put: impl FnMut(&[u32]),
) -> Result<(), FilterError> {
    let mut decoder = StreamDecoder {
        coding,
        bits: BitReader::new(bytes),
        numbers: Vec::new(),
    };
    let mut missing = count;
    while missing > 0 {
        decoder.interval(missing)?;
        decoder.numbers.truncate(missing);
        missing -= decoder.numbers.len();
        put(&decoder.numbers);
    }
    Ok(())
}

struct StreamDecoder<'a> {
    coding: StreamCoding,
    bits: BitReader<'a>,
    /// The numbers of the current interval so far.
    numbers: Vec<u32>,
}

impl StreamDecoder<'_> {
    /// Decodes the next interval, or the first `wanted` numbers of it.
    fn interval(&mut self, wanted: usize) -> Result<(), FilterError> {
        self.numbers.clear();
        let whole = self.coding.block * self.coding.interval;
        while self.numbers.len() < whole.min(wanted) {
            self.block(whole)?;
        }
        if self.coding.predicted {
            self.add_distances();
        }
        Ok(())
    }

    fn block(&mut self, whole: usize) -> Result<(), FilterError> {
        let id_bits = match self.coding.bits {
            ..=8 => 3,
            9..=16 => 4,
            17.. => 5,
        };
        let raw = (1 << id_bits) - 1;
        let id = self.read(id_bits)?;
        if id == raw {
            return (0..self.coding.block).try_for_each(|_| self.whole_number());
        }
        let pairs = id == 0 && self.read(1)? == 1;
        let first = usize::from(self.coding.predicted && self.numbers.is_empty());
        if first == 1 {
            self.whole_number()?;
        }
        match id {
            0 if pairs => self.pairs(first),
            0 => self.zeros(first, whole),
            _ => self.split(self.coding.block - first, id - 1),
        }
    }

    /// Numbers whose low bits are stored raw, after the high bits of all of them.
    fn split(&mut self, count: usize, low_bits: u32) -> Result<(), FilterError> {
        let start = self.numbers.len();
        for _ in 0..count {
            let high = self.unary()?;
            self.numbers.push(high << low_bits);
        }
        if low_bits > 0 {
            for number in &mut self.numbers[start..] {
                *number |= self.bits.read(low_bits).ok_or(ENDS)?;
            }
        }
        Ok(())
    }

    /// Pairs of small numbers, each coded as one; the first number of the first pair may be known
    /// already.
    fn pairs(&mut self, first: usize) -> Result<(), FilterError> {
        const LARGEST: u32 = 90;
        for pair in 0..self.coding.block / 2 {
            let code = self.unary()?;
            if code > LARGEST {
                return Err("a pair of numbers is invalid".into());
            }
            let mut sum = 0;
            let mut base = 0;
            while base + sum < code {
                sum += 1;
                base += sum;
            }
            let second = code - base;
            if pair > 0 || first == 0 {
                self.numbers.push(sum - second);
            }
            self.numbers.push(second);
        }
        Ok(())
    }

    /// A run of zero blocks; five means all up to the end of the interval or of a segment of 64
    /// blocks.
    fn zeros(&mut self, first: usize, whole: usize) -> Result<(), FilterError> {
        const REST_OF_SEGMENT: usize = 5;
        let StreamCoding {
            block, interval, ..
        } = self.coding;
        let run = self.unary()? as usize + 1;
        let before = self.numbers.len() / block;
        let blocks = match run {
            REST_OF_SEGMENT => (interval - before).min(64 - before % 64),
            run if run > REST_OF_SEGMENT => run - 1,
            run => run,
        };
        let end = self.numbers.len() + blocks * block - first;
        if end > whole {
            return Err("a run of zeros is too long".into());
        }
        self.numbers.resize(end, 0);
        Ok(())
    }

    /// Adds each difference to the previous number. Differences are folded: even ones go up, odd
    /// ones down. A difference that is too large for the nearer end of the range goes the
    /// other way, and is counted from that end.
    fn add_distances(&mut self) {
        let top = u32::MAX >> (32 - self.coding.bits);
        let middle = top / 2 + 1;
        let Some((first, distances)) = self.numbers.split_first_mut() else {
            return;
        };
        let mut number = *first;
        for place in distances {
            let distance = *place;
            let side = if number & middle == 0 { 0 } else { top };
            number = if distance.div_ceil(2) <= side ^ number {
                number.wrapping_add(distance >> 1 ^ 0u32.wrapping_sub(distance & 1)) & top
            } else {
                (side ^ distance) & top
            };
            *place = number;
        }
    }

    fn whole_number(&mut self) -> Result<(), FilterError> {
        let number = self.read(self.coding.bits)?;
        self.numbers.push(number);
        Ok(())
    }

    fn read(&mut self, count: u32) -> Result<u32, FilterError> {
        Ok(self.bits.read(count).ok_or(ENDS)?)
    }

    fn unary(&mut self) -> Result<u32, FilterError> {
        Ok(self.bits.unary().ok_or(ENDS)?)
    }
}
