//! Figures that others have published, computed again. docs/plan.md says where they differ, and why.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use planner::cost::{self, HOURS_A_MONTH, OperatingPoint, Request, Server};
use planner::tables::{self, ApiPrice};
use planner::tco::{self, Purchase, Rent};
use planner::{Money, hybrid, volume};

fn server(price_per_hour: &str, tokens_per_s: f64) -> Server {
    Server::new("own", Money::parse(price_per_hour).unwrap(), tokens_per_s, None, 1.0).unwrap()
}

fn api(name: &str) -> ApiPrice {
    tables::prices(&[]).unwrap().into_iter().find(|price| price.name == name).unwrap()
}

#[test]
fn cost_per_million_at_79_cents_an_hour() {
    let published = [
        (60.00, "3.66"),
        (124.81, "1.76"),
        (123.95, "1.77"),
        (97.35, "2.25"),
        (95.55, "2.30"),
        (71.87, "3.05"),
        (67.32, "3.26"),
        (53.83, "4.08"),
        (39.75, "5.52"),
        (25.36, "8.65"),
        (23.83, "9.21"),
    ];
    for (tokens_per_s, dollars) in published {
        assert_eq!(
            server("0.79", tokens_per_s).output_per_million().text(2),
            dollars,
            "{tokens_per_s} tokens/s"
        );
    }
}

#[test]
fn a_month_of_79_cents_an_hour() {
    // Published as 575: a price an hour of two places, 0.785 to 0.795, is 573.05 to 580.35 a month.
    let month = server("0.79", 60.0).price_per_month();
    assert_eq!(month.text(2), "576.70");
    let rounded = |price: &str| server(price, 60.0).price_per_month();
    assert!((rounded("0.785")..rounded("0.795")).contains(&Money::from_f64(575.0)));
}

#[test]
fn the_machine_of_the_study_has_a_row() {
    let machines = tables::machines(&[]).unwrap();
    let machine = machines.iter().find(|machine| machine.name == "rackspace-gp.5.24.96").unwrap();
    assert_eq!(machine.cores, 24);
    assert_eq!(machine.price_per_hour.unwrap().text(2), "0.79");
}

#[test]
fn tickets_at_two_apis() {
    let ticket = Request::new(500, 300, 0.0).unwrap();
    let month = |name: &str, count| api(name).requests(&ticket, count).unwrap().text(2);
    assert_eq!(month("gpt-4o-mini", 100_000), "25.50");
    assert_eq!(month("claude-sonnet-4.5", 100_000), "600.00");
    assert_eq!(month("gpt-4o-mini", 500_000), "127.50");
    assert_eq!(month("claude-sonnet-4.5", 500_000), "3,000.00");
}

/// What the source of the tickets leaves out: 500,000 of them are 150 million tokens out, nearly all that one machine of
/// 60 tokens/s generates in a month.
#[test]
fn the_tickets_fill_one_machine() {
    let one = server("0.79", 60.0);
    assert_eq!((one.tokens_per_month() / 1e5).round() / 10.0, 157.7);
    let ticket = Request::new(500, 300, 0.0).unwrap();
    let month = volume::fleet(&one, &ticket, 500_000.0);
    assert_eq!((month.machines, (month.used * 100.0).round()), (1, 95.0));
    assert_eq!(volume::fleet(&one, &ticket, 530_000.0).machines, 2);
}

#[test]
fn machines_for_ten_tokens_a_second() {
    let slow = server("0.10", 10.0);
    let response = Request::new(0, 100, 0.0).unwrap();
    let an_hour = slow.requests_per_hour(&response);
    assert_eq!(an_hour / 60.0, 6.0);
    assert_eq!(Server::machines(1_000.0, an_hour), 3);
    assert_eq!(Server::machines(10_000.0, an_hour), 28);
}

#[test]
fn a_chatbot_of_5000_requests_a_day() {
    let gpu = Money::parse("0.70").unwrap().times(HOURS_A_MONTH);
    let cpu = Money::from_f64(60.0).times_int(3);
    assert_eq!((gpu.text(2).as_str(), cpu.text(2).as_str()), ("511.00", "180.00"));
    assert_eq!((cost::saving_share(gpu, cpu).unwrap() * 1000.0).round() / 10.0, 64.8);
}

#[test]
fn a_hybrid_of_nine_tenths() {
    let blended = hybrid::blended(0.9, Money::parse("0.20").unwrap(), Money::from_f64(2.0)).unwrap();
    assert_eq!(blended.text(2), "0.38");
}

/// Published as "55 % less".
#[test]
fn three_years_in_three_parts() {
    let total = |parts: [f64; 3]| parts.into_iter().map(|part| Money::from_f64(part * 1000.0)).sum::<Money>();
    let (gpu, cpu) = (total([420.0, 380.0, 60.0]), total([180.0, 45.0, 120.0]));
    assert_eq!((gpu.text(0).as_str(), cpu.text(0).as_str()), ("860,000", "345,000"));
    assert_eq!((cost::saving_share(gpu, cpu).unwrap() * 1000.0).round() / 10.0, 59.9);
}

/// Published as "month 9" and "280 k$ by month 24".
#[test]
fn breaking_even() {
    let purchase = Purchase {
        hardware: Money::from_f64(160_000.0),
        other_per_month: Money::from_f64(10_000.0),
        amortization_months: 36.0,
        ..Purchase::default()
    };
    let rent = Rent { per_month: Money::from_f64(23_000.0), ..Rent::default() };
    let found = tco::compare(&purchase, &rent, 24).unwrap();
    assert_eq!((found.break_even_months.unwrap() * 10.0).round() / 10.0, 12.3);
    assert_eq!(found.saved.text(2), "152,000.00");
}

/// Published as "$0.50".
#[test]
fn eleven_tokens_a_second_at_a_quarter() {
    assert_eq!(server("0.25", 11.2).output_per_million().text(2), "6.20");
}

#[test]
fn the_cheapest_load_within_the_target() {
    let point = |name: &str, requests_per_s, p95_ms| OperatingPoint {
        name: name.to_owned(),
        price_per_hour: Money::from_f64(0.36),
        requests_per_s,
        p95_ms,
    };
    let points = [point("1", 0.5, 900.0), point("4", 1.0, 1_800.0), point("8", 1.25, 4_000.0)];
    let best = cost::cheapest_within(&points, 2_000.0).unwrap();
    assert_eq!((best.name.as_str(), best.per_thousand().text(2).as_str()), ("4", "0.10"));
    let refused = cost::cheapest_within(&points, 500.0).unwrap_err().to_string();
    assert_eq!(refused, "slo.latency_p95_ms: 500 ms is impossible: the fastest load measured, 1, has 900 ms");
    assert_eq!(
        cost::cheapest_within(&[], 1.0).unwrap_err().to_string(),
        "the list of measured loads is empty"
    );
}

#[test]
fn a_cached_prompt_costs_less_in_both_ways() {
    let plain = Request::new(2000, 100, 0.0).unwrap();
    let cached = Request { cached_share: 0.75, ..plain };
    let own = Server::new("own", Money::from_f64(0.36), 50.0, Some(500.0), 1.0).unwrap();
    // 4 s of prompt and 2 s of answer; cached, 1 s and 2 s.
    assert_eq!((own.seconds(&plain), own.seconds(&cached)), (6.0, 3.0));
    assert_eq!(own.per_request(&plain), own.per_request(&cached).times_int(2));
    let mini = api("gpt-4o-mini");
    // A million: 2,000 M in at 0.15 and 100 M out at 0.60; 1,500 M of those in at 0.075.
    assert_eq!(mini.requests(&plain, 1_000_000).unwrap().text(2), "360.00");
    assert_eq!(mini.requests(&cached, 1_000_000).unwrap().text(2), "247.50");
    let uncached = ApiPrice { cached: None, ..mini };
    let said = uncached.requests(&cached, 1).unwrap_err().to_string();
    assert!(said.starts_with("price `gpt-4o-mini`: cached is missing"), "{said}");
}
