//! `plan compare`: a month's volume in each way of serving it, and where the ways cross.

use planner::cost::{Request, Server};
use planner::hybrid::{self, HybridLevel};
use planner::tables::ApiPrice;
use planner::volume::{self, Crossover, Fleet};
use planner::{Capacity, Money, cost};
use serde::Serialize;

use super::fleet;
use super::report::{Lines, Part, Report, count, percent};
use super::session::{Inputs, Session};
use crate::Failure;

/// A month in each way.
#[derive(Serialize)]
pub(super) struct Month {
    pub(super) requests: f64,
    pub(super) request: Request,
    pub(super) own: Server,
    /// Requests an hour that our machines do.
    capacity: Capacity,
    counted: Counted,
    pub(super) cpu: Fleet,
    pub(super) gpu: Option<Fleet>,
    #[serde(skip)]
    gpu_server: Option<Server>,
    pub(super) api: Option<ApiMonth>,
    /// From which monthly requests our machines are cheaper than the API.
    crossover: Option<Crossover>,
    /// From which monthly requests machines with a GPU are cheaper than ours.
    gpu_cheaper_from: Option<f64>,
    pub(super) hybrid: Option<Hybrid>,
    escalated: Option<Escalated>,
}

/// By what our machines are counted, alone and in the hybrid.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Counted {
    /// What they do when they are as full as the plan says.
    Throughput,
    /// What they do within the service level, simulated step by step.
    Level,
    /// The level cannot be kept, for this reason; so as without one.
    Refused(String),
}

#[derive(Serialize)]
pub(super) struct ApiMonth {
    price: ApiPrice,
    each: Money,
    pub(super) per_month: Money,
}

#[derive(Serialize)]
pub(super) struct Hybrid {
    pub(super) cheapest: HybridLevel,
    pub(super) per_month: Money,
    pub(super) peak_to_mean: f64,
    levels: Vec<HybridLevel>,
}

#[derive(Serialize)]
struct Escalated {
    share: f64,
    to: String,
    small_each: Money,
    large_each: Money,
    each: Money,
    per_month: Money,
}

impl Month {
    pub(super) fn of(session: &Session<'_>) -> Result<Month, Failure> {
        let plan = &session.plan;
        let (own, request, requests) = (plan.own()?, plan.request()?, plan.requests_per_month()?);
        let gpu_server = plan.gpu()?;
        let full = |server: &Server| Capacity::by_throughput(server, &request);
        let busiest = plan.work.requests_by_hour.iter().flatten().copied().fold(0.0, f64::max);
        let (capacity, counted, peak) = match fleet::capacity(session) {
            Ok(None) => (full(&own), Counted::Throughput, busiest),
            Ok(Some((kept, load))) => (kept.pointwise_min(&full(&own)), Counted::Level, busiest.max(load)),
            Err(why @ planner::Error::Impossible { .. }) => {
                (full(&own), Counted::Refused(why.to_string()), busiest)
            }
            Err(other) => return Err(other.into()),
        };
        let month = |server: &Server, capacity: &Capacity, peak: f64| {
            volume::fleet_of_at_least(server, &request, requests, capacity.machines(peak))
        };
        let cpu = month(&own, &capacity, peak);
        let api = plan.api()?.map(|price| api_month(price, &request, requests)).transpose()?;
        let crossover = api.as_ref().map(|api| volume::crossover(&own, &request, api.each)).transpose()?;
        Ok(Month {
            requests,
            gpu: gpu_server.as_ref().map(|gpu| month(gpu, &full(gpu), busiest)),
            gpu_cheaper_from: gpu_server.and_then(|gpu| volume::cheaper_from(&gpu, &own, &request)),
            gpu_server,
            hybrid: hybrid_month(session, own.price_per_month(), &capacity, api.as_ref())?,
            escalated: escalated(session, &own, &request, requests, cpu.price_per_month)?,
            request,
            own,
            capacity,
            counted,
            cpu,
            api,
            crossover,
        })
    }

    /// Why CPUs cannot keep the service level; none if they can or none was asked.
    pub(super) fn refused(&self) -> Option<&str> {
        match &self.counted {
            Counted::Refused(why) => Some(why),
            Counted::Throughput | Counted::Level => None,
        }
    }

    /// What our machines were counted by, where a level is asked.
    fn counting(&self, session: &Session<'_>) -> Option<String> {
        match &self.counted {
            Counted::Throughput if session.plan.slo.is_empty() => None,
            Counted::Throughput => Some(
                "The service level is not looked at: that takes what steps take (fleet.step_ms, or a measurement of \
                 `bench`)."
                    .to_owned(),
            ),
            Counted::Level => {
                let gpu = if self.gpu.is_some() { "; GPU machines are counted by their throughput" } else { "" };
                Some(format!(
                    "Our machines, alone and in the hybrid, are as many as keep the service level, simulated as by plan \
                     fleet{gpu}."
                ))
            }
            Counted::Refused(why) => {
                Some(format!("CPUs do not keep the service level; they are counted by throughput. {why}."))
            }
        }
    }
}

fn api_month(price: ApiPrice, request: &Request, requests: f64) -> Result<ApiMonth, Failure> {
    let each = volume::api_per_request(&price, request)?;
    let per_month = price.requests(request, requests.round() as u64)?;
    Ok(ApiMonth { price, each, per_month })
}

fn hybrid_month(
    session: &Session<'_>,
    price: Money,
    capacity: &Capacity,
    api: Option<&ApiMonth>,
) -> Result<Option<Hybrid>, Failure> {
    let (Some(load), Some(api)) = (&session.plan.work.requests_by_hour, api) else { return Ok(None) };
    let levels = hybrid::levels(price, capacity, load, api.each)?;
    let Some(cheapest) = hybrid::cheapest(&levels).copied() else { return Ok(None) };
    let mean = load.iter().sum::<f64>() / load.len() as f64;
    let peak = load.iter().copied().fold(0.0, f64::max);
    let peak_to_mean = if mean > 0.0 { peak / mean } else { 1.0 };
    Ok(Some(Hybrid { per_month: cheapest.total(), cheapest, peak_to_mean, levels }))
}

fn escalated(
    session: &Session<'_>,
    own: &Server,
    request: &Request,
    requests: f64,
    fleet: Money,
) -> Result<Option<Escalated>, Failure> {
    let share = session.plan.work.escalated_share;
    let Some(large) = session.plan.large()? else {
        if share == 0.0 {
            return Ok(None);
        }
        return Err(Failure::new(
            "api.large is missing: work.escalated_share is above 0, and it says to which API",
        ));
    };
    let (small_each, large_each) = (own.per_request(request), volume::api_per_request(&large, request)?);
    let each = hybrid::escalated(small_each, large_each, share)?;
    let per_month = fleet + large_each.times(requests * share);
    Ok(Some(Escalated { share, to: large.name, small_each, large_each, each, per_month }))
}

pub(super) fn run(args: &Inputs) -> Result<(), Failure> {
    let session = args.open()?;
    let month = Month::of(&session)?;
    let mut report = Report::new("plan compare", "A month, in each way of serving it");
    month.say(&session, &mut report)?;
    session.finish(&report, &month)
}

impl Month {
    /// The tables and plots.
    pub(super) fn say(&self, session: &Session<'_>, report: &mut Report) -> Result<(), Failure> {
        report.text(format!(
            "{} requests a month of {} tokens in and {} out.",
            count(self.requests),
            count(self.request.input_tokens as f64),
            count(self.request.output_tokens as f64)
        ));
        report.table("Ways", &["", "a month", "a request", "machines", "used"], self.ways(session));
        if session.plan.work.requests_by_hour.is_some() {
            report.text(
                "Machines are enough for the busiest hour. Crossings and the plot take requests as spread evenly, and \
                 machines as full as own.utilization.",
            );
        }
        self.counting(session).into_iter().for_each(|said| report.text(said));
        self.crossings(report);
        self.hybrid_table(session, report);
        if let Some(up) = &self.escalated {
            report.text(format!(
                "{} of the requests go on to {}: {} each on average ({} here, {} more for those), {} a month.",
                percent(up.share),
                up.to,
                session.currency.show_small(up.each),
                session.currency.show_small(up.small_each),
                session.currency.show_small(up.large_each),
                session.currency.show(up.per_month)
            ));
        }
        if let Some(plot) = self.plot(session)? {
            report.parts.push(Part::Lines(plot));
        }
        Ok(())
    }

    fn ways(&self, session: &Session<'_>) -> Vec<Vec<String>> {
        let each = |month: Money| session.currency.show_small(month.times(1.0 / self.requests.max(1.0)));
        let fleet = |name: String, fleet: &Fleet| {
            let month = fleet.price_per_month;
            let machines = count(fleet.machines as f64);
            vec![name, session.currency.show(month), each(month), machines, percent(fleet.used)]
        };
        let mut rows = Vec::new();
        if let Some(api) = &self.api {
            let name = format!("API, {}", api.price.name);
            let dash = || "–".to_owned();
            rows.push(vec![name, session.currency.show(api.per_month), each(api.per_month), dash(), dash()]);
        }
        rows.push(fleet("our CPU machines".to_owned(), &self.cpu));
        rows.extend(self.gpu.as_ref().map(|gpu| fleet("GPU machines".to_owned(), gpu)));
        if let Some(hybrid) = &self.hybrid {
            rows.push(vec![
                "hybrid, cheapest level".to_owned(),
                session.currency.show(hybrid.per_month),
                each(hybrid.per_month),
                count(hybrid.cheapest.machines as f64),
                format!("{} elsewhere", percent(hybrid.cheapest.overflow_share)),
            ]);
        }
        rows
    }

    fn crossings(&self, report: &mut Report) {
        if let (Some(api), Some(crossover)) = (&self.api, &self.crossover) {
            report.text(match (crossover.first, crossover.always) {
                (None, _) => format!(
                    "Our machines never cost less than {}, at any volume: even full, a request costs more here.",
                    api.price.name
                ),
                (Some(first), Some(always)) if always > first * 1.001 => format!(
                    "Our machines cost no more than {} from {} requests a month on, and always from {} on: between, each \
                     machine more begins emptier than the API is cheap.",
                    api.price.name,
                    count(first),
                    count(always)
                ),
                (Some(first), _) => format!(
                    "Our machines cost no more than {} from {} requests a month on.",
                    api.price.name,
                    count(first)
                ),
            });
        }
        if let Some(gpu) = &self.gpu {
            report.text(match self.gpu_cheaper_from {
                Some(from) => {
                    format!("GPU machines cost no more than ours from {} requests a month on.", count(from))
                }
                None => "GPU machines cost more than ours at any volume looked at (a thousand machines)."
                    .to_owned(),
            });
            if let Some(less) =
                cost::saving_share(gpu.price_per_month, self.cpu.price_per_month).filter(|less| *less > 0.0)
            {
                report.text(format!(
                    "At this volume our machines cost {} less than GPU machines.",
                    percent(less)
                ));
            }
        }
    }

    fn hybrid_table(&self, session: &Session<'_>, report: &mut Report) {
        let Some(hybrid) = &self.hybrid else { return };
        let line = |level: &HybridLevel| {
            let best = if *level == hybrid.cheapest { " ← cheapest" } else { "" };
            vec![
                format!("{}{best}", level.machines),
                session.currency.show(level.own),
                session.currency.show(level.overflow),
                percent(level.overflow_share),
                session.currency.show(level.total()),
            ]
        };
        // The ends, and what is near the cheapest.
        let near = |level: &&HybridLevel| {
            level.machines.abs_diff(hybrid.cheapest.machines) <= 3
                || level.machines == 0
                || level.machines as usize + 1 == hybrid.levels.len()
        };
        let rows = hybrid.levels.iter().filter(near).map(line).collect();
        let heads = ["our machines", "they cost", "overflow costs", "overflows", "together"];
        report.table("Hybrid: our machines for the base, the API above it", &heads, rows);
    }

    fn plot(&self, session: &Session<'_>) -> Result<Option<Lines>, Failure> {
        const POINTS: u32 = 240;
        let crossing = self.crossover.and_then(|crossover| crossover.always.or(crossover.first));
        let capacity = self.own.requests_per_month(&self.request);
        // Far enough to see the crossing, near enough to see the steps.
        let widest = [Some(self.requests * 2.0), crossing.map(|at| at * 1.3), Some(capacity * 1.5)];
        let most = widest.into_iter().flatten().fold(0.0, f64::max).min(self.requests.max(capacity) * 20.0);
        if most <= 0.0 {
            return Ok(None);
        }
        let volumes = || (0..=POINTS).map(|i| f64::from(i) / f64::from(POINTS) * most);
        let fleet = |server: Server| -> Vec<(f64, f64)> {
            let cost = |v: f64| volume::fleet(&server, &self.request, v).price_per_month.value();
            // A staircase: up at the volume where a machine is added.
            let mut points = vec![(0.0, cost(0.0))];
            for volume in volumes() {
                let (before, now) = (points[points.len() - 1].1, cost(volume));
                if now != before {
                    points.push((volume, before));
                }
                points.push((volume, now));
            }
            points
        };
        let mut series = vec![("our CPU machines".to_owned(), fleet(self.own))];
        series.extend(self.gpu_server.map(|gpu| ("GPU machines".to_owned(), fleet(gpu))));
        if let Some(api) = &self.api {
            let each = api.each.value();
            series.push((api.price.name.clone(), vec![(0.0, 0.0), (most, each * most)]));
        }
        let mut marks = vec![(self.requests, "this plan".to_owned())];
        if let Some(first) = self.crossover.and_then(|crossover| crossover.first) {
            marks.push((first, "as cheap as the API".to_owned()));
        }
        marks.retain(|(at, _)| *at <= most);
        Ok(Some(Lines {
            title: "Cost of a month, over its requests".to_owned(),
            x: "requests a month",
            y: format!("{} a month", session.currency.name()),
            series,
            marks,
        }))
    }
}
