//! A small HTTP server for tests: every connection is answered as the test says, every request is kept.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// First byte asked for by `Range: bytes=N-`.
    pub(crate) fn from(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What to answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Close the connection after this many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// Be silent for this long at the place of the cut (or before the first byte of an uncut body).
    pub(crate) silence: Duration,
    /// Pause after each 64 KiB.
    pub(crate) drip: Duration,
    /// Send no Content-Length.
    pub(crate) unsized_body: bool,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Reply {
        Reply {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            cut: None,
            silence: Duration::ZERO,
            drip: Duration::ZERO,
            unsized_body: false,
        }
    }

    pub(crate) fn ok(body: &[u8]) -> Reply {
        Reply { body: body.to_vec(), ..Reply::status(200) }
    }

    pub(crate) fn redirect(to: &str) -> Reply {
        Reply::status(302).with("Location", to)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn cut(self, at: usize) -> Reply {
        Reply { cut: Some(at), ..self }
    }

    pub(crate) fn silent(self, silence: Duration) -> Reply {
        Reply { silence, ..self }
    }

    pub(crate) fn drip(self, drip: Duration) -> Reply {
        Reply { drip, ..self }
    }

    /// The file as a well-behaved server gives it: whole, or the rest from the byte asked for.
    pub(crate) fn file(request: &Request, body: &[u8], etag: &str) -> Reply {
        let fresh = request.header("if-range").is_none_or(|have| have == etag);
        let reply = match request.from() {
            Some(from) if fresh && from < body.len() => {
                let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
                Reply { status: 206, ..Reply::ok(&body[from..]) }.with("Content-Range", &range)
            }
            Some(_) if fresh => Reply::status(416).with("Content-Range", &format!("bytes */{}", body.len())),
            _ => Reply::ok(body),
        };
        reply.with("ETag", etag)
    }
}

/// Runs until the test ends.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers with `reply(request, number of requests before it)`.
    pub(crate) fn start(reply: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, reply) = (requests.clone(), Arc::new(reply));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, reply) = (kept.clone(), reply.clone());
                std::thread::spawn(move || answer(stream, &kept, reply.as_ref()));
            }
        });
        Server { addr, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Requests for a path.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.requests().iter().filter(|request| request.path == path).count()
    }
}

fn answer(stream: TcpStream, kept: &Mutex<Vec<Request>>, reply: &dyn Fn(&Request, usize) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().unwrap()).take(1 << 20);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.trim().is_empty() => break,
            Ok(_) => lines.push(line.trim_end().to_owned()),
        }
    }
    let path = lines[0].split(' ').nth(1).unwrap_or("/").to_owned();
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let request = Request { path, headers };
    let before = {
        let mut kept = kept.lock().unwrap();
        kept.push(request.clone());
        kept.len() - 1
    };
    let _ = send(stream, &reply(&request, before));
}

fn send(mut stream: TcpStream, reply: &Reply) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    if !reply.unsized_body && !reply.headers.iter().any(|(name, _)| name == "Content-Length") {
        head.push_str(&format!("Content-Length: {}\r\n", reply.body.len()));
    }
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    let end = reply.cut.unwrap_or(reply.body.len()).min(reply.body.len());
    if reply.cut.is_none() {
        std::thread::sleep(reply.silence);
    }
    for chunk in reply.body[..end].chunks(64 << 10) {
        stream.write_all(chunk)?;
        stream.flush()?;
        std::thread::sleep(reply.drip);
    }
    if reply.cut.is_some() {
        std::thread::sleep(reply.silence);
    }
    Ok(())
}

/// Bytes that begin as a GGUF does and repeat nowhere near.
pub(crate) fn gguf(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = b"GGUF".to_vec();
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
