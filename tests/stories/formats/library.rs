//! Voxels as the HDF5 library reads them, and what follows from them for derived levels.

use std::path::{Path, PathBuf};

use half::f16;
use hdf5::H5Type;
use ndarray::{ArrayD, Axis, Ix4, Slice, indices};
use serde_json::Value;

use super::{Block, arranged, width};

/// Larger datasets are not read.
const MOST: usize = 1 << 25;

/// Datasets that are configured explicitly.
pub struct Library {
    pub folder: PathBuf,
    config: toml::Table,
}

impl Library {
    pub fn of(config: &Path) -> Self {
        let text = std::fs::read_to_string(config).unwrap();
        Self {
            folder: config.parent().unwrap().to_owned(),
            config: text.parse().unwrap(),
        }
    }

    /// All voxels of a level; `None` if the library cannot read them, if they are too many, or if
    /// they are means of reals, which depend on the order of the sum.
    pub fn level(&self, token: &str, channel: &Value, level: &Value, time: usize) -> Option<Block> {
        let dtype = channel["dtype"].as_str().unwrap().to_owned();
        let levels = channel["levels"].as_array().unwrap();
        let is_stored = |other: &&Value| {
            !other["path"].is_null() && other["level"].as_u64() <= level["level"].as_u64()
        };
        let stored = levels.iter().rfind(is_stored)?;
        let voxels = self.stored(token, channel, stored["path"].as_str().unwrap(), time)?;
        if stored == level {
            return Some(Block {
                dtype,
                bytes: voxels,
            });
        }
        let factor = |axis: usize| {
            level["factor"][axis].as_f64().unwrap() / stored["factor"][axis].as_f64().unwrap()
        };
        let steps = [2, 1, 0].map(|axis| factor(axis).round() as usize);
        if channel["kind"] == "labels" {
            let firsts = voxels.slice_each_axis(|of| match of.axis.index() {
                axis @ 1..4 => Slice::new(0, None, steps[axis - 1] as isize),
                _ => Slice::from(..),
            });
            return Some(Block {
                dtype,
                bytes: firsts.to_owned(),
            });
        }
        (!dtype.starts_with("float")).then(|| Block {
            bytes: means(&voxels, steps, &dtype),
            dtype,
        })
    }

    /// The voxels of a dataset at a time point.
    fn stored(&self, token: &str, channel: &Value, path: &str, time: usize) -> Option<ArrayD<u8>> {
        let dataset = self.config["datasets"].get(token)?;
        let own = dataset["channels"].get(channel["name"].as_str()?)?;
        let file = own.get("file").or(dataset.get("file"))?.as_str()?;
        let file = hdf5::File::open(self.folder.join(file)).ok()?;
        let dataset = file.dataset(path).ok()?;
        if dataset.size() > MOST {
            return None;
        }
        let mut bytes = read(&dataset, channel["dtype"].as_str()?)?;
        let mut left = String::new();
        for axis in own
            .get("axes")
            .map_or("zyx", |axes| axes.as_str().unwrap())
            .chars()
        {
            let place = Axis(left.len());
            let index = own
                .get("index")
                .and_then(|index| index.get(axis.to_string()));
            match (axis, index) {
                ('t', _) => bytes = bytes.index_axis_move(place, time),
                (_, Some(index)) => {
                    bytes = bytes.index_axis_move(place, index.as_integer()? as usize);
                }
                ('c', None) if channel["kind"] != "rgb" => bytes = bytes.index_axis_move(place, 0),
                ('c', None) => {
                    bytes.slice_axis_inplace(place, Slice::from(..3));
                    left.push(axis);
                }
                _ => left.push(axis),
            }
        }
        Some(arranged(bytes, &left))
    }
}

/// The voxels of a dataset, with a last axis of their bytes, which are little-endian on the machines
/// that run this test.
fn read(dataset: &hdf5::Dataset, dtype: &str) -> Option<ArrayD<u8>> {
    fn of<T: H5Type + bytemuck::NoUninit>(dataset: &hdf5::Dataset) -> Option<Vec<u8>> {
        let voxels = dataset.read_raw::<T>().ok()?;
        Some(bytemuck::cast_slice(&voxels).to_vec())
    }
    let bytes = match dtype {
        "bool" => of::<bool>(dataset),
        "uint8" => of::<u8>(dataset),
        "int8" => of::<i8>(dataset),
        "uint16" => of::<u16>(dataset),
        "int16" => of::<i16>(dataset),
        "uint32" => of::<u32>(dataset),
        "int32" => of::<i32>(dataset),
        "uint64" => of::<u64>(dataset),
        "int64" => of::<i64>(dataset),
        "float16" => dataset.read_raw::<f32>().ok().map(|voxels| {
            let halves = voxels.into_iter().map(f16::from_f32);
            halves.flat_map(f16::to_le_bytes).collect()
        }),
        "float32" => of::<f32>(dataset),
        _ => of::<f64>(dataset),
    };
    let shape = [dataset.shape(), vec![width(dtype)]].concat();
    ArrayD::from_shape_vec(shape, bytes?).ok()
}

/// An integer of its little-endian bytes.
fn integer(bytes: &[u8], dtype: &str) -> i128 {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unused = 128 - 8 * bytes.len();
    let shifted = i128::from_le_bytes(wide) << unused;
    if dtype.starts_with("int") {
        shifted >> unused
    } else {
        (shifted.cast_unsigned() >> unused).cast_signed()
    }
}

/// The means of boxes, rounded half up.
fn means(voxels: &ArrayD<u8>, steps: [usize; 3], dtype: &str) -> ArrayD<u8> {
    let &[colours, depth, rows, columns, width] = voxels.shape() else {
        panic!("five axes")
    };
    let extents = [depth, rows, columns];
    let voxels = voxels.as_slice().expect("standard layout");
    let values = voxels
        .chunks_exact(width)
        .map(|voxel| integer(voxel, dtype));
    let values =
        ArrayD::from_shape_vec(vec![colours, depth, rows, columns], values.collect()).unwrap();
    let values = values.into_dimensionality::<Ix4>().unwrap();
    let [depth, rows, columns] = [0, 1, 2].map(|axis| extents[axis].div_ceil(steps[axis]));
    let mut all = Vec::new();
    for (c, z, y, x) in indices((colours, depth, rows, columns)) {
        let along =
            |axis: usize, at: usize| at * steps[axis]..((at + 1) * steps[axis]).min(extents[axis]);
        let own = values.slice(ndarray::s![c, along(0, z), along(1, y), along(2, x)]);
        let count = own.len() as i128;
        all.extend(&(2 * own.sum() + count).div_euclid(2 * count).to_le_bytes()[..width]);
    }
    ArrayD::from_shape_vec(vec![colours, depth, rows, columns, width], all).unwrap()
}

/// The voxels in the type in which a format has them.
pub fn converted(block: &Block, to: &str) -> ArrayD<u8> {
    let (from, wide) = (width(&block.dtype), width(to));
    if from == wide {
        return block.bytes.clone();
    }
    let shape = block.bytes.shape();
    let mut bytes = Vec::new();
    for voxel in block.bytes.as_slice().unwrap().chunks_exact(from) {
        if to == "float32" {
            let half = f16::from_le_bytes([voxel[0], voxel[1]]);
            bytes.extend_from_slice(&half.to_f32().to_le_bytes());
        } else {
            let wider = integer(voxel, &block.dtype).to_le_bytes();
            bytes.extend_from_slice(&wider[..wide]);
        }
    }
    ArrayD::from_shape_vec([&shape[..shape.len() - 1], &[wide]].concat(), bytes).unwrap()
}

/// Whether voxels are equal; NaN equals NaN, whatever its bits.
pub fn are_equal(one: &ArrayD<u8>, other: &ArrayD<u8>, dtype: &str) -> bool {
    if one.shape() != other.shape() {
        return false;
    }
    let [one, other] = [one, other].map(|bytes| bytes.as_slice().expect("standard layout"));
    if one == other {
        return true;
    }
    let nan: fn(&[u8]) -> bool = match dtype {
        "float16" => |voxel| f16::from_le_bytes(voxel.try_into().unwrap()).is_nan(),
        "float32" => |voxel| f32::from_le_bytes(voxel.try_into().unwrap()).is_nan(),
        "float64" => |voxel| f64::from_le_bytes(voxel.try_into().unwrap()).is_nan(),
        _ => return false,
    };
    let mut pairs = one
        .chunks_exact(width(dtype))
        .zip(other.chunks_exact(width(dtype)));
    pairs.all(|(one, other)| one == other || (nan(one) && nan(other)))
}
