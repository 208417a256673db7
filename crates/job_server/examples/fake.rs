//! Jobs, batches and webhooks with a model that answers at once: `cargo run -p job_server --example fake -- --store DIR`.
//! For kill tests and measurements of everything but the model: tools/jobs/.
//!
//! Flags: `--store DIR` or `--postgres URL` (feature `postgres`), `--port N` (0 takes a free one, which
//! is printed), `--ms N` (time of an answer, 2), `--parallel N` (8).

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use axum::response::Response;
use axum::{Router, extract::Request};
use httpd::{Edge, Site};
use job_server::{Checked, Executor, Jobs, Ran, Work};
use job_store::{SqliteStore, Store, StoreLimits};
use jobs::Usage;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use wire::Fault;

/// Answers every request after a fixed time, with a text that follows from the request alone.
struct Fake {
    time: Duration,
    parallel: usize,
}

impl Executor for Fake {
    fn endpoints(&self) -> Vec<&'static str> {
        vec!["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses"]
    }

    fn check(&self, endpoint: &str, body: &[u8], _key: &str) -> Result<Checked, Fault> {
        if !self.endpoints().contains(&endpoint) {
            return Err(Fault::field("endpoint", format!("{endpoint} takes no jobs")));
        }
        let value = wire::json::read(body)?;
        let model = value["model"].as_str().unwrap_or_default().to_owned();
        Ok(Checked { model, body: body.to_vec(), output_limit: value["max_tokens"].as_u64() })
    }

    fn run<'a>(&'a self, work: Work) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            tokio::time::sleep(self.time).await;
            let text = jobs::hash::sha256_hex(&work.body);
            let usage = Usage { input_tokens: 10, output_tokens: 8, ..Usage::default() };
            let body = json!({
                "id": "fake", "object": "chat.completion", "model": work.job.model,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 8, "total_tokens": 18},
            });
            Ran {
                status: 200,
                body: body.to_string().into_bytes(),
                usage,
                cost_micros: None,
                retry_after: None,
            }
        })
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn parallel(&self) -> usize {
        self.parallel
    }

    fn stuck(&self) -> Option<Duration> {
        None
    }

    fn fingerprint(&self, _model: &str) -> Option<String> {
        None
    }

    fn expected_seconds(&self, queued_jobs: u64, _output_limit: Option<u64>) -> Option<f64> {
        Some(queued_jobs as f64 * self.time.as_secs_f64() / self.parallel as f64)
    }
}

struct AllRoutes;

impl Site for AllRoutes {
    fn label(&self, _path: &str) -> Option<&'static str> {
        None
    }

    fn is_open(&self, _method: &Method, _path: &str) -> bool {
        true
    }

    fn fault(&self, _path: &str, fault: &Fault) -> Response {
        httpd::respond(fault)
    }
}

struct Nothing;

impl httpd::Application for Nothing {
    fn leave(&self) {}

    fn drain(&self, _deadline: Duration) {}
}

fn flags() -> HashMap<String, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.chunks_exact(2).map(|pair| (pair[0].trim_start_matches('-').to_owned(), pair[1].clone())).collect()
}

fn number(flags: &HashMap<String, String>, name: &str, default: u64) -> Result<u64, Box<dyn Error>> {
    Ok(flags.get(name).map_or(Ok(default), |text| text.parse())?)
}

fn store(flags: &HashMap<String, String>) -> Result<Arc<dyn Store>, Box<dyn Error>> {
    let limits = StoreLimits { open_jobs: 200_000, open_jobs_of_key: 200_000, ..StoreLimits::default() };
    match (flags.get("store"), flags.get("postgres")) {
        (Some(folder), None) => Ok(Arc::new(SqliteStore::open(folder.as_ref(), limits)?)),
        #[cfg(feature = "postgres")]
        (None, Some(url)) => Ok(Arc::new(job_store::PostgresStore::new(url, limits)?)),
        _ => Err("one of --store DIR and --postgres URL is needed".into()),
    }
}

#[allow(clippy::print_stdout, reason = "whoever starts it reads the port")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let flags = flags();
    let (port, ms, parallel) =
        (number(&flags, "port", 0)?, number(&flags, "ms", 2)?, number(&flags, "parallel", 8)?);
    let store = store(&flags)?;
    let fake = Fake { time: Duration::from_millis(ms), parallel: usize::try_from(parallel)? };
    let http = httpd::Options { body_bytes: 4 << 20, ..httpd::Options::default() };
    let edge = Arc::new(Edge::new(http, Arc::new(events::Metrics::new("fake")), Box::new(AllRoutes)));
    let options = job_server::Options {
        place: format!("fake:{}", std::process::id()),
        webhook_rules: webhooks::addresses::AddressRules::parse(["127.0.0.0/8"])?,
        ..job_server::Options::default()
    };
    let jobs = Arc::new(Jobs::new(store, Arc::new(fake), edge.clone(), options));
    let mut router: Router<Arc<Jobs>> = Router::new();
    for route in wire::routes::ROUTES {
        if let Some(handler) = job_server::faces::handler(route.id) {
            router = router.route(route.path, handler);
        }
    }
    let figures = jobs.clone();
    let metrics = move |_: Request| {
        let figures = figures.clone();
        async move { job_server::metrics(&figures, events::Format::Prometheus).await }
    };
    let router =
        httpd::layered(router.with_state(jobs.clone()).route("/metrics", axum::routing::get(metrics)), &edge);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", u16::try_from(port)?)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let running = tokio::spawn(job_server::run(jobs.clone(), ended(stopped.clone())));
    tokio::spawn(async move {
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            terminate.recv().await;
            stop.send_replace(true);
        }
    });
    httpd::serve(edge, router, listener, ended(stopped), Duration::from_secs(1), Arc::new(Nothing)).await;
    jobs.close();
    running.await?;
    Ok(())
}

async fn ended(mut stopped: tokio::sync::watch::Receiver<bool>) {
    // The sender ends only with the process.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
