//! Verdicts in words, with the suggested commands.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::catalog::advice;
use crate::store::Location;
use crate::tools::bench::{Help, Row, Scaling, State, Verdict};

/// The file of each channel, by token and name.
type Places = BTreeMap<(String, String), Location>;

/// All verdicts; empty if no tile could be rendered.
pub(super) fn verdicts(verdicts: &[Verdict], scaling: &[Scaling], places: &Places) -> String {
    if verdicts.is_empty() && scaling.is_empty() {
        return String::new();
    }
    let mut out = "\nverdict\n".to_owned();
    for verdict in verdicts {
        let Verdict { token, channel, state, rows, says, .. } = verdict;
        let _ = writeln!(out, "  {token} {channel}, {}, {rows}:\n    {says}", state.words());
        let helps: Vec<String> = helps(verdict, places);
        if !helps.is_empty() {
            let _ = writeln!(out, "    would help: {}", helps.join("; "));
        }
    }
    for scaling in scaling {
        let _ = writeln!(out, "  {}", scaling.says());
    }
    out
}

/// A verdict as JSON, with each help also as the command or the setting.
pub(super) fn json(verdict: &Verdict, places: &Places) -> Value {
    let mut value = json!(verdict);
    let helps = verdict.helps.iter().zip(helps(verdict, places));
    let helps: Vec<Value> = helps.map(|(help, how)| json!({"help": help, "how": how})).collect();
    if let Some(object) = value.as_object_mut() {
        object.insert("helps".to_owned(), helps.into());
    }
    value
}

fn helps(verdict: &Verdict, places: &Places) -> Vec<String> {
    let file = places.get(&(verdict.token.clone(), verdict.channel.clone()));
    let file = file.cloned().unwrap_or_else(|| Path::new("FILE.h5").into());
    verdict.helps.iter().map(|help| how(*help, &file)).collect()
}

fn how(help: Help, file: &Location) -> String {
    match help {
        Help::Rechunk => format!("a copy in chunks that suit all planes: {}", advice::rechunk(file)),
        Help::StoreLevels => format!("storing the levels once: {}", advice::store_levels(file)),
        Help::FasterDisk => "a faster disk, or more memory for the page cache".to_owned(),
        Help::MoreChunksKept => "a larger cache.chunks, so that chunks are found decoded".to_owned(),
        Help::LighterFilter => "a filter that decodes faster, such as lz4 or zstd, or none".to_owned(),
        Help::MoreThreads => "more cores, and render.threads to use them".to_owned(),
        Help::FastPng => "png = \"fast\"".to_owned(),
        Help::MoreTilesKept => {
            "a larger cache.tiles, so that tiles requested again are not rendered again".to_owned()
        }
    }
}

/// Sentences under the heading "verdict".
pub(super) fn sentences(sentences: &[String]) -> String {
    let lines: String = sentences.iter().map(|sentence| format!("  {sentence}\n")).collect();
    if lines.is_empty() { lines } else { format!("\nverdict\n{lines}") }
}

/// Remarks on the rows, and failures.
pub(super) fn remarks(remarks: &[String], failures: &[String]) -> String {
    let remarks = remarks.iter().map(|remark| format!("remark     {remark}\n"));
    let failures = failures.iter().map(|failure| format!("failed     {failure}\n"));
    let lines: String = remarks.chain(failures).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// The channels left out because none was named.
pub(super) fn left_out(channels: &[String]) -> String {
    const MAX_SHOWN: usize = 8;
    if channels.is_empty() {
        return String::new();
    }
    let more = if channels.len() > MAX_SHOWN { ", …" } else { "" };
    let shown: Vec<&str> = channels.iter().take(MAX_SHOWN).map(String::as_str).collect();
    format!("not measured: {}{more}; name them with --channel\n", shown.join(", "))
}

/// Remarks on rows that were meant to read from disk and did not.
pub(super) fn not_from_disk(rows: &[Row]) -> Vec<String> {
    let cold = || rows.iter().filter(|row| row.state == State::Disk && row.tiles > 0);
    let of = |wanted: Option<bool>| cold().filter(|row| row.is_from_disk() == wanted).count();
    let (all, from_memory, unknown) = (cold().count(), of(Some(false)), of(None));
    let mut remarks = Vec::new();
    if from_memory > 0 {
        remarks.push(format!(
            "in {from_memory} of {all} rows \"cold disk\" little or nothing was read from disk: the file stayed in the page cache, or is in memory; these rows are equivalent to \"cold chunks\""
        ));
    }
    if unknown > 0 {
        remarks.push(format!(
            "the system does not report whether {unknown} of {all} rows \"cold disk\" were read from disk"
        ));
    }
    remarks
}
