//! The whole answer, both endpoints.

use std::time::Instant;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use engine::TokenLogprobs;
use text::Part;
use wire::{Fault, chat, completion, logprobs};

use crate::calls::CallIds;
use crate::generation::{End, Generation, Told};
use crate::plan::{Form, Plan};
use crate::prompts;
use crate::served::unix_seconds;

/// Version of the server, in every answer.
pub(crate) const FINGERPRINT: &str = concat!("gristmill-", env!("CARGO_PKG_VERSION"));

/// One choice, as it comes together.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) text: String,
    thought: String,
    /// Names and arguments.
    calls: Vec<(String, String)>,
    /// Kept as ids: their texts are looked up once, at the end.
    pub(crate) scored: Vec<(u32, Option<TokenLogprobs>)>,
    /// If they are sent.
    pub(crate) ids: Vec<u32>,
    /// How many tokens came.
    pub(crate) tokens: usize,
    /// When the first one did.
    pub(crate) began: Option<Instant>,
    /// When it ended.
    pub(crate) ended: Option<Instant>,
    pub(crate) end: End,
}

impl Gathered {
    fn add(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part {
                Part::Content(text) => self.text.push_str(&text),
                Part::Reasoning(text) => self.thought.push_str(&text),
                Part::Call { name, .. } => self.calls.push((name, String::new())),
                Part::Arguments { index, text } => {
                    if let Some((_, arguments)) = self.calls.get_mut(index) {
                        arguments.push_str(&text);
                    }
                }
            }
        }
    }

    /// Mean log-probability of its tokens, the end included.
    pub(crate) fn likelihood(&self) -> f64 {
        let logprobs = self.scored.iter().filter_map(|(_, scored)| Some(f64::from(scored.as_ref()?.logprob)));
        logprobs.sum::<f64>() / self.scored.len().max(1) as f64
    }

    fn said(self, choice: usize, ids: &CallIds) -> chat::Said {
        let calls = self.calls.into_iter().enumerate();
        let tool_calls: Vec<chat::ToolCall> =
            calls.map(|(i, (name, arguments))| ids.whole(choice, i, name, arguments)).collect();
        chat::Said {
            role: "assistant",
            content: Some(self.text).filter(|text| !text.is_empty() || tool_calls.is_empty()),
            refusal: None,
            reasoning_content: Some(self.thought).filter(|thought| !thought.is_empty()),
            tool_calls,
        }
    }
}

/// Reads a generation to its end: the answers, and the log-probabilities of each prompt if they were asked for.
pub(crate) async fn gather(
    generation: &mut Generation,
) -> Result<(Vec<Gathered>, Vec<Vec<TokenLogprobs>>), Fault> {
    let mut choices: Vec<Gathered> = Vec::new();
    choices.resize_with(generation.choices, Gathered::default);
    // One a prompt, if they were asked for.
    let mut scores: Vec<Vec<TokenLogprobs>> = vec![Vec::new(); generation.choices / generation.plan.n];
    while !generation.is_over() {
        let (index, told) = generation.next().await?;
        let choice = &mut choices[index];
        match told {
            Told::Prompt(logprobs) => scores[index / generation.plan.n] = logprobs,
            Told::Token { parts, id, logprobs } => {
                choice.add(parts);
                choice.tokens += 1;
                choice.began.get_or_insert_with(Instant::now);
                if generation.plan.ids.returned {
                    choice.ids.push(id);
                }
                if logprobs.is_some() {
                    choice.scored.push((id, logprobs));
                }
            }
            Told::Done { parts, end } => {
                choice.add(parts);
                choice.ended = Some(Instant::now());
                choice.end = end;
            }
        }
    }
    Ok((choices, scores))
}

/// The whole answer, once it has ended.
pub(crate) async fn whole(mut generation: Generation, id: String) -> Result<Response, Fault> {
    let (choices, scores) = gather(&mut generation).await?;
    let json = match generation.plan.form {
        Form::Completion(_) => {
            let choices = best(choices, &generation.plan);
            completion_json(&mut generation, choices, &scores, &id)
        }
        _ => chat_json(&generation, choices, &scores, id),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn positions(generation: &Generation, choice: &mut Gathered) -> Option<Vec<logprobs::Position>> {
    if !generation.plan.scored {
        return None;
    }
    let scored = std::mem::take(&mut choice.scored);
    Some(scored.into_iter().filter_map(|(id, l)| generation.position(id, l)).collect())
}

/// The likeliest answers to each prompt, the likeliest first, if not all of them are sent.
fn best(mut choices: Vec<Gathered>, plan: &Plan) -> Vec<Gathered> {
    if plan.best == plan.n {
        return choices;
    }
    let mut kept = Vec::with_capacity(plan.best * choices.len() / plan.n);
    while !choices.is_empty() {
        let rest = choices.split_off(plan.n);
        let mut of_prompt = std::mem::replace(&mut choices, rest);
        of_prompt.sort_by(|a, b| b.likelihood().total_cmp(&a.likelihood()));
        of_prompt.truncate(plan.best);
        kept.append(&mut of_prompt);
    }
    kept
}

fn returned(generation: &Generation, choice: &mut Gathered) -> Option<Vec<u32>> {
    generation.plan.ids.returned.then(|| std::mem::take(&mut choice.ids))
}

fn chat_json(
    generation: &Generation,
    choices: Vec<Gathered>,
    scores: &[Vec<TokenLogprobs>],
    id: String,
) -> String {
    let choice = |(index, mut gathered): (usize, Gathered)| chat::Choice {
        index,
        logprobs: positions(generation, &mut gathered).map(|p| logprobs::Chat::new(&p)),
        finish_reason: gathered.end.reason,
        stop_reason: gathered.end.stop.take(),
        token_ids: returned(generation, &mut gathered),
        message: gathered.said(index, &generation.call_ids),
    };
    let answer = chat::Answer {
        id,
        object: "chat.completion",
        created: unix_seconds(),
        model: generation.served.name().to_owned(),
        system_fingerprint: FINGERPRINT,
        choices: choices.into_iter().enumerate().map(choice).collect(),
        usage: generation.usage(),
        prompt_token_ids: generation.plan.prompts.first().filter(|_| generation.plan.ids.returned).cloned(),
        prompt_logprobs: scores.first().and_then(|scores| prompts::ranked(generation, scores, 0)),
    };
    serde_json::to_string(&answer).expect("answers have string keys, which serialize")
}

fn completion_json(
    generation: &mut Generation,
    choices: Vec<Gathered>,
    scores: &[Vec<TokenLogprobs>],
    id: &str,
) -> String {
    let n = generation.plan.best;
    let echoes = match &mut generation.plan.form {
        Form::Completion(echoes) => echoes.take(),
        _ => None,
    };
    let choice = |(index, mut gathered): (usize, Gathered)| completion::Choice {
        index,
        logprobs: positions(generation, &mut gathered).map(|positions| {
            let echo = echoes.as_ref().map(|echoes| echoes[index / n].as_str());
            let echoed =
                echo.and_then(|echo| prompts::echoed(generation, &scores[index / n], index / n, echo));
            let (prompt, offset) = echoed.unwrap_or_default();
            prompt.then(logprobs::Completion::new(&positions, offset).0)
        }),
        text: match &echoes {
            Some(echoes) => format!("{}{}", echoes[index / n], gathered.text),
            None => std::mem::take(&mut gathered.text),
        },
        finish_reason: Some(gathered.end.reason),
        stop_reason: Some(gathered.end.stop.take()),
        token_ids: returned(generation, &mut gathered),
        prompt_token_ids: generation
            .plan
            .prompts
            .get(index / n)
            .filter(|_| generation.plan.ids.returned)
            .cloned(),
        prompt_logprobs: prompts::ranked(generation, &scores[index / n], index / n),
    };
    let answer = completion::Answer {
        id,
        object: "text_completion",
        created: unix_seconds(),
        model: generation.served.name(),
        system_fingerprint: FINGERPRINT,
        choices: choices.into_iter().enumerate().map(choice).collect(),
        usage: Some(Some(generation.usage())),
    };
    serde_json::to_string(&answer).expect("answers have string keys, which serialize")
}
