//! The head of an answer: its status, its headers, and how its body ends.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use bytes::BytesMut;

/// Most bytes of a head.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// Most lines of a head.
const MOST_LINES: usize = 128;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// With a chunk of no bytes.
    Chunked,
    /// With the connection.
    Close,
}

/// A whole head.
#[derive(Debug)]
pub(crate) struct Head {
    /// Status.
    pub(crate) status: StatusCode,
    /// Headers.
    pub(crate) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether the connection may be used again after the body.
    pub(super) stays: bool,
}

/// The head that `bytes` begin with and its length; none if it is not whole yet.
///
/// # Errors
/// What is no head of HTTP/1.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
    let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
    let mut answer = httparse::Response::new(&mut lines);
    let size = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) if bytes.len() > MOST_BYTES => {
            return Err(format!("the answer's head has more than {MOST_BYTES} bytes, the limit"));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(format!("the answer's head has more than {MOST_LINES} lines, the limit"));
        }
        Err(error) => return Err(format!("the answer is not HTTP/1: {error}")),
    };
    let status = StatusCode::from_u16(answer.code.unwrap_or_default());
    let status = status.map_err(|_| format!("the answer's status is {:?}", answer.code))?;
    let mut headers = HeaderMap::with_capacity(answer.headers.len());
    // The values are parts of one copy.
    let values: usize = answer.headers.iter().map(|line| line.value.len()).sum();
    let mut copied = BytesMut::with_capacity(values);
    for line in answer.headers.iter() {
        copied.extend_from_slice(line.value);
        let value = HeaderValue::from_maybe_shared(copied.split().freeze());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(line.name.as_bytes()), value) {
            headers.append(name, value);
        }
    }
    let is_1_1 = answer.version == Some(1);
    let (framing, is_sure) = framing(status, &headers)?;
    let stays = is_sure && stays(&headers, is_1_1);
    Ok(Some((Head { status, headers, framing, stays }, size)))
}

/// How the body ends (RFC 9112, section 6.3), and whether everybody agrees about that.
fn framing(status: StatusCode, headers: &HeaderMap) -> Result<(Framing, bool), String> {
    if status.is_informational() || matches!(status.as_u16(), 204 | 304) {
        return Ok((Framing::Length(0), true));
    }
    let length = length(headers)?;
    if let Some(coding) = headers.get_all(header::TRANSFER_ENCODING).iter().next_back() {
        let last = coding.as_bytes().rsplit(|byte| *byte == b',').next().unwrap_or_default();
        let is_chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let framing = if is_chunked { Framing::Chunked } else { Framing::Close };
        return Ok((framing, length.is_none()));
    }
    Ok((length.map_or(Framing::Close, Framing::Length), true))
}

/// The length that a head tells.
fn length(headers: &HeaderMap) -> Result<Option<u64>, String> {
    let mut length = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(told) = digits.and_then(|digits| digits.parse().ok()) else {
            return Err(format!("the answer's content-length is {value:?}"));
        };
        if length.replace(told).is_some_and(|before| before != told) {
            return Err("the answer has two lengths".to_owned());
        }
    }
    Ok(length)
}

/// Whether the server keeps the connection open.
fn stays(headers: &HeaderMap, is_1_1: bool) -> bool {
    let says = |word: &[u8]| {
        let values = headers.get_all(header::CONNECTION).iter();
        let mut words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        words.any(|said| said.trim_ascii().eq_ignore_ascii_case(word))
    };
    !says(b"close") && (is_1_1 || says(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Framing, bool) {
        let text = format!("HTTP/1.1 {}\r\n\r\n", text.replace('\n', "\r\n"));
        let (head, size) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(size, text.len());
        (head.framing, head.stays)
    }

    #[test]
    fn how_a_body_ends() {
        assert_eq!(read("200 OK\ncontent-length: 12"), (Framing::Length(12), true));
        assert_eq!(read("200 OK\ncontent-length: 12\ncontent-length: 12"), (Framing::Length(12), true));
        assert_eq!(read("200 OK\ntransfer-encoding: gzip, Chunked"), (Framing::Chunked, true));
        assert_eq!(read("200 OK\ntransfer-encoding: gzip"), (Framing::Close, true));
        assert_eq!(read("200 OK"), (Framing::Close, true));
        assert_eq!(read("204 No Content"), (Framing::Length(0), true));
        assert_eq!(read("100 Continue"), (Framing::Length(0), true));
        assert_eq!(read("200 OK\ncontent-length: 1\nconnection: x, Close"), (Framing::Length(1), false));
    }

    #[test]
    fn two_ways_to_end_a_body_end_the_connection() {
        assert_eq!(read("200 OK\ncontent-length: 9\ntransfer-encoding: chunked"), (Framing::Chunked, false));
        for wrong in ["content-length: 1\r\ncontent-length: 2", "content-length: +1", "content-length: 1, 1"]
        {
            assert!(parse(format!("HTTP/1.1 200 OK\r\n{wrong}\r\n\r\n").as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_an_older_server_says() {
        let stays = |text: &str| parse(text.as_bytes()).unwrap().unwrap().0.stays;
        assert!(!stays("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"));
        assert!(stays("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn heads_are_bounded() {
        let many = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(MOST_LINES + 1));
        assert!(parse(many.as_bytes()).unwrap_err().contains("128 lines"));
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(MOST_BYTES));
        assert!(parse(long.as_bytes()).unwrap_err().contains("65536 bytes"));
        assert!(parse(b"HTTP/1.1 200 OK\r\na: b").unwrap().is_none());
        assert!(parse(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").is_err());
    }
}
