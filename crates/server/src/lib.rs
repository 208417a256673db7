//! One machine over HTTP.
//!
//! A request's way: connection (bounded, with deadlines for heads and writes) → request id → host and key → body
//! (bounded in size, time and memory) → admission (a permit that frees itself) → template and tokenizer, off the async
//! threads → the engine → a bounded channel → the answer, whole or as events. Whoever leaves takes its ticket along: a
//! dropped handler or stream cancels the request in the engine.
//!
//! The server answers from the moment it is bound; until a model is [`Server::ready`], with 503 and a reason.
//!
//! Deliberately absent: kernels, files, the environment, signals (the `cli` room tells when to stop), and any queue
//! without a bound.

mod admission;
mod allowance;
mod answer;
mod auth;
mod body;
mod calls;
mod connection;
mod continued;
mod cors;
mod encoding;
mod generation;
mod head;
mod held;
mod hints;
mod items;
mod layers;
mod line;
mod llamacpp;
mod messages;
mod options;
mod outbox;
mod page;
mod patience;
mod plan;
mod preparation;
mod prompts;
mod pulse;
mod responses;
mod routes;
mod served;
mod shape;
mod shares;
mod state;
mod stream;
mod tgi;
mod tls;
mod tokens;
mod traceparent;
mod visit;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

pub use allowance::KeyLimits;
pub use auth::{Keys, KeysError};
pub use cors::Cors;
pub use options::{Options, Price};
pub use preparation::PREPARATIONS;
pub use served::{Guided, Language, Served, Spoken, Wanted};
pub use tls::{Tls, TlsError};
pub use traceparent::TraceParent;
pub use visit::{Audit, Record, Stages};
pub use wire::Currency;

use state::State;

/// The server; clones are the same one.
#[derive(Clone)]
pub struct Server {
    state: Arc<State>,
}

impl Server {
    /// A server that has no model yet.
    pub fn new(options: Options) -> Server {
        Server { state: Arc::new(State::new(options)) }
    }

    /// What the answer to `/health` says while there is no model.
    pub fn loading(&self, what: impl Into<String>) {
        self.state.loading(what.into());
    }

    /// Takes requests from now on. `since` is the start of the process. Ignored when the server is already draining.
    pub fn ready(&self, served: Served, since: Instant) {
        self.state.ready(served, since.elapsed());
    }

    /// What the engine is to be started with, so that its steps are counted.
    pub fn watch(&self) -> Box<dyn engine::Watch> {
        self.watch_reads(&|_| 0)
    }

    /// As [`Server::watch`]; `weight_bytes` tells how many bytes of weights a step of so many rows reads.
    pub fn watch_reads(&self, weight_bytes: &dyn Fn(usize) -> u64) -> Box<dyn engine::Watch> {
        Box::new(outbox::Steps::new(self.state.metrics.clone(), self.state.pulse.clone(), weight_bytes))
    }

    /// What is asked about the process whenever somebody asks for the metrics; it should take well under a millisecond.
    /// The first one stays.
    pub fn measure(&self, process: impl Fn() -> events::Process + Send + Sync + 'static) {
        let _ = self.state.process.set(Box::new(process));
    }

    /// Takes other keys from now on. What the keys in both have used of their limits stays used. Gives back whether it
    /// did: a server that has keys is not left without any, which would let everybody in.
    pub fn set_keys(&self, keys: Keys) -> bool {
        self.state.set_keys(keys)
    }

    /// Speaks TLS with this certificate on every connection that opens from now on.
    pub fn set_tls(&self, tls: Tls) {
        self.state.set_tls(tls);
    }

    /// Who hears of every request when it is over. The first one stays.
    pub fn audit(&self, audit: Arc<dyn Audit>) {
        // A second one is refused, as documented.
        let _ = self.state.audit.set(audit);
    }

    /// Serves `listener` until `stop` is done, then drains: takes no more connections or requests, lets running ones
    /// finish for at most `drain`, cancels what is left. Gives back how many connections had to be cut.
    pub async fn run(&self, listener: TcpListener, stop: impl Future<Output = ()>, drain: Duration) -> usize {
        let router = routes::router(self.state.clone());
        connection::serve(self.state.clone(), router, listener, stop, drain).await
    }
}
