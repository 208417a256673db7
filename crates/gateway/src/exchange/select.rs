//! Which target is asked next: what the router chooses among those that label, tier and earlier attempts allow.

use std::sync::Arc;

use privacy::Permit;
use routing::Ask;

use super::pump::no_target;
use super::request::{Exchange, Refusal};
use crate::config::Tier;
use crate::route::{Flight, Route, Target};

impl Exchange {
    pub(super) fn ask<'a>(
        &'a self,
        route: &Route,
        allowed: &'a dyn Fn(routing::TargetId) -> bool,
    ) -> Ask<'a> {
        let asked = &self.asked;
        Ask {
            prompt_tokens: asked.prompt_tokens,
            max_tokens: asked.max_tokens,
            chain: &asked.chain,
            affinity: asked.affinity,
            class: asked.routing_class(),
            tenant: asked.tenant,
            allowed,
            may_leave: self.may_leave(route),
        }
    }

    /// Whether a request of this route may go to machines that are not own ones. Where there are no own ones, it goes
    /// where the configuration sends it.
    fn may_leave(&self, route: &Route) -> bool {
        let has_own = route.all().iter().any(|target| target.upstream.tier == Tier::Own);
        !has_own || route.may_leave(self.asked.class)
    }

    /// The permit of an attempt at a target: of the request as it is, or of the one without its findings.
    pub(super) fn permit(&self, target: &Target) -> Option<Permit> {
        let clearance = target.upstream.clearance;
        let asked = &self.asked;
        let redacted = || asked.redacted.as_ref().and_then(|redacted| redacted.label.permit(clearance));
        asked.label.permit(clearance).or_else(redacted)
    }

    /// Whether the label lets the request go to a target, and the target can be asked for it.
    pub(super) fn is_open(&self, target: &Target) -> bool {
        !self.shared.admin.is_drained(&target.upstream.name)
            && self.permit(target).is_some()
            && target.upstream.dialect(self.asked.api).is_some()
    }

    /// The next target: `again` if it is given, else the router's choice among those not tried.
    pub(crate) fn pick(
        &self,
        route: &Arc<Route>,
        tried: &[Arc<Target>],
        again: Option<&Target>,
    ) -> Result<(Flight, Permit), Refusal> {
        let everywhere = |_| true;
        let ask = self.ask(route, &everywhere);
        let chosen = route.dispatch(&ask, &|target| {
            self.is_open(target)
                && match again {
                    Some(again) => std::ptr::eq(target, again),
                    None => !tried.iter().any(|other| other.is(target)),
                }
        });
        let flight =
            chosen.map_err(|refused| self.why_none(route, &refused.to_string(), refused.retry_after))?;
        self.permitted(route, flight)
    }

    /// A target whose text would be the same as that of a broken one.
    pub(crate) fn pick_equal(
        &self,
        route: &Arc<Route>,
        broken: &Target,
    ) -> Result<(Flight, Permit), Refusal> {
        let fingerprint = broken.fingerprint();
        let everywhere = |_| true;
        let ask = self.ask(route, &everywhere);
        let chosen = route.dispatch(&ask, &|target| {
            self.is_open(target)
                && !target.is(broken)
                && fingerprint.is_some()
                && target.fingerprint() == fingerprint
        });
        let flight = chosen.map_err(|refused| self.why_none(route, &refused.to_string(), None))?;
        self.permitted(route, flight)
    }

    /// Another own target beside a slow one, if the share of such attempts allows it.
    pub(crate) fn pick_beside(&self, route: &Arc<Route>, slow: &Target) -> Result<(Flight, Permit), Refusal> {
        if !self.shared.hedges.take() {
            return Err(no_target(route.name(), "enough requests have a second attempt"));
        }
        let everywhere = |_| true;
        let ask = Ask { may_leave: false, ..self.ask(route, &everywhere) };
        let is_beside =
            |target: &Target| !target.is(slow) && target.upstream.tier == Tier::Own && self.is_open(target);
        let flight = route.dispatch(&ask, &is_beside);
        let flight = flight.map_err(|refused| self.why_none(route, &refused.to_string(), None))?;
        self.permitted(route, flight)
    }

    fn permitted(&self, route: &Route, flight: Flight) -> Result<(Flight, Permit), Refusal> {
        match self.permit(flight.target()) {
            Some(permit) => Ok((flight, permit)),
            None => Err(no_target(route.name(), "the request's label does not let it go there")),
        }
    }

    /// Whether there is another target that the request may go to.
    pub(crate) fn has_others(&self, route: &Route, tried: &[Arc<Target>], target: &Target) -> bool {
        let is_other = |other: &Arc<Target>| {
            !other.is(target) && !tried.iter().any(|known| known.is(other)) && self.is_open(other)
        };
        route.all().iter().any(is_other)
    }

    fn why_none(&self, route: &Route, refused: &str, after: Option<std::time::Duration>) -> Refusal {
        let all = route.all();
        let label = self.asked.label;
        if all.is_empty() {
            return no_target(route.name(), "no node has registered itself with it");
        }
        if all.iter().all(|target| self.permit(target).is_none()) {
            let message = format!(
                "the request's label is {label}, and no upstream of model {:?} is cleared for it",
                route.name()
            );
            let mut fault = wire::Fault::origin(message);
            fault.code = Some("label_not_permitted");
            return Refusal::Fault(fault);
        }
        if all.iter().all(|target| target.upstream.dialect(self.asked.api).is_none()) {
            let message = format!("no upstream of model {:?} answers {}", route.name(), self.asked.api.path);
            return Refusal::Fault(wire::Fault::unsupported("model", message));
        }
        let after =
            after.map_or(1, |after| u32::try_from(after.as_secs()).unwrap_or(u32::MAX).clamp(1, 3_600));
        let message = format!("no upstream of model {:?} can answer now: {refused}", route.name());
        Refusal::Fault(wire::Fault::unavailable("no_upstream", message, after))
    }
}
