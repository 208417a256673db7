//! `plan cost`: a million tokens, a request, a thousand requests.

use planner::cost::{Request, Server, cheapest_within};
use planner::sensitivity::{Swing, swings};
use planner::tables::ApiPrice;
use planner::{Money, volume};
use serde::Serialize;

use super::report::{Lines, Part, Report, Tornado, count, percent};
use super::session::{Inputs, Session};
use crate::Failure;

#[derive(Serialize)]
struct Answer {
    server: Server,
    price_per_month: Money,
    output_per_million: Money,
    input_per_million: Option<Money>,
    output_tokens_per_month: f64,
    per_request: Option<Money>,
    /// The same without a prompt cache.
    per_request_uncached: Option<Money>,
    machines: Option<u64>,
    used: Option<f64>,
    api: Vec<ApiLine>,
    selected: Option<Selected>,
    sensitivity: Vec<Swing>,
}

#[derive(Serialize)]
struct ApiLine {
    #[serde(flatten)]
    price: ApiPrice,
    per_request: Option<Money>,
}

#[derive(Serialize)]
struct Selected {
    name: String,
    p95_ms: f64,
    per_thousand_requests: Money,
}

pub(super) fn run(args: &Inputs) -> Result<(), Failure> {
    let session = args.open()?;
    let server = session.plan.own()?;
    // A request is needed only for what is told of requests.
    let asked = session.plan.work.input_tokens.is_some() || session.plan.work.output_tokens.is_some();
    let request = asked.then(|| session.plan.request()).transpose()?;
    let mut report = Report::new("plan cost", "What tokens cost");
    let answer = Answer {
        price_per_month: server.price_per_month(),
        output_per_million: server.output_per_million(),
        input_per_million: server.input_per_million(),
        output_tokens_per_month: server.tokens_per_month(),
        per_request: request.map(|request| server.per_request(&request)),
        per_request_uncached: request
            .map(|request| server.per_request(&Request { cached_share: 0.0, ..request })),
        machines: None,
        used: None,
        api: apis(&session, request.as_ref())?,
        selected: selected(&session)?,
        sensitivity: sensitivity(&server)?,
        server,
    };
    let answer = with_volume(&session, request.as_ref(), answer)?;
    say(&session, &answer, &mut report);
    session.finish(&report, &answer)
}

fn with_volume(session: &Session<'_>, request: Option<&Request>, answer: Answer) -> Result<Answer, Failure> {
    let work = &session.plan.work;
    let (Some(request), true) =
        (request, work.requests_per_month.is_some() || work.requests_by_hour.is_some())
    else {
        return Ok(answer);
    };
    let fleet = volume::fleet(&answer.server, request, session.plan.requests_per_month()?);
    Ok(Answer { machines: Some(fleet.machines), used: Some(fleet.used), ..answer })
}

fn apis(session: &Session<'_>, request: Option<&Request>) -> Result<Vec<ApiLine>, Failure> {
    // A misspelt name is refused even here, where all are listed.
    session.plan.api()?;
    let line = |price: ApiPrice| {
        let per_request = request.map(|request| volume::api_per_request(&price, request)).transpose()?;
        Ok(ApiLine { per_request, price })
    };
    session.plan.prices()?.into_iter().map(line).collect()
}

/// Of the loads that `bench serve` measured, the cheapest within `slo.latency_p95_ms`.
fn selected(session: &Session<'_>) -> Result<Option<Selected>, Failure> {
    let Some(target) = session.plan.slo.latency_p95_ms else { return Ok(None) };
    let price = session.plan.own_price()?;
    let points =
        session.bench.iter().filter_map(|bench| bench.point(price)).collect::<Result<Vec<_>, _>>()?;
    if points.is_empty() {
        return Ok(None);
    }
    let best = cheapest_within(&points, target)?;
    let per_thousand_requests = best.per_thousand();
    Ok(Some(Selected { name: best.name.clone(), p95_ms: best.p95_ms, per_thousand_requests }))
}

fn sensitivity(server: &Server) -> Result<Vec<Swing>, planner::Error> {
    let inputs = [
        ("own.price_per_hour", server.price_per_hour.value()),
        ("own.tokens_per_s", server.tokens_per_s),
        ("own.utilization", server.utilization),
    ];
    swings(&inputs, |values| {
        let moved = Server::new("own", Money::from_f64(values[0]), values[1], None, values[2])?;
        Ok(moved.output_per_million().value())
    })
}

fn say(session: &Session<'_>, answer: &Answer, report: &mut Report) {
    let money = |amount: Money| session.currency.show(amount);
    let small = |amount: Money| session.currency.show_small(amount);
    let server = &answer.server;
    let mut facts = vec![
        ("an hour".to_owned(), small(server.price_per_hour)),
        ("a month of 730 hours".to_owned(), money(answer.price_per_month)),
        ("tokens out a second".to_owned(), format!("{}", server.tokens_per_s)),
        ("utilization".to_owned(), percent(server.utilization)),
        ("tokens out a month".to_owned(), format!("{:.1} M", answer.output_tokens_per_month / 1e6)),
        ("a million tokens out".to_owned(), money(answer.output_per_million)),
    ];
    if let Some(input) = answer.input_per_million {
        facts.push(("a million tokens in".to_owned(), money(input)));
    }
    if let (Some(each), Some(uncached)) = (answer.per_request, answer.per_request_uncached) {
        facts.push(("a request".to_owned(), small(each)));
        facts.push(("a thousand requests".to_owned(), money(each.times_int(1000))));
        if uncached != each {
            facts.push(("a request without the prompt cache".to_owned(), small(uncached)));
        }
    }
    if let (Some(machines), Some(used)) = (answer.machines, answer.used) {
        facts.push(("machines for the month".to_owned(), count(machines as f64)));
        facts.push(("of which is used".to_owned(), percent(used)));
    }
    report.facts("This machine", facts);
    if server.prompt_tokens_per_s.is_none() && answer.per_request.is_some() {
        report.text(
            "Prompts are not counted: own.prompt_tokens_per_s is not given, and a request costs its answer alone.",
        );
    }
    if let Some(best) = &answer.selected {
        report.text(format!(
            "Cheapest measured load within the target: {} with a p95 of {:.0} ms, {} for 1,000 requests.",
            best.name,
            best.p95_ms,
            money(best.per_thousand_requests)
        ));
    }
    api_table(session, answer, report);
    plots(session, answer, report);
}

fn api_table(session: &Session<'_>, answer: &Answer, report: &mut Report) {
    let rows = answer.api.iter().map(|line| {
        let price = &line.price;
        let dash = |amount: Option<Money>| amount.map_or("–".to_owned(), |amount| amount.text(3));
        vec![
            price.name.clone(),
            price.input.text(2),
            dash(price.cached),
            price.output.text(2),
            line.per_request.map_or("–".to_owned(), |each| session.currency.show_small(each)),
            price.date.clone(),
            price.source.clone(),
        ]
    });
    let title = format!("Commercial APIs, {} for a million tokens", session.currency.name());
    let heads = ["API", "in", "cached", "out", "a request", "as of", "source"];
    report.table(&title, &heads, rows.collect());
}

fn plots(session: &Session<'_>, answer: &Answer, report: &mut Report) {
    let server = &answer.server;
    let at = |used: f64| {
        (used * 100.0, server.price_per_hour.value() / (server.tokens_per_s * 3600.0 * used) * 1e6)
    };
    let mut series =
        vec![("this machine".to_owned(), (10..=100).map(|i| at(f64::from(i) / 100.0)).collect())];
    for line in &answer.api {
        let level = line.price.output.value();
        series.push((line.price.name.clone(), vec![(10.0, level), (100.0, level)]));
    }
    report.parts.push(Part::Lines(Lines {
        title: "A million tokens out, over how much the machine is used".to_owned(),
        x: "utilization, %",
        y: format!("{} a million", session.currency.name()),
        series,
        marks: vec![(server.utilization * 100.0, "this plan".to_owned())],
    }));
    report.parts.push(Part::Tornado(Tornado {
        title: "What a fifth less and a fifth more of each input does to a million tokens out".to_owned(),
        x: format!("{} a million", session.currency.name()),
        base: answer.output_per_million.value(),
        swings: answer.sensitivity.clone(),
    }));
}
