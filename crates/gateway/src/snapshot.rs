//! What a request is answered by: a configuration made ready. A request keeps its snapshot to its end, whatever is
//! loaded meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use httpd::Keys;
use routing::retry::RetryPolicy;

use crate::config::Config;
use crate::detection::Detection;
use crate::discovery::Discovered;
use crate::keys::{self, KeyPolicy};
use crate::route::Route;
use crate::secret::Secret;
use crate::tls;
use crate::upstream::Upstream;

/// A configuration made ready.
pub(crate) struct Snapshot {
    pub(crate) config: Config,
    /// Number of the configuration since the start.
    pub(crate) generation: u64,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// In the order of the file.
    pub(crate) routes: Vec<Arc<Route>>,
    by_name: HashMap<String, Arc<Route>>,
    pub(crate) keys: HashMap<String, Arc<KeyPolicy>>,
    pub(crate) detection: Option<Arc<Detection>>,
    /// Addresses of upstreams whose host stands for several machines.
    pub(crate) discovered: Discovered,
    /// The key by which nodes register themselves; without one none can.
    pub(crate) node_key: Option<String>,
    /// When it was made.
    pub(crate) since: Instant,
    /// For upstreams that register themselves.
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

impl Snapshot {
    /// The configuration made ready, with the state of routes and connections of the one before.
    ///
    /// # Errors
    /// A key that cannot be read, or an upstream that cannot be asked, with its name.
    pub(crate) fn new(
        config: Config,
        before: Option<&Snapshot>,
        secret: &dyn Fn(&Secret<'_>) -> Result<String, String>,
    ) -> Result<(Snapshot, Keys), String> {
        let authorities = match &config.gateway.ca_file {
            Some(path) => Some(secret(&Secret::File(path)).map_err(|why| format!("gateway.ca_file: {why}"))?),
            None => None,
        };
        let tls = tls::client(authorities.as_deref()).map_err(|why| format!("gateway.ca_file: {why}"))?;
        let mut upstreams = Vec::new();
        for table in &config.upstreams {
            let place = |why: String| format!("upstream {:?}: {why}", table.name);
            let key = match (&table.key_env, &table.key_file) {
                (Some(name), _) => Some(secret(&Secret::Environment(name)).map_err(place)?),
                (None, Some(path)) => Some(secret(&Secret::File(path)).map_err(place)?),
                (None, None) => None,
            };
            let key = key.as_deref().map(str::trim);
            upstreams.push(Arc::new(Upstream::new(table, key, &tls).map_err(place)?));
        }
        let (keys, policies) = keys::read(&config, secret)?;
        let node_key = match &config.gateway.nodes_key_file {
            None => None,
            Some(path) => {
                let text = secret(&Secret::File(path));
                Some(text.map_err(|why| format!("gateway.nodes_key_file: {why}"))?.trim().to_owned())
            }
        };
        let detection = match &config.privacy {
            None => None,
            Some(table) => Some(Arc::new(Detection::new(table, crate::hashing::random())?)),
        };
        let discovered = before.map(|before| before.discovered.renewed(&upstreams, &tls)).unwrap_or_default();
        let mut routes = Vec::new();
        let mut by_name = HashMap::new();
        for model in &config.models {
            let old = before.and_then(|before| before.by_name.get(&model.name));
            let route = Arc::new(Route::new(model, &config, &upstreams, old)?);
            for name in model.names() {
                by_name.insert(name.to_owned(), route.clone());
            }
            routes.push(route);
        }
        let snapshot = Snapshot {
            generation: before.map_or(0, |before| before.generation + 1),
            config,
            upstreams,
            routes,
            by_name,
            keys: policies,
            node_key,
            detection,
            discovered,
            since: Instant::now(),
            tls,
        };
        Ok((snapshot, keys))
    }

    /// The settings of retries.
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        let retry = self.config.retry;
        RetryPolicy {
            attempts: retry.attempts,
            budget: retry.budget,
            paid_uncertain: retry.maybe_billed,
            content_filter_falls_back: retry.content_filter,
        }
    }

    /// The route of a model, by any of its names.
    pub(crate) fn route(&self, name: &str) -> Option<&Arc<Route>> {
        self.by_name.get(name)
    }
}
