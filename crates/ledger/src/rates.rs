//! Rate limits: requests and tokens a minute, and requests at a time, per key, team, model or all. Pure: the time is an
//! argument, and nothing waits.
//!
//! Requests and tokens are held by the generic cell rate algorithm (GCRA, ITU-T I.371, in the form of a virtual
//! schedule): one number for each limit, the *theoretical arrival time* at which the bucket would be empty again. Numbers
//! are in nanoseconds times the limit, so that nothing is rounded. Tokens are debited by an estimate and corrected by the
//! usage.
//!
//! Each replica has its own: limits hold per replica, and are divided by the number of replicas in its configuration.

use crate::bucket::{MAX_CAPS, MAX_NAME_BYTES, Scope, Subjects};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Nanoseconds of the minute that limits are by.
const MINUTE: i128 = 60_000_000_000;

/// Limits of a subject; absent ones do not limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// The kind of subject.
    pub scope: Scope,
    /// The subject's name; empty for all requests.
    pub name: String,
    /// Requests a minute; a whole minute's may come at once.
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and answers a minute; a whole minute's may come at once.
    pub tokens_per_minute: Option<u64>,
    /// Requests at a time.
    pub concurrent: Option<u32>,
}

/// What a rate limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// Requests a minute.
    Requests,
    /// Tokens a minute.
    Tokens,
    /// Requests at a time.
    Concurrent,
}

impl RateUnit {
    fn words(self) -> &'static str {
        match self {
            RateUnit::Requests => "requests a minute",
            RateUnit::Tokens => "tokens a minute",
            RateUnit::Concurrent => "requests at a time",
        }
    }
}

/// A limit that a request exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The kind of subject.
    pub scope: Scope,
    /// The subject's name.
    pub name: String,
    /// What is limited.
    pub unit: RateUnit,
    /// The limit.
    pub limit: u64,
    /// When the request would pass, in nanoseconds from now; `None` if it waits for another to end, or never passes.
    pub retry_after_ns: Option<u64>,
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limited { scope, name, unit, limit, .. } = self;
        match scope {
            Scope::Everything => write!(f, "rate limit: {limit} {} for all requests", unit.words())?,
            _ => write!(f, "rate limit: {limit} {} for {} `{name}`", unit.words(), scope.word())?,
        }
        match (self.retry_after_ns, unit) {
            (Some(ns), _) => write!(f, "; the next is possible in {} s", ns.div_ceil(1_000_000_000)),
            (None, RateUnit::Concurrent) => f.write_str("; the next is possible when another ends"),
            (None, _) => f.write_str("; this request alone has more"),
        }
    }
}

impl std::error::Error for Limited {}

/// The state of one limit by GCRA. Times and costs are in nanoseconds times the limit.
#[derive(Clone, Copy, Debug)]
struct Gcra {
    limit: u64,
    arrival: i128,
}

impl Gcra {
    fn new(limit: u64) -> Gcra {
        Gcra { limit, arrival: 0 }
    }

    fn time(&self, now_ns: u64) -> i128 {
        i128::from(now_ns) * i128::from(self.limit)
    }

    /// How long until `count` pass, in nanoseconds; `None` if they never do.
    fn wait(&self, now_ns: u64, count: u64) -> Option<u64> {
        if count > self.limit {
            return None;
        }
        let now = self.time(now_ns);
        let after = self.arrival.max(now) + i128::from(count) * MINUTE;
        let excess = after - now - i128::from(self.limit) * MINUTE;
        let wait = (excess + i128::from(self.limit) - 1).div_euclid(i128::from(self.limit.max(1)));
        Some(u64::try_from(wait.max(0)).unwrap_or(u64::MAX))
    }

    fn take(&mut self, now_ns: u64, count: u64) {
        self.arrival = self.arrival.max(self.time(now_ns)) + i128::from(count) * MINUTE;
    }

    /// Replaces an estimate by what it was. More than was estimated delays the next ones, for an hour at most.
    fn correct(&mut self, now_ns: u64, estimate: u64, actual: u64) {
        self.arrival += (i128::from(actual) - i128::from(estimate)) * MINUTE;
        self.arrival = self.arrival.min(self.time(now_ns) + 60 * MINUTE * i128::from(self.limit));
    }
}

#[derive(Debug)]
struct Entry {
    limit: RateLimit,
    requests: Option<Gcra>,
    tokens: Option<Gcra>,
    running: u32,
}

/// The reason why rate limits cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit of {} `{name}` {reason}", scope.word())]
pub struct RateLimitError {
    scope: Scope,
    name: String,
    reason: &'static str,
}

/// The rate limits of a replica.
#[derive(Debug, Default)]
pub struct Rates {
    /// By scope, in the order of [`Scope::ALL`], and name.
    entries: [HashMap<String, Entry>; 4],
}

/// A request that was let through: to be handed back when it ends.
#[derive(Debug)]
#[must_use = "a request that is not handed back counts as running"]
pub struct RateHold {
    /// The subjects with limits, by scope.
    names: [Option<String>; 4],
    estimate: u64,
}

impl Rates {
    /// Limits, each full at first.
    ///
    /// # Errors
    /// As [`set_limits`](Self::set_limits).
    pub fn new(limits: &[RateLimit]) -> Result<Rates, RateLimitError> {
        let mut rates = Rates::default();
        rates.set_limits(limits)?;
        Ok(rates)
    }

    /// Replaces the limits. Where a subject had limits before, its counts go on.
    ///
    /// # Errors
    /// If there are too many, or one is named twice, has no name or too long a one.
    pub fn set_limits(&mut self, limits: &[RateLimit]) -> Result<(), RateLimitError> {
        let mut entries: [HashMap<String, Entry>; 4] = Default::default();
        for limit in limits {
            let error = |reason| RateLimitError { scope: limit.scope, name: limit.name.clone(), reason };
            if limits.len() > MAX_CAPS {
                return Err(error("is one of more than 65536"));
            }
            if (limit.scope == Scope::Everything) != limit.name.is_empty() {
                return Err(error("has no name, or is of all requests and has one"));
            }
            if limit.name.len() > MAX_NAME_BYTES {
                return Err(error("has a name of more than 256 bytes"));
            }
            let old = self.entries[limit.scope as usize].get(&limit.name);
            let keep = |new: Option<u64>, old: Option<Gcra>| {
                let limit = new?;
                // Another limit has other units: the bucket begins full.
                Some(old.filter(|old| old.limit == limit).unwrap_or_else(|| Gcra::new(limit)))
            };
            let entry = Entry {
                requests: keep(limit.requests_per_minute.map(u64::from), old.and_then(|old| old.requests)),
                tokens: keep(limit.tokens_per_minute, old.and_then(|old| old.tokens)),
                running: old.map_or(0, |old| old.running),
                limit: limit.clone(),
            };
            if entries[limit.scope as usize].insert(limit.name.clone(), entry).is_some() {
                return Err(error("is there twice"));
            }
        }
        // Running requests of subjects without limits are not counted: when they are handed back, nothing is there.
        self.entries = entries;
        Ok(())
    }

    /// Lets a request through or not, at `now_ns` in nanoseconds since any start. All limits take it, or none.
    ///
    /// # Errors
    /// The first limit that it exceeds, in the order key, team, model, all.
    pub fn acquire(
        &mut self,
        now_ns: u64,
        subjects: Subjects<'_>,
        token_estimate: u64,
    ) -> Result<RateHold, Limited> {
        let names = [Some(subjects.key), subjects.team, Some(subjects.model), Some("")];
        for (entries, name) in self.entries.iter().zip(names) {
            if let Some(entry) = name.and_then(|name| entries.get(name)) {
                entry.check(now_ns, token_estimate)?;
            }
        }
        let mut hold = RateHold { names: [None, None, None, None], estimate: token_estimate };
        for ((entries, name), held) in self.entries.iter_mut().zip(names).zip(&mut hold.names) {
            let Some(entry) = name.and_then(|name| entries.get_mut(name)) else { continue };
            entry.running += 1;
            entry.requests.iter_mut().for_each(|gcra| gcra.take(now_ns, 1));
            entry.tokens.iter_mut().for_each(|gcra| gcra.take(now_ns, token_estimate));
            *held = name.map(str::to_owned);
        }
        Ok(hold)
    }

    /// Ends a request that used so many tokens; `None` keeps the estimate, where nothing better is known.
    pub fn release(&mut self, now_ns: u64, hold: RateHold, tokens: Option<u64>) {
        for (entries, name) in self.entries.iter_mut().zip(&hold.names) {
            let Some(entry) = name.as_ref().and_then(|name| entries.get_mut(name)) else { continue };
            entry.running = entry.running.saturating_sub(1);
            if let (Some(gcra), Some(actual)) = (&mut entry.tokens, tokens) {
                gcra.correct(now_ns, hold.estimate, actual);
            }
        }
    }
}

impl Entry {
    fn check(&self, now_ns: u64, tokens: u64) -> Result<(), Limited> {
        let limited = |unit, limit, retry_after_ns| {
            let RateLimit { scope, name, .. } = &self.limit;
            Err(Limited { scope: *scope, name: name.clone(), unit, limit, retry_after_ns })
        };
        if let Some(most) = self.limit.concurrent.filter(|most| self.running >= *most) {
            return limited(RateUnit::Concurrent, u64::from(most), None);
        }
        for (gcra, count, unit) in
            [(&self.requests, 1, RateUnit::Requests), (&self.tokens, tokens, RateUnit::Tokens)]
        {
            let Some(gcra) = gcra else { continue };
            match gcra.wait(now_ns, count) {
                Some(0) => {}
                wait => return limited(unit, gcra.limit, wait),
            }
        }
        Ok(())
    }
}
