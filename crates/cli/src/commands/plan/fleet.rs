//! `plan fleet`: machines for a load, and how long requests wait.

use std::path::Path;

use planner::fleet::arrivals;
use planner::fleet::lengths::Lengths;
use planner::fleet::sizing::{self, Load, SweepPoint};
use planner::fleet::{FleetPlan, Outcome, Spread, StepCost};
use planner::{Capacity, Money};
use serde::Serialize;

use super::bench_files::read_text;
use super::fit::{self, Source};
use super::models;
use super::report::{Lines, Part, Report, count, percent, time};
use super::session::{Common, Figures, Session};
use crate::{Failure, flags};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Requests an hour (fleet.requests_per_hour).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    requests_per_hour: Option<String>,

    /// A log of requests: seconds, tokens in, tokens out on each line (fleet.log).
    #[arg(long, value_name = "FILE", help_heading = "Plan")]
    log: Option<String>,

    /// Machines; without it, the fewest that keep the service level (fleet.machines).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    machines: Option<String>,

    /// Longest time to the first token that 95 of 100 may have, ms (slo.ttft_p95_ms).
    #[arg(long, value_name = "MS", help_heading = "Plan", allow_hyphen_values = true)]
    ttft_p95_ms: Option<String>,

    /// Longest time to the last token, ms (slo.latency_p95_ms).
    #[arg(long, value_name = "MS", help_heading = "Plan", allow_hyphen_values = true)]
    latency_p95_ms: Option<String>,

    /// Where the random numbers start (fleet.seed).
    #[arg(long, value_name = "N", help_heading = "Plan")]
    seed: Option<String>,

    /// Predict what steps take for this model, in place of a bench (fleet.step_ms).
    #[arg(long, value_name = "MODEL", help_heading = "Machine", conflicts_with = "shape")]
    model: Option<String>,

    /// The same for a published shape, NAME:FORMAT.
    #[arg(long, value_name = "SHAPE", help_heading = "Machine")]
    shape: Option<String>,

    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    kv: flags::Kv,
    #[command(flatten)]
    figures: Figures,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Answer {
    requests_per_hour: f64,
    outcome: Outcome,
    /// What the machines cost a month, if the plan says.
    price_per_month: Option<Money>,
    /// Whether the service level is kept; none was asked.
    slo_kept: Option<bool>,
    /// Requests, waiting and running, of a machine from which on one more is due.
    scale_at_requests: Option<f64>,
    /// Machines in each hour of the load curve.
    machines_by_hour: Option<Vec<u64>>,
    sweep: Vec<SweepPoint>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let fields = [
        ("fleet.requests_per_hour", &args.requests_per_hour),
        ("fleet.log", &args.log),
        ("fleet.machines", &args.machines),
        ("slo.ttft_p95_ms", &args.ttft_p95_ms),
        ("slo.latency_p95_ms", &args.latency_p95_ms),
        ("fleet.seed", &args.seed),
    ];
    let settings = fields.into_iter().filter_map(|(key, value)| {
        // A path is text even where it looks like a number.
        let value = value.clone()?;
        Some((key.to_owned(), if key == "fleet.log" { format!("{value:?}") } else { value }))
    });
    let mut settings: Vec<(String, String)> = settings.collect();
    let mut session = args.common.open(Some(&args.figures), settings.clone())?;
    if let Some(steps) = predicted(args, &session)? {
        settings.push(("fleet.step_ms".to_owned(), steps));
        session = args.common.open(Some(&args.figures), settings)?;
    }
    let (load, cost) = (load(&session)?, cost(&session.plan.fleet)?);
    let plan = &session.plan.fleet;
    plan.check()?;
    session.plan.slo.check()?;
    let outcome = match plan.machines {
        Some(machines) => load.simulate(machines, &cost, plan),
        None => sizing::min_machines(&load, &session.plan.slo, &cost, plan)?,
    };
    let slo = &session.plan.slo;
    let sweep = sizing::sweep(&load, outcome.machines, slo, &cost, plan);
    let answer = Answer {
        requests_per_hour: load.per_hour,
        price_per_month: month(&session, outcome.machines)?,
        slo_kept: (!slo.is_empty()).then(|| slo.is_met(&outcome)),
        scale_at_requests: sizing::scale_out_threshold(&sweep),
        machines_by_hour: by_hour(&session, &load, &cost, outcome.machines),
        outcome,
        sweep,
    };
    let mut report = Report::new("plan fleet", "Machines for a load");
    say(&session, &load, &answer, &mut report);
    session.finish(&report, &answer)
}

/// Steps of the model that was named, on the machine that was.
fn predicted(args: &Args, session: &Session<'_>) -> Result<Option<String>, Failure> {
    if args.model.is_none() && args.shape.is_none() {
        return Ok(None);
    }
    let place = args.source.place(&session.plan)?;
    let tier = place.tier()?;
    let kv = args.kv.dtype(tier);
    let looked = match (&args.model, &args.shape) {
        (Some(model), _) => models::file(model, tier, kv)?,
        (None, shape) => models::shape(shape.as_deref().unwrap_or_default(), tier, kv)?,
    };
    let (input, output) = lengths(session)?;
    let context = input.mean() + output.mean() / 2.0;
    fit::step_points(&place, looked, session.plan.fleet.max_running, context).map(Some)
}

fn lengths(session: &Session<'_>) -> Result<(Lengths, Lengths), Failure> {
    let fleet = &session.plan.fleet;
    if let (Some(input), Some(output)) = (fleet.input, fleet.output) {
        return Ok((input, output));
    }
    if fleet.log.is_some() {
        let load = load(session)?;
        let (input, output) = load.means();
        return Ok((Lengths::Fixed(input as u32), Lengths::Fixed(output as u32)));
    }
    let request = session.plan.request()?;
    let fixed = |tokens: u64| Lengths::Fixed(u32::try_from(tokens).unwrap_or(u32::MAX));
    Ok((
        fleet.input.unwrap_or_else(|| fixed(request.input_tokens)),
        fleet.output.unwrap_or_else(|| fixed(request.output_tokens)),
    ))
}

/// Of a log; else at random, by the hour's rate: as given, the busiest hour of the curve, or an average hour of the month.
fn load(session: &Session<'_>) -> Result<Load, Failure> {
    let fleet = &session.plan.fleet;
    if let Some(path) = &fleet.log {
        let arrivals = arrivals::log(path, &read_text(Path::new(path))?)?;
        return Ok(Load::logged(path, arrivals)?);
    }
    let curve = session.plan.work.requests_by_hour.as_ref().filter(|load| !load.is_empty());
    let peak = curve.map(|load| load.iter().copied().fold(0.0, f64::max));
    let per_hour = match fleet.requests_per_hour.or(peak) {
        Some(per_hour) => per_hour,
        None if session.plan.work.requests_per_month.is_some() => {
            session.plan.requests_per_month()? / planner::cost::HOURS_A_MONTH
        }
        None => {
            let what = "fleet.requests_per_hour is missing: give it, fleet.log, work.requests_by_hour or \
                        work.requests_per_month";
            return Err(Failure::new(what));
        }
    };
    let (input, output) = lengths(session)?;
    Ok(Load::random(fleet, per_hour, input, output)?)
}

fn cost(fleet: &FleetPlan) -> Result<StepCost, Failure> {
    let Some(points) = &fleet.step_ms else {
        let what = "fleet.step_ms is missing: what steps of so many rows take; give --bench FILE, --model MODEL or --shape \
                    NAME, or the points";
        return Err(Failure::new(what));
    };
    Ok(StepCost::measured(points)?)
}

fn month(session: &Session<'_>, machines: usize) -> Result<Option<Money>, Failure> {
    Ok(session.month_of_own()?.map(|month| month.times_int(machines as u64)))
}

/// The fewest that keep the service level in each hour; where the machines were given, as many for its load as the peak has for
/// its own.
fn by_hour(session: &Session<'_>, load: &Load, cost: &StepCost, machines: usize) -> Option<Vec<u64>> {
    let plan = &session.plan;
    let hours = plan.work.requests_by_hour.as_ref()?;
    let capacity = match plan.fleet.machines {
        None => sizing::capacity(load, machines, &plan.slo, cost, &plan.fleet),
        Some(_) => Capacity::uniform(machines, hours.iter().copied().fold(0.0, f64::max)),
    }?;
    Some(hours.iter().map(|requests| capacity.machines(*requests).max(1)).collect())
}

/// What machines keep the plan's service level for, and the requests an hour of its load. None if the plan asks no level, or says
/// nothing of steps.
pub(super) fn capacity(session: &Session<'_>) -> Result<Option<(Capacity, f64)>, planner::Error> {
    let (plan, slo) = (&session.plan.fleet, &session.plan.slo);
    if slo.is_empty() || plan.step_ms.is_none() {
        return Ok(None);
    }
    let said = |failure: Failure| planner::Error::Text { what: "fleet".to_owned(), detail: failure.message };
    let (load, cost) = (load(session).map_err(said)?, cost(plan).map_err(said)?);
    let all = sizing::min_machines(&load, slo, &cost, plan)?.machines;
    Ok(sizing::capacity(&load, all, slo, &cost, plan).map(|found| (found, load.per_hour)))
}

fn say(session: &Session<'_>, load: &Load, answer: &Answer, report: &mut Report) {
    let outcome = &answer.outcome;
    let (input, output) = load.means();
    let plural = if outcome.machines == 1 { "machine" } else { "machines" };
    let mut text = format!(
        "{} {plural} for {} requests an hour of {input:.0} tokens in and {output:.0} out on average.",
        outcome.machines,
        count(load.per_hour)
    );
    if let Some(month) = answer.price_per_month {
        text.push_str(&format!(" Cost: {} a month.", session.currency.show(month)));
    }
    match answer.slo_kept {
        Some(true) => text.push_str(" The service level is kept."),
        Some(false) => text.push_str(" The service level is not kept."),
        None => {}
    }
    report.text(text);
    let spread = |name: &str, spread: &Spread| {
        vec![name.to_owned(), time(spread.mean), time(spread.p50), time(spread.p95), time(spread.p99)]
    };
    let rows = vec![
        spread("to the first token", &outcome.ttft_ms),
        spread("each further token", &outcome.tpot_ms),
        spread("to the last token", &outcome.latency_ms),
        spread("of that, waiting", &outcome.wait_ms),
    ];
    let title = format!("Times of {} simulated requests", count(outcome.requests as f64));
    report.table(&title, &["", "mean", "p50", "p95", "p99"], rows);
    let mut facts = vec![
        ("machines compute".to_owned(), percent(outcome.utilization)),
        ("requests in a machine, on average".to_owned(), format!("{:.1}", outcome.in_machine)),
        ("requests waiting, p95".to_owned(), count(outcome.queued.p95)),
        ("refused (429)".to_owned(), count(outcome.refused as f64)),
        ("tokens out a second".to_owned(), format!("{:.1}", outcome.tokens_per_s)),
    ];
    if let Some(target) = answer.scale_at_requests {
        facts
            .push(("one machine more from (running + waiting a machine)".to_owned(), format!("{target:.0}")));
    }
    report.facts("Machines", facts);
    if let Some(target) = answer.scale_at_requests {
        report.text(format!(
            "KEDA: query sum(vllm:num_requests_running + vllm:num_requests_waiting), threshold {target:.0}: the requests that a \
             machine has at the highest load that keeps the level."
        ));
    }
    if let Some(hours) = &answer.machines_by_hour {
        let shown: Vec<String> = hours.iter().map(u64::to_string).collect();
        report.text(format!("Machines by hour: {}.", shown.join(" ")));
    }
    sweep(answer, report);
}

fn sweep(answer: &Answer, report: &mut Report) {
    let rows = answer.sweep.iter().map(|point| {
        let outcome = &point.outcome;
        vec![
            count(point.per_hour),
            percent(outcome.utilization),
            time(outcome.ttft_ms.p95),
            time(outcome.latency_ms.p50),
            time(outcome.latency_ms.p95),
            count(outcome.refused as f64),
        ]
    });
    let heads = ["requests an hour", "compute", "first token p95", "last token p50", "p95", "refused"];
    report.table("The same machines at other loads", &heads, rows.collect());
    let line = |of: &dyn Fn(&Outcome) -> f64| {
        answer.sweep.iter().map(|point| (point.per_hour, of(&point.outcome) / 1e3)).collect()
    };
    report.parts.push(Part::Lines(Lines {
        title: format!("Latency over load, machines: {}", answer.outcome.machines),
        x: "requests an hour",
        y: "seconds".to_owned(),
        series: vec![
            ("last token, p99".to_owned(), line(&|o| o.latency_ms.p99)),
            ("last token, p95".to_owned(), line(&|o| o.latency_ms.p95)),
            ("last token, p50".to_owned(), line(&|o| o.latency_ms.p50)),
            ("first token, p95".to_owned(), line(&|o| o.ttft_ms.p95)),
        ],
        marks: vec![(answer.requests_per_hour, "this plan".to_owned())],
    }));
}
