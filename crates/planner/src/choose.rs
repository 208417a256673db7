//! The recommended way to serve: rules applied in order, each with the numbers that it uses.
//!
//! Rules that exclude come first (data that must not leave, a service level that cannot be kept, a budget). Then the
//! cheapest remaining option is recommended. Each rule reports its inputs, so that a reader can disagree with it.

use serde::Serialize;

use crate::money::{Currency, Money};
use crate::plan::Sensitivity;

/// A way to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServingOption {
    /// A commercial API.
    Api,
    /// One own machine, on its CPU.
    OneCpu,
    /// Several own machines, on their CPUs.
    CpuFleet,
    /// Own CPU machines for the base load, the API for the overflow.
    Hybrid,
    /// Machines with a GPU.
    Gpu,
}

impl ServingOption {
    /// The option's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ServingOption::Api => "commercial API",
            ServingOption::OneCpu => "one CPU machine",
            ServingOption::CpuFleet => "several CPU machines",
            ServingOption::Hybrid => "hybrid: own CPU machines, overflow to the API",
            ServingOption::Gpu => "GPU machines",
        }
    }
}

/// The inputs of the rules. An option whose price is none is not considered.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// Price of the API, a month.
    pub api: Option<Money>,
    /// CPU machines: their number, and their price a month.
    pub cpu: Option<(u64, Money)>,
    /// GPU machines: their number, and their price a month.
    pub gpu: Option<(u64, Money)>,
    /// The cheapest hybrid: own machines, total price a month, share of requests that overflow.
    pub hybrid: Option<(u64, Money, f64)>,
    /// Why CPUs cannot keep the service level; none if they can, or without a service level.
    pub cpu_refused: Option<String>,
    /// Whether the data may leave the own machines.
    pub data: Option<Sensitivity>,
    /// Parameters of the model, in 1e9.
    pub model_billions: Option<f64>,
    /// Upper bound of the price a month.
    pub budget_per_month: Option<Money>,
    /// Requests of the busiest hour over those of the average hour.
    pub peak_to_mean: Option<f64>,
}

/// The result of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// The rule's inputs and conclusion, in words.
    pub says: String,
}

/// A serving option with its price, and why it is excluded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The serving option.
    pub way: ServingOption,
    /// Price of a month.
    pub per_month: Money,
    /// Why the option is excluded; none if it is not.
    pub out: Option<String>,
}

/// The recommendation, with the options and rules it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The recommended option; none if all are excluded.
    pub recommended: Option<ServingOption>,
    /// Every option with a price, the cheapest first.
    pub candidates: Vec<Candidate>,
    /// The results of the rules, in their order.
    pub findings: Vec<Finding>,
}

/// The largest model, in 1e9 parameters, that a CPU is expected to run at reading speed without a measurement: at 4.5
/// bits a weight, 14 B are 8 GB of reads a token.
const MAX_CPU_BILLIONS: f64 = 14.0;
/// Prices that differ by less than this share are a tie: the inputs are not known better.
const TIE_SHARE: f64 = 0.05;

/// Applies the rules to `facts`.
#[must_use]
pub fn choose(facts: &Facts, currency: Currency) -> Choice {
    let mut candidates = candidates(facts);
    let mut findings = Vec::new();
    let mut report = |rule, says: String| findings.push(Finding { rule, says });
    data_rule(facts, &mut candidates, &mut report);
    latency_rule(facts, &mut candidates, &mut report);
    size_rule(facts, &mut report);
    peak_rule(facts, &mut report);
    budget_rule(facts, currency, &mut candidates, &mut report);
    candidates.sort_by_key(|candidate| candidate.per_month);
    let recommended = cost_rule(&candidates, currency, &mut report);
    Choice { recommended, candidates, findings }
}

fn candidates(facts: &Facts) -> Vec<Candidate> {
    let of = |way, per_month| Candidate { way, per_month, out: None };
    let cpu = facts.cpu.map(|(machines, month)| {
        of(if machines <= 1 { ServingOption::OneCpu } else { ServingOption::CpuFleet }, month)
    });
    // A hybrid without machines is the API, one without overflow the fleet.
    let hybrid = facts.hybrid.filter(|(machines, _, over)| *machines > 0 && *over > 0.0);
    [
        facts.api.map(|month| of(ServingOption::Api, month)),
        cpu,
        hybrid.map(|(_, month, _)| of(ServingOption::Hybrid, month)),
        facts.gpu.map(|(_, month)| of(ServingOption::Gpu, month)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn rule_out(candidates: &mut [Candidate], ways: &[ServingOption], why: &str) {
    for candidate in candidates.iter_mut().filter(|c| ways.contains(&c.way) && c.out.is_none()) {
        candidate.out = Some(why.to_owned());
    }
}

fn data_rule(facts: &Facts, candidates: &mut [Candidate], report: &mut impl FnMut(&'static str, String)) {
    let says = match facts.data {
        Some(Sensitivity::Secret) => {
            rule_out(candidates, &[ServingOption::Api, ServingOption::Hybrid], "the data may not leave");
            "secret: what sends requests to an API is out, overflow included"
        }
        Some(Sensitivity::Internal) => "internal: an API needs a contract on what is kept and where",
        Some(Sensitivity::Public) => "public: nothing is out",
        None => "not said (choose.data): taken as public; `secret` would leave out the API and the hybrid",
    };
    report("data", says.to_owned());
}

fn latency_rule(facts: &Facts, candidates: &mut [Candidate], report: &mut impl FnMut(&'static str, String)) {
    if let Some(why) = &facts.cpu_refused {
        rule_out(
            candidates,
            &[ServingOption::OneCpu, ServingOption::CpuFleet, ServingOption::Hybrid],
            "the service level is not kept",
        );
        report("latency", format!("CPUs are out: {why}"));
    }
}

fn size_rule(facts: &Facts, report: &mut impl FnMut(&'static str, String)) {
    let Some(billions) = facts.model_billions else { return };
    let says = if billions > MAX_CPU_BILLIONS {
        format!(
            "{billions} B is above {MAX_CPU_BILLIONS} B: measure tokens/s of a CPU machine before going by its cost"
        )
    } else {
        format!("{billions} B is within what a CPU machine reads at a pace that people wait for")
    };
    report("model size", says);
}

fn peak_rule(facts: &Facts, report: &mut impl FnMut(&'static str, String)) {
    let Some(peak) = facts.peak_to_mean else { return };
    let over = facts.hybrid.map(|(machines, _, over)| {
        let plural = if machines == 1 { "machine" } else { "machines" };
        format!("; cheapest with {machines} {plural} of our own and {:.1} % elsewhere", over * 100.0)
    });
    let shape =
        if peak > 2.0 { "peaked: machines for the peak stand idle" } else { "even: machines are used" };
    report(
        "predictability",
        format!("busiest hour {peak:.1} x the average, {shape}{}", over.unwrap_or_default()),
    );
}

fn budget_rule(
    facts: &Facts,
    currency: Currency,
    candidates: &mut [Candidate],
    report: &mut impl FnMut(&'static str, String),
) {
    let Some(budget) = facts.budget_per_month else { return };
    for candidate in candidates.iter_mut().filter(|c| c.out.is_none() && c.per_month > budget) {
        let excess = currency.show(candidate.per_month - budget);
        candidate.out = Some(format!("above the budget by {excess}"));
    }
    report("budget", format!("at most {} a month", currency.show(budget)));
}

fn cost_rule(
    candidates: &[Candidate],
    currency: Currency,
    report: &mut impl FnMut(&'static str, String),
) -> Option<ServingOption> {
    let within: Vec<&Candidate> = candidates.iter().filter(|c| c.out.is_none()).collect();
    let Some(best) = within.first() else {
        report("cost", "no way is left".to_owned());
        return None;
    };
    let mut says = format!("{} is cheapest at {} a month", best.way.name(), currency.show(best.per_month));
    if let Some(next) = within.get(1) {
        let alike = best.per_month.value() >= next.per_month.value() * (1.0 - TIE_SHARE);
        let more = currency.show(next.per_month - best.per_month);
        says.push_str(&format!("; next is {}, {more} more", next.way.name()));
        if alike {
            says.push_str(", which is within what the inputs are known to: either will do");
        }
    }
    report("cost", says);
    Some(best.way)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            api: Some(Money::from_f64(600.0)),
            cpu: Some((2, Money::from_f64(1_153.40))),
            gpu: Some((1, Money::from_f64(511.0))),
            hybrid: Some((1, Money::from_f64(580.0), 0.02)),
            ..Facts::default()
        }
    }

    fn recommended(facts: &Facts) -> Option<ServingOption> {
        choose(facts, Currency::USD).recommended
    }

    #[test]
    fn the_cheapest_is_taken_and_rules_take_away() {
        assert_eq!(recommended(&facts()), Some(ServingOption::Gpu));
        let no_gpu = Facts { gpu: None, ..facts() };
        assert_eq!(recommended(&no_gpu), Some(ServingOption::Hybrid));
        let secret = Facts { data: Some(Sensitivity::Secret), ..no_gpu.clone() };
        assert_eq!(recommended(&secret), Some(ServingOption::CpuFleet));
        let slow = Facts { cpu_refused: Some("too slow".to_owned()), ..no_gpu.clone() };
        assert_eq!(recommended(&slow), Some(ServingOption::Api));
        let poor = Facts { budget_per_month: Some(Money::from_f64(100.0)), ..no_gpu };
        assert_eq!(recommended(&poor), None);
        assert_eq!(recommended(&Facts::default()), None);
    }

    #[test]
    fn a_hybrid_without_overflow_is_no_hybrid() {
        let all_own = Facts {
            hybrid: Some((1, Money::from_f64(10.0), 0.0)),
            cpu: Some((1, Money::from_f64(10.0))),
            ..Facts::default()
        };
        assert_eq!(recommended(&all_own), Some(ServingOption::OneCpu));
    }

    #[test]
    fn reasons_have_the_numbers() {
        let facts =
            Facts { budget_per_month: Some(Money::from_f64(590.0)), peak_to_mean: Some(3.25), ..facts() };
        let choice = choose(&facts, Currency::USD);
        let all: Vec<&str> = choice.findings.iter().map(|f| f.says.as_str()).collect();
        let all = all.join("\n");
        for part in
            ["busiest hour 3.2 x", "2.0 % elsewhere", "590.00 USD a month", "511.00 USD", "69.00 USD more"]
        {
            assert!(all.contains(part), "{part}: {all}");
        }
        let api = choice.candidates.iter().find(|c| c.way == ServingOption::Api).unwrap();
        assert_eq!(api.out.as_deref(), Some("above the budget by 10.00 USD"));
    }
}
