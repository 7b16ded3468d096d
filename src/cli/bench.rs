//! `voltile bench`: measures how fast tiles of a file are rendered, or served by a running server, and what limits
//! the speed.
//!
//! [`form`] parses the arguments, including those of ndtilecache's benchmark; [`table`] and [`words`] write
//! rows and verdicts as text as they become available; with `--json` everything is printed at the end. A tile
//! that fails is counted and reported, and the exit status is 1.

mod form;
mod table;
mod words;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::failure::Failure;
use super::load::load_sound;
use super::log::Log;
use super::output;
use crate::base::name::Name;
use crate::base::paint::PngProfile;
use crate::catalog::Catalog;
use crate::flow::activity::Activity;
use crate::metrics::Metrics;
use crate::store::Location;
use crate::tools::bench::{
    Choice, Local, Machine, NotReached, Remote, RemoteRow, Row, Selection, Subject, Target, explain, scaling,
    verdicts,
};

pub(super) use form::Arguments;
use form::{Files, Form, Server};

pub(super) fn run(log: &Log, arguments: &Arguments) -> Result<(), Failure> {
    match arguments.form().map_err(Failure::Usage)? {
        Form::Files(files) => bench_files(log, arguments, &files),
        Form::Server(server) => bench_server(arguments, &server),
    }
}

fn bench_files(log: &Log, arguments: &Arguments, files: &Files) -> Result<(), Failure> {
    let (metrics, activity) = (Metrics::default(), Activity::default());
    let (settings, catalog) = load_sound(log, &files.sources.layers()?, &metrics, &activity)?;
    let mut local = Local::new(&catalog, &metrics, &activity, files.limits);
    let threads = files.threads(settings.render.threads);
    let choice = arguments.selection().choose(local.targets()).map_err(Failure::Usage)?;
    let mut report = Report::begin(arguments, &choice, "")?;
    let (mut rows, mut subjects): (Vec<Row>, Vec<Subject>) = (Vec::new(), Vec::new());
    for target in &choice.targets {
        let own = local.subjects(target);
        local.measure(target, &files.patterns, &files.states, &threads, arguments.seed(), |row| {
            let subject = own.iter().find(|subject| subject.level == row.level);
            report.put_row(table::heading(row, subject), &table::row(row));
            rows.push(row.clone());
        })?;
        report.written()?;
        subjects.extend(own);
    }
    let small = settings.render.style.png == PngProfile::Small;
    let (verdicts, scaling) = (verdicts(&rows, &subjects, small), scaling(&rows));
    let places = places(&catalog, &choice.targets);
    let remarks = [local.remarks(), &words::not_from_disk(&rows)].concat();
    report.put(&words::verdicts(&verdicts, &scaling, &places))?;
    let settings = json!({
        "seconds": files.limits.time.as_secs_f64(), "tiles": files.limits.tiles, "seed": arguments.seed(),
        "chunk_cache_bytes": settings.cache.chunks, "png": if small { "small" } else { "fast" },
    });
    let verdicts: Vec<Value> = verdicts.iter().map(|verdict| words::json(verdict, &places)).collect();
    let more = json!({
        "settings": settings, "subjects": subjects, "rows": rows, "verdicts": verdicts, "scaling": scaling,
    });
    report.end(more, &remarks, local.failures())?;
    match rows.iter().map(|row| row.failed).sum::<usize>() {
        0 => Ok(()),
        failed => Err(Failure::Work(anyhow::anyhow!("{failed} tiles could not be rendered"))),
    }
}

fn bench_server(arguments: &Arguments, server: &Server) -> Result<(), Failure> {
    let (remote, selection, mut remarks) = reached(arguments, server)?;
    let choice = selection.choose(remote.targets()).map_err(Failure::Usage)?;
    let mut report = Report::begin(arguments, &choice, &format!("server     {}\n", remote.base()))?;
    let (mut rows, mut gone): (Vec<RemoteRow>, _) = (Vec::new(), None);
    for target in &choice.targets {
        let measured = remote.measure(target, &server.patterns, &server.clients, arguments.seed(), |row| {
            report.put_row(table::remote_heading(&row), &table::remote_row(&row));
            rows.push(row);
        });
        report.written()?;
        if let Err(error) = measured {
            gone = Some(error);
            break;
        }
    }
    let verdicts = explain(&rows);
    let mut problems: Vec<String> = rows.iter().flat_map(|row| row.problems.clone()).collect();
    problems.dedup();
    problems.truncate(10);
    if remote.is_here() {
        remarks.push("the server is on this machine, and shares its CPU cores with the clients".to_owned());
    }
    report.put(&words::sentences(&verdicts))?;
    let settings = json!({
        "seconds": server.limits.time.as_secs_f64(), "tiles": server.limits.tiles, "seed": arguments.seed(),
    });
    let more = json!({ "server": remote.base(), "settings": settings, "rows": rows, "verdicts": verdicts });
    report.end(more, &remarks, &problems)?;
    let failed: u64 = rows.iter().map(RemoteRow::failed).sum();
    let requests: u64 = rows.iter().map(|row| row.requests).sum();
    match (gone, failed) {
        (Some(gone), _) => Err(Failure::Work(gone.into())),
        (None, 0) => Ok(()),
        (None, _) => Err(Failure::Work(anyhow::anyhow!("{failed} of {requests} requests returned no tile"))),
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
struct Report {
    is_json: bool,
    machine: Machine,
    left_out: Vec<String>,
    /// Above the last row.
    heading: String,
    /// The first error of writing rows.
    written: Result<(), Failure>,
}

impl Report {
    /// Prints the machine, and what is not measured.
    fn begin(arguments: &Arguments, choice: &Choice, server: &str) -> Result<Self, Failure> {
        let (machine, left_out) = (Machine::here(), choice.left_out.clone());
        let heading = table::machine(&machine) + server + &words::left_out(&left_out);
        let report =
            Self { is_json: arguments.json(), machine, left_out, heading: String::new(), written: Ok(()) };
        report.put(&heading)?;
        Ok(report)
    }

    fn put(&self, text: &str) -> Result<(), Failure> {
        if self.is_json { Ok(()) } else { output::stream(text) }
    }

    /// Prints a row, below its heading if the last row had another heading.
    fn put_row(&mut self, heading: String, row: &str) {
        let text = if heading == self.heading { row.to_owned() } else { format!("{heading}{row}") };
        self.heading = heading;
        if self.written.is_ok() {
            self.written = self.put(&text);
        }
    }

    fn written(&mut self) -> Result<(), Failure> {
        std::mem::replace(&mut self.written, Ok(()))
    }

    /// Prints remarks and failures, or everything as JSON.
    fn end(&self, mut all: Value, remarks: &[String], failures: &[String]) -> Result<(), Failure> {
        self.put(&words::remarks(remarks, failures))?;
        for (name, value) in [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("machine", json!(self.machine)),
            ("remarks", json!(remarks)),
            ("left_out", json!(self.left_out)),
            ("failures", json!(failures)),
        ] {
            all[name] = value;
        }
        if self.is_json { output::print_json(&all) } else { Ok(()) }
    }
}
