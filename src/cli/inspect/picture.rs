//! Pictures of a file's channels in the terminal.
//!
//! Each is the overview that the server draws of the middle slice in xy, of a series at the middle time point, shrunk to fit
//! the terminal. [`form`] decides in which form it is sent, [`terminal`] asks the terminal which it understands, and
//! [`blocks`], [`kitty`] and [`sixel`] encode it.
//!
//! The crates for this (ratatui-image, viuer, icy_sixel) bring many others; and what is sent here are the exact colours of
//! labels, where the form has them.

mod blocks;
mod form;
mod kitty;
mod sixel;
mod terminal;

use std::io::{self, IsTerminal};
use std::sync::Arc;

use anyhow::anyhow;

pub(super) use form::Choice;
use form::{Environment, Form};
use terminal::Size;

use crate::catalog::{Catalog, Channel, Dataset, Overview, Resolved};
use crate::cli::output::escaped;
use crate::cli::{Failure, output};
use crate::color::Rgb;
use crate::geometry::{Level, Plane, TileAddress};
use crate::paint::Kind;
use crate::plan::PixelKind;
use crate::render::{self, Scratch, Thumbnail};
use crate::request::{ChannelChoice, TileRequest};

/// The plane of the pictures.
const PLANE: Plane = Plane::Xy;

/// The form and the size in which pictures are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    form: Form,
    size: Size,
}

impl Screen {
    /// The form that was chosen, or that suits standard output; may ask the terminal, which takes up to a second.
    pub fn of(choice: Choice) -> Self {
        let environment = Environment::of_process(io::stdout().is_terminal());
        Self { form: form::chosen(choice, &environment, terminal::understood), size: Size::of_output() }
    }

    /// The maximum width and height of a picture in pixels; half blocks are two rows of pixels high.
    fn most(&self) -> (usize, usize) {
        let Size { columns, rows, cell: (width, height) } = self.size;
        match self.form {
            Form::Blocks(_) => (columns, 2 * rows),
            Form::Kitty | Form::Sixel => (columns * width, rows * height),
        }
    }

    /// A picture as it is sent to the terminal; ends with a line feed.
    fn sent(&self, picture: &Thumbnail, scratch: &mut Scratch) -> anyhow::Result<String> {
        Ok(match self.form {
            Form::Blocks(depth) => blocks::encoded(&colours(picture), picture.width, depth),
            Form::Sixel => {
                let large = self.enlarged(picture);
                sixel::encoded(&colours(&large), large.width)
            }
            Form::Kitty => kitty::encoded(&self.enlarged(picture).png(scratch)?),
        })
    }

    /// A picture whose pixels are repeated if it is small: each is at most as wide as a character, as in half blocks.
    fn enlarged(&self, picture: &Thumbnail) -> Thumbnail {
        let (most_wide, most_high) = self.most();
        let bytes = picture.kind.bytes();
        let height = picture.pixels.len() / (picture.width * bytes).max(1);
        let (across, down) = (most_wide / picture.width.max(1), most_high / height.max(1));
        let times = across.min(down).min(self.size.cell.0).max(1);
        let mut pixels = Vec::with_capacity(picture.pixels.len() * times * times);
        for row in picture.pixels.chunks(picture.width * bytes) {
            let row: Vec<u8> = row
                .chunks(bytes)
                .flat_map(|pixel| std::iter::repeat_n(pixel, times))
                .flatten()
                .copied()
                .collect();
            pixels.extend(std::iter::repeat_n(row, times).flatten());
        }
        Thumbnail { width: picture.width * times, kind: picture.kind, pixels }
    }
}

/// The pixels of a picture, in colour.
fn colours(picture: &Thumbnail) -> Vec<Rgb> {
    match picture.kind {
        PixelKind::Grey => picture.pixels.iter().map(|shade| [*shade; 3]).collect(),
        PixelKind::Rgb => picture.pixels.as_chunks::<3>().0.to_vec(),
    }
}

/// Prints a picture of each channel, or a line that says why there is none; fails in the end if there was such a channel.
pub(super) fn print_all(catalog: &Catalog, screen: Screen) -> Result<(), Failure> {
    // There is no idle time later in which damage to the rest of a chunk would be found.
    catalog.chunks().verify_at_once();
    let mut scratch = Scratch::default();
    let (mut drawn, mut failed) = (0, 0);
    for dataset in catalog.datasets() {
        for channel in dataset.listed() {
            let text = match picture(catalog, dataset, channel, screen, &mut scratch) {
                Ok(text) => {
                    drawn += 1;
                    text
                }
                Err(error) => {
                    failed += 1;
                    format!("{}: no picture: {}\n", channel.name, escaped(&format!("{error:#}")))
                }
            };
            // Not as text for people, in which control sequences are escaped.
            output::print_bytes(format!("\n{text}").as_bytes())?;
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(anyhow!("{failed} of {} channels could not be drawn", drawn + failed).into()),
    }
}

/// The caption and the picture of a channel.
fn picture(
    catalog: &Catalog,
    dataset: &Dataset,
    channel: &Channel,
    screen: Screen,
    scratch: &mut Scratch,
) -> anyhow::Result<String> {
    let request = middle(dataset, channel);
    let overview = catalog.overview(&request)?.within(screen.most());
    for unmeasured in overview.tiles().iter().flat_map(Resolved::unmeasured) {
        unmeasured.keep(&Arc::new(unmeasured.survey()?));
    }
    let picture = render::thumbnail(&overview.plan(), scratch)?;
    let caption = caption(channel, &request, &overview);
    Ok(format!("{caption}\n{}", screen.sent(&picture, scratch)?))
}

/// The request for the middle slice, of a series at the middle time point.
fn middle(dataset: &Dataset, channel: &Channel) -> TileRequest {
    let slice = dataset.middle_slice(channel, PLANE);
    TileRequest {
        token: dataset.token.clone().into(),
        channels: ChannelChoice::One(channel.name.clone()),
        time: channel.is_series.then_some(channel.times / 2),
        address: TileAddress { plane: PLANE, level: Level::FULL, slice, row: 0, column: 0 },
        adjust: Vec::new(),
    }
}

/// One line about a picture: the channel, the plane, the slice and the time point (numbered from 0), and the window.
fn caption(channel: &Channel, request: &TileRequest, overview: &Overview) -> String {
    let label = channel.label.as_ref().map(|label| format!(" ({})", escaped(label))).unwrap_or_default();
    let slices = channel.size()[PLANE.slice_axis()];
    let slice = format!("{}{label}: {PLANE}, slice {} of {slices}", channel.name, request.address.slice);
    let time = request.time.map(|time| format!("time {time} of {}", channel.times));
    let values = match channel.window() {
        _ if channel.kind == Kind::Labels => Some("labels".to_owned()),
        window => window.map(|window| format!("window {window}")),
    };
    let is_gap = overview.tiles().iter().all(Resolved::is_black);
    let gap = is_gap.then(|| "not in the file".to_owned());
    [Some(slice), time, values, gap].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(form: Form) -> Screen {
        Screen { form, size: Size { columns: 40, rows: 10, cell: (8, 16) } }
    }

    #[test]
    fn a_half_block_is_two_pixels_and_a_character_is_many() {
        assert_eq!(screen(Form::Blocks(form::Depth::Direct)).most(), (40, 20));
        assert_eq!(screen(Form::Sixel).most(), (320, 160));
    }

    #[test]
    fn small_pictures_are_enlarged_in_whole_steps_within_the_terminal() {
        let enlarged = |width: usize, height: usize| {
            let picture = Thumbnail { width, kind: PixelKind::Grey, pixels: vec![7; width * height] };
            let large = screen(Form::Sixel).enlarged(&picture);
            (large.width, large.pixels.len() / large.width)
        };
        assert_eq!(enlarged(4, 3), (32, 24));
        assert_eq!(enlarged(100, 20), (300, 60));
        assert_eq!(enlarged(20, 50), (60, 150));
        assert_eq!(enlarged(320, 160), (320, 160));
    }

    #[test]
    fn enlarged_pixels_stay_in_place() {
        let picture = Thumbnail { width: 2, kind: PixelKind::Rgb, pixels: (0..12).collect() };
        let screen = Screen { form: Form::Kitty, size: Size { columns: 2, rows: 2, cell: (2, 2) } };
        let large = screen.enlarged(&picture);
        let row = |first: u8, second: u8| {
            let pixel = |n: u8| [n, n + 1, n + 2];
            [pixel(first), pixel(first), pixel(second), pixel(second)].concat()
        };
        assert_eq!(large.width, 4);
        assert_eq!(large.pixels, [row(0, 3), row(0, 3), row(6, 9), row(6, 9)].concat());
    }
}
