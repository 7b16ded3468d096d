//! `/healthz` and `/livez`: whether the process answers; `/readyz`: whether requests should be sent
//! to it.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use futures_util::future::join_all;
use voltile_base::description::{LivenessDescription, ProblemDescription, ReadinessDescription};
use voltile_base::name::Name;
use voltile_base::notice::NoticeCount;

use super::context::Context;
use crate::catalog::{Catalog, Closed, Dataset, Origin};
use crate::service::{ServicePart, TileError};

/// How long the files of all datasets may take to be checked for changes.
const PATIENCE: Duration = Duration::from_secs(2);

const NOT_STORED: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// Answers the addresses that report on the state of the server; `None` for all other addresses.
pub(super) async fn answer(context: &Context<'_>) -> Option<HttpResponse> {
    match context.path {
        "/healthz" => Some(
            HttpResponse::Ok()
                .content_type("text/plain; charset=utf-8")
                .body("ok\n"),
        ),
        "/livez" => {
            let alive = LivenessDescription {
                status: "ok".to_owned(),
            };
            Some(HttpResponse::Ok().insert_header(NOT_STORED).json(alive))
        }
        "/readyz" => Some(readiness(context).await),
        _ => None,
    }
}

fn dataset_problem(token: &Name, problem: String) -> ProblemDescription {
    ProblemDescription {
        part: "dataset".to_owned(),
        dataset: Some(token.to_string()),
        problem,
    }
}

fn part_problem(part: ServicePart, problem: String) -> ProblemDescription {
    ProblemDescription {
        part: part.name().to_owned(),
        dataset: None,
        problem,
    }
}

async fn readiness(context: &Context<'_>) -> HttpResponse {
    let all = context.site.service.catalog();
    let visible = &context.catalog;
    let mut problems = problems_of_closed(visible);
    let mut broken = 0;
    let check = async {
        let checks = all.datasets().map(|dataset| problem_of(context, dataset));
        for (dataset, problem) in all.datasets().zip(join_all(checks).await) {
            let Some(problem) = problem else { continue };
            broken += 1;
            if visible.dataset(&dataset.token).is_some() {
                problems.push(dataset_problem(&dataset.token, problem));
            }
        }
    };
    if tokio::time::timeout(PATIENCE, check).await.is_err() {
        let seconds = PATIENCE.as_secs();
        let problem = format!("not all files could be checked for changes within {seconds} s");
        problems.push(part_problem(ServicePart::Files, problem));
    }
    if context.sees_everything() {
        for (part, problem) in context.site.service.part_problems() {
            problems.push(part_problem(part, problem));
        }
    }
    let (status, word) = if context.site.listeners.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else if all.datasets().count() == broken {
        (StatusCode::SERVICE_UNAVAILABLE, "nothing can be served")
    } else {
        (StatusCode::OK, "ready")
    };
    let ready = ReadinessDescription {
        status: word.to_owned(),
        datasets: visible.datasets().count(),
        noticed: NoticeCount::of(visible.datasets().flat_map(|dataset| &dataset.notices)),
        problems,
    };
    HttpResponse::build(status)
        .insert_header(NOT_STORED)
        .json(ready)
}

/// The problems of datasets that are not open.
fn problems_of_closed(catalog: &Catalog) -> Vec<ProblemDescription> {
    let mut problems = Vec::new();
    let mut waiting = 0;
    for (token, closed) in catalog.closed() {
        match closed {
            Closed::Unreachable(problem) => problems.push(dataset_problem(token, problem.clone())),
            Closed::Waiting => waiting += 1,
        }
    }
    if waiting > 0 {
        let problem = format!("{waiting} files found in folders have not been opened yet");
        problems.push(part_problem(ServicePart::Files, problem));
    }
    problems
}

/// Why requests for tiles of a dataset fail now; `None` if they succeed.
async fn problem_of(context: &Context<'_>, dataset: &Arc<Dataset>) -> Option<String> {
    let service = &context.site.service;
    let problem = match service.ensure_unchanged(&Origin::whole(dataset)).await {
        Err(error) => Some(error.to_string()),
        Ok(()) => {
            let stuck = service.stalls().ensure_answer(dataset.files()).err();
            stuck.map(|stuck| TileError::from(stuck).to_string())
        }
    }?;
    match service.health().of_dataset(&dataset.token) {
        Some(reason) => Some(format!("{problem}; it cannot be reopened yet: {reason}")),
        None => Some(problem),
    }
}
