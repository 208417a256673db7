//! The gateway over HTTP: its routes, its state, and what runs beside requests.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use axum::Router;
use axum::extract::{Request, State as Shared_};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use events::{Format, GatewayMetrics, GatewayUpstream, Metrics};
use httpd::{Edge, Keys};
use ledger::audit::{AuditLog, ChainOptions};
use routing::retry::RetryBudget;
use tokio::net::TcpListener;
use translation::Dialect;
use wire::Fault;
use wire::node::PUSH_PATH;

use crate::api::{self, APIS, Api};
use crate::asked::Asked;
use crate::budget::Budgets;
use crate::coalesced::Cache;
use crate::config::{Config, Problem};
use crate::exchange::{Exchange, respond};
use crate::nodes::{self, Nodes};
use crate::secret::Secrets;
use crate::snapshot::Snapshot;
use crate::state::{Retries, Shared};
use crate::{admin, clock, jobs, page, registration};

/// The program's version, as nodes and metrics tell it.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// For the last audit records when the gateway stops.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks at what is idle.
const TIDY: Duration = Duration::from_secs(10);

/// The gateway; clones are the same one.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) shared: Arc<Shared>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not what it should be.
    #[error("{0}")]
    Syntax(String),
    /// Settings that contradict each other or name what is not there.
    #[error("{}", listed(.0))]
    Problems(Vec<Problem>),
    /// A key, a file or an upstream that cannot be used.
    #[error("{0}")]
    Unusable(String),
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads a configuration and checks it.
///
/// # Errors
/// What is wrong with it.
pub fn read_config(text: &str) -> Result<Config, ConfigError> {
    let config = Config::parse(text).map_err(ConfigError::Syntax)?;
    let problems = config.check();
    if problems.is_empty() { Ok(config) } else { Err(ConfigError::Problems(problems)) }
}

impl Gateway {
    /// A gateway of this configuration. `options` bounds connections and bodies; keys come from the configuration.
    ///
    /// # Errors
    /// A configuration that cannot be used, or a store that cannot be opened.
    pub async fn new(
        config: Config,
        options: httpd::Options,
        secrets: Secrets,
    ) -> Result<Gateway, ConfigError> {
        let metrics = Arc::new(GatewayMetrics::new());
        let budgets = Budgets::open(&config).await.map_err(ConfigError::Unusable)?;
        let (snapshot, keys) = Snapshot::new(config, None, &secrets).map_err(ConfigError::Unusable)?;
        let keys = with_node_key(keys, snapshot.node_key.as_deref())?;
        let settings = &snapshot.config.gateway;
        let options = httpd::Options {
            keys,
            body_bytes: settings.body_bytes,
            connections: settings.connections,
            ..options
        };
        let edge = Arc::new(Edge::new(options, Arc::new(Metrics::new(VERSION)), Box::new(Paths)));
        let audit = match &snapshot.config.audit {
            None => ArcSwapOption::empty(),
            Some(table) => {
                let mut options = ChainOptions::new(&table.directory);
                options.max_file_bytes = table.file_bytes;
                options.head_file.clone_from(&table.head_file);
                let opened = AuditLog::open(options, clock::now());
                let log = opened.map_err(|error| ConfigError::Unusable(format!("audit: {error}")))?;
                ArcSwapOption::from_pointee(log)
            }
        };
        let (share, hedged) = (snapshot.config.retry.budget, snapshot.config.hedge.share);
        let cache = snapshot.config.cache;
        let shared = Shared {
            edge,
            metrics,
            snapshot: ArcSwap::from_pointee(snapshot),
            budgets,
            nodes: Nodes::default(),
            cache: Arc::new(Cache::new(cache.bytes, cache.keep.0)),
            retries: Retries(Mutex::new(RetryBudget::new(share))),
            hedges: Retries(Mutex::new(RetryBudget::new(hedged))),
            secrets,
            audit,
            admin: admin::state::State::default(),
            began: Instant::now(),
            draining: AtomicBool::new(false),
            seed: AtomicU64::new(0),
            jobs: ArcSwapOption::empty(),
        };
        Ok(Gateway { shared: Arc::new(shared) })
    }

    /// Takes another configuration from now on; requests under way keep theirs. Listening address, connections and bodies
    /// stay as they were.
    ///
    /// # Errors
    /// A configuration that cannot be used: the present one stays.
    pub fn reload(&self, config: Config) -> Result<(), ConfigError> {
        let shared = &self.shared;
        let before = shared.snapshot.load();
        let (snapshot, keys) =
            Snapshot::new(config, Some(&before), &shared.secrets).map_err(ConfigError::Unusable)?;
        let keys = with_node_key(keys, snapshot.node_key.as_deref())?;
        if !shared.edge.set_keys(keys) {
            let message =
                "the new configuration has no keys, and the present one has: everybody could come in";
            return Err(ConfigError::Unusable(message.to_owned()));
        }
        shared.budgets.set(&snapshot.config).map_err(ConfigError::Unusable)?;
        shared.nodes.join(&snapshot);
        let cache = snapshot.config.cache;
        shared.snapshot.store(Arc::new(snapshot));
        // After the store: what is asked from now on is asked by the new configuration.
        shared.cache.reset(cache.bytes, cache.keep.0);
        Ok(())
    }

    /// Speaks TLS with this certificate on every connection that opens from now on.
    pub fn set_tls(&self, tls: httpd::Tls) {
        self.shared.edge.set_tls(tls);
    }

    /// Takes durable jobs from now on, kept in `store`, `parallel` of them at once; to be called before [`Gateway::run`].
    /// What comes back is run by [`job_server::run`].
    pub fn take_jobs(
        &self,
        store: Arc<dyn job_store::Store>,
        options: job_server::Options,
        parallel: usize,
    ) -> Arc<job_server::Jobs> {
        jobs::take(&self.shared, operations(&self.shared), store, options, parallel)
    }

    /// Serves `listener` until `stop` is done, then drains: takes no more connections or requests, lets running ones
    /// finish for at most `drain`, cancels what is left. Gives back how many connections had to be cut.
    pub async fn run(&self, listener: TcpListener, stop: impl Future<Output = ()>, drain: Duration) -> usize {
        let shared = &self.shared;
        let router = router(shared);
        let watch = tokio::spawn(registration::watch_nodes(shared.clone()));
        let discovery = tokio::spawn(registration::watch_names(shared.clone()));
        let tidy = tokio::spawn(tidy(shared.clone()));
        let application = Arc::new(Draining(shared.clone()));
        let cut = httpd::serve(shared.edge.clone(), router, listener, stop, drain, application).await;
        watch.abort();
        discovery.abort();
        tidy.abort();
        // What runs jobs holds this state, which would never be dropped.
        shared.jobs.store(None);
        shared.budgets.close().await;
        if let Some(audit) = shared.audit.swap(None).and_then(Arc::into_inner) {
            audit.close(tokio::time::Instant::now() + AUDIT_TIMEOUT).await;
        }
        cut
    }
}

/// The keys of clients, and the one by which nodes register themselves.
fn with_node_key(mut keys: Keys, node_key: Option<&str>) -> Result<Keys, ConfigError> {
    if let Some(key) = node_key.filter(|_| !keys.is_empty()) {
        let line = format!("{key} name={}", nodes::KEY_NAME);
        keys.add_lines(&line)
            .map_err(|error| ConfigError::Unusable(format!("gateway.nodes_key_file: {error}")))?;
    }
    Ok(keys)
}

struct Draining(Arc<Shared>);

impl httpd::Application for Draining {
    fn leave(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    fn drain(&self, _deadline: Duration) {}
}

/// Closes connections that nobody has used for long.
async fn tidy(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(TIDY).await;
        let snapshot = shared.snapshot.load_full();
        for upstream in snapshot.upstreams.iter().cloned().chain(snapshot.discovered.all()) {
            upstream.client.drop_idle();
        }
    }
}

/// What the layers must know of the routes.
struct Paths;

impl httpd::Site for Paths {
    fn label(&self, path: &str) -> Option<&'static str> {
        if ["/health", "/health/live", "/health/ready", "/metrics"].contains(&path)
            || path.starts_with(PUSH_PATH)
        {
            return None;
        }
        if let Some(own) = admin::path(path).or_else(|| page::path(path)) {
            return Some(own);
        }
        Some(api::at(path).map_or("none", |api| api.path))
    }

    fn is_open(&self, method: &Method, path: &str) -> bool {
        *method == Method::GET && (path.starts_with("/health") || page::path(path).is_some())
    }

    fn fault(&self, path: &str, fault: &Fault) -> Response {
        let dialect = match api::at(path) {
            Some(api) => api.dialect,
            None if path.starts_with("/v1/messages") => Dialect::Anthropic,
            None if path.starts_with("/v1beta/") => Dialect::Gemini,
            None => Dialect::OpenAiChat,
        };
        respond(dialect, fault)
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route("/health", get(ready))
        .route("/health/ready", get(ready))
        .route("/health/live", get(|| async { "live\n" }))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(list_models))
        .route("/v1/models/{*id}", get(one_model).post(generate))
        .route("/v1beta/models/{*id}", post(generate))
        .route("/v1alpha/models/{*id}", post(generate))
        .route(PUSH_PATH, post(registration::push))
        .route(&format!("{PUSH_PATH}/{{id}}"), delete(registration::leave));
    router = router.merge(admin::routes()).merge(page::routes());
    let router = router.fallback(any(nothing)).with_state(shared.clone());
    httpd::layered(jobs::routes(shared, router.merge(operations(shared))), &shared.edge)
}

/// Every operation but those whose path has the model.
fn operations(shared: &Arc<Shared>) -> Router {
    let paths = APIS.iter().map(|api| api.path).filter(|path| *path != api::GEMINI);
    paths.fold(Router::new(), |router, path| router.route(path, post(generate))).with_state(shared.clone())
}

/// Every operation: the path says which.
async fn generate(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    let Some(api) = api::at(request.uri().path()) else { return nothing(request).await };
    if shared.is_draining() {
        return respond(api.dialect, &Fault::unavailable("shutting_down", "the gateway is shutting down", 1));
    }
    match ask(&shared, api, request).await {
        Ok(response) => response,
        Err(fault) => respond(api.dialect, &fault),
    }
}

async fn ask(shared: &Arc<Shared>, api: &'static Api, request: Request) -> Result<Response, Fault> {
    let context = httpd::context(&request).cloned();
    let context = context.ok_or_else(|| Fault::internal("the request has no context"))?;
    let snapshot = shared.snapshot.load_full();
    let asked = Asked::read(&shared.edge, &snapshot, api, request, &context).await?;
    shared.retries.requested();
    shared.hedges.requested();
    Ok(Box::new(Exchange::new(shared.clone(), snapshot, asked, context)).answer_cached().await)
}

async fn nothing(request: Request) -> Response {
    let path = request.uri().path();
    httpd::Site::fault(&Paths, path, &Fault::not_found(path))
}

async fn ready(Shared_(shared): Shared_<Arc<Shared>>) -> Response {
    let (status, text) = match shared.is_draining() {
        false => (StatusCode::OK, "{\"status\":\"ok\"}"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "{\"status\":\"draining\"}"),
    };
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn metrics(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    let snapshot = shared.snapshot.load_full();
    let mut loads: std::collections::BTreeMap<String, (u64, bool)> = std::collections::BTreeMap::new();
    for route in &snapshot.routes {
        for (target, in_flight, available) in route.loads() {
            let load = loads.entry(target.upstream.name.clone()).or_default();
            *load = (load.0 + in_flight, load.1 || available);
        }
    }
    let upstreams: Vec<GatewayUpstream<'_>> = loads
        .iter()
        .map(|(name, (in_flight, available))| GatewayUpstream {
            name,
            in_flight: *in_flight,
            available: *available,
        })
        .collect();
    let waiting = snapshot.routes.iter().map(|route| route.places().waiting() as u64).sum();
    let mut text = shared.metrics.write(&upstreams, &[], waiting, format);
    text.push_str(&shared.edge.metrics.write(&[], format));
    if let Some(jobs) = shared.jobs.load_full() {
        text.push_str(&job_server::metrics(&jobs, format).await);
    }
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

/// Names of the models that the key may ask for.
fn served(shared: &Shared, request: &Request) -> Vec<String> {
    let snapshot = shared.snapshot.load_full();
    let key = httpd::context(request).and_then(|context| context.key());
    let key = key.and_then(|name| snapshot.keys.get(&name).cloned());
    let routes = snapshot.routes.iter();
    let allowed = routes.filter(|route| key.as_ref().is_none_or(|key| key.may_ask(route.names())));
    allowed.map(|route| route.name().to_owned()).collect()
}

fn card(name: &str) -> serde_json::Value {
    serde_json::json!({"id": name, "object": "model", "created": 0, "owned_by": "gristmill"})
}

async fn list_models(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    let data: Vec<_> = served(&shared, &request).iter().map(|name| card(name)).collect();
    axum::Json(serde_json::json!({"object": "list", "data": data})).into_response()
}

async fn one_model(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    let name = request.uri().path().trim_start_matches("/v1/models/").to_owned();
    let served = served(&shared, &request);
    let snapshot = shared.snapshot.load_full();
    match snapshot.route(&name).filter(|route| served.iter().any(|name| name == route.name())) {
        Some(route) => axum::Json(card(route.name())).into_response(),
        None => httpd::respond(&Fault::no_model(&name, &served)),
    }
}
