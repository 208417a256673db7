//! Whatever is configured and whatever fails, a request goes only where its label lets it go.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use inference::{Owner, RequestContext, Shares};
use privacy::Label;
use routing::{Failure, Limit, Outcome, Random};
use wire::Fault;

use super::attempt::Opened;
use super::relay::Relay;
use super::*;
use crate::asked::{Asked, Who};
use crate::route::Flight;
use crate::server::{Gateway, read_config};
use crate::wishes::Wishes;

const LABELS: [&str; 3] = ["public", "internal", "secret"];

/// A configuration of some upstreams and models, whose fallbacks lead to later ones.
fn config(random: &mut Random) -> String {
    let upstreams = 1 + random.below(5);
    let mut text = String::new();
    for at in 0..upstreams {
        let kind = ["gristmill", "openai", "anthropic", "gemini"][random.below(4)];
        let tier = ["own", "rented", "metered"][random.below(3)];
        text.push_str(&format!(
            "[[upstream]]\nname = \"u{at}\"\nurl = \"http://127.0.0.1:1\"\nkind = \"{kind}\"\ntier = \"{tier}\"\n"
        ));
        if random.below(3) > 0 {
            text.push_str(&format!("clearance = \"{}\"\n", LABELS[random.below(3)]));
        }
    }
    let models = 1 + random.below(4);
    let mut used = vec![false; upstreams];
    for at in 0..models {
        let mut targets = Vec::new();
        for (upstream, used) in used.iter_mut().enumerate() {
            // Every upstream is somebody's target, as the check wants it.
            if random.below(2) == 0 || (at + 1 == models && !*used) {
                *used = true;
                targets.push(format!("{{ upstream = \"u{upstream}\" }}"));
            }
        }
        if targets.is_empty() {
            targets.push("{ upstream = \"u0\" }".to_owned());
            used[0] = true;
        }
        let later: Vec<String> =
            (at + 1..models).filter(|_| random.below(2) == 0).map(|m| format!("\"m{m}\"")).collect();
        let on_cut = ["resume", "replay", "error"][random.below(3)];
        text.push_str(&format!(
            "[[model]]\nname = \"m{at}\"\ntargets = [{}]\nfallbacks = [{}]\non_cut = \"{on_cut}\"\n",
            targets.join(", "),
            later.join(", ")
        ));
        if random.below(3) == 0 {
            text.push_str(&format!("label = \"{}\"\n", LABELS[random.below(3)]));
        }
    }
    if random.below(2) == 0 {
        text.push_str("[privacy]\n");
    }
    text
}

fn failure(random: &mut Random) -> Failure {
    [
        Failure::NotWritten,
        Failure::Connect,
        Failure::Refused { retry_after: None },
        Failure::Timeout(Limit::FirstByte),
        Failure::Reset,
        Failure::Status(500),
        Failure::Status(401),
        Failure::ContextLength,
        Failure::ContentFilter,
        Failure::Cut,
    ][random.below(10)]
}

/// A request with its true label: what its header says, and what its text holds.
async fn exchange(gateway: &Gateway, random: &mut Random) -> Option<Exchange> {
    let snapshot = gateway.shared.snapshot.load_full();
    let model = format!("m{}", random.below(snapshot.routes.len()));
    let text = ["What is a mill?", "Is 4111 1111 1111 1111 a valid card?"][random.below(2)];
    let body = serde_json::json!({
        "model": model, "stream": random.below(2) == 0, "messages": [{"role": "user", "content": text}],
    });
    let mut headers = HeaderMap::new();
    if random.below(3) > 0 {
        headers.insert("x-gristmill-label", HeaderValue::from_static(LABELS[random.below(3)]));
    }
    let wishes = Wishes::read(&headers).unwrap();
    let api = crate::api::at("/v1/chat/completions").unwrap();
    let who = Who { key: None, tenant: 0, request_id: "r".to_owned(), waits: false };
    let memory = Shares::new(1 << 20, 1 << 20).take(Owner::Key(1), 0).unwrap();
    let body = (Bytes::from(body.to_string()), memory);
    let asked = Asked::of(&snapshot, api, api.path, &wishes, who, body).await.ok()?;
    let context = RequestContext::new(None, "r".to_owned(), "POST", None, None, None);
    Some(Exchange::new(gateway.shared.clone(), snapshot, asked, context))
}

/// Walks the attempts of a request as they are made, each of which fails somehow; how many there were.
fn walk(exchange: &Exchange, random: &mut Random) -> usize {
    let mut attempts = 0;
    let mut check = |flight: Flight, permit: privacy::Permit, random: &mut Random| {
        let clearance = flight.target().upstream.clearance;
        assert!(exchange.asked.label <= clearance.0, "{} at {clearance:?}", exchange.asked.label);
        assert_eq!((permit.label(), permit.clearance()), (exchange.asked.label, clearance));
        attempts += 1;
        let target = flight.target().clone();
        // Most are given up, so that not all targets are left alone as failing.
        let failed = random.below(8) == 0;
        flight.finish(&if failed { Outcome::Failed(failure(random)) } else { Outcome::Cancelled });
        target
    };
    for route in exchange.models() {
        let mut tried: Vec<Arc<Target>> = Vec::new();
        for count in 0..3 {
            let Ok((flight, permit)) = exchange.pick(&route, &tried, None) else { break };
            let target = check(flight, permit, random);
            if let Ok((flight, permit)) = exchange.pick_equal(&route, &target) {
                check(flight, permit, random);
            }
            if let Ok((flight, permit)) = exchange.pick_beside(&route, &target) {
                check(flight, permit, random);
            }
            let refusal = Refusal::Fault(Fault::internal("x"));
            let failed = Failed { failure: failure(random), refusal };
            let others = exchange.has_others(&route, &tried, &target);
            match exchange.after(&failed, &target, count, others) {
                After::Stop | After::NextModel => break,
                After::Other => tried.push(target),
                After::Again(_) => {
                    if let Ok((flight, permit)) = exchange.pick(&route, &tried, Some(&target)) {
                        check(flight, permit, random);
                    }
                }
            }
        }
    }
    attempts
}

#[tokio::test]
async fn no_request_goes_where_its_label_forbids() {
    let mut random = Random::new(11);
    let (mut requests, mut attempts, mut secret) = (0_u32, 0, 0_u32);
    // A thousand configurations with a hundred requests each: configurations take most of the time.
    for _ in 0..1_000 {
        let text = config(&mut random);
        let config = read_config(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let secrets = Box::new(|_: &crate::secret::Secret<'_>| Err("none".to_owned()));
        let gateway = Gateway::new(config, httpd::Options::default(), secrets).await.unwrap();
        for _ in 0..100 {
            let Some(exchange) = exchange(&gateway, &mut random).await else { continue };
            requests += 1;
            secret += u32::from(exchange.asked.label == Label::Secret);
            attempts += walk(&exchange, &mut random);
        }
    }
    assert!(requests == 100_000 && secret > 30_000 && attempts > 60_000, "{requests} {secret} {attempts}");
}

/// Every request is moved into a box of this size, and a stream keeps a part of it for as long as it lasts.
#[tokio::test]
async fn what_a_request_takes_is_small() {
    let mut random = Random::new(1);
    let read = read_config(&config(&mut random)).unwrap();
    let secrets = Box::new(|_: &crate::secret::Secret<'_>| Err("none".to_owned()));
    let gateway = Gateway::new(read, httpd::Options::default(), secrets).await.unwrap();
    let exchange = exchange(&gateway, &mut random).await.unwrap();
    let asks = size_of_val(&Box::new(exchange).answer_cached());
    let streams = size_of::<Exchange>() + size_of::<Opened>() + size_of::<Relay>();
    assert!(asks <= 8 << 10 && streams <= 3 << 10, "{asks} bytes, {streams} in a stream");
}
