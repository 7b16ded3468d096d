//! CATMAID's project file, for its importer: a project for each dataset, with a stack for each
//! channel and plane.
//!
//! The fields are the ones that are read by `PreProject`, `PreStack` and `PreMirror` of CATMAID's
//! `control/importer.py`; triples are strings such as "(1, 2, 3)", as `fields.py` parses them. All
//! values are in the stack's own axes: x along columns, y along rows, z along slices. CATMAID
//! divides slice numbers by a level's z factor and rounds down (`layers/tile-layer.js`,
//! `tilesForLocation`), which is how slices of levels are numbered here, too.
//!
//! CATMAID's third orientation is zy, with columns along z, the transpose of our yz tiles. Its
//! stacks are cut out of the precomputed format (tile source 14,
//! `NeuroglancerPrecomputedImageBlockSource` in `tile-source.js`), which CATMAID reads in any order
//! of axes. To check a mirror, CATMAID requests the chunk of the canary location by its unclipped
//! extent. For zy that is the first chunk, so the first chunk must not be clipped.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use utoipa::ToSchema;
use voltile_base::description::{ChannelDescription, DatasetDescription};
use voltile_base::geometry::{Level, Plane, TILE, Xyz};
use voltile_base::units;

use crate::catalog::Precomputed;
use crate::config::{ContentType, Mount};
use crate::http::documents::BASE;

/// One entry of the project file.
#[derive(Debug, Serialize, ToSchema)]
pub struct CatmaidProject {
    project: CatmaidProjectContent,
}

/// A project: one dataset.
#[derive(Debug, Serialize, ToSchema)]
struct CatmaidProjectContent {
    /// The token.
    title: String,
    /// One for each of the planes xy and xz of each channel, and for zy of images.
    stacks: Vec<CatmaidStack>,
}

#[derive(Debug, Serialize, ToSchema)]
struct CatmaidStack {
    /// Channel and plane.
    title: String,
    /// In pixels at full resolution: columns, rows, slices.
    dimension: String,
    /// The size of a pixel in nanometres: columns, rows, slices; 1 if it is unknown.
    resolution: String,
    /// 0 is xy, 1 is xz, 2 is zy.
    orientation: u8,
    /// The position of the stack in the project, in nanometres.
    translation: String,
    /// The downsample factors of each level: columns, rows, slices.
    downsample_factors: Vec<String>,
    /// A pixel inside the volume, which CATMAID requests to check that a mirror is accessible.
    canary_location: String,
    comment: String,
    metadata: String,
    /// One for each mount; a zy stack has one.
    mirrors: Vec<CatmaidMirror>,
}

/// The address of a stack's tiles.
#[derive(Debug, Serialize, ToSchema)]
struct CatmaidMirror {
    title: String,
    /// The prefix of `SLICE/ROW_COLUMN_LEVEL.png`; for source 14 a precomputed volume, and the axes
    /// of columns, rows and slices.
    url: String,
    fileextension: &'static str,
    tile_width: u64,
    tile_height: u64,
    /// 1: files. 9: the same, with adjustable colour, range and gamma. 14: chunks in the
    /// precomputed format.
    tile_source_type: u8,
    /// CATMAID prefers the lowest.
    position: usize,
}

/// The planes whose tiles CATMAID shows, and its numbers for them.
const ORIENTATIONS: [(Plane, u8); 2] = [(Plane::Xy, 0), (Plane::Xz, 1)];
/// CATMAID's number for zy.
const ZY: u8 = 2;

/// Writes the project file, one project at a time. `precomputed` finds a channel in the precomputed
/// format by the names of dataset and channel.
pub(super) fn write(
    datasets: &[DatasetDescription],
    precomputed: impl Fn(&str, &str) -> Option<Precomputed>,
    mounts: &[Mount],
    out: &mut impl Write,
) -> io::Result<()> {
    let projects = datasets.iter().map(|dataset| {
        let mut stacks = Vec::new();
        for channel in &dataset.channels {
            for orientation in ORIENTATIONS {
                stacks.extend(stack(dataset, channel, orientation, mounts));
            }
            if let Some(chunks) = precomputed(&dataset.token, &channel.name) {
                stacks.extend(zy_stack(dataset, channel, &chunks));
            }
        }
        CatmaidProject {
            project: CatmaidProjectContent {
                title: dataset.token.clone(),
                stacks,
            },
        }
    });
    Ok(serde_json::Serializer::new(out).collect_seq(projects)?)
}

/// An image in the zy plane, from its chunks in the precomputed format; `None` if CATMAID cannot
/// show it.
fn zy_stack(
    dataset: &DatasetDescription,
    channel: &ChannelDescription,
    precomputed: &Precomputed,
) -> Option<CatmaidStack> {
    let full = precomputed
        .scales
        .first()
        .filter(|full| full.level == Level::FULL)?;
    let chunk = *full.chunk_sizes.first()?;
    // The first chunk is requested as the canary.
    let is_whole = chunk.zip(full.size, |edge, size| edge <= size).everywhere();
    if channel.kind != "image" || precomputed.components != 1 || !is_whole || full.size.z == 1 {
        return None;
    }
    let mut factors = Vec::new();
    for scale in &precomputed.scales {
        let [x, y, z] = channel.level(scale.level.number())?.factor;
        factors.push(triple([z, y, x]));
    }
    let voxel = nanometres(channel);
    let first_voxel = dataset.first_slice(channel, [1; 3]);
    let position = first_voxel.zip(voxel, |offset, size| offset as f64 * size);
    let first_time = channel.first_time();
    let time = first_time.map_or_else(String::new, |time| format!("@{time}"));
    Some(CatmaidStack {
        title: format!("{} zy", channel.name),
        dimension: triple([full.size.z, full.size.y, full.size.x]),
        resolution: triple([voxel.z, voxel.y, voxel.x]),
        orientation: ZY,
        translation: triple(position.into()),
        downsample_factors: factors,
        canary_location: triple([0, 0, 0]),
        comment: comment(channel),
        metadata: String::new(),
        mirrors: vec![CatmaidMirror {
            title: "precomputed".to_owned(),
            url: format!(
                "{BASE}/neuroglancer/{}/{}{time}/%SCALE_DATASET%/2_1_0",
                dataset.address(),
                channel.name
            ),
            fileextension: "raw",
            tile_width: chunk.z,
            tile_height: chunk.y,
            tile_source_type: 14,
            position: 0,
        }],
    })
}

/// A channel in a plane; `None` if the plane is not available at full resolution. Each triple of
/// numbers is columns, rows, slices.
fn stack(
    dataset: &DatasetDescription,
    channel: &ChannelDescription,
    (plane, orientation): (Plane, u8),
    mounts: &[Mount],
) -> Option<CatmaidStack> {
    let offered = channel
        .levels
        .iter()
        .take_while(|level| level.is_offered(plane));
    let full = channel.levels.first()?;
    let [columns, rows] = full.drawn[plane as usize];
    let offset = dataset.first_slice(channel, [1; 3])[plane.slice_axis()];
    let slices = Xyz::from(full.size)[plane.slice_axis()];
    // Slice numbers include the offset: the slices with lower numbers are offered, and are black.
    let depth = slices.saturating_add_signed(offset);
    let middle = (slices / 2).saturating_add_signed(offset);
    let is_square = channel.orthogonal == "isotropic" && plane != Plane::Xy;
    let voxel = nanometres(channel);
    let row = if is_square {
        plane.column_axis()
    } else {
        plane.row_axis()
    };
    // With square pixels, rows have the downsample factor and the pixel size of columns.
    let axes = [plane.column_axis(), row, plane.slice_axis()];
    let factors: Vec<String> = offered
        .map(|level| triple(axes.map(|axis| Xyz::from(level.factor)[axis])))
        .collect();
    if factors.is_empty() {
        return None;
    }
    // Slice numbers include the offset of the volume; rows and columns are counted from its first
    // voxel.
    let mut position = Xyz::from(dataset.offset).zip(voxel, |offset, size| offset as f64 * size);
    position[plane.slice_axis()] = 0.0;
    let first_time = channel.first_time();
    let time = first_time.map_or_else(String::new, |time| format!("{time}/"));
    let below = format!("{}/{}/{plane}/{time}", dataset.address(), channel.name);
    Some(CatmaidStack {
        title: format!("{} {plane}", channel.name),
        dimension: triple([columns, rows, depth]),
        resolution: triple(axes.map(|axis| voxel[axis])),
        orientation,
        translation: triple(<[f64; 3]>::from(position)),
        downsample_factors: factors,
        canary_location: triple([columns / 2, rows / 2, middle]),
        comment: comment(channel),
        metadata: String::new(),
        mirrors: mirrors(mounts, &channel.kind, &below),
    })
}

/// The channel's label, without the character that stands for the server's address: the label is
/// from the file.
fn comment(channel: &ChannelDescription) -> String {
    channel
        .facts
        .label
        .as_deref()
        .unwrap_or_default()
        .replace(BASE, "")
}

/// One mirror for each mount; first the mounts whose tiles CATMAID can draw with WebGL.
fn mirrors(mounts: &[Mount], kind: &str, below: &str) -> Vec<CatmaidMirror> {
    let mut sorted: Vec<&Mount> = mounts.iter().collect();
    sorted.sort_by_key(|mount| mount.content_type != ContentType::ImagePng);
    let positioned = sorted.into_iter().enumerate();
    let mirrors = positioned.map(|(position, mount)| CatmaidMirror {
        title: mount.tile_service.to_string(),
        url: format!("{BASE}/{}/tilecache/{below}", mount.tile_service),
        fileextension: "png",
        tile_width: TILE as u64,
        tile_height: TILE as u64,
        tile_source_type: if mount.adjustable && kind != "labels" {
            9
        } else {
            1
        },
        position,
    });
    mirrors.collect()
}

/// The size of a voxel in nanometres; 1 along each axis if unknown, and the size as given if the
/// unit is unknown.
fn nanometres(channel: &ChannelDescription) -> Xyz<f64> {
    let size = channel.facts.voxel_size.unwrap_or(Xyz::all(1.0));
    let unit = units::nanometres(channel.facts.voxel_unit.as_deref());
    size.map(|length| length * unit)
}

/// Numbers as CATMAID parses them: `(1, 2, 3)`.
fn triple<T: std::fmt::Display>([x, y, z]: [T; 3]) -> String {
    format!("({x}, {y}, {z})")
}
