//! Names and properties of labels: `/datasets/TOKEN/CHANNEL/labels.json`, which lists or searches
//! them page by page, and Neuroglancer's `segment_properties`.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use voltile_base::flow::cache::Abandoned;
use voltile_base::name::Name;
use voltile_base::request::Malformed;
use voltile_hdf5::volume::ReadError;

use super::caching::REVALIDATED;
use super::context::{Context, query_parameter};
use super::descriptions;
use super::document::{Document, MAX_LENGTH, MAX_PROPERTIES_LENGTH, write_to_bytes};
use super::problem::Answer;
use crate::catalog::{Column, Labels};
use crate::service::{TileError, Urgency};

/// The number of labels of a page, unless the request says how many.
const DEFAULT_COUNT: u64 = 100;
/// The maximum number of labels of a page.
const MAX_COUNT: u64 = 1000;
/// The maximum number of different tags of the labels of a channel.
const MAX_TAGS: usize = 1024;

/// The response with a page of the labels of a channel.
pub(super) async fn page(context: &Context<'_>, token: &str, channel: &str) -> Answer {
    let dataset = descriptions::named(context, token)?;
    let channel = Name::new(channel).map_err(Malformed::from)?;
    let names = dataset.names(&channel)?;
    let query = context.request.query_string();
    let ids = numbers(query, "id")?;
    let after = number(query, "after")?;
    let max_count = number(query, "count")?
        .unwrap_or(DEFAULT_COUNT)
        .clamp(1, MAX_COUNT) as usize;
    let search = query_parameter(query, "search").unwrap_or_default();
    let labels = context.site.service.names(dataset, names).await?;
    let mut demand = context.demand();
    if !search.is_empty() {
        // The least urgency: searches come after all other requests.
        demand.urgency = Urgency::View;
    }
    let page = context.site.service.in_turn(demand, move |interest| {
        let (ranks, has_more) = if ids.is_empty() {
            labels.page(after, max_count, &search, || interest.is_there())
        } else {
            let ranks = ids.iter().filter_map(|id| labels.find(*id));
            (ranks.collect(), false)
        };
        if !interest.is_there() {
            return Err(ReadError::from(Abandoned).into());
        }
        let next = match ranks.last() {
            Some(last) if has_more => Some(labels.id(*last).to_string()),
            _ => None,
        };
        let page: Vec<Value> = ranks.iter().map(|rank| label(&labels, *rank)).collect();
        Document::json(&json!({ "total": labels.count(), "labels": page, "next": next }))
    });
    let page = page.await?;
    if page.length() > MAX_LENGTH {
        let problem = "this page of labels is longer than 16 MiB; ask for fewer labels (count)";
        return Err(TileError::TooLarge(problem.to_owned()).into());
    }
    Ok(page.response(context.request, REVALIDATED, None))
}

fn number(query: &str, parameter: &'static str) -> Result<Option<u64>, Malformed> {
    let number = query_parameter(query, parameter).map(|value| {
        value.parse().map_err(|_| Malformed::Parameter {
            parameter,
            value,
            expected: "a whole number that fits in 64 bits",
        })
    });
    number.transpose()
}

/// The numbers in a comma-separated parameter; numbers after the first [`MAX_COUNT`] are ignored.
fn numbers(query: &str, parameter: &'static str) -> Result<Vec<u64>, Malformed> {
    let Some(value) = query_parameter(query, parameter) else {
        return Ok(Vec::new());
    };
    let items = value.split(',').take(MAX_COUNT as usize);
    let numbers: Result<_, _> = items.map(str::parse).collect();
    numbers.map_err(|_| Malformed::Parameter {
        parameter,
        value,
        expected: "whole numbers that fit in 64 bits, with commas between",
    })
}

/// A label. Its id is a text, as JavaScript's numbers cannot hold all ids.
fn label(labels: &Labels, rank: usize) -> Value {
    let mut properties = Map::new();
    for column in &labels.properties {
        let cell = column.get(rank);
        let value = match column.is_number {
            true => number_value(cell),
            false => cell.into(),
        };
        properties.insert(column.name.clone(), value);
    }
    let name = labels.names.as_ref().map_or("", |names| names.get(rank));
    json!({ "id": labels.id(rank).to_string(), "name": name, "properties": properties })
}

/// A cell of a column of numbers; null if the number is missing.
fn number_value(cell: &str) -> Value {
    let cell = cell.trim();
    match cell.parse::<i64>() {
        Ok(whole) => whole.into(),
        Err(_) => cell.parse::<f64>().map_or(Value::Null, Value::from),
    }
}

/// Neuroglancer's segment properties, inline. The names have the type `label`, and the column
/// `description` has the type `description`. There may be only one column of type `tags`: the first
/// one in which texts repeat. All other columns of texts are strings, and so is a column of numbers
/// with gaps, because the format has no missing numbers. Columns are written one after the other,
/// so that only one at a time is in memory.
pub(super) fn segment_properties(labels: &Labels) -> Result<Document, TileError> {
    let Ok(properties) = write_to_bytes(MAX_PROPERTIES_LENGTH, |out| write_properties(labels, out))
    else {
        let error = too_large();
        // Remembered, so that the next request need not write them in vain.
        labels.unwritable.get_or_init(|| error.to_string());
        return Err(error);
    };
    Ok(Document::new("application/json", vec![properties]))
}

/// The error for segment properties that are longer than they may be, or for which there is no
/// memory.
pub(super) fn too_large() -> TileError {
    let problem =
        "the properties of the labels are longer than 64 MiB, or than a quarter of render.boxes";
    TileError::TooLarge(format!("{problem}; leave out columns of the table"))
}

fn write_properties(labels: &Labels, out: &mut impl Write) -> io::Result<()> {
    let ids: Vec<String> = (0..labels.count())
        .map(|rank| labels.id(rank).to_string())
        .collect();
    let ids = json!(ids);
    write!(
        out,
        r#"{{"@type":"neuroglancer_segment_properties","inline":{{"ids":{ids},"properties":["#
    )?;
    let mut separator = "";
    if let Some(names) = &labels.names {
        let names = cells_of(names, labels.count());
        write!(
            out,
            "{}",
            json!({ "id": "name", "type": "label", "values": names })
        )?;
        separator = ",";
    }
    let mut has_tags = false;
    for column in &labels.properties {
        let id = &column.name;
        let cells = cells_of(column, labels.count());
        let property = if column.is_number
            && let Some(data_type) = number_type(&cells)
        {
            let numbers: Vec<Value> = cells.iter().map(|cell| number_value(cell)).collect();
            json!({ "id": id, "type": "number", "data_type": data_type, "values": numbers })
        } else if id.eq_ignore_ascii_case("description") {
            json!({ "id": id, "type": "description", "values": cells })
        } else if !has_tags
            && !column.is_number
            && let Some(property) = tags(id, &cells)
        {
            has_tags = true;
            property
        } else {
            json!({ "id": id, "type": "string", "values": cells })
        };
        write!(out, "{separator}{property}")?;
        separator = ",";
    }
    out.write_all(b"]}}")
}

fn cells_of(column: &Column, count: usize) -> Vec<String> {
    (0..count).map(|rank| column.get(rank).to_owned()).collect()
}

/// Neuroglancer's type for a column of numbers; `None` if some are missing or not finite.
fn number_type(cells: &[String]) -> Option<&'static str> {
    let mut cells = cells.iter().map(|cell| cell.trim());
    if cells.clone().all(|cell| cell.parse::<i32>().is_ok()) {
        return Some("int32");
    }
    if cells.clone().all(|cell| cell.parse::<u32>().is_ok()) {
        return Some("uint32");
    }
    cells
        .all(|cell| cell.parse().is_ok_and(f64::is_finite))
        .then_some("float32")
}

/// A text as a tag, which has no spaces and does not begin with #: `#big cell` becomes `big_cell`.
fn tag(cell: &str) -> Option<String> {
    let words: Vec<&str> = cell.trim_start_matches('#').split_whitespace().collect();
    (!words.is_empty()).then(|| words.join("_"))
}

/// A column of texts as tags; `None` if no tag repeats, or there are too many tags.
fn tags(id: &str, cells: &[String]) -> Option<Value> {
    let tags: Vec<Option<String>> = cells.iter().map(|cell| tag(cell)).collect();
    let distinct: BTreeSet<&String> = tags.iter().flatten().collect();
    let distinct: Vec<&String> = distinct.into_iter().collect();
    if distinct.len() == tags.iter().flatten().count() || distinct.len() > MAX_TAGS {
        return None;
    }
    let mut values: Vec<Vec<usize>> = Vec::new();
    for tag in &tags {
        // A label has at most one tag.
        let indices = tag.iter().flat_map(|tag| distinct.binary_search(&tag));
        values.push(indices.collect());
    }
    Some(json!({ "id": id, "type": "tags", "tags": distinct, "values": values }))
}
