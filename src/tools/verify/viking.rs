//! Viking: its volume file, and tiles with its own form of URLs.
//!
//! From its `VolumeModel`: `TileServerInfo.CreateFromElement` (all attributes must exist, numbers must be
//! integers), `OCPTileServerMapping.TileFullPath` (numbers are zero-padded; the host keeps a trailing slash,
//! so that two follow one another) and `PopulateLevels` (the grid halves, rounding up). It reads as many
//! bytes as `Content-Length` says (`Global.ReadToBuffer`), and drops responses without one.

use roxmltree::{Document, Node};

use super::Viewer;
use super::report::{Checked, Report};
use crate::base::description::{DatasetDescription, SiteDescription};
use crate::geometry::TILE;
use crate::tools::client::{Answer, Client};

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        let url = format!("{}/viking/{}/volume.vikingxml", site.tilecache(), dataset.token);
        let volume = client.get(&url).and_then(Answer::found).and_then(|answer| read(&answer));
        let checked = volume.as_ref().map_err(Clone::clone).and_then(|volume| volume.fits(dataset));
        report.add(Some(Viewer::Viking), "volume", &dataset.token, checked);
        let Ok(volume) = volume else { continue };
        for tiles in &volume.servers {
            let subject = format!("{} {}", dataset.token, tiles.channel);
            let section = volume.sections.get(volume.sections.len() / 2).copied();
            let walked = section.ok_or("the volume file names no section".to_owned());
            let walked = walked.and_then(|section| tiles.walk(client, site, &volume.name, section));
            report.add(Some(Viewer::Viking), "tiles", &subject, walked);
        }
    }
}

/// What Viking reads of a volume file.
struct Volume {
    name: String,
    sections: Vec<u64>,
    servers: Vec<TileServer>,
}

/// An `OCPTileServer` element with one of its channels.
struct TileServer {
    host: String,
    space: String,
    prefix: String,
    postfix: String,
    channel: String,
    grid: [u64; 2],
    last: u32,
}

fn read(answer: &Answer) -> Result<Volume, String> {
    let text = std::str::from_utf8(&answer.body).map_err(|e| answer.wrong(e))?;
    let document = Document::parse(text).map_err(|e| answer.wrong(format!("it is not XML: {e}")))?;
    let root = document.root_element();
    if root.tag_name().name() != "Volume" {
        return Err(answer.wrong("its root element is not Volume"));
    }
    let of = |tag: &'static str| root.children().filter(move |node| node.has_tag_name(tag));
    number(root, "num_stos").and(number(root, "num_sections")).map_err(|e| answer.wrong(e))?;
    let sections = of("Section").map(|node| number(node, "Number")).collect::<Result<_, _>>();
    let servers = of("OCPTileServer").map(TileServer::read).collect::<Result<Vec<_>, _>>();
    Ok(Volume {
        name: text_of(root, "name").map_err(|e| answer.wrong(e))?,
        sections: sections.map_err(|e| answer.wrong(e))?,
        servers: servers.map_err(|e| answer.wrong(e))?.into_iter().flatten().collect(),
    })
}

/// Viking ignores the case of attribute names.
fn text_of(node: Node<'_, '_>, name: &str) -> Result<String, String> {
    let found = node.attributes().find(|attribute| attribute.name().eq_ignore_ascii_case(name));
    let tag = node.tag_name().name();
    found
        .map(|attribute| attribute.value().to_owned())
        .ok_or_else(|| format!("the element {tag} has no {name}"))
}

fn number(node: Node<'_, '_>, name: &str) -> Result<u64, String> {
    let text = text_of(node, name)?;
    text.parse().map_err(|_| format!("{name} is {text:?}, not a whole number"))
}

impl Volume {
    /// Whether the grid covers the volume.
    fn fits(&self, dataset: &DatasetDescription) -> Checked {
        if self.servers.is_empty() {
            return Err("the volume file has no channel that can be shown".to_owned());
        }
        for tiles in &self.servers {
            let channel = dataset.channel(&tiles.channel);
            let Some(full) = channel.and_then(|channel| channel.levels.first()) else {
                return Err(format!("there is no channel {}", tiles.channel));
            };
            let needed = [full.size[0], full.size[1]].map(|length| length.div_ceil(TILE as u64));
            if tiles.grid != needed {
                let ([x, y], [nx, ny]) = (tiles.grid, needed);
                return Err(format!(
                    "the grid of {} is {x} × {y} tiles; {nx} × {ny} would cover it, so tiles along its edges are missing",
                    tiles.channel
                ));
            }
        }
        Ok(None)
    }
}

impl TileServer {
    fn read(node: Node<'_, '_>) -> Result<Vec<TileServer>, String> {
        let size = [number(node, "TileXDim")?, number(node, "TileYDim")?];
        if size != [TILE as u64; 2] {
            return Err(format!("the tile size is given as {size:?}, but is {TILE} × {TILE}"));
        }
        let channels = node.children().filter(|child| child.has_tag_name("Channel"));
        let one = |channel: Node<'_, '_>| {
            Ok(TileServer {
                host: text_of(node, "host")?,
                space: text_of(node, "CoordSpaceName")?,
                prefix: text_of(node, "FilePrefix")?,
                postfix: text_of(node, "FilePostfix")?,
                channel: text_of(channel, "Name")?,
                grid: [number(node, "GridXDim")?, number(node, "GridYDim")?],
                last: u32::try_from(number(node, "MaxLevel")?).map_err(|e| e.to_string())?,
            })
        };
        channels.map(one).collect()
    }

    /// The last tile of each level, with one slash before the token and with two.
    fn walk(&self, client: &Client, site: &SiteDescription, volume: &str, section: u64) -> Checked {
        for level in 0..=self.last {
            let [column, row] = self.grid.map(|count| count.div_ceil(1 << level.min(62)).saturating_sub(1));
            let file = format!("{}X{column:03}_Y{row:03}_Z{section:03}{}", self.prefix, self.postfix);
            let below = format!("{volume}/{}/{}/{level:03}/{file}", self.space, self.channel);
            let host = self.host.trim_end_matches('/');
            let tile = whole(client.get(&format!("{host}/{below}"))?)?;
            let doubled = whole(client.get(&format!("{host}//{below}"))?)?;
            let channel = site.datasets.iter().find(|dataset| dataset.token == volume);
            let channel = channel.and_then(|dataset| dataset.channel(&self.channel));
            let time = if channel.is_some_and(|channel| channel.times.is_some()) { "0/" } else { "" };
            let plain = format!(
                "{}/{volume}/{}/xy/{time}{section}/{row}_{column}_{level}.png",
                site.tilecache(),
                self.channel
            );
            let plain = client.get(&plain)?.found()?;
            for other in [&tile, &doubled] {
                if other.tile()? != plain.tile()? {
                    return Err(other.wrong(format!("it shows something different from {}", plain.url)));
                }
            }
        }
        Ok(None)
    }
}

/// The response, if Viking can read it.
fn whole(answer: Answer) -> Result<Answer, String> {
    let answer = answer.found()?;
    let length = answer.header("content-length").ok_or_else(|| {
        answer.wrong(
            "there is no Content-Length: Viking drops the response (does a proxy compress or chunk it?)",
        )
    })?;
    if length.parse() != Ok(answer.body.len()) {
        return Err(
            answer.wrong(format!("Content-Length is {length}, but there are {} bytes", answer.body.len()))
        );
    }
    match answer.header("content-encoding") {
        Some(encoding) => {
            Err(answer.wrong(format!("it is encoded as {encoding}, which Viking does not decode")))
        }
        None => Ok(answer),
    }
}
