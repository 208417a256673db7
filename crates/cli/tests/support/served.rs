//! A server as a process, and a client that speaks plain HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Tiny, gristmill};

/// A server over the tiny model. What it says on standard error is read by a thread, so that it never waits.
pub struct Server {
    child: Child,
    said: Option<Receiver<String>>,
    pub address: String,
    _home: tempfile::TempDir,
}

impl Server {
    pub fn start(tiny: &Tiny, args: &[&str]) -> Server {
        Server::start_among(tiny, args, &[])
    }

    /// As [`Server::start`], with these variables in its environment.
    pub fn start_among(tiny: &Tiny, args: &[&str], variables: &[(&str, &str)]) -> Server {
        let model = [tiny.path(), "--served-model-name", "tiny"];
        let mut server = Server::listen(&[&model, args].concat(), variables);
        server.until("is ready");
        server
    }

    /// A server that may be loading still.
    pub fn listen(args: &[&str], variables: &[(&str, &str)]) -> Server {
        let home = tempfile::tempdir().unwrap();
        let mut command = gristmill(home.path());
        command.args(["serve", "--port", "0"]).args(args).envs(variables.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (tell, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut server = Server { child, said: Some(said), address: String::new(), _home: home };
        let first = server.until("listening on");
        server.address = first.split("://").nth(1).unwrap().split(';').next().unwrap().to_owned();
        server
    }

    /// A server that somebody else listens to.
    pub fn of(child: Child, address: &str, home: tempfile::TempDir) -> Server {
        Server { child, said: None, address: address.to_owned(), _home: home }
    }

    /// The next line that has `word`.
    pub fn until(&mut self, word: &str) -> String {
        let said = self.said.as_ref().unwrap();
        loop {
            let line = said
                .recv_timeout(Duration::from_secs(60))
                .unwrap_or_else(|_| panic!("{word:?} was not said"));
            if line.contains(word) {
                return line;
            }
        }
    }

    /// What it said since, to its end.
    pub fn rest(&mut self) -> String {
        self.said.as_ref().unwrap().iter().collect::<Vec<_>>().join("\n")
    }

    pub fn request(&self, method: &str, path: &str, key: &str, body: &str) -> TcpStream {
        let headers = format!("authorization: Bearer {key}\r\nx-request-id: it-is-me\r\n");
        self.request_with(method, path, &headers, body)
    }

    /// `headers` are whole lines.
    pub fn request_with(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    pub fn complete(&self, key: &str) -> (u16, String) {
        read(self.request("POST", "/v1/completions", key, &body(false).to_string()))
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("-TERM");
        self.wait()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks for 60 tokens after [`Tiny::prompt`].
pub fn body(stream: bool) -> Value {
    json!({
        "prompt": Tiny::prompt(), "max_tokens": 60, "temperature": 0, "ignore_eos": true, "stream": stream
    })
}

/// Status and body.
pub fn read(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The text of a completion.
pub fn answer(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap();
    value["choices"][0]["text"].as_str().unwrap().to_owned()
}

pub fn within(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
