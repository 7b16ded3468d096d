//! The OpenAPI document: every path answers as documented, and every JSON answer matches its
//! schema.

use std::collections::BTreeSet;

use crate::common::{Place, Server, fixture};
use serde_json::{Value, json};

fn served(place: &Place) -> Server {
    place.write("names.csv", "id,name,kind,size\n1,a,x,2.5\n2,b,x,\n");
    let [series, wide, voxels] = ["series.h5", "wide.h5", "voxels.h5"].map(fixture);
    place.write(
        "voltile.toml",
        &format!(
            "[server]\nreferences = \"https://data.example.org/\"\n\
             [[server.mounts]]\ntile_service = \"ndtilecache\"\n\
             [[server.mounts]]\ntile_service = \"slides\"\ncontent_type = \"image/png\"\nadjustable = true\n\
             [datasets.series]\nfile = {series:?}\n[datasets.series.channels.first]\npath = \"/data\"\naxes = \"tczyx\"\n\
             [datasets.series.channels.ids]\npath = \"/ids\"\nkind = \"labels\"\nnames = \"names.csv\"\n\
             [datasets.wide]\nfile = {wide:?}\n[datasets.voxels]\nfile = {voxels:?}\nvoxel_size = [1, 2, 3]\n"
        ),
    );
    place.serve::<&str>([])
}

/// The document. An object that consists of several parts (`allOf`) has the properties of all.
fn document(server: &Server) -> Value {
    let document = server.json("/openapi.json");
    let mut merged = document.clone();
    for schema in merged["components"]["schemas"]
        .as_object_mut()
        .unwrap()
        .values_mut()
    {
        let Some(parts) = schema["allOf"].as_array().cloned() else {
            continue;
        };
        let mut properties = serde_json::Map::new();
        let mut required = Vec::new();
        for part in &parts {
            let part = resolved(&document, part);
            properties.extend(part["properties"].as_object().unwrap().clone());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
        }
        *schema = json!({ "type": "object", "properties": properties, "required": required });
    }
    merged
}

/// A value itself, or the one that it refers to.
fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(address) => document.pointer(address.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// A path with valid values for its parameters.
fn filled(path: &str) -> String {
    let has_names = path.ends_with("/labels.json") || path.contains("/segment_properties/");
    let mut path = if has_names {
        path.replace("{channel}", "ids")
    } else {
        path.to_owned()
    };
    for (name, value) in [
        ("tile_service", "ndtilecache"),
        ("token", "series"),
        ("channel", "first"),
        ("channels", "first:R"),
        ("plane", "xy"),
        ("time", "1"),
        ("slice", "1"),
        ("slices", "0-2.max"),
        ("row", "0"),
        ("column", "0"),
        ("level", "0"),
        ("box", "0-1_0-1_0-1.raw"),
        ("x0", "0"),
        ("y0", "0"),
        ("z0", "0"),
        // The only chunk: 64 × 64 × 64, clipped.
        ("x1", "17"),
        ("y1", "12"),
        ("z1", "3"),
        ("chunk", "0/0/0/0"),
        ("layers", "first:0:255:1:grey"),
    ] {
        path = path.replace(&format!("{{{name}}}"), value);
    }
    if path.ends_with("/range.json") {
        path.push_str("?plane=xy&slice=1&level=0&box=0,0,5,5");
    }
    assert!(!path.contains('{'), "{path} has an unknown parameter");
    path
}

/// Forbids additional properties in all objects of a schema.
fn closed(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            object.values_mut().for_each(closed);
        }
        Value::Array(items) => items.iter_mut().for_each(closed),
        _ => {}
    }
}

/// The errors of an answer in a schema of the document.
fn faults(document: &Value, schema: &Value, body: &[u8]) -> Vec<String> {
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    closed(&mut whole);
    let instance: Value = serde_json::from_slice(body).unwrap();
    let validator = jsonschema::draft202012::new(&whole).unwrap();
    validator
        .iter_errors(&instance)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn every_documented_path_answers_as_documented() {
    let place = Place::new();
    let server = served(&place);
    let document = document(&server);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 15, "{:?}", paths.keys());
    let mut checked = 0;
    // The events do not end.
    for (path, item) in paths.iter().filter(|(path, _)| *path != "/events") {
        let answer = server.get(&filled(path));
        let responses = &item["get"]["responses"];
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let kind = answer.header("content-type").unwrap();
        let success = resolved(&document, &responses["200"]);
        let Some(content) = success.get("content") else {
            assert_eq!((path.as_str(), kind), ("/openapi.json", "application/json"));
            continue;
        };
        let described = content
            .get(kind)
            .unwrap_or_else(|| panic!("{path} is {kind}, and described as {content}"));
        if kind == "application/json" {
            assert_eq!(
                faults(&document, &described["schema"], &answer.body),
                [] as [String; 0],
                "{path}"
            );
            checked += 1;
        }
        for header in success["headers"]
            .as_object()
            .into_iter()
            .flat_map(|headers| headers.keys())
        {
            assert!(
                answer.header(&header.to_lowercase()).is_some(),
                "{path} has no {header}"
            );
        }
    }
    assert_eq!(
        checked, 20,
        "the list, a dataset, what is said of its file, labels, a range, projects, info, three of the precomputed format, seven of OME-Zarr, references, two of health"
    );
}

#[test]
fn descriptions_of_all_datasets_match_the_schema() {
    let place = Place::new();
    let server = served(&place);
    let document = document(&server);
    let of = |path: &str| {
        document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            .clone()
    };
    for token in ["series", "wide", "voxels"] {
        for (target, path) in [
            (format!("/datasets/{token}.json"), "/datasets/{token}.json"),
            (
                format!("/slides/{token}/info/"),
                "/{tile_service}/{token}/info/",
            ),
        ] {
            let body = server.get(&target).body;
            assert_eq!(
                faults(&document, &of(path), &body),
                [] as [String; 0],
                "{target}"
            );
        }
    }
}

#[test]
fn missing_and_wrong_fields_in_a_schema_are_noticed() {
    let place = Place::new();
    let server = served(&place);
    let mut document = document(&server);
    let body = server.get("/datasets/wide.json").body;
    let schema = json!({ "$ref": "#/components/schemas/DatasetDescription" });
    assert_eq!(faults(&document, &schema, &body), [] as [String; 0]);
    let mut lacking = document.clone();
    lacking["components"]["schemas"]["ChannelDescription"]["properties"]
        .as_object_mut()
        .unwrap()
        .remove("dtype");
    assert!(!faults(&lacking, &schema, &body).is_empty());
    document["components"]["schemas"]["LevelDescription"]["properties"]["level"] =
        json!({ "type": "string" });
    assert!(!faults(&document, &schema, &body).is_empty());
}

#[test]
fn problems_match_the_schema() {
    let place = Place::new();
    let server = served(&place);
    let document = document(&server);
    for (path, item) in document["paths"].as_object().unwrap() {
        let missing = resolved(&document, &item["get"]["responses"]["404"]);
        let described = &missing["content"]["application/problem+json"]["schema"];
        if described.is_null() {
            continue;
        }
        let answer = server.get(&filled(&path.replace("{token}", "nothing")));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, Some("application/problem+json")),
            "{path}"
        );
        assert_eq!(
            faults(&document, described, &answer.body),
            [] as [String; 0],
            "{path}"
        );
    }
}

#[test]
fn documented_parameters_are_those_of_the_path() {
    let place = Place::new();
    let document = document(&served(&place));
    for (path, item) in document["paths"].as_object().unwrap() {
        let in_path: BTreeSet<&str> = path
            .split('{')
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap())
            .collect();
        let parameters = item["get"]["parameters"].as_array().into_iter().flatten();
        let described: BTreeSet<&str> = parameters
            .map(|parameter| resolved(&document, parameter))
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(in_path, described, "{path}");
    }
}
