//! Receivers on the loopback interface, and resolvers, for tests.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use webhooks::addresses::AddressRules;
use webhooks::resolve::{Resolution, Resolve};
use webhooks::sender::Sender;

/// Longer than anything takes here.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// What a receiver does with a request.
#[derive(Clone)]
pub(crate) enum Answers {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes and keeps silent.
    Hangs(Vec<u8>),
    /// Sends a head and a body without end.
    Endless,
}

/// A receiver that keeps the requests that it got.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    /// A receiver of plain HTTP on `127.0.0.1`.
    pub(crate) async fn new(answers: Answers) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answers.clone(), kept.clone()));
            }
        });
        Receiver { port, requests }
    }

    /// A receiver that answers with a status and headers.
    pub(crate) async fn answering(head: &str) -> Receiver {
        let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\n\r\nok");
        Receiver::new(Answers::Bytes(answer.into_bytes())).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?x=1", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads one request and answers it.
pub(crate) async fn serve<T: AsyncRead + AsyncWrite + Unpin>(
    mut stream: T,
    answers: Answers,
    kept: Arc<Mutex<Vec<String>>>,
) {
    let Some(request) = request(&mut stream).await else { return };
    kept.lock().unwrap().push(request);
    match answers {
        Answers::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Answers::Hangs(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            // Until the sender goes.
            let _ = stream.read(&mut [0; 64]).await;
        }
        Answers::Endless => {
            let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
            while stream.write_all(&bytes).await.is_ok() {
                bytes = vec![b'x'; 64 << 10];
            }
        }
    }
}

async fn request<T: AsyncRead + Unpin>(stream: &mut T) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4_096];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |digits| digits.parse().unwrap()) {
            return Some(text);
        }
    }
}

/// A sender that may reach the loopback interface by its address.
pub(crate) fn sender() -> Sender {
    Sender::new(AddressRules::parse(["127.0.0.1"]).unwrap(), None).unwrap()
}

/// A resolver whose answers change: each lookup takes the next one, and the last one stays.
pub(crate) struct Changing {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    pub(crate) names: Mutex<Vec<String>>,
}

impl Changing {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Changing> {
        let read = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(read).collect();
        Arc::new(Changing { answers: Mutex::new(answers), names: Mutex::default() })
    }
}

impl Resolve for Changing {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolution<'a> {
        self.names.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { answer.ok_or_else(|| "no such name".to_owned()) })
    }
}

/// A resolver that never answers.
pub(crate) struct Silent;

impl Resolve for Silent {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolution<'a> {
        Box::pin(std::future::pending())
    }
}
