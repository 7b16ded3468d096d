//! Layouts: how programs arrange volumes in HDF5 files and describe them in attributes.
//!
//! A layout recognises a file and says which channels it holds: at which paths, with which axes,
//! levels, time points, voxel size and names. It opens datasets to inspect them and reads no
//! voxels, except a square of each dataset of integers whose name suggests labels. Layouts are
//! tried in order; the plain one accepts every file. The configuration can override everything
//! found.
//!
//! There are two kinds of layouts. Some have their own scheme of paths (Imaris, BigDataViewer, …)
//! and find their channels themselves. Others only know attributes, *marks*, that programs add to
//! data at any path (ilastik, MATLAB, …): the marks are read in files of any layout, and the search
//! of the plain layout finds the channels.

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

use contents::{ChannelSource, Contents, Layout};
use voltile_base::notice::Notice;
use voltile_hdf5::volume::hdf5::{OpenError, OpenFile};

pub(crate) use alignment::align;
pub use channel::{FoundChannel, FoundLevel, Part, Paths, Rank};
pub(in crate::layout) use channel::{
    MAX_NUMBERED, VoxelSize, group_of, hex_colour, last_of, number_after, numbered, range, spatial,
    usual_axes, whole_factor,
};
pub(crate) use omissions::first_of;
pub use plain::channel_at;

/// The layouts by name, most specific first; marks of earlier ones take precedence. Tests compare
/// the lists of the README and of `docs/makers.md` with this one.
const LAYOUTS: &[Layout] = &[
    Layout::of_paths("voltile", voltile::recognise, voltile::channels),
    Layout::of_marks("MATLAB 7.3", matlab::marks),
    Layout::of_paths("Imaris", imaris::recognise, imaris::channels),
    Layout::of_paths(
        "BigDataViewer",
        bigdataviewer::recognise,
        bigdataviewer::channels,
    ),
    Layout::of_paths("Luxendo", luxendo::recognise, luxendo::channels),
    Layout::of_paths(
        "Luxendo main file",
        luxendo::main_file::recognise,
        luxendo::main_file::channels,
    ),
    Layout::of_paths("Fiji HDF5", fiji::recognise, fiji::channels),
    Layout::of_paths("CATMAID", catmaid::recognise, catmaid::channels),
    Layout {
        recognise: Some(minc::recognise),
        ..Layout::exclusive("MINC 2", minc::marks)
    },
    Layout {
        recognise: Some(nwb::recognise),
        ..Layout::exclusive("NWB", nwb::marks)
    },
    Layout::exclusive("Velox EMD", velox::marks),
    Layout {
        recognise: Some(detector::recognise),
        ..Layout::of_marks("detector", detector::marks)
    },
    Layout::exclusive("ndstore export", ndstore::marks),
    Layout::of_marks("N5 in HDF5", n5::marks),
    Layout::of_marks("CREMI", cremi::marks),
    Layout::of_marks("dclab", dclab::marks),
    Layout {
        channels: ChannelSource::Own(flyem::channels),
        ..Layout::of_marks("FlyEM/gala", flyem::marks)
    },
    Layout::exclusive("ITK", itk::marks),
    Layout::of_marks("Berkeley EMD", berkeley::marks),
    Layout::of_marks("hyperspy", hyperspy::marks),
    Layout::of_marks("EMAN2", eman::marks),
    Layout {
        channels: ChannelSource::Own(chimera::channels),
        ..Layout::of_marks(chimera::NAME, chimera::marks)
    },
    Layout::exclusive("Segger", segger::marks),
    Layout::exclusive("Delmic", delmic::marks),
    Layout::exclusive("DREAM.3D", dream3d::marks),
    Layout::exclusive("simplnx", dream3d::simplnx::marks),
    Layout::of_marks("VTKHDF", vtk_hdf::marks),
    Layout::exclusive("openPMD", openpmd::marks),
    Layout::exclusive("HDF-EOS5", hdf_eos::marks),
    NEXUS,
    Layout::of_marks("ilastik", ilastik::marks),
    Layout::of_marks("HDF5 image", hdf_image::marks),
    Layout::of_marks("netCDF", netcdf::marks),
    Layout::of_marks("dimension labels", dimensions::marks),
    Layout::of_marks("PlantSeg/Fiji", element_size::marks),
    PLAIN,
];
/// A constant, because [`contents`] also reads the marks of this layout at links.
const NEXUS: Layout = Layout::of_marks("NeXus", nexus::marks);
/// The layout of every file that no other layout recognises.
const PLAIN: Layout = Layout::of_marks("plain", plain::marks);

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
    let (layout, because) = layout_of(&contents);
    let name = layout.name;
    let mut channels = match layout.channels {
        ChannelSource::Volumes => plain::channels(&contents, |_| true),
        ChannelSource::MarkedVolumes => {
            plain::channels(&contents, |volume| volume.marked_by(name).is_some())
        }
        ChannelSource::Own(channels) => channels(&contents),
    }?;
    nexus::mark_default(&contents, &mut channels);
    for channel in &mut channels {
        if channel.facts.voxel_size.is_some() && channel.facts.voxel_size_from.is_none() {
            channel.facts.voxel_size_from = Some(format!("the metadata of {name}"));
        }
    }
    let beside = take_beside(&mut channels);
    let mut lost = None;
    if let Some(search) = contents.searched() {
        omissions::note(&contents, search);
        lost = omissions::explanation(&search.unopened, &search.unlisted, &search.unfollowed);
    }
    Ok(Discovery {
        layout: name,
        because,
        channels,
        beside,
        lost,
        notices: contents.into_notices(),
    })
}

/// The first layout that recognises a file, and why it does.
fn layout_of(contents: &Contents<'_>) -> (Layout, String) {
    for layout in LAYOUTS {
        if let Some(because) = layout.recognises(contents) {
            return (*layout, because);
        }
    }
    (PLAIN, "it is an HDF5 file of no known layout".to_owned())
}

/// Takes the channels that lie beside the data out of a list: those that are less likely than
/// [`Rank::Ordinary`], or, if all channels are, than the likeliest channel.
fn take_beside(channels: &mut Vec<FoundChannel>) -> Vec<FoundChannel> {
    // Ranks that are less likely compare as greater.
    let likeliest = channels.iter().map(|channel| channel.rank).min();
    let lowest_of_data = likeliest.unwrap_or_default().max(Rank::Ordinary);
    channels
        .extract_if(.., |channel| channel.rank > lowest_of_data)
        .collect()
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
                LAYOUTS.iter().any(|layout| names_all(row, layout.name)),
                "{row} is not a layout"
            );
        }
        for layout in LAYOUTS
            .iter()
            .map(|layout| layout.name)
            .filter(|layout| !["voltile", "plain"].contains(layout))
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
        for Layout { name, .. } in LAYOUTS {
            assert!(list.contains(&words(name)[0]), "{name} is not listed");
        }
    }
}
