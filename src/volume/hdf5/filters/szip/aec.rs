//! The decoder of CCSDS 121.0-B, "Lossless Data Compression", for unsigned numbers.
//!
//! Numbers come in blocks, each coded in whichever way was shortest; so many blocks make an interval, which begins
//! with a number as it is where the others are stored as their distance from the one before.

use super::super::Broken;
use super::super::bits::BitReader;

const ENDS: &str = "it ends too early";

/// How a stream was coded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coding {
    /// Bits of a number, 1 to 32.
    pub bits: u32,
    /// Numbers in a block, an even number.
    pub block: usize,
    /// Blocks in an interval.
    pub interval: usize,
    /// Whether distances were coded.
    pub predicted: bool,
}

/// Decodes `count` numbers and hands them over interval by interval.
pub(super) fn decode(
    bytes: &[u8],
    coding: Coding,
    count: usize,
    mut put: impl FnMut(&[u32]),
) -> Result<(), Broken> {
    let mut decoder = Decoder { coding, bits: BitReader::new(bytes), numbers: Vec::new() };
    let mut missing = count;
    while missing > 0 {
        decoder.interval(missing)?;
        decoder.numbers.truncate(missing);
        missing -= decoder.numbers.len();
        put(&decoder.numbers);
    }
    Ok(())
}

struct Decoder<'a> {
    coding: Coding,
    bits: BitReader<'a>,
    /// Those of the interval so far.
    numbers: Vec<u32>,
}

impl Decoder<'_> {
    /// Decodes the next interval, or as much of it as is wanted.
    fn interval(&mut self, wanted: usize) -> Result<(), Broken> {
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

    fn block(&mut self, whole: usize) -> Result<(), Broken> {
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

    /// Numbers whose low bits are stored as they are, behind the high ones of all of them.
    fn split(&mut self, count: usize, low_bits: u32) -> Result<(), Broken> {
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

    /// Pairs of small numbers, each pair as one; the first of the first pair may be known already.
    fn pairs(&mut self, first: usize) -> Result<(), Broken> {
        const LARGEST: u32 = 90;
        for pair in 0..self.coding.block / 2 {
            let code = self.unary()?;
            if code > LARGEST {
                return Err("a pair of numbers makes no sense".into());
            }
            let (mut sum, mut base) = (0, 0);
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

    /// A run of blocks of zeros; five stands for all up to the end of the interval or of a segment of 64 blocks.
    fn zeros(&mut self, first: usize, whole: usize) -> Result<(), Broken> {
        const REST_OF_SEGMENT: usize = 5;
        let Coding { block, interval, .. } = self.coding;
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

    /// Adds each distance to the number before. They are folded: even ones upwards, odd ones downwards, and those
    /// that only fit on one side count from there on.
    fn add_distances(&mut self) {
        let top = u32::MAX >> (32 - self.coding.bits);
        let middle = top / 2 + 1;
        let Some((first, distances)) = self.numbers.split_first_mut() else { return };
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

    fn whole_number(&mut self) -> Result<(), Broken> {
        let number = self.read(self.coding.bits)?;
        self.numbers.push(number);
        Ok(())
    }

    fn read(&mut self, count: u32) -> Result<u32, Broken> {
        Ok(self.bits.read(count).ok_or(ENDS)?)
    }

    fn unary(&mut self) -> Result<u32, Broken> {
        Ok(self.bits.unary().ok_or(ENDS)?)
    }
}
