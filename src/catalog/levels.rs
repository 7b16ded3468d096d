//! Opens a channel's stored levels as volumes, and determines their level numbers from downsample
//! factors.

use std::collections::BTreeSet;
use std::sync::Arc;

use voltile_base::axes::AxisName;
use voltile_base::geometry::{Level, Xyz};
use voltile_base::notice::Notice;
use voltile_base::paint::Kind;
use voltile_base::tile::Fingerprint;
use voltile_hdf5::volume::hdf5::{
    FileIdentity, MissingFiles, OpenError, OpenFile, StoredDataset, View,
};
use voltile_hdf5::volume::{
    ComplexPart, Mapped, Polar, ReadError, Repeated, Series, Volume, VolumeShape,
};

use super::stored::{LevelSource, StoredLevel};
use crate::layout::{FoundChannel, FoundLevel, Part, Paths, first_of};

/// The maximum number of datasets of a series that are opened to find the further files (external,
/// virtual) that they refer to.
const MAX_AUDITED: usize = 1000;

/// The levels of a channel.
pub(super) struct ChannelLevels {
    /// The usable levels, finest first.
    pub stored: Vec<StoredLevel>,
    /// Levels precomputed by `voltile pyramid`; empty until they are looked for.
    pub pyramid_levels: Vec<StoredLevel>,
    /// Notices about levels that are not used, and about usable levels that lack filters or files.
    pub notices: Vec<Notice>,
    /// Whether parts of the usable levels are missing.
    pub has_gaps: bool,
}

impl ChannelLevels {
    /// Opens every level found. An error if the finest level cannot be opened; coarser levels that
    /// cannot be opened are left out.
    pub fn open(file: &OpenFile, found: &FoundChannel) -> Result<Self, String> {
        let mut stored: Vec<StoredLevel> = Vec::new();
        let mut notices = Vec::new();
        let mut has_gaps = false;
        let mut finest_shape: Option<VolumeShape> = None;
        for level in &found.levels {
            let opened = open_level(file, level, found.kind, |shape| {
                // The first level that can be opened is the finest.
                let finest = finest_shape.get_or_insert_with(|| shape.clone());
                let factor = level
                    .factor
                    .unwrap_or_else(|| finest.size.zip(shape.size, nearest_ratio));
                let number = level_number(shape, finest, factor, &stored)?;
                Ok((number, factor.z.max(1)))
            });
            match opened {
                Ok((open, missing)) => {
                    notices.extend(incompleteness(level, &missing));
                    has_gaps |= !missing.sources.is_empty() || lacks_parts(&level.paths);
                    stored.push(open);
                }
                Err(error) if finest_shape.is_none() => return Err(error),
                Err(reason) => notices.push(not_used(level, &reason)),
            }
        }
        stored.sort_by_key(StoredLevel::level);
        notices.extend(stored.iter().flat_map(undecodable));
        Ok(Self {
            stored,
            pyramid_levels: Vec::new(),
            notices,
            has_gaps,
        })
    }

    /// The shape of the level at full resolution, if there is one.
    pub fn full(&self) -> Option<&VolumeShape> {
        let first = self.stored.first()?;
        (first.level() == Level::FULL).then_some(&first.shape)
    }
}

/// The level number of a stored level with this shape, or why it cannot be used.
fn level_number(
    shape: &VolumeShape,
    finest: &VolumeShape,
    factor: Xyz<u64>,
    others: &[StoredLevel],
) -> Result<Level, String> {
    let VolumeShape { voxel, times, .. } = *shape;
    if voxel != finest.voxel {
        return Err(format!(
            "its voxels are {}, those of the finest level are {}",
            voxel.name(),
            finest.voxel.name()
        ));
    }
    if times < finest.times {
        return Err(format!(
            "it has {times} time points, the finest level has {}",
            finest.times
        ));
    }
    let is_taken = |level: Level| others.iter().any(|other| other.level() == level);
    match Level::from_factor(factor.x) {
        Some(level) if factor.x == factor.y && !is_taken(level) => Ok(level),
        _ => Err(format!(
            "it is downsampled by {factor} (x × y × z); the factor must be a power of two, equal in x and y, and \
             different from those of other levels"
        )),
    }
}

fn not_used(level: &FoundLevel, reason: &str) -> Notice {
    let path = level.paths.first().unwrap_or_default();
    Notice::warning(format!("the stored level {path} is not used: {reason}"))
}

/// Notices about the filters of a level that cannot be decoded.
fn undecodable(level: &StoredLevel) -> impl Iterator<Item = Notice> {
    level.storage.missing_filters.iter().map(|filter| {
        Notice::error(format!(
            "{} is stored with the filter {filter}, which this build cannot decode: its tiles are errors. Rewrite it with \
             another filter",
            level.path()
        ))
    })
}

/// Notices about the missing files of a level.
fn incompleteness(level: &FoundLevel, missing: &MissingFiles) -> Vec<Notice> {
    let path = level.paths.first().unwrap_or_default();
    let raw = first_of(missing.raw.iter().map(|raw| raw.display().to_string()));
    let sources = first_of(missing.sources.iter().cloned());
    let mut notices = Vec::new();
    if !raw.is_empty() {
        notices.push(Notice::error(format!(
            "{path} is incomplete: raw files are missing, and tiles of what they hold are errors: {raw}"
        )));
    }
    if !sources.is_empty() {
        notices.push(Notice::error(format!(
            "{path} is incomplete: sources are missing; boxes and simple tiles show the fill value there: {sources}"
        )));
    }
    notices
}

/// Whether whole parts of a level along z are missing.
fn lacks_parts(paths: &Paths) -> bool {
    matches!(paths, Paths::Parts(parts) if parts.iter().any(|part| part.path.is_none()))
}

/// Opens a precomputed level; `sidecar` is the file name of the sidecar that contains it, if it is
/// in one.
pub(super) fn open_pyramid_level(
    file: &OpenFile,
    level: &FoundLevel,
    kind: Kind,
    sidecar: Option<&str>,
) -> Result<StoredLevel, String> {
    // A level without a factor is refused below: no level has the factor 0.
    let factor = level.factor.unwrap_or(Xyz::all(0));
    let number = Level::from_factor(factor.x).filter(|_| factor.x == factor.y);
    let number = number.ok_or_else(|| format!("it is downsampled by {factor}"))?;
    let (stored, _) = open_level(file, level, kind, |_| Ok((number, factor.z)))?;
    Ok(StoredLevel {
        sidecar: sidecar.map(str::to_owned),
        ..stored
    })
}

/// Opens a level, and lists the files that it refers to but that do not exist. `number_of` gets the
/// shape of the level, and returns its number and z factor, or why it cannot be used.
fn open_level(
    file: &OpenFile,
    found: &FoundLevel,
    kind: Kind,
    number_of: impl FnOnce(&VolumeShape) -> Result<(Level, u64), String>,
) -> Result<(StoredLevel, MissingFiles), String> {
    let (path, first) = file
        .first_dataset(found.paths.all())
        .map_err(|error| error.to_string())?;
    let volumes =
        open_volumes(file, found, kind, path, &first).map_err(|error| error.to_string())?;
    let (files, missing) = referred_files(file, &found.paths, &first);
    let shape = volumes[0].shape().clone();
    let (level, z_factor) = number_of(&shape)?;
    let source = LevelSource {
        level,
        z_factor,
        paths: found.paths.clone(),
        view: found.view.clone(),
    };
    let stored = StoredLevel {
        shape,
        storage: first.describe(),
        sidecar: None,
        fingerprint: Fingerprint::digest(&(&source, file.key_of(&files))),
        source,
        files,
        volumes,
    };
    Ok((stored, missing))
}

/// The volumes of a level: one, or one for each of red, green and blue. Its first dataset is
/// `first`, at `path`.
fn open_volumes(
    file: &OpenFile,
    level: &FoundLevel,
    kind: Kind,
    path: &str,
    first: &StoredDataset,
) -> Result<Vec<Arc<dyn Volume>>, OpenError> {
    let views = match kind {
        Kind::Rgb => {
            colour_views(&first.shape, &level.view).map_err(|problem| OpenError::Object {
                file: first.file.location.clone(),
                object: path.to_owned(),
                problem,
            })?
        }
        Kind::Image | Kind::Labels => vec![without_palette(&level.view)],
    };
    views
        .iter()
        .map(|view| open_volume(file, &level.paths, view))
        .collect()
}

/// The files that contain the datasets of a level or that the datasets refer to, and the files
/// among them that do not exist.
fn referred_files(
    file: &OpenFile,
    paths: &Paths,
    first: &StoredDataset,
) -> (BTreeSet<FileIdentity>, MissingFiles) {
    let mut files: BTreeSet<_> = first.files.iter().cloned().collect();
    let mut missing = first.missing.clone();
    if let Paths::One(_) | Paths::Frames(..) = paths {
        return (files, missing);
    }
    for (number, path) in paths.all().enumerate() {
        let audited = (number < MAX_AUDITED).then(|| file.dataset(path));
        if let Some(Ok(dataset)) = audited {
            files.extend(dataset.files.iter().cloned());
            missing.raw.extend(dataset.missing.raw.iter().cloned());
            let sources = dataset.missing.sources.iter();
            missing.sources.extend(sources.cloned());
            continue;
        }
        // The dataset is not opened, so only the file that contains it is known. If there is no
        // such file, one of the files that the external link at this path may lead to can appear
        // later.
        match file.file_of(path) {
            Ok(own) => files.extend([own]),
            Err(_) => files.extend(file.awaited(path)),
        }
    }
    (files, missing)
}

/// The view without its palette, if it has one: the indices into the palette are shown instead.
fn without_palette(view: &View) -> View {
    View {
        values: view.values.clone().filter(|values| !values.is_palette()),
        ..view.clone()
    }
}

/// One view for each of red, green and blue.
fn colour_views(shape: &[u64], view: &View) -> Result<Vec<View>, String> {
    if let Some(palette) = view.values.as_ref().filter(|values| values.is_palette()) {
        let colours = (0..3).map(|component| View {
            values: palette.component(component),
            ..view.clone()
        });
        return Ok(colours.collect());
    }
    let axis = view.axes.position(AxisName::C);
    let Some(3 | 4) = axis.and_then(|axis| shape.get(axis)) else {
        return Err(format!(
            "kind = \"rgb\" needs an axis c of extent 3 or 4; its axes are \"{}\" and its shape is {shape:?}",
            view.axes
        ));
    };
    let mut views = Vec::new();
    for component in 0..3 {
        let mut colour = view.clone();
        colour.fixed.retain(|(axis, _)| *axis != AxisName::C);
        colour.fixed.push((AxisName::C, component));
        views.push(colour);
    }
    Ok(views)
}

fn open_volume(file: &OpenFile, paths: &Paths, view: &View) -> Result<Arc<dyn Volume>, OpenError> {
    let stored = match view.part.filter(|part| part.is_computed()) {
        // Phase or magnitude.
        Some(part) => {
            let mut part_view = view.clone();
            part_view.part = Some(ComplexPart::Real);
            let real = open_stored(file, paths, &part_view)?;
            part_view.part = Some(ComplexPart::Imaginary);
            let imaginary = open_stored(file, paths, &part_view)?;
            Arc::new(Polar::new([real, imaginary], part == ComplexPart::Phase))
        }
        None => open_stored(file, paths, view)?,
    };
    let shown: Arc<dyn Volume> = match &view.values {
        Some(values) => Arc::new(Mapped::new(stored, values.clone())),
        None => stored,
    };
    Ok(if view.repeat == Xyz::all(1) {
        shown
    } else {
        Arc::new(Repeated::new(shown, view.repeat))
    })
}

/// The volume of the stored values.
fn open_stored(file: &OpenFile, paths: &Paths, view: &View) -> Result<Arc<dyn Volume>, OpenError> {
    match paths {
        Paths::One(path) => Ok(Arc::new(file.volume(path, view)?)),
        Paths::Times(times) => Ok(Arc::new(open_series(file, times, view)?)),
        Paths::Parts(parts) => Ok(Arc::new(open_stack(file, parts, view)?)),
        Paths::Frames(path, present) => Ok(Arc::new(open_frames(file, path, present, view)?)),
    }
}

/// A time series in one dataset, some of whose time points are missing.
fn open_frames(
    file: &OpenFile,
    path: &str,
    present: &[bool],
    view: &View,
) -> Result<Series, OpenError> {
    let shape = file.volume(path, view)?.shape().clone();
    let file = file.clone();
    let path = path.to_owned();
    let view = view.clone();
    Ok(Series::new(
        shape,
        present.to_vec(),
        Box::new(move |time| {
            let mut view = view.clone();
            view.fixed.push((AxisName::T, time));
            open_one(&file, &path, &view)
        }),
    ))
}

/// Parts that follow each other along z; parts whose datasets do not exist are missing.
fn open_stack(file: &OpenFile, parts: &[Part], view: &View) -> Result<Series, OpenError> {
    let mut paths = Vec::new();
    for part in parts {
        let path = part.path.as_ref();
        paths.push(path.filter(|path| file.has(path)).cloned());
    }
    let depths: Vec<u64> = parts.iter().map(|part| part.depth).collect();
    Ok(open_series(file, &paths, view)?.along_z(&depths))
}

/// A series with one dataset for each time point or part; `None` is a missing one.
fn open_series(
    file: &OpenFile,
    paths: &[Option<String>],
    view: &View,
) -> Result<Series, OpenError> {
    let (first, _) = file.first_dataset(paths.iter().flatten().map(String::as_str))?;
    let shape = file.volume(first, view)?.shape().clone();
    let present = paths.iter().map(Option::is_some).collect();
    let file = file.clone();
    let view = view.clone();
    let paths = paths.to_vec();
    Ok(Series::new(
        shape,
        present,
        Box::new(move |number| {
            let path = paths.get(number as usize).and_then(Option::as_deref);
            open_one(&file, path.unwrap_or("/"), &view)
        }),
    ))
}

/// One of the datasets of a series, opened when it is first read.
fn open_one(file: &OpenFile, path: &str, view: &View) -> Result<Arc<dyn Volume>, ReadError> {
    let place = path.to_owned();
    match file.volume(path, view) {
        Ok(volume) => Ok(Arc::new(volume)),
        Err(OpenError::Missing { file, object, name }) => {
            let missing = format!("{name:?} (for {object} in {file})");
            Err(ReadError::Missing { place, missing })
        }
        Err(OpenError::Unresponsive(error)) => Err(error.into()),
        Err(other) => Err(ReadError::Damaged {
            place,
            problem: other.to_string(),
        }),
    }
}

/// The downsample factor between two sizes: their ratio, rounded to the nearest whole number. It is
/// 2 for 1021 and 510, and for 1021 and 511: the smaller size may have been rounded down or up.
fn nearest_ratio(full: u64, size: u64) -> u64 {
    ((2 * full + size) / (2 * size.max(1))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_follow_from_sizes_however_they_were_rounded() {
        let ratio = |full: Xyz<u64>, size: Xyz<u64>| full.zip(size, nearest_ratio);
        assert_eq!(
            ratio(Xyz::new(1021, 1013, 7), Xyz::new(510, 507, 7)),
            Xyz::new(2, 2, 1)
        );
        assert_eq!(
            ratio(Xyz::new(1000, 900, 30), Xyz::new(125, 113, 15)),
            Xyz::new(8, 8, 2)
        );
    }
}
