//! The configuration that serves a file as it is served without one, to paste and to change.

use std::fmt::Write;
use std::path::Path;

use crate::catalog::{Channel, Dataset, SpelledOut};
use crate::paint::Kind;

/// The configuration that serves the same, every guess spelled out so that it can be changed.
pub(super) fn configuration(dataset: &Dataset, file: &Path) -> String {
    let token = key(dataset.token.as_str());
    let mut out = format!("[datasets.{token}]\nfile = {}\n", quoted(&file.display().to_string()));
    for channel in dataset.channels.values() {
        let _ = write!(
            out,
            "\n[datasets.{token}.channels.{}]\n{}",
            key(channel.name.as_str()),
            channel_keys(channel)
        );
    }
    out
}

fn channel_keys(channel: &Channel) -> String {
    let mut out = String::new();
    if let Some(SpelledOut { levels, view }) = channel.spelled_out() {
        if let [(path, _)] = levels.as_slice() {
            let _ = writeln!(out, "path = {}", quoted(path));
        } else {
            let levels = levels.iter().map(|(path, f)| {
                format!("{{ path = {}, factor = [{}, {}, {}] }}", quoted(path), f.x, f.y, f.z)
            });
            let _ = writeln!(out, "levels = [{}]", levels.collect::<Vec<_>>().join(", "));
        }
        let _ = writeln!(out, "axes = \"{}\"", view.axes);
        if !view.fixed.is_empty() {
            let fixed: Vec<String> = view.fixed.iter().map(|(axis, at)| format!("{axis} = {at}")).collect();
            let _ = writeln!(out, "index = {{ {} }}", fixed.join(", "));
        }
    }
    let _ = writeln!(out, "kind = \"{}\"", channel.kind.name());
    if channel.kind == Kind::Image && channel.is_measured() {
        out.push_str("window = \"auto\"\n");
    }
    out
}

/// A TOML key: bare where it can be.
fn key(name: &str) -> String {
    let bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if bare { name.to_owned() } else { quoted(name) }
}

/// A TOML string: its escapes are JSON's, as far as paths and names go.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
