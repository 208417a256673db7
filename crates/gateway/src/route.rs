//! A model of the configuration: its targets, and the router that chooses among them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use privacy::Label;
use routing::{
    Ask, Considered, Failure, Gate, MaxFails, Method, NodeRecord, Outcome, OverflowPolicy, Refused, Router,
    TargetId, TargetStatus,
};

use crate::admission::Places;
use crate::config::{self, Config, OnCut, Policy, Price, REGISTERED, Tier};
use crate::discovery::Discovered;
use crate::upstream::Upstream;

/// Nano units of a token whose price is not known: a thousand units for a million tokens.
const UNKNOWN_PRICE: u64 = 1_000_000;

/// A model, ready to be asked for.
pub(crate) struct Route {
    model: config::Model,
    /// Kept over reloads: what was learned of targets.
    router: Arc<Mutex<Router>>,
    targets: RwLock<Arc<Targets>>,
    /// Targets of the file, without nodes that registered themselves and addresses that are discovered.
    fixed: Vec<Arc<Target>>,
    /// Targets whose upstream's host stands for several machines, with the most requests at each.
    shared: Vec<(config::Target, Option<u32>)>,
    began: Instant,
    overflows: bool,
    overflow_class: config::Class,
    admission: config::Admission,
    places: Arc<Places>,
}

/// The targets at a moment.
#[derive(Default)]
struct Targets {
    all: Vec<Arc<Target>>,
    by_id: HashMap<TargetId, Arc<Target>>,
}

/// A model at an upstream.
pub(crate) struct Target {
    pub(crate) upstream: Arc<Upstream>,
    /// The model's name there.
    pub(crate) model: String,
    pub(crate) price: Option<Price>,
    weight: u32,
    max_in_flight: Option<u32>,
    /// What the upstream's text depends on, if it has told: those with equal ones continue each other's answers.
    fingerprint: Mutex<Option<String>>,
}

impl Target {
    /// Whose it is.
    pub(crate) fn tier(&self) -> routing::Tier {
        match self.upstream.tier {
            Tier::Own => routing::Tier::Own,
            Tier::Rented => routing::Tier::Rented,
            Tier::Metered => routing::Tier::Metered,
        }
    }

    /// What its text depends on.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        self.fingerprint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_fingerprint(&self, fingerprint: Option<&str>) {
        let mut now = self.fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
        if now.as_deref() != fingerprint {
            *now = fingerprint.map(str::to_owned);
        }
    }

    /// Whether both are the same model at the same upstream.
    pub(crate) fn is(&self, other: &Target) -> bool {
        self.upstream.name == other.upstream.name && self.model == other.model
    }

    /// The name in the router: of two models at one upstream, each has its own.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.upstream.name, self.model)
    }

    fn routing(&self) -> routing::Target {
        let per_token = |nanos: config::Nanos| u64::try_from(nanos.0).unwrap_or(0).div_ceil(1_000_000);
        let price = match self.price {
            Some(price) => routing::Price {
                input: per_token(price.input),
                cached: per_token(price.cached.unwrap_or(price.input)),
                output: per_token(price.output),
            },
            // Where money is capped, the configuration was refused. Else it is the dearest, not the cheapest.
            None => routing::Price { input: UNKNOWN_PRICE, cached: UNKNOWN_PRICE, output: UNKNOWN_PRICE },
        };
        let mut target = routing::Target::new(self.key(), self.tier());
        target.price = (self.price.is_some() || self.upstream.tier == Tier::Metered).then_some(price);
        target.weight = self.weight;
        target.max_in_flight = self.max_in_flight;
        target
    }
}

/// A request under way at a target; counted until it is dropped.
pub(crate) struct Flight {
    route: Arc<Route>,
    target: Arc<Target>,
    flight: Option<routing::Flight>,
    predicted_s: f64,
}

impl Flight {
    /// Where it is.
    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Predicted seconds to the end of the answer.
    pub(crate) fn predicted_s(&self) -> Option<f64> {
        (self.predicted_s > 0.0 && self.predicted_s.is_finite()).then_some(self.predicted_s)
    }

    /// Time after which it is slower than nearly all before it; none if it must not be hedged.
    pub(crate) fn hedge_delay(&self) -> Option<Duration> {
        let flight = self.flight.as_ref()?;
        self.route.router().hedge_delay(self.route.now(), flight)
    }

    /// Notes how it has ended.
    pub(crate) fn finish(mut self, outcome: &Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: &Outcome) {
        if let Some(flight) = self.flight.take() {
            let now = self.route.now();
            self.route.router().finished(now, flight, outcome);
        }
    }

    /// The load that the target's node told with its answer.
    pub(crate) fn observe(&self, boot: &str, load: &wire::node::NodeLoad) {
        self.route.observe_load(&self.target, boot, load);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.end(&Outcome::Cancelled);
    }
}

impl Route {
    /// A model of the configuration. What an earlier one of the same name has learned of its targets is kept.
    ///
    /// # Errors
    /// A target whose upstream is not there.
    pub(crate) fn new(
        model: &config::Model,
        config: &Config,
        upstreams: &[Arc<Upstream>],
        before: Option<&Arc<Route>>,
    ) -> Result<Route, String> {
        let (mut fixed, mut shared) = (Vec::new(), Vec::new());
        for table in &model.targets {
            if table.upstream == REGISTERED {
                continue;
            }
            let upstream = upstreams.iter().find(|upstream| upstream.name == table.upstream);
            let upstream = upstream.ok_or_else(|| format!("upstream {:?} is not there", table.upstream))?;
            let limits = config.upstreams.iter().find(|u| u.name == table.upstream);
            if upstream.discover.is_some() {
                shared.push((table.clone(), limits.and_then(|limits| limits.max_in_flight)));
                continue;
            }
            fixed.push(Arc::new(Target {
                upstream: upstream.clone(),
                model: table.model.clone().unwrap_or_else(|| model.name.clone()),
                price: table.price,
                weight: table.weight,
                max_in_flight: limits.and_then(|limits| limits.max_in_flight),
                fingerprint: Mutex::default(),
            }));
        }
        let seed = crate::hashing::hash(model.name.as_bytes());
        let same = before.filter(|before| {
            let had = &before.model;
            had.policy == model.policy
                && had.slo == model.slo
                && had.fallbacks.is_empty() == model.fallbacks.is_empty()
        });
        let (router, began) = match same {
            Some(before) => (before.router.clone(), before.began),
            None => {
                let router = Router::new(policy(model, config), Vec::new(), seed);
                (Arc::new(Mutex::new(router)), Instant::now())
            }
        };
        let route = Route {
            model: model.clone(),
            router,
            targets: RwLock::default(),
            fixed,
            shared,
            began,
            overflows: config.overflow.enabled,
            overflow_class: config.overflow.class,
            admission: config.admission,
            places: match before {
                Some(before) => before.places.clone(),
                None => Places::new(&config.admission, 1),
            },
        };
        route.set_nodes(Vec::new());
        Ok(route)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn router(&self) -> MutexGuard<'_, Router> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn targets(&self) -> Arc<Targets> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes these nodes, which registered themselves, beside the targets of the file.
    pub(crate) fn set_nodes(&self, nodes: Vec<Arc<Target>>) {
        let mut all = self.fixed.clone();
        all.extend(nodes);
        let mut now = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        let mut router = self.router();
        router.replace(all.iter().map(|target| target.routing()).collect());
        let id = |target: &Arc<Target>| Some((router.find(&target.key())?, target.clone()));
        let by_id = all.iter().filter_map(id).collect();
        drop(router);
        self.places.resize(&self.admission, self.capacity(&all));
        *now = Arc::new(Targets { all, by_id });
    }

    /// Requests at once: what the targets may have, if all of them say; at most what the configuration says.
    fn capacity(&self, all: &[Arc<Target>]) -> u32 {
        let most = u32::try_from(self.admission.running).unwrap_or(u32::MAX);
        let limits: Option<Vec<u32>> = all.iter().map(|target| target.max_in_flight).collect();
        let sum = limits.filter(|limits| !limits.is_empty());
        sum.map_or(most, |limits| limits.into_iter().fold(0_u32, u32::saturating_add).min(most))
    }

    /// The places of its requests.
    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Whether nodes that register themselves are targets.
    pub(crate) fn takes_nodes(&self) -> Option<&config::Target> {
        self.model.targets.iter().find(|target| target.upstream == REGISTERED)
    }

    /// Whether targets come and go.
    pub(crate) fn has_changing_targets(&self) -> bool {
        !self.shared.is_empty() || self.takes_nodes().is_some()
    }

    /// Targets at the addresses that were discovered.
    pub(crate) fn discovered(&self, discovered: &Discovered) -> Vec<Arc<Target>> {
        let at = |(table, limit): &(config::Target, Option<u32>)| {
            let upstreams = discovered.of(&table.upstream).into_iter();
            upstreams.map(|upstream| self.node(upstream, table, *limit)).collect::<Vec<_>>()
        };
        self.shared.iter().flat_map(at).collect()
    }

    /// A target for a node that registered itself or was discovered.
    pub(crate) fn node(
        &self,
        upstream: Arc<Upstream>,
        table: &config::Target,
        max_in_flight: Option<u32>,
    ) -> Arc<Target> {
        Arc::new(Target {
            upstream,
            model: table.model.clone().unwrap_or_else(|| self.model.name.clone()),
            price: table.price,
            weight: table.weight,
            max_in_flight,
            fingerprint: Mutex::default(),
        })
    }

    /// The first name.
    pub(crate) fn name(&self) -> &str {
        &self.model.name
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.model.names()
    }

    /// The table of the configuration.
    pub(crate) fn model(&self) -> &config::Model {
        &self.model
    }

    /// Names of the models that answer when this one cannot.
    pub(crate) fn fallbacks(&self) -> &[String] {
        &self.model.fallbacks
    }

    /// Lowest label of its requests.
    pub(crate) fn label(&self) -> Option<Label> {
        self.model.label
    }

    /// What happens to a stream that breaks.
    pub(crate) fn on_cut(&self) -> OnCut {
        self.model.on_cut
    }

    /// Whether requests of a class may leave own machines because these are busy.
    pub(crate) fn may_leave(&self, class: config::Class) -> bool {
        self.overflows && class >= self.overflow_class
    }

    /// Chooses a target among those that are allowed, and counts the request there.
    ///
    /// # Errors
    /// Why none can take it.
    pub(crate) fn dispatch(
        self: &Arc<Route>,
        ask: &Ask<'_>,
        allowed: &dyn Fn(&Target) -> bool,
    ) -> Result<Flight, Refused> {
        let targets = self.targets();
        let is_allowed = |id: TargetId| targets.by_id.get(&id).is_some_and(|target| allowed(target));
        let ask = Ask { allowed: &is_allowed, ..*ask };
        let flight = self.router().dispatch(self.now(), &ask)?;
        let target = targets.by_id.get(&flight.target).cloned();
        let Some(target) = target else {
            self.router().finished(self.now(), flight, &Outcome::Cancelled);
            return Err(Refused::default());
        };
        let predicted_s = flight.completion_s;
        Ok(Flight { route: self.clone(), target, flight: Some(flight), predicted_s })
    }

    /// What each target looks like to a request.
    pub(crate) fn explain(&self, ask: &Ask<'_>, allowed: &dyn Fn(&Target) -> bool) -> Vec<Considered> {
        let targets = self.targets();
        let is_allowed = |id: TargetId| targets.by_id.get(&id).is_some_and(|target| allowed(target));
        let ask = Ask { allowed: &is_allowed, ..*ask };
        self.router().explain(self.now(), &ask)
    }

    /// Every target.
    pub(crate) fn all(&self) -> Vec<Arc<Target>> {
        self.targets().all.clone()
    }

    /// Takes a node's record of this model.
    pub(crate) fn observe(&self, upstream: &str, boot: &str, record: &wire::node::ModelRecord) {
        let targets = self.targets();
        for (id, target) in &targets.by_id {
            if target.upstream.name != upstream || !record.names.contains(&target.model) {
                continue;
            }
            target.set_fingerprint(record.fingerprint.as_deref());
            let steps = record.step_times.iter().map(|step| (step.rows as f64, step.ms / 1e3));
            let node = NodeRecord {
                boot: crate::hashing::hash(boot.as_bytes()),
                running: u32::try_from(record.load.running).unwrap_or(u32::MAX),
                waiting: u32::try_from(record.load.waiting).unwrap_or(u32::MAX),
                backlog_tokens: record.load.backlog_tokens,
                prompt_tokens_per_s: record.prompt_tokens_per_s,
                steps: routing::StepTimes::new(steps),
                slots: u32::try_from(record.slots).ok().filter(|slots| *slots > 0),
            };
            self.router().observe(self.now(), *id, &node);
        }
    }

    /// Takes the load that a node told with an answer.
    fn observe_load(&self, target: &Target, boot: &str, load: &wire::node::NodeLoad) {
        let targets = self.targets();
        let found = targets.by_id.iter().find(|(_, other)| std::ptr::eq(other.as_ref(), target));
        if let Some((id, _)) = found {
            let node = NodeRecord {
                boot: crate::hashing::hash(boot.as_bytes()),
                running: u32::try_from(load.running).unwrap_or(u32::MAX),
                waiting: u32::try_from(load.waiting).unwrap_or(u32::MAX),
                backlog_tokens: load.backlog_tokens,
                ..NodeRecord::default()
            };
            self.router().observe(self.now(), *id, &node);
        }
    }

    /// Requests under way at each target, and whether its breaker lets requests through.
    pub(crate) fn loads(&self) -> Vec<(Arc<Target>, u64, bool)> {
        let targets = self.targets();
        let status = self.router().status(self.now());
        let load = |(id, target): (&TargetId, &Arc<Target>)| {
            let status = status.iter().find(|status| status.target == *id);
            let available = status.is_some_and(|s| matches!(s.gate, Gate::Closed | Gate::ProbeDue));
            (target.clone(), status.map_or(0, |s| u64::from(s.in_flight)), available)
        };
        targets.by_id.iter().map(load).collect()
    }

    /// Each target with its state, and the time of the route's clock.
    pub(crate) fn states(&self) -> (Duration, Vec<(Arc<Target>, TargetStatus)>) {
        let (targets, now) = (self.targets(), self.now());
        let states = self.router().status(now);
        let state = |state: TargetStatus| Some((targets.by_id.get(&state.target)?.clone(), state));
        (now, states.into_iter().filter_map(state).collect())
    }
}

/// The router's settings for a model.
fn policy(model: &config::Model, config: &Config) -> routing::Policy {
    let method = match model.policy {
        Policy::ExpectedCompletion => Method::ExpectedCompletion,
        Policy::LeastConnections => Method::LeastConnections(MaxFails::default()),
        Policy::RoundRobin => Method::RoundRobin,
        Policy::Weighted => Method::Weighted,
        Policy::Sticky => Method::Sticky,
    };
    let level = model.slo.first_token.filter(|_| config.overflow.enabled);
    let overflow = level.map(|level| OverflowPolicy::for_level(level.0.as_secs_f64()));
    routing::Policy {
        method,
        overflow,
        has_fallback: !model.fallbacks.is_empty(),
        ..routing::Policy::default()
    }
}

/// A failure's word in metrics and receipts.
pub(crate) fn word(failure: Failure) -> &'static str {
    match failure {
        Failure::NotWritten => "not_written",
        Failure::Connect => "connect",
        Failure::Refused { .. } => "refused",
        Failure::Timeout(routing::Limit::FirstByte) => "timeout_first_byte",
        Failure::Timeout(routing::Limit::Idle) => "timeout_idle",
        Failure::Timeout(routing::Limit::Total) => "timeout_total",
        Failure::Reset => "reset",
        Failure::Status(400..=499) => "status_4xx",
        Failure::Status(_) => "status_5xx",
        Failure::ContentFilter => "content_filter",
        Failure::ContextLength => "context_length",
        Failure::MalformedStream => "malformed",
        Failure::Cut => "cut",
    }
}
