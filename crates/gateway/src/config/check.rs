//! What makes a configuration unusable, found before any of it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Budget, Config, Kind, Model, Tier};

/// A fault of a configuration: where it is, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The table and its name: `model "chat"`.
    pub place: String,
    /// What is wrong, with the value.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Most tables of one kind.
const MOST: usize = 1_024;
/// Longest name.
const NAME_BYTES: usize = 128;
/// The target that stands for registered nodes.
pub(crate) const REGISTERED: &str = "*";

struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { place: place.into(), message: message.into() });
    }
}

impl Config {
    /// Everything that is wrong; empty if it can be used.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Problems(Vec::new());
        self.check_names(&mut problems);
        self.check_upstreams(&mut problems);
        self.check_models(&mut problems);
        self.check_fallbacks(&mut problems);
        self.check_keys(&mut problems);
        self.check_money(&mut problems);
        self.check_numbers(&mut problems);
        problems.0
    }

    fn check_names(&self, problems: &mut Problems) {
        for (table, names) in [
            ("upstream", self.upstreams.iter().map(|u| u.name.as_str()).collect::<Vec<_>>()),
            ("model", self.models.iter().flat_map(Model::names).collect()),
            ("key", self.keys.iter().map(|k| k.name.as_str()).collect()),
            ("team", self.teams.iter().map(|t| t.name.as_str()).collect()),
        ] {
            if names.len() > MOST {
                problems.add(table, format!("there are {}; at most {MOST} are allowed", names.len()));
            }
            let mut seen = BTreeSet::new();
            for name in names {
                let place = format!("{table} {name:?}");
                if !is_name(name) {
                    let allowed = "letters, digits and - _ . @ / : +";
                    problems.add(&place, format!("a name has 1 to {NAME_BYTES} of: {allowed}"));
                }
                if !seen.insert(name) {
                    problems.add(&place, "the name is used twice");
                }
            }
        }
        if self.models.is_empty() {
            problems.add("model", "there is none: clients can ask for nothing");
        }
    }

    fn check_upstreams(&self, problems: &mut Problems) {
        let used: BTreeSet<&str> =
            self.models.iter().flat_map(|m| &m.targets).map(|t| t.upstream.as_str()).collect();
        for upstream in &self.upstreams {
            let place = format!("upstream {:?}", upstream.name);
            if let Err(message) = crate::address::Address::parse(&upstream.url) {
                problems.add(&place, format!("url {:?} {message}", upstream.url));
            }
            if upstream.key_env.is_some() && upstream.key_file.is_some() {
                problems.add(&place, "has both key_env and key_file; give one");
            }
            if upstream.kind == Kind::Azure && upstream.api_version.is_none() {
                problems.add(&place, "kind azure needs api_version, such as \"2024-10-21\"");
            }
            if upstream.kind != Kind::Azure && upstream.api_version.is_some() {
                problems.add(&place, "api_version has no effect but for kind azure");
            }
            if upstream.responses && upstream.kind != Kind::OpenAi {
                problems.add(&place, "responses has no effect but for kind openai");
            }
            let address = crate::address::Address::parse(&upstream.url);
            if upstream.discover.is_some()
                && address.is_ok_and(|address| address.host.parse::<std::net::IpAddr>().is_ok())
            {
                problems.add(&place, "discover needs the name of a host, and the url has an address");
            }
            if upstream.max_in_flight == Some(0) {
                problems.add(&place, "max_in_flight is 0; it would never be asked");
            }
            if !used.contains(upstream.name.as_str()) {
                problems.add(&place, "no model has it as a target");
            }
            let times = upstream.timeouts;
            for (name, time) in [
                ("connect", times.connect),
                ("first_byte", times.first_byte),
                ("idle", times.idle),
                ("total", times.total),
            ] {
                if time.0.is_zero() {
                    problems.add(&place, format!("timeouts.{name} is 0"));
                }
            }
            for name in upstream.headers.keys() {
                if axum::http::HeaderName::try_from(name.as_str()).is_err() {
                    problems.add(&place, format!("header {name:?} is no name of a header"));
                }
            }
        }
    }

    fn check_models(&self, problems: &mut Problems) {
        let upstreams: BTreeSet<&str> = self.upstreams.iter().map(|u| u.name.as_str()).collect();
        for model in &self.models {
            let place = format!("model {:?}", model.name);
            if model.targets.is_empty() {
                problems.add(&place, "has no targets");
            }
            let mut seen = BTreeSet::new();
            for target in &model.targets {
                if target.upstream == REGISTERED {
                    if self.gateway.nodes_key_file.is_none() {
                        problems.add(
                            &place,
                            "upstream \"*\" needs gateway.nodes_key_file, with which nodes register",
                        );
                    }
                } else if !upstreams.contains(target.upstream.as_str()) {
                    let known = listed(&upstreams);
                    problems
                        .add(&place, format!("upstream {:?} is not there; known: {known}", target.upstream));
                }
                if !seen.insert((&target.upstream, &target.model)) {
                    problems.add(&place, format!("upstream {:?} is a target twice", target.upstream));
                }
                if target.weight == 0 {
                    problems.add(&place, format!("the weight of {:?} is 0", target.upstream));
                }
            }
            if let Some(cascade) = &model.cascade {
                let larger = self.models.iter().find(|other| other.has_name(&cascade.larger));
                if larger.is_none() {
                    problems.add(&place, format!("cascade.larger {:?} is no model", cascade.larger));
                }
                if larger.is_some_and(|other| other.cascade.is_some() || other.name == model.name) {
                    problems.add(&place, "cascade.larger has a cascade itself; one step is allowed");
                }
                for message in cascade.problems() {
                    problems.add(&place, message);
                }
            }
        }
    }

    fn check_fallbacks(&self, problems: &mut Problems) {
        let by_name: BTreeMap<&str, &Model> =
            self.models.iter().flat_map(|model| model.names().map(move |name| (name, model))).collect();
        for model in &self.models {
            let place = format!("model {:?}", model.name);
            for name in &model.fallbacks {
                if !by_name.contains_key(name.as_str()) {
                    problems.add(&place, format!("fallback {name:?} is no model"));
                }
            }
            // Whoever comes back to where the walk began is on a cycle.
            let mut path = vec![model.name.as_str()];
            if let Some(cycle) = cycle(&by_name, model, &mut path, model) {
                problems.add(&place, format!("its fallbacks lead back to it: {}", cycle.join(" → ")));
            }
        }
    }

    fn check_keys(&self, problems: &mut Problems) {
        let teams: BTreeSet<&str> = self.teams.iter().map(|team| team.name.as_str()).collect();
        let members: BTreeSet<&str> = self.keys.iter().filter_map(|key| key.team.as_deref()).collect();
        for key in &self.keys {
            let place = format!("key {:?}", key.name);
            match (&key.env, &key.file) {
                (None, None) => problems.add(&place, "needs env or file, where the key is"),
                (Some(_), Some(_)) => problems.add(&place, "has both env and file; give one"),
                _ => {}
            }
            if let Some(team) = key.team.as_deref().filter(|team| !teams.contains(team)) {
                problems.add(&place, format!("team {team:?} is not there; known: {}", listed(&teams)));
            }
            for name in key.models.iter().flatten() {
                if !self.models.iter().any(|model| model.has_name(name)) {
                    problems.add(&place, format!("model {name:?} is not there"));
                }
            }
        }
        for team in teams.difference(&members) {
            problems.add(format!("team {team:?}"), "no key belongs to it");
        }
        if self.keys.is_empty() {
            return;
        }
        if !self.keys.iter().any(|key| key.admin) {
            // Not an error: the page and reports stay closed.
            tracing::debug!("no key is an admin's");
        }
    }

    /// All caps with the place where they stand.
    fn caps(&self) -> impl Iterator<Item = (String, &Budget)> {
        let keys =
            self.keys.iter().flat_map(|k| k.budgets.iter().map(move |b| (format!("key {:?}", k.name), b)));
        let teams =
            self.teams.iter().flat_map(|t| t.budgets.iter().map(move |b| (format!("team {:?}", t.name), b)));
        let models = self
            .models
            .iter()
            .flat_map(|m| m.budgets.iter().map(move |b| (format!("model {:?}", m.name), b)));
        keys.chain(teams).chain(models).chain(self.budgets.iter().map(|b| ("budget".to_owned(), b)))
    }

    fn check_money(&self, problems: &mut Problems) {
        let mut money = false;
        let mut any = false;
        for (place, budget) in self.caps() {
            any = true;
            money |= budget.money.is_some();
            if budget.money.is_none() && budget.tokens.is_none() && budget.requests.is_none() {
                problems.add(place, "a budget caps nothing: give money, tokens or requests");
            }
        }
        if any && self.store.is_none() {
            problems.add(
                "budget",
                "budgets need [store] with sqlite or postgres: they would be lost with the process",
            );
        }
        if let Some(store) = &self.store {
            match (&store.sqlite, &store.postgres) {
                (None, None) => problems.add("store", "needs sqlite or postgres"),
                (Some(_), Some(_)) => problems.add("store", "has both sqlite and postgres; give one"),
                (None, Some(_)) if store.replica.is_none() => {
                    problems.add("store", "postgres needs replica, this replica's name");
                }
                _ => {}
            }
        }
        if !money {
            return;
        }
        let metered: BTreeSet<&str> =
            self.upstreams.iter().filter(|u| u.tier() != Tier::Own).map(|u| u.name.as_str()).collect();
        for model in &self.models {
            for target in &model.targets {
                if target.price.is_none() && metered.contains(target.upstream.as_str()) {
                    let message = format!(
                        "target {:?} has no price, and money is capped: what it costs would not be counted",
                        target.upstream
                    );
                    problems.add(format!("model {:?}", model.name), message);
                }
            }
        }
    }

    fn check_numbers(&self, problems: &mut Problems) {
        if !(1..=8).contains(&self.retry.attempts) {
            problems.add("retry", format!("attempts is {}; it must be 1 to 8", self.retry.attempts));
        }
        let shares = [
            ("retry.budget", self.retry.budget),
            ("hedge.share", self.hedge.share),
            ("admission.reserved", self.admission.reserved),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                problems.add(name, format!("is {share}; it must be 0 to 1"));
            }
        }
        if self.admission.running == 0 {
            problems.add("admission", "running is 0; nothing would be served");
        }
        if self.gateway.listen.parse::<std::net::SocketAddr>().is_err() {
            let message =
                format!("listen is {:?}; write an address and a port: 127.0.0.1:8090", self.gateway.listen);
            problems.add("gateway", message);
        }
        if !(1_024..=wire::limits::BODY_BYTES).contains(&self.gateway.body_bytes) {
            let most = wire::limits::BODY_BYTES;
            problems.add(
                "gateway",
                format!("body_bytes is {}; it must be 1024 to {most}", self.gateway.body_bytes),
            );
        }
    }
}

impl Model {
    /// The name and its aliases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    fn has_name(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }
}

/// The path back to `start`, if the fallbacks of `at` lead there. Paths are cut where a model comes twice.
fn cycle<'a>(
    by_name: &BTreeMap<&'a str, &'a Model>,
    start: &'a Model,
    path: &mut Vec<&'a str>,
    at: &'a Model,
) -> Option<Vec<&'a str>> {
    for name in &at.fallbacks {
        let Some(next) = by_name.get(name.as_str()) else { continue };
        if next.name == start.name {
            path.push(&start.name);
            return Some(path.clone());
        }
        if path.contains(&next.name.as_str()) {
            continue;
        }
        path.push(&next.name);
        if let Some(found) = cycle(by_name, start, path, next) {
            return Some(found);
        }
        // Left on the path: what was looked at from here once does not lead back.
    }
    None
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@/:+".contains(&b))
}

fn listed(names: &BTreeSet<&str>) -> String {
    const SHOWN: usize = 16;
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    if text.is_empty() { "none".to_owned() } else { text }
}
