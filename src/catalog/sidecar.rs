//! Levels precomputed by `voltile pyramid`: in the sidecar next to a file, or in a volume that it
//! wrote.
//!
//! They are used only if they equal the levels that would be derived on the fly: from the same
//! files, the same datasets interpreted in the same way, and the same scaling. Other levels are
//! ignored with a warning that gives the reason. Windows are not measured on them: running `voltile
//! pyramid` must not change a window.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use voltile_base::geometry::Scaling;
use voltile_base::notice::Notice;
use voltile_hdf5::store::Location;
use voltile_hdf5::volume::hdf5::OpenFile;
use voltile_hdf5::volume::{Missing, VoxelType};

use super::levels::open_pyramid_level;
use super::stored::{StoredLevel, level_view};
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

/// The sidecars of all files opened so far; `None` for a file without a usable sidecar.
#[derive(Debug, Default)]
pub(super) struct Sidecars(HashMap<Location, Option<Arc<Sidecar>>>);

impl Sidecars {
    /// The sidecar of a file; if it is not usable, a notice is added, once for each file.
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
    /// The sidecar next to a file, or why it is ignored; `None` if there is no sidecar.
    fn beside(file: &OpenFile) -> Result<Option<Self>, String> {
        // Sidecars of objects in stores are not supported.
        let Some(original) = file.location().path() else {
            return Ok(None);
        };
        let path = sidecar_path(original);
        if !path.exists() {
            return Ok(None);
        }
        match Self::open(file, original, &path) {
            Ok(sidecar) => Ok(Some(sidecar)),
            Err(reason) => Err(format!("{} is ignored: {reason}", path.display())),
        }
    }

    fn open(file: &OpenFile, original: &Path, path: &Path) -> Result<Self, String> {
        let sidecar = file
            .open_other(&path.into())
            .map_err(|error| error.to_string())?;
        let inventory =
            Inventory::from_file(&sidecar).ok_or("it was not written by voltile pyramid")??;
        if inventory.role != Role::Sidecar {
            return Err("it is a whole volume, not the levels of another file".to_owned());
        }
        for stamp in &inventory.originals {
            stamp.check(&stamp.path(original)).map_err(|reason| {
                format!(
                    "{reason}; its levels were made from other data; remove it and run `voltile pyramid` again"
                )
            })?;
        }
        Ok(Self {
            file: sidecar,
            inventory,
        })
    }

    /// The record of a channel in this sidecar, or why none matches.
    fn record(&self, wanted: &LevelSearch<'_>) -> Result<&ChannelRecord, String> {
        let origin = origin(wanted.levels, wanted.missing);
        let scaling = wanted.scaling.name();
        let mut other_scaling = None;
        for record in &self.inventory.channels {
            let is_alike = record.kind == wanted.found.kind.name()
                && record.dtype == wanted.voxel.name()
                && record.origin == origin;
            if is_alike && record.scaling == scaling {
                return Ok(record);
            }
            if is_alike {
                other_scaling = other_scaling.or(Some(&record.scaling));
            }
        }
        Err(match other_scaling {
            Some(other) => format!(
                "its levels were made with scaling = \"{other}\", but this is \"{scaling}\""
            ),
            None => "none were made from these datasets, interpreted in this way".to_owned(),
        })
    }
}

/// Records of a channel's stored levels and of what its precomputed levels depend on. The sidecar
/// has these records from the time when it was written: its levels are usable if they are equal.
pub(super) fn origin(levels: &[StoredLevel], missing: &Missing) -> Vec<OriginRecord> {
    // Missing voxels are left out of means, so they decide about precomputed levels.
    let without = if missing.is_empty() {
        String::new()
    } else {
        format!(" without {}", missing.in_words())
    };
    let records = levels.iter().map(|level| OriginRecord {
        level: level.level().number(),
        z_factor: level.source.z_factor,
        size: level.shape.size.into(),
        paths: level.source.paths.in_words(),
        view: level.source.view.in_words() + &without,
    });
    records.collect()
}

/// A channel for which precomputed levels are looked up.
pub(super) struct LevelSearch<'a> {
    pub file: &'a OpenFile,
    pub found: &'a FoundChannel,
    pub levels: &'a [StoredLevel],
    pub voxel: VoxelType,
    pub missing: &'a Missing,
    pub scaling: Scaling,
}

impl LevelSearch<'_> {
    /// The usable precomputed levels, finest first.
    pub fn open(&self, sidecars: &mut Sidecars, notices: &mut Vec<Notice>) -> Vec<StoredLevel> {
        let mut usable = Vec::new();
        for level in &self.found.pyramid_levels {
            self.add(self.file, level, None, &mut usable, notices);
        }
        let Some(sidecar) = sidecars.find(self.file, notices) else {
            return usable;
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
                        &mut usable,
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
        usable
    }

    /// Opens a precomputed level, and adds it to the usable ones if it is what would be derived
    /// here. Otherwise adds a notice, unless there is a level of the same number already.
    fn add(
        &self,
        file: &OpenFile,
        level: &FoundLevel,
        sidecar: Option<&str>,
        usable: &mut Vec<StoredLevel>,
        notices: &mut Vec<Notice>,
    ) {
        let opened = open_pyramid_level(file, level, self.found.kind, sidecar);
        if let Ok(open) = &opened
            && usable.iter().any(|other| other.level() == open.level())
        {
            return;
        }
        match opened.and_then(|open| self.fitting(open)) {
            Ok(open) => usable.push(open),
            Err(reason) => notices.push(Notice::warning(format!(
                "the precomputed level {} in {} is not used: {reason}",
                level.paths.first().unwrap_or_default(),
                file.location()
            ))),
        }
    }

    /// A precomputed level if it equals, in number, z factor and size, the level that would be
    /// derived on the fly; otherwise the reason why it is not used.
    fn fitting(&self, level: StoredLevel) -> Result<StoredLevel, String> {
        match level_view(self.levels, level.level(), self.scaling) {
            Some(view) if !view.is_stored() && level.stands_for(&view) => Ok(level),
            _ => Err(format!(
                "it is not the level that scaling = \"{}\" would derive here",
                self.scaling.name()
            )),
        }
    }
}
