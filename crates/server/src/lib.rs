//! One machine over HTTP: the dialects of the API on one side, the contract of [`inference`] on the other.
//!
//! A request's way: [`httpd`] (connection, request id, host and key, body) → a route, which reads its dialect into an
//! operation → [`service`] (admission, template and tokenizer, the engine) → the contract's events → the dialect's answer,
//! whole or as server-sent events. Whoever leaves takes its request along: a dropped handler or stream cancels it in the
//! engine.
//!
//! The server answers from the moment it is bound; until a model is [`Server::ready`], with 503 and a reason.
//!
//! Deliberately absent: kernels, files, the environment, signals (the command line tells when to stop), and any queue
//! without a bound.

mod answer;
mod asker;
mod encoders;
mod faults;
mod grpc;
mod hints;
mod in_process;
mod items;
mod jobs;
mod llamacpp;
mod messages;
mod node;
mod oip;
mod ollama;
mod options;
mod page;
mod paths;
mod requests;
mod responses;
mod routes;
mod scores;
mod shown;
mod state;
mod stream;
mod tgi;
mod tokens;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

pub use asker::Asker;
pub use httpd::{Cors, KeyLimits, Keys, KeysError, Tls, TlsError};
pub use inference::{Audit, Record, Stages, TraceParent};
pub use job_server::in_process::Answer as WholeAnswer;
pub use options::Options;
pub use service::{
    Activation, ClassifierHead, DenseHead, EncoderHeads, EncoderPrompts, EncoderText, Encoding, Guided,
    LoadedModel, ModelDetails, ModelText, PREPARATIONS, Price, ShortVectors, TENSOR_THREADS, TensorModel,
    TextPipeline, TokenVectors, Wanted,
};
pub use wire::Currency;

use in_process::InProcess;
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
        self.state.service.loading(what.into());
    }

    /// Takes requests from now on. `since` is the start of the process. Ignored when the server is already draining.
    pub fn ready(&self, model: LoadedModel, since: Instant) {
        self.state.service.ready(model, since.elapsed());
    }

    /// What answers the requests.
    pub fn service(&self) -> &Arc<service::Service> {
        &self.state.service
    }

    /// The models, to which others can be added.
    pub fn registry(&self) -> &Arc<service::Registry> {
        self.state.service.registry()
    }

    /// Takes requests from now on, for the models of the registry. `since` is the start of the process.
    pub fn open(&self, since: Instant) {
        self.state.service.open(since.elapsed());
    }

    /// What the engine of the model with this name, the first of its names, is to be started with, so that its steps
    /// are counted.
    pub fn watch(&self, model: &str) -> Box<dyn service::Watch> {
        self.watch_reads(model, &|_| 0)
    }

    /// As [`Server::watch`]; `weight_bytes` tells how many bytes of weights a step of so many rows reads.
    pub fn watch_reads(&self, model: &str, weight_bytes: &dyn Fn(usize) -> u64) -> Box<dyn service::Watch> {
        self.state.service.watch(model, weight_bytes)
    }

    /// As [`Server::watch`], for an encoder.
    pub fn watch_encoder(&self, model: &str) -> Box<dyn service::EncodeWatch> {
        self.state.service.watch_encoder(model)
    }

    /// What is asked about the process whenever somebody asks for the metrics; it should take well under a millisecond.
    /// The first one stays.
    pub fn measure(&self, process: impl Fn() -> events::Process + Send + Sync + 'static) {
        let _ = self.state.process.set(Box::new(process));
    }

    /// Takes other keys from now on. What the keys in both have used of their limits stays used. Gives back whether it
    /// did: a server that has keys is not left without any, which would let everybody in.
    pub fn set_keys(&self, keys: Keys) -> bool {
        self.state.edge.set_keys(keys)
    }

    /// Speaks TLS with this certificate on every connection that opens from now on.
    pub fn set_tls(&self, tls: Tls) {
        self.state.edge.set_tls(tls);
    }

    /// Asks the server without a connection.
    pub fn asker(&self) -> Asker {
        Asker::new(&self.state, self.in_process())
    }

    /// Takes durable jobs from now on, kept in `store`; to be called before [`Server::run`]. What comes back is run by
    /// [`job_server::run`].
    pub fn take_jobs(
        &self,
        store: Arc<dyn job_store::Store>,
        options: job_server::Options,
    ) -> Arc<job_server::Jobs> {
        jobs::take(&self.state, self.in_process(), store, options)
    }

    fn in_process(&self) -> InProcess {
        InProcess::new(&self.state, routes::bare(&self.state).with_state(self.state.clone()))
    }

    /// Who hears of every request when it is over. The first one stays.
    pub fn audit(&self, audit: Arc<dyn Audit>) {
        self.state.edge.set_audit(audit);
    }

    /// Serves `listener` until `stop` is done, then drains: takes no more connections or requests, lets running ones
    /// finish for at most `drain`, cancels what is left. Gives back how many connections had to be cut.
    pub async fn run(&self, listener: TcpListener, stop: impl Future<Output = ()>, drain: Duration) -> usize {
        let router = routes::router(&self.state);
        let watch = tokio::spawn(service::watch(self.state.service.clone()));
        let edge = self.state.edge.clone();
        let cut = httpd::serve(edge, router, listener, stop, drain, self.state.clone()).await;
        watch.abort();
        self.state.set_jobs(None);
        cut
    }
}
