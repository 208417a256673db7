//! `plan farm`: whether models fit on one machine, what cold starts they have, how long requests wait, what each costs.

use planner::Money;
use planner::cost::HOURS_A_MONTH;
use planner::farm::{self, FarmOutcome, GroupOutcome};
use serde::Serialize;

use super::report::{Report, count, percent, time};
use super::session::{Common, Figures, Session, given};
use crate::Failure;

/// A command that runs as it stands.
const EXAMPLE: &str = "gristmill plan farm --memory-mb 4000 --set 'farm.model=[{name=\"embedder\", memory_mb=90, load_ms=40, \
                       request_ms=8, requests_per_hour=20000}, {name=\"classifiers\", count=60, memory_mb=140, load_ms=90, \
                       request_ms=12, requests_per_hour=50}]'";

#[derive(clap::Args, Debug)]
#[command(after_help = format!("For example:\n  {EXAMPLE}"))]
pub(crate) struct Args {
    /// Memory of all models together, MB of a million bytes (farm.memory_mb).
    #[arg(long, value_name = "MB", help_heading = "Plan", allow_hyphen_values = true)]
    memory_mb: Option<String>,

    /// Simulated requests (farm.requests).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    simulated_requests: Option<String>,

    /// Where the random numbers start (farm.seed).
    #[arg(long, value_name = "N", help_heading = "Plan")]
    seed: Option<String>,

    #[command(flatten)]
    figures: Figures,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    outcome: FarmOutcome,
    /// What the machine costs a month, if the plan says.
    price_per_month: Option<Money>,
    /// What each entry costs of that, and a thousand of its requests.
    costs: Option<Vec<Cost>>,
}

#[derive(Serialize)]
struct Cost {
    name: String,
    per_month: Money,
    per_thousand_requests: Money,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let fields = [
        ("farm.memory_mb", &args.memory_mb),
        ("farm.requests", &args.simulated_requests),
        ("farm.seed", &args.seed),
    ];
    let session = args.common.open(Some(&args.figures), given(&fields))?;
    if session.plan.farm.model.is_empty() {
        return Err(Failure::new(format!(
            "farm.model is missing: the models that share the machine, as in: {EXAMPLE}"
        )));
    }
    let outcome = farm::simulate(&session.plan.farm)?;
    let price_per_month = session.month_of_own()?;
    let costs = price_per_month
        .map(|month| outcome.groups.iter().map(|group| cost(group, month, &outcome)).collect());
    let answer = Answer { outcome, price_per_month, costs };
    let mut report = Report::new("plan farm", "Models on one machine");
    say(&session, &answer, &mut report);
    session.finish(&report, &answer)
}

fn cost(group: &GroupOutcome, month: Money, outcome: &FarmOutcome) -> Cost {
    let per_month = month.times(group.cost_share);
    let requests = group.requests as f64 * HOURS_A_MONTH * 3600.0 / outcome.seconds;
    let per_thousand_requests = if requests > 0.0 { per_month.times(1e3 / requests) } else { Money::ZERO };
    Cost { name: group.name.clone(), per_month, per_thousand_requests }
}

fn say(session: &Session<'_>, answer: &Answer, report: &mut Report) {
    let outcome = &answer.outcome;
    let mut text = format!(
        "{} models take {} MB together; there are {} MB for them, so they {} at once. The machine computes {} of the time.",
        outcome.models,
        count(outcome.wanted_mb),
        count(outcome.memory_mb),
        if outcome.fits { "all fit" } else { "do not fit" },
        percent(outcome.utilization),
    );
    if !outcome.fits {
        text.push_str(&format!(" {} loads an hour.", count(outcome.loads_per_hour)));
    }
    if let Some(month) = answer.price_per_month {
        text.push_str(&format!(" Cost: {} a month.", session.currency.show(month)));
    }
    report.text(text);
    let row = |group: &GroupOutcome| {
        let name =
            if group.count > 1 { format!("{} × {}", group.count, group.name) } else { group.name.clone() };
        vec![
            name,
            count(group.requests as f64),
            percent(group.cold_share),
            percent(group.loaded_share),
            time(group.latency_ms.p50),
            time(group.latency_ms.p95),
            time(group.latency_ms.p99),
            if group.cold_share > 0.0 { time(group.cold_latency_ms.p95) } else { "–".to_owned() },
        ]
    };
    let heads = ["", "requests", "cold", "loaded", "p50", "p95", "p99", "cold p95"];
    let title = format!("{} of simulated time", time(outcome.seconds * 1e3));
    report.table(&title, &heads, outcome.groups.iter().map(row).collect());
    report.text("Cold: the request waited for a load. Times are from arrival to answer, one request computed at a time.");
    if let Some(costs) = &answer.costs {
        let rows = costs.iter().zip(&outcome.groups).map(|(cost, group)| {
            vec![
                cost.name.clone(),
                percent(group.compute_share),
                percent(group.memory_share),
                session.currency.show(cost.per_month),
                session.currency.show(cost.per_thousand_requests),
            ]
        });
        let heads = ["", "of the computing", "of the memory", "a month", "1,000 requests"];
        report.table("What each costs, by the larger of its two shares", &heads, rows.collect());
    }
}
