//! References: chunks are read from the files themselves, at the places that `/references/` names,
//! as their metadata say.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::voxels::escaped;
use super::zarr::{Array, axes, block, region};
use super::{Block, Case, Format, assembled};
use crate::common::wire::Connection;

/// The public address of the folder, at which nothing listens.
pub const PUBLIC: &str = "https://data.example/";

/// The folder of the files.
pub struct References(pub PathBuf);

impl Format for References {
    fn name(&self) -> String {
        "references".to_owned()
    }

    fn read(&self, connection: &mut Connection, case: &Case<'_>) -> Vec<Block> {
        let answer = connection.get(&format!(
            "/references/{}/{}.json",
            escaped(case.token),
            escaped(case.name())
        ));
        if answer.status == 404 {
            assert!(
                answer.problem().contains("cannot be read without HDF5"),
                "{answer:?}"
            );
            return Vec::new();
        }
        let references = answer.json()["refs"].clone();
        let document = |key: &str| {
            references[key]
                .as_str()
                .map(|text| serde_json::from_str(text).unwrap())
        };
        let image: Value = document(".zattrs").unwrap();
        let level = case.number();
        let Some(array) = document(&format!("{level}/.zarray")) else {
            return Vec::new();
        };
        let array = Array::v2(&array);
        if !array.is_readable() {
            return Vec::new();
        }
        let axes = axes(&image["multiscales"][0]);
        let region = region(case, &axes, &array.shape, 0..case.components());
        let all = assembled(&array.chunks, &region, &array.filled(), |place| {
            let key: Vec<String> = place.iter().map(usize::to_string).collect();
            let reference = references.get(format!("{level}/{}", key.join(".")))?;
            let address = reference[0].as_str().unwrap().strip_prefix(PUBLIC).unwrap();
            let file = File::open(
                self.0
                    .join(&*percent_decode_str(address).decode_utf8().unwrap()),
            )
            .unwrap();
            let mut stored = vec![0; reference[2].as_u64().unwrap() as usize];
            file.read_exact_at(&mut stored, reference[1].as_u64().unwrap())
                .unwrap();
            Some(array.decoded(&stored))
        });
        vec![block(all, &axes, array.dtype)]
    }
}
