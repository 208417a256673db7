//! The choices of a request in the engine, read through one channel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use engine::{FinishReason, MatchedStop, Refused, Ticket, TokenLogprobs};
use events::{Event, Rejection};
use text::{Part, Parts, Style};
use tokio::sync::mpsc::{self, Receiver};
use wire::logprobs::{Position, Scored};
use wire::{Cost, Fault, StopReason, Usage};

use crate::admission::Permit;
use crate::calls::CallIds;
use crate::outbox::{Group, News, Outbox};
use crate::plan::Plan;
use crate::state::State;
use crate::visit;
use crate::{Price, Served};

/// A running request. Dropped, it cancels its choices and frees its places.
pub(crate) struct Generation {
    pub(crate) served: Arc<Served>,
    pub(crate) plan: Plan,
    /// How many answers there will be.
    pub(crate) choices: usize,
    news: Receiver<(usize, News)>,
    tally: Tally,
    /// What the machine costs, if this request is to say what it cost.
    price: Option<Price>,
    /// A choice: its text so far as parts.
    readers: Vec<Parts>,
    pub(crate) call_ids: CallIds,
    _tickets: Vec<Ticket>,
    _permit: Permit,
}

/// What a choice has to say, read.
pub(crate) enum Told {
    /// The log-probabilities of its prompt, before its first token.
    Prompt(Vec<TokenLogprobs>),
    /// A token, with the parts of the answer that it made certain: perhaps none.
    Token { parts: Vec<Part>, id: u32, logprobs: Option<TokenLogprobs> },
    /// The end, with what was held back.
    Done { parts: Vec<Part>, end: End },
}

/// Why an answer ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct End {
    /// `stop`, `length` or `tool_calls`.
    pub(crate) reason: &'static str,
    /// Which of the request's stops was met.
    pub(crate) stop: Option<StopReason>,
}

impl End {
    /// The stop string that was met.
    pub(crate) fn sequence(&self) -> Option<&str> {
        match &self.stop {
            Some(StopReason::Text(text)) => Some(text),
            Some(StopReason::Id(_)) | None => None,
        }
    }
}

impl Told {
    /// The parts, and at the end why it is one.
    pub(crate) fn split(self) -> (Vec<Part>, Option<End>) {
        match self {
            Told::Prompt(_) => (Vec::new(), None),
            Told::Token { parts, .. } => (parts, None),
            Told::Done { parts, end } => (parts, Some(end)),
        }
    }
}

/// What has ended so far.
#[derive(Default)]
struct Tally {
    open: usize,
    prompt_tokens: usize,
    cached_tokens: usize,
    completion_tokens: usize,
    prompt_time: Duration,
    completion_time: Duration,
}

impl Generation {
    /// Hands the choices to the engine.
    pub(crate) fn start(
        state: &State,
        served: Arc<Served>,
        mut plan: Plan,
        permit: Permit,
        arrived: Instant,
    ) -> Result<Generation, Fault> {
        let choices = plan.choices();
        let context = served.engine.context();
        if let Some(long) = plan.prompts.iter().find(|p| p.len() >= context) {
            let fault = Fault::context(plan.prompt_field, long.len(), context);
            return Err(state.refused(Rejection::Context, fault));
        }
        let price = price(state, &plan)?;
        // A whole answer is read as it comes and held anyway; a stream may be a bounded number of events behind.
        let events = if plan.stream.on {
            state.options.stream_events
        } else {
            (plan.template.max_tokens.unwrap_or(context).min(context) + 3) * choices
        };
        let (sender, news) = mpsc::channel(events.min(tokio::sync::Semaphore::MAX_PERMITS));
        let overflow = Arc::new(AtomicBool::new(false));
        let mut tickets = Vec::with_capacity(choices);
        let mut prompt_tokens = 0;
        let visit = visit::current();
        if let Some(visit) = &visit {
            visit.submits(served.name());
        }
        let wanted = plan.ids.returned || plan.template.prompt_logprobs.is_some();
        let kept = if wanted { plan.prompts.clone() } else { Vec::new() };
        for (p, prompt) in std::mem::replace(&mut plan.prompts, kept).into_iter().enumerate() {
            prompt_tokens += prompt.len();
            let group = Arc::new(Group::new(plan.n));
            for k in 0..plan.n {
                let mut request = plan.template.clone();
                request.prompt.clone_from(&prompt);
                if k > 0 && !plan.stream.on {
                    // One answer's are those of all; in a stream any of them may begin first.
                    request.prompt_logprobs = None;
                }
                // Answers to one prompt differ; the first is the one that the seed alone would give.
                request.params.seed = request.params.seed.map(|seed| seed.wrapping_add(k as u64));
                let outbox = Outbox {
                    choice: p * plan.n + k,
                    sender: sender.clone(),
                    metrics: state.metrics.clone(),
                    admission: state.admission.clone(),
                    group: group.clone(),
                    overflow: overflow.clone(),
                    arrived,
                    last: None,
                    max_tokens: plan.template.max_tokens,
                    visit: visit.clone(),
                };
                let ticket = served.engine.submit(request, Box::new(outbox));
                tickets.push(ticket.map_err(|refused| fault_of(state, refused, plan.prompt_field))?);
            }
        }
        let tally = Tally { open: choices, prompt_tokens, ..Tally::default() };
        let readers = (0..choices).map(|_| Parts::new(&plan.reading)).collect();
        let call_ids = CallIds::new(plan.reading.style == Some(Style::Mistral));
        Ok(Generation {
            served,
            plan,
            choices,
            news,
            tally,
            price,
            readers,
            call_ids,
            _tickets: tickets,
            _permit: permit,
        })
    }

    pub(crate) fn poll(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(usize, Told), Fault>> {
        self.news.poll_recv(context).map(|news| self.accept(news))
    }

    pub(crate) async fn next(&mut self) -> Result<(usize, Told), Fault> {
        let news = self.news.recv().await;
        self.accept(news)
    }

    /// Keeps count, reads the text; turns ends that are no answer into faults.
    fn accept(&mut self, news: Option<(usize, News)>) -> Result<(usize, Told), Fault> {
        let Some((choice, news)) = news else {
            // All outboxes are gone and not all choices have ended: the reader was cut off.
            return Err(Fault::internal("the reader of this answer fell too far behind; it was cut off"));
        };
        let reader = &mut self.readers[choice];
        let told = match news {
            News::Prompt(logprobs) => Told::Prompt(logprobs),
            News::Token { text, id, logprobs } => Told::Token { parts: reader.push(&text), id, logprobs },
            News::Failed(error) => return Err(fault_of_error(&error)),
            News::Done { reason: FinishReason::Cancelled, .. } => {
                return Err(Fault::unavailable(
                    "draining",
                    "the server shut down before the answer was complete",
                    5,
                ));
            }
            News::Done { text, reason, matched_stop, usage } => {
                self.tally.open -= 1;
                self.tally.completion_tokens += usage.completion_tokens;
                self.tally.prompt_time += usage.prompt_time;
                self.tally.completion_time += usage.completion_time;
                if choice % self.plan.n == 0 {
                    self.tally.cached_tokens += usage.cached_tokens;
                }
                let mut parts = reader.push(&text);
                parts.extend(reader.finish(reason == FinishReason::Length));
                let called = reason == FinishReason::Stop && reader.calls() > 0;
                let stop = matched_stop.map(|stop| match stop {
                    MatchedStop::Id(id) => StopReason::Id(id),
                    MatchedStop::Text(text) => StopReason::Text(text),
                });
                Told::Done {
                    parts,
                    end: End { reason: if called { "tool_calls" } else { reason.name() }, stop },
                }
            }
        };
        Ok((choice, told))
    }

    /// Whether every choice has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.tally.open == 0
    }

    /// Counts so far; a prompt counts once, however many answers it has.
    pub(crate) fn usage(&self) -> Usage {
        let Tally { prompt_tokens, completion_tokens, cached_tokens, .. } = self.tally;
        let seconds = [self.tally.prompt_time, self.tally.completion_time].map(|time| time.as_secs_f64());
        let cost = self.price.map(|price| Cost::new(price.currency, price.per_hour, seconds[0], seconds[1]));
        Usage { cost, ..Usage::new(prompt_tokens, completion_tokens, cached_tokens) }
    }

    /// The log-probabilities of a token, unless it is one that ends the answer: that has no text. After an echoed prompt it is
    /// there all the same: who scores a text with `max_tokens: 1` (lm-evaluation-harness) takes the last one for the answer's.
    pub(crate) fn position(&self, id: u32, logprobs: Option<TokenLogprobs>) -> Option<Position> {
        let logprobs = logprobs?;
        let template = &self.plan.template;
        let silent = template.stop_ids.contains(&id) && !template.show_stop;
        let ends = silent || self.served.language.is_end(id);
        if !self.plan.scored || (ends && !self.plan.echo_scored) {
            return None;
        }
        let named = |id: u32| self.plan.ids.as_names.then_some(id);
        let bytes = |id: u32| self.served.language.bytes(id);
        let scored = |(id, logprob): (u32, f32)| Scored { bytes: bytes(id), id: named(id), logprob };
        Some(Position {
            chosen: scored((id, logprobs.logprob)),
            top: logprobs.top.into_iter().map(scored).collect(),
        })
    }
}

/// The price, if the request is to say what it cost.
fn price(state: &State, plan: &Plan) -> Result<Option<Price>, Fault> {
    let price = state.options.price;
    if plan.include_cost && price.is_none() {
        let name = "include_cost";
        return Err(Fault::field(
            name,
            format!("{name} is true; this server was not told its price an hour"),
        ));
    }
    Ok(price.filter(|price| price.in_usage || plan.include_cost))
}

fn fault_of(state: &State, refused: Refused, prompt_field: &str) -> Fault {
    match refused {
        Refused::PromptTooLong { tokens, context } => Fault::context(prompt_field, tokens, context),
        Refused::InvalidParam { name, value, expected } => {
            Fault::field(name, format!("{name} is {value}, expected {expected}"))
        }
        Refused::Closed => {
            state.metrics.record(Event::Rejected(Rejection::Draining));
            Fault::unavailable("draining", "the server is shutting down", 5)
        }
        busy => {
            state.metrics.record(Event::Rejected(Rejection::QueuedTokens));
            Fault::busy(busy.to_string(), state.admission.retry_after_s())
        }
    }
}

fn fault_of_error(error: &engine::Error) -> Fault {
    match error {
        engine::Error::NothingLeft => Fault::field("logit_bias", error.to_string()),
        engine::Error::Constraint(_) => Fault::body(error.to_string()),
        engine::Error::Expired { .. } => Fault::expired(error.to_string()),
        engine::Error::Waited { .. } => Fault::unavailable("queue_timeout", error.to_string(), 10),
        other => Fault::internal(other.to_string()),
    }
}
