//! A small model first: its answer is held back until it is judged, given up as soon as it wavers, and the larger model
//! asked instead. Both stand on the bill.

mod assemble;
mod compare;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::http::StatusCode;
use bytes::Bytes;
use privacy::Permit;
use routing::{Failure, Limit};
use translation::{Dialect, Ending, Framing};
use wire::Fault;

use super::attempt::{Opened, Started, StartedBody, Stream, Wanted, framing, started};
use super::relay::Relay;
use super::request::{Cascading, Exchange, Failed, Measured, Refusal, Step};
use crate::cascade::Margins;
use crate::config::{Cascade, CascadeWhen, Kind};
use crate::route::{Flight, Route};
use crate::translate;
use crate::upstream::Upstream;

/// Words of an attempt at the larger model.
pub(super) const WHY: &str = "cascade";

/// What came of an answer that was held back.
enum Held {
    /// All of it is here.
    Whole,
    /// It goes to the client while the rest comes.
    Released,
    Unsure,
    Failed(Failure),
}

/// The small model's answer as it is held back.
struct Holding {
    opened: Box<Opened>,
    relay: Box<Relay>,
    margins: Margins,
    /// What the client would get so far; of an unstreamed request, chat events.
    ready: Vec<u8>,
    first_content: Option<Instant>,
}

impl Exchange {
    /// Puts the larger model among those that are asked: first where a rule says so, else behind the small one.
    pub(super) fn plan_cascade(&self, models: &mut Vec<Arc<Route>>) {
        let Some(small) = models.first().cloned() else { return };
        let Some(settings) = small.model().cascade.clone() else { return };
        let Some(larger) = self.snapshot.route(&settings.larger).cloned() else { return };
        // A model that the key or the label excludes does not answer in another's place, and nobody is judged for it.
        let reaches = larger.all().iter().any(|target| self.is_open(target));
        if !self.asked.api.generates || !self.may_use(&larger) || !reaches {
            return;
        }
        let step = match (self.rule_says(&settings), settings.when) {
            (true, _) => Step::Larger,
            (false, CascadeWhen::Margin) if self.can_be_judged() => Step::Judge,
            (false, _) => return,
        };
        models.retain(|route| route.name() != larger.name());
        models.insert(usize::from(step == Step::Judge), larger.clone());
        if step == Step::Judge {
            // Where the larger one fails, an answer of which nobody is sure is better than none.
            models.push(small.clone());
        }
        let share = crate::hashing::hash(self.asked.request_id.as_bytes()) as f64 / u64::MAX as f64;
        let both = step == Step::Judge && share < settings.both;
        let step = Mutex::new(step);
        // Planned once for each request.
        let _ = self.cascading.set(Cascading { small, larger, settings, step, both });
    }

    fn rule_says(&self, rules: &Cascade) -> bool {
        let head = &self.asked.head;
        // Prompts grow within a tool loop, and a loop keeps its model; tools and media stay in it.
        let is_long = rules.prompt_tokens.is_some_and(|most| self.asked.prompt_tokens > most);
        (is_long && !head.tool_turn) || (rules.media && head.has_media) || (rules.tools && head.has_tools)
    }

    /// Whether the small model's answer can be held back and its log-probabilities read.
    fn can_be_judged(&self) -> bool {
        let asked = &self.asked;
        let head = &asked.head;
        let own = asked.api.dialect == Dialect::OpenAiChat;
        // Log-probabilities that the client asked for pass where they are those that the gateway needs.
        let theirs = !head.logprobs || own && head.raw_field(&asked.body, "top_logprobs") == Some(b"2");
        asked.api.native.is_translated() && theirs && !head.tool_turn && head.n <= 1 && !head.stateful
    }

    /// Whether the answer of an attempt at this model is to be judged.
    pub(super) fn judges(&self, route: &Route) -> bool {
        let is_small =
            |cascade: &Cascading| cascade.step() == Step::Judge && cascade.small.name() == route.name();
        self.cascading.get().is_some_and(is_small)
    }

    /// Whether an attempt at this model is one at the cascade's larger one.
    pub(super) fn is_larger(&self, route: &Route) -> bool {
        let is_it =
            |cascade: &Cascading| cascade.step() == Step::Larger && cascade.larger.name() == route.name();
        self.cascading.get().is_some_and(is_it)
    }

    /// Whether the small model was given up.
    pub(super) fn is_given_up(&self, route: &Route) -> bool {
        let given_up =
            |cascade: &Cascading| cascade.step() == Step::Larger && cascade.small.name() == route.name();
        self.cascading.get().is_some_and(given_up)
    }

    /// The dialect in which an upstream is asked: chat, where log-probabilities are read, if it speaks that too.
    pub(super) fn dialect_for(&self, route: &Route, upstream: &Upstream) -> Option<Dialect> {
        let is_judged = |cascade: &Cascading| {
            cascade.step() != Step::Larger && cascade.small.name() == route.name() && self.can_be_judged()
        };
        let speaks_chat = matches!(upstream.kind, Kind::Gristmill | Kind::OpenAi | Kind::Azure);
        if speaks_chat && self.cascading.get().is_some_and(is_judged) {
            return Some(Dialect::OpenAiChat);
        }
        upstream.dialect(self.asked.api)
    }

    fn step(&self, step: Step) {
        if let Some(cascade) = self.cascading.get() {
            cascade.set(step);
        }
    }

    /// Asks the small model, and holds its answer back until it is judged. An answer that wavers is a failed attempt.
    pub(super) async fn judged(
        &self,
        route: &Arc<Route>,
        flight: Flight,
        permit: Permit,
        why: &'static str,
    ) -> Result<Started, Failed> {
        let wanted = Wanted { judge: true, ..Wanted::default() };
        let opened = self.open(route, flight, permit, why, &wanted).await?;
        let is_stream = framing(&opened.answer.headers) == Framing::Events;
        if opened.dialect != Dialect::OpenAiChat || !is_stream {
            // Nothing to judge by.
            self.step(Step::Released);
            let passes = self.asked.stream && is_stream;
            return if passes { self.first_content(route, opened).await } else { self.whole(opened).await };
        }
        let Some(cascade) = self.cascading.get() else {
            return self.first_content(route, opened).await;
        };
        let (settings, both) = (cascade.settings.clone(), cascade.both);
        let mut options = self.relay_options(route, &opened);
        options.strip_logprobs = !self.asked.head.logprobs;
        options.keep |= both;
        if !self.asked.stream {
            options.client = Dialect::OpenAiChat;
            options.strip_usage = false;
        }
        let mut holding = Holding {
            relay: Box::new(Relay::new(&options)),
            opened,
            margins: Margins::new(settings.window),
            ready: Vec::new(),
            first_content: None,
        };
        let held = self.hold(&mut holding, &settings, both).await;
        let sure = |margins: &Margins| margins.of_all().is_none_or(|margin| margin >= settings.margin);
        if both && matches!(held, Held::Whole) {
            self.compare(&holding.margins, holding.relay.text());
        }
        match held {
            Held::Failed(failure) => Err(self.held_failed(holding, failure)),
            Held::Unsure => Err(self.unsure(holding)),
            Held::Whole if !sure(&holding.margins) && !holding.relay.calls_tools() => {
                Err(self.unsure(holding))
            }
            Held::Whole if !self.asked.stream => {
                self.step(Step::Released);
                self.assembled(holding)
            }
            Held::Whole | Held::Released => {
                self.step(Step::Released);
                let Holding { opened, relay, ready, first_content, .. } = holding;
                Ok(started(Stream { opened, relay, ready, route: route.clone() }, first_content))
            }
        }
    }

    /// Reads the small model's answer until it can be judged.
    async fn hold(&self, holding: &mut Holding, settings: &Cascade, both: bool) -> Held {
        let times = holding.opened.target.upstream.times;
        let whole = both || settings.holds_whole(self.asked.stream);
        let limit = self.snapshot.config.gateway.answer_bytes;
        loop {
            let wait = match holding.first_content {
                None => holding.opened.bill.began() + times.first_byte,
                Some(_) => Instant::now() + times.idle,
            };
            let until = tokio::time::Instant::from(wait).min(holding.opened.deadline);
            let Holding { opened, relay, margins, ready, first_content } = &mut *holding;
            match tokio::time::timeout_at(until, opened.answer.chunk()).await {
                // What follows the last event does not matter.
                Err(_) | Ok(Err(_)) if relay.is_over() && relay.error().is_none() => return Held::Whole,
                Err(_) if first_content.is_none() => return Held::Failed(Failure::Timeout(Limit::FirstByte)),
                Err(_) => return Held::Failed(Failure::Timeout(Limit::Idle)),
                Ok(Err(_)) => return Held::Failed(Failure::Reset),
                Ok(Ok(None)) => {
                    return match relay.ending(ready) {
                        Ok(Ending::Complete) => Held::Whole,
                        Ok(Ending::Error) => Held::Failed(self.stream_failure(relay)),
                        Ok(Ending::Cut) | Err(_) => Held::Failed(Failure::Cut),
                    };
                }
                Ok(Ok(Some(bytes))) => {
                    margins.feed(&bytes);
                    if relay.feed(&bytes, ready).is_err() {
                        return Held::Failed(Failure::MalformedStream);
                    }
                }
            }
            if relay.error().is_some() {
                return Held::Failed(self.stream_failure(relay));
            }
            if relay.has_content() {
                first_content.get_or_insert_with(Instant::now);
            }
            // A call that has begun is not taken back: its model sees the loop through.
            let calls = relay.calls_tools();
            if !both && !calls && margins.worst().is_some_and(|worst| worst < settings.margin) {
                return Held::Unsure;
            }
            let too_long = ready.len() > limit;
            if self.asked.stream && (calls || too_long || !whole && is_window(settings, margins, relay)) {
                return Held::Released;
            }
            if too_long {
                return Held::Failed(Failure::MalformedStream);
            }
        }
    }

    /// Settles an answer that wavers: its tokens so far are paid for, its connection is dropped.
    fn unsure(&self, holding: Holding) -> Failed {
        self.step(Step::Larger);
        let known = measured(&holding);
        holding.opened.bill.unsure(self, &known);
        let message = "the small model was not sure of its answer, and the larger one was not asked";
        let refusal = Refusal::Fault(Fault::unavailable("no_upstream", message, 1));
        Failed { failure: Failure::Cut, refusal }
    }

    fn held_failed(&self, holding: Holding, failure: Failure) -> Failed {
        let name = holding.opened.target.upstream.name.clone();
        let why = match (holding.relay.error(), failure) {
            (Some(error), _) => error.message.clone(),
            (None, Failure::Timeout(_)) => "it fell silent".to_owned(),
            _ => "its answer is not whole".to_owned(),
        };
        let message = format!("upstream {name:?} failed: {why}");
        let refusal = Refusal::Fault(Fault::unavailable("upstream_failed", message, 1));
        self.failed(holding.opened.bill, Failed { failure, refusal }, StatusCode::OK.as_u16())
    }

    /// The whole answer of a request without a stream, put together from the stream that was judged.
    fn assembled(&self, holding: Holding) -> Result<Started, Failed> {
        let ending = measured(&holding);
        let opened = holding.opened;
        let client = self.asked.api.dialect;
        let body = assemble::completion(&holding.ready);
        let body = match body {
            Some(body) if client == Dialect::OpenAiChat => Ok(body),
            Some(body) => translate::answer(Dialect::OpenAiChat, client, &body, &self.asker()),
            None => Err(Fault::internal("the upstream's stream has no answer")),
        };
        match body {
            Ok(body) => {
                let body = opened.restored(Bytes::from(body));
                let body = StartedBody::Whole { body, bill: Box::new(opened.bill), ending };
                Ok(Started { target: opened.target, first_content: holding.first_content, body })
            }
            Err(fault) => {
                let failed = Failed { failure: Failure::MalformedStream, refusal: Refusal::Fault(fault) };
                Err(self.failed(opened.bill, failed, StatusCode::OK.as_u16()))
            }
        }
    }
}

/// Whether the first window is here; events count for tokens where an upstream sends no log-probabilities.
fn is_window(settings: &Cascade, margins: &Margins, relay: &Relay) -> bool {
    let window = settings.window as u64;
    margins.tokens() >= window || margins.tokens() == 0 && relay.content_events() > window
}

fn measured(holding: &Holding) -> Measured {
    let began = holding.opened.bill.began();
    let total_s = began.elapsed().as_secs_f64();
    let first = holding.first_content.map(|at| at.saturating_duration_since(began).as_secs_f64());
    let events = holding.relay.content_events();
    Measured { usage: holding.relay.usage(), events, first_s: first.unwrap_or(total_s), total_s }
}
