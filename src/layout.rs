//! Layouts: how programs arrange volumes in HDF5 files and describe them in attributes.
//!
//! A layout recognises a file and says which channels it holds: at which paths, with which axes,
//! levels, time points, voxel size and names. It opens datasets to inspect them and reads no
//! voxels, except a square of each dataset of integers whose name suggests labels. Layouts are
//! tried in order; the plain one accepts every file. The configuration can override everything
//! found.
//!
//! One trait covers two kinds of layout. Some have their own scheme of paths (Imaris,
//! BigDataViewer, …) and find their channels themselves. Others only add attributes to data at any
//! path (ilastik, MATLAB, …): they read these marks in files of any layout, and the search of the
//! plain layout finds the channels.

mod alignment;
mod axis_names;
mod berkeley;
mod bigdataviewer;
mod catmaid;
mod channel;
mod chimera;
mod contents;
mod cremi;
mod dclab;
mod delmic;
mod detector;
mod dimensions;
mod dream3d;
mod element_size;
mod eman;
mod fiji;
mod flyem;
mod guess;
mod hdf_eos;
mod hdf_image;
mod hyperspy;
mod ilastik;
mod imaris;
pub mod inventory;
mod itk;
mod luxendo;
mod marks;
mod matlab;
mod minc;
mod n5;
mod names;
mod ndstore;
mod netcdf;
mod nexus;
mod nwb;
mod omissions;
mod openpmd;
mod plain;
mod pyramid;
mod rank;
mod segger;
mod spacing;
mod velox;
mod voltile;
mod vtk_hdf;
mod words;

use contents::{Contents, NamedLayout};
use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_hdf5::volume::hdf5::{OpenError, OpenFile};

pub(crate) use alignment::align;
pub use channel::{FoundChannel, FoundLevel, Part, Paths, Rank};
pub(in crate::layout) use channel::{
    MAX_NUMBERED, VoxelSize, group_of, hex_colour, holds_ids, last_of, number_after, numbered,
    range, spatial, usual_axes, whole_factor,
};
pub(in crate::layout) use contents::Layout;
pub(crate) use omissions::first_of;
pub use plain::ChannelOverrides;

/// The layouts by name, most specific first; marks of earlier ones take precedence. Tests compare
/// the lists of the README and of `docs/makers.md` with this one.
const LAYOUTS: &[NamedLayout] = &[
    ("voltile", &voltile::Voltile),
    ("MATLAB 7.3", &matlab::Matlab),
    ("Imaris", &imaris::Imaris),
    ("BigDataViewer", &bigdataviewer::BigDataViewer),
    ("Luxendo", &luxendo::Luxendo),
    ("Luxendo main file", &luxendo::main_file::MainFile),
    ("Fiji HDF5", &fiji::Fiji),
    ("CATMAID", &catmaid::Catmaid),
    ("MINC 2", &minc::Minc),
    ("NWB", &nwb::Nwb),
    ("Velox EMD", &velox::Velox),
    ("detector", &detector::Detector),
    ("ndstore export", &ndstore::Ndstore),
    ("N5 in HDF5", &n5::N5),
    ("CREMI", &cremi::Cremi),
    ("dclab", &dclab::Dclab),
    ("FlyEM/gala", &flyem::FlyEm),
    ("ITK", &itk::Itk),
    ("Berkeley EMD", &berkeley::Berkeley),
    ("hyperspy", &hyperspy::Hyperspy),
    ("EMAN2", &eman::Eman),
    (chimera::NAME, &chimera::Chimera),
    ("Segger", &segger::Segger),
    ("Delmic", &delmic::Delmic),
    ("DREAM.3D", &dream3d::Dream3d),
    ("simplnx", &dream3d::simplnx::Simplnx),
    ("VTKHDF", &vtk_hdf::VtkHdf),
    ("openPMD", &openpmd::OpenPmd),
    ("HDF-EOS5", &hdf_eos::HdfEos),
    nexus::NEXUS,
    ("ilastik", &ilastik::Ilastik),
    ("HDF5 image", &hdf_image::HdfImage),
    ("netCDF", &netcdf::Netcdf),
    ("dimension labels", &dimensions::Dimensions),
    ("PlantSeg/Fiji", &element_size::ElementSize),
    ("plain", &plain::Plain),
];

/// The layout of a file and its channels.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// The layout's name.
    pub layout: &'static str,
    /// Why the layout was recognised, in words.
    pub because: String,
    /// Its channels.
    pub channels: Vec<FoundChannel>,
    /// Channels beside the data, which are not listed.
    pub beside: Vec<FoundChannel>,
    /// The notices about the file, beside the notices about its channels.
    pub notices: Vec<Notice>,
    /// Why there may be no channels: objects that cannot be opened, datasets that are never
    /// channels, and links that were not followed.
    pub lost: Option<String>,
}

/// Recognises a file's layout and finds its channels.
pub fn discover(file: &OpenFile) -> Result<Discovery, OpenError> {
    let contents = Contents::new(file);
    let ((name, layout), because) = recognised(&contents);
    let mut channels = match layout.channels(&contents)? {
        Some(channels) => channels,
        None => plain::channels(&contents, |volume| {
            !layout.is_exclusive() || volume.marked_by(name).is_some()
        })?,
    };
    nexus::mark_default(&contents, &mut channels);
    for channel in &mut channels {
        if channel.facts.voxel_size.is_some() && channel.facts.voxel_size_from.is_none() {
            channel.facts.voxel_size_from = Some(format!("the metadata of {name}"));
        }
    }
    let beside = take_beside(&mut channels);
    omissions::note_links(&contents);
    omissions::note_hidden(&contents);
    let lost = omissions::explanation(
        contents.unopened(),
        contents.unlisted(),
        contents.unfollowed(),
    );
    Ok(Discovery {
        layout: name,
        because,
        channels,
        beside,
        lost,
        notices: contents.into_notices(),
    })
}

/// The first layout that recognises a file, and why. The plain one recognises every file.
fn recognised(contents: &Contents<'_>) -> (NamedLayout, String) {
    for (name, layout) in LAYOUTS {
        if let Some(because) = layout.recognise(name, contents) {
            return ((*name, *layout), because);
        }
    }
    (("plain", &plain::Plain), "no layout fits".to_owned())
}

/// Takes the channels that lie beside the data out of a list. Tables are the data if there is
/// nothing more likely.
fn take_beside(channels: &mut Vec<FoundChannel>) -> Vec<FoundChannel> {
    let likeliest = channels.iter().map(|channel| channel.rank).min();
    let last_of_data = likeliest.unwrap_or_default().max(Rank::Ordinary);
    channels
        .extract_if(.., |channel| channel.rank > last_of_data)
        .collect()
}

/// The channel of the dataset at `path`; `given` overrides what is detected.
pub fn channel_at(
    file: &OpenFile,
    path: &str,
    name: Name,
    given: &ChannelOverrides,
) -> Result<FoundChannel, OpenError> {
    let volume = Contents::new(file).candidate(path)?;
    Ok(plain::channel_of(volume, name, given))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a name or a list, in lower case.
    fn words(text: &str) -> Vec<String> {
        let words = text
            .split(|c: char| !c.is_alphanumeric() && c != '.')
            .map(|word| word.trim_matches('.'));
        words
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    }

    fn names_all(text: &str, layout: &str) -> bool {
        let known = words(text);
        words(layout).iter().all(|word| known.contains(word))
    }

    #[test]
    fn the_manual_has_a_row_for_each_layout_and_no_others() {
        let manual = include_str!("../docs/makers.md");
        let rows = manual
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
            .skip(1);
        let rows: Vec<&str> = rows.collect();
        for row in &rows {
            assert!(
                LAYOUTS.iter().any(|(layout, _)| names_all(row, layout)),
                "{row} is not a layout"
            );
        }
        for (layout, _) in LAYOUTS
            .iter()
            .filter(|(layout, _)| !["voltile", "plain"].contains(layout))
        {
            assert!(
                rows.iter().any(|row| names_all(row, layout)),
                "there is no row for {layout}"
            );
        }
    }

    #[test]
    fn the_readme_lists_each_layout() {
        let readme = include_str!("../README.md");
        let list = readme
            .split("- **Layouts are recognised**: ")
            .nth(1)
            .unwrap();
        let list = words(list.split("\n- ").next().unwrap());
        for (layout, _) in LAYOUTS {
            assert!(list.contains(&words(layout)[0]), "{layout} is not listed");
        }
    }
}
