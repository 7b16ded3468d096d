use proptest::prelude::*;

use super::*;

fn parsed(path: &str) -> ZarrRequest {
    ZarrRequest::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn numbered(number: u64) -> Level {
    Level::new(number).unwrap()
}

#[test]
fn a_path_names_a_document_of_a_group_or_an_array() {
    let label = || Some(name("cells"));
    for (path, channel, node, document) in [
        (
            "0.4/a.ome.zarr/.zgroup",
            None,
            ZarrNode::Image,
            ZarrDocument::Group,
        ),
        (
            "0.4/a/b.ome.zarr/.zattrs",
            Some(name("b")),
            ZarrNode::Image,
            ZarrDocument::Attributes,
        ),
        (
            "0.4/a.ome.zarr/3/.zarray",
            None,
            ZarrNode::Array(None, numbered(3)),
            ZarrDocument::Array,
        ),
        (
            "0.4/a.ome.zarr/labels/.zattrs",
            None,
            ZarrNode::Labels,
            ZarrDocument::Attributes,
        ),
        (
            "0.5/a.ome.zarr/labels/cells/zarr.json",
            None,
            ZarrNode::Label(name("cells")),
            ZarrDocument::Metadata,
        ),
        (
            "0.5/a.ome.zarr/labels/cells/0/zarr.json",
            None,
            ZarrNode::Array(label(), Level::FULL),
            ZarrDocument::Metadata,
        ),
    ] {
        let request = parsed(path);
        assert_eq!(
            (request.token, request.channel),
            (name("a").into(), channel),
            "{path}"
        );
        assert_eq!(request.part, ZarrPart::Document(node, document), "{path}");
    }
}

#[test]
fn a_path_names_a_chunk_of_an_array() {
    let chunk = |label: Option<&str>, level, place: &[u64]| {
        ZarrPart::Chunk(ZarrChunk {
            label: label.map(name),
            level: numbered(level),
            place: place.to_vec(),
        })
    };
    let of = |path: &str| parsed(path).part;
    assert_eq!(of("0.4/a.ome.zarr/2/0/17/5"), chunk(None, 2, &[0, 17, 5]));
    assert_eq!(
        of("/0.5/a.ome.zarr/2/c/0/17/5/9/10"),
        chunk(None, 2, &[0, 17, 5, 9, 10])
    );
    assert_eq!(
        of("0.4/a/b.ome.zarr/labels/cells/0/1/1"),
        chunk(Some("cells"), 0, &[1, 1])
    );
}

#[test]
fn a_version_may_follow_the_token() {
    let of = |path: &str| parsed(path).token.to_string();
    assert_eq!(of("0.4/a@0b.ome.zarr/.zgroup"), "a@0b");
    assert_eq!(of("0.5/a@0b/c.ome.zarr/zarr.json"), "a@0b");
}

#[test]
fn names_may_end_like_images() {
    let of = |path: &str| {
        let request = parsed(path);
        (
            request.token.to_string(),
            request.channel.map(|channel| channel.to_string()),
        )
    };
    assert_eq!(
        of("0.4/a.ome.zarr.ome.zarr/.zgroup"),
        ("a.ome.zarr".to_owned(), None)
    );
    assert_eq!(
        of("0.4/a.ome.zarr/b.ome.zarr/.zgroup"),
        ("a.ome.zarr".to_owned(), Some("b".to_owned()))
    );
    assert_eq!(
        of("0.4/a.ome.zarr/labels/b.ome.zarr/.zgroup"),
        ("a".to_owned(), None)
    );
}

#[test]
fn other_keys_are_errors() {
    for path in [
        "",
        "0.4",
        "0.3/a.ome.zarr/.zgroup",
        "0.4/a/.zgroup",
        "0.4/a",
        "a.ome.zarr/.zgroup",
    ] {
        let error = ZarrRequest::parse(path).unwrap_err();
        assert_eq!(error, Malformed::ZarrShape, "{path}");
    }
    for key in [
        "0.4/a.ome.zarr",
        "0.4/a.ome.zarr/0",
        "0.4/a.ome.zarr/0/00/0",
        "0.4/a.ome.zarr/0/-1/0",
        "0.4/a.ome.zarr/0/0.0.0",
        "0.4/a.ome.zarr/00/0/0/0",
        "0.4/a.ome.zarr/0/0/0/0/0/0/0",
        "0.4/a.ome.zarr/0/c/0/0/0",
        "0.4/a.ome.zarr/zarr.json",
        "0.5/a.ome.zarr/0/0/0/0",
        "0.5/a.ome.zarr/.zgroup",
        "0.5/a.ome.zarr/0/c",
        "0.4/a.ome.zarr/63/0/0/0",
        "0.4/a.ome.zarr/0/18446744073709551616/0/0",
        "0.4/a.ome.zarr/labels",
        "0.4/a.ome.zarr/x/y/z/.zattrs",
        "0.4/a.ome.zarr/0/+1/0/0",
        "0.4/a.ome.zarr/0/ 1/0/0",
    ] {
        let parsed = ZarrRequest::parse(key);
        assert!(
            matches!(parsed, Err(Malformed::ZarrKey { .. })),
            "{key}: {parsed:?}"
        );
    }
    let not_a_name = ZarrRequest::parse("0.4/a%20b.ome.zarr/.zgroup");
    assert!(matches!(not_a_name, Err(Malformed::Name(_))));
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_a_panic(text in ".{0,60}", key in "[0-9c./lbes_-]{0,40}") {
        let _ = ZarrRequest::parse(&text);
        for version in ["0.4", "0.5"] {
            let _ = ZarrRequest::parse(&format!("{version}/{text}"));
            let _ = ZarrRequest::parse(&format!("{version}/a.ome.zarr/{key}"));
        }
    }

    #[test]
    fn every_chunk_has_one_key(level in 0u64..63, place in prop::collection::vec(any::<u64>(), 1..=5)) {
        let key: Vec<String> = place.iter().map(u64::to_string).collect();
        for (version, prefix) in [("0.4", ""), ("0.5", "c/")] {
            let path = format!("{version}/a.ome.zarr/{level}/{prefix}{}", key.join("/"));
            let expected = ZarrChunk { label: None, level: numbered(level), place: place.clone() };
            prop_assert_eq!(parsed(&path).part, ZarrPart::Chunk(expected));
        }
    }
}
