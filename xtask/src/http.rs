//! A minimal HTTP client for servers on the loopback: one connection for each request, and requests may be malformed.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

pub const CHAT: &str = "/v1/chat/completions";

/// Timeout of reading the next bytes of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout of a health check of a server that may be starting.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

pub fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| format!("no connection: {e}"))?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(|e| e.to_string())?;
    Ok(stream)
}

/// The head of a POST request to `path` with a body of `length` bytes.
pub fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Sends a request; the response can be read from the returned stream.
pub fn send(port: u16, path: &str, body: &Value) -> Result<TcpStream, String> {
    let body = body.to_string();
    let mut stream = connect(port)?;
    let request = head(path, body.len()) + &body;
    stream.write_all(request.as_bytes()).map_err(|e| format!("a request could not be sent: {e}"))?;
    Ok(stream)
}

/// Sends a request and returns status and body of the response.
pub fn ask(port: u16, path: &str, body: &Value) -> Result<(u16, String), String> {
    answer(send(port, path, body)?)
}

/// Sends a GET request and returns status and body of the response.
pub fn get(port: u16, path: &str) -> Result<(u16, String), String> {
    get_within(port, path, READ_TIMEOUT)
}

fn get_within(port: u16, path: &str, timeout: Duration) -> Result<(u16, String), String> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(timeout)).map_err(|e| e.to_string())?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
    answer(stream)
}

/// Whether the server reports that it is ready.
pub fn healthy(port: u16) -> bool {
    get_within(port, "/health", HEALTH_TIMEOUT).is_ok_and(|(status, _)| status == 200)
}

fn answer(mut stream: TcpStream) -> Result<(u16, String), String> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(|e| format!("an answer broke off: {e}"))?;
    parse(&bytes)
}

/// Status and body of a response, with chunk headers removed.
pub fn parse(bytes: &[u8]) -> Result<(u16, String), String> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {text:?}"))?;
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or("no status")?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if chunked { unchunk(body) } else { body.to_owned() }))
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size @ 1..) = usize::from_str_radix(size, 16) else { break };
        let Some(chunk) = rest.get(..size) else { break };
        out.push_str(chunk);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_in_chunks() {
        assert_eq!(parse(b"HTTP/1.1 429 Too Many\r\na: b\r\n\r\nlater"), Ok((429, "later".into())));
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n2\r\n, \r\n0\r\n\r\n";
        assert_eq!(parse(chunks), Ok((200, "one, ".into())));
        assert!(parse(b"").is_err() && parse(b"nonsense\r\n\r\n").is_err());
    }
}
