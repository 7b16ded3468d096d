//! `voltile completions`: prints the completions of a shell, which are generated from the
//! definitions of the commands.

use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::Failure;
use super::output;

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completions of `program`.
pub(super) fn run(arguments: &CompletionsArguments, program: &Command) -> Result<(), Failure> {
    // In memory first, because the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut without_hidden(program),
        "voltile",
        &mut script,
    );
    output::print_bytes(&script)
}

/// The program without its hidden commands, which the generator would complete too.
fn without_hidden(program: &Command) -> Command {
    let shown = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned();
    Command::new("voltile")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown)
}
