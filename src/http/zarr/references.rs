//! References in kerchunk's format, version 1: an OME-Zarr 0.4 image whose chunks are ranges
//! of bytes of the HDF5 files, for programs that read these files themselves. Derived levels, and
//! chunks that were never written, are left out.
//!
//! ```text
//! {"version":1,"refs":{
//! ".zgroup":"{\"zarr_format\":2}",
//! "0/0.0.0":["https://data.example.org/brain.h5",4096,65536],
//! …}}
//! ```

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};
use voltile_base::name::Name;
use voltile_base::request::{Malformed, VersionedToken};
use voltile_hdf5::store::Location;
use voltile_hdf5::store::address::published;
use voltile_hdf5::volume::{NoReferences, StoredArray};

use super::{fill, v2};
use crate::catalog::{ArrayLevel, Multiscale, NotFound, StoredLevel, ZarrImage};
use crate::http::context::Context;
use crate::http::document::write_to_bytes;
use crate::http::documents::{self, Document};
use crate::http::problem::{self, Answer};
use crate::service::TileError;

/// The maximum length of references that are sent, in bytes: enough for more than a million chunks.
const MAX_BYTES: usize = 128 << 20;

/// The response to `/references/TOKEN.json` or `/references/TOKEN/CHANNEL.json`, given without
/// `/references/`.
pub(in crate::http) async fn answer(context: &Context<'_>, path: &str) -> Answer {
    let Context { site, catalog, .. } = context;
    let references = &site.server.references;
    let (Some(prefix), Some(image)) = (references, path.strip_suffix(".json")) else {
        let place = "references are at /references/TOKEN.json and /references/TOKEN/CHANNEL.json";
        return Ok(problem::not_found(&format!(
            "{place}, if server.references names the public address of the data"
        )));
    };
    let (token, channel) = match image.split_once('/') {
        Some((token, channel)) => (token, Some(channel)),
        None => (image, None),
    };
    let token = VersionedToken::new(token).map_err(Malformed::from)?;
    let channel = channel
        .map(Name::new)
        .transpose()
        .map_err(Malformed::from)?;
    let image = site
        .service
        .image(catalog, &token, channel.as_ref())
        .await?;
    let measured = image.dataset().measured();
    let prefix = prefix.to_owned();
    let name = ("references", token.token, channel, prefix.clone());
    let read = Arc::clone(image.dataset());
    let document = documents::find(context, &name, measured, Some(&read), move || {
        let bytes = write_to_bytes(MAX_BYTES, |out| write(&image, Some(&prefix), out));
        let bytes = bytes.map_err(request_error)?;
        Ok(Document::new("application/json", vec![bytes]))
    });
    documents::answer_long(context, document.await?, too_large)
}

/// The error of a request for references that could not be written.
fn request_error(error: NoReferences) -> TileError {
    match error {
        NoReferences::Read(error) => error.into(),
        // The limit is the only reason why writing fails.
        NoReferences::Write(_) => too_large(),
        NoReferences::Unmapped { .. } => NotFound::Other(error.to_string()).into(),
    }
}

fn too_large() -> TileError {
    let problem = "the references are larger than 128 MiB, or than a quarter of render.boxes";
    TileError::TooLarge(format!(
        "{problem}; write them to a file with `voltile references`"
    ))
}

/// Writes the references of an image. With a public prefix, the address of each file begins with
/// the prefix; without one, files have their own paths and addresses. Reads no voxels.
///
/// # Errors
/// If a chunk cannot be read without HDF5, a file has no public address, or writing fails: then
/// what has been written is incomplete.
pub fn write(
    image: &ZarrImage,
    prefix: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), NoReferences> {
    out.write_all(b"{\"version\":1,\"refs\":{")?;
    let mut references = ReferenceWriter {
        image,
        prefix,
        out,
        metadata: Map::new(),
    };
    for (place, attributes, arrays) in v2::groups(image) {
        match arrays {
            Some(arrays) => references.multiscale(&place, &arrays, attributes)?,
            None => references.group(&place, attributes)?,
        }
    }
    let metadata = v2::zmetadata(&references.metadata);
    references.entry(".zmetadata", &metadata.to_string())?;
    Ok(references.out.write_all(b"}}\n")?)
}

/// Writes the entries of references one after the other.
struct ReferenceWriter<'a> {
    image: &'a ZarrImage,
    prefix: Option<&'a str>,
    out: &'a mut dyn Write,
    /// The documents that were written, by key, for `.zmetadata`: zarr-python finds labels in it.
    metadata: Map<String, Value>,
}

impl ReferenceWriter<'_> {
    fn entry(&mut self, key: &str, value: &impl Serialize) -> io::Result<()> {
        // `metadata` is empty only before the first entry, which is a document.
        let separator = if self.metadata.is_empty() {
            "\n"
        } else {
            ",\n"
        };
        self.out.write_all(separator.as_bytes())?;
        serde_json::to_writer(&mut *self.out, key)?;
        self.out.write_all(b":")?;
        Ok(serde_json::to_writer(&mut *self.out, value)?)
    }

    /// Writes a document as an entry: its text, as a JSON string.
    fn document(&mut self, key: String, document: Value) -> io::Result<()> {
        self.entry(&key, &document.to_string())?;
        self.metadata.insert(key, document);
        Ok(())
    }

    /// Writes the documents of a group.
    fn group(&mut self, place: &str, attributes: Value) -> io::Result<()> {
        self.document(format!("{place}.zgroup"), v2::group())?;
        self.document(format!("{place}.zattrs"), attributes)
    }

    /// Writes the entries of a multiscale group, with the arrays of its stored levels only.
    fn multiscale(
        &mut self,
        place: &str,
        arrays: &Multiscale<'_>,
        mut attributes: Value,
    ) -> Result<(), NoReferences> {
        let stored: Vec<(&ArrayLevel, Vec<&StoredLevel>)> = arrays
            .levels
            .iter()
            .filter_map(|level| Some((level, arrays.stored(level)?)))
            .collect();
        if let Some(Value::Array(datasets)) = attributes.pointer_mut("/multiscales/0/datasets") {
            let numbers = stored.iter().map(|(level, _)| level.level.number());
            let paths: Vec<String> = numbers.map(|number| number.to_string()).collect();
            datasets.retain(|dataset| paths.iter().any(|path| dataset["path"] == *path));
        }
        self.group(place, attributes)?;
        for (level, channels) in &stored {
            self.array(
                &format!("{place}{}/", level.level.number()),
                arrays,
                level,
                channels,
            )?;
        }
        Ok(())
    }

    /// Writes the entries of a level's array; `channels` are the stored levels of its channels. The
    /// array has only one shape, type, order and coding of chunks: all chunks must have those of
    /// the first ones.
    fn array(
        &mut self,
        place: &str,
        arrays: &Multiscale<'_>,
        level: &ArrayLevel,
        channels: &[&StoredLevel],
    ) -> Result<(), NoReferences> {
        let unlike =
            "its chunks have another shape or coding than those of other channels or time points";
        let elsewhere = "a file of it lies outside of the dataset's folder, or its name is no text";
        let mut first_metadata: Option<Value> = None;
        let volumes = channels
            .iter()
            .flat_map(|level| level.volumes.iter().map(|volume| (level.path(), volume)));
        // `c` is the index along the channel axis.
        for (c, (path, volume)) in (0..).zip(volumes) {
            volume.references(path, &mut |part| {
                let metadata = zarray(arrays, level, part.array);
                let unmapped = |problem: &str| NoReferences::unmapped(part.dataset, problem);
                match &first_metadata {
                    None => {
                        self.document(format!("{place}.zarray"), metadata.clone())?;
                        let attributes = v2::array_attributes(arrays);
                        self.document(format!("{place}.zattrs"), attributes)?;
                        first_metadata = Some(metadata);
                    }
                    Some(first) if *first == metadata => {}
                    Some(_) => return Err(unmapped(unlike)),
                }
                if arrays.axes.times.is_none() && part.array.chunk[0] > 1 {
                    return Err(unmapped("its chunks hold several time points"));
                }
                let address = self.address(part.file).ok_or_else(|| unmapped(elsewhere))?;
                for chunk in part.chunks {
                    let [t, z, y, x] = chunk.place;
                    let position = arrays.axes.chosen(t, c, [z, y, x]);
                    let indices: Vec<String> = position.iter().map(u64::to_string).collect();
                    let key = format!("{place}{}", indices.join("."));
                    self.entry(&key, &(&address, chunk.offset, chunk.length))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The address of a file in the references; `None` if it has none.
    fn address(&self, file: &Location) -> Option<String> {
        let Some(prefix) = self.prefix else {
            return file.plain();
        };
        published(prefix, &self.image.dataset().public_path(file)?)
    }
}

/// The metadata of a level whose chunks are read as they are stored.
fn zarray(arrays: &Multiscale<'_>, level: &ArrayLevel, stored: &StoredArray) -> Value {
    let [t, z, y, x] = stored.chunk;
    json!({
        "zarr_format": 2,
        "shape": arrays.shape(level),
        "chunks": arrays.axes.chosen(t, 1, [z, y, x]),
        "dtype": v2::dtype(stored.voxel, stored.is_big_endian),
        // As kerchunk writes it: VirtualiZarr looks for all codecs among the filters.
        "compressor": null,
        "filters": Some(&stored.codecs).filter(|codecs| !codecs.is_empty()),
        "fill_value": fill::value(Some(&stored.fill), stored.voxel),
        "order": if stored.is_reversed { "F" } else { "C" },
        "dimension_separator": ".",
    })
}
