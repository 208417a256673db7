//! `/generate`, `/generate_stream` and `POST /`: text-generation-inference's API, and the short form with `prompt`.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::TokenLogprobs;
use serde::Serialize;
use serde_json::{Value, json};
use text::Part;
use wire::tgi::{self, BestOf, Details, Generate, Piece, Prefill, Short, StreamDetails, TgiRequest, Token};
use wire::{Fault, sse};

use crate::answer::{self, Gathered};
use crate::generation::{Generation, Told};
use crate::layers;
use crate::plan::{self, Form, Plan};
use crate::preparation::Work;
use crate::routes::{Begun, begin};
use crate::state::State;
use crate::stream::{self, Dialect};

/// What such a request wants to be told.
pub(crate) struct Asked {
    details: bool,
    prefill: bool,
    alternatives: usize,
    /// The prompt, if the text is to begin with it.
    full_text: Option<String>,
    seed: Option<u64>,
    prompt_tokens: usize,
    /// Whether the answer is a list of one, as `POST /` has it.
    listed: bool,
}

/// `POST /generate`.
pub(crate) async fn generate(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(&state, request, |served, body| match Generate::parse(body)? {
        Generate::Inputs(mut request) => {
            // `stream` is a field of `POST /` only.
            request.completion.stream.on = false;
            inputs(served, *request, false)
        }
        Generate::Prompt(request) => short(served, *request),
    })
    .await
}

/// `POST /generate_stream`.
pub(crate) async fn generate_stream(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(&state, request, |served, body| match Generate::parse(body)? {
        Generate::Inputs(request) => inputs(served, request.streamed()?, false),
        Generate::Prompt(mut request) => {
            request.stream.on = true;
            short(served, *request)
        }
    })
    .await
}

/// `POST /`.
pub(crate) async fn root(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(&state, request, |served, body| match Generate::parse(body)? {
        Generate::Inputs(request) if request.completion.stream.on => {
            inputs(served, request.streamed()?, true)
        }
        Generate::Inputs(request) => inputs(served, *request, true),
        Generate::Prompt(request) => short(served, *request),
    })
    .await
}

/// `GET /info`.
pub(crate) async fn info(Shared(state): Shared<Arc<State>>) -> Response {
    let served = match state.served_or_reject() {
        Ok(served) => served,
        Err(fault) => return respond(&fault),
    };
    let context = served.engine.context();
    axum::Json(json!({
        "model_id": served.name(),
        "model_sha": null,
        "model_pipeline_tag": "text-generation",
        "max_concurrent_requests": state.options.requests,
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

async fn answer(
    state: &Arc<State>,
    request: Request,
    make: fn(&Work, &[u8]) -> Result<Plan, Fault>,
) -> Response {
    match begin(state, request, make).await {
        Ok(Begun { generation, .. }) => said(state, generation).await.unwrap_or_else(|fault| respond(&fault)),
        Err(fault) => respond(&fault),
    }
}

async fn said(state: &State, mut generation: Generation) -> Result<Response, Fault> {
    let streamed = generation.plan.stream.on;
    match std::mem::replace(&mut generation.plan.form, Form::Chat) {
        Form::Tgi(asked) if streamed => {
            let writer = Writer { asked: *asked, text: String::new(), last: None, held: false, tokens: 0 };
            Ok(stream::response(generation, Box::new(writer), state.options.ping))
        }
        Form::Tgi(asked) => whole(generation, &asked).await,
        Form::Short(echoes) if streamed => {
            let begun = vec![false; generation.choices];
            Ok(stream::response(generation, Box::new(ShortWriter { echoes, begun }), state.options.ping))
        }
        Form::Short(echoes) => short_whole(generation, echoes).await,
        _ => Err(Fault::internal("a form of answer that these routes do not make")),
    }
}

/// A fault in this API's shape.
pub(crate) fn respond(fault: &Fault) -> Response {
    let mut response = layers::respond(fault);
    let (status, body) = tgi::fault(fault);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.body_mut() = body.to_string().into();
    response
}

fn inputs(served: &Work, request: TgiRequest, listed: bool) -> Result<Plan, Fault> {
    request.check_stream()?;
    let mut asked = Asked {
        details: request.details,
        prefill: request.prefill,
        alternatives: request.alternatives,
        full_text: None,
        seed: request.completion.sampling.seed,
        prompt_tokens: 0,
        listed,
    };
    if let (true, Some(wire::completion::Prompt::Text(text))) =
        (request.full_text, request.completion.prompts.first())
    {
        asked.full_text = Some(text.clone());
    }
    let mut plan = plan::continuation(served, request.completion)?;
    plan.prompt_field = "inputs";
    asked.prompt_tokens = plan.prompts.iter().map(Vec::len).sum();
    plan.form = Form::Tgi(Box::new(asked));
    Ok(plan)
}

fn short(served: &Work, request: wire::CompletionRequest) -> Result<Plan, Fault> {
    let mut plan = plan::continuation(served, request)?;
    if let Form::Completion(echoes) = plan.form {
        plan.form = Form::Short(echoes);
    }
    Ok(plan)
}

fn token(generation: &Generation, id: u32, logprob: f32, text: Option<String>) -> Token {
    let language = &generation.served.language;
    let special =
        language.is_end(id) || (language.decode(&[id]).is_empty() && !language.bytes(id).is_empty());
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(&language.bytes(id)).into_owned());
    Token { id, text, logprob: if logprob.is_finite() { logprob } else { -9_999.0 }, special }
}

fn tops(generation: &Generation, asked: &Asked, logprobs: Option<&TokenLogprobs>) -> Vec<Token> {
    let top = logprobs.map_or(&[][..], |scored| &scored.top);
    top.iter().take(asked.alternatives).map(|(id, logprob)| token(generation, *id, *logprob, None)).collect()
}

fn details(generation: &Generation, asked: &Asked, gathered: &Gathered, prefill: Vec<Prefill>) -> Details {
    let tokens = gathered.scored.iter().filter_map(|(id, scored)| {
        let scored = scored.as_ref()?;
        Some((token(generation, *id, scored.logprob, None), tops(generation, asked, Some(scored))))
    });
    let (tokens, mut top_tokens): (Vec<Token>, Vec<Vec<Token>>) = tokens.unzip();
    if asked.alternatives == 0 {
        top_tokens.clear();
    }
    Details {
        finish_reason: tgi::finish_reason(gathered.end.reason, gathered.end.stop.is_some()),
        generated_tokens: gathered.tokens,
        seed: asked.seed,
        prefill,
        tokens,
        top_tokens,
        best_of_sequences: Vec::new(),
    }
}

fn prefill(generation: &Generation, asked: &Asked, scores: &[Vec<TokenLogprobs>]) -> Vec<Prefill> {
    let (true, Some(prompt)) = (asked.prefill, generation.plan.prompts.first()) else { return Vec::new() };
    let scores = scores.first().map_or(&[][..], Vec::as_slice);
    let known = std::iter::once(None).chain(scores.iter().map(|score| Some(score.logprob)));
    let entry = |(id, logprob): (&u32, Option<f32>)| {
        let token = token(generation, *id, logprob.unwrap_or_default(), None);
        Prefill { id: *id, text: token.text, logprob: logprob.map(|_| token.logprob) }
    };
    prompt.iter().zip(known).map(entry).collect()
}

async fn whole(mut generation: Generation, asked: &Asked) -> Result<Response, Fault> {
    let (mut choices, scores) = answer::gather(&mut generation).await?;
    choices.sort_by(|a, b| b.likelihood().total_cmp(&a.likelihood()));
    let start = asked.full_text.clone().unwrap_or_default();
    let mut told = choices.into_iter().map(|mut gathered| {
        let text = format!("{start}{}", std::mem::take(&mut gathered.text));
        (text, details(&generation, asked, &gathered, prefill(&generation, asked, &scores)))
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
    asked: Asked,
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
    fn write(&mut self, generation: &Generation, _choice: usize, told: Told, out: &mut String) {
        match told {
            Told::Prompt(_) => {}
            Told::Token { parts, id, logprobs } => {
                let content = self.content(parts);
                let logprob = logprobs.as_ref().map_or(0.0, |scored| scored.logprob);
                let token = token(generation, id, logprob, Some(content));
                self.last = Some((token, tops(generation, &self.asked, logprobs.as_ref())));
                self.tokens += 1;
                let most = generation.plan.template.max_tokens;
                self.held = generation.served.language.is_end(id) || most == Some(self.tokens);
                if !self.held {
                    self.send(None, None, out);
                }
            }
            Told::Done { parts, end } => {
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
                    input_length: self.asked.prompt_tokens,
                    seed: self.asked.seed,
                };
                let start = self.asked.full_text.clone().unwrap_or_default();
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

/// The answers of the short form.
async fn short_whole(mut generation: Generation, echoes: Option<Vec<String>>) -> Result<Response, Fault> {
    let (choices, _) = answer::gather(&mut generation).await?;
    let (n, best) = (generation.plan.n, generation.plan.best);
    let mut answers: Vec<(String, &'static str)> = Vec::with_capacity(choices.len());
    let mut choices = choices.into_iter().enumerate().collect::<Vec<_>>();
    if best < n {
        choices
            .sort_by(|(i, a), (j, b)| (i / n).cmp(&(j / n)).then(b.likelihood().total_cmp(&a.likelihood())));
    }
    for (place, (index, gathered)) in choices.into_iter().enumerate() {
        if place % n < best {
            let echo = echoes.as_ref().map_or("", |echoes| echoes[index / n].as_str());
            answers.push((format!("{echo}{}", gathered.text), gathered.end.reason));
        }
    }
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
    echoes: Option<Vec<String>>,
    begun: Vec<bool>,
}

impl Dialect for ShortWriter {
    fn write(&mut self, generation: &Generation, choice: usize, told: Told, out: &mut String) {
        let (parts, end) = told.split();
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun[choice], true)
            && let Some(echoes) = &self.echoes
        {
            text.push_str(&echoes[choice / generation.plan.n]);
        }
        for part in parts {
            if let Part::Content(more) = part {
                text.push_str(&more);
            }
        }
        if text.is_empty() && end.is_none() {
            return;
        }
        let index = (generation.choices > 1).then_some(choice);
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
