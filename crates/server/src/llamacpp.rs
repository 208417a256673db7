//! `/completion`, `/completions`, `/infill` and `/slots`, as llama.cpp's own clients ask for them.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use inference::{End, Event, Generate, Generation, Part, ScoredToken, Token, TokenScore};
use serde::Serialize;
use serde_json::{Value, json};
use wire::llamacpp::{self, Answer, LlamaRequest, Piece, Probability, Timings};
use wire::{CompletionRequest, Fault, sse};

use crate::answer::{self, Gathered};
use crate::requests::{Begun, begin};
use crate::state::State;
use crate::stream::{self, Dialect};

/// What such a request wants to be told.
struct Asked {
    return_tokens: bool,
    response_fields: Vec<String>,
    listed: bool,
    streamed: bool,
    settings: Value,
    /// Alternatives of each token, if they are told.
    alternatives: Option<usize>,
    begun: Instant,
}

/// What is read of a body.
type ReadBody = fn(&[u8]) -> Result<(Generate, Asked), Fault>;

/// `POST /completion` and `/completions`.
pub(crate) async fn completion(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, |body| read(LlamaRequest::parse(body)?)).await
}

/// `POST /infill`.
pub(crate) async fn infill(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, |body| read(LlamaRequest::parse_infill(body)?)).await
}

async fn answered(state: &Arc<State>, request: Request, read: ReadBody) -> Response {
    match begin(state, request, read).await {
        Ok(Begun { generation, asked, .. }) => said(state, generation, asked).await,
        Err(fault) => Err(fault),
    }
    .unwrap_or_else(|fault| httpd::respond(&fault))
}

/// `GET /slots`: how many answers are computed, as slots that are in use or not.
pub(crate) async fn slots(Shared(state): Shared<Arc<State>>, uri: Uri) -> Response {
    let model = match state.service.model(None).await {
        Ok(model) => model,
        Err(fault) => return httpd::respond(&fault),
    };
    let engine = match model.generation() {
        Ok(generating) => &generating.engine,
        Err(fault) => return httpd::respond(&fault),
    };
    let (all, running) = (state.service.options().parallel, engine.stats().running);
    let slot = |id: usize| json!({"id": id, "n_ctx": engine.context(), "speculative": false, "is_processing": id < running});
    let slots: Vec<Value> = (0..all).map(slot).collect();
    let none_free = running >= all && uri.query().is_some_and(|query| query.contains("fail_on_no_slot"));
    let status = if none_free { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(slots)).into_response()
}

fn read(mut request: LlamaRequest) -> Result<(Generate, Asked), Fault> {
    request.completion.ids.returned = request.return_tokens;
    let answers = request.completion.prompts.len() * request.completion.best_of;
    let asked = Asked {
        return_tokens: request.return_tokens,
        response_fields: request.response_fields,
        listed: request.listed || answers > 1,
        streamed: request.completion.stream.on,
        settings: settings(&request.completion),
        alternatives: request.completion.logprobs,
        begun: Instant::now(),
    };
    Ok((Generate { wants_text: true, ..Generate::text(request.completion) }, asked))
}

/// How tokens are chosen, under llama.cpp's names.
fn settings(request: &CompletionRequest) -> Value {
    let p = service::params(&request.sampling, request.logprobs);
    let most = request.max_tokens.map_or(Value::from(-1), Value::from);
    let mirostat = p.mirostat.as_ref();
    json!({
        "n_ctx": null,
        "n_predict": most,
        "max_tokens": most,
        "seed": p.seed.map_or(Value::from(-1), Value::from),
        "temperature": p.temperature,
        "dynatemp_range": p.dynatemp.range,
        "dynatemp_exponent": p.dynatemp.exponent,
        "top_k": p.top_k,
        "top_p": p.top_p,
        "min_p": p.min_p,
        "top_n_sigma": p.top_n_sigma,
        "xtc_probability": p.xtc.probability,
        "xtc_threshold": p.xtc.threshold,
        "typical_p": p.typical_p,
        "repeat_last_n": p.repeat_last_n,
        "repeat_penalty": p.repeat_penalty,
        "presence_penalty": p.presence_penalty,
        "frequency_penalty": p.frequency_penalty,
        "dry_multiplier": p.dry.multiplier,
        "dry_base": p.dry.base,
        "dry_allowed_length": p.dry.allowed_length,
        "dry_penalty_last_n": p.dry.last_n,
        "mirostat": mirostat.map_or(0, |m| match m.version {
            service::MirostatVersion::One => 1,
            service::MirostatVersion::Two => 2,
        }),
        "mirostat_tau": mirostat.map_or(5.0, |m| m.tau),
        "mirostat_eta": mirostat.map_or(0.1, |m| m.eta),
        "stop": request.sampling.stop,
        "ignore_eos": request.sampling.ignore_eos,
        "stream": request.stream.on,
        "n_probs": p.logprobs.unwrap_or(0),
    })
}

async fn said(state: &State, mut generation: Generation, mut asked: Asked) -> Result<Response, Fault> {
    asked.settings["n_ctx"] = generation.context.into();
    if asked.streamed {
        let choices = (0..generation.choices()).map(|_| Progress::default()).collect();
        let writer = Writer { asked, choices };
        return Ok(stream::response(generation, Box::new(writer), state.ping));
    }
    let (choices, _) = answer::gather(&mut generation).await?;
    let answers: Vec<Value> = choices
        .into_iter()
        .enumerate()
        .map(|(index, choice)| whole(&generation, &asked, index, choice))
        .collect();
    let json = match answers.as_slice() {
        [one] if !asked.listed => one.to_string(),
        all => Value::from(all).to_string(),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn whole(generation: &Generation, asked: &Asked, index: usize, mut gathered: Gathered) -> Value {
    let progress = Progress {
        tokens: gathered.ids.len(),
        began: gathered.began,
        ended: gathered.ended,
        has_new_line: gathered.text.contains('\n'),
    };
    let probabilities = asked
        .alternatives
        .map(|most| gathered.scored.iter().map(|(_, score)| probability(score, most)).collect());
    let tokens = if asked.return_tokens { std::mem::take(&mut gathered.ids) } else { Vec::new() };
    let content = std::mem::take(&mut gathered.text);
    let answer = last(generation, asked, index, &progress, &gathered.end);
    select(asked, &Answer { content, tokens, completion_probabilities: probabilities, ..answer })
}

fn select(asked: &Asked, answer: &impl Serialize) -> Value {
    let value = serde_json::to_value(answer).expect("answers have string keys, which serialize");
    llamacpp::selected(value, &asked.response_fields)
}

/// How far an answer is.
#[derive(Default)]
struct Progress {
    tokens: usize,
    began: Option<Instant>,
    ended: Option<Instant>,
    has_new_line: bool,
}

/// What the end of an answer says, without its text.
fn last<'a>(
    generation: &'a Generation,
    asked: &'a Asked,
    index: usize,
    progress: &Progress,
    end: &'a End,
) -> Answer<'a> {
    let (prompt, evaluated) = generation
        .prompt_of(index)
        .map_or(("", 0), |prompt| (prompt.text.as_deref().unwrap_or_default(), prompt.tokens));
    // What was remembered is known for all prompts together.
    let cached = if generation.prompts.len() == 1 {
        generation.usage().prompt_tokens_details.cached_tokens
    } else {
        0
    };
    let ms = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
        (Some(from), Some(to)) => to.saturating_duration_since(from).as_secs_f64() * 1e3,
        _ => 0.0,
    };
    let prompt_ms = ms(Some(asked.begun), progress.began);
    let predicted_ms = ms(progress.began, progress.ended);
    Answer {
        index,
        content: String::new(),
        tokens: Vec::new(),
        id_slot: -1,
        stop: true,
        model: &generation.model,
        tokens_predicted: progress.tokens,
        tokens_evaluated: evaluated,
        generation_settings: asked.settings.clone(),
        prompt,
        has_new_line: progress.has_new_line,
        truncated: false,
        stop_type: llamacpp::stop_type(end.reason, end.stop.is_some()),
        stopping_word: end.sequence().unwrap_or_default(),
        tokens_cached: cached,
        timings: Timings::new(
            cached,
            evaluated.saturating_sub(cached),
            prompt_ms,
            progress.tokens,
            predicted_ms,
        ),
        completion_probabilities: None,
    }
}

fn probability(score: &TokenScore, most: usize) -> Probability {
    let entry = |scored: &ScoredToken, top_logprobs: Option<Vec<Probability>>| {
        let bytes = scored.token.bytes.clone();
        let token = String::from_utf8_lossy(&bytes).into_owned();
        let logprob = if scored.logprob.is_finite() { scored.logprob } else { f32::MIN };
        Probability { id: scored.token.id, token, bytes, logprob, top_logprobs }
    };
    let top = score.top.iter().take(most).map(|top| entry(top, None)).collect();
    entry(&score.chosen, Some(top))
}

/// Writes a stream of this API's events. There is none after the last answer's end.
struct Writer {
    asked: Asked,
    choices: Vec<Progress>,
}

impl Writer {
    fn piece(
        &self,
        generation: &Generation,
        index: usize,
        content: &str,
        token: Option<(u32, Option<TokenScore>)>,
        out: &mut String,
    ) {
        let tokens: Vec<u32> = token.iter().map(|(id, _)| *id).collect();
        let scored = |most: usize| {
            token.iter().filter_map(|(_, score)| Some(probability(score.as_ref()?, most))).collect()
        };
        let evaluated = generation.prompt_of(index).map_or(0, |prompt| prompt.tokens);
        let piece = Piece {
            index,
            content,
            tokens: &tokens,
            stop: false,
            id_slot: -1,
            tokens_predicted: self.choices[index].tokens,
            tokens_evaluated: evaluated,
            completion_probabilities: self.asked.alternatives.map(scored),
        };
        out.push_str(&sse::data(&piece));
    }
}

impl Dialect for Writer {
    fn write(&mut self, generation: &Generation, choice: usize, event: Event, out: &mut String) {
        let (parts, token, end) = match event {
            Event::Prompt(_) | Event::Resumed(_) => return,
            Event::Token(Token { parts, id, score, .. }) => (parts, Some((id, score)), None),
            Event::Done { parts, end } => (parts, None, Some(end)),
        };
        let mut content = String::new();
        for part in parts {
            if let Part::Content(text) = part {
                content.push_str(&text);
            }
        }
        let progress = &mut self.choices[choice];
        progress.has_new_line |= content.contains('\n');
        if token.is_some() {
            progress.tokens += 1;
            progress.began.get_or_insert_with(Instant::now);
        }
        if token.is_some() || !content.is_empty() {
            self.piece(generation, choice, &content, token, out);
        }
        if let Some(end) = end {
            self.choices[choice].ended = Some(Instant::now());
            let answer = last(generation, &self.asked, choice, &self.choices[choice], &end);
            out.push_str(&sse::data(&select(&self.asked, &answer)));
        }
    }

    fn end(&mut self, _generation: &Generation, _out: &mut String) {}

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        out.push_str(&sse::fault(fault));
    }
}
