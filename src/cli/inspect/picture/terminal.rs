//! The terminal: its size, and which forms of pictures it understands.
//!
//! The question is a query of the Kitty graphics protocol followed by a request for the primary device attributes (DA1),
//! which nearly every terminal answers: once it has, no answer to the query will follow. Attribute 4 is Sixel. Sources:
//! <https://sw.kovidgoyal.net/kitty/graphics-protocol/#querying-support-and-available-transmission-mediums>, and
//! <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};

/// The maximum width of a picture in characters.
const MAX_COLUMNS: usize = 80;
/// The maximum height of a picture in lines.
const MAX_ROWS: usize = 24;
/// Lines of the terminal that a picture leaves to its caption and the prompt.
const OTHER_ROWS: usize = 2;
/// The width and height of a character in pixels, if the terminal does not tell.
const CELL: (usize, usize) = (8, 16);

/// The query, cleared from the line in case that the terminal prints it; then the request for the attributes.
const QUESTION: &[u8] = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\r\x1b[K\x1b[c";
/// The answer to the query if the protocol is understood.
const KITTY: &[u8] = b"\x1b_Gi=31;OK";
/// The attribute of terminals that understand Sixel.
const SIXEL: &[u8] = b"4";
/// How long to wait for the answer: long enough for a slow connection.
const PATIENCE: Duration = Duration::from_secs(1);
/// What Ctrl-C sends while it does not interrupt.
const INTERRUPT: u8 = 3;

/// The room for a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// The maximum width in characters.
    pub columns: usize,
    /// The maximum height in lines.
    pub rows: usize,
    /// The width and height of a character in pixels.
    pub cell: (usize, usize),
}

impl Size {
    /// The room in the terminal that standard output goes to; that of 80 × 24 pictures if it goes elsewhere.
    pub fn of_output() -> Self {
        match tcgetwinsize(io::stdout()) {
            Ok(window) => Self::within(
                (window.ws_col.into(), window.ws_row.into()),
                (window.ws_xpixel.into(), window.ws_ypixel.into()),
            ),
            // It is not a terminal.
            Err(_) => Self::within((0, 0), (0, 0)),
        }
    }

    /// The room in a terminal of so many columns and rows, and pixels; zeros are unknown.
    fn within((columns, rows): (usize, usize), (width, height): (usize, usize)) -> Self {
        let cell = match (width.checked_div(columns), height.checked_div(rows)) {
            (Some(width @ 1..), Some(height @ 1..)) => (width, height),
            _ => CELL,
        };
        let columns = if columns == 0 { MAX_COLUMNS } else { columns.min(MAX_COLUMNS) };
        let rows = if rows == 0 { MAX_ROWS } else { rows.saturating_sub(OTHER_ROWS).clamp(1, MAX_ROWS) };
        Self { columns, rows, cell }
    }
}

/// Which forms of pictures a terminal understands, besides characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Understood {
    pub kitty: bool,
    pub sixel: bool,
}

/// Asks the terminal which forms it understands: none if it does not answer in time.
pub(super) fn understood() -> Understood {
    match ask() {
        Ok(answer) => Understood::from_answer(&answer),
        Err(error) => {
            tracing::debug!("the terminal cannot be asked whether it shows pictures: {error}");
            Understood::default()
        }
    }
}

/// Asks the terminal of this process; an empty answer if the process is in the background, where it may not read.
fn ask() -> io::Result<Vec<u8>> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    if tcgetpgrp(&terminal)? != getpgrp() {
        return Ok(Vec::new());
    }
    let raw = RawMode::enter(&terminal)?;
    let answer = answered(&terminal);
    drop(raw);
    let answer = answer?;
    if answer.contains(&INTERRUPT) {
        kill_process(getpid(), Signal::INT)?;
    }
    Ok(answer)
}

/// Sends the question, and reads until the attributes are complete.
fn answered(mut terminal: &File) -> io::Result<Vec<u8>> {
    terminal.write_all(QUESTION)?;
    let until = Instant::now() + PATIENCE;
    let (mut answer, mut piece) = (Vec::new(), [0; 256]);
    while attributes(&answer).is_none() && !answer.contains(&INTERRUPT) && is_readable(terminal, until)? {
        match terminal.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend(piece.iter().take(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Waits until there is something to read; false if there is nothing until then.
fn is_readable(terminal: &File, until: Instant) -> io::Result<bool> {
    let mut descriptors = [PollFd::new(terminal, PollFlags::IN)];
    let ready = retry_on_intr(|| {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        poll(&mut descriptors, Some(&left))
    })?;
    Ok(ready > 0)
}

impl Understood {
    fn from_answer(answer: &[u8]) -> Self {
        let kitty = answer.windows(KITTY.len()).any(|part| part == KITTY);
        let attributes = attributes(answer).unwrap_or_default();
        Self { kitty, sixel: attributes.split(|byte| *byte == b';').any(|attribute| attribute == SIXEL) }
    }
}

/// The primary device attributes in an answer: what is between `ESC [ ?` and `c`.
fn attributes(answer: &[u8]) -> Option<&[u8]> {
    const BEGIN: &[u8] = b"\x1b[?";
    let mut places = (0..answer.len()).filter_map(|at| answer.get(at..)?.strip_prefix(BEGIN));
    places.find_map(|rest| {
        let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
        rest.get(..end).filter(|_| rest.get(end) == Some(&b'c'))
    })
}

/// A terminal that passes on each byte and echoes none; dropping this restores its mode and discards unread input.
struct RawMode<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> RawMode<'a> {
    fn enter(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut raw = before.clone();
        // Ctrl-C does not interrupt either, as the mode would not be restored.
        raw.make_raw();
        tcsetattr(terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for RawMode<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.terminal, OptionalActions::Flush, &self.before) {
            tracing::warn!("the mode of the terminal could not be restored: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(answer: &[u8]) -> (bool, bool) {
        let Understood { kitty, sixel } = Understood::from_answer(answer);
        (kitty, sixel)
    }

    #[test]
    fn answers_are_understood() {
        assert_eq!(understood(b"\x1b_Gi=31;OK\x1b\\\x1b[?62;c"), (true, false));
        assert_eq!(understood(b"\x1b[?62;4;22c"), (false, true));
        assert_eq!(understood(b"\x1b_Gi=31;OK\x1b\\\x1b[?64;1;4c"), (true, true));
        assert_eq!(understood(b"\x1b[?4c"), (false, true));
        assert_eq!(understood(b"\x1b[?64;14;40c"), (false, false));
        assert_eq!(understood(b"\x1b_Gi=31;EINVAL:no\x1b\\\x1b[?1;2c"), (false, false));
        assert_eq!(understood(b"typed ahead 4c"), (false, false));
    }

    #[test]
    fn the_attributes_end_the_answer() {
        assert_eq!(attributes(b"\x1b_Gi=31;OK\x1b\\"), None);
        assert_eq!(attributes(b"\x1b[?64;4"), None);
        assert_eq!(attributes(b"\x1b[?1049h\x1b[?64;4c"), Some(b"64;4".as_slice()));
    }

    #[test]
    fn pictures_fit_the_terminal_and_are_small() {
        let size = |columns, rows, cell| Size { columns, rows, cell };
        assert_eq!(Size::within((0, 0), (0, 0)), size(80, 24, CELL));
        assert_eq!(Size::within((200, 60), (2000, 1200)), size(80, 24, (10, 20)));
        assert_eq!(Size::within((40, 10), (0, 0)), size(40, 8, CELL));
        assert_eq!(Size::within((1, 1), (0, 0)), size(1, 1, CELL));
    }
}
