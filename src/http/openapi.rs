//! The OpenAPI document: `openapi.json` describes the paths, and the schemas of JSON responses are
//! derived from the types.
//!
//! A test requests every path in the document and checks each response against its schema.

use serde_json::Value;
use utoipa::OpenApi;
use voltile_base::description::{
    DatasetDescription, LivenessDescription, RangeDescription, ReadinessDescription,
    SiteDescription,
};

use super::context::Context;
use super::documents::{self, Document};
use super::neuroglancer::VolumeInfo;
use super::problem::{Answer, Problem};
use super::viewers::catmaid::CatmaidProject;
use super::viewers::info::Info;
use crate::service::TileError;

/// The types that `openapi.json` refers to.
#[derive(OpenApi)]
#[openapi(components(schemas(
    CatmaidProject,
    DatasetDescription,
    Info,
    LivenessDescription,
    Problem,
    RangeDescription,
    ReadinessDescription,
    SiteDescription,
    VolumeInfo
)))]
struct JsonSchemas;

/// `/openapi.json`
pub(super) async fn document(context: &Context<'_>) -> Answer {
    documents::answer(context, &"openapi.json", 0, || {
        let described = complete().map_err(|error| TileError::Document(error.to_string()))?;
        Document::json(&described)
    })
    .await
}

/// `openapi.json` with the version of voltile and the derived schemas.
fn complete() -> serde_json::Result<Value> {
    let mut document: Value = serde_json::from_str(include_str!("openapi.json"))?;
    let mut derived = serde_json::to_value(JsonSchemas::openapi())?;
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document["components"]["schemas"] = derived["components"]["schemas"].take();
    Ok(document)
}
