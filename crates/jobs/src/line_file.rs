//! A file of batch lines, read in pieces of any size.

use crate::batch::FileError;
use crate::batch_transition::MAX_FILE_ERRORS;
use crate::hash::Names;
use crate::line::{Line, line_error, parse_line, quoted};

/// What a file must hold to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRules {
    /// The endpoint that every line must ask for; none if each may ask for another.
    pub endpoint: Option<String>,
    /// Whether every line must name the same model.
    pub one_model: bool,
    /// At most so many requests.
    pub max_lines: u64,
    /// The longest line, in bytes.
    pub max_line_bytes: usize,
}

impl FileRules {
    /// OpenAI's rules for a batch of an endpoint: 50,000 requests of one model; a line has 4 MiB at most.
    pub fn for_endpoint(endpoint: &str) -> FileRules {
        FileRules {
            endpoint: Some(endpoint.to_owned()),
            one_model: true,
            max_lines: 50_000,
            max_line_bytes: 4 << 20,
        }
    }
}

/// Splits a file into lines, whatever pieces it comes in, and holds at most one line of it.
///
/// Lines end with LF or CRLF, the last one also without; a byte order mark at the beginning is left out.
#[derive(Debug)]
struct Splitter {
    max_line_bytes: usize,
    kept: Vec<u8>,
    too_long: bool,
    number: u64,
}

/// A line of a file.
enum RawLine<'a> {
    Bytes(u64, &'a [u8]),
    TooLong(u64),
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl Splitter {
    fn new(max_line_bytes: usize) -> Splitter {
        Splitter { max_line_bytes, kept: Vec::new(), too_long: false, number: 0 }
    }

    /// Takes the next piece and says each line that ends in it, until `line` returns false.
    fn feed(&mut self, piece: &[u8], mut line: impl FnMut(RawLine<'_>) -> bool) {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.keep(&rest[..end]);
            rest = &rest[end + 1..];
            if !self.end_line(&mut line) {
                return;
            }
        }
        self.keep(rest);
    }

    /// The file has ended: says its last line if no line feed ended it.
    fn finish(&mut self, mut line: impl FnMut(RawLine<'_>) -> bool) {
        if !self.kept.is_empty() || self.too_long {
            self.end_line(&mut line);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        // Two more than a line may have: a carriage return at its end is no part of it.
        let room = (self.max_line_bytes + BYTE_ORDER_MARK.len() + 1).saturating_sub(self.kept.len());
        self.too_long |= bytes.len() > room;
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, line: &mut impl FnMut(RawLine<'_>) -> bool) -> bool {
        self.number += 1;
        let mut bytes = self.kept.as_slice();
        if self.number == 1 {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let goes_on = if self.too_long || bytes.len() > self.max_line_bytes {
            line(RawLine::TooLong(self.number))
        } else {
            line(RawLine::Bytes(self.number, bytes))
        };
        self.kept.clear();
        self.too_long = false;
        goes_on
    }
}

/// Checks a file of lines that comes in pieces. Memory: one line, and 16 bytes for each `custom_id`.
#[derive(Debug)]
pub struct Validator {
    splitter: Splitter,
    checks: Checks,
}

#[derive(Debug)]
struct Checks {
    rules: FileRules,
    names: Names,
    /// The model of the first request.
    model: Option<Option<String>>,
    lines: u64,
    errors: Vec<FileError>,
    over: bool,
}

impl Validator {
    /// A validator at the beginning of a file.
    pub fn new(rules: FileRules) -> Validator {
        let splitter = Splitter::new(rules.max_line_bytes);
        let checks =
            Checks { rules, names: Names::default(), model: None, lines: 0, errors: Vec::new(), over: false };
        Validator { splitter, checks }
    }

    /// Takes the next bytes of the file. Returns the good lines that end in them.
    pub fn feed(&mut self, piece: &[u8]) -> Vec<Line> {
        let mut good = Vec::new();
        if !self.checks.over {
            let checks = &mut self.checks;
            self.splitter.feed(piece, |raw| checks.line(raw, &mut good));
        }
        good
    }

    /// The file has ended. Returns the last line if no line feed ended it, and all errors.
    pub fn finish(mut self) -> (Vec<Line>, Vec<FileError>) {
        let mut good = Vec::new();
        if !self.checks.over {
            let checks = &mut self.checks;
            self.splitter.finish(|raw| checks.line(raw, &mut good));
        }
        self.checks.finish();
        (good, self.checks.errors)
    }

    /// Errors so far, [`MAX_FILE_ERRORS`] at most.
    pub fn errors(&self) -> &[FileError] {
        &self.checks.errors
    }

    /// Whether the rest of the file need not be read: there are too many errors or too many lines.
    pub fn is_over(&self) -> bool {
        self.checks.over
    }

    /// Requests so far, the faulty ones among them.
    pub fn lines(&self) -> u64 {
        self.checks.lines
    }

    /// The model that the first good request names, if it names one.
    pub fn model(&self) -> Option<&str> {
        self.checks.model.as_ref().and_then(Option::as_deref)
    }
}

impl Checks {
    /// Checks a line; false if no more of them are wanted.
    fn line(&mut self, raw: RawLine<'_>, good: &mut Vec<Line>) -> bool {
        if let RawLine::Bytes(_, bytes) = raw
            && bytes.iter().all(u8::is_ascii_whitespace)
        {
            return true;
        }
        self.lines += 1;
        if self.lines > self.rules.max_lines {
            self.too_many();
            return false;
        }
        match self.check(raw) {
            Ok(line) => good.push(line),
            Err(error) => self.errors.push(error),
        }
        self.over = self.errors.len() >= MAX_FILE_ERRORS;
        !self.over
    }

    fn check(&mut self, raw: RawLine<'_>) -> Result<Line, FileError> {
        let (number, bytes) = match raw {
            RawLine::Bytes(number, bytes) => (number, bytes),
            RawLine::TooLong(number) => {
                let most = self.rules.max_line_bytes;
                let message = format!("Line {number} is longer than {most} bytes.");
                return Err(line_error(number, "line_too_long", None, message));
            }
        };
        let line = parse_line(number, bytes, self.rules.endpoint.as_deref())?;
        self.check_name(&line)?;
        self.check_model(&line)?;
        Ok(line)
    }

    fn check_name(&mut self, line: &Line) -> Result<(), FileError> {
        if self.names.insert(&line.custom_id) {
            return Ok(());
        }
        let name = quoted(&line.custom_id);
        let message = format!("The custom_id {name} of line {} is that of a line before.", line.number);
        Err(line_error(line.number, "duplicate_custom_id", Some("custom_id"), message))
    }

    fn check_model(&mut self, line: &Line) -> Result<(), FileError> {
        let first = self.model.get_or_insert_with(|| line.model.clone());
        if !self.rules.one_model || *first == line.model {
            return Ok(());
        }
        let name = |model: &Option<String>| model.as_deref().map_or_else(|| "none".to_owned(), quoted);
        let message = format!(
            "The model of line {} is {}; that of the first line is {}. A batch is for one model.",
            line.number,
            name(&line.model),
            name(first)
        );
        Err(line_error(line.number, "model_mismatch", Some("model"), message))
    }

    fn too_many(&mut self) {
        let message = format!("The file has more than {} requests.", self.rules.max_lines);
        // The reason why the rest was not read is never left out.
        self.errors.truncate(MAX_FILE_ERRORS - 1);
        self.errors.push(file_error("too_many_tasks", message));
        self.over = true;
    }

    fn finish(&mut self) {
        if self.lines == 0 {
            self.errors.push(file_error("empty_file", "The file has no requests.".to_owned()));
        }
    }
}

fn file_error(code: &str, message: String) -> FileError {
    FileError { code: code.to_owned(), message, line: None, param: None }
}

#[cfg(test)]
#[path = "line_file_tests.rs"]
mod tests;
