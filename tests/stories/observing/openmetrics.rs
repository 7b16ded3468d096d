//! `/metrics` is well-formed OpenMetrics, the manual's tables name exactly its metrics, and the
//! dashboard and the alerts use only these.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{BLACK, TILE, served};
use crate::common::Place;

/// The metric families in a text: their names and types.
type Families = BTreeMap<String, String>;

/// Parses OpenMetrics text (version 1.0), as strictly as the rules that voltile's metrics touch.
fn parsed(text: &str) -> Families {
    let mut families = Families::new();
    let mut seen = BTreeSet::new();
    let (mut current, mut buckets) = (String::new(), BTreeMap::<String, Vec<(f64, u64)>>::new());
    assert!(text.ends_with("\n# EOF\n"), "it ends with # EOF");
    for line in text.trim_end_matches("# EOF\n").lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').expect("a name and a type");
            assert!(
                families.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{name} is declared once"
            );
            current = name.to_owned();
        } else if let Some(described) = line.strip_prefix("# HELP ") {
            assert!(
                described
                    .split_once(' ')
                    .is_some_and(|(_, text)| text.ends_with('.')),
                "{line}"
            );
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            assert!(seen.insert(series.to_owned()), "{series} is there once");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.strip_suffix('}').expect("the labels end");
            let is_pair = |label: &str| {
                label
                    .split_once("=\"")
                    .is_some_and(|(_, value)| value.ends_with('"'))
            };
            assert!(
                labels.is_empty() || labels.split(',').all(is_pair),
                "{line}"
            );
            let suffix = name
                .strip_prefix(current.as_str())
                .expect("samples follow their family's declaration");
            let number: f64 = value.parse().expect("a number");
            match (families[&current].as_str(), suffix) {
                ("counter", "_total") | ("histogram", "_count" | "_sum") => {
                    assert!(number >= 0.0, "{line}");
                }
                ("gauge", "") => {}
                ("histogram", "_bucket") => {
                    let (limits, others): (Vec<_>, Vec<_>) = labels
                        .split(',')
                        .partition(|label| label.starts_with("le=\""));
                    let limit = limits.first().expect("a bucket has a limit");
                    let (limit, others) = (
                        limit["le=\"".len()..].trim_end_matches('"'),
                        others.join(","),
                    );
                    let limit = if limit == "+Inf" {
                        f64::INFINITY
                    } else {
                        limit.parse().expect("a number")
                    };
                    buckets
                        .entry(format!("{current} {others}"))
                        .or_default()
                        .push((limit, number as u64));
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }
    for (series, buckets) in buckets {
        assert!(
            buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
            "{series}: {buckets:?}"
        );
        assert_eq!(
            buckets.last().map(|bucket| bucket.0),
            Some(f64::INFINITY),
            "{series}"
        );
        assert_eq!(
            (buckets[0].0, buckets[buckets.len() - 2].0),
            (0.0001, 30.0),
            "{series}"
        );
    }
    families
}

/// The names of a family's samples.
fn samples(name: &str, kind: &str) -> Vec<String> {
    match kind {
        "counter" => vec![format!("{name}_total")],
        "histogram" => ["bucket", "sum", "count"]
            .map(|suffix| format!("{name}_{suffix}"))
            .to_vec(),
        _ => vec![name.to_owned()],
    }
}

/// The metrics of a server that has answered some requests.
fn scraped() -> Families {
    let place = Place::new();
    let server = served(&place, "");
    for path in [
        TILE,
        BLACK,
        "planes/raw/xy/1/small.png",
        "unknown/raw/xy/1/0_0_0.png",
    ] {
        server.tile(path);
    }
    let answer = server.get("/metrics");
    assert!(
        answer
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    parsed(&answer.text())
}

fn in_repository(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The words of a text that are names of metrics.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_ours = |word: &&str| word.starts_with("voltile_") || word.starts_with("process_");
    let words = text.split(|c: char| !is_part(c)).filter(is_ours);
    words.map(str::to_owned).collect()
}

#[test]
fn the_tables_of_the_manual_name_every_metric_and_no_other() {
    let exist: BTreeSet<String> = scraped()
        .iter()
        .map(|(name, kind)| {
            if kind == "counter" {
                format!("{name}_total")
            } else {
                name.clone()
            }
        })
        .collect();
    let mut told = BTreeSet::new();
    let manuals = [
        "docs/monitoring.md",
        "docs/disk-cache.md",
        "docs/replicas.md",
        "docs/object-storage.md",
    ];
    for manual in manuals {
        let text = in_repository(manual);
        let rows = text
            .lines()
            .filter(|line| line.starts_with("| `voltile_") || line.starts_with("| `process_"));
        told.extend(rows.flat_map(|row| names(row.split('|').nth(1).expect("a first column"))));
    }
    assert_eq!(told, exist);
}

#[test]
fn the_dashboard_and_the_alerts_use_only_metrics_that_exist() {
    fn queries(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                all.extend(
                    ["expr", "query"]
                        .iter()
                        .filter_map(|name| Some(fields.get(*name)?.as_str()?.to_owned())),
                );
                fields.values().for_each(|value| queries(value, all));
            }
            Value::Array(items) => items.iter().for_each(|value| queries(value, all)),
            _ => {}
        }
    }
    let exist: BTreeSet<String> = scraped()
        .iter()
        .flat_map(|(name, kind)| samples(name, kind))
        .collect();
    let dashboard: Value =
        serde_json::from_str(&in_repository("packaging/grafana/voltile.json")).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let mut all = Vec::new();
        queries(panel, &mut all);
        assert!(
            all.iter().any(|query| !names(query).is_empty()),
            "{} shows something",
            panel["title"]
        );
    }
    let mut all = Vec::new();
    queries(&dashboard, &mut all);
    all.push(in_repository("packaging/prometheus/voltile.rules.yml"));
    let unknown: Vec<String> = all
        .iter()
        .flat_map(|query| names(query))
        .filter(|name| !exist.contains(name))
        .collect();
    assert_eq!(unknown, [""; 0]);
}
