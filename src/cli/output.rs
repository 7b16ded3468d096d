//! The output of commands: results on standard output, messages on standard error.
//!
//! Everything is printed through this module, because the standard library's macros panic if the
//! output cannot be written. A reader that closes the pipe, as `head` does, is no error; any other
//! failure is. Names in files and in shared directories come from other people, so control
//! characters are escaped for terminals.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use super::failure::Failure;
use super::log::LogWriter;

/// Prints text for people; succeeds if the reader has closed the pipe.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    ignore_closed_pipe(stream(text))
}

pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print_bytes(format!("{}\n", serde_json::to_string_pretty(value)?).as_bytes())
}

/// Prints a result as JSON, or as text for people.
pub(super) fn print_as<T: Serialize>(
    json: bool,
    result: &T,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    if json {
        print_json(result)
    } else {
        print(&text(result))
    }
}

/// Prints bytes unchanged.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    ignore_closed_pipe(write(bytes))
}

/// Prints text for people, from a command that is of no use without a reader: fails if the reader
/// has closed the pipe.
pub(super) fn stream(text: &str) -> Result<(), Failure> {
    write(terminal_safe(text).as_bytes())
}

/// Prints an error message on standard error.
pub(super) fn complain(log: &LogWriter, text: &str) {
    log.message(&terminal_safe(&format!("voltile: {text}")));
}

/// A count and its noun: `1 request`, `2 requests`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Escapes control characters, including line breaks, in a name to be printed within a line.
pub(super) fn escaped(name: &str) -> String {
    escape(name, is_control)
}

/// Escapes control characters in text, except line feeds and tabs.
pub(super) fn terminal_safe(text: &str) -> String {
    escape(text, |character| {
        is_control(character) && !matches!(character, '\n' | '\t')
    })
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match is_escaped(character) {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

/// Whether this is a control character, or a Unicode character that reorders or breaks lines.
pub(super) fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    as_failure(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Turns an error of standard output into a failure.
pub(super) fn as_failure(result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => anyhow::anyhow!("standard output cannot be written: {error}").into(),
    })
}

fn ignore_closed_pipe(result: Result<(), Failure>) -> Result<(), Failure> {
    match result {
        Err(Failure::NobodyReads) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_all_else_is_left() {
        assert_eq!(
            escaped("a\u{1b}[31m\r\n\tb\u{9b}\u{202e}ü 水"),
            r"a\u{1b}[31m\r\n\tb\u{9b}\u{202e}ü 水"
        );
        assert_eq!(terminal_safe("a\tb\n\u{7}\u{7f}"), "a\tb\n\\u{7}\\u{7f}");
    }
}
