//! `voltile man`: writes the manual pages, which are generated from the definitions of the
//! commands. For packagers.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;

use super::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// The directory to write to; created if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages of `program`.
pub(super) fn run(arguments: &ManArguments, program: Command) -> Result<(), Failure> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("{}: the directory cannot be created", directory.display()))?;
    // Without this, each command that has subcommands would get a page for `help` too.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    write(&program, directory).with_context(|| {
        format!(
            "{}: the manual pages cannot be written",
            directory.display()
        )
    })?;
    Ok(())
}

/// Writes the pages of a command and of all commands below it that are not hidden.
fn write(command: &Command, directory: &Path) -> std::io::Result<()> {
    let source = concat!("voltile ", env!("CARGO_PKG_VERSION"));
    // No date, so that packages are reproducible; an empty date would be left out, and the next
    // field take its place.
    Man::new(command.clone())
        .date(" ")
        .source(source)
        .manual("User Commands")
        .generate_to(directory)?;
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|below| write(below, directory))
}
