//! Answers that this machine's engine computes, read as events of the contract.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::{FinishReason, MatchedStop, Refused, Ticket, TokenLogprobs};
use events::{ModelEvent, ModelMetrics, Rejection};
use inference::{
    End, Event, Events, Generate, Generation, Part, PromptFacts, PromptScores, RequestContext, ScoredToken,
    Token, TokenScore, TokenText,
};
use text::{AnswerParser, ToolCallStyle};
use tokio::sync::mpsc::{self, Receiver};
use wire::usage::CompletionDetails;
use wire::{Cost, Fault, StopReason, Usage};

use crate::admission::Permit;
use crate::call_ids::CallIds;
use crate::core::Core;
use crate::model::{Generating, TextPipeline};
use crate::options::Price;
use crate::outbox::{Group, Outbox};
use crate::plan::{Plan, plan};
use crate::preparation::{Admitted, Work};
use crate::registry::Lease;

/// The choices of a request in the engine, read through one channel. Dropped, it cancels them and frees its places.
struct Local {
    /// In use until the answers have ended.
    _model: Lease,
    /// Its tokens.
    text: Arc<dyn TextPipeline>,
    /// Answers a prompt.
    n: usize,
    /// Another node began the answer.
    resumes: bool,
    /// Tokens that end an answer beside the model's own, unless they are shown.
    silent: Vec<u32>,
    /// The prompts' tokens, if their log-probabilities are told.
    prompts: Vec<Vec<u32>>,
    events: Receiver<(usize, engine::Event)>,
    tally: Tally,
    /// What the machine costs, if this request is to say what it cost.
    price: Option<Price>,
    /// A choice: its text so far as parts.
    readers: Vec<AnswerParser>,
    call_ids: CallIds,
    _tickets: Vec<Ticket>,
    _permit: Permit,
}

/// What has ended so far.
#[derive(Default)]
struct Tally {
    open: usize,
    prompt_tokens: usize,
    cached_tokens: usize,
    completion_tokens: usize,
    resumed_tokens: usize,
    prompt_time: Duration,
    completion_time: Duration,
}

/// Hands the choices of a plan to the engine.
///
/// # Errors
/// A prompt that is too long, a price that is not known, an engine that takes no more.
async fn start(
    core: &Core,
    model: Lease,
    mut plan: Plan,
    permit: Permit,
    context: &Arc<RequestContext>,
) -> Result<Generation, Fault> {
    let generating = model.generation()?.clone();
    let most = generating.engine.context();
    if let Some(long) = plan.prompts.iter().find(|p| p.len() >= most) {
        let fault = Fault::context(plan.field, long.len(), most);
        return Err(core.refused(Rejection::Context, fault));
    }
    let price = price(core, &plan)?;
    context.record_submission(model.name());
    let (facts, prompts) = facts(&mut plan);
    let choices = facts.len() * plan.n;
    let prompt_tokens = facts.iter().map(|prompt| prompt.tokens).sum();
    let name = model.name().to_owned();
    let (receiver, tickets) = submit(core, model.name(), &generating, &mut plan, choices, context).await?;
    let local = Local {
        n: plan.n,
        resumes: plan.resumes,
        silent: if plan.template.show_stop { Vec::new() } else { plan.template.stop_ids.clone() },
        prompts,
        events: receiver,
        tally: Tally { open: choices, prompt_tokens, ..Tally::default() },
        price,
        readers: (0..choices).map(|_| AnswerParser::new(&plan.reading)).collect(),
        call_ids: CallIds::new(plan.reading.style.is_some_and(ToolCallStyle::has_short_ids)),
        _tickets: tickets,
        _permit: permit,
        text: generating.text,
        _model: model,
    };
    let listener = context.listener();
    if let Some(listener) = &listener {
        listener.prompt(prompt_tokens);
    }
    let (n, events) = (plan.n, Box::new(local));
    Ok(Generation { model: name, context: most, prompts: facts, n, events, listener })
}

/// What is told of the prompts, and their tokens if their log-probabilities are wanted.
fn facts(plan: &mut Plan) -> (Vec<PromptFacts>, Vec<Vec<u32>>) {
    let mut texts = std::mem::take(&mut plan.texts).into_iter();
    let ids = plan.returns_ids;
    let facts = plan.prompts.iter().map(|prompt| PromptFacts {
        tokens: prompt.len(),
        ids: ids.then(|| Arc::from(prompt.as_slice())),
        text: texts.next(),
    });
    let facts = facts.collect();
    let scored = plan.template.prompt_logprobs.is_some();
    (facts, if scored { plan.prompts.clone() } else { Vec::new() })
}

/// Plans a generation off the async threads, takes its places, and hands it to the engine.
///
/// # Errors
/// What cannot be rendered, tokenized or honoured, places that there are not, and those of [`start`].
pub(crate) async fn answer(
    core: &Core,
    model: Lease,
    generate: Generate,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
    admitted: Admitted,
) -> Result<Generation, Fault> {
    let (caller, generating) = (context.clone(), model.generation()?.clone());
    // The model is in use also when the client leaves while this goes on.
    let work = move |_: &mut Admitted, stop| {
        plan(&Work::new(generating, stop, caller), generate).map(|plan| (plan, model))
    };
    let (mut admitted, (mut plan, model)) = core.counted(admitted.run(work).await)?;
    plan.ask_for(context.client(), time_limit);
    plan.warnings.drain(..).for_each(|warning| context.warn(warning));
    let count = |fault: &Fault| core.count_full(fault, Some(model.name()));
    let mut permit = match admitted.take_permit() {
        Some(permit) => permit,
        None => core.admission.enter().inspect_err(count)?,
    };
    permit.grow(plan.choices()).inspect_err(count)?;
    start(core, model, plan, permit, &context).await
}

type Submitted = (Receiver<(usize, engine::Event)>, Vec<Ticket>);

async fn submit(
    core: &Core,
    name: &str,
    model: &Generating,
    plan: &mut Plan,
    choices: usize,
    context: &Arc<RequestContext>,
) -> Result<Submitted, Fault> {
    let most = model.engine.context();
    // A whole answer is read as it comes and held anyway; a stream may be a bounded number of events behind.
    let events = if plan.streamed {
        core.options.stream_events
    } else {
        (plan.template.max_tokens.unwrap_or(most).min(most) + 3) * choices
    };
    let metrics = core.metrics.model(name);
    let (sender, receiver) = mpsc::channel(events.min(tokio::sync::Semaphore::MAX_PERMITS));
    let overflow = Arc::new(AtomicBool::new(false));
    let mut tickets = Vec::with_capacity(choices);
    for (p, prompt) in std::mem::take(&mut plan.prompts).into_iter().enumerate() {
        let group = Arc::new(Group::new(plan.n));
        for k in 0..plan.n {
            let mut request = plan.template.clone();
            request.prompt.clone_from(&prompt);
            if k > 0 && !plan.streamed {
                // One answer's are those of all; in a stream any of them may begin first.
                request.prompt_logprobs = None;
            }
            // Answers to one prompt differ; the first is the one that the seed alone would give.
            request.params.seed = request.params.seed.map(|seed| seed.wrapping_add(k as u64));
            let outbox = Outbox {
                choice: p * plan.n + k,
                sender: sender.clone(),
                metrics: metrics.clone(),
                admission: core.admission.clone(),
                group: group.clone(),
                overflow: overflow.clone(),
                last: None,
                max_tokens: plan.template.max_tokens,
                context: context.clone(),
            };
            let ticket = if request.resume.is_empty() {
                model.engine.submit(request, Box::new(outbox))
            } else {
                replayed(model.engine.clone(), request, outbox).await?
            };
            tickets.push(ticket.map_err(|refused| fault_of_refusal(core, &metrics, refused, plan.field))?);
        }
    }
    Ok((receiver, tickets))
}

/// Submits a request whose first tokens are replayed, which takes as long as the masks of their form: off the async
/// threads. The request's slot of preparation is held meanwhile.
async fn replayed(
    engine: engine::Handle,
    request: engine::Request,
    outbox: Outbox,
) -> Result<Result<Ticket, Refused>, Fault> {
    let submitted = tokio::task::spawn_blocking(move || engine.submit(request, Box::new(outbox)));
    match submitted.await {
        Ok(ticket) => Ok(ticket),
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        // The runtime ends.
        Err(_) => Err(Fault::unavailable("draining", "the server is shutting down", 5)),
    }
}

impl Local {
    /// Keeps count, reads the text; turns ends that are no answer into faults.
    fn accept(&mut self, event: Option<(usize, engine::Event)>) -> Result<(usize, Event), Fault> {
        let Some((choice, event)) = event else {
            // All outboxes are gone and not all choices have ended: the reader was cut off.
            return Err(Fault::internal("the reader of this answer fell too far behind; it was cut off"));
        };
        let event = match event {
            engine::Event::Prompt { logprobs } => Event::Prompt(self.prompt_scores(choice, &logprobs)),
            engine::Event::Resumed { tokens } => {
                let tokens = tokens.into_iter().map(|(id, text)| self.said(choice, id, &text));
                Event::Resumed(tokens.collect())
            }
            engine::Event::Token { text, id, logprobs } => {
                let score = logprobs.map(|logprobs| self.score(id, &logprobs));
                Event::Token(Token { score, ..self.said(choice, id, &text) })
            }
            engine::Event::Failed { error, .. } => return Err(fault_of_error(&error)),
            engine::Event::Done { reason: FinishReason::Cancelled, .. } => {
                return Err(Fault::unavailable(
                    "draining",
                    "the server shut down before the answer was complete",
                    5,
                ));
            }
            engine::Event::Done { text, reason, matched_stop, usage, .. } => {
                self.done(choice, &text, reason, matched_stop, &usage)
            }
        };
        Ok((choice, event))
    }

    /// A token of an answer, with what the text that it completes says.
    fn said(&mut self, choice: usize, id: u32, text: &str) -> Token {
        let parts = self.readers[choice].push(text);
        let ends = self.silent.contains(&id) || self.text.is_end(id);
        Token { id, parts: self.parts(choice, parts), ends, score: None }
    }

    fn done(
        &mut self,
        choice: usize,
        text: &str,
        reason: FinishReason,
        matched_stop: Option<MatchedStop>,
        usage: &engine::Usage,
    ) -> Event {
        self.tally.open -= 1;
        self.tally.completion_tokens += usage.completion_tokens;
        self.tally.resumed_tokens += usage.resumed_tokens;
        self.tally.prompt_time += usage.prompt_time;
        self.tally.completion_time += usage.completion_time;
        if choice.is_multiple_of(self.n) {
            self.tally.cached_tokens += usage.cached_tokens;
        }
        let reader = &mut self.readers[choice];
        let mut parts = reader.push(text);
        parts.extend(reader.finish(reason == FinishReason::Length));
        let called = reason == FinishReason::Stop && reader.calls() > 0;
        let stop = matched_stop.map(|stop| match stop {
            MatchedStop::Id(id) => StopReason::Id(id),
            MatchedStop::Text(text) => StopReason::Text(text),
        });
        let end = End { reason: if called { "tool_calls" } else { reason.name() }, stop };
        Event::Done { parts: self.parts(choice, parts), end }
    }

    /// Parts with the ids of calls.
    fn parts(&self, choice: usize, parts: Vec<text::AnswerPart>) -> Vec<Part> {
        let named = |part| match part {
            text::AnswerPart::Content(text) => Part::Content(text),
            text::AnswerPart::Reasoning(text) => Part::Reasoning(text),
            text::AnswerPart::Call { index, name } => {
                Part::Call { index, id: self.call_ids.id(choice, index), name }
            }
            text::AnswerPart::Arguments { index, text } => Part::Arguments { index, text },
        };
        parts.into_iter().map(named).collect()
    }

    fn token(&self, id: u32) -> TokenText {
        TokenText { id, bytes: self.text.bytes(id), special: self.text.is_silent(id) }
    }

    fn score(&self, id: u32, logprobs: &TokenLogprobs) -> TokenScore {
        let scored = |(id, logprob): (u32, f32)| ScoredToken { token: self.token(id), logprob };
        TokenScore {
            chosen: scored((id, logprobs.logprob)),
            rank: logprobs.rank,
            top: logprobs.top.iter().copied().map(scored).collect(),
        }
    }

    fn prompt_scores(&self, choice: usize, logprobs: &[TokenLogprobs]) -> PromptScores {
        let Some((first, rest)) = self.prompts.get(choice / self.n).and_then(|prompt| prompt.split_first())
        else {
            return PromptScores::default();
        };
        PromptScores {
            first: self.token(*first),
            rest: rest.iter().zip(logprobs).map(|(id, logprobs)| self.score(*id, logprobs)).collect(),
        }
    }
}

impl Events for Local {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(usize, Event), Fault>> {
        self.events.poll_recv(context).map(|event| self.accept(event))
    }

    fn is_over(&self) -> bool {
        self.tally.open == 0
    }

    fn usage(&self) -> Usage {
        let Tally { prompt_tokens, completion_tokens, cached_tokens, .. } = self.tally;
        let seconds = [self.tally.prompt_time, self.tally.completion_time].map(|time| time.as_secs_f64());
        let cost = self.price.map(|price| Cost::new(price.currency, price.per_hour, seconds[0], seconds[1]));
        let resumed_tokens = self.tally.resumed_tokens;
        let details = self.resumes.then_some(CompletionDetails { resumed_tokens });
        let usage = Usage::new(prompt_tokens, completion_tokens, cached_tokens);
        Usage { cost, completion_tokens_details: details, ..usage }
    }
}

/// The price, if the request is to say what it cost.
fn price(core: &Core, plan: &Plan) -> Result<Option<Price>, Fault> {
    let price = core.options.price;
    if plan.include_cost && price.is_none() {
        let name = "include_cost";
        return Err(Fault::field(
            name,
            format!("{name} is true; this server was not told its price an hour"),
        ));
    }
    Ok(price.filter(|price| price.in_usage || plan.include_cost))
}

/// The fault of a request that the engine does not take.
pub(crate) fn fault_of_refusal(
    core: &Core,
    model: &ModelMetrics,
    refused: Refused,
    prompt_field: &str,
) -> Fault {
    match refused {
        Refused::PromptTooLong { tokens, context } => Fault::context(prompt_field, tokens, context),
        Refused::InvalidParam { name, value, expected } => {
            Fault::field(name, format!("{name} is {value}, expected {expected}"))
        }
        Refused::Closed => {
            model.record(ModelEvent::Rejected(Rejection::Draining));
            Fault::unavailable("draining", "the server is shutting down", 5)
        }
        busy => {
            model.record(ModelEvent::Rejected(Rejection::QueuedTokens));
            Fault::busy(busy.to_string(), core.admission.retry_after_s())
        }
    }
}

/// The fault of an answer that the engine could not finish.
pub(crate) fn fault_of_error(error: &engine::Error) -> Fault {
    match error {
        engine::Error::NothingLeft => Fault::field("logit_bias", error.to_string()),
        engine::Error::Constraint(_) => Fault::body(error.to_string()),
        engine::Error::Expired { .. } => Fault::expired(error.to_string()),
        engine::Error::Waited { .. } => Fault::unavailable("queue_timeout", error.to_string(), 10),
        other => Fault::internal(other.to_string()),
    }
}
