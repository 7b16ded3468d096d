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
use image::imageops::FilterType;
use image::{DynamicImage, GenericImageView};

pub(super) use form::Choice;
use form::{Environment, Form};
use terminal::Size;

use crate::base::color::Rgb;
use crate::base::paint::Kind;
use crate::base::request::{ChannelChoice, TileRequest};
use crate::catalog::{Catalog, Channel, Dataset, Overview, Resolved};
use crate::cli::output::escaped;
use crate::cli::{Failure, output};
use crate::geometry::{Level, Plane, TileAddress};
use crate::render::{self, Scratch};

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
    fn sent(&self, picture: &DynamicImage, scratch: &mut Scratch) -> anyhow::Result<String> {
        Ok(match self.form {
            Form::Blocks(depth) => blocks::encoded(&colours(picture), picture.width() as usize, depth),
            Form::Sixel => {
                let large = self.enlarged(picture);
                sixel::encoded(&colours(&large), large.width() as usize)
            }
            Form::Kitty => kitty::encoded(&render::png(&self.enlarged(picture), scratch)?),
        })
    }

    /// A picture whose pixels are repeated if it is small: each is at most as wide as a character, as in half blocks.
    fn enlarged(&self, picture: &DynamicImage) -> DynamicImage {
        let ((most_wide, most_high), (width, height)) = (self.most(), picture.dimensions());
        let (across, down) = (most_wide as u32 / width.max(1), most_high as u32 / height.max(1));
        let times = across.min(down).min(self.size.cell.0 as u32).max(1);
        picture.resize_exact(width * times, height * times, FilterType::Nearest)
    }
}

/// The pixels of a picture, in colour.
fn colours(picture: &DynamicImage) -> Vec<Rgb> {
    picture.to_rgb8().pixels().map(|pixel| pixel.0).collect()
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
        let enlarged = |width: u32, height: u32| {
            screen(Form::Sixel).enlarged(&DynamicImage::new_luma8(width, height)).dimensions()
        };
        assert_eq!(enlarged(4, 3), (32, 24));
        assert_eq!(enlarged(100, 20), (300, 60));
        assert_eq!(enlarged(20, 50), (60, 150));
        assert_eq!(enlarged(320, 160), (320, 160));
    }

    #[test]
    fn enlarged_pixels_stay_in_place() {
        let picture = image::RgbImage::from_raw(2, 2, (0..12).collect()).unwrap().into();
        let screen = Screen { form: Form::Kitty, size: Size { columns: 2, rows: 2, cell: (2, 2) } };
        let large = screen.enlarged(&picture);
        let row = |first: u8, second: u8| {
            let pixel = |n: u8| [n, n + 1, n + 2];
            [pixel(first), pixel(first), pixel(second), pixel(second)].concat()
        };
        assert_eq!(large.width(), 4);
        assert_eq!(large.as_bytes(), [row(0, 3), row(0, 3), row(6, 9), row(6, 9)].concat());
    }
}
