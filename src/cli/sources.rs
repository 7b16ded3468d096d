//! The arguments that say where the settings and the files come from.

use std::path::PathBuf;

use clap::Args;
use voltile_hdf5::store::Location;

use super::failure::Failure;
use super::folders::Folders;
use super::memory;
use crate::config::{self, Layers};

/// The sources of the settings; shared by all commands that need datasets.
#[derive(Debug, Args)]
pub(super) struct Sources {
    /// HDF5 files to serve without a configuration, or folders, which are searched for HDF5 files
    /// down to files.depth folders below: the token is the name of the file without its extension,
    /// the channels are discovered. Files may be in object storage (s3://, gs://, az://) or on a
    /// web server (https://).
    #[arg(value_name = "FILE.h5 | FOLDER")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub configured: ConfigurationChoice,
}

/// The sources of the settings other than files.
#[derive(Debug, Clone, Args)]
pub(super) struct ConfigurationChoice {
    /// The configuration file; default: ./voltile.toml if it exists and no FILE is given.
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Set one key, such as render.threads=4; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl ConfigurationChoice {
    pub fn layers(&self) -> Layers {
        Layers {
            config: self.config.clone(),
            set: self.set.clone(),
            ..Layers::of_process()
        }
    }
}

impl Sources {
    pub fn layers(&self) -> Result<Layers, Failure> {
        let (mut layers, mut folders) = self.unsearched_layers()?;
        search(&mut folders, &mut layers)?;
        Ok(layers)
    }

    /// The layers of settings without the files in folders, and the folders to search for them.
    pub fn unsearched_layers(&self) -> Result<(Layers, Folders), Failure> {
        let files: Result<_, _> = self.files.iter().cloned().map(location).collect();
        let mut layers = Layers {
            files: files?,
            memory: memory::available(),
            ..self.configured.layers()
        }
        .or_default_file();
        let folders = Folders::among(&mut layers.files);
        layers.folders = folders.paths().to_vec();
        Ok((layers, folders))
    }
}

/// Searches the folders as deep as `files.depth` says, and puts the files into the layers.
pub(super) fn search(folders: &mut Folders, layers: &mut Layers) -> std::io::Result<()> {
    if !folders.is_empty() {
        layers.found.clear();
        let depth = config::load(layers).settings.files.depth;
        layers.found = folders.files(depth)?;
    }
    Ok(())
}

/// A file or an address on the command line. It is not parsed by clap, whose errors repeat the
/// typed text with its credentials.
pub(super) fn location(given: PathBuf) -> Result<Location, Failure> {
    Location::given(given).map_err(|error| Failure::Usage(error.to_string()))
}
