//! Pictures of a file's channels in the terminal.
//!
//! Each is the overview that the server draws of the middle slice in xy, of a series at the middle time point, shrunk to fit
//! the terminal, in half blocks ([`blocks`]), which every terminal shows.

mod blocks;

use std::io;
use std::sync::Arc;

use anyhow::anyhow;
use rustix::termios::tcgetwinsize;

use crate::base::color::Rgb;
use crate::base::paint::Kind;
use crate::base::request::{ChannelChoice, TileRequest};
use crate::catalog::{Catalog, Channel, Dataset, Overview, Resolved};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::output::escaped;
use crate::geometry::{Level, Plane, TileAddress};
use crate::render::{self, Scratch};
use blocks::Depth;

/// The plane of the pictures.
const PLANE: Plane = Plane::Xy;
/// The maximum width of a picture in characters.
const MAX_COLUMNS: usize = 80;
/// The maximum height of a picture in lines.
const MAX_ROWS: usize = 24;
/// Lines of the terminal that a picture leaves to its caption and the prompt.
const OTHER_ROWS: usize = 2;

/// The colours and the size in which pictures are drawn.
#[derive(Debug, Clone, Copy)]
struct Screen {
    depth: Depth,
    columns: usize,
    rows: usize,
}

impl Screen {
    /// What suits the terminal of standard output; 80 × 24 characters if it goes elsewhere.
    fn from_environment() -> Self {
        let size = tcgetwinsize(io::stdout()).ok();
        let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()));
        let is_direct =
            std::env::var_os("COLORTERM").is_some_and(|depth| depth == "truecolor" || depth == "24bit");
        Self::new(columns, rows, if is_direct { Depth::Direct } else { Depth::Indexed })
    }

    /// In a terminal of so many columns and rows; zeros are unknown.
    fn new(columns: usize, rows: usize, depth: Depth) -> Self {
        let columns = if columns == 0 { MAX_COLUMNS } else { columns.min(MAX_COLUMNS) };
        let rows = if rows == 0 { MAX_ROWS } else { rows.saturating_sub(OTHER_ROWS).clamp(1, MAX_ROWS) };
        Self { depth, columns, rows }
    }
}

/// Prints a picture of each channel, or a line that says why there is none; fails in the end if there was such a channel.
pub(super) fn print_all(catalog: &Catalog) -> Result<(), Failure> {
    let screen = Screen::from_environment();
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
    // A half block shows two rows of pixels.
    let overview = catalog.overview(&request)?.within((screen.columns, 2 * screen.rows));
    for unmeasured in overview.tiles().iter().flat_map(Resolved::unmeasured) {
        unmeasured.keep(&Arc::new(unmeasured.survey()?));
    }
    let picture = render::thumbnail(&overview.plan(), scratch)?;
    let caption = caption(channel, &request, &overview);
    let pixels: Vec<Rgb> = picture.to_rgb8().pixels().map(|pixel| pixel.0).collect();
    Ok(format!("{caption}\n{}", blocks::encode(&pixels, picture.width() as usize, screen.depth)))
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

    #[test]
    fn pictures_fit_the_terminal_and_are_small() {
        let size = |columns, rows| {
            let screen = Screen::new(columns, rows, Depth::Direct);
            (screen.columns, screen.rows)
        };
        assert_eq!(size(0, 0), (80, 24));
        assert_eq!(size(200, 60), (80, 24));
        assert_eq!(size(40, 10), (40, 8));
        assert_eq!(size(1, 1), (1, 1));
    }
}
