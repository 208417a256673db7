//! `/generate`, `/generate_stream` and `POST /`: text-generation-inference's API, and the short form with `prompt`.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use inference::{Event, Generate as Operation, Generation, Part, PromptScores, TokenScore, TokenText};
use serde::Serialize;
use serde_json::{Value, json};
use wire::tgi::{self, BestOf, Details, Generate, Piece, Prefill, Short, StreamDetails, TgiRequest, Token};
use wire::{Fault, sse};

use crate::answer::{self, Gathered};
use crate::faults;
use crate::requests::{Begun, Read, begin};
use crate::state::State;
use crate::stream::{self, Dialect};

/// What such a request wants to be told.
pub(crate) enum Asked {
    /// TGI's own form.
    Tgi(Wanted),
    /// The short form with `prompt`.
    Short(Brief),
}

/// What a request in TGI's own form wants to be told.
pub(crate) struct Wanted {
    details: bool,
    prefill: bool,
    alternatives: usize,
    /// Whether the text is to begin with the prompt.
    full_text: bool,
    seed: Option<u64>,
    max_tokens: Option<usize>,
    streamed: bool,
    /// Whether the answer is a list of one, as `POST /` has it.
    listed: bool,
}

/// What a request in the short form wants to be told.
#[derive(Clone, Copy)]
pub(crate) struct Brief {
    streamed: bool,
    echo: bool,
    best: usize,
}

/// `POST /generate`.
pub(crate) async fn generate(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(&state, request, |body| match Generate::parse(body)? {
        Generate::Inputs(mut request) => {
            // `stream` is a field of `POST /` only.
            request.completion.stream.on = false;
            inputs(*request, false)
        }
        Generate::Prompt(request) => short(*request),
    })
    .await
}

/// `POST /generate_stream`.
pub(crate) async fn generate_stream(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(&state, request, |body| match Generate::parse(body)? {
        Generate::Inputs(request) => inputs(request.streamed()?, false),
        Generate::Prompt(mut request) => {
            request.stream.on = true;
            short(*request)
        }
    })
    .await
}

/// `POST /` of a model that generates.
pub(crate) async fn root(state: &Arc<State>, request: Request) -> Response {
    answer(state, request, compat).await
}

/// The operation of a body of `POST /`.
pub(crate) fn compat(body: &[u8]) -> Result<(Operation, Asked), Fault> {
    match Generate::parse(body)? {
        Generate::Inputs(request) if request.completion.stream.on => inputs(request.streamed()?, true),
        Generate::Inputs(request) => inputs(*request, true),
        Generate::Prompt(request) => short(*request),
    }
}

/// `GET /info` of a model that generates.
pub(crate) async fn info(state: &Arc<State>) -> Response {
    let model = match state.service.model(None).await {
        Ok(model) => model,
        Err(fault) => return faults::tgi(&fault),
    };
    let context = match model.generation() {
        Ok(generating) => generating.engine.context(),
        Err(fault) => return faults::tgi(&fault),
    };
    axum::Json(json!({
        "model_id": model.name(),
        "model_sha": null,
        "model_pipeline_tag": "text-generation",
        "max_concurrent_requests": state.service.options().requests,
        "max_best_of": wire::limits::N,
        "max_stop_sequences": wire::limits::STOPS,
        "max_input_tokens": context.saturating_sub(1),
        "max_total_tokens": context,
        "validation_workers": 1,
        "max_client_batch_size": 1,
        "router": "gristmill",
        "version": env!("CARGO_PKG_VERSION"),
        "sha": null,
        "docker_label": null,
    }))
    .into_response()
}

async fn answer(state: &Arc<State>, request: Request, make: Read<Operation, Asked>) -> Response {
    match begin(state, request, make).await {
        Ok(Begun { generation, asked, .. }) => {
            said(state, generation, asked).await.unwrap_or_else(|fault| faults::tgi(&fault))
        }
        Err(fault) => faults::tgi(&fault),
    }
}

/// The answer.
pub(crate) async fn said(state: &State, generation: Generation, asked: Asked) -> Result<Response, Fault> {
    match asked {
        Asked::Tgi(asked) if asked.streamed => {
            let writer = Writer { asked, text: String::new(), last: None, held: false, tokens: 0 };
            Ok(stream::response(generation, Box::new(writer), state.ping))
        }
        Asked::Tgi(asked) => whole(generation, &asked).await,
        Asked::Short(asked) if asked.streamed => {
            let begun = vec![false; generation.choices()];
            Ok(stream::response(generation, Box::new(ShortWriter { echo: asked.echo, begun }), state.ping))
        }
        Asked::Short(asked) => short_whole(generation, asked).await,
    }
}

fn inputs(request: TgiRequest, listed: bool) -> Result<(Operation, Asked), Fault> {
    request.check_stream()?;
    let asked = Wanted {
        details: request.details,
        prefill: request.prefill,
        alternatives: request.alternatives,
        full_text: request.full_text,
        seed: request.completion.sampling.seed,
        max_tokens: request.completion.max_tokens,
        streamed: request.completion.stream.on,
        listed,
    };
    let mut completion = request.completion;
    // The prompt's log-probabilities are told with its tokens.
    completion.ids.returned |= asked.prefill;
    let operation = Operation { field: "inputs", wants_text: asked.full_text, ..Operation::text(completion) };
    Ok((operation, Asked::Tgi(asked)))
}

fn short(request: wire::CompletionRequest) -> Result<(Operation, Asked), Fault> {
    let asked = Brief { streamed: request.stream.on, echo: request.echo, best: request.n };
    Ok((Operation::text(request), Asked::Short(asked)))
}

fn token(token: &TokenText, ends: bool, logprob: f32, text: Option<String>) -> Token {
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(&token.bytes).into_owned());
    let logprob = if logprob.is_finite() { logprob } else { -9_999.0 };
    Token { id: token.id, text, logprob, special: ends || token.special }
}

fn tops(asked: &Wanted, score: Option<&TokenScore>) -> Vec<Token> {
    let top = score.map_or(&[][..], |score| &score.top);
    top.iter().take(asked.alternatives).map(|top| token(&top.token, false, top.logprob, None)).collect()
}

fn details(asked: &Wanted, gathered: &Gathered, prefill: Vec<Prefill>) -> Details {
    let tokens = gathered.scored.iter().map(|(ends, score)| {
        let chosen = &score.chosen;
        (token(&chosen.token, *ends, chosen.logprob, None), tops(asked, Some(score)))
    });
    let (tokens, mut top_tokens): (Vec<Token>, Vec<Vec<Token>>) = tokens.unzip();
    if asked.alternatives == 0 {
        top_tokens.clear();
    }
    Details {
        finish_reason: tgi::finish_reason(gathered.end.reason, gathered.end.stop.is_some()),
        generated_tokens: gathered.ids.len(),
        seed: asked.seed,
        prefill,
        tokens,
        top_tokens,
        best_of_sequences: Vec::new(),
    }
}

fn prefill(asked: &Wanted, scores: Option<&PromptScores>) -> Vec<Prefill> {
    let (true, Some(scores)) = (asked.prefill, scores) else { return Vec::new() };
    let known = scores.rest.iter().map(|score| (&score.chosen.token, Some(score.chosen.logprob)));
    let entry = |(text, logprob): (&TokenText, Option<f32>)| {
        let token = token(text, false, logprob.unwrap_or_default(), None);
        Prefill { id: token.id, text: token.text, logprob: logprob.map(|_| token.logprob) }
    };
    std::iter::once((&scores.first, None)).chain(known).map(entry).collect()
}

/// The prompt, where the text is to begin with it.
fn start<'a>(generation: &'a Generation, asked: &Wanted) -> &'a str {
    let text = generation.prompts.first().and_then(|prompt| prompt.text.as_deref());
    text.filter(|_| asked.full_text).unwrap_or_default()
}

async fn whole(mut generation: Generation, asked: &Wanted) -> Result<Response, Fault> {
    let (mut choices, scores) = answer::gather(&mut generation).await?;
    choices.sort_by(|a, b| b.likelihood().total_cmp(&a.likelihood()));
    let start = start(&generation, asked);
    let scores = scores.first().and_then(Option::as_ref);
    let mut told = choices.into_iter().map(|mut gathered| {
        let text = format!("{start}{}", std::mem::take(&mut gathered.text));
        (text, details(asked, &gathered, prefill(asked, scores)))
    });
    let (generated_text, mut best) =
        told.next().ok_or_else(|| Fault::internal("a generation without an answer"))?;
    best.best_of_sequences =
        told.map(|(generated_text, details)| BestOf { generated_text, details: Box::new(details) }).collect();
    let answer = tgi::Answer { generated_text, details: asked.details.then_some(best) };
    Ok(if asked.listed { to_json(&[answer]) } else { to_json(&answer) })
}

fn to_json<T: Serialize + ?Sized>(answer: &T) -> Response {
    let json = serde_json::to_string(answer).expect("answers have string keys, which serialize");
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Writes a stream of this API's events: one a token, and the whole text in the last.
struct Writer {
    asked: Wanted,
    text: String,
    /// The last token, and its likeliest rivals.
    last: Option<(Token, Vec<Token>)>,
    /// Whether that was not sent yet: a token that is known to be the last is sent with the text.
    held: bool,
    tokens: usize,
}

impl Writer {
    fn send(&self, end: Option<StreamDetails>, text: Option<String>, out: &mut String) {
        let (token, top_tokens) = self.last.clone().unwrap_or_default();
        let index = self.tokens;
        let piece = Piece { index, token, top_tokens, generated_text: text, details: end };
        out.push_str(&sse::data(&piece));
    }

    fn content(&mut self, parts: Vec<Part>) -> String {
        let mut content = String::new();
        for part in parts {
            if let Part::Content(text) = part {
                content.push_str(&text);
            }
        }
        self.text.push_str(&content);
        content
    }
}

impl Dialect for Writer {
    fn write(&mut self, generation: &Generation, _choice: usize, event: Event, out: &mut String) {
        match event {
            Event::Prompt(_) | Event::Resumed(_) => {}
            Event::Token(event) => {
                let content = self.content(event.parts);
                let unknown = TokenText { id: event.id, ..TokenText::default() };
                let score = event.score.as_ref();
                let (text, logprob) =
                    score.map_or((&unknown, 0.0), |score| (&score.chosen.token, score.chosen.logprob));
                let token = token(text, event.ends, logprob, Some(content));
                self.last = Some((token, tops(&self.asked, score)));
                self.tokens += 1;
                self.held = event.ends || self.asked.max_tokens == Some(self.tokens);
                if !self.held {
                    self.send(None, None, out);
                }
            }
            Event::Done { parts, end } => {
                let rest = self.content(parts);
                let (mut token, top) = self.last.take().unwrap_or_default();
                if self.held {
                    token.text.push_str(&rest);
                    // What was held back makes it part of the text.
                    token.special &= token.text.is_empty() || rest.is_empty();
                } else {
                    token.special = rest.is_empty();
                    token.text = rest;
                    self.tokens += 1;
                }
                self.last = Some((token, top));
                let generated = if self.held { self.tokens } else { self.tokens.saturating_sub(1) };
                let details = StreamDetails {
                    finish_reason: tgi::finish_reason(end.reason, end.stop.is_some()),
                    generated_tokens: generated,
                    input_length: generation.prompts.iter().map(|prompt| prompt.tokens).sum(),
                    seed: self.asked.seed,
                };
                let start = start(generation, &self.asked);
                let text = format!("{start}{}", self.text);
                self.send(self.asked.details.then_some(details), Some(text), out);
            }
        }
    }

    fn end(&mut self, _generation: &Generation, _out: &mut String) {}

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        out.push_str(&sse::data(&tgi::fault(fault).1));
    }
}

/// The text of a prompt, where answers begin with it.
fn echo(generation: &Generation, prompt: usize, wanted: bool) -> &str {
    let text = generation.prompts.get(prompt).and_then(|prompt| prompt.text.as_deref());
    text.filter(|_| wanted).unwrap_or_default()
}

/// The answers of the short form.
async fn short_whole(mut generation: Generation, asked: Brief) -> Result<Response, Fault> {
    let (choices, _) = answer::gather(&mut generation).await?;
    let (n, best) = (generation.n, asked.best);
    // The likeliest come first only where some are left out.
    let echo = |prompt: usize| echo(&generation, prompt, asked.echo);
    let answers: Vec<(String, &'static str)> = answer::best(choices, n, best)
        .into_iter()
        .enumerate()
        .map(|(place, gathered)| (format!("{}{}", echo(place / best), gathered.text), gathered.end.reason))
        .collect();
    let usage = Some(generation.usage());
    let short = match answers.as_slice() {
        [(text, reason)] => {
            Short { text: text.as_str().into(), finish_reason: (*reason).into(), index: None, usage }
        }
        several => Short {
            text: several.iter().map(|(text, _)| Value::from(text.as_str())).collect(),
            finish_reason: several.iter().map(|(_, reason)| Value::from(*reason)).collect(),
            index: None,
            usage,
        },
    };
    Ok(to_json(&short))
}

/// Writes a stream of the short form.
struct ShortWriter {
    echo: bool,
    begun: Vec<bool>,
}

impl Dialect for ShortWriter {
    fn write(&mut self, generation: &Generation, choice: usize, event: Event, out: &mut String) {
        let (parts, end) = event.split();
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun[choice], true) {
            text.push_str(echo(generation, choice / generation.n, self.echo));
        }
        for part in parts {
            if let Part::Content(more) = part {
                text.push_str(&more);
            }
        }
        if text.is_empty() && end.is_none() {
            return;
        }
        let index = (generation.choices() > 1).then_some(choice);
        let usage = generation.is_over().then(|| generation.usage());
        let finish_reason = end.map_or(Value::Null, |end| end.reason.into());
        out.push_str(&sse::data(&Short { text: text.into(), finish_reason, index, usage }));
    }

    fn end(&mut self, _generation: &Generation, out: &mut String) {
        out.push_str(sse::DONE);
    }

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        out.push_str(&sse::data(&tgi::fault(fault).1));
        out.push_str(sse::DONE);
    }
}
