//! A gateway in front of fake providers, with traffic, to look at the admin page: `cargo run -p gateway --example demo`.
//!
//! The administrator's key is `demo`. Stops after the seconds of its argument, or never.

use std::time::Duration;

use fake_provider::{Fault, Provider, Script, When};
use gateway::{Gateway, Secret, read_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn config(urls: &[String], store: &std::path::Path) -> String {
    let [near, far, paid] = urls else { return String::new() };
    format!(
        r#"
gateway = {{ listen = "127.0.0.1:8090", currency = "EUR" }}
store = {{ sqlite = {store:?} }}
budget = [{{ window = "month", money = "2" }}, {{ window = "day", tokens = 200000 }}]
team = [{{ name = "search", budget = [{{ window = "day", requests = 400 }}] }}]
key = [
  {{ name = "operator", env = "OPERATOR", admin = true }},
  {{ name = "ada", env = "ADA", team = "search", class = "premium", budget = [{{ window = "month", money = "1" }}] }},
  {{ name = "nightly", env = "NIGHTLY", class = "batch", requests_per_minute = 600, label = "internal" }},
]

[[upstream]]
name = "farm-1"
url = "{near}/v1"
kind = "openai"
tier = "own"

[[upstream]]
name = "farm-2"
url = "{far}/v1"
kind = "openai"
tier = "own"

[[upstream]]
name = "service"
url = "{paid}/v1"
kind = "openai"
clearance = "internal"

[[model]]
name = "chat"
aliases = ["gpt-4o-mini"]
targets = [{{ upstream = "farm-1", model = "small" }}, {{ upstream = "farm-2", model = "small" }}]
fallbacks = ["large"]

[[model]]
name = "large"
targets = [{{ upstream = "service", model = "big", price = {{ input = "2.5", output = "10" }} }}]
"#
    )
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let slow = Script::new().tokens(30).pace(120, 8).fault(When::probability(0.15), Fault::status(500));
    let providers = [
        Provider::start(Script::new().tokens(40).pace(80, 5)).await?,
        Provider::start(slow).await?,
        Provider::start(Script::new().tokens(120).pace(300, 4)).await?,
    ];
    let urls: Vec<String> = providers.iter().map(Provider::url).collect();
    let directory = tempfile::tempdir()?;
    let config = read_config(&config(&urls, &directory.path().join("ledger.sqlite")))?;
    let listen = config.gateway.listen.clone();
    let secrets = |secret: &Secret<'_>| match secret {
        Secret::Environment("OPERATOR") => Ok("demo".to_owned()),
        Secret::Environment("ADA") => Ok("ada-key".to_owned()),
        _ => Ok("nightly-key".to_owned()),
    };
    let gateway = Gateway::new(config, httpd::Options::default(), Box::new(secrets)).await?;
    let listener = TcpListener::bind(&listen).await?;
    let traffic = tokio::spawn(async move {
        for number in 0_u64.. {
            let (key, model) = match number % 5 {
                0 => ("nightly-key", "chat"),
                1 => ("ada-key", "large"),
                _ => ("ada-key", "gpt-4o-mini"),
            };
            tokio::spawn(request(listen.clone(), key, model, number));
            tokio::time::sleep(Duration::from_millis(60 + 50 * (number % 7))).await;
        }
    });
    let stop = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    gateway.run(listener, stop, Duration::from_secs(1)).await;
    traffic.abort();
    Ok(())
}

async fn request(address: String, key: &str, model: &str, number: u64) -> Result<(), std::io::Error> {
    let body = format!(
        r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Question {number}: why is the sky blue?"}}]}}"#
    );
    let mut stream = TcpStream::connect(&address).await?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(())
}
