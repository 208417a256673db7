//! The head of a request, checked before anything acts on it.
//!
//! One strict reading of RFC 9112: what two readers could take differently is refused (line ends without a carriage
//! return, folded lines, two lengths, a length beside an encoding), so that a proxy in front and this server never
//! disagree about where a request ends; and `Host` names one server, which is what the check against DNS rebinding rests
//! on.

use axum::http::{HeaderName, HeaderValue, Method, Uri};
use wire::Fault;

/// How long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

/// What the connection needs to know of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) framing: Framing,
    /// HTTP/1.1; an older client does not know interim answers.
    pub(crate) is_1_1: bool,
}

/// The longest body that a length may claim; the limit on bodies is far below.
const MOST_LENGTH: u64 = 1 << 62;

/// A 400 about the head as a whole.
fn bad(message: impl Into<String>) -> Fault {
    Fault { code: Some("bad_request"), ..Fault::body(message) }
}

/// The head is larger than it may be.
pub(crate) fn too_large(limit: usize) -> Fault {
    let message = format!("the head of the request is larger than the limit of {limit} bytes");
    Fault { status: 431, code: Some("head_too_large"), ..Fault::body(message) }
}

/// The client's side ended inside a head.
pub(crate) fn cut() -> Fault {
    bad("the connection ended inside the head of a request")
}

/// Where the head ends that `bytes` begin with, as far as they are read; `scanned` of them were looked at before.
pub(crate) fn end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, Fault> {
    if bytes.first() == Some(&0x16) {
        return Err(bad("this is TLS; the server speaks plain HTTP on this port"));
    }
    for at in *scanned..bytes.len() {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        match bytes[at] {
            b'\n' if before != Some(b'\r') => {
                return Err(bad("a line of the request's head ends without a carriage return"));
            }
            b'\n' if bytes[..=at].ends_with(b"\r\n\r\n") => return Ok(Some(at + 1)),
            b'\n' => {}
            _ if before == Some(b'\r') => {
                return Err(bad("the request's head has a carriage return inside a line"));
            }
            b'\r' | b'\t' => {}
            byte if byte < 0x20 || byte == 0x7f => {
                return Err(bad(format!("the request's head has the control character {byte:#04x}")));
            }
            _ => {}
        }
    }
    *scanned = bytes.len();
    Ok(None)
}

/// The path that a head asks for, if it is that far in order.
pub(crate) fn path(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = line.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(target).ok()
}

/// The fault of a head of HTTP/2 with so many lines.
pub(crate) fn too_many_lines(lines: usize, most: usize) -> Fault {
    let message = format!("the request has {lines} header lines; at most {most} are allowed");
    Fault { status: 431, code: Some("head_too_large"), ..Fault::body(message) }
}

/// Checks a whole head with at most `most` header lines.
pub(crate) fn check(head: &[u8], most: usize) -> Result<Head, Fault> {
    let head = head.strip_suffix(b"\r\n\r\n").ok_or_else(cut)?;
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad(format!(
            "the request line is {:?}; it must be a method, a target and a version with one space between them",
            shown(first)
        )));
    };
    let is_1_1 = version == b"HTTP/1.1";
    if !is_1_1 && version != b"HTTP/1.0" {
        let message =
            format!("the request has version {:?}; HTTP/1.1 and HTTP/1.0 are spoken here", shown(version));
        return Err(Fault { status: 505, code: Some("http_version_not_supported"), ..Fault::body(message) });
    }
    let named = authority(method, target)?;
    let mut fields = Fields { is_1_1, ..Fields::default() };
    for (number, line) in lines.enumerate() {
        if number == most {
            let message = format!("the request has more than {most} header lines");
            return Err(Fault { status: 431, code: Some("head_too_large"), ..Fault::body(message) });
        }
        fields.add(line)?;
    }
    fields.check(named)
}

/// The authority of a target in absolute form.
fn authority<'a>(method: &[u8], target: &'a [u8]) -> Result<Option<&'a [u8]>, Fault> {
    let wrong = || bad(format!("the request's target {:?} is no path", shown(target)));
    let Ok(known) = Method::from_bytes(method) else {
        return Err(bad(format!("the request's method {:?} is no token", shown(method))));
    };
    if known == Method::CONNECT {
        return Err(Fault::method("CONNECT", "this server is no proxy and"));
    }
    // A fragment is never sent, and dropping it here would be a second reading of the target.
    if target.contains(&b'#') || Uri::try_from(target).is_err() {
        return Err(wrong());
    }
    if target.starts_with(b"/") || (target == b"*" && known == Method::OPTIONS) {
        return Ok(None);
    }
    let lower = target.to_ascii_lowercase();
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let rest = target.get(scheme.ok_or_else(wrong)?.len()..).unwrap_or_default();
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    Ok(rest.get(..end))
}

#[derive(Default)]
struct Fields<'a> {
    is_1_1: bool,
    host: Option<&'a [u8]>,
    length: Option<u64>,
    encoding: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn add(&mut self, line: &'a [u8]) -> Result<(), Fault> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(bad("a header line is folded, which HTTP/1.1 no longer has"));
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.map(|at| (&line[..at], line[at + 1..].trim_ascii())) else {
            return Err(bad(format!("the header line {:?} has no colon", shown(line))));
        };
        if HeaderName::from_bytes(name).is_err() {
            return Err(bad(format!("{:?} is no name of a header", shown(name))));
        }
        if HeaderValue::from_bytes(value).is_err() {
            return Err(bad(format!("the header {} has a value that is no text", shown(name))));
        }
        if name.eq_ignore_ascii_case(b"host") {
            if self.host.replace(value).is_some() {
                return Err(bad("the request has several Host headers"));
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let length =
                std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
            let Some(length) = length.filter(|length| *length <= MOST_LENGTH) else {
                return Err(bad(format!(
                    "content-length is {:?}; it must be a number of bytes",
                    shown(value)
                )));
            };
            if self.length.replace(length).is_some() {
                return Err(bad("the request has several content-length headers"));
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && self.encoding.replace(value).is_some() {
            return Err(bad("the request has several transfer-encoding headers"));
        }
        Ok(())
    }

    fn check(&self, named: Option<&[u8]>) -> Result<Head, Fault> {
        match self.host {
            Some(host) if !is_host(host) => {
                return Err(bad(format!(
                    "Host is {:?}; it must be a name or address, and maybe a port",
                    shown(host)
                )));
            }
            Some(host) if named.is_some_and(|named| !named.eq_ignore_ascii_case(host)) => {
                return Err(bad("the request's target and its Host header name different servers"));
            }
            None if self.is_1_1 => return Err(bad("the request has no Host header, which HTTP/1.1 needs")),
            None if named.is_some_and(|named| !is_host(named)) => {
                return Err(bad("the request's target names no server"));
            }
            _ => {}
        }
        let framing = match (self.length, self.encoding) {
            (length, None) => Framing::Length(length.unwrap_or(0)),
            (Some(_), Some(_)) => {
                return Err(bad(
                    "the request has a content-length and a transfer-encoding; only one can hold",
                ));
            }
            (None, Some(_)) if !self.is_1_1 => return Err(bad("HTTP/1.0 has no transfer-encoding")),
            (None, Some(encoding)) if encoding.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
            (None, Some(encoding)) => {
                let message = format!("transfer-encoding is {:?}; only chunked is known", shown(encoding));
                return Err(Fault { status: 501, ..bad(message) });
            }
        };
        Ok(Head { framing, is_1_1: self.is_1_1 })
    }
}

/// A name, an IPv4 address, or an IPv6 address in brackets without a zone, and maybe a port. Names are what DNS and
/// container networks have: letters, digits, `-` and `_`, in labels with single dots between them.
fn is_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (is_name, rest) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address.parse::<std::net::Ipv6Addr>().is_ok(), rest),
        None => {
            let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
            let labels = name.strip_suffix('.').unwrap_or(name);
            let is_label = |label: &str| {
                !label.is_empty()
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            };
            (name.len() <= 255 && labels.split('.').all(is_label), rest)
        }
    };
    let is_port = rest.is_empty()
        || rest.strip_prefix(':').is_some_and(|port| {
            port.bytes().all(|byte| byte.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok())
        });
    is_name && is_port
}

/// What of a client's bytes stands in a message: visible, and no more than 80 characters.
fn shown(bytes: &[u8]) -> String {
    let visible = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' };
    bytes.iter().take(80).map(visible).collect()
}

/// Follows a chunked body without keeping it: where it ends.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    state: Chunk,
    /// Bytes of the line that is read, or of all trailers.
    line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In the digits of a size.
    Size(u64),
    /// Behind them.
    Extension(u64),
    /// A line feed must come; the size is known.
    SizeEnd(u64),
    /// The number of bytes that are left.
    Data(u64),
    DataReturn,
    DataEnd,
    /// At the start of a trailer line.
    Trailer,
    InTrailer,
    TrailerEnd,
    LastEnd,
    Over,
}

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk::Size(0)
    }
}

impl Chunks {
    /// Bytes of a size line, and of all trailers.
    const MOST_LINE: usize = 4 << 10;

    pub(crate) fn is_over(&self) -> bool {
        self.state == Chunk::Over
    }

    /// How many of `bytes` belong to the body.
    ///
    /// # Errors
    /// What is no chunked body; its words are for the log.
    pub(crate) fn follow(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut at = 0;
        while at < bytes.len() && self.state != Chunk::Over {
            if let Chunk::Data(left) = self.state {
                let some = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                at += some;
                let left = left - some as u64;
                self.state = if left == 0 { Chunk::DataReturn } else { Chunk::Data(left) };
                continue;
            }
            self.state = self.step(bytes[at])?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<Chunk, &'static str> {
        self.line += 1;
        if self.line > Chunks::MOST_LINE {
            return Err("a chunk's size line or the trailers are too long");
        }
        let is_text = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
        Ok(match (self.state, byte) {
            (Chunk::Size(size), _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                if self.line > 15 {
                    return Err("a chunk's size has more than 15 digits");
                }
                Chunk::Size(size << 4 | digit)
            }
            (Chunk::Size(_), _) if self.line == 1 => return Err("a chunk has no size"),
            (Chunk::Size(size), b';') => Chunk::Extension(size),
            (Chunk::Size(size) | Chunk::Extension(size), b'\r') => Chunk::SizeEnd(size),
            (Chunk::Extension(size), _) if is_text => Chunk::Extension(size),
            (Chunk::SizeEnd(0), b'\n') => Chunk::Trailer,
            (Chunk::SizeEnd(size), b'\n') => Chunk::Data(size),
            (Chunk::DataReturn, b'\r') => Chunk::DataEnd,
            (Chunk::DataEnd, b'\n') => {
                self.line = 0;
                Chunk::Size(0)
            }
            (Chunk::Trailer, b'\r') => Chunk::LastEnd,
            (Chunk::InTrailer, b'\r') => Chunk::TrailerEnd,
            (Chunk::TrailerEnd, b'\n') => Chunk::Trailer,
            (Chunk::LastEnd, b'\n') => Chunk::Over,
            (Chunk::Trailer | Chunk::InTrailer, _) if is_text => Chunk::InTrailer,
            _ => return Err("the body is no chunked body"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &str) -> Result<Head, Fault> {
        check(format!("{lines}\r\n\r\n").as_bytes(), 100)
    }

    #[test]
    fn good_heads() {
        let length = |n| Head { framing: Framing::Length(n), is_1_1: true };
        for (lines, expected) in [
            ("GET / HTTP/1.1\r\nHost: localhost:8080", length(0)),
            ("POST /v1/x?a=b HTTP/1.1\r\nhost: [::1]:80\r\nContent-Length: 12", length(12)),
            ("GET http://LOCALHOST/a HTTP/1.1\r\nHost: localhost", length(0)),
            ("OPTIONS * HTTP/1.1\r\nHost: my_box.local.", length(0)),
            ("GET / HTTP/1.0", Head { framing: Framing::Length(0), is_1_1: false }),
            (
                "POST / HTTP/1.1\r\nHost: a:\r\nTransfer-Encoding: Chunked",
                Head { framing: Framing::Chunked, is_1_1: true },
            ),
        ] {
            assert_eq!(head(lines), Ok(expected), "{lines}");
        }
    }

    #[test]
    fn abuse_a9_odd_hosts_are_refused() {
        for host in [
            "",
            " ",
            "a b",
            "user@localhost",
            "localhost:notaport",
            "localhost:99999",
            "localhost:80:80",
            "localhost..",
            "a..b",
            ".localhost",
            "[::1%25lo]",
            "[::1%lo]",
            "[::1",
            "::1",
            "[localhost]",
            "[::1]x",
            "lоcalhost",
            "localhost/",
            "localhost, localhost",
            "http://localhost",
            "loc%61lhost",
            "*",
        ] {
            let fault = head(&format!("GET / HTTP/1.1\r\nHost: {host}")).expect_err(host);
            assert_eq!(fault.status, 400, "{host}: {}", fault.message);
        }
        for lines in [
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
            "GET http://localhost/ HTTP/1.1\r\nHost: evil.example.com",
            "GET http://evil.example.com/ HTTP/1.1\r\nHost: localhost",
            "GET http://user@localhost/ HTTP/1.1\r\nHost: localhost",
            "GET http://user@localhost/ HTTP/1.0",
            "GET ftp://localhost/ HTTP/1.1\r\nHost: localhost",
            "GET localhost HTTP/1.1\r\nHost: localhost",
            "GET /a#b HTTP/1.1\r\nHost: localhost",
        ] {
            assert_eq!(head(lines).expect_err(lines).status, 400, "{lines}");
        }
    }

    #[test]
    fn abuse_a9_what_two_readers_take_differently_is_refused() {
        for (more, status) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
            ("Content-Length: 5\r\nContent-Length: 5", 400),
            ("Content-Length: 5\r\nContent-Length: 6", 400),
            ("Content-Length: 5, 5", 400),
            ("Content-Length: +5", 400),
            ("Content-Length: -1", 400),
            ("Content-Length: 0x5", 400),
            ("Content-Length:", 400),
            ("Content-Length: 99999999999999999999", 400),
            ("Transfer-Encoding: gzip, chunked", 501),
            ("Transfer-Encoding: chunked, identity", 501),
            ("Transfer-Encoding: xchunked", 501),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
            ("Transfer-Encoding : chunked", 400),
            ("Content-Length : 5", 400),
            ("X-A: b\r\n folded", 400),
            ("no colon", 400),
            (": no name", 400),
        ] {
            let fault = head(&format!("POST / HTTP/1.1\r\nHost: localhost\r\n{more}")).expect_err(more);
            assert_eq!(fault.status, status, "{more}: {}", fault.message);
        }
        for (first, status) in [
            ("GET  / HTTP/1.1", 400),
            ("GET / HTTP/2.0", 505),
            ("GET / http/1.1", 505),
            ("GET /", 400),
            ("G\"T / HTTP/1.1", 400),
            (" GET / HTTP/1.1", 400),
            ("CONNECT a:1 HTTP/1.1", 405),
            ("GET / HTTP/1.1 ", 400),
        ] {
            assert_eq!(
                head(&format!("{first}\r\nHost: localhost")).expect_err(first).status,
                status,
                "{first}"
            );
        }
    }

    #[test]
    fn lines_end_with_both_characters() {
        let find = |bytes: &[u8]| end(bytes, &mut 0);
        assert_eq!(find(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest"), Ok(Some(27)));
        assert_eq!(find(b"GET / HTTP/1.1\r\nHost: a\r"), Ok(None));
        for bad in [
            &b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..],
            b"GET /\r HTTP/1.1\r\n\r\n",
            b"GET /\0 HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01",
        ] {
            assert!(find(bad).is_err(), "{bad:?}");
        }
        // In pieces it is the same.
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut scanned = 0;
        for at in 1..whole.len() {
            assert_eq!(end(&whole[..at], &mut scanned), Ok(None));
        }
        assert_eq!(end(whole, &mut scanned), Ok(Some(whole.len())));
    }

    #[test]
    fn chunks_end_where_they_end() {
        let follow = |bytes: &[u8]| {
            let mut chunks = Chunks::default();
            chunks.follow(bytes).map(|taken| (taken, chunks.is_over()))
        };
        assert_eq!(follow(b"5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\nGET /"), Ok((25, true)));
        assert_eq!(follow(b"A\r\n0123456789\r\n0\r\n\r\n"), Ok((20, true)));
        assert_eq!(follow(b"5\r\nhel"), Ok((6, false)));
        for bad in [
            &b"5\nhello\r\n"[..],
            b"\r\n",
            b"g\r\n",
            b"5 \r\nhello\r\n",
            b"5\r\nhello0\r\n",
            b"0x5\r\n",
            b"-1\r\n",
            b"fffffffffffffffff\r\n",
        ] {
            assert!(follow(bad).is_err(), "{bad:?}");
        }
        assert!(follow(format!("5;{}\r\n", "a".repeat(1 << 16)).as_bytes()).is_err());
        assert!(follow(format!("0\r\n{}\r\n", "a: b\r\n".repeat(1 << 12)).as_bytes()).is_err());
    }
}
