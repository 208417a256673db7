//! `plan tco`: buying against renting.

use planner::Money;
use planner::sensitivity::Swing;
use planner::tco::{self, Comparison, Purchase, Rent};
use serde::Serialize;

use super::report::{Lines, Part, Report, Tornado, percent};
use super::session::{Common, Session, given};
use crate::Failure;

/// A command that runs as it stands: a server bought, against what the same costs rented.
const EXAMPLE: &str = "gristmill plan tco --hardware 24000 --running-per-month 600 --amortization-months 36 \
                       --rent-per-month 2400";

#[derive(clap::Args, Debug)]
#[command(after_help = format!("For example:\n  {}", EXAMPLE.replace(" --amortization", " \\\n      --amortization")))]
pub(crate) struct Args {
    /// What all bought machines cost, in place (purchase.hardware).
    #[arg(long, value_name = "AMOUNT", help_heading = "Plan", allow_hyphen_values = true)]
    hardware: Option<String>,

    /// What running them costs a month besides power and people (purchase.other_per_month).
    #[arg(long, value_name = "AMOUNT", help_heading = "Plan", allow_hyphen_values = true)]
    running_per_month: Option<String>,

    /// Months after which they are replaced (purchase.amortization_months).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    amortization_months: Option<String>,

    /// What renting costs a month (rent.per_month).
    #[arg(long, value_name = "AMOUNT", help_heading = "Plan", allow_hyphen_values = true)]
    rent_per_month: Option<String>,

    /// How far to look (tco.months).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    months: Option<String>,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    comparison: Comparison,
    sensitivity: Vec<Swing>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let fields = [
        ("purchase.hardware", &args.hardware),
        ("purchase.other_per_month", &args.running_per_month),
        ("purchase.amortization_months", &args.amortization_months),
        ("rent.per_month", &args.rent_per_month),
        ("tco.months", &args.months),
    ];
    let session = args.common.open(None, given(&fields))?;
    let needs = |what: &str| {
        Failure::new(format!(
            "[{what}] is missing: buying is compared with renting, and both are needed, as in: {EXAMPLE}"
        ))
    };
    let purchase = session.plan.purchase.as_ref().ok_or_else(|| needs("purchase"))?;
    let rent = session.plan.rent.as_ref().ok_or_else(|| needs("rent"))?;
    let months = session.plan.tco.months;
    let answer = Answer {
        comparison: tco::compare(purchase, rent, months)?,
        sensitivity: tco::sensitivity(purchase, rent, months)?,
    };
    let mut report = Report::new("plan tco", "Buying against renting");
    say(&session, purchase, rent, &answer, &mut report);
    session.finish(&report, &answer)
}

fn say(session: &Session<'_>, purchase: &Purchase, rent: &Rent, answer: &Answer, report: &mut Report) {
    let money = |amount: Money| session.currency.show(amount);
    let found = &answer.comparison;
    let last = found.months as usize;
    let rows = vec![
        vec!["to begin with".to_owned(), money(purchase.hardware), money(rent.setup)],
        vec!["power, a month".to_owned(), money(purchase.power_per_month()), money(Money::ZERO)],
        vec!["people, a month".to_owned(), money(purchase.staff_per_month), money(rent.staff_per_month)],
        vec![
            "rent and other, a month".to_owned(),
            money(purchase.other_per_month),
            money(rent.per_month + rent.other_per_month),
        ],
        vec!["all that, a month".to_owned(), money(found.own_running_per_month), money(found.rent_per_month)],
        vec!["with wear, a month".to_owned(), money(found.own_per_month), money(found.rent_per_month)],
        vec![format!("paid after {last} months"), money(found.own[last]), money(found.rent[last])],
    ];
    report.table("", &["", "bought", "rented"], rows);
    report.text(match found.break_even_months {
        Some(0.0) => "Buying is cheaper from the first day.".to_owned(),
        Some(month) => format!("Buying has cost no more after {month:.1} months."),
        None => format!(
            "Buying does not break even within the life of the hardware, {} months.",
            purchase.amortization_months
        ),
    });
    let share =
        found.saved_share.map_or(String::new(), |share| format!(", {} of the rent", percent(share.abs())));
    report.text(if found.saved >= Money::ZERO {
        format!("After {last} months buying has saved {}{share}.", money(found.saved))
    } else {
        format!("After {last} months buying has cost {} more{share}.", money(-found.saved))
    });
    let weights = answer.sensitivity.iter().map(|swing| {
        let show = |value: f64| money(Money::from_f64(value));
        vec![swing.input.clone(), show(swing.low), show(swing.high), show(swing.width())]
    });
    let title = format!("Saved after {last} months, with a fifth less and more of each input");
    report.table(&title, &["", "−20 %", "+20 %", "apart"], weights.collect());
    plots(session, answer, report);
}

fn plots(session: &Session<'_>, answer: &Answer, report: &mut Report) {
    let found = &answer.comparison;
    let line = |paid: &[Money]| paid.iter().enumerate().map(|(m, paid)| (m as f64, paid.value())).collect();
    let marks = found.break_even_months.filter(|m| *m > 0.0 && *m <= f64::from(found.months));
    report.parts.push(Part::Lines(Lines {
        title: "Paid in all, over the months".to_owned(),
        x: "months",
        y: session.currency.name().to_owned(),
        series: vec![("bought".to_owned(), line(&found.own)), ("rented".to_owned(), line(&found.rent))],
        marks: marks.map(|m| (m, format!("break-even, {m:.1} months"))).into_iter().collect(),
    }));
    report.parts.push(Part::Tornado(Tornado {
        title: format!("Saved after {} months: what each input's fifth does", found.months),
        x: format!("{} saved", session.currency.name()),
        base: found.saved.value(),
        swings: answer.sensitivity.clone(),
    }));
}
