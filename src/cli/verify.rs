//! `voltile verify`: makes the requests that viewers make to a running server, and reports what keeps a viewer black.

use clap::Args;

use super::failure::Failure;
use super::{choices, output};
use crate::tools::client::Client;
use crate::tools::verify::{Outcome, Viewer, verify};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The URL of the server, such as http://127.0.0.1:8080 or https://HOST, or its Unix socket: unix:/run/voltile.sock
    #[arg(value_name = "URL")]
    url: String,
    /// Simulate only this viewer; may be repeated.
    #[arg(long, value_name = "VIEWER", value_parser = choices::parser(Viewer::ALL))]
    viewer: Vec<Viewer>,
    /// Check only this dataset; may be repeated.
    #[arg(long, value_name = "TOKEN")]
    token: Vec<String>,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.url).map_err(Failure::Usage)?;
    let report = verify(&client, &arguments.viewer, &arguments.token);
    output::print_as(arguments.json, &report, |report| format!("{report}\n"))?;
    match report.count(Outcome::Fail) {
        0 => Ok(()),
        failed => Err(Failure::Work(anyhow::anyhow!("{failed} of {} checks failed", report.findings.len()))),
    }
}
