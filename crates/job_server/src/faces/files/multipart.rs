//! `multipart/form-data` (RFC 7578), read in pieces of any size: of a part, only what has come of it is held.

use memchr::memmem;
use wire::Fault;
use wire::error::quote;

/// The longest boundary, as RFC 2046 has it.
const MOST_BOUNDARY: usize = 70;
/// The longest head of a part, in bytes.
const MOST_HEAD: usize = 8 << 10;
/// The most parts of a form.
const MOST_PARTS: usize = 32;
/// Bytes before the first part that are passed over.
const MOST_PREAMBLE: usize = 64 << 10;

/// The boundary that a content type names.
///
/// # Errors
/// 415 for another type, 400 for one without a boundary.
pub(crate) fn boundary(content_type: Option<&str>) -> Result<String, Fault> {
    let value = content_type.unwrap_or_default();
    let mut parts = split_parameters(value).into_iter();
    let essence = parts.next().unwrap_or_default();
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        let mut fault = Fault::media_type(content_type);
        fault.message = fault.message.replace("application/json", "multipart/form-data");
        return Err(fault);
    }
    let named = parts.find_map(|parameter| parameter_named(parameter, "boundary"));
    let named = named.filter(|boundary| (1..=MOST_BOUNDARY).contains(&boundary.len()));
    named.ok_or_else(|| Fault::body("the content-type must have a boundary of 1 to 70 characters"))
}

/// A value's parts between semicolons, but for those in quotes.
fn split_parameters(value: &str) -> Vec<&str> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in value.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ';' if !quoted => {
                parts.push(&value[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&value[from..]);
    parts
}

/// The value of `name=value`, without quotes.
fn parameter_named(parameter: &str, name: &str) -> Option<String> {
    let (found, value) = parameter.split_once('=')?;
    if !found.trim().eq_ignore_ascii_case(name) {
        return None;
    }
    let value = value.trim();
    match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        // Browsers escape quotes only; a backslash before anything else is a part of the name.
        Some(inner) => Some(inner.replace("\\\"", "\"").replace("%22", "\"")),
        None => Some(value.to_owned()),
    }
}

/// The head of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartHead {
    /// The field.
    pub(crate) name: String,
    /// The file's name at the client's, if the part is a file.
    pub(crate) filename: Option<String>,
}

/// What was read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A part begins.
    Head(PartHead),
    /// Bytes of the part.
    Data(Vec<u8>),
    /// The part is over.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first boundary.
    Preamble,
    /// Behind a boundary, whose line is not read to its end.
    Boundary,
    Head,
    Data,
    /// Behind the last boundary.
    Over,
}

/// A form that comes in pieces.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// What ends a part: a line's end, two hyphens, the boundary.
    delimiter: Vec<u8>,
    bytes: Vec<u8>,
    state: State,
    parts: usize,
    passed: usize,
}

impl Multipart {
    /// A form with this boundary.
    pub(crate) fn new(boundary: &str) -> Multipart {
        // The first boundary need not have a line before it.
        Multipart {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            bytes: b"\r\n".to_vec(),
            state: State::Preamble,
            parts: 0,
            passed: 0,
        }
    }

    /// Takes the next bytes of the body.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.state != State::Over {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Whether the last boundary was read.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// What comes next; none if more bytes are needed, or nothing follows.
    ///
    /// # Errors
    /// Bytes that are no form.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, Fault> {
        loop {
            match self.state {
                State::Over => return Ok(None),
                State::Preamble => {
                    if !self.pass_preamble()? {
                        return Ok(None);
                    }
                }
                State::Boundary => {
                    if !self.boundary_line()? {
                        return Ok(None);
                    }
                }
                State::Head => return Ok(self.head()?.map(Piece::Head)),
                State::Data => return Ok(self.data()),
            }
        }
    }

    fn pass_preamble(&mut self) -> Result<bool, Fault> {
        if let Some(at) = memmem::find(&self.bytes, &self.delimiter) {
            self.bytes.drain(..at + self.delimiter.len());
            self.state = State::Boundary;
            return Ok(true);
        }
        let passed = self.bytes.len().saturating_sub(self.delimiter.len());
        self.bytes.drain(..passed);
        self.passed += passed;
        if self.passed > MOST_PREAMBLE {
            return Err(broken("its first boundary is not found"));
        }
        Ok(false)
    }

    /// Behind a boundary, two hyphens end the form; else the line may have blanks only.
    fn boundary_line(&mut self) -> Result<bool, Fault> {
        if self.bytes.starts_with(b"--") {
            self.bytes = Vec::new();
            self.state = State::Over;
            return Ok(true);
        }
        let Some(end) = memmem::find(&self.bytes, b"\r\n") else {
            if self.bytes.len() > MOST_HEAD {
                return Err(broken("a boundary's line has no end"));
            }
            return Ok(false);
        };
        if !self.bytes[..end].iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(broken("a boundary is followed by something else"));
        }
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return Err(broken(&format!("it has more than {MOST_PARTS} parts")));
        }
        // The line's end stays, so that an empty head ends as others do.
        self.bytes.drain(..end);
        self.state = State::Head;
        Ok(true)
    }

    fn head(&mut self) -> Result<Option<PartHead>, Fault> {
        let Some(end) = memmem::find(&self.bytes, b"\r\n\r\n") else {
            return match self.bytes.len() > MOST_HEAD {
                true => Err(broken(&format!("the head of a part has more than {MOST_HEAD} bytes"))),
                false => Ok(None),
            };
        };
        if end > MOST_HEAD {
            return Err(broken(&format!("the head of a part has more than {MOST_HEAD} bytes")));
        }
        let head =
            std::str::from_utf8(&self.bytes[..end]).map_err(|_| broken("the head of a part is not UTF-8"))?;
        let head = part_head(head)?;
        self.bytes.drain(..end + 4);
        self.state = State::Data;
        Ok(Some(head))
    }

    fn data(&mut self) -> Option<Piece> {
        if let Some(at) = memmem::find(&self.bytes, &self.delimiter) {
            if at > 0 {
                return Some(Piece::Data(self.bytes.drain(..at).collect()));
            }
            self.bytes.drain(..self.delimiter.len());
            self.state = State::Boundary;
            return Some(Piece::End);
        }
        // The last bytes may be the beginning of a boundary.
        let safe = self.bytes.len().saturating_sub(self.delimiter.len() - 1);
        (safe > 0).then(|| Piece::Data(self.bytes.drain(..safe).collect()))
    }
}

fn broken(why: &str) -> Fault {
    Fault::body(format!("the body is no multipart/form-data: {why}"))
}

fn part_head(head: &str) -> Result<PartHead, Fault> {
    for line in head.split("\r\n") {
        let Some((name, value)) = line.split_once(':') else { continue };
        if !name.trim().eq_ignore_ascii_case("content-disposition") {
            continue;
        }
        let parameters = split_parameters(value);
        let named = |name: &str| parameters.iter().skip(1).find_map(|part| parameter_named(part, name));
        let name = named("name").ok_or_else(|| broken("a part has no name"))?;
        return Ok(PartHead { name, filename: named("filename") });
    }
    Err(broken(&format!("a part has no content-disposition in its head {}", quote(head.trim()))))
}

#[cfg(test)]
#[path = "multipart_tests.rs"]
mod tests;
