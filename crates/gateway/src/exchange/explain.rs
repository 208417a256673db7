//! Where a request would go: what the router says of each target, by the code that dispatches, without dispatching.

use std::sync::Arc;

use routing::retry;

use super::request::Exchange;
use crate::route::{Route, Target};

/// A target as it looks to a request.
pub(crate) struct Considered {
    pub(crate) target: Arc<Target>,
    pub(crate) wait_s: f64,
    pub(crate) prefill_s: f64,
    pub(crate) decode_s: f64,
    /// Prompt tokens that its cache is expected to hold.
    pub(crate) cached: u64,
    /// Expected price in nano units.
    pub(crate) price: Option<u64>,
    pub(crate) chosen: bool,
    /// What was decided, and why.
    pub(crate) verdict: String,
}

/// Where a request would go.
pub(crate) struct Explained {
    /// The models in the order in which they are asked, each with its targets.
    pub(crate) models: Vec<(Arc<Route>, Vec<Considered>)>,
    /// What follows a failed attempt, as a Markdown table.
    pub(crate) retries: String,
}

impl Exchange {
    /// What would be asked, model by model; nothing is counted or kept of it.
    pub(crate) fn explain(mut self) -> Explained {
        self.explained = true;
        let models = self.models();
        let told = models.into_iter().enumerate().map(|(place, route)| {
            let considered =
                if place == 0 || self.may_use(&route) { self.considered(&route) } else { Vec::new() };
            (route, considered)
        });
        Explained { models: told.collect(), retries: retry::table(&self.snapshot.retry_policy()) }
    }

    /// The request, for what is told of it.
    pub(crate) fn asked(&self) -> &crate::asked::Asked {
        &self.asked
    }

    fn considered(&self, route: &Route) -> Vec<Considered> {
        let everywhere = |_| true;
        let ask = self.ask(route, &everywhere);
        let all = route.all();
        let seen = route.explain(&ask, &|target| self.is_open(target));
        let tell = |seen: routing::Considered| {
            let target = all.iter().find(|target| target.key() == seen.name)?.clone();
            let verdict = self.closed(&target).unwrap_or_else(|| seen.verdict.to_string());
            Some(Considered {
                wait_s: seen.wait_s,
                prefill_s: seen.prefill_s,
                decode_s: seen.decode_s,
                cached: seen.cached,
                price: seen.price,
                chosen: matches!(seen.verdict, routing::Verdict::Chosen(_)),
                verdict,
                target,
            })
        };
        seen.into_iter().filter_map(tell).collect()
    }

    /// Why a target is not open to the request, if it is not.
    fn closed(&self, target: &Target) -> Option<String> {
        let upstream = &target.upstream;
        if self.permit(target).is_none() {
            let (label, clearance) = (self.asked.label, upstream.clearance.0);
            return Some(format!("the label is {label}, and the upstream's clearance {clearance}"));
        }
        if upstream.dialect(self.asked.api).is_none() {
            return Some(format!("does not answer {}", self.asked.api.path));
        }
        self.shared.admin.is_drained(&target.upstream.name).then(|| "drained by an administrator".to_owned())
    }
}
