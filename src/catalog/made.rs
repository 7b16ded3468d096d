//! Levels precomputed by `voltile pyramid`: in the sidecar next to a file, or in a volume that it
//! wrote.
//!
//! They are used only if they equal what would be derived on the fly: from the same files, the same
//! datasets interpreted in the same way, and the same scaling. Others are ignored with a warning
//! that gives the reason. Windows are not measured on them: running `voltile pyramid` must not
//! change a window.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use voltile_base::geometry::{Level, LevelView, Scaling, Xyz};
use voltile_base::notice::Notice;
use voltile_base::paint::Kind;
use voltile_hdf5::store::Location;
use voltile_hdf5::volume::hdf5::OpenFile;
use voltile_hdf5::volume::{Missing, VoxelType};

use super::levels::open_made;
use super::stored::StoredLevel;
use crate::layout::inventory::{ChannelRecord, Inventory, OriginRecord, Role};
use crate::layout::{FoundChannel, FoundLevel};

/// The path of the sidecar of a file: `brain.h5.pyramid` for `brain.h5`.
pub fn sidecar_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".pyramid");
    PathBuf::from(name)
}

/// A sidecar that matches its file.
#[derive(Debug)]
pub(super) struct Sidecar {
    file: OpenFile,
    inventory: Inventory,
}

/// The sidecars of all files opened so far; `None` for a file without a usable one.
#[derive(Debug, Default)]
pub(super) struct Sidecars(HashMap<Location, Option<Arc<Sidecar>>>);

impl Sidecars {
    /// The sidecar of a file; a notice once per file if it is not usable.
    fn find(&mut self, file: &OpenFile, notices: &mut Vec<Notice>) -> Option<Arc<Sidecar>> {
        if let Some(known) = self.0.get(file.location()) {
            return known.clone();
        }
        let sidecar = Sidecar::beside(file).unwrap_or_else(|reason| {
            notices.push(Notice::warning(reason));
            None
        });
        let sidecar = sidecar.map(Arc::new);
        self.0.insert(file.location().clone(), sidecar.clone());
        sidecar
    }
}

impl Sidecar {
    fn beside(file: &OpenFile) -> Result<Option<Self>, String> {
        // Next to an object nothing is looked for.
        let Some(original) = file.location().path() else {
            return Ok(None);
        };
        let path = sidecar_path(original);
        if !path.exists() {
            return Ok(None);
        }
        let ignored = |reason: String| format!("{} is ignored: {reason}", path.display());
        let sidecar = file
            .other(&path.as_path().into())
            .map_err(|e| ignored(e.to_string()))?;
        let inventory =
            Inventory::from_file(&sidecar).filter(|inventory| inventory.role == Role::Sidecar);
        let Some(inventory) = inventory else {
            return Err(ignored(
                "it was not written by this version of voltile pyramid".to_owned(),
            ));
        };
        for stamp in &inventory.originals {
            let again =
                "its levels were made from other data; remove it and run `voltile pyramid` again";
            let checked = stamp.check(&stamp.path(original));
            checked.map_err(|reason| ignored(format!("{reason}; {again}")))?;
        }
        Ok(Some(Self {
            file: sidecar,
            inventory,
        }))
    }

    /// Its record of a channel, or why it has none that matches.
    fn record(&self, wanted: &Wanted<'_>) -> Result<&ChannelRecord, String> {
        let origin = origin(wanted.levels, wanted.missing);
        let alike = |record: &&ChannelRecord| {
            (record.kind.as_str(), record.dtype.as_str(), &record.origin)
                == (wanted.kind.name(), wanted.voxel.name(), &origin)
        };
        let mut records = self.inventory.channels.iter().filter(alike).peekable();
        let Some(first) = records.peek().copied() else {
            return Err("none were made from these datasets, interpreted in this way".to_owned());
        };
        let scaling = wanted.scaling.name();
        records
            .find(|record| record.scaling == scaling)
            .ok_or_else(|| {
                format!(
                    "its levels were made with scaling = \"{}\", but this is \"{scaling}\"",
                    first.scaling
                )
            })
    }
}

/// The records of the levels that others are derived from; equal whenever the same file is opened.
pub(super) fn origin(levels: &[StoredLevel], missing: &Missing) -> Vec<OriginRecord> {
    // Voxels that are left out of means.
    let without = if missing.is_empty() {
        String::new()
    } else {
        format!(" without {}", missing.in_words())
    };
    let record = |level: &StoredLevel| OriginRecord {
        level: level.level().number(),
        z_factor: level.source.z_factor,
        size: level.shape.size.into(),
        paths: level.source.paths.in_words(),
        view: level.source.view.in_words() + &without,
    };
    levels.iter().map(record).collect()
}

/// A channel for which precomputed levels are looked up.
pub(super) struct Wanted<'a> {
    pub file: &'a OpenFile,
    pub found: &'a FoundChannel,
    pub levels: &'a [StoredLevel],
    pub kind: Kind,
    pub voxel: VoxelType,
    pub missing: &'a Missing,
    pub scaling: Scaling,
}

impl Wanted<'_> {
    /// The usable precomputed levels, finest first.
    pub fn open(&self, sidecars: &mut Sidecars, notices: &mut Vec<Notice>) -> Vec<StoredLevel> {
        let mut made = Vec::new();
        for level in &self.found.made {
            self.add(self.file, level, None, &mut made, notices);
        }
        let Some(sidecar) = sidecars.find(self.file, notices) else {
            return made;
        };
        let name = sidecar
            .file
            .location()
            .as_path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match sidecar.record(self) {
            Ok(record) => {
                for level in record.levels.iter().filter(|level| level.made) {
                    self.add(
                        &sidecar.file,
                        &record.level(level),
                        Some(&name),
                        &mut made,
                        notices,
                    );
                }
            }
            Err(reason) => {
                notices.push(Notice::warning(format!(
                    "the levels in {name} are not used: {reason}"
                )));
            }
        }
        made
    }

    fn add(
        &self,
        file: &OpenFile,
        level: &FoundLevel,
        sidecar: Option<&str>,
        made: &mut Vec<StoredLevel>,
        notices: &mut Vec<Notice>,
    ) {
        let opened = open_made(file, level, self.kind, sidecar).and_then(|open| {
            if made.iter().any(|other| other.level() == open.level()) {
                return Ok(None);
            }
            self.fits(&open).then_some(Some(open)).ok_or_else(|| {
                format!(
                    "it is not the level that scaling = \"{}\" would derive here",
                    self.scaling.name()
                )
            })
        });
        match opened {
            Ok(level) => made.extend(level),
            Err(reason) => notices.push(Notice::warning(format!(
                "the precomputed level {} in {} is not used: {reason}",
                level.paths.first().unwrap_or_default(),
                file.location()
            ))),
        }
    }

    fn fits(&self, made: &StoredLevel) -> bool {
        view(self.levels, made.level(), self.scaling)
            .is_some_and(|view| !view.is_stored() && made.stands_for(&view))
    }
}

/// How a level is derived from the levels found by the layout.
pub(super) fn view(levels: &[StoredLevel], level: Level, scaling: Scaling) -> Option<LevelView> {
    let stored: Vec<(Level, u64, Xyz<u64>)> = levels
        .iter()
        .map(|l| (l.level(), l.source.z_factor, l.shape.size))
        .collect();
    LevelView::choose(level, &stored, scaling)
}
