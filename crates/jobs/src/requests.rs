//! The body of an Anthropic message batch, `{"requests": [{"custom_id": …, "params": {…}}, …]}`, read in pieces of any size.
//!
//! The body may have hundreds of megabytes; one request of it is held at a time. What the body has besides `requests` is
//! checked to be JSON and left out.

use crate::hash::Names;
use crate::job::JobError;
use crate::line::{not_streamed, quoted};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest `custom_id`, in characters.
pub const MAX_CUSTOM_ID: usize = 64;

/// What a body must hold to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRules {
    /// At most so many requests.
    pub max_requests: u64,
    /// The longest request, in bytes.
    pub max_request_bytes: usize,
}

impl Default for RequestRules {
    /// Anthropic's 100,000 requests, of 4 MiB each.
    fn default() -> RequestRules {
        RequestRules { max_requests: 100_000, max_request_bytes: 4 << 20 }
    }
}

/// A request of a message batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its place, from 0.
    pub index: u64,
    /// The client's name for it.
    pub custom_id: String,
    /// The body of the request: the bytes of `params` as they were sent.
    pub params: Vec<u8>,
    /// The model that it names.
    pub model: Option<String>,
    /// Why the request is answered with an error at once.
    pub fault: Option<JobError>,
}

/// Why a body is refused as a whole. The message begins with the place, such as `requests.3.custom_id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct RequestsError {
    /// The place in the body.
    pub place: String,
    /// What is wrong there.
    pub message: String,
    /// Whether something is larger than is allowed, which is status 413.
    pub too_large: bool,
}

impl RequestsError {
    fn at(place: impl Into<String>, message: impl Into<String>) -> RequestsError {
        RequestsError { place: place.into(), message: message.into(), too_large: false }
    }
}

/// What comes next outside of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The brace that opens the body.
    Body,
    /// A name, or the end of the body.
    FirstName,
    /// A name.
    Name,
    /// The colon after `requests`, or after another name.
    Colon { requests: bool },
    /// The value of another name.
    OtherValue,
    /// The bracket that opens the requests.
    Requests,
    /// A request, or the end of the requests.
    FirstRequest,
    /// A request.
    Request,
    /// A comma, or the end of the requests.
    AfterRequest,
    /// A comma, or the end of the body.
    AfterValue,
    /// White space.
    End,
}

/// What a value is that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Name,
    Other,
    Request,
}

/// How far a value goes that is being read. Its end is told by brackets and quotes alone; whether it is JSON is checked after.
#[derive(Debug)]
struct Extent {
    kept: Kept,
    depth: usize,
    in_string: bool,
    escaped: bool,
    is_scalar: bool,
}

/// Whether a byte ends a value.
enum Step {
    Inside,
    Last,
    /// The byte is no part of the value any more.
    Behind,
}

impl Extent {
    /// The value that begins with a byte.
    fn begin(kept: Kept, first: u8) -> Extent {
        Extent {
            kept,
            depth: usize::from(matches!(first, b'{' | b'[')),
            in_string: first == b'"',
            escaped: false,
            is_scalar: !matches!(first, b'{' | b'[' | b'"'),
        }
    }

    fn step(&mut self, byte: u8) -> Step {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    return if self.depth == 0 { Step::Last } else { Step::Inside };
                }
                _ => {}
            }
            return Step::Inside;
        }
        match byte {
            b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n' if self.is_scalar => return Step::Behind,
            _ if self.is_scalar => {}
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    return Step::Last;
                }
            }
            _ => {}
        }
        Step::Inside
    }
}

/// Reads the body of a message batch that comes in pieces.
#[derive(Debug)]
pub struct RequestReader {
    rules: RequestRules,
    expected: Expected,
    value: Option<Extent>,
    bytes: Vec<u8>,
    names: Names,
    has_requests: bool,
    count: u64,
    error: Option<RequestsError>,
}

impl RequestReader {
    /// A reader at the beginning of a body.
    pub fn new(rules: RequestRules) -> RequestReader {
        RequestReader {
            rules,
            expected: Expected::Body,
            value: None,
            bytes: Vec::new(),
            names: Names::default(),
            has_requests: false,
            count: 0,
            error: None,
        }
    }

    /// Takes the next bytes of the body and hands over each request that ends in them.
    ///
    /// # Errors
    /// What is wrong with the body. After that, nothing is taken any more.
    pub fn feed(&mut self, piece: &[u8], mut each: impl FnMut(Request)) -> Result<(), RequestsError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let read = self.read(piece, &mut each);
        if let Err(error) = &read {
            self.error = Some(error.clone());
        }
        read
    }

    /// The body has ended. Returns how many requests it had.
    ///
    /// # Errors
    /// If the body is cut off, or has no requests.
    pub fn finish(self) -> Result<u64, RequestsError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.expected != Expected::End {
            return Err(RequestsError::at("body", "the JSON is cut off"));
        }
        if !self.has_requests {
            return Err(RequestsError::at("requests", "field required"));
        }
        if self.count == 0 {
            return Err(RequestsError::at("requests", "there must be at least one request"));
        }
        Ok(self.count)
    }

    fn read(&mut self, piece: &[u8], each: &mut impl FnMut(Request)) -> Result<(), RequestsError> {
        let mut rest = piece;
        while let Some((byte, behind)) = rest.split_first() {
            if self.value.is_some() {
                rest = self.read_value(rest, each)?;
            } else {
                if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                    self.between(*byte)?;
                }
                rest = behind;
            }
        }
        Ok(())
    }

    /// Takes the bytes that belong to the value. Returns the others.
    fn read_value<'a>(
        &mut self,
        bytes: &'a [u8],
        each: &mut impl FnMut(Request),
    ) -> Result<&'a [u8], RequestsError> {
        let Some(value) = self.value.as_mut() else { return Ok(bytes) };
        let mut ended = false;
        let mut taken = bytes.len();
        for (at, byte) in bytes.iter().enumerate() {
            match value.step(*byte) {
                Step::Inside => continue,
                Step::Last => taken = at + 1,
                Step::Behind => taken = at,
            }
            ended = true;
            break;
        }
        let most = self.rules.max_request_bytes;
        if self.bytes.len() + taken > most {
            return Err(self.too_long());
        }
        self.bytes.extend_from_slice(&bytes[..taken]);
        if ended {
            self.end_value(each)?;
        }
        Ok(&bytes[taken..])
    }

    fn too_long(&self) -> RequestsError {
        let most = self.rules.max_request_bytes;
        let message = format!("longer than {most} bytes");
        RequestsError { too_large: true, ..RequestsError::at(self.place(), message) }
    }

    /// Takes a byte outside of values.
    fn between(&mut self, byte: u8) -> Result<(), RequestsError> {
        self.expected = match (self.expected, byte) {
            (Expected::Body, b'{') => Expected::FirstName,
            (Expected::FirstName, b'}') | (Expected::AfterValue, b'}') => Expected::End,
            (Expected::FirstName | Expected::Name, b'"') => return self.begin(Kept::Name, byte),
            (Expected::Colon { requests: true }, b':') => Expected::Requests,
            (Expected::Colon { requests: false }, b':') => Expected::OtherValue,
            (Expected::OtherValue, b',' | b':' | b'}' | b']') => return Err(self.unexpected()),
            (Expected::OtherValue, _) => return self.begin(Kept::Other, byte),
            (Expected::Requests, b'[') => Expected::FirstRequest,
            (Expected::FirstRequest | Expected::AfterRequest, b']') => Expected::AfterValue,
            (Expected::FirstRequest | Expected::Request, b'{') => return self.begin(Kept::Request, byte),
            (Expected::AfterRequest, b',') => Expected::Request,
            (Expected::AfterValue, b',') => Expected::Name,
            _ => return Err(self.unexpected()),
        };
        Ok(())
    }

    fn begin(&mut self, kept: Kept, first: u8) -> Result<(), RequestsError> {
        if kept == Kept::Request && self.count == self.rules.max_requests {
            let message = format!("more than {} requests", self.rules.max_requests);
            return Err(RequestsError { too_large: true, ..RequestsError::at("requests", message) });
        }
        self.value = Some(Extent::begin(kept, first));
        self.bytes.clear();
        self.bytes.push(first);
        Ok(())
    }

    fn end_value(&mut self, each: &mut impl FnMut(Request)) -> Result<(), RequestsError> {
        let Some(value) = self.value.take() else { return Ok(()) };
        match value.kept {
            Kept::Name => self.end_name(),
            Kept::Other => {
                serde_json::from_slice::<IgnoredAny>(&self.bytes)
                    .map_err(|fault| RequestsError::at("body", format!("no JSON: {fault}")))?;
                std::str::from_utf8(&self.bytes).map_err(|_| RequestsError::at("body", "not UTF-8"))?;
                self.expected = Expected::AfterValue;
                Ok(())
            }
            Kept::Request => {
                let request = self.request()?;
                self.count += 1;
                self.expected = Expected::AfterRequest;
                each(request);
                Ok(())
            }
        }
    }

    fn end_name(&mut self) -> Result<(), RequestsError> {
        let name: String = serde_json::from_slice(&self.bytes)
            .map_err(|fault| RequestsError::at("body", format!("no JSON: {fault}")))?;
        let requests = name == "requests";
        if requests && self.has_requests {
            return Err(RequestsError::at("requests", "given twice"));
        }
        self.has_requests |= requests;
        self.expected = Expected::Colon { requests };
        Ok(())
    }

    fn request(&mut self) -> Result<Request, RequestsError> {
        let place = self.place();
        let request = parse_request(self.count, &self.bytes, &place)?;
        if !self.names.insert(&request.custom_id) {
            let message = format!("{} is that of another request", quoted(&request.custom_id));
            return Err(RequestsError::at(format!("{place}.custom_id"), message));
        }
        Ok(request)
    }

    fn place(&self) -> String {
        let in_request = self.value.as_ref().is_none_or(|value| value.kept == Kept::Request);
        if self.has_requests && in_request { format!("requests.{}", self.count) } else { "body".to_owned() }
    }

    fn unexpected(&self) -> RequestsError {
        let (place, message) = match self.expected {
            Expected::Body => ("body", "must be a JSON object"),
            Expected::FirstName | Expected::Name => ("body", "no JSON: a name is expected"),
            Expected::Colon { .. } => ("body", "no JSON: a colon is expected"),
            Expected::OtherValue => ("body", "no JSON: a value is expected"),
            Expected::Requests => ("requests", "must be an array"),
            Expected::FirstRequest | Expected::Request => ("requests", "each must be a JSON object"),
            Expected::AfterRequest => ("requests", "no JSON: a comma or the end of the array is expected"),
            Expected::AfterValue => ("body", "no JSON: a comma or the end of the object is expected"),
            Expected::End => ("body", "there is something after the JSON object"),
        };
        RequestsError::at(place, message)
    }
}

#[derive(Deserialize)]
struct Parts<'a> {
    custom_id: Option<Value>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Glance {
    model: Option<Value>,
    stream: Option<Value>,
}

/// Parses one request, `{"custom_id": …, "params": {…}}`.
///
/// # Errors
/// What is wrong with it; places begin with `place`.
pub fn parse_request(index: u64, bytes: &[u8], place: &str) -> Result<Request, RequestsError> {
    let no_json = |fault: &dyn std::fmt::Display| RequestsError::at(place, format!("no JSON: {fault}"));
    let text = std::str::from_utf8(bytes).map_err(|_| RequestsError::at(place, "not UTF-8"))?;
    let parts: Parts<'_> = serde_json::from_str(text).map_err(|fault| no_json(&fault))?;
    let custom_id = name(parts.custom_id, &format!("{place}.custom_id"))?;
    let place = format!("{place}.params");
    let params = parts.params.ok_or_else(|| RequestsError::at(&place, "field required"))?.get();
    if !params.starts_with('{') {
        return Err(RequestsError::at(place, "must be a JSON object"));
    }
    let glance: Glance =
        serde_json::from_str(params).map_err(|fault| RequestsError::at(&place, format!("{fault}")))?;
    let model = glance.model.and_then(|model| model.as_str().map(str::to_owned));
    let fault = (glance.stream == Some(Value::Bool(true))).then(not_streamed);
    Ok(Request { index, custom_id, params: params.as_bytes().to_vec(), model, fault })
}

fn name(value: Option<Value>, place: &str) -> Result<String, RequestsError> {
    let Some(Value::String(name)) = value else {
        let message = if value.is_none() { "field required" } else { "must be a string" };
        return Err(RequestsError::at(place, message));
    };
    let is_named_so = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || name.len() > MAX_CUSTOM_ID || !name.bytes().all(is_named_so) {
        let message = format!(
            "{} must have 1 to {MAX_CUSTOM_ID} letters, digits, underscores and hyphens",
            quoted(&name)
        );
        return Err(RequestsError::at(place, message));
    }
    Ok(name)
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
