//! Viking: its volume file, and tiles with its own form of URLs.
//!
//! From its `VolumeModel`: `TileServerInfo.CreateFromElement` (all attributes must exist, numbers must be
//! integers), `OCPTileServerMapping.TileFullPath` (numbers are zero-padded; the host keeps a trailing slash,
//! so that two follow one another) and `PopulateLevels` (the grid halves, rounding up). It reads as many
//! bytes as `Content-Length` says (`Global.ReadToBuffer`), and drops responses without one.

use roxmltree::{Document, Node};

use super::report::Report;
use super::request::{Checked, Need, Request};
use crate::base::description::{DatasetDescription, SiteDescription};
use crate::geometry::TILE;
use crate::tools::client::{Answer, Client};

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        let url = format!("{}/viking/{}/volume.vikingxml", site.tilecache(), dataset.token);
        let volume = client.get(&url).and_then(Answer::found).and_then(|answer| {
            let volume = std::str::from_utf8(&answer.body).map_err(|e| e.to_string()).and_then(Volume::read);
            volume.map_err(|problem| answer.wrong(problem))
        });
        let volume = match volume {
            Ok(volume) => volume,
            Err(reason) => {
                report.add("volume", &dataset.token, Err(reason));
                continue;
            }
        };
        report.add("volume", &dataset.token, volume.fits(dataset));
        for tiles in &volume.servers {
            let subject = format!("{} {}", dataset.token, tiles.channel);
            match volume.sections.get(volume.sections.len() / 2) {
                Some(section) => {
                    let requests = tiles.requests(&site.tilecache(), dataset, &volume.name, *section);
                    report.run(client, &subject, &requests);
                }
                None => report.add("tiles", &subject, Err("the volume file names no section".to_owned())),
            }
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
#[derive(Clone)]
struct TileServer {
    host: String,
    space: String,
    prefix: String,
    postfix: String,
    channel: String,
    grid: [u64; 2],
    last: u64,
}

/// Viking ignores the case of attribute names.
fn text(node: Node<'_, '_>, name: &str) -> Result<String, String> {
    let found = node.attributes().find(|attribute| attribute.name().eq_ignore_ascii_case(name));
    let missing = || format!("the element {} has no {name}", node.tag_name().name());
    found.map(|attribute| attribute.value().to_owned()).ok_or_else(missing)
}

fn number(node: Node<'_, '_>, name: &str) -> Result<u64, String> {
    let text = text(node, name)?;
    text.parse().map_err(|_| format!("{name} is {text:?}, not a whole number"))
}

impl Volume {
    fn read(xml: &str) -> Result<Self, String> {
        let document = Document::parse(xml).map_err(|e| format!("it is not XML: {e}"))?;
        let root = document.root_element();
        if root.tag_name().name() != "Volume" {
            return Err("its root element is not Volume".to_owned());
        }
        number(root, "num_stos").and(number(root, "num_sections"))?;
        let elements = |tag: &'static str| root.children().filter(move |node| node.has_tag_name(tag));
        let sections = elements("Section").map(|node| number(node, "Number")).collect::<Result<_, _>>()?;
        let servers = elements("OCPTileServer").map(TileServer::read).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { name: text(root, "name")?, sections, servers: servers.concat() })
    }

    /// Whether the grid covers the volume.
    fn fits(&self, dataset: &DatasetDescription) -> Checked {
        if self.servers.is_empty() {
            return Err("the volume file has no channel that can be shown".to_owned());
        }
        for TileServer { channel: name, grid: [x, y], .. } in &self.servers {
            let channel = dataset.channel(name);
            let full = channel.and_then(|channel| channel.levels.first());
            let full = full.ok_or_else(|| format!("there is no channel {name}"))?;
            let [nx, ny] = [full.size[0], full.size[1]].map(|length| length.div_ceil(TILE as u64));
            if (*x, *y) != (nx, ny) {
                return Err(format!(
                    "the grid of {name} is {x} × {y} tiles; {nx} × {ny} would cover it, so tiles along its edges are missing"
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
                host: text(node, "host")?,
                space: text(node, "CoordSpaceName")?,
                prefix: text(node, "FilePrefix")?,
                postfix: text(node, "FilePostfix")?,
                channel: text(channel, "Name")?,
                grid: [number(node, "GridXDim")?, number(node, "GridYDim")?],
                last: number(node, "MaxLevel")?,
            })
        };
        channels.map(one).collect()
    }

    /// The last tile of each level, with one slash before the token and with two.
    fn requests(
        &self,
        below: &str,
        dataset: &DatasetDescription,
        volume: &str,
        section: u64,
    ) -> Vec<Request> {
        let Self { host, space, prefix, postfix, channel, .. } = self;
        let is_series = dataset.channel(channel).is_some_and(|channel| channel.times.is_some());
        let time = if is_series { "0/" } else { "" };
        let request = |(level, slash): (u64, &str)| {
            let [column, row] = self.grid.map(|count| count.div_ceil(1 << level).saturating_sub(1));
            let file = format!("{prefix}X{column:03}_Y{row:03}_Z{section:03}{postfix}");
            let host = host.trim_end_matches('/');
            let url = format!("{host}{slash}{volume}/{space}/{channel}/{level:03}/{file}");
            let plain = format!("{below}/{volume}/{channel}/xy/{time}{section}/{row}_{column}_{level}.png");
            Request::get("tiles", url, &[], [Need::Found, Need::Plain, Need::Shows(plain)])
        };
        // No volume has more levels.
        let levels = 0..=self.last.min(62);
        levels.flat_map(|level| [(level, "/"), (level, "//")]).map(request).collect()
    }
}
