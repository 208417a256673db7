//! A gateway on loopback, in front of fake providers, and a client that sees every byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gateway::{Gateway, Secret, read_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A running gateway; stopped when it is dropped.
pub(crate) struct Running {
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

/// Starts a gateway with a configuration. Secrets are read from `secrets` by the name of their variable.
pub(crate) async fn start_with(config: &str, secrets: &[(&str, &str)]) -> Running {
    let secrets: HashMap<String, String> =
        secrets.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let read = move |secret: &Secret<'_>| match secret {
        Secret::Environment(name) => secrets.get(*name).cloned().ok_or_else(|| format!("{name} is not set")),
        Secret::File(path) => {
            let name = path.to_string_lossy().into_owned();
            secrets.get(&name).cloned().ok_or_else(|| format!("{name} is not there"))
        }
    };
    let config = read_config(config).unwrap_or_else(|error| panic!("{error}\n{config}"));
    let gateway = Gateway::new(config, httpd::Options::default(), Box::new(read)).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = gateway.clone();
    tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        served.run(listener, stop, Duration::from_secs(1)).await
    });
    Running { gateway, address, _stop: stop }
}

pub(crate) async fn start(config: &str) -> Running {
    start_with(config, &[]).await
}

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) took: Duration,
    /// Whether the connection ended before the body did.
    pub(crate) broken: bool,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The data of the stream's events.
    pub(crate) fn events(&self) -> Vec<&str> {
        self.body
            .split("\n\n")
            .filter_map(|event| event.lines().find_map(|l| l.strip_prefix("data: ")))
            .collect()
    }

    /// The text of a chat answer, whole or streamed.
    pub(crate) fn text(&self) -> String {
        if self.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
            return self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
        }
        let chunks =
            self.events().into_iter().filter_map(|e| serde_json::from_str::<serde_json::Value>(e).ok());
        chunks.filter_map(|c| c["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
    }

    /// Whether a stream of chat chunks ended as a complete one does.
    pub(crate) fn is_complete(&self) -> bool {
        !self.broken && self.body.trim_end().ends_with("data: [DONE]") && !self.body.contains("\"error\"")
    }
}

/// A `POST` of JSON.
pub(crate) async fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    ask(address, "POST", path, headers, body).await
}

pub(crate) async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    if method == "POST" {
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut all)).await;
    let cut = !matches!(read, Ok(Ok(_)));
    parse(&all, cut, began.elapsed())
}

fn parse(all: &[u8], cut: bool, took: Duration) -> Reply {
    let at = all.windows(4).position(|w| w == b"\r\n\r\n");
    let Some(at) = at else {
        return Reply { status: 0, headers: Vec::new(), body: String::new(), took, broken: true };
    };
    let head = String::from_utf8_lossy(&all[..at]).into_owned();
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|s| s.parse().ok()).unwrap_or(0);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':').map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned())))
        .collect();
    let rest = &all[at + 4..];
    let chunked = headers.iter().any(|(n, v)| n == "transfer-encoding" && v.contains("chunked"));
    let (body, whole) = if chunked { unchunk(rest) } else { (rest.to_vec(), true) };
    Reply { status, headers, body: String::from_utf8_lossy(&body).into_owned(), took, broken: cut || !whole }
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else { return (body, false) };
        let size = usize::from_str_radix(String::from_utf8_lossy(&rest[..end]).trim(), 16).unwrap_or(0);
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, true);
        }
        if rest.len() < size {
            body.extend_from_slice(rest);
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
}

/// The body of a chat request.
pub(crate) fn chat(model: &str, stream: bool) -> String {
    serde_json::json!({
        "model": model,
        "stream": stream,
        "messages": [{"role": "user", "content": "Explain why a gateway earns trust."}],
    })
    .to_string()
}

/// A configuration of the model `main` at one provider, falling back to `backup` at another, without waits.
pub(crate) fn two(primary: &str, backup: &str, more: &str) -> String {
    format!(
        r#"
[[upstream]]
name = "primary"
url = "{primary}/v1"
kind = "openai"
timeouts = {{ connect = "500ms", first_byte = "400ms", idle = "400ms", total = "20s" }}

[[upstream]]
name = "backup"
url = "{backup}/v1"
kind = "openai"

[[model]]
name = "main"
targets = [{{ upstream = "primary" }}]
fallbacks = ["other"]
on_cut = "replay"

[[model]]
name = "other"
targets = [{{ upstream = "backup" }}]
{more}"#
    )
}
