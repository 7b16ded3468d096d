//! The XML file next to a BigDataViewer HDF5 file: names, voxel sizes, time points, missing views, registrations.
//!
//! Source: "About the BigDataViewer data format" and `spim_data`'s `XmlIoSpimData`. It is `FILE.xml` next to
//! `FILE.h5`, else one in the same folder whose `ImageLoader` names the HDF5 file. Files that cannot be read
//! or are something else are ignored: nothing in them is required.
//!
//! The `ViewTransform`s of a view are concatenated: the last of the list is applied first, to indices of voxels
//! (`ViewRegistration.updateModel`). Usually it is the *calibration*, which makes voxels as long as they are thick: it scales by
//! the voxel size, or (Multiview Reconstruction, BigStitcher) by the voxel size divided by the shortest edge of any setup's voxels.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};

use crate::geometry::{Affine, Transforms, Xyz};
use crate::store::{Location, Store};

/// Larger files are not read.
const MAX_BYTES: u64 = 64 << 20;
/// Upper bound for the number of time points.
const MAX_TIMES: u64 = 1 << 16;
/// At most this many entries of a folder are checked.
const MAX_ENTRIES: usize = 1000;
/// Ratios of lengths that differ by less than this part are equal.
const CLOSE: f64 = 1e-3;

#[derive(Debug, Default, PartialEq)]
pub(super) struct Sequence {
    /// The file's name.
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
    /// All of them, from indices of voxels to the space of the file.
    whole: Affine,
    /// The one that is applied first.
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
    /// Where a setup lies in space at each time point, in the unit of its voxel size, and a remark if the registration of a view
    /// cannot be understood. Identities say nothing: programs write them for views that were never registered.
    pub fn transforms(&self, setup: u64, voxel: Option<Xyz<f64>>) -> (Transforms, Option<String>) {
        let of_setup = || self.registrations.range((setup, 0)..=(setup, u64::MAX));
        let placed = |((_, time), known): (&(u64, u64), &Option<Registration>)| {
            Some((*time, known.as_ref()?.in_unit_of(voxel)?))
        };
        let transforms = Transforms::by_time(of_setup().filter_map(placed));
        let is_identity = !transforms.vary()
            && of_setup().flat_map(|(_, known)| known).all(|known| known.whole == Affine::IDENTITY);
        let broken = of_setup().find(|(_, registration)| registration.is_none());
        let remark = broken.map(|((_, time), _)| {
            format!(
                "{}: the registration of setup {setup} at time point {time} is left out; ViewTransforms with an affine of 12 \
                 numbers that can be inverted are expected",
                self.name
            )
        });
        (if is_identity { Transforms::default() } else { transforms }, remark)
    }

    /// The description in the XML file next to an HDF5 file, if there is one.
    pub fn beside(hdf5: &Location, store: &Store) -> Option<Self> {
        let hdf5 = match hdf5 {
            Location::Path(path) => path,
            Location::Object(address) => {
                let own = address.beside(&format!("{}.xml", hdf5.stem()?)).ok()?;
                let text = store.text(&own, MAX_BYTES)?;
                return sequence(own.name(), &text, |_| true);
            }
        };
        let own = hdf5.with_extension("xml");
        read(&own, |_| true)
            .or_else(|| others(hdf5, &own).find_map(|xml| read(&xml, |named| names(named, hdf5))))
    }
}

impl Registration {
    fn new(node: Node<'_, '_>) -> Option<Self> {
        let mut whole = Affine::IDENTITY;
        let mut first = whole;
        for transform in children(Some(node), "ViewTransform") {
            first = affine(transform)?;
            whole = whole.after(&first);
        }
        Affine::new(whole.rows()).map(|whole| Self { whole, first })
    }

    /// From indices to the unit of the voxel size: the calibration tells how much of that the unit of the space is. If it does
    /// not scale in proportion to the voxel size, the units are taken to be equal. `None` if numbers are too large.
    fn in_unit_of(&self, voxel: Option<Xyz<f64>>) -> Option<Affine> {
        let ratios = voxel.map(|voxel| voxel.zip(self.first.lengths(), |edge, length| edge / length));
        let is_close = |ratios: &Xyz<f64>| {
            ratios.map(|ratio| (ratio - ratios.x).abs() <= CLOSE * ratios.x) == Xyz::all(true)
        };
        Affine::new(self.whole.in_unit(ratios.filter(is_close).map_or(1.0, |ratios| ratios.x)).rows())
    }
}

/// The other XML files of the folder, by name.
fn others(hdf5: &Path, own: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = hdf5.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "xml") && path != own);
    found.sort();
    found.into_iter()
}

/// Whether a path given in an XML file names this HDF5 file.
fn names(given: &str, hdf5: &Path) -> bool {
    given
        .trim()
        .rsplit(['/', '\\'])
        .next()
        .is_some_and(|name| hdf5.file_name().is_some_and(|own| own == name))
}

fn read(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Option<Sequence> {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    let text = (size <= MAX_BYTES).then(|| fs::read_to_string(path).ok()).flatten()?;
    sequence(&path.file_name()?.to_string_lossy(), &text, is_wanted)
}

fn sequence(name: &str, text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<Sequence> {
    let document = Document::parse(text).ok()?;
    let root = document.root_element();
    let sequence = child(root, "SequenceDescription")?;
    let hdf5 = child(sequence, "ImageLoader").and_then(|loader| text_of(loader, "hdf5"));
    if !is_wanted(hdf5.as_deref().unwrap_or_default()) {
        return None;
    }
    Some(Sequence {
        name: name.to_owned(),
        setups: children(child(sequence, "ViewSetups"), "ViewSetup").filter_map(setup).collect(),
        times: child(sequence, "Timepoints").map_or(0, times).min(MAX_TIMES),
        missing: children(child(sequence, "MissingViews"), "MissingView").filter_map(view).collect(),
        registrations: children(child(root, "ViewRegistrations"), "ViewRegistration")
            .filter_map(|node| Some((view(node)?, Registration::new(node))))
            .collect(),
    })
}

fn setup(node: Node<'_, '_>) -> Option<(u64, ViewSetup)> {
    let number = number(&text_of(node, "id")?)?;
    let voxel = child(node, "voxelSize");
    let size = voxel.and_then(|voxel| text_of(voxel, "size")).unwrap_or_default();
    let numbers: Result<Vec<f64>, _> = size.split_whitespace().map(str::parse).collect();
    let unit = voxel.and_then(|voxel| text_of(voxel, "unit"));
    Some((number, ViewSetup { name: text_of(node, "name"), voxel: numbers.unwrap_or_default(), unit }))
}

/// The setup and the time point of a view.
fn view(node: Node<'_, '_>) -> Option<(u64, u64)> {
    Some((number(node.attribute("setup")?)?, number(node.attribute("timepoint")?)?))
}

/// An affine transform: rows of four numbers.
fn affine(node: Node<'_, '_>) -> Option<Affine> {
    let numbers: Result<Vec<f64>, _> = text_of(node, "affine")?.split_whitespace().map(str::parse).collect();
    let [a, b, c, d, e, f, g, h, i, j, k, l] = numbers.ok()?[..] else { return None };
    Affine::new([[a, b, c, d], [e, f, g, h], [i, j, k, l]])
}

/// One more than the last time point: of a range, a list, or a pattern such as "0-9, 12".
fn times(node: Node<'_, '_>) -> u64 {
    let last = text_of(node, "last").and_then(|last| number(&last));
    let listed = node.descendants().filter_map(|node| own_text(node).filter(|_| node.has_tag_name("id")));
    let pattern = text_of(node, "integerpattern").unwrap_or_default();
    let numbers = pattern.split([',', ' ']).map(|part| part.split(':').next().unwrap_or(part));
    let ends = numbers.filter_map(|range| number(range.rsplit('-').next().unwrap_or(range)));
    let all = last.into_iter().chain(ends).chain(listed.filter_map(|id| number(&id)));
    all.max().map_or(0, |last| last.saturating_add(1))
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
    node.into_iter().flat_map(|node| node.children()).filter(move |child| child.has_tag_name(name))
}

fn text_of(node: Node<'_, '_>, name: &str) -> Option<String> {
    own_text(child(node, name)?)
}

fn own_text(node: Node<'_, '_>) -> Option<String> {
    node.text().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
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
        let sequence = sequence("cells.xml", XML, |_| true).unwrap();
        let (name, unit) = (Some("nuclei".to_owned()), Some("µm".to_owned()));
        assert_eq!(sequence.setups[&0], ViewSetup { name, voxel: vec![0.5, 0.5, 2.0], unit });
        assert_eq!(sequence.setups[&3], ViewSetup::default());
        assert_eq!((sequence.times, sequence.missing), (5, BTreeSet::from([(3, 1)])));
    }

    #[test]
    fn a_description_belongs_to_the_file_it_names() {
        let wanted =
            |hdf5: &'static str| sequence("cells.xml", XML, |given| names(given, Path::new(hdf5))).is_some();
        assert!(wanted("elsewhere/cells.h5"));
        assert!(!wanted("other.h5"));
    }

    #[test]
    fn time_points_are_a_range_a_pattern_or_a_list() {
        let count = |inner: &str| {
            let text = format!("<Timepoints>{inner}</Timepoints>");
            times(Document::parse(&text).unwrap().root_element())
        };
        assert_eq!(count("<first>2</first><last>9</last>"), 10);
        assert_eq!(count("<integerpattern>0-3, 7, 10-20:2</integerpattern>"), 21);
        assert_eq!(count("<Timepoint><id>0</id></Timepoint><Timepoint><id>4</id></Timepoint>"), 5);
        assert_eq!(count(""), 0);
    }

    #[test]
    fn other_documents_are_ignored() {
        for other in
            ["", "no xml", "<OME/>", "<SpimData/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><SpimData>&b;</SpimData>"]
        {
            assert_eq!(sequence("other.xml", other, |_| true), None, "{other}");
        }
    }
}
