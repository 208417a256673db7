//! `plan choose`: which way, and why.

use planner::choose::{Choice, Facts, choose};
use serde::Serialize;

use super::compare::Month;
use super::report::Report;
use super::session::{Common, Figures, Session, given};
use crate::Failure;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Whether the data may leave: public, internal (an API under contract may see it) or secret (choose.data).
    #[arg(long, value_name = "WHICH", help_heading = "Plan")]
    data: Option<String>,

    /// Parameters of the smallest model that is good enough, in 1e9 (choose.model_billions).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    model_billions: Option<String>,

    /// What may be spent a month (choose.budget_per_month).
    #[arg(long, value_name = "AMOUNT", help_heading = "Plan", allow_hyphen_values = true)]
    budget: Option<String>,

    #[command(flatten)]
    figures: Figures,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Answer {
    choice: Choice,
    facts: Facts,
    month: Month,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let fields = [
        ("choose.data", &args.data),
        ("choose.model_billions", &args.model_billions),
        ("choose.budget_per_month", &args.budget),
    ];
    let session = args.common.open(Some(&args.figures), given(&fields))?;
    let month = Month::of(&session)?;
    let facts = facts(&session, &month)?;
    let choice = choose(&facts, session.currency);
    let mut report = Report::new("plan choose", "Which way to serve");
    say(&session, &choice, &mut report);
    month.say(&session, &mut report)?;
    session.finish(&report, &Answer { choice, facts, month })
}

/// What the rules go by.
fn facts(session: &Session<'_>, month: &Month) -> Result<Facts, Failure> {
    Ok(Facts {
        api: month.api.as_ref().map(|api| api.per_month),
        cpu: Some((month.cpu.machines, month.cpu.price_per_month)),
        gpu: month.gpu.map(|gpu| (gpu.machines, gpu.price_per_month)),
        hybrid: month
            .hybrid
            .as_ref()
            .map(|hybrid| (hybrid.cheapest.machines, hybrid.per_month, hybrid.cheapest.overflow_share)),
        cpu_refused: month.refused().map(str::to_owned),
        data: session.plan.choose.data,
        model_billions: session.plan.model_billions()?,
        budget_per_month: session.plan.choose.budget_per_month,
        peak_to_mean: month.hybrid.as_ref().map(|hybrid| hybrid.peak_to_mean),
    })
}

fn say(session: &Session<'_>, choice: &Choice, report: &mut Report) {
    report.text(match choice.recommended {
        Some(way) => format!("Recommended: {}.", way.name()),
        None => "No way is left: every one is ruled out below.".to_owned(),
    });
    let ways = choice.candidates.iter().map(|candidate| {
        let out = candidate.out.clone().unwrap_or_else(|| "may be taken: no rule is against it".to_owned());
        vec![candidate.way.name().to_owned(), session.currency.show(candidate.per_month), out]
    });
    report.table("Candidates, the cheapest first", &["", "a month", ""], ways.collect());
    let reasons = choice.findings.iter().map(|finding| (finding.rule.to_owned(), finding.says.clone()));
    report.facts("Reasons", reasons.collect());
}
