//! Explains a server's rows in words. Pure.

use std::collections::BTreeMap;

use super::row::{RemoteRow, Turn};
use super::scaling::{median, speed_up};
use super::server_work::{ReadTimes, ServerWork};

/// From this fraction of cached tiles on, the server counts as having had all of them.
const MOSTLY: f64 = 0.9;
/// From this fraction of a thread on, a stage is mentioned as keeping threads busy.
const BUSY: f64 = 0.1;

/// What limits, and what would help, one sentence each.
pub fn explain(rows: &[RemoteRow]) -> Vec<String> {
    let mut says = failures(rows);
    for turn in [Turn::First, Turn::Again] {
        let known = rows
            .iter()
            .filter(|row| row.turn == turn)
            .filter_map(|row| Some((row, row.server.as_ref()?)));
        let (kept, rendered): (Vec<Known<'_>>, Vec<Known<'_>>) =
            known.partition(|(_, work)| is_kept(work));
        says.extend(
            [rendered, kept]
                .iter()
                .filter_map(|rows| source(rows, turn)),
        );
    }
    says.extend(scaling(rows));
    says.extend(own_cost(rows));
    says
}

/// A row with its server's counters.
type Known<'a> = (&'a RemoteRow, &'a ServerWork);

fn answers(work: &ServerWork) -> u64 {
    work.kept() + work.waits + work.renders + work.black
}

/// Whether the server had most of the requested tiles.
fn is_kept(work: &ServerWork) -> bool {
    (work.kept() + work.black) as f64 >= MOSTLY * answers(work) as f64
}

fn failures(rows: &[RemoteRow]) -> Vec<String> {
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    for (status, count) in rows
        .iter()
        .flat_map(|row| &row.statuses)
        .filter(|(status, _)| **status != 200)
    {
        *statuses.entry(*status).or_default() += count;
    }
    let requests: u64 = rows.iter().map(|row| row.requests).sum();
    let unanswered: u64 = rows.iter().map(|row| row.unanswered).sum();
    let mut says: Vec<String> = statuses
        .into_iter()
        .map(|(status, count)| {
            format!(
                "{count} of {requests} requests were answered {status}{}",
                why(status)
            )
        })
        .collect();
    if unanswered > 0 {
        says.push(format!(
            "{unanswered} of {requests} requests were not answered"
        ));
    }
    says
}

fn why(status: u16) -> &'static str {
    match status {
        404 => ": there is no such tile; are the token, the channel and the numbers right?",
        500 => ": tiles could not be made; the server's log says why",
        503 => {
            ": the render queue was full; fewer clients, more render.threads, or a longer render.queue would help"
        }
        _ => "",
    }
}

/// Where tiles came from, for rows whose tiles were all cached, or all rendered.
fn source(rows: &[Known<'_>], turn: Turn) -> Option<String> {
    let sum = |count: fn(&ServerWork) -> u64| rows.iter().map(|(_, work)| count(work)).sum::<u64>();
    let (_, first) = rows.first()?;
    let all = sum(answers);
    let (hits, tier, waits) = (sum(|s| s.hits), sum(|s| s.tier), sum(|s| s.waits));
    let (renders, black) = (sum(|s| s.renders), sum(|s| s.black));
    let tier = if tier == 0 {
        String::new()
    } else {
        format!(" in memory and {tier} on disk")
    };
    let turn = if turn == Turn::First {
        "the first time"
    } else {
        "again"
    };
    let counts = format!(
        "requested {turn}, in {} rows: of {all} tiles the server had {hits}{tier}, rendered {renders}, let {waits} wait for one being rendered, and {black} were black",
        rows.len()
    );
    let limit = if is_kept(first) {
        "HTTP limits: the connection, the server's workers, and this client where it is the same machine"
            .to_owned()
    } else {
        busy(rows)
    };
    (all > 0).then(|| format!("{counts}; {limit}"))
}

/// What the server's threads were busy with.
fn busy(known: &[Known<'_>]) -> String {
    let all: f64 = known.iter().map(|(row, _)| row.seconds).sum();
    let sum = |seconds: fn(&ReadTimes) -> f64| -> f64 {
        known
            .iter()
            .filter_map(|(_, work)| work.seconds.as_ref().map(seconds))
            .sum::<f64>()
            / all.max(f64::MIN_POSITIVE)
    };
    let stages = [
        ("inflating chunks", sum(|s| s.inflate)),
        ("reading stored bytes", sum(|s| s.read)),
        ("reading through the HDF5 library", sum(|s| s.library)),
        (
            "waiting for chunks that other threads decode",
            sum(|s| s.wait),
        ),
    ];
    let mut busy: Vec<(&str, f64)> = stages
        .into_iter()
        .filter(|(_, threads)| *threads >= BUSY)
        .collect();
    busy.sort_by(|a, b| b.1.total_cmp(&a.1));
    let busy: Vec<String> = busy
        .iter()
        .map(|(stage, threads)| format!("{stage} {threads:.1}"))
        .collect();
    match busy.len() {
        0 => "its threads spent almost no time reading voxels: drawing, encoding and HTTP limit"
            .to_owned(),
        _ => format!(
            "threads kept busy by {} (`voltile bench FILE` on that machine shows all stages)",
            busy.join(", by ")
        ),
    }
}

/// How many times as many repeated tiles more clients got: the median over all patterns.
fn scaling(rows: &[RemoteRow]) -> Option<String> {
    let again = rows.iter().filter(|row| row.turn == Turn::Again);
    let (few, many, factor) =
        speed_up(&again.map(|row| (row.clients, &row.course, row.tiles_per_second)))?;
    Some(format!(
        "requested again: {many} clients get {factor:.2} times as many tiles as {few}"
    ))
}

/// What measuring costs itself: on the server's machine it takes the cores that the server would
/// use.
fn own_cost(rows: &[RemoteRow]) -> Option<String> {
    let costs = rows
        .iter()
        .filter(|row| row.requests > 0)
        .map(|row| row.client_micros);
    let median = median(costs)?;
    Some(format!(
        "this client took {median:.0} µs of processor time per request (median of the rows), which a server on the same machine does not get"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::sample::Percentiles;
    use super::*;
    use crate::tools::bench::{Course, Pattern};

    fn row(turn: Turn, clients: usize, speed: f64, server: ServerWork) -> RemoteRow {
        RemoteRow {
            course: Course {
                token: "a".to_owned(),
                channel: "raw".to_owned(),
                plane: "xy".to_owned(),
                level: 0,
                pattern: Pattern::Random,
            },
            turn,
            clients,
            requests: 100,
            statuses: BTreeMap::from([(200, 100)]),
            unanswered: 0,
            tiles_per_second: speed,
            mb_per_second: speed * 0.15,
            png_bytes: 150_000.0,
            latency: Percentiles::default(),
            seconds: 2.0,
            client_micros: 40.0,
            server: Some(server),
            problems: Vec::new(),
        }
    }

    #[test]
    fn renders_are_limited_by_what_keeps_threads_busy_and_hits_by_http() {
        let seconds = Some(ReadTimes {
            inflate: 3.6,
            read: 0.1,
            ..ReadTimes::default()
        });
        let rendered = ServerWork {
            renders: 95,
            hits: 5,
            seconds,
            ..ServerWork::default()
        };
        let kept = ServerWork {
            hits: 100,
            ..ServerWork::default()
        };
        let says = explain(&[
            row(Turn::First, 8, 60.0, rendered),
            row(Turn::Again, 8, 10_000.0, kept),
        ]);
        assert_eq!(says.len(), 3, "{says:?}");
        assert!(
            says[0].contains("rendered 95") && says[0].contains("busy by inflating chunks 1.8 "),
            "{says:?}"
        );
        assert!(
            says[1].contains("had 100") && says[1].contains("HTTP limits"),
            "{says:?}"
        );
        assert!(
            says[2].contains("took 40 µs of processor time per request"),
            "{says:?}"
        );
    }

    #[test]
    fn what_failed_is_said_first_with_what_would_help() {
        let mut failing = row(Turn::First, 1, 5.0, ServerWork::default());
        failing.statuses = BTreeMap::from([(200, 60), (503, 39)]);
        failing.unanswered = 1;
        let again = |clients, speed| row(Turn::Again, clients, speed, ServerWork::default());
        let says = explain(&[failing, again(1, 5.0), again(8, 20.0)]);
        assert!(
            says[0].contains("39 of 300 requests were answered 503")
                && says[0].contains("render.queue")
        );
        assert!(says[1].contains("1 of 300 requests were not answered"));
        assert!(
            says[2].contains("8 clients get 4.00 times as many tiles as 1"),
            "{says:?}"
        );
    }
}
