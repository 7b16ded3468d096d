//! Names and properties of labels: where the table of a channel is, and the table once it has been read.
//!
//! A table is read when it is first needed. A text file is read again once it has changed; a table in the HDF5 file of the
//! channel is opened anew with the file.

mod proposed;
mod stored;
mod table;
mod text;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use table::{Column, Labels};

use crate::config::NamesSettings;
use crate::flow::stalls::{self, Stalls, Unresponsive};
use crate::store::Store;
use crate::volume::hdf5::{FileIdentity, OpenFile};

/// The table of a channel.
#[derive(Debug)]
pub struct Names {
    settings: NamesSettings,
    /// The file of the channel.
    file: OpenFile,
    /// The table, or what is wrong with it, in one generation of its text file.
    known: Mutex<Option<(Option<FileIdentity>, Outcome)>>,
    /// Held while the table is read on behalf of requests.
    turn: Arc<tokio::sync::Mutex<()>>,
    reads: AtomicUsize,
}

type Outcome = Result<Arc<Labels>, String>;

impl Names {
    /// The table that settings name in a file or for it. Its contents are not read.
    pub(super) fn open(settings: &NamesSettings, file: &OpenFile) -> Result<Self, String> {
        let names = Self {
            settings: settings.clone(),
            file: file.clone(),
            known: Mutex::default(),
            turn: Arc::default(),
            reads: AtomicUsize::new(0),
        };
        let is_there = match (&settings.file, &settings.path) {
            (Some(text), _) => identity(text).map(drop),
            (None, path) if path.as_ref().is_none_or(|path| file.has(path)) => Ok(()),
            _ => Err("there is no such group or dataset".to_owned()),
        };
        is_there.map_err(|problem| format!("{}: {problem}", names.place()))?;
        Ok(names)
    }

    /// The table as it was last read; `None` if it was not, or is wrong.
    pub(super) fn known(&self) -> Option<Arc<Labels>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()?.1.ok()
    }

    /// How often the table has been read.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// The table, read on a thread for blocking work unless it is known. Errors do not name its file. Fails if the file is
    /// stuck.
    pub async fn get(self: &Arc<Self>, stalls: &Stalls) -> Result<Outcome, Unresponsive> {
        let (turn, names) = (Arc::clone(&self.turn).lock_owned().await, Arc::clone(self));
        let stalls = stalls.clone();
        let read = tokio::task::spawn_blocking(move || (stalls.watched(|| names.read()), turn).0);
        read.await.unwrap_or_else(|error| Ok(Err(error.to_string())))
    }

    /// The table, read unless it is known. Blocks.
    pub fn read(&self) -> Outcome {
        let NamesSettings { file, path, id, name } = &self.settings;
        let (id, name) = (id.as_deref(), name.as_deref());
        let now = file.as_deref().map(identity).transpose()?;
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, labels)) = known().as_ref().filter(|(then, _)| *then == now) {
            return labels.clone();
        }
        let labels = match (file, path) {
            (Some(file), _) => text::read(file, id, name),
            (None, path) => stored::read(&self.file, path.as_deref().unwrap_or("/"), id, name),
        };
        let labels =
            labels.map(Arc::new).map_err(|problem| format!("the table of names is wrong: {problem}"));
        if let Err(problem) = &labels {
            tracing::error!("{}: {problem}", self.place());
        }
        // It is read again once the file answers.
        if !stalls::was_refused() {
            *known() = Some((now, labels.clone()));
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        labels
    }

    /// Where the table is, for operators.
    pub(super) fn place(&self) -> String {
        match (&self.settings.file, &self.settings.path) {
            (Some(file), _) => file.display().to_string(),
            (None, path) => format!("{} in {}", path.as_deref().unwrap_or("/"), self.file.location()),
        }
    }
}

/// The table for the labels of a channel that a file obviously has, or that lies beside it. `others`: whether the file has
/// other channels of labels.
pub(super) fn propose(file: &OpenFile, channel: &str, others: bool) -> Option<NamesSettings> {
    proposed::table(file, channel, others)
}

/// Reads the table at a path, until that moment at most, and forgets it.
pub(super) fn try_out(file: &OpenFile, path: &str, until: Instant) {
    let mut take = |_: &[u8]| if Instant::now() > until { Err(String::new()) } else { Ok(()) };
    // Only whether the library survives counts: errors are reported when the table is read for use.
    let _ = file.columns(path).into_iter().flatten().try_for_each(|column| column.read(&mut take));
}

fn identity(text: &Path) -> Result<FileIdentity, String> {
    FileIdentity::from_location(&text.into(), &Store::default())
        .map_err(|error| format!("the table of names cannot be opened: {error}"))
}
