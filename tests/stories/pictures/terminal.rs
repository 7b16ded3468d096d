//! A terminal for the program: a pseudoterminal, whose other end this process plays.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::common::{Place, until_in_time};

/// The request for the primary device attributes, with which the question ends.
const ATTRIBUTES: &[u8] = b"\x1b[c";

/// How the terminal answers.
#[derive(Clone, Copy)]
pub enum Answered {
    With(&'static [u8]),
    Never,
}

/// What `voltile inspect --picture made.h5` prints on a terminal. It is run again if the terminal was too slow to answer, so
/// that the output is not as wanted.
pub fn printed(place: &Place, answered: Answered, is_as_wanted: impl Fn(&str) -> bool) -> String {
    until_in_time(|_| Some(run(place, "--picture", answered)).filter(|out| is_as_wanted(out)))
}

/// Whether the terminal is asked.
pub fn is_asked(place: &Place, form: &str) -> bool {
    let asked = std::str::from_utf8(ATTRIBUTES).unwrap();
    run(place, form, Answered::With(b"\x1b[?1;2c")).contains(asked)
}

/// Runs the program on a terminal of 100 columns and 40 lines, which must have its mode back afterwards.
fn run(place: &Place, form: &str, answered: Answered) -> String {
    // It becomes the controlling terminal of the program only, and no other story's program has it open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = File::from(openpt(flags).unwrap());
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    let terminal = options.open(OsStr::from_bytes(name.as_bytes())).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let before = tcgetattr(&terminal).unwrap();

    let mut command = place.voltile(["inspect", "made.h5", form]);
    command.env("TERM", "xterm-256color").env("COLORTERM", "truecolor");
    command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap());
    command.stderr(terminal.try_clone().unwrap());
    control(&mut command);
    let mut child = command.spawn().unwrap();
    // It holds copies of the terminal.
    drop(command);
    let reader = thread::spawn(move || played(master, answered));
    let status = child.wait().unwrap();
    let after = tcgetattr(&terminal).unwrap();
    drop(terminal);
    let out = reader.join().unwrap();
    assert!(status.success(), "{status}: {out}");
    assert_eq!(
        (after.input_modes, after.output_modes, after.local_modes),
        (before.input_modes, before.output_modes, before.local_modes),
        "the mode of the terminal"
    );
    out
}

/// Makes standard input the controlling terminal of the program.
#[allow(unsafe_code, reason = "there is no safe way to act between fork and exec")]
fn control(command: &mut Command) {
    let control = || {
        // SAFETY: these are system calls that use no memory of the parent.
        let done = unsafe { libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) != -1 };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(control) };
}

/// Reads what is printed until the program and this process have closed the terminal; answers when asked.
fn played(mut master: File, answered: Answered) -> String {
    let (mut out, mut piece, mut is_asked) = (Vec::new(), [0; 4096], false);
    // Linux reports the end of a pseudoterminal as an error.
    while let Ok(count @ 1..) = master.read(&mut piece) {
        out.extend_from_slice(&piece[..count]);
        if !is_asked && out.windows(ATTRIBUTES.len()).any(|part| part == ATTRIBUTES) {
            is_asked = true;
            if let Answered::With(answer) = answered {
                master.write_all(answer).unwrap();
            }
        }
    }
    String::from_utf8(out).unwrap()
}
