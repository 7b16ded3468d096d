//! Decodes unsigned numbers from the entropy coder of CCSDS 121.0-B, "Lossless Data Compression".
//!
//! Numbers are coded in blocks. A block starts with an id: the number of the coding that made this
//! block shortest. A fixed number of blocks forms an interval. With prediction, an interval starts
//! with one number as it is, and each further number is stored as the difference from the number
//! before it. A number in *unary* is that many zeros, then a one.

use super::super::FilterError;
use super::super::bits::BitReader;

const ENDS_EARLY: &str = "it ends too early";

/// The parameters of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamCoding {
    /// Bits per number, 1 to 32.
    pub bits: u32,
    /// Numbers per block, even.
    pub block: usize,
    /// Blocks per interval.
    pub interval: usize,
    /// Whether numbers were predicted, so that differences were coded.
    pub predicted: bool,
}

impl StreamCoding {
    pub fn numbers_per_interval(&self) -> usize {
        self.block * self.interval
    }
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
        while self.numbers.len() < self.coding.numbers_per_interval().min(wanted) {
            self.block()?;
        }
        if self.coding.predicted {
            self.add_differences();
        }
        Ok(())
    }

    /// Decodes a block, or a run of blocks of zeros.
    fn block(&mut self) -> Result<(), FilterError> {
        let id_bits = match self.coding.bits {
            ..=8 => 3,
            9..=16 => 4,
            17.. => 5,
        };
        let id_of_raw = (1 << id_bits) - 1;
        let id = self.read(id_bits)?;
        if id == id_of_raw {
            return (0..self.coding.block).try_for_each(|_| self.whole_number());
        }
        let is_of_pairs = id == 0 && self.read(1)? == 1;
        // How many numbers of the block are known before its coding begins: 0 or 1.
        let known = usize::from(self.coding.predicted && self.numbers.is_empty());
        if known == 1 {
            self.whole_number()?;
        }
        match id {
            0 if is_of_pairs => self.pairs(known),
            0 => self.zeros(known),
            _ => self.split(self.coding.block - known, id - 1),
        }
    }

    /// Numbers in two parts: first the high bits of all, each in unary, then their `low_bits` low
    /// bits as they are. With 2 low bits, 5 and 8 are stored as 01 001, then 01 00.
    fn split(&mut self, count: usize, low_bits: u32) -> Result<(), FilterError> {
        let start = self.numbers.len();
        for _ in 0..count {
            let high = self.unary()?;
            self.numbers.push(high << low_bits);
        }
        if low_bits > 0 {
            for number in &mut self.numbers[start..] {
                *number |= self.bits.read(low_bits).ok_or(ENDS_EARLY)?;
            }
        }
        Ok(())
    }

    /// Pairs of small numbers, each pair coded as one number: the codes 0, 1, 2, 3, 4, 5, … mean
    /// the pairs (0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2), …. If one number of the block is
    /// `known`, it is the first of the first pair.
    fn pairs(&mut self, known: usize) -> Result<(), FilterError> {
        /// The code of (0, 12): pairs have no larger sum than 12.
        const LARGEST: u32 = 90;
        for pair in 0..self.coding.block / 2 {
            let code = self.unary()?;
            if code > LARGEST {
                return Err("a pair of numbers is invalid".into());
            }
            // The pairs with the sum `sum` have the codes from `base` to `base + sum`.
            let mut sum = 0;
            let mut base = 0;
            while base + sum < code {
                sum += 1;
                base += sum;
            }
            let second = code - base;
            if pair > 0 || known == 0 {
                self.numbers.push(sum - second);
            }
            self.numbers.push(second);
        }
        Ok(())
    }

    /// A run of blocks of zeros. Its stored length is the number of blocks up to 4, and one more
    /// than the number from 6 on; 5 means all blocks up to the end of the interval, or of a segment
    /// of 64 blocks.
    fn zeros(&mut self, known: usize) -> Result<(), FilterError> {
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
        let end = self.numbers.len() + blocks * block - known;
        if end > self.coding.numbers_per_interval() {
            return Err("a run of zeros is too long".into());
        }
        self.numbers.resize(end, 0);
        Ok(())
    }

    /// Adds each difference to the previous number. Differences are folded: 0, 1, 2, 3, 4, … stand
    /// for 0, -1, 1, -2, 2, …, until one sign would lead beyond the nearer end of the range. Larger
    /// ones stand for the distance from that end. After the number 2 of 8 bits, 0, 1, 2, 3, 4 stand
    /// for the numbers 2, 1, 3, 0, 4, and each larger difference for itself.
    fn add_differences(&mut self) {
        let top = u32::MAX >> (32 - self.coding.bits);
        let middle = top / 2 + 1;
        let Some((first, differences)) = self.numbers.split_first_mut() else {
            return;
        };
        let mut number = *first;
        for place in differences {
            let folded = *place;
            let nearer_end = if number & middle == 0 { 0 } else { top };
            // The distance to that end: `top ^ number` is `top - number`.
            let room = nearer_end ^ number;
            number = if folded.div_ceil(2) <= room {
                let difference = folded >> 1 ^ 0u32.wrapping_sub(folded & 1);
                number.wrapping_add(difference) & top
            } else {
                (nearer_end ^ folded) & top
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
        Ok(self.bits.read(count).ok_or(ENDS_EARLY)?)
    }

    fn unary(&mut self) -> Result<u32, FilterError> {
        Ok(self.bits.unary().ok_or(ENDS_EARLY)?)
    }
}
