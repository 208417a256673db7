//! `POST /gateway/explain`: where a request would go and why, told as data and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use ledger::Amount;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::Fault;

use crate::admin::words;
use crate::api;
use crate::asked::{Asked, Who};
use crate::exchange::{Considered, Exchange, Explained};
use crate::route::Route;
use crate::state::Shared;
use crate::wishes::Wishes;

/// The question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// The request's path.
    path: String,
    /// The request's body.
    body: Value,
    /// Headers that a request can be steered by: label, class, limit of time.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Name of the key whose request it would be.
    key: Option<String>,
}

/// Most headers of a question.
const MOST_HEADERS: usize = 64;

/// The answer to a question that has been found to be an administrator's.
///
/// # Errors
/// A question that is not understood, and whatever the request itself would be refused for.
pub(crate) async fn explain(shared: &Arc<Shared>, request: Request) -> Result<Value, Fault> {
    let context = httpd::context(&request).cloned();
    let context = context.ok_or_else(|| Fault::internal("the request has no context"))?;
    let read = httpd::body::read(&shared.edge, request, httpd::body::Media::Json).await?;
    let (body, memory) = read.decompressed(shared.edge.options.body_bytes)?;
    let question: Question = serde_json::from_slice(&body).map_err(Fault::not_json)?;
    let snapshot = shared.snapshot.load_full();
    let api = api::at(&question.path).ok_or_else(|| Fault::not_found(&question.path))?;
    let key = match &question.key {
        None => None,
        Some(name) => {
            let key = snapshot.keys.get(name).cloned();
            let missing = || Fault::field("key", format!("there is no key {}", wire::error::quote(name)));
            Some(key.ok_or_else(missing)?)
        }
    };
    let who = Who { key, tenant: context.client().0, request_id: context.request_id(), waits: false };
    let wishes = Wishes::read(&headers(&question.headers)?)?;
    let body = Bytes::from(question.body.to_string());
    let asked = Asked::of(&snapshot, api, &question.path, &wishes, who, (body, memory)).await?;
    let currency = snapshot.config.gateway.currency.clone();
    let exchange = Exchange::new(shared.clone(), snapshot, asked, context);
    Ok(told(exchange, &currency))
}

fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, Fault> {
    if given.len() > MOST_HEADERS {
        return Err(Fault::field("headers", format!("there are {}; at most {MOST_HEADERS}", given.len())));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let parsed = HeaderName::try_from(name.as_str()).ok().zip(HeaderValue::from_str(value).ok());
        let wrong = || Fault::field("headers", format!("{} cannot be sent", wire::error::quote(name)));
        let (name, value) = parsed.ok_or_else(wrong)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn told(exchange: Exchange, currency: &str) -> Value {
    let asked = exchange.asked();
    let mut told = json!({
        "model": asked.model,
        "label": asked.label.name(),
        "found": asked.found,
        "class": asked.class.name(),
        "prompt_tokens": asked.prompt_tokens,
        "max_tokens": asked.max_tokens,
        "stream": asked.stream,
        "currency": currency,
    });
    let mut text = String::new();
    let found =
        if asked.found.is_empty() { String::new() } else { format!(" (found: {})", asked.found.join(", ")) };
    let _ = writeln!(
        text,
        "model {} · label {}{found} · class {} · about {} prompt tokens, at most {} of the answer\n",
        asked.model,
        asked.label.name(),
        asked.class.name(),
        asked.prompt_tokens,
        asked.max_tokens,
    );
    let Explained { models, retries } = exchange.explain();
    for (place, (route, targets)) in models.iter().enumerate() {
        write_model(&mut text, place, route, targets, currency);
    }
    let _ = write!(text, "What follows a failed attempt:\n\n{}", aligned(&retries));
    if let Value::Object(map) = &mut told {
        let models = models.iter().map(|(route, targets)| {
            json!({"model": route.name(), "targets": targets.iter().map(target).collect::<Vec<_>>()})
        });
        map.insert("models".to_owned(), models.collect());
        map.insert("retries".to_owned(), retries.into());
        map.insert("text".to_owned(), text.into());
    }
    told
}

fn target(considered: &Considered) -> Value {
    json!({
        "upstream": considered.target.upstream.name.as_str(),
        "model": considered.target.model,
        "tier": words::tier(considered.target.upstream.tier),
        "wait_s": considered.wait_s,
        "prefill_s": considered.prefill_s,
        "decode_s": considered.decode_s,
        "cached": considered.cached,
        "price": considered.price.map(price),
        "chosen": considered.chosen,
        "verdict": considered.verdict,
    })
}

fn price(nanos: u64) -> String {
    Amount::from_nano(i64::try_from(nanos).unwrap_or(i64::MAX)).to_string()
}

/// A model's targets as a table.
fn write_model(text: &mut String, place: usize, route: &Route, targets: &[Considered], currency: &str) {
    let role = if place == 0 { "first" } else { "then, as a fallback" };
    let _ = writeln!(text, "{role}: model {}", route.name());
    if targets.is_empty() {
        text.push_str("  no target that the request's key may ask\n\n");
        return;
    }
    let head = ["upstream", "model there", "tier", "wait", "prompt", "answer", "cached", "price", "verdict"];
    let mut rows = vec![head.map(str::to_owned)];
    for considered in targets {
        let seconds = |seconds: f64| match seconds.is_finite() {
            true => format!("{seconds:.2} s"),
            false => "–".to_owned(),
        };
        rows.push([
            considered.target.upstream.name.clone(),
            considered.target.model.clone(),
            words::tier(considered.target.upstream.tier).to_owned(),
            seconds(considered.wait_s),
            seconds(considered.prefill_s),
            seconds(considered.decode_s),
            considered.cached.to_string(),
            considered.price.map_or_else(|| "–".to_owned(), |nanos| format!("{} {currency}", price(nanos))),
            considered.verdict.clone(),
        ]);
    }
    text.push_str(&columns(&rows));
    text.push('\n');
}

/// Rows with columns of equal width, two spaces apart.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:<width$} ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A Markdown table as columns.
fn aligned(table: &str) -> String {
    let rows = table.lines().filter(|line| !line.starts_with("|---")).filter_map(|line| {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        <[String; 5]>::try_from(cells).ok()
    });
    columns(&rows.collect::<Vec<_>>())
}
