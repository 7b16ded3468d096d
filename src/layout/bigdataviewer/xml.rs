//! The XML file next to a BigDataViewer HDF5 file: names, voxel sizes, time points, missing views,
//! registrations.
//!
//! Source: "About the BigDataViewer data format" and `spim_data`'s `XmlIoSpimData`. The XML file is
//! `FILE.xml` next to `FILE.h5`, else one in the same folder whose `ImageLoader` names the HDF5
//! file. Files that cannot be read or describe something else are passed over: nothing in them
//! is required. Parsing takes many times as much memory as the file is long, so only one file is
//! parsed, and only once.
//!
//! The `ViewTransform`s of a view are concatenated: the last of the list is applied first, to
//! indices of voxels (`ViewRegistration.updateModel`). Usually it is the *calibration*, which makes
//! voxels as long as they are thick: it scales by the voxel size, or (Multiview Reconstruction,
//! BigStitcher) by the voxel size divided by the shortest edge of any setup's voxels.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};
use voltile_base::geometry::{Affine, Transforms, Xyz};
use voltile_base::paths::folder_of;
use voltile_hdf5::store::{Location, Store};

/// Larger files are not parsed.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum number of time points.
const MAX_TIMES: u64 = 1 << 16;
/// Maximum number of entries of a folder among which the XML file is looked for.
const MAX_ENTRIES: usize = 1000;
/// Ratios of lengths are equal if their relative difference is at most this.
const CLOSE: f64 = 1e-3;

/// The text of an XML file that describes an HDF5 file.
pub(super) struct XmlText {
    /// The file's name.
    pub name: String,
    text: String,
}

/// The description of an HDF5 file in an XML file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sequence {
    /// The name of the XML file.
    pub name: String,
    /// The setups by number.
    pub setups: BTreeMap<u64, ViewSetup>,
    /// The number of time points, counted from 0.
    pub times: u64,
    /// The setup and time point of each missing view.
    pub missing: BTreeSet<(u64, u64)>,
    /// The registration of each setup and time point; `None` if it cannot be understood.
    pub registrations: BTreeMap<(u64, u64), Option<Registration>>,
}

/// The transforms of a view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Registration {
    /// All transforms together, from indices of voxels to the space of the file.
    whole: Affine,
    /// The transform that is applied first, usually the calibration.
    first: Affine,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct ViewSetup {
    pub name: Option<String>,
    /// The voxel size in x, y, z order; empty if not given.
    pub voxel: Vec<f64>,
    pub unit: Option<String>,
}

impl Sequence {
    /// Where a setup lies in space at each time point, in the unit of its voxel size, and a remark
    /// if the registration of a view cannot be understood. Identities say nothing: programs write
    /// them for views that were never registered.
    pub fn transforms(&self, setup: u64, voxel: Option<Xyz<f64>>) -> (Transforms, Option<String>) {
        let mut placed = Vec::new();
        let mut are_identities = true;
        let mut first_broken = None;
        let of_setup = self.registrations.range((setup, 0)..=(setup, u64::MAX));
        for ((_, time), registration) in of_setup {
            let Some(registration) = registration else {
                first_broken.get_or_insert(*time);
                continue;
            };
            are_identities &= registration.whole == Affine::IDENTITY;
            placed.extend(registration.in_unit_of(voxel).map(|affine| (*time, affine)));
        }
        let remark = first_broken.map(|time| {
            format!(
                "{}: the registration of setup {setup} at time point {time} is left out; ViewTransforms with an affine of 12 \
                 numbers that can be inverted are expected",
                self.name
            )
        });
        let transforms = Transforms::by_time(placed);
        if are_identities && !transforms.vary() {
            return (Transforms::default(), remark);
        }
        (transforms, remark)
    }
}

impl XmlText {
    /// The description next to an HDF5 file, if there is one.
    pub fn beside(hdf5: &Location, store: &Store) -> Option<Self> {
        match hdf5 {
            Location::Path(path) => Self::in_folder(path),
            Location::Object(address) => {
                let xml = address.beside(&format!("{}.xml", hdf5.stem()?)).ok()?;
                let text = store.text(&xml, MAX_BYTES + 1)?;
                let name = xml.name().to_owned();
                Some(Self { name, text }).filter(Self::is_description)
            }
        }
    }

    fn in_folder(hdf5: &Path) -> Option<Self> {
        let own = hdf5.with_extension("xml");
        if let Some(described) = Self::read(&own).filter(Self::is_description) {
            return Some(described);
        }
        let mut others = other_files(hdf5, &own).filter_map(|xml| Self::read(&xml));
        others.find(|xml| xml.names(hdf5))
    }

    /// Reads a file, or, if it is too long to be parsed, one byte more than the limit, so that
    /// [`Self::parse`] notices.
    fn read(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let mut bytes = Vec::new();
        File::open(path)
            .ok()?
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(Self {
            name: path.file_name()?.to_string_lossy().into_owned(),
            // The last character may have been cut.
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    fn is_description(&self) -> bool {
        self.text.contains("<SequenceDescription")
    }

    /// Whether its image loader names this HDF5 file: `<hdf5 type="relative">cells.h5</hdf5>`. The
    /// folder does not matter.
    fn names(&self, hdf5: &Path) -> bool {
        let element = self
            .text
            .split_once("<hdf5")
            .and_then(|(_, rest)| rest.split_once('>'));
        let Some((given, _)) = element.and_then(|(_, rest)| rest.split_once('<')) else {
            return false;
        };
        let given = given.replace("&amp;", "&");
        let name = given.trim().rsplit(['/', '\\']).next();
        name.is_some_and(|name| hdf5.file_name().is_some_and(|own| own == name))
    }

    /// Parses it as far as it can be understood; an error if it is too long, or is not well-formed
    /// XML.
    pub fn parse(&self) -> Result<Sequence, String> {
        let parsed = if self.text.len() as u64 > MAX_BYTES {
            Err("is longer than 16 MiB".to_owned())
        } else {
            Document::parse(&self.text).map_err(|error| format!("cannot be parsed ({error})"))
        };
        match parsed {
            Ok(document) => Ok(sequence(&self.name, &document)),
            Err(problem) => Err(format!(
                "{} {problem}: its names, sizes, missing views and registrations are not used",
                self.name
            )),
        }
    }
}

impl Registration {
    /// `None` unless each transform is an affine and all together can be inverted.
    fn new(node: Node<'_, '_>) -> Option<Self> {
        let mut whole = Affine::IDENTITY;
        let mut first = whole;
        for transform in children(Some(node), "ViewTransform") {
            first = affine(transform)?;
            whole = whole.after(&first);
        }
        Affine::new(whole.rows()).map(|whole| Self { whole, first })
    }

    /// The transform from indices to positions in the unit of the voxel size. The lengths to which
    /// the calibration scales a voxel tell the unit of the space: if they are 1, 1, 4 for voxels of
    /// 0.5 × 0.5 × 2 µm, the unit is 0.5 µm. If these lengths are not in proportion to the voxel
    /// size, the units are taken to be equal. `None` if numbers are too large.
    fn in_unit_of(&self, voxel: Option<Xyz<f64>>) -> Option<Affine> {
        let ratios =
            voxel.map(|voxel| voxel.zip(self.first.lengths(), |edge, length| edge / length));
        let ratio = match ratios {
            Some(ratios) if are_close(ratios) => ratios.x,
            _ => 1.0,
        };
        Affine::new(self.whole.in_unit(ratio).rows())
    }
}

/// The other XML files of the folder, by name.
fn other_files(hdf5: &Path, own: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = folder_of(hdf5);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(MAX_ENTRIES).map(|entry| entry.path());
    let mut xml_files: Vec<PathBuf> = paths
        .filter(|path| path.extension() == Some("xml".as_ref()) && path != own)
        .collect();
    xml_files.sort();
    xml_files.into_iter()
}

fn sequence(name: &str, document: &Document<'_>) -> Sequence {
    let root = document.root_element();
    let Some(sequence) = child(root, "SequenceDescription") else {
        return Sequence::default();
    };
    Sequence {
        name: name.to_owned(),
        setups: children(child(sequence, "ViewSetups"), "ViewSetup")
            .filter_map(setup)
            .collect(),
        times: child(sequence, "Timepoints")
            .map_or(0, times)
            .min(MAX_TIMES),
        missing: children(child(sequence, "MissingViews"), "MissingView")
            .filter_map(view)
            .collect(),
        registrations: children(child(root, "ViewRegistrations"), "ViewRegistration")
            .filter_map(|node| Some((view(node)?, Registration::new(node))))
            .collect(),
    }
}

/// The number of a setup, and its description.
fn setup(node: Node<'_, '_>) -> Option<(u64, ViewSetup)> {
    let number = number(&text_of(node, "id")?)?;
    let voxel = child(node, "voxelSize");
    let size = voxel.and_then(|voxel| text_of(voxel, "size"));
    let setup = ViewSetup {
        name: text_of(node, "name"),
        voxel: reals(&size.unwrap_or_default()).unwrap_or_default(),
        unit: voxel.and_then(|voxel| text_of(voxel, "unit")),
    };
    Some((number, setup))
}

/// Parses numbers between spaces: "0.5 0.5 2.0".
fn reals(text: &str) -> Option<Vec<f64>> {
    text.split_whitespace()
        .map(|number| number.parse().ok())
        .collect()
}

/// The setup and the time point of a view.
fn view(node: Node<'_, '_>) -> Option<(u64, u64)> {
    let setup = number(node.attribute("setup")?)?;
    let time = number(node.attribute("timepoint")?)?;
    Some((setup, time))
}

/// An affine transform: rows of four numbers.
fn affine(node: Node<'_, '_>) -> Option<Affine> {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = reals(&text_of(node, "affine")?)?[..] else {
        return None;
    };
    Affine::new([[a, b, c, d], [e, f, g, h], [i, j, k, l]])
}

/// Whether the ratios along x, y and z are equal.
fn are_close(ratios: Xyz<f64>) -> bool {
    ratios
        .map(|ratio| (ratio - ratios.x).abs() <= CLOSE * ratios.x)
        .everywhere()
}

/// The number of time points, which are a range, a list, or a pattern: one more than the last time
/// point. It is 21 for "0-9, 10-20:2", whose last one is 20.
fn times(node: Node<'_, '_>) -> u64 {
    let mut ends = Vec::new();
    ends.extend(text_of(node, "last"));
    for listed in node.descendants().filter(|node| node.has_tag_name("id")) {
        ends.extend(own_text(listed));
    }
    let pattern = text_of(node, "integerpattern").unwrap_or_default();
    for part in pattern.split([',', ' ']) {
        let range = part.split(':').next().unwrap_or(part);
        ends.extend(range.rsplit('-').next().map(str::to_owned));
    }
    let last = ends.iter().filter_map(|end| number(end)).max();
    last.map_or(0, |last| last.saturating_add(1))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn children<'a, 'input: 'a>(
    node: Option<Node<'a, 'input>>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.into_iter()
        .flat_map(|node| node.children())
        .filter(move |child| child.has_tag_name(name))
}

fn text_of(node: Node<'_, '_>, name: &str) -> Option<String> {
    own_text(child(node, name)?)
}

fn own_text(node: Node<'_, '_>) -> Option<String> {
    node.text()
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
        <SpimData version="0.2"><SequenceDescription>
          <ImageLoader format="bdv.hdf5"><hdf5 type="relative">./a/cells.h5</hdf5></ImageLoader>
          <ViewSetups>
            <ViewSetup><id>0</id><name>nuclei</name><size>9 8 7</size>
              <voxelSize><unit>µm</unit><size>0.5 0.5 2.0</size></voxelSize></ViewSetup>
            <ViewSetup><id>3</id><name></name></ViewSetup>
          </ViewSetups>
          <Timepoints type="range"><first>0</first><last>4</last></Timepoints>
          <MissingViews><MissingView timepoint="1" setup="3"/></MissingViews>
        </SequenceDescription></SpimData>"#;

    #[test]
    fn setups_times_and_missing_views_are_read() {
        let sequence = sequence("cells.xml", &Document::parse(XML).unwrap());
        let (name, unit) = (Some("nuclei".to_owned()), Some("µm".to_owned()));
        assert_eq!(
            sequence.setups[&0],
            ViewSetup {
                name,
                voxel: vec![0.5, 0.5, 2.0],
                unit
            }
        );
        assert_eq!(sequence.setups[&3], ViewSetup::default());
        assert_eq!(
            (sequence.times, sequence.missing),
            (5, BTreeSet::from([(3, 1)]))
        );
    }

    #[test]
    fn a_description_belongs_to_the_file_it_names() {
        let xml = XmlText {
            name: "cells.xml".to_owned(),
            text: XML.to_owned(),
        };
        assert!(xml.names(Path::new("elsewhere/cells.h5")));
        assert!(!xml.names(Path::new("other.h5")) && !xml.names(Path::new("ells.h5")));
    }

    #[test]
    fn time_points_are_a_range_a_pattern_or_a_list() {
        let count = |inner: &str| {
            let text = format!("<Timepoints>{inner}</Timepoints>");
            times(Document::parse(&text).unwrap().root_element())
        };
        assert_eq!(count("<first>2</first><last>9</last>"), 10);
        assert_eq!(
            count("<integerpattern>0-3, 7, 10-20:2</integerpattern>"),
            21
        );
        assert_eq!(
            count("<Timepoint><id>0</id></Timepoint><Timepoint><id>4</id></Timepoint>"),
            5
        );
        assert_eq!(count(""), 0);
    }

    fn parsed(text: &str) -> Result<Sequence, String> {
        let name = "other.xml".to_owned();
        XmlText {
            name,
            text: text.to_owned(),
        }
        .parse()
    }

    #[test]
    fn other_documents_say_nothing() {
        for other in ["<OME/>", "<SpimData/>"] {
            assert_eq!(parsed(other), Ok(Sequence::default()), "{other}");
        }
    }

    #[test]
    fn what_is_no_xml_is_an_error_that_names_the_file() {
        for broken in [
            "",
            "no xml",
            "<SpimData><SequenceDescription>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><SpimData>&b;</SpimData>",
        ] {
            let error = parsed(broken).unwrap_err();
            assert!(
                error.starts_with("other.xml cannot be parsed ("),
                "{broken}: {error}"
            );
        }
    }
}
