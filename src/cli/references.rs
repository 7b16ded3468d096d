//! `voltile references`: where the stored chunks of a volume lie, for programs that read its files
//! themselves.

use std::fs::Permissions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tempfile::Builder;
use voltile_base::name::Name;
use voltile_base::paths::folder_of;
use voltile_base::request::VersionedToken;

use super::failure::Failure;
use super::load::load_without_faults;
use super::log::LogWriter;
use super::output;
use super::sources::Sources;
use crate::catalog::{Catalog, ZarrImage};
use crate::http::write_references;

#[derive(Debug, Args)]
pub(super) struct ReferencesArguments {
    #[command(flatten)]
    sources: Sources,
    /// The dataset, if there are several.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Only this channel; default: the dataset's image in OME-Zarr, with its labels.
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// The output file; - is standard output. It names files by their own paths and addresses, or
    /// by the addresses that server.references gives them.
    #[arg(short, long, value_name = "REFS.json")]
    output: PathBuf,
}

pub(super) fn run(log: &LogWriter, arguments: &ReferencesArguments) -> Result<(), Failure> {
    let loaded = load_without_faults(log, &arguments.sources.layers()?)?;
    let datasets = loaded.catalog.datasets();
    let tokens: Vec<&str> = datasets.map(|dataset| dataset.token.as_str()).collect();
    let token = match (&arguments.token, tokens.as_slice()) {
        (Some(token), _) => token.as_str(),
        (None, [only]) => *only,
        (None, _) => {
            return Err(Failure::Usage(format!(
                "there are several datasets; choose one with --token: {}",
                tokens.join(", ")
            )));
        }
    };
    let image = chosen_image(&loaded.catalog, token, arguments.channel.as_deref())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let prefix = loaded.settings.server.references.as_deref();
    let write_to = |out: &mut dyn Write| write_references(&image, prefix, out);
    let path = &arguments.output;
    if path.as_os_str() == "-" {
        let mut text = Vec::new();
        write_to(&mut text)?;
        return output::print_bytes(&text);
    }
    // The file gets its name when it is whole, and has the permissions of other new files.
    let partial = Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder_of(path));
    let unwritable = || format!("{} cannot be written", path.display());
    let mut out = BufWriter::new(partial.with_context(unwritable)?);
    write_to(&mut out)?;
    out.into_inner()
        .with_context(unwritable)?
        .persist(path)
        .with_context(unwritable)?;
    Ok(())
}

/// The image of a dataset or of one of its channels.
fn chosen_image(
    catalog: &Catalog,
    token: &str,
    channel: Option<&str>,
) -> anyhow::Result<ZarrImage> {
    let token = VersionedToken::new(token)?;
    let channel = channel.map(Name::new).transpose()?;
    Ok(catalog.image(&token, channel.as_ref())?)
}
