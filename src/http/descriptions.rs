//! JSON descriptions: of the whole site, or of one dataset with statistics of its channels.
//!
//! The site's description never reads a voxel. The description of a dataset may: it waits until the
//! channels have been sampled, which happens once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use voltile_base::description::SiteDescription;
use voltile_base::name::Name;
use voltile_base::request::VersionedToken;
use voltile_hdf5::store::Location;

use super::caching::REVALIDATED;
use super::context::{Context, query_parameter};
use super::documents::{self, Document};
use super::problem::{self, Answer, ErrorResponse, WaitingDataset};
use crate::catalog::{Dataset, NotFound, advice};
use crate::service::TileError;

/// `/datasets.json`: describes all datasets, or only those that `?tokens=` names. A dataset that
/// does not exist, or that the request may not see, is left out.
pub(super) async fn all(context: &Context<'_>) -> Answer {
    let site = Arc::clone(context.site);
    let catalog = Arc::clone(&context.catalog);
    let tokens = tokens(context);
    let chosen: Vec<Arc<Dataset>> = match &tokens {
        Some(tokens) => {
            let visible = tokens.iter().filter_map(|token| catalog.dataset(token));
            visible.cloned().collect()
        }
        None => catalog.datasets().cloned().collect(),
    };
    // If named datasets wait to be opened, the answer is marked with one of them.
    let waiting = tokens
        .iter()
        .flatten()
        .find(|token| catalog.is_waiting(token))
        .cloned();
    let measured = chosen.iter().map(|dataset| dataset.measured()).sum();
    let protected = !context.sees_everything();
    let response = documents::answer(context, &("datasets.json", tokens), measured, move || {
        let described = chosen
            .iter()
            .map(|dataset| catalog.describe_dataset(dataset));
        Document::json(&SiteDescription {
            datasets: described.collect(),
            protected,
            ..site.description.clone()
        })
    })
    .await;
    let response = response.unwrap_or_else(|error| *error.0);
    Ok(match waiting {
        Some(token) => problem::with_mark(response, WaitingDataset(token)),
        None => response,
    })
}

/// The tokens in `?tokens=`; `None` if it is absent, which means all datasets.
fn tokens(context: &Context<'_>) -> Option<BTreeSet<Name>> {
    let list = query_parameter(context.request.query_string(), "tokens")?;
    // A text that is not a valid name is the name of no dataset.
    let names = list.split(',').filter_map(|name| Name::new(name).ok());
    Some(names.collect())
}

/// The dataset that a segment of a path names, perhaps with a version.
pub(super) fn named<'c>(
    context: &'c Context<'_>,
    segment: &str,
) -> Result<&'c Arc<Dataset>, ErrorResponse> {
    let wanted = VersionedToken::new(segment).map_err(|_| problem::no_dataset(segment))?;
    let dataset = context.catalog.requested_dataset(&wanted);
    dataset.map_err(|error| match error {
        NotFound::Token { token, .. } => problem::no_dataset(token.as_str()),
        other => other.into(),
    })
}

/// `/datasets/TOKEN/about.json`: the output of `voltile inspect --json`. Reads chunk indexes.
pub(super) async fn about(context: &Context<'_>, token: &str) -> Answer {
    let dataset = named(context, token)?;
    let name = ("about.json", dataset.token.clone());
    let catalog = Arc::clone(&context.catalog);
    let read = Arc::clone(dataset);
    let dataset = Arc::clone(dataset);
    let document = documents::find(context, &name, 0, Some(&read), move || {
        let inspection = catalog.inspect(&dataset);
        // Clients do not learn where the file is.
        let file = dataset
            .listed()
            .next()
            .and_then(|channel| channel.file.as_path().file_name());
        let file = Location::from(PathBuf::from(file.unwrap_or_default()));
        let mut warnings = advice::warnings(&inspection, &file);
        // The commands that mend a file work on files of this machine.
        if dataset.is_remote() {
            for warning in &mut warnings {
                warning.mend = None;
            }
        }
        let about = inspection
            .json(&warnings)
            .map_err(|error| TileError::Document(error.to_string()))?;
        Document::json(&about)
    });
    Ok(document.await?.response(context.request, REVALIDATED, None))
}

/// `/datasets/TOKEN.json`
pub(super) async fn one(context: &Context<'_>, token: &str) -> Answer {
    let dataset = named(context, token)?;
    let service = &context.site.service;
    let mut problems = service.sample_all(dataset, context.demand()).await;
    // Only labels have names, and labels are not sampled: no other problem is overwritten.
    for (channel, problem) in dataset.listed().zip(&mut problems) {
        if let Some(names) = &channel.names {
            let read = service.names(dataset, names).await;
            *problem = read.err().map(|error| error.public());
        }
    }
    let catalog = Arc::clone(&context.catalog);
    let dataset = Arc::clone(dataset);
    // The problems are part of the document's name, because they may differ at the next request.
    let name = ("dataset.json", dataset.token.clone(), problems.clone());
    documents::answer(context, &name, dataset.measured(), move || {
        Document::json(&catalog.describe_sampled(&dataset, &problems))
    })
    .await
}
