//! A client that shows the bytes of an answer and how it ended.

use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How the connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In order.
    Closed,
    /// By a reset.
    Reset,
    /// It did not, within the test's wait.
    Open,
}

/// An answer.
pub(crate) struct Got {
    pub(crate) head: String,
    /// The body without its chunked coding.
    pub(crate) body: String,
    /// Whether the body ended as its head or its chunks say.
    pub(crate) whole: bool,
    pub(crate) end: End,
}

impl Got {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The data of the stream's events, `[DONE]` and what is no JSON left out.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }
}

/// Decodes chunks; whether the last, empty one was there.
fn dechunk(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).unwrap(), 16).unwrap();
        let rest = &bytes[at + 2..];
        if length == 0 {
            return (body, true);
        }
        body.extend_from_slice(&rest[..length.min(rest.len())]);
        bytes = rest.get(length + 2..).unwrap_or(&[]);
    }
    (body, false)
}

pub(crate) fn parse(bytes: &[u8], end: End) -> Got {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, rest) = at.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 4..]));
    let head = String::from_utf8_lossy(head).to_lowercase();
    let (body, whole) = if head.contains("transfer-encoding: chunked") {
        dechunk(rest)
    } else {
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        (rest.to_vec(), length == Some(rest.len()))
    };
    Got { head, body: String::from_utf8_lossy(&body).into_owned(), whole, end }
}

/// Sends a request on a connection that is to be closed after the answer.
pub(crate) async fn open(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until the connection ends, or nothing has come for `silence`.
pub(crate) async fn read(stream: &mut TcpStream, silence: Duration) -> Got {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let end = loop {
        match tokio::time::timeout(silence, stream.read(&mut buffer)).await {
            Err(_) => break End::Open,
            Ok(Ok(0)) => break End::Closed,
            Ok(Ok(count)) => bytes.extend_from_slice(&buffer[..count]),
            Ok(Err(e)) if e.kind() == ErrorKind::ConnectionReset => break End::Reset,
            Ok(Err(e)) => panic!("{e}"),
        }
    };
    parse(&bytes, end)
}

pub(crate) async fn post(addr: SocketAddr, path: &str, body: &Value) -> Got {
    let mut stream = open(addr, "POST", path, "", &body.to_string()).await;
    read(&mut stream, PATIENCE).await
}

/// A chat of one message.
pub(crate) fn chat(text: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]})
}

pub(crate) const CHAT: &str = "/v1/chat/completions";
