//! Stories of names and properties of labels: tables in text files and in HDF5 files, asked for by
//! id, in pages and by search, and given to Neuroglancer.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use hdf5::H5Type;
use hdf5::types::{FixedAscii, VarLenUnicode};
use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};

use crate::common::wire::Connection;
use crate::common::{Place, Server, made, wait_until};

/// Ids that are not in order, a name with a separator, a quotation mark and letters beyond ASCII;
/// numbers, of which one is missing; kinds, one of which has a space.
const CELLS: &str = "\u{feff}id,name,volume,kind,depth\n\
    7,\"Purkinje, \"\"big\"\"\",12.5,neuron,3\n\
    18446744073709551615,Zürich,0.25,glia cell,-4\n\
    3,Äußere Schicht,,neuron,5\n\
    40,granule,1e3,neuron,6\n";

fn volume(file: &hdf5::File, path: &str) {
    let ids = ArrayD::from_shape_fn(IxDyn(&[4, 20, 20]), |at| {
        if at[2] < 10 { 7u64 } else { u64::MAX }
    });
    made::put(file, path, &ids);
}

/// A place with a file of labels, whose channel has these settings; `more` is the rest of the
/// configuration.
fn place(settings: &str, more: &str) -> Place {
    let place = Place::with(&format!(
        "[datasets.brain]\nfile = \"brain.h5\"\n[datasets.brain.channels.cells]\nkind = \"labels\"\n{settings}\n{more}"
    ));
    made::file(&place.path("brain.h5"), |file| volume(file, "cells"));
    place.write("cells.csv", CELLS);
    place
}

const LABELS: &str = "/datasets/brain/cells/labels.json";

fn ids(page: &Value) -> Vec<&str> {
    page["labels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|label| label["id"].as_str().unwrap())
        .collect()
}

fn found(server: &Server, query: &str) -> Vec<String> {
    let page = server.json(&format!("{LABELS}?{query}"));
    ids(&page).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_text_file_names_labels_in_the_order_of_their_ids() {
    let place = place("names = \"cells.csv\"", "");
    let server = place.serve::<&str>([]);
    assert_eq!(
        server.json("/datasets.json")["datasets"][0]["channels"][0]["names"],
        true
    );
    let page = server.json(LABELS);
    assert_eq!((&page["total"], &page["next"]), (&json!(4), &Value::Null));
    assert_eq!(ids(&page), ["3", "7", "40", "18446744073709551615"]);
    let all = page["labels"].as_array().unwrap();
    assert_eq!(
        all[0],
        json!({"id": "3", "name": "Äußere Schicht", "properties": {"volume": null, "kind": "neuron", "depth": 5}})
    );
    assert_eq!(
        all[1],
        json!({"id": "7", "name": "Purkinje, \"big\"", "properties": {"volume": 12.5, "kind": "neuron", "depth": 3}})
    );
    assert_eq!(all[2]["properties"]["volume"], 1000.0);
}

#[test]
fn labels_are_asked_for_by_id_in_pages_and_by_search() {
    let place = place("names = \"cells.csv\"", "");
    let server = place.serve::<&str>([]);
    assert_eq!(
        server.json(&format!("{LABELS}?id=18446744073709551615"))["labels"][0]["name"],
        "Zürich"
    );
    assert_eq!(found(&server, "id=8"), [""; 0]);
    assert_eq!(found(&server, "id=40,8,3"), ["40", "3"]);
    let first = server.json(&format!("{LABELS}?count=3"));
    assert_eq!(
        (ids(&first), &first["next"]),
        (vec!["3", "7", "40"], &json!("40"))
    );
    let second = server.json(&format!("{LABELS}?count=3&after=40"));
    assert_eq!(
        (ids(&second), &second["next"]),
        (vec!["18446744073709551615"], &Value::Null)
    );
    assert_eq!(
        found(&server, "search=Z%C3%9CRICH"),
        ["18446744073709551615"]
    );
    assert_eq!(found(&server, "search=%C3%A4u%C3%9Fere+schicht"), ["3"]);
    assert_eq!(
        found(&server, "search=neuron&after=3&count=1"),
        ["7"],
        "other texts are searched, too"
    );
    assert_eq!(found(&server, "search=nothing"), [""; 0]);
    for (query, problem) in [
        ("id=seven", "id=\"seven\""),
        ("after=-1", "after=\"-1\""),
        ("count=x", "count=\"x\""),
        ("count=5,6", "count=\"5,6\""),
    ] {
        let answer = server.get(&format!("{LABELS}?{query}"));
        assert_eq!(answer.status, 404, "{query}");
        assert!(answer.problem().contains(problem), "{}", answer.problem());
    }
}

#[test]
fn neuroglancer_is_given_names_and_properties_as_its_format_says() {
    let place = place("names = \"cells.csv\"", "");
    let server = place.serve::<&str>([]);
    let info = server.json("/neuroglancer/brain/cells/info");
    assert_eq!(
        (&info["type"], &info["segment_properties"]),
        (&json!("segmentation"), &json!("segment_properties"))
    );
    let properties = server.json("/neuroglancer/brain/cells/segment_properties/info");
    assert_eq!(
        properties,
        json!({"@type": "neuroglancer_segment_properties", "inline": {
            "ids": ["3", "7", "40", "18446744073709551615"],
            "properties": [
                {"id": "name", "type": "label", "values": ["Äußere Schicht", "Purkinje, \"big\"", "granule", "Zürich"]},
                // The format has no missing numbers.
                {"id": "volume", "type": "string", "values": ["", "12.5", "1e3", "0.25"]},
                {"id": "kind", "type": "tags", "tags": ["glia_cell", "neuron"], "values": [[1], [1], [1], [0]]},
                {"id": "depth", "type": "number", "data_type": "int32", "values": [5, 3, 6, -4]},
            ],
        }})
    );
    let answer = server.get("/neuroglancer/brain/cells/segment_properties/info");
    let known = server.ask(
        "GET",
        "/neuroglancer/brain/cells/segment_properties/info",
        &[("If-None-Match", answer.etag())],
    );
    assert_eq!(known.status, 304);
}

#[test]
fn numbers_have_the_narrowest_type_that_neuroglancer_knows_and_distinct_texts_are_no_tags() {
    let place = place(
        "names = { file = \"cells.tsv\", id = \"cell\", name = \"called\" }",
        "",
    );
    place.write(
        "cells.tsv",
        "cell\tcalled\tlarge\treal\tdescription\tcode\n1.0\ta\t4000000000\t0.5\tfirst\tx\n2.0\tb\t1\t2\tsecond\ty\n",
    );
    let server = place.serve::<&str>([]);
    let properties = server.json("/neuroglancer/brain/cells/segment_properties/info");
    assert_eq!(
        properties["inline"],
        json!({"ids": ["1", "2"], "properties": [
            {"id": "name", "type": "label", "values": ["a", "b"]},
            {"id": "large", "type": "number", "data_type": "uint32", "values": [4_000_000_000u64, 1]},
            {"id": "real", "type": "number", "data_type": "float32", "values": [0.5, 2]},
            {"id": "description", "type": "description", "values": ["first", "second"]},
            {"id": "code", "type": "string", "values": ["x", "y"]},
        ]})
    );
}

#[test]
#[ignore = "slow: reads a million names"]
fn neuroglancer_is_given_at_most_half_a_million_names() {
    let place = place("names = \"many.csv\"", "");
    let rows = |count: u64| {
        (0..count).fold("id;name\n".to_owned(), |text, id| {
            text + &format!("{id};cell {id}\n")
        })
    };
    place.write("many.csv", &rows(500_000));
    let server = place.serve::<&str>([]);
    let properties = server.json("/neuroglancer/brain/cells/segment_properties/info");
    assert_eq!(properties["inline"]["ids"][499_999], "499999");
    place.write("many.csv", &rows(500_001));
    let description = server.json("/datasets/brain.json");
    let reason = description["channels"][0]["left_out"]["segment_properties"]
        .as_str()
        .unwrap();
    assert!(
        reason.contains("500001") && reason.contains("500000"),
        "{reason}"
    );
    assert_eq!(
        server.json("/neuroglancer/brain/cells/info")["segment_properties"],
        Value::Null
    );
    let answer = server.get("/neuroglancer/brain/cells/segment_properties/info");
    assert!(
        answer.status == 404 && answer.problem().contains("500001"),
        "{answer:?}"
    );
    assert_eq!(found(&server, "search=CELL+500000"), ["500000"]);
}

#[test]
fn a_table_that_has_changed_is_read_again() {
    let place = place("names = \"cells.csv\"", "");
    let server = place.serve::<&str>([]);
    let before = server.get(&format!("{LABELS}?id=7"));
    assert_eq!(before.json()["labels"][0]["name"], "Purkinje, \"big\"");
    place.write("cells.csv", "id,name\n7,renamed\n");
    let after = server.ask(
        "GET",
        &format!("{LABELS}?id=7"),
        &[("If-None-Match", before.etag())],
    );
    assert_eq!(after.json()["labels"][0]["name"], "renamed");
    let properties = server.json("/neuroglancer/brain/cells/segment_properties/info");
    assert_eq!(
        properties["inline"]["properties"][0]["values"],
        json!(["renamed"])
    );
    // Tiles do not depend on it.
    fs::remove_file(place.path("cells.csv")).unwrap();
    assert!(server.get(LABELS).problem().contains("No such file"));
    let tile = server.get("/ndtilecache/tilecache/brain/cells/xy/0/0_0_0.png");
    assert_eq!(tile.status, 200);
}

#[test]
fn a_bad_table_is_an_error_with_its_row_and_column() {
    for (text, problem) in [
        (
            "id,name\n1,a\nx7,b\n",
            "row 3, column \"id\": \"x7\" is not an id",
        ),
        (
            "id,name\n-1,a\n",
            "row 2, column \"id\": \"-1\" is not an id",
        ),
        ("id,name\n1,a\n2.5,b\n", "row 3, column \"id\": \"2.5\""),
        ("id,name\n18446744073709551616,a\n", "row 2, column \"id\""),
        (
            "id,name\n5,a\n3,b\n5,c\n",
            "row 4, column of ids: 5 is the id of row 2, too",
        ),
        (
            "id,name\n1,a\n2,b,c\n",
            "row 3: it has 3 columns, and the first row 2",
        ),
        ("number,name\n1,a\n", "it has no column id or"),
        ("", "it has no column id or"),
    ] {
        let place = place("names = \"cells.csv\"", "");
        place.write("cells.csv", text);
        let check = place.run(["check"]);
        assert_eq!(check.code, 1, "{text}");
        assert!(
            check.err.contains("datasets.brain.channels.cells.names: ")
                && check.err.contains("cells.csv")
        );
        assert!(check.err.contains(problem), "{text}: {}", check.err);
        let server = place.serve::<&str>([]);
        server.expect_error(problem);
        let answer = server.get(LABELS);
        assert_eq!(answer.status, 500, "{text}");
        assert!(answer.problem().contains(problem), "{}", answer.problem());
        assert!(
            !answer.text().contains("cells.csv"),
            "clients do not learn where files are: {}",
            answer.text()
        );
        // The volume is served nevertheless.
        assert_eq!(
            server.json("/neuroglancer/brain/cells/info")["segment_properties"],
            Value::Null
        );
        let description = server.json("/datasets/brain.json");
        assert!(
            description["channels"][0]["problem"]
                .as_str()
                .unwrap()
                .contains(problem),
            "{description}"
        );
    }
    let place = place("names = \"cells.csv\"", "");
    fs::write(place.path("cells.csv"), b"id,name\n1,a\n2,\xff\n").unwrap();
    assert!(
        place
            .run(["check"])
            .err
            .contains("row 3, column \"name\": it is not UTF-8")
    );
}

#[test]
fn settings_of_names_that_cannot_be_meant_are_faults() {
    for (settings, problem) in [
        ("names = \"absent.csv\"", "absent.csv"),
        ("names = { path = \"/absent\" }", "/absent in "),
        ("names = { id = \"id\" }", "either file or path is expected"),
        (
            "names = { file = \"cells.csv\", path = \"/table\" }",
            "either file or path is expected",
        ),
        (
            "names = { file = \"cells.csv\", column = \"x\" }",
            "names.column: there is no such key",
        ),
        ("names = 7", "a path in quotes is expected"),
        (
            "names = { file = \"cells.csv\", name = \"title\" }",
            "it has no column title; its columns are id",
        ),
    ] {
        let check = place(settings, "").run(["check"]);
        assert_ne!(check.code, 0, "{settings}");
        assert!(check.err.contains(problem), "{settings}: {}", check.err);
    }
    let place = place("names = \"cells.csv\"", "");
    let text = fs::read_to_string(place.path("voltile.toml")).unwrap();
    place.write("voltile.toml", &text.replace("\"labels\"", "\"image\""));
    assert!(
        place
            .run(["check"])
            .err
            .contains("only labels have names; its kind is image")
    );
    place.write("voltile.toml", "[datasets.brain]\nfile = \"brain.h5\"\n");
    let server = place.serve::<&str>([]);
    let answer = server.get(LABELS);
    assert!(
        answer.status == 404 && answer.problem().contains("the setting `names`"),
        "{answer:?}"
    );
    assert_eq!(server.get("/datasets/brain/absent/labels.json").status, 404);
    assert_eq!(server.get("/datasets/absent/cells/labels.json").status, 404);
}

#[derive(H5Type, Clone)]
#[repr(C)]
struct Object {
    labelimage_oid: u32,
    class: FixedAscii<16>,
    size: f32,
    remark: VarLenUnicode,
}

fn object(id: u32, class: &str, size: f32, remark: &str) -> Object {
    let class = FixedAscii::from_ascii(class).unwrap();
    Object {
        labelimage_oid: id,
        class,
        size,
        remark: remark.parse().unwrap(),
    }
}

/// Writes a table as ilastik does: a compound dataset in chunks.
fn write_objects(file: &hdf5::File, path: &str) {
    let objects = [
        object(9, "mitochondrion", 2.5, "größer"),
        object(7, "soma", 1.0, ""),
    ];
    file.new_dataset_builder()
        .with_data(&objects)
        .chunk(1)
        .deflate(1)
        .create(path)
        .unwrap();
}

/// Writes a table as NWB does: a group of columns, beside a list of another length.
fn write_columns(file: &hdf5::File, path: &str) {
    let group = file.create_group(path).unwrap();
    let texts: Vec<VarLenUnicode> = ["basket", "chandelier"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    group
        .new_dataset_builder()
        .with_data(&[7i64, 40])
        .create("id")
        .unwrap();
    group
        .new_dataset_builder()
        .with_data(&texts)
        .create("cell_type")
        .unwrap();
    group
        .new_dataset_builder()
        .with_data(&[0.5f32, f32::NAN])
        .create("quality")
        .unwrap();
    group
        .new_dataset_builder()
        .with_data(&[1u8, 2, 3])
        .create("spikes")
        .unwrap();
}

#[test]
fn tables_in_the_hdf5_file_are_compound_datasets_or_groups_of_datasets() {
    let place = place(
        "names = { path = \"/table\" }",
        "[datasets.cells]\nfile = \"brain.h5\"\n[datasets.cells.channels.cells]\nnames = { path = \"/columns\", name = \"cell_type\" }\nkind = \"labels\"\n",
    );
    made::file(&place.path("brain.h5"), |file| {
        volume(file, "cells");
        write_objects(file, "table");
        write_columns(file, "columns");
    });
    assert_eq!(place.run(["check"]).code, 0);
    let server = place.serve::<&str>([]);
    assert_eq!(
        server.json(LABELS)["labels"],
        json!([
            {"id": "7", "name": "soma", "properties": {"size": 1, "remark": ""}},
            {"id": "9", "name": "mitochondrion", "properties": {"size": 2.5, "remark": "größer"}},
        ])
    );
    assert_eq!(
        server.json("/datasets/cells/cells/labels.json")["labels"],
        json!([
            {"id": "7", "name": "basket", "properties": {"quality": 0.5}},
            {"id": "40", "name": "chandelier", "properties": {"quality": null}},
        ])
    );
    // A new file has a new table.
    made::file(&place.path("brain.h5"), |file| {
        volume(file, "cells");
        write_columns(file, "table");
        write_columns(file, "columns");
    });
    server.allow_error("has changed");
    let name = || {
        server
            .get(&format!("{LABELS}?id=7"))
            .text()
            .contains("basket")
    };
    wait_until("the new file is open", || {
        server
            .get("/ndtilecache/tilecache/brain/cells/xy/0/0_0_0.png")
            .status
            == 200
            && name()
    });
}

#[test]
fn a_bad_table_in_an_hdf5_file_is_an_error_with_its_row_and_column() {
    for (ids, problem) in [
        (vec![7i64, -2], "row 1, column \"id\": \"-2\""),
        (vec![7, 7], "row 1, column of ids: 7 is"),
    ] {
        let place = place("names = { path = \"/table\" }", "");
        made::file(&place.path("brain.h5"), |file| {
            volume(file, "cells");
            let group = file.create_group("table").unwrap();
            group
                .new_dataset_builder()
                .with_data(&ids)
                .create("id")
                .unwrap();
        });
        let check = place.run(["check"]);
        assert!(
            check.code == 1 && check.err.contains(problem),
            "{}",
            check.err
        );
    }
}

#[test]
fn names_are_protected_like_their_dataset() {
    let place = place(
        "names = \"cells.csv\"",
        "[[access]]\nsecrets = \"lab.txt\"\n",
    );
    place.write("lab.txt", "open-sesame\n");
    let server = place.serve::<&str>([]);
    for path in [LABELS, "/neuroglancer/brain/cells/segment_properties/info"] {
        let refused = server.get(path);
        assert!(
            refused.status == 401 && !refused.text().contains("granule"),
            "{path}: {refused:?}"
        );
        let shown = server.ask("GET", path, &[("Authorization", "Bearer open-sesame")]);
        assert!(
            shown.status == 200 && shown.text().contains("granule"),
            "{path}"
        );
        assert_eq!(server.get(&format!("/k/open-sesame{path}")).status, 200);
    }
}

fn configuration(place: &Place, file: &Path) -> String {
    let inspected = place.run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(inspected.code, 0, "{}", inspected.err);
    let described: Value = serde_json::from_str(&inspected.out).unwrap();
    described["configuration"].as_str().unwrap().to_owned()
}

#[test]
fn inspect_proposes_the_obvious_table_and_the_server_takes_it() {
    let structures = "acronym,id,name,structure_id_path,parent_structure_id\nroot,997,root,/997/,\nCB,7,Cerebellum,/997/7/,997\n";
    for (write, beside, expected, name) in [
        (
            Some(write_objects as fn(&hdf5::File, &str)),
            false,
            "names = { path = \"/table\", id = \"labelimage_oid\", name = \"class\" }",
            "soma",
        ),
        (
            Some(write_columns),
            false,
            "names = { path = \"/table\", id = \"id\", name = \"cell_type\" }",
            "basket",
        ),
        (None, true, "structures.csv\" }", "Cerebellum"),
    ] {
        let place = Place::new();
        let file = place.path("brain.h5");
        made::file(&file, |file| {
            volume(file, "labels");
            write.into_iter().for_each(|write| write(file, "table"));
        });
        if beside {
            place.write("structures.csv", structures);
        }
        let configuration = configuration(&place, &file);
        assert!(configuration.contains(expected), "{configuration}");
        place.write("voltile.toml", &configuration);
        let server = place.serve::<&str>([]);
        assert_eq!(
            server.json("/datasets/brain/labels/labels.json?id=7")["labels"][0]["name"],
            name
        );
    }
    // Whose names they are is not obvious.
    let place = Place::new();
    let file = place.path("brain.h5");
    made::file(&file, |file| {
        volume(file, "labels");
        volume(file, "segmentation");
        write_columns(file, "table");
    });
    assert!(!configuration(&place, &file).contains("names"));
}

/// Writes a table of columns in which all cells are equal, so that it takes hardly any room in the
/// file.
fn write_wide<T: H5Type + Clone>(path: &Path, rows: u32, columns: usize, cell: &T) {
    made::file(path, |file| {
        volume(file, "cells");
        let group = file.create_group("table").unwrap();
        let ids: Vec<u32> = (0..rows).collect();
        let cells = vec![cell.clone(); rows as usize];
        group
            .new_dataset_builder()
            .with_data(&ids)
            .deflate(1)
            .create("id")
            .unwrap();
        for column in 0..columns {
            let name = format!("column_{column}");
            group
                .new_dataset_builder()
                .with_data(&cells)
                .deflate(1)
                .create(name.as_str())
                .unwrap();
        }
    });
}

const PROPERTIES: &str = "/neuroglancer/brain/cells/segment_properties/info";

#[test]
#[ignore = "slow: reads a table of three million values"]
fn properties_of_a_wide_table_take_little_more_memory_than_they_are_long_and_are_built_once() {
    let place = place("names = { path = \"/table\", id = \"id\" }", "");
    write_wide(&place.path("brain.h5"), 50_000, 60, &7u8);
    let server = place.serve::<&str>([]);
    assert_eq!(server.get(&format!("{LABELS}?id=7")).status, 200);
    let before = server.peak_memory();
    let answer = server.get(PROPERTIES);
    assert_eq!(
        answer.json()["inline"]["properties"]
            .as_array()
            .unwrap()
            .len(),
        60
    );
    let taken = (server.peak_memory() - before) >> 20;
    assert!(
        taken < 64,
        "{taken} MiB for an answer of {} MiB",
        answer.body.len() >> 20
    );
    let built = server.count("voltile_documents_built_total");
    assert!(server.get(PROPERTIES).body == answer.body);
    assert_eq!(server.count("voltile_documents_built_total"), built);
}

#[test]
#[ignore = "slow: reads a table of 80 MB"]
fn properties_of_more_than_64_mib_are_too_large_and_neuroglancer_is_not_told_of_them() {
    let place = place(
        "names = { path = \"/table\", id = \"id\" }",
        "[render]\nboxes = \"1 GiB\"\n",
    );
    let text = FixedAscii::<1024>::from_ascii(&[b'x'; 1000]).unwrap();
    write_wide(&place.path("brain.h5"), 10_000, 8, &text);
    let server = place.serve::<&str>([]);
    for _ in 0..2 {
        let answer = server.get(PROPERTIES);
        assert_eq!(answer.status, 413, "{:.200}", answer.text());
        assert!(answer.problem().contains("64 MiB"), "{}", answer.problem());
    }
    assert_eq!(
        server.json("/neuroglancer/brain/cells/info")["segment_properties"],
        Value::Null
    );
    let left_out = &server.json("/datasets/brain.json")["channels"][0]["left_out"];
    assert!(
        left_out["segment_properties"]
            .as_str()
            .unwrap()
            .contains("64 MiB"),
        "{left_out}"
    );
    assert_eq!(
        found(&server, "id=7"),
        ["7"],
        "the names themselves are served"
    );
    let page = server.get(&format!("{LABELS}?count=1000"));
    assert_eq!(
        page.status, 200,
        "8 MiB are no more than the longest document"
    );
}

#[test]
fn a_table_that_is_larger_than_a_quarter_of_the_memory_for_boxes_is_refused_with_the_reason() {
    let place = place(
        "names = { path = \"/table\", id = \"id\" }",
        "[render]\nboxes = \"32 MiB\"\n",
    );
    write_wide(&place.path("brain.h5"), 50_000, 60, &7u8);
    let server = place.serve::<&str>([]);
    server.expect_error("render.boxes");
    for path in [LABELS, PROPERTIES] {
        let answer = server.get(path);
        assert_eq!(answer.status, 413, "{path}: {:.200}", answer.text());
        assert!(
            answer.problem().contains("render.boxes"),
            "{}",
            answer.problem()
        );
    }
    let description = server.json("/datasets/brain.json");
    assert!(
        description["channels"][0]["problem"]
            .as_str()
            .unwrap()
            .contains("render.boxes"),
        "{description}"
    );
    assert_eq!(server.log().matches("ERROR").count(), 1, "it was read once");
}

#[test]
fn tables_that_were_used_last_are_kept_to_a_budget() {
    let channels: String = ["a", "b", "c"]
        .map(|name| {
            format!(
                "[datasets.brain.channels.{name}]\nkind = \"labels\"\npath = \"/cells\"\nnames = \"{name}.csv\"\n"
            )
        })
        .concat();
    let place = place("", &format!("{channels}[render]\nboxes = \"32 MiB\"\n"));
    let rows: String = (0..160_000).fold("id,name\n".to_owned(), |text, id| {
        text + &format!("{id},cell {id}\n")
    });
    for name in ["a", "b", "c"] {
        place.write(&format!("{name}.csv"), &rows);
    }
    let server = place.serve::<&str>([]);
    for name in ["a", "b", "c", "a", "a"] {
        let page = server.json(&format!("/datasets/brain/{name}/labels.json?id=159999"));
        assert_eq!(page["labels"][0]["name"], "cell 159999");
        let kept = server.count("voltile_names_bytes");
        assert!(
            (1..8 << 20).contains(&kept),
            "{kept} bytes are kept of three tables of 3.5 MiB"
        );
    }
}

/// Texts that are slow to search.
fn with_many_texts() -> (Place, Server) {
    let place = place(
        "names = { path = \"/table\", id = \"id\" }",
        "[render]\nthreads = 2\nboxes = \"1 GiB\"\n",
    );
    let text =
        FixedAscii::<64>::from_ascii("a text that is searched from its beginning to its end")
            .unwrap();
    write_wide(&place.path("brain.h5"), 100_000, 16, &text);
    let server = place.serve::<&str>([]);
    assert_eq!(server.get(&format!("{LABELS}?id=7")).status, 200);
    (place, server)
}

fn searches(server: &Server, from: Ipv4Addr, count: usize) -> Vec<Connection> {
    let search = |number: usize| {
        let mut connection = Connection::open_from(IpAddr::V4(from), server.address);
        connection.send("GET", &format!("{LABELS}?search=absent+{number}"), &[]);
        connection
    };
    (0..count).map(search).collect()
}

#[test]
#[ignore = "slow: searches many long texts"]
fn searches_of_one_client_leave_turns_to_other_clients() {
    const MANY: usize = 30;
    let (_place, server) = with_many_texts();
    let mut greedy = searches(&server, Ipv4Addr::new(127, 0, 0, 1), MANY);
    wait_until("one is answered", || {
        greedy.iter_mut().any(|connection| !connection.is_silent())
    });
    let mut lone = searches(&server, Ipv4Addr::new(127, 0, 0, 2), 1).remove(0);
    assert_eq!(lone.receive("GET").unwrap().status, 200);
    let answered = greedy
        .iter_mut()
        .filter_map(|connection| (!connection.is_silent()).then_some(()))
        .count();
    assert!(
        answered < MANY / 2,
        "{answered} of {MANY} were answered before another client's only search"
    );
}

#[test]
fn searches_end_with_their_clients() {
    let (_place, server) = with_many_texts();
    let mut all = searches(&server, Ipv4Addr::LOCALHOST, 30);
    wait_until("one is answered", || {
        all.iter_mut().any(|connection| !connection.is_silent())
    });
    all.into_iter().for_each(Connection::hang_up);
    let given_up = |metrics: &std::collections::BTreeMap<String, u64>| {
        metrics["voltile_renders_abandoned_total"] + metrics["voltile_renders_stopped_total"]
    };
    wait_until("most are given up", || given_up(&server.metrics()) > 15);
    wait_until("none waits", || {
        server.count("voltile_renders_waiting") == 0
    });
}

#[test]
fn only_regular_files_are_read_as_tables() {
    let place = place("names = \"cells.csv\"", "");
    fs::remove_file(place.path("cells.csv")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("cells.csv"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let check = place.run(["check"]);
    assert!(
        check.code == 1 && check.err.contains("not a regular file"),
        "{}",
        check.err
    );
    let server = place.serve::<&str>([]);
    server.expect_error("not a regular file");
    for path in [LABELS, "/datasets/brain.json"] {
        assert!(
            server.get(path).text().contains("not a regular file"),
            "{path}"
        );
    }
    assert_eq!(
        server.json("/neuroglancer/brain/cells/info")["segment_properties"],
        Value::Null
    );
}
