//! BigDataViewer's HDF5: `/t%05d/s%02d/%d/cells` by time point, setup and level.
//!
//! Source: the authors' description (BigDataViewer, "HDF5 Image Data" in "About the BigDataViewer
//! data format"). Each setup is a channel here. `/sNN/resolutions` has the factors in x, y, z
//! order; `cells` are z, y, x. Older files, whose setups lack the attribute `dataType`, store
//! unsigned 16-bit numbers as signed ones, bit for bit. A *view* is a setup at one time point; a
//! missing view is a gap.
//! Names, voxel sizes, registrations and the number of time points are in an XML file next to the
//! HDF5 file (see [`xml`]), which is optional.
//!
//! Example: `/t00000/s00/0/cells`, `/t00000/s00/1/cells` and the factors 1 1 1, 2 2 1 in
//! `/s00/resolutions` are the channel `s00` with one time point and two levels, the second
//! downsampled by 2 × 2 × 1.

mod xml;

use super::contents::Contents;
use super::{FoundChannel, FoundLevel, Paths, VoxelSize, numbered};

use voltile_base::geometry::Xyz;
use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_hdf5::volume::VoxelType;
use voltile_hdf5::volume::hdf5::{OpenError, OpenFile};
use xml::{Sequence, XmlText};

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let (_, time) = numbered(contents.root(), "t").into_iter().next()?;
    let (_, setup) = setups(contents).into_iter().next()?;
    let beside = XmlText::beside(contents.file.location(), contents.file.store());
    let xml = beside
        .map(|xml| format!(", and {} next to it", xml.name))
        .unwrap_or_default();
    Some(format!(
        "it has the groups {time} and {setup}/resolutions{xml}"
    ))
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let xml = XmlText::beside(contents.file.location(), contents.file.store());
    let parsed = xml.map_or_else(|| Ok(Sequence::default()), |xml| xml.parse());
    let sequence = parsed.unwrap_or_else(|problem| {
        contents.note(Notice::warning(problem));
        Sequence::default()
    });
    let times = numbered(contents.root(), "t");
    let mut channels = Vec::new();
    for (number, group) in setups(contents) {
        let setup = Setup {
            file: contents.file,
            number,
            group,
            times: &times,
            sequence: &sequence,
        };
        channels.push(setup.channel()?);
    }
    Ok(channels)
}

/// The groups of setups, by number.
fn setups(contents: &Contents<'_>) -> Vec<(u64, String)> {
    let mut setups = numbered(contents.root(), "s");
    setups.retain(|(_, setup)| contents.file.has(&format!("/{setup}/resolutions")));
    setups
}

/// One setup, and the sources of its description.
struct Setup<'a> {
    file: &'a OpenFile,
    number: u64,
    group: String,
    times: &'a [(u64, String)],
    sequence: &'a Sequence,
}

impl Setup<'_> {
    fn channel(&self) -> Result<FoundChannel, OpenError> {
        let present = self.times_present();
        let mut levels = Vec::new();
        for (level, factor) in self.factors().into_iter().enumerate() {
            let paths = self.cells(level, &present);
            // A view has all levels or none: checking each level at each time point would be slow
            // for long series.
            if paths.first().is_some_and(|first| self.file.has(first)) {
                let reinterpret_as = self.reinterpret_as(&paths)?;
                let mut level = FoundLevel::zyx(Some(factor), paths);
                level.view.reinterpret_as = reinterpret_as;
                levels.push(level);
            }
        }
        if levels.is_empty() {
            // Opening what would be the finest level gives the error message.
            let first = self.times.first().map_or("", |(_, time)| time);
            levels.push(FoundLevel::zyx(None, Paths::One(self.path(first, 0))));
        }
        let mut channel = FoundChannel::new(Name::nearest(&self.group), levels);
        if let Some(described) = self.sequence.setups.get(&self.number) {
            let voxel = VoxelSize::xyz(&described.voxel, described.unit.as_deref());
            let place = "the XML file: voxelSize of the view setup";
            channel = channel.with_voxel(voxel.map(|voxel| voxel.found_in(place)));
            channel.facts.label.clone_from(&described.name);
        }
        let size = channel.facts.voxel_size;
        let (transforms, remark) = self.sequence.transforms(self.number, size);
        channel.transforms = transforms;
        channel.notices.extend(remark.map(Notice::warning));
        Ok(channel)
    }

    /// The time points that have cells.
    fn times_present(&self) -> Vec<&(u64, String)> {
        self.times
            .iter()
            .filter(|(time, group)| {
                !self.sequence.missing.contains(&(self.number, *time))
                    && self.file.has(&self.path(group, 0))
            })
            .collect()
    }

    /// The path of the cells in a time point's group.
    fn path(&self, time: &str, level: usize) -> String {
        format!("/{time}/{}/{level}/cells", self.group)
    }

    /// The downsample factors of all levels, in x, y, z order.
    fn factors(&self) -> Vec<Xyz<u64>> {
        let numbers = self
            .file
            .numbers(&format!("/{}/resolutions", self.group))
            .unwrap_or_default();
        numbers
            .chunks_exact(3)
            .map(|row| Xyz::new(row[0], row[1], row[2]).map(|value| value.round().max(1.0) as u64))
            .collect()
    }

    /// The cells of each time point; time points are numbered from 0 and may be missing.
    fn cells(&self, level: usize, present: &[&(u64, String)]) -> Paths {
        let last = self.times.last();
        let times_in_file = last.map_or(0, |(last, _)| last.saturating_add(1));
        let paths = present
            .iter()
            .map(|(time, group)| (*time, self.path(group, level)));
        Paths::times(times_in_file.max(self.sequence.times), paths)
    }

    /// The type to reinterpret voxels as: unsigned for voxels of 16 signed bits, unless the setup
    /// states another `dataType`.
    fn reinterpret_as(&self, cells: &Paths) -> Result<Option<VoxelType>, OpenError> {
        let setup = self.file.attributes(&format!("/{}", self.group));
        let data_type = setup.text("dataType");
        let is_unsigned = data_type.is_none_or(|data_type| data_type == "uint16");
        let (_, cells) = self.file.first_dataset(cells.all())?;
        let is_signed = cells.stored.voxel == VoxelType::I16;
        Ok((is_signed && is_unsigned).then_some(VoxelType::U16))
    }
}
