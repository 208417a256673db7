//! The only place that writes to the terminal.
//!
//! Standard output is for what was asked (text, JSON), standard error for everything said about it. A reader that goes
//! away (`gristmill list | head -1`) is no error: the command ends quietly with exit code 0. Colour is used only on a
//! terminal, and not when `NO_COLOR` is set or `TERM` is `dumb`.

#![allow(dead_code, reason = "terminal helpers for every command; not each build uses all")]

use crate::Failure;
use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// Writes one formatted line to standard output.
#[allow(unused_macros, reason = "for every command; not each build uses both")]
macro_rules! out {
    ($($arg:tt)*) => { $crate::term::out_line(format_args!($($arg)*)) };
}
/// Writes one formatted line to standard error.
#[allow(unused_macros, reason = "for every command; not each build uses both")]
macro_rules! err {
    ($($arg:tt)*) => { $crate::term::err_line(format_args!($($arg)*)) };
}
#[allow(unused_imports, reason = "for every command; not each build uses both")]
pub(crate) use {err, out};

/// Writes `line` and a newline to standard output.
pub(crate) fn out_line(line: Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_fmt(line).and_then(|()| stdout.write_all(b"\n"));
    settle(written);
}

/// Writes `text` as it is to standard output and flushes it, so that a stream of tokens is seen as it comes.
pub(crate) fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    settle(written);
}

/// Prints `value` as indented JSON, for `--json`.
///
/// # Errors
/// A value that has no JSON form.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    out_line(format_args!("{}", serde_json::to_string_pretty(value)?));
    Ok(())
}

/// The command as it was given, as a shell reads it.
pub(crate) fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@%+".contains(c);
    let word = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    // What the program is called here says nothing elsewhere.
    let rest = std::env::args_os().skip(1).map(|arg| word(arg.to_string_lossy().into_owned()));
    std::iter::once("gristmill".to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
}

/// Writes `line` and a newline to standard error. A closed standard error is nobody's loss.
pub(crate) fn err_line(line: Arguments<'_>) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_fmt(line).and_then(|()| stderr.write_all(b"\n"));
}

/// The one line that tells why a command failed.
pub(crate) fn failure(failure: &Failure) {
    if !failure.message.is_empty() {
        let painted = paint_for(std::io::stderr().is_terminal(), Colour::Red, "error:");
        // The message is one line whatever a file name or a server put into it.
        let message = failure.message.trim_end().replace(['\n', '\r'], " ");
        err_line(format_args!("{painted} {message}"));
    }
}

/// Prints what the flag parser has to say (help, version, or what is wrong) and gives its exit code.
pub(crate) fn usage(usage: &clap::Error) -> ExitCode {
    match usage.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2)),
    }
}

/// The few colours the terminal output uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Something failed.
    Red,
    /// A warning.
    Yellow,
    /// Something is as it should be.
    Green,
    /// Headings.
    Bold,
    /// Beside the point.
    Dim,
}

/// `text` in `colour` when standard output is a terminal that wants colour, else `text` alone.
pub(crate) fn paint(colour: Colour, text: &str) -> String {
    paint_for(std::io::stdout().is_terminal(), colour, text)
}

fn paint_for(terminal: bool, colour: Colour, text: &str) -> String {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
        || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    if !terminal || refused {
        return text.to_owned();
    }
    let code = match colour {
        Colour::Red => "31",
        Colour::Yellow => "33",
        Colour::Green => "32",
        Colour::Bold => "1",
        Colour::Dim => "2",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Ends the process when standard output cannot be written: quietly if its reader left, else with the reason.
#[allow(clippy::exit, reason = "nothing that is asked for can be delivered once standard output is gone")]
fn settle(written: std::io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            err_line(format_args!("error: cannot write to standard output: {error}"));
            std::process::exit(1)
        }
    }
}
