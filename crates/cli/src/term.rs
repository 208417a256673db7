//! The only place that writes to the terminal.
//!
//! Standard output is for what was asked (text, JSON), standard error for everything said about it. A reader that goes
//! away (`gristmill list | head -1`) is no error: the command ends quietly with exit code 0. Colour is used only on a
//! terminal, and not when `NO_COLOR` is set or `TERM` is `dumb`.
//!
//! Names and texts come from files, packages and servers, so every line goes through [`shown`]: characters that a
//! terminal acts on are written as escapes (`\u{1b}`), whoever put them there. Colours travel as marks and become codes
//! behind that.

#![allow(dead_code, reason = "terminal helpers for every command; not each build uses all")]

use crate::Failure;
use std::borrow::Cow;
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
    let line = shown(&line.to_string());
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(b"\n"));
    settle(written);
}

/// Writes `text` to standard output and flushes it, so that a stream of tokens is seen as it comes. On a terminal as
/// [`shown`], elsewhere as it is.
pub(crate) fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let text = if stdout.is_terminal() { Cow::Owned(shown(text)) } else { Cow::Borrowed(text) };
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    settle(written);
}

/// Prints `value` as indented JSON, for `--json`.
///
/// # Errors
/// A value that has no JSON form.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    out_line(format_args!("{}", json_text(&serde_json::to_string_pretty(value)?)));
    Ok(())
}

/// JSON whose strings hold nothing that a terminal acts on: what JSON lets stand is escaped as JSON has it.
pub(crate) fn json_text(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => text.push(c),
            _ if acts(c) => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => text.push(c),
        }
    }
    text
}

/// Whether a terminal does something on the character, or shows the line in another order than it is written in.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` as a terminal may have it: newlines and tabs stay, colours get their codes, all else that [`acts`] is escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            _ if acts(c) => out.extend(c.escape_default()),
            _ => match MARKS.iter().find(|(mark, _)| *mark == c) {
                Some((_, code)) => out.push_str(code),
                None => out.push(c),
            },
        }
    }
    out
}

/// A name or text of somebody else's as part of one line: as [`shown`], its newlines and tabs escaped too.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            out.extend(c.escape_default());
        } else if !MARKS.iter().any(|(mark, _)| *mark == c) {
            out.push(c);
        }
    }
    out
}

/// `1 key`, `2 keys`.
pub(crate) fn number(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
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
    let line = shown(&line.to_string());
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(line.as_bytes()).and_then(|()| stderr.write_all(b"\n"));
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
    // What was typed is repeated in it; where that holds what a terminal acts on, the text goes without colours.
    let odd = |word: std::ffi::OsString| word.to_string_lossy().chars().any(acts);
    if std::env::args_os().any(odd) && usage.use_stderr() {
        err_line(format_args!("{}", usage.render().to_string().trim_end()));
        return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
    }
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

/// Characters that stand for a colour's code, and for the end of one, until a line is written. Unicode has set them aside
/// for a program's own use; from elsewhere they do no more than colour.
const MARKS: [(char, &str); 6] = [
    ('\u{fdd0}', "\x1b[0m"),
    ('\u{fdd1}', "\x1b[31m"),
    ('\u{fdd2}', "\x1b[33m"),
    ('\u{fdd3}', "\x1b[32m"),
    ('\u{fdd4}', "\x1b[1m"),
    ('\u{fdd5}', "\x1b[2m"),
];

/// Whether a stream that is a terminal, or is none, may have colours.
pub(crate) fn colours(terminal: bool) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
        || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    terminal && !refused
}

/// `text` in `colour` when standard output is a terminal that wants colour, else `text` alone.
pub(crate) fn paint(colour: Colour, text: &str) -> String {
    paint_for(std::io::stdout().is_terminal(), colour, text)
}

fn paint_for(terminal: bool, colour: Colour, text: &str) -> String {
    if !colours(terminal) {
        return text.to_owned();
    }
    let mark = match colour {
        Colour::Red => '\u{fdd1}',
        Colour::Yellow => '\u{fdd2}',
        Colour::Green => '\u{fdd3}',
        Colour::Bold => '\u{fdd4}',
        Colour::Dim => '\u{fdd5}',
    };
    format!("{mark}{text}\u{fdd0}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abuse_a9_what_a_terminal_acts_on_is_escaped() {
        for (text, line, field) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\u{9b}31mb", "a\\u{9b}31mb", "a\\u{9b}31mb"),
            (
                "bell\u{7} back\u{8} del\u{7f}",
                "bell\\u{7} back\\u{8} del\\u{7f}",
                "bell\\u{7} back\\u{8} del\\u{7f}",
            ),
            ("one\ntwo\tthree", "one\ntwo\tthree", "one\\ntwo\\tthree"),
            ("carriage\rreturn", "carriage\\rreturn", "carriage\\rreturn"),
            ("txt.\u{202e}fugg", "txt.\\u{202e}fugg", "txt.\\u{202e}fugg"),
            ("é 日本 \u{1f600}", "é 日本 \u{1f600}", "é 日本 \u{1f600}"),
            ("\u{fdd1}red\u{fdd0}", "\x1b[31mred\x1b[0m", "red"),
        ] {
            assert_eq!((shown(text).as_str(), clean(text).as_str()), (line, field));
        }
    }

    #[test]
    fn abuse_a9_json_stays_json() {
        let value = serde_json::json!({ "a\u{9b}": "b\u{1b}[2J\u{202e}\n" });
        let text = json_text(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !acts(c)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            (number(0, "key"), number(1, "key"), number(2, "key")),
            ("0 keys".into(), "1 key".into(), "2 keys".into())
        );
    }
}
