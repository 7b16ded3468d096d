//! The errors that the log of a server may hold at the end of a story.

/// An error that a story announced.
pub struct Announced {
    /// Part of the line.
    pub text: String,
    /// Whether it must be logged, or only may.
    pub is_certain: bool,
}

/// Logged by actix-server if a client connects while the server stops.
const WHILE_STOPPING: &str = " ERROR No workers";

/// Whether a line of the log has level ERROR.
fn is_error(line: &str) -> bool {
    line.split_whitespace().nth(1) == Some("ERROR") && !line.ends_with(WHILE_STOPPING)
}

/// The faults of a log: errors that were not announced, and announced errors that are missing.
fn faults(log: &str, announced: &[Announced]) -> Vec<String> {
    let errors: Vec<&str> = log.lines().filter(|line| is_error(line)).collect();
    let is_announced = |line: &&str| announced.iter().any(|error| line.contains(&error.text));
    let unexpected = errors
        .iter()
        .filter(|line| !is_announced(line))
        .map(|line| format!("not announced: {line}"));
    let is_missing = |error: &&Announced| {
        error.is_certain && !errors.iter().any(|line| line.contains(&error.text))
    };
    let missing = announced.iter().filter(is_missing);
    unexpected
        .chain(missing.map(|error| format!("announced, but not logged: {}", error.text)))
        .collect()
}

/// Fails the story unless the errors in a server's log are those that it announced.
pub fn assert_clean(log: &str, announced: &[Announced]) {
    assert_no_defect(log);
    let faults = faults(log, announced);
    assert!(
        faults.is_empty(),
        "the log is not clean:\n{}\nthe whole log:\n{log}",
        faults.join("\n")
    );
}

/// Fails the story if the program reports a panic or a defect of its own.
pub fn assert_no_defect(log: &str) {
    for sign in ["panicked", "defect"] {
        assert!(!log.contains(sign), "the log is not clean:\n{log}");
    }
}

#[test]
fn errors_in_a_log_must_be_announced_and_announced_errors_must_be_logged() {
    const LOG: &str = "2026-11-22T06:00:00.000001Z  INFO an ERROR in a message\n\
                       2026-11-22T06:00:00.000002Z ERROR disk full\n\
                       ERROR without a time\n";
    let announced = |text: &str, is_certain| Announced {
        text: text.to_owned(),
        is_certain,
    };
    assert_eq!(
        faults(LOG, &[]),
        ["not announced: 2026-11-22T06:00:00.000002Z ERROR disk full"]
    );
    assert_eq!(faults(LOG, &[announced("disk", true)]), [""; 0]);
    let unlogged = [
        announced("full", true),
        announced("message", true),
        announced("other", false),
    ];
    assert_eq!(
        faults(LOG, &unlogged),
        ["announced, but not logged: message"]
    );
}
