//! Confines `voltile serve` to what its configuration needs, and says so in the log.

use std::path::PathBuf;

use super::failure::Failure;
use crate::config::Settings;
use crate::confine::{self, AllowedFolders, Needs};
use crate::tools::demo;

const SUPERUSER: &str = "voltile runs as root, which it never needs: run it as a user who may only read the data files and \
     write the cache directory, such as with User= in a systemd unit or --user of the container";

/// Confines this process, which must have one thread only. `paths`: what else is read, such as the
/// configuration file.
pub(super) fn of_server<'a>(
    settings: &Settings,
    paths: impl Iterator<Item = &'a PathBuf>,
    has_demo: bool,
) -> Result<AllowedFolders, Failure> {
    if confine::is_superuser() {
        tracing::warn!("{SUPERUSER}");
    }
    if !settings.files.confinement {
        let allowed = AllowedFolders::unconfined();
        tracing::info!("{allowed}");
        return Ok(allowed);
    }
    let mut needs = paths.fold(Needs::from_settings(settings), |needs, path| {
        needs.and_file(path)
    });
    if has_demo
        && let path = demo::default_path(std::env::var_os)?
        && !demo::is_there(&path)
    {
        needs = needs.and_written(&path);
    }
    let allowed = confine::server(&needs);
    for folder in allowed.missing() {
        let folder = folder.display();
        tracing::warn!(
            "the folder {folder} does not exist: files in it can be served only after a restart"
        );
    }
    tracing::info!("{allowed}");
    Ok(allowed)
}
