//! `voltile bench`: measures how fast tiles of a file are rendered, or served by a running server, and what limits
//! that.
//!
//! [`form`] parses the arguments, including those of ndtilecache's benchmark; [`table`] and [`words`] write
//! rows and verdicts as text as they become available; with `--json` everything is printed at the end. A tile
//! that fails is counted and reported, and the exit status is 1.

mod form;
mod table;
mod words;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::log::Log;
use super::{Failure, load_sound, output};
use crate::base::name::Name;
use crate::base::paint::PngProfile;
use crate::catalog::Catalog;
use crate::flow::activity::Activity;
use crate::metrics::Metrics;
use crate::store::Location;
use crate::tools::bench::{
    Local, Machine, NotReached, Remote, RemoteRow, Row, Selection, Subject, Target, Unknown, scaling, told,
    verdicts,
};

pub(super) use form::Arguments;
use form::{Files, Form, Server};

pub(super) fn run(log: &Log, arguments: &Arguments) -> Result<(), Failure> {
    match arguments.form().map_err(Failure::Usage)? {
        Form::Files(files) => of_files(log, arguments, &files),
        Form::Server(server) => of_server(arguments, &server),
    }
}

fn of_files(log: &Log, arguments: &Arguments, files: &Files) -> Result<(), Failure> {
    let (metrics, activity) = (Metrics::default(), Activity::default());
    let (settings, catalog) = load_sound(log, &files.sources.layers()?, &metrics, &activity)?;
    let mut local = Local::new(&catalog, &metrics, &activity, files.limits);
    let threads = files.threads(settings.render.threads);
    let choice = chosen(&arguments.selection(), local.targets())?;
    let machine = Machine::here();
    let out = Output { json: arguments.json() };
    out.put(&table::machine(&machine))?;
    out.put(&words::left_out(&choice.left_out))?;
    let (mut rows, mut subjects): (Vec<Row>, Vec<Subject>) = (Vec::new(), Vec::new());
    for target in &choice.targets {
        let own = local.subjects(target);
        let mut written = Ok(());
        let mut last = None;
        local.measure(target, &files.patterns, &files.states, &threads, arguments.seed(), |row| {
            let is_new = last.replace(row.level) != Some(row.level);
            let subject = own.iter().find(|subject| subject.level == row.level);
            let heading = if is_new { table::heading(row, subject) } else { String::new() };
            rows.push(row.clone());
            // The first error is kept.
            if written.is_ok() {
                written = out.put(&(heading + &table::row(row)));
            }
        })?;
        written?;
        subjects.extend(own);
    }
    let small = settings.render.style.png == PngProfile::Small;
    let (verdicts, scaling) = (verdicts(&rows, &subjects, small), scaling(&rows));
    let places = places(&catalog, &choice.targets);
    let remarks = [local.remarks(), &words::not_from_disk(&rows)].concat();
    out.put(&words::verdicts(&verdicts, &scaling, &places))?;
    out.put(&words::remarks(&remarks, local.failures()))?;
    let failed: usize = rows.iter().map(|row| row.failed).sum();
    out.finish(|| {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "settings": {
                "seconds": files.limits.time.as_secs_f64(), "tiles": files.limits.tiles, "seed": arguments.seed(),
                "chunk_cache_bytes": settings.cache.chunks, "png": if small { "small" } else { "fast" },
            },
            "subjects": subjects,
            "rows": rows,
            "verdicts": verdicts.iter().map(|verdict| words::json(verdict, &places)).collect::<Vec<_>>(),
            "scaling": scaling,
            "remarks": remarks,
            "left_out": choice.left_out,
            "failures": local.failures(),
        })
    })?;
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Work(anyhow::anyhow!("{failed} tiles could not be rendered"))),
    }
}

fn of_server(arguments: &Arguments, server: &Server) -> Result<(), Failure> {
    let (remote, selection, mut remarks) = reached(arguments, server)?;
    let choice = chosen(&selection, remote.targets())?;
    let machine = Machine::here();
    let out = Output { json: arguments.json() };
    out.put(&format!("{}server     {}\n", table::machine(&machine), remote.base()))?;
    out.put(&words::left_out(&choice.left_out))?;
    let mut rows: Vec<RemoteRow> = Vec::new();
    let mut gone = None;
    for target in &choice.targets {
        let mut written = Ok(());
        let mut last = None;
        let measured = remote.measure(target, &server.patterns, &server.clients, arguments.seed(), |row| {
            let group = (row.clients, row.level);
            let is_new = last.replace(group) != Some(group);
            let heading = if is_new { table::remote_heading(&row) } else { String::new() };
            if written.is_ok() {
                written = out.put(&(heading + &table::remote_row(&row)));
            }
            rows.push(row);
        });
        written?;
        if let Err(error) = measured {
            gone = Some(error);
            break;
        }
    }
    let told = told(&rows);
    let mut problems: Vec<String> = rows.iter().flat_map(|row| row.problems.clone()).collect();
    problems.dedup();
    problems.truncate(10);
    if remote.is_here() {
        remarks.push("the server is on this machine, and shares its CPU cores with the clients".to_owned());
    }
    out.put(&words::sentences(&told))?;
    out.put(&words::remarks(&remarks, &problems))?;
    let failed: u64 = rows.iter().map(RemoteRow::failed).sum();
    let asked: u64 = rows.iter().map(|row| row.requests).sum();
    out.finish(|| {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "server": remote.base(),
            "settings": {
                "seconds": server.limits.time.as_secs_f64(), "tiles": server.limits.tiles, "seed": arguments.seed(),
            },
            "rows": rows,
            "verdicts": told,
            "remarks": remarks,
            "left_out": choice.left_out,
            "failures": problems,
        })
    })?;
    match (gone, failed) {
        (Some(gone), _) => Err(Failure::Work(gone.into())),
        (None, 0) => Ok(()),
        (None, failed) => {
            Err(Failure::Work(anyhow::anyhow!("{failed} of {asked} requests returned no tile")))
        }
    }
}

/// The server's description of itself; without one, the target as named on the command line if it is
/// complete.
fn reached(arguments: &Arguments, server: &Server) -> Result<(Remote, Selection, Vec<String>), Failure> {
    let selection = server.selection(arguments.selection());
    match (Remote::described(&server.url, server.limits), server.unseen(&selection)) {
        (Ok(remote), _) => Ok((remote, selection, Vec::new())),
        (Err(NotReached::Undescribed(why)), Some(target)) => {
            let remark = format!(
                "the server gave no description; requesting the tiles named on the command line ({why})"
            );
            let remote = Remote::undescribed(&server.url, target, server.limits)?;
            Ok((remote, Selection::default(), vec![remark]))
        }
        (Err(NotReached::Address(why)), _) => Err(Failure::Usage(why)),
        (Err(why), _) => Err(why.into()),
    }
}

fn chosen(selection: &Selection, all: Vec<Target>) -> Result<crate::tools::bench::Choice, Failure> {
    selection.choose(all).map_err(|unknown: Unknown| Failure::Usage(unknown.to_string()))
}

/// The file of each channel, for the commands suggested to the user.
fn places(catalog: &Catalog, targets: &[Target]) -> BTreeMap<(String, String), Location> {
    let place = |target: &Target| {
        let (token, channel) = (Name::new(&target.token).ok()?, Name::new(&target.channel).ok()?);
        let file = catalog.dataset(&token)?.channels.get(&channel)?.file.clone();
        Some(((target.token.clone(), target.channel.clone()), file))
    };
    targets.iter().filter_map(place).collect()
}

/// Where results go: text as it becomes available, or JSON at the end.
struct Output {
    json: bool,
}

impl Output {
    fn put(&self, text: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { output::stream(text) }
    }

    fn finish(&self, value: impl FnOnce() -> Value) -> Result<(), Failure> {
        if self.json { output::print_json(&value()) } else { Ok(()) }
    }
}
