//! Which way to serve: rules in order, each with the numbers that it goes by.
//!
//! Rules that forbid come first (data that may not leave, a level that cannot be kept, a budget), then the cheapest of what is left is
//! taken. Every rule says what it saw, so that a reader can disagree with it.

use serde::Serialize;

use crate::money::{Currency, Money};
use crate::plan::Sensitivity;

/// A way to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A commercial API.
    Api,
    /// One machine of ours, on its CPU.
    OneCpu,
    /// Several.
    CpuFleet,
    /// Ours for the base load, the API above it.
    Hybrid,
    /// Machines with a GPU.
    Gpu,
}

impl Way {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Api => "commercial API",
            Way::OneCpu => "one CPU machine",
            Way::CpuFleet => "several CPU machines",
            Way::Hybrid => "hybrid: own CPU machines, overflow to the API",
            Way::Gpu => "GPU machines",
        }
    }
}

/// What the rules go by. What nobody computed is none, and the way that it belongs to is left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// A month at the API.
    pub api: Option<Money>,
    /// Machines on CPU, and a month of them.
    pub cpu: Option<(u64, Money)>,
    /// Machines with a GPU, likewise.
    pub gpu: Option<(u64, Money)>,
    /// The cheapest level of a hybrid: machines, a month in all, share that overflows.
    pub hybrid: Option<(u64, Money, f64)>,
    /// Why CPUs cannot keep the service level; none if they can or none was asked.
    pub cpu_refused: Option<String>,
    /// Whether the data may leave.
    pub data: Option<Sensitivity>,
    /// Parameters of the model, 1e9.
    pub model_billions: Option<f64>,
    /// Most that a month may cost.
    pub budget_per_month: Option<Money>,
    /// The busiest hour over the average one.
    pub peak_to_mean: Option<f64>,
}

/// What one rule said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it looks at.
    pub rule: &'static str,
    /// What it saw and what follows.
    pub says: String,
}

/// A way with its cost, and why it is out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The way.
    pub way: Way,
    /// What a month costs.
    pub per_month: Money,
    /// Why it is not taken though it was computed; none if it may be.
    pub out: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// What to do; none if every way is out.
    pub recommended: Option<Way>,
    /// Every way that could be computed, the cheapest first.
    pub candidates: Vec<Candidate>,
    /// What the rules said, in order.
    pub findings: Vec<Finding>,
}

/// A model larger than this reads at a pace on CPUs that people do not wait for, unless a measurement says otherwise: at
/// 4.5 bits a weight, 14 B are 8 GB a token.
const LARGE_BILLIONS: f64 = 14.0;
/// A way within this share of the cheapest is as cheap: inputs are not known better.
const ALIKE: f64 = 0.05;

/// Applies the rules.
#[must_use]
pub fn choose(facts: &Facts, currency: Currency) -> Choice {
    let mut candidates = candidates(facts);
    let mut findings = Vec::new();
    let mut say = |rule, says: String| findings.push(Finding { rule, says });
    data_rule(facts, &mut candidates, &mut say);
    latency_rule(facts, &mut candidates, &mut say);
    size_rule(facts, &mut say);
    peak_rule(facts, &mut say);
    budget_rule(facts, currency, &mut candidates, &mut say);
    candidates.sort_by_key(|candidate| candidate.per_month);
    let recommended = cost_rule(&candidates, currency, &mut say);
    Choice { recommended, candidates, findings }
}

fn candidates(facts: &Facts) -> Vec<Candidate> {
    let of = |way, per_month| Candidate { way, per_month, out: None };
    let cpu =
        facts.cpu.map(|(machines, month)| of(if machines <= 1 { Way::OneCpu } else { Way::CpuFleet }, month));
    // A hybrid without machines is the API, one without overflow the fleet.
    let hybrid = facts.hybrid.filter(|(machines, _, over)| *machines > 0 && *over > 0.0);
    [
        facts.api.map(|month| of(Way::Api, month)),
        cpu,
        hybrid.map(|(_, month, _)| of(Way::Hybrid, month)),
        facts.gpu.map(|(_, month)| of(Way::Gpu, month)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn rule_out(candidates: &mut [Candidate], ways: &[Way], why: &str) {
    for candidate in candidates.iter_mut().filter(|c| ways.contains(&c.way) && c.out.is_none()) {
        candidate.out = Some(why.to_owned());
    }
}

fn data_rule(facts: &Facts, candidates: &mut [Candidate], say: &mut impl FnMut(&'static str, String)) {
    let says = match facts.data {
        Some(Sensitivity::Secret) => {
            rule_out(candidates, &[Way::Api, Way::Hybrid], "the data may not leave");
            "secret: what sends requests to an API is out, overflow included"
        }
        Some(Sensitivity::Internal) => "internal: an API needs a contract on what is kept and where",
        Some(Sensitivity::Public) => "public: nothing is out",
        None => "not said (choose.data): taken as public; `secret` would leave out the API and the hybrid",
    };
    say("data", says.to_owned());
}

fn latency_rule(facts: &Facts, candidates: &mut [Candidate], say: &mut impl FnMut(&'static str, String)) {
    if let Some(why) = &facts.cpu_refused {
        rule_out(candidates, &[Way::OneCpu, Way::CpuFleet, Way::Hybrid], "the service level is not kept");
        say("latency", format!("CPUs are out: {why}"));
    }
}

fn size_rule(facts: &Facts, say: &mut impl FnMut(&'static str, String)) {
    let Some(billions) = facts.model_billions else { return };
    let says = if billions > LARGE_BILLIONS {
        format!(
            "{billions} B is above {LARGE_BILLIONS} B: measure tokens/s of a CPU machine before going by its cost"
        )
    } else {
        format!("{billions} B is within what a CPU machine reads at a pace that people wait for")
    };
    say("model size", says);
}

fn peak_rule(facts: &Facts, say: &mut impl FnMut(&'static str, String)) {
    let Some(peak) = facts.peak_to_mean else { return };
    let over = facts.hybrid.map(|(machines, _, over)| {
        let plural = if machines == 1 { "machine" } else { "machines" };
        format!("; cheapest with {machines} {plural} of our own and {:.1} % elsewhere", over * 100.0)
    });
    let shape =
        if peak > 2.0 { "peaked: machines for the peak stand idle" } else { "even: machines are used" };
    say(
        "predictability",
        format!("busiest hour {peak:.1} x the average, {shape}{}", over.unwrap_or_default()),
    );
}

fn budget_rule(
    facts: &Facts,
    currency: Currency,
    candidates: &mut [Candidate],
    say: &mut impl FnMut(&'static str, String),
) {
    let Some(budget) = facts.budget_per_month else { return };
    for candidate in candidates.iter_mut().filter(|c| c.out.is_none() && c.per_month > budget) {
        let excess = currency.show(candidate.per_month - budget);
        candidate.out = Some(format!("above the budget by {excess}"));
    }
    say("budget", format!("at most {} a month", currency.show(budget)));
}

fn cost_rule(
    candidates: &[Candidate],
    currency: Currency,
    say: &mut impl FnMut(&'static str, String),
) -> Option<Way> {
    let within: Vec<&Candidate> = candidates.iter().filter(|c| c.out.is_none()).collect();
    let Some(best) = within.first() else {
        say("cost", "no way is left".to_owned());
        return None;
    };
    let mut says = format!("{} is cheapest at {} a month", best.way.name(), currency.show(best.per_month));
    if let Some(next) = within.get(1) {
        let alike = best.per_month.value() >= next.per_month.value() * (1.0 - ALIKE);
        let more = currency.show(next.per_month - best.per_month);
        says.push_str(&format!("; next is {}, {more} more", next.way.name()));
        if alike {
            says.push_str(", which is within what the inputs are known to: either will do");
        }
    }
    say("cost", says);
    Some(best.way)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            api: Some(Money::of(600.0)),
            cpu: Some((2, Money::of(1_153.40))),
            gpu: Some((1, Money::of(511.0))),
            hybrid: Some((1, Money::of(580.0), 0.02)),
            ..Facts::default()
        }
    }

    fn recommended(facts: &Facts) -> Option<Way> {
        choose(facts, Currency::USD).recommended
    }

    #[test]
    fn the_cheapest_is_taken_and_rules_take_away() {
        assert_eq!(recommended(&facts()), Some(Way::Gpu));
        let no_gpu = Facts { gpu: None, ..facts() };
        assert_eq!(recommended(&no_gpu), Some(Way::Hybrid));
        let secret = Facts { data: Some(Sensitivity::Secret), ..no_gpu.clone() };
        assert_eq!(recommended(&secret), Some(Way::CpuFleet));
        let slow = Facts { cpu_refused: Some("too slow".to_owned()), ..no_gpu.clone() };
        assert_eq!(recommended(&slow), Some(Way::Api));
        let poor = Facts { budget_per_month: Some(Money::of(100.0)), ..no_gpu };
        assert_eq!(recommended(&poor), None);
        assert_eq!(recommended(&Facts::default()), None);
    }

    #[test]
    fn a_hybrid_without_overflow_is_no_hybrid() {
        let all_own = Facts {
            hybrid: Some((1, Money::of(10.0), 0.0)),
            cpu: Some((1, Money::of(10.0))),
            ..Facts::default()
        };
        assert_eq!(recommended(&all_own), Some(Way::OneCpu));
    }

    #[test]
    fn reasons_have_the_numbers() {
        let facts = Facts { budget_per_month: Some(Money::of(590.0)), peak_to_mean: Some(3.25), ..facts() };
        let choice = choose(&facts, Currency::USD);
        let all: Vec<&str> = choice.findings.iter().map(|f| f.says.as_str()).collect();
        let all = all.join("\n");
        for part in
            ["busiest hour 3.2 x", "2.0 % elsewhere", "590.00 USD a month", "511.00 USD", "69.00 USD more"]
        {
            assert!(all.contains(part), "{part}: {all}");
        }
        let api = choice.candidates.iter().find(|c| c.way == Way::Api).unwrap();
        assert_eq!(api.out.as_deref(), Some("above the budget by 10.00 USD"));
    }
}
