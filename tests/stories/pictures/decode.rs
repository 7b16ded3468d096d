//! Decodes half blocks. The decoder begins at the picture, ignores what follows it, and understands only what voltile sends.

/// The pixels of a picture, row by row.
#[derive(Clone, PartialEq)]
pub struct Pixels<T> {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<T>,
}

/// A picture in colour.
pub type Image = Pixels<[u8; 3]>;
/// A picture in half blocks.
pub type Shown = Pixels<Block>;

/// The colour of half a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// A number in the palette of 256 colours.
    Indexed(u8),
    Direct([u8; 3]),
}

impl<T> std::fmt::Debug for Pixels<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a picture of {} × {}", self.width, self.height)
    }
}

impl<T: Copy> Pixels<T> {
    pub fn of(width: usize, height: usize, pixel: impl Fn(usize, usize) -> T) -> Self {
        let pixels = (0..width * height).map(|at| pixel(at / width, at % width)).collect();
        Self { width, height, pixels }
    }

    pub fn map<U>(self, to: impl Fn(T) -> U) -> Pixels<U> {
        let Self { width, height, pixels } = self;
        Pixels { width, height, pixels: pixels.into_iter().map(to).collect() }
    }
}

impl Image {
    /// The greatest difference of a component.
    pub fn farthest(&self, other: &Self) -> u8 {
        let pairs = self.pixels.as_flattened().iter().zip(other.pixels.as_flattened());
        pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap()
    }
}

/// A colour of xterm's palette, but for the first 16.
pub fn palette(number: u8) -> [u8; 3] {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match number {
        0..16 => panic!("the colour {number} differs between terminals"),
        16..232 => [(number - 16) / 36, (number - 16) / 6 % 6, (number - 16) % 6].map(level),
        232.. => [8 + 10 * (number - 232); 3],
    }
}

/// The lines of half blocks at the beginning of a text.
pub fn blocks(text: &str) -> Shown {
    let (mut rows, mut widths) = (Vec::new(), Vec::new());
    for line in text.lines().map(|line| line.trim_end_matches('\r')).take_while(|line| line.contains('▀')) {
        let (upper, lower) = block_line(line);
        widths.push(upper.len());
        rows.push(upper);
        if !lower.is_empty() {
            rows.push(lower);
        }
    }
    let width = widths.first().copied().expect("there are half blocks");
    assert!(rows.iter().all(|row| row.len() == width), "lines of different lengths: {widths:?}");
    Pixels { width, height: rows.len(), pixels: rows.concat() }
}

/// The upper and the lower pixels of a line; none if the lower ones have no colour.
fn block_line(line: &str) -> (Vec<Block>, Vec<Block>) {
    let (mut colours, mut pixels) = ((None, None), (Vec::new(), Vec::new()));
    let mut rest = line;
    while let Some(character) = rest.chars().next() {
        rest = match character {
            '▀' => {
                pixels.0.push(colours.0.expect("the foreground has a colour"));
                pixels.1.extend(colours.1);
                &rest['▀'.len_utf8()..]
            }
            '\u{1b}' => {
                let (sequence, rest) = rest.strip_prefix("\u{1b}[").unwrap().split_once('m').unwrap();
                set_colours(sequence, &mut colours);
                rest
            }
            other => panic!("{other:?} is no half block"),
        };
    }
    assert_eq!(colours, (None, None), "the line ends with a reset");
    pixels
}

fn set_colours(sequence: &str, (upper, lower): &mut (Option<Block>, Option<Block>)) {
    let numbers: Vec<u8> = sequence.split(';').map(|number| number.parse().unwrap()).collect();
    let mut rest = numbers.as_slice();
    while let [place, after @ ..] = rest {
        let (block, after) = match (place, after) {
            (0, []) => (None, after),
            (_, [5, number, after @ ..]) => (Some(Block::Indexed(*number)), after),
            (_, [2, r, g, b, after @ ..]) => (Some(Block::Direct([*r, *g, *b])), after),
            other => panic!("{other:?} sets no colour"),
        };
        match place {
            0 => (*upper, *lower) = (None, None),
            38 => *upper = block,
            48 => *lower = block,
            other => panic!("{other} sets no colour"),
        }
        rest = after;
    }
}
