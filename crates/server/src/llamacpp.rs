//! `/completion`, `/completions` and `/slots`, as llama.cpp's own clients ask for them.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use engine::TokenLogprobs;
use serde::Serialize;
use serde_json::{Value, json};
use text::Part;
use wire::completion::Prompt;
use wire::llamacpp::{self, Answer, LlamaRequest, Piece, Probability, Timings};
use wire::{Fault, sse};

use crate::answer::{self, Gathered};
use crate::generation::{End, Generation, Told};
use crate::layers;
use crate::plan::{self, Form, Plan};
use crate::preparation::Work;
use crate::routes::{Begun, begin};
use crate::state::State;
use crate::stream::{self, Dialect};

/// What such a request wants to be told.
pub(crate) struct Asked {
    return_tokens: bool,
    response_fields: Vec<String>,
    listed: bool,
    /// Text and token count of each prompt.
    prompts: Vec<(String, usize)>,
    settings: Value,
    /// Alternatives of each token, if they are told.
    alternatives: Option<usize>,
    begun: Instant,
}

/// `POST /completion` and `/completions`.
pub(crate) async fn completion(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    match begin(&state, request, plan).await {
        Ok(Begun { generation, .. }) => said(&state, generation).await,
        Err(fault) => Err(fault),
    }
    .unwrap_or_else(|fault| layers::respond(&fault))
}

/// `GET /slots`: how many answers are computed, as slots that are in use or not.
pub(crate) async fn slots(Shared(state): Shared<Arc<State>>, uri: Uri) -> Response {
    let served = match state.served_or_reject() {
        Ok(served) => served,
        Err(fault) => return layers::respond(&fault),
    };
    let (all, running) = (state.options.parallel, served.engine.stats().running);
    let slot = |id: usize| json!({"id": id, "n_ctx": served.engine.context(), "speculative": false, "is_processing": id < running});
    let slots: Vec<Value> = (0..all).map(slot).collect();
    let none_free = running >= all && uri.query().is_some_and(|query| query.contains("fail_on_no_slot"));
    let status = if none_free { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(slots)).into_response()
}

fn plan(served: &Work, body: &[u8]) -> Result<Plan, Fault> {
    let request = LlamaRequest::parse(body)?;
    let text = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Tokens(ids) => served.language.decode(ids),
    };
    let texts: Vec<String> = request.completion.prompts.iter().map(text).collect();
    let alternatives = request.completion.logprobs;
    let mut plan = plan::continuation(served, request.completion)?;
    plan.ids.returned = request.return_tokens;
    let asked = Asked {
        return_tokens: request.return_tokens,
        response_fields: request.response_fields,
        listed: request.listed || plan.choices() > 1,
        prompts: texts.into_iter().zip(plan.prompts.iter().map(Vec::len)).collect(),
        settings: settings(served, &plan),
        alternatives,
        begun: Instant::now(),
    };
    plan.form = Form::Llama(Box::new(asked));
    Ok(plan)
}

/// How tokens are chosen, under llama.cpp's names.
fn settings(served: &Work, plan: &Plan) -> Value {
    let p = &plan.template.params;
    let most = plan.template.max_tokens.map_or(Value::from(-1), Value::from);
    let mirostat = p.mirostat.as_ref();
    json!({
        "n_ctx": served.engine.context(),
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
            engine::MirostatVersion::One => 1,
            engine::MirostatVersion::Two => 2,
        }),
        "mirostat_tau": mirostat.map_or(5.0, |m| m.tau),
        "mirostat_eta": mirostat.map_or(0.1, |m| m.eta),
        "stop": plan.template.stop,
        "ignore_eos": plan.template.ignore_end,
        "stream": plan.stream.on,
        "n_probs": p.logprobs.unwrap_or(0),
    })
}

async fn said(state: &State, mut generation: Generation) -> Result<Response, Fault> {
    let Form::Llama(asked) = std::mem::replace(&mut generation.plan.form, Form::Chat) else {
        return Err(Fault::internal("a form of answer that this route does not make"));
    };
    if generation.plan.stream.on {
        let choices = (0..generation.choices).map(|_| Progress::default()).collect();
        let writer = Writer { asked: *asked, choices };
        return Ok(stream::response(generation, Box::new(writer), state.options.ping));
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
        tokens: gathered.tokens,
        began: gathered.began,
        ended: gathered.ended,
        has_new_line: gathered.text.contains('\n'),
    };
    let probabilities = asked.alternatives.map(|most| {
        let scored = std::mem::take(&mut gathered.scored);
        scored.iter().filter_map(|(id, scored)| probability(generation, *id, scored.as_ref(), most)).collect()
    });
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
    let (prompt, evaluated) = asked
        .prompts
        .get(index / generation.plan.n)
        .map_or(("", 0), |(prompt, tokens)| (prompt.as_str(), *tokens));
    // What was remembered is known for all prompts together.
    let cached =
        if asked.prompts.len() == 1 { generation.usage().prompt_tokens_details.cached_tokens } else { 0 };
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
        model: generation.served.name(),
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

fn probability(
    generation: &Generation,
    id: u32,
    scored: Option<&TokenLogprobs>,
    most: usize,
) -> Option<Probability> {
    let scored = scored?;
    let entry = |id: u32, logprob: f32, top_logprobs: Option<Vec<Probability>>| {
        let bytes = generation.served.language.bytes(id);
        let token = String::from_utf8_lossy(&bytes).into_owned();
        let logprob = if logprob.is_finite() { logprob } else { f32::MIN };
        Probability { id, token, bytes, logprob, top_logprobs }
    };
    let top = scored.top.iter().take(most).map(|(id, logprob)| entry(*id, *logprob, None)).collect();
    Some(entry(id, scored.logprob, Some(top)))
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
        token: Option<(u32, Option<TokenLogprobs>)>,
        out: &mut String,
    ) {
        let tokens: Vec<u32> = token.iter().map(|(id, _)| *id).collect();
        let scored = |most: usize| {
            token.iter().filter_map(|(id, s)| probability(generation, *id, s.as_ref(), most)).collect()
        };
        let evaluated = self.asked.prompts.get(index / generation.plan.n).map_or(0, |(_, tokens)| *tokens);
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
    fn write(&mut self, generation: &Generation, choice: usize, told: Told, out: &mut String) {
        let (parts, token, end) = match told {
            Told::Prompt(_) => return,
            Told::Token { parts, id, logprobs } => (parts, Some((id, logprobs)), None),
            Told::Done { parts, end } => (parts, None, Some(end)),
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
