//! `voltile bench`: measures how fast tiles of a file are rendered, or served by a running server,
//! and what limits the speed.
//!
//! [`form`] parses the arguments, including those of ndtilecache's benchmark; [`table`] writes rows
//! and verdicts as text as they become available; with `--json` everything is printed at the end. A
//! tile that fails is counted and reported, and the exit status is 1.

mod form;
mod table;

use std::num::NonZeroUsize;

use serde_json::{Value, json};

use super::failure::Failure;
use super::load::{Sound, load_sound};
use super::log::Log;
use super::output;
use crate::base::paint::PngProfile;
use crate::config::Settings;
use crate::tools::bench::{
    Choice, Local, Machine, NotReached, Remote, RemoteRow, Row, State, Subject, explain, scaling,
    verdicts,
};

pub(super) use form::Arguments;
use form::{Plan, Source};

pub(super) fn run(log: &Log, arguments: &Arguments) -> Result<(), Failure> {
    let plan = arguments.plan().map_err(Failure::Usage)?;
    match &plan.source {
        Source::Files {
            sources,
            states,
            threads,
        } => {
            let Sound {
                settings,
                catalog,
                metrics,
                activity,
            } = load_sound(log, &sources.layers()?)?;
            let usual = [NonZeroUsize::MIN, settings.render.threads];
            let threads = if threads.is_empty() {
                form::sorted(&usual)
            } else {
                threads.clone()
            };
            let choice = Choice::new(catalog.describe(), &plan.selection, &plan.bounds)
                .map_err(Failure::Usage)?;
            let local = Local::new(&catalog, &metrics, &activity, plan.limits);
            bench_files(
                arguments, &plan, &choice, &settings, local, states, &threads,
            )
        }
        Source::Server {
            url,
            clients,
            undescribed,
        } => {
            let remote = Remote::new(url, plan.limits).map_err(|error| match error {
                NotReached::Address(why) => Failure::Usage(why),
                NotReached::Silent(_) => error.into(),
            })?;
            let choice = match (remote.datasets(), undescribed) {
                (Err(_), Some(choice)) => choice.clone(),
                (Err(why), None) => return Err(anyhow::Error::msg(why).into()),
                (Ok(datasets), _) => {
                    Choice::new(datasets, &plan.selection, &plan.bounds).map_err(Failure::Usage)?
                }
            };
            bench_server(arguments, &plan, &choice, &remote, clients)
        }
    }
}

fn bench_files(
    arguments: &Arguments,
    plan: &Plan,
    choice: &Choice,
    settings: &Settings,
    mut local: Local<'_>,
    states: &[State],
    threads: &[NonZeroUsize],
) -> Result<(), Failure> {
    let mut report = Report::begin(arguments.json, choice, "")?;
    let (mut rows, mut subjects): (Vec<Row>, Vec<Subject>) = (Vec::new(), Vec::new());
    for target in &choice.targets {
        let own = local.subjects(target);
        local.measure(
            target,
            &plan.patterns,
            states,
            threads,
            arguments.seed,
            |row| {
                let subject = own.iter().find(|subject| subject.level == row.course.level);
                report.put_row(table::heading(&row, subject), &table::row(&row))?;
                rows.push(row);
                Ok::<_, Failure>(())
            },
        )?;
        subjects.extend(own);
    }
    let small = settings.render.style.png == PngProfile::Small;
    let (verdicts, scaling) = (verdicts(&rows, &subjects, small), scaling(&rows));
    let remarks = [local.remarks(), &table::not_from_disk(&rows)].concat();
    report.put(&table::verdicts(&verdicts, &scaling))?;
    let settings = json!({
        "seconds": plan.limits.time.as_secs_f64(), "tiles": plan.limits.tiles, "seed": arguments.seed,
        "chunk_cache_bytes": settings.cache.chunks, "png": if small { "small" } else { "fast" },
    });
    let more = json!({
        "settings": settings, "subjects": subjects, "rows": rows, "verdicts": verdicts, "scaling": scaling,
    });
    report.end(more, &remarks, local.failures())?;
    match rows.iter().map(|row| row.failed).sum::<usize>() {
        0 => Ok(()),
        failed => Err(Failure::Work(anyhow::anyhow!(
            "{failed} tiles could not be rendered"
        ))),
    }
}

fn bench_server(
    arguments: &Arguments,
    plan: &Plan,
    choice: &Choice,
    remote: &Remote,
    clients: &[NonZeroUsize],
) -> Result<(), Failure> {
    let mut report = Report::begin(
        arguments.json,
        choice,
        &format!("server     {}\n", remote.base()),
    )?;
    let mut rows: Vec<RemoteRow> = Vec::new();
    let mut gone = None;
    for target in &choice.targets {
        gone = remote.measure(target, &plan.patterns, clients, arguments.seed, |row| {
            report.put_row(table::remote_heading(&row), &table::remote_row(&row))?;
            rows.push(row);
            Ok::<_, Failure>(())
        })?;
        if gone.is_some() {
            break;
        }
    }
    let verdicts = explain(&rows);
    let mut problems: Vec<String> = rows.iter().flat_map(|row| row.problems.clone()).collect();
    problems.dedup();
    problems.truncate(10);
    report.put(&table::sentences(&verdicts))?;
    let settings = json!({
        "seconds": plan.limits.time.as_secs_f64(), "tiles": plan.limits.tiles, "seed": arguments.seed,
    });
    let more = json!({ "server": remote.base(), "settings": settings, "rows": rows, "verdicts": verdicts });
    report.end(more, &remote.remarks(), &problems)?;
    let failed: u64 = rows.iter().map(RemoteRow::failed).sum();
    let requests: u64 = rows.iter().map(|row| row.requests).sum();
    match (gone, failed) {
        (Some(gone), _) => Err(Failure::Work(anyhow::Error::msg(gone))),
        (None, 0) => Ok(()),
        (None, _) => Err(Failure::Work(anyhow::anyhow!(
            "{failed} of {requests} requests returned no tile"
        ))),
    }
}

/// Where results go: text as it becomes available, or JSON at the end.
struct Report {
    is_json: bool,
    machine: Machine,
    left_out: Vec<String>,
    /// Above the last row.
    heading: String,
}

impl Report {
    /// Prints the machine, and what is not measured.
    fn begin(is_json: bool, choice: &Choice, server: &str) -> Result<Self, Failure> {
        let (machine, left_out) = (Machine::here(), choice.left_out.clone());
        let text = table::machine(&machine) + server + &table::left_out(&left_out);
        let report = Self {
            is_json,
            machine,
            left_out,
            heading: String::new(),
        };
        report.put(&text)?;
        Ok(report)
    }

    fn put(&self, text: &str) -> Result<(), Failure> {
        if self.is_json {
            Ok(())
        } else {
            output::stream(text)
        }
    }

    /// Prints a row, below its heading if the last row had another heading.
    fn put_row(&mut self, heading: String, row: &str) -> Result<(), Failure> {
        let text = if heading == self.heading {
            row.to_owned()
        } else {
            format!("{heading}{row}")
        };
        self.heading = heading;
        self.put(&text)
    }

    /// Prints remarks and failures, or everything as JSON.
    fn end(&self, mut all: Value, remarks: &[String], failures: &[String]) -> Result<(), Failure> {
        if !self.is_json {
            return output::stream(&table::remarks(remarks, failures));
        }
        for (name, value) in [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("machine", json!(self.machine)),
            ("remarks", json!(remarks)),
            ("left_out", json!(self.left_out)),
            ("failures", json!(failures)),
        ] {
            all[name] = value;
        }
        output::print_json(&all)
    }
}
