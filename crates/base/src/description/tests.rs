use serde_json::{Value, json};

use super::*;

/// A site without anything that may be absent.
fn least() -> Value {
    let source = json!({
        "id": "a", "size": [9, 8, 7], "factor": [1, 1, 1], "chunk": [4, 4, 4], "times": 1, "bytes": 64, "access": "cached",
    });
    let level = json!({
        "level": 0, "size": [9, 8, 7], "factor": [1, 1, 1], "drawn": [[9, 8], [9, 7], [8, 7]], "planes": ["xy", "oblique"],
        "voxels_read": [64, 64, 64], "source": source,
    });
    let channel = json!({ "name": "raw", "kind": "image", "dtype": "uint8", "orthogonal": "stored", "levels": [level] });
    json!({
        "version": "9.9.9",
        "mounts": [{ "tile_service": "tiles", "content_type": "image/png", "adjustable": false }],
        "datasets": [{ "token": "em", "layouts": [], "scaling": "zslices", "offset": [0, 0, -1], "channels": [channel] }],
        "caches": { "tiles": 1, "chunks": 2 },
        "threads": 3,
        "started": 4,
    })
}

#[test]
fn a_description_may_lack_optional_fields_and_have_unknown_ones() {
    let mut later = least();
    later["news"] = json!("unknown");
    later["datasets"][0]["channels"][0]["levels"][0]["source"]["news"] = json!({ "a": [1] });
    let site: SiteDescription = serde_json::from_value(later).unwrap();
    assert_eq!(site, serde_json::from_value(least()).unwrap());
    let level = site.datasets[0].channel("raw").unwrap().level(0).unwrap();
    assert_eq!(
        [Plane::Xy, Plane::Xz].map(|plane| level.is_offered(plane)),
        [true, false]
    );
    assert_eq!(
        (site.tilecache().as_str(), site.caches.disk),
        ("/tiles/tilecache", None)
    );
}

#[test]
fn a_description_that_is_read_is_what_was_written() {
    let mut site: SiteDescription = serde_json::from_value(least()).unwrap();
    let channel = &mut site.datasets[0].channels[0];
    channel.window = Some([0.1, f64::MAX]);
    channel.percentiles = Some(vec![Percentile {
        percent: 99.9,
        value: -1.5,
    }]);
    let written = serde_json::to_value(&site).unwrap();
    assert_eq!(written["datasets"][0]["channels"][0]["label"], Value::Null);
    assert_eq!(
        serde_json::from_value::<SiteDescription>(written).unwrap(),
        site
    );
}
