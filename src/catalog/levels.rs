//! Opening a channel's stored levels: datasets become volumes, factors become levels.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::channel::{LevelIdentity, StoredLevel};
use crate::axes::AxisName;
use crate::geometry::{Level, Xyz};
use crate::layout::{FoundChannel, FoundLevel, Paths};
use crate::paint::Kind;
use crate::volume::hdf5::{FileIdentity, OpenError, OpenFile, StorageDescription, View};
use crate::volume::{ReadError, Series, Volume, VolumeShape};

/// The stored levels of a channel.
pub(super) struct Levels {
    /// Those that can be used, finest first.
    pub stored: Vec<StoredLevel>,
    /// What people should know of the others, and of what cannot be decoded.
    pub remarks: Vec<String>,
}

impl Levels {
    /// Opens every level that was found.
    pub fn open(file: &OpenFile, found: &FoundChannel) -> Result<Self, String> {
        let (mut stored, mut unused): (Vec<StoredLevel>, Vec<String>) = (Vec::new(), Vec::new());
        let mut full = None;
        for level in &found.levels {
            let open = open_level(file, level, found.kind).map_err(|e| e.to_string())?;
            let size = open.shape.size;
            let factor = level.factor.unwrap_or_else(|| full.unwrap_or(size).zip(size, nearest_ratio));
            full = full.or(Some(size));
            match Level::from_factor(factor.x).filter(|_| factor.x == factor.y) {
                Some(number) if !stored.iter().any(|other| other.level() == number) => {
                    stored.push(open.into_stored(number, factor.z.max(1), level));
                }
                _ => unused.push(not_used(file, found, level, factor)),
            }
        }
        stored.sort_by_key(StoredLevel::level);
        let missing: BTreeSet<&String> =
            stored.iter().flat_map(|level| &level.storage.missing_filters).collect();
        let remarks =
            missing.into_iter().map(|filter| not_decoded(file, found, filter)).chain(unused).collect();
        Ok(Self { stored, remarks })
    }
}

fn not_used(file: &OpenFile, found: &FoundChannel, level: &FoundLevel, factor: Xyz<u64>) -> String {
    format!(
        "the stored level {} of the channel {} of {} is not used: it is reduced by {factor} (x × y × z), and only one \
         level for each power of two, alike in x and y, can be",
        level.paths.first().unwrap_or_default(),
        found.name,
        file.path().display()
    )
}

fn not_decoded(file: &OpenFile, found: &FoundChannel, filter: &str) -> String {
    format!(
        "the channel {} of {} is stored with the filter {filter}, which this build cannot decode: its tiles will be \
         errors",
        found.name,
        file.path().display()
    )
}

/// The volumes of a stored level, and what they are.
struct OpenLevel {
    shape: VolumeShape,
    volumes: Vec<Arc<dyn Volume>>,
    identity: FileIdentity,
    storage: StorageDescription,
}

impl OpenLevel {
    fn into_stored(self, level: Level, z_factor: u64, found: &FoundLevel) -> StoredLevel {
        let (paths, view) = (found.paths.clone(), found.view.clone());
        let identity = LevelIdentity { level, z_factor, file: self.identity, paths, view };
        StoredLevel { size: self.shape.size, storage: self.storage, identity, volumes: self.volumes }
    }
}

fn open_level(file: &OpenFile, level: &FoundLevel, kind: Kind) -> Result<OpenLevel, OpenError> {
    let path = level.paths.first().unwrap_or("/");
    let dataset = file.dataset(path)?;
    let wrong = |problem: String| OpenError::Object {
        path: dataset.file.path.clone(),
        object: path.to_owned(),
        problem,
    };
    let views = if kind == Kind::Rgb {
        components(&dataset.shape, &level.view).map_err(wrong)?
    } else {
        vec![level.view.clone()]
    };
    let volumes =
        views.iter().map(|view| open_volume(file, &level.paths, view)).collect::<Result<Vec<_>, _>>()?;
    let shape =
        volumes.first().map(|volume| volume.shape()).ok_or_else(|| wrong("it has no voxels".to_owned()))?;
    Ok(OpenLevel { shape, volumes, identity: dataset.file.identity.clone(), storage: dataset.describe() })
}

/// The views of red, green and blue.
fn components(shape: &[u64], view: &View) -> Result<Vec<View>, String> {
    let extent = view.axes.position(AxisName::C).and_then(|position| shape.get(position));
    match extent {
        Some(3 | 4) => Ok((0..3)
            .map(|component| {
                let mut view = view.clone();
                view.fixed.retain(|(axis, _)| *axis != AxisName::C);
                view.fixed.push((AxisName::C, component));
                view
            })
            .collect()),
        _ => Err(format!(
            "kind = \"rgb\" needs an axis c of 3 or 4; its axes are \"{}\" and its shape is {shape:?}",
            view.axes
        )),
    }
}

fn open_volume(file: &OpenFile, paths: &Paths, view: &View) -> Result<Arc<dyn Volume>, OpenError> {
    match paths {
        Paths::One(path) => Ok(Arc::new(file.volume(path, view)?)),
        Paths::Times(times) => {
            let shape = file.volume(paths.first().unwrap_or("/"), view)?.shape();
            let present = times.iter().map(Option::is_some).collect();
            let (file, view, times) = (file.clone(), view.clone(), times.clone());
            let open = move |time: u64| {
                let path =
                    usize::try_from(time).ok().and_then(|time| times.get(time)?.as_deref()).unwrap_or("/");
                let volume = file.volume(path, &view).map_err(|e| unreadable(path, &e))?;
                Ok(Arc::new(volume) as Arc<dyn Volume>)
            };
            Ok(Arc::new(Series::new(shape, present, Box::new(open))))
        }
    }
}

fn unreadable(path: &str, error: &OpenError) -> ReadError {
    ReadError::Damaged { place: path.to_owned(), problem: error.to_string() }
}

/// The factor that a size tells, whichever way it was rounded.
fn nearest_ratio(full: u64, size: u64) -> u64 {
    ((2 * full + size) / (2 * size.max(1))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_told_from_sizes_however_they_were_rounded() {
        let ratio = |full: Xyz<u64>, size: Xyz<u64>| full.zip(size, nearest_ratio);
        assert_eq!(ratio(Xyz::new(1021, 1013, 7), Xyz::new(510, 507, 7)), Xyz::new(2, 2, 1));
        assert_eq!(ratio(Xyz::new(1000, 900, 30), Xyz::new(125, 113, 15)), Xyz::new(8, 8, 2));
    }
}
