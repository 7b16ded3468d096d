//! What a server needs of the file system, told from its settings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::{DatasetSettings, Settings};
use crate::store::{self, Location};

/// The folders that a process needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Folders to read.
    pub(super) read: BTreeSet<PathBuf>,
    /// Folders in which files are created and replaced.
    pub(super) write: BTreeSet<PathBuf>,
    /// Folders in which Unix sockets are created.
    pub(super) sockets: BTreeSet<PathBuf>,
    /// The dataset whose links may lead anywhere, so that reading cannot be restricted.
    pub(super) anywhere: Option<String>,
}

impl Needs {
    /// What the settings need: the folders of data files, secrets, certificates and the Unix
    /// socket, and the cache directory.
    pub fn from_settings(settings: &Settings) -> Self {
        Self::with_datasets(settings, |_| true)
    }

    /// What the settings need, without files found in folders: a found file that cannot be read is
    /// left out.
    pub(super) fn of_named(settings: &Settings) -> Self {
        Self::with_datasets(settings, |dataset| dataset.found_in.is_none())
    }

    fn with_datasets(settings: &Settings, is_needed: impl Fn(&DatasetSettings) -> bool) -> Self {
        let mut needs = Self::default();
        for (token, dataset) in settings
            .datasets
            .iter()
            .filter(|(_, dataset)| is_needed(dataset))
        {
            let channels = dataset
                .channels
                .values()
                .filter_map(|channel| channel.file.as_ref());
            for file in dataset.file.iter().chain(channels) {
                needs = match file {
                    Location::Path(path) => needs.and_file(path),
                    Location::Object(_) => needs.and_store(),
                };
            }
            let names = dataset
                .channels
                .values()
                .filter_map(|channel| channel.names.as_ref()?.file.as_ref());
            for names in names {
                needs = needs.and_file(names);
            }
            if dataset.allow_external && needs.anywhere.is_none() {
                needs.anywhere = Some(token.to_string());
            }
        }
        // A folder that does not exist may be part of a secret that was put in place of its file,
        // and would be logged.
        let is_known = |file: &&PathBuf| {
            file.parent()
                .is_some_and(|folder| folder == "" || folder.is_dir())
        };
        for secrets in settings
            .access
            .iter()
            .map(|access| &access.secrets)
            .filter(is_known)
        {
            needs = needs.and_file(secrets);
        }
        if let Some(tls) = &settings.server.tls {
            needs = needs.and_file(&tls.certificate).and_file(&tls.key);
        }
        if let Some(socket) = &settings.server.unix_socket {
            needs = needs.and_socket(socket);
        }
        needs.write.extend(settings.cache.directory.clone());
        if settings.cache.store.is_some() {
            needs = needs.and_store();
        }
        needs
    }

    /// Adds the folder of a file to be read, so that a file renamed into its place can be read too.
    /// Of a folder, itself.
    pub fn and_file(mut self, file: &Path) -> Self {
        if file.is_dir() {
            self.read.insert(file.to_owned());
        } else {
            self.read.extend(folders(file));
        }
        self
    }

    /// Adds what connections to stores take.
    fn and_store(mut self) -> Self {
        self.read
            .extend(store::files().into_iter().filter(|folder| folder.is_dir()));
        self
    }

    /// Adds the folder of a file to be written.
    pub fn and_written(mut self, file: &Path) -> Self {
        self.write.extend(folders(file));
        self
    }

    /// Adds the folder of a Unix socket to be created.
    pub fn and_socket(mut self, socket: &Path) -> Self {
        self.sockets.extend(folders(socket));
        self
    }

    /// Creates the folders to be written. Returns the folders that do not exist: nothing can be
    /// allowed there.
    pub(super) fn made(&self) -> Vec<PathBuf> {
        for folder in &self.write {
            if let Err(error) = fs::create_dir_all(folder) {
                tracing::debug!("{} cannot be created: {error}", folder.display());
            }
        }
        self.read
            .iter()
            .chain(&self.write)
            .chain(&self.sockets)
            .filter(|folder| !folder.is_dir())
            .cloned()
            .collect()
    }
}

/// The path with symbolic links resolved, as far as it exists.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = known else {
        return path;
    };
    match path.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    }
}

/// The folder of a file as named, and that of what it leads to.
pub(super) fn folders(file: &Path) -> impl Iterator<Item = PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        None => path.to_owned(),
    };
    [parent(file), parent(&resolved(file))].into_iter()
}
