//! Whole answers of OpenAI's chat and text completions.

use std::time::Instant;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use inference::{End, Event, Generation, Part, PromptScores, Token, TokenScore};
use service::unix_seconds;
use wire::{Fault, chat, completion, logprobs};

use crate::scores;
use crate::shown::Shown;

/// Version of the server, in every answer.
pub(crate) const FINGERPRINT: &str = concat!("gristmill-", env!("CARGO_PKG_VERSION"));

/// One choice, as it comes together.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) text: String,
    thought: String,
    calls: Vec<Call>,
    /// Each token's score, and whether the token ends the answer.
    pub(crate) scored: Vec<(bool, TokenScore)>,
    pub(crate) ids: Vec<u32>,
    /// When the first token came.
    pub(crate) began: Option<Instant>,
    /// When it ended.
    pub(crate) ended: Option<Instant>,
    pub(crate) end: End,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Gathered {
    fn add(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part {
                Part::Content(text) => self.text.push_str(&text),
                Part::Reasoning(text) => self.thought.push_str(&text),
                Part::Call { id, name, .. } => self.calls.push(Call { id, name, arguments: String::new() }),
                Part::Arguments { index, text } => {
                    if let Some(call) = self.calls.get_mut(index) {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
    }

    /// Mean log-probability of its tokens, the end included.
    pub(crate) fn likelihood(&self) -> f64 {
        let logprobs = self.scored.iter().map(|(_, score)| f64::from(score.chosen.logprob));
        logprobs.sum::<f64>() / self.scored.len().max(1) as f64
    }

    pub(crate) fn said(self) -> chat::AssistantMessage {
        let whole = |call: Call| chat::ToolCall {
            index: None,
            id: Some(call.id),
            r#type: Some("function"),
            function: chat::FunctionCall { name: Some(call.name), arguments: call.arguments },
        };
        let tool_calls: Vec<chat::ToolCall> = self.calls.into_iter().map(whole).collect();
        chat::AssistantMessage {
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
) -> Result<(Vec<Gathered>, Vec<Option<PromptScores>>), Fault> {
    let mut choices: Vec<Gathered> = Vec::new();
    choices.resize_with(generation.choices(), Gathered::default);
    let mut scores: Vec<Option<PromptScores>> = vec![None; generation.prompts.len()];
    while !generation.is_over() {
        let (index, event) = generation.next().await?;
        let choice = &mut choices[index];
        match event {
            Event::Prompt(told) => scores[index / generation.n] = Some(told),
            Event::Resumed(tokens) => {
                for Token { id, parts, .. } in tokens {
                    choice.add(parts);
                    choice.ids.push(id);
                }
            }
            Event::Token(Token { id, parts, ends, score }) => {
                choice.add(parts);
                choice.began.get_or_insert_with(Instant::now);
                choice.ids.push(id);
                choice.scored.extend(score.map(|score| (ends, score)));
            }
            Event::Done { parts, end } => {
                choice.add(parts);
                choice.ended = Some(Instant::now());
                choice.end = end;
            }
        }
    }
    Ok((choices, scores))
}

/// The whole answer, once it has ended.
pub(crate) async fn whole(mut generation: Generation, shown: &Shown, id: String) -> Result<Response, Fault> {
    let (choices, scores) = gather(&mut generation).await?;
    let json = if shown.chat {
        chat_json(&generation, shown, choices, &scores, id)
    } else {
        let choices = best(choices, generation.n, shown.best);
        completion_json(&generation, shown, choices, &scores, &id)
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn positions(shown: &Shown, choice: &mut Gathered) -> Option<Vec<logprobs::Position>> {
    shown.logprobs?;
    let scored = std::mem::take(&mut choice.scored);
    Some(scored.iter().filter_map(|(ends, score)| shown.position(*ends, Some(score))).collect())
}

/// The likeliest `best` of the `n` answers to each prompt, the likeliest first, if not all of them are sent.
pub(crate) fn best(mut choices: Vec<Gathered>, n: usize, best: usize) -> Vec<Gathered> {
    if best == n {
        return choices;
    }
    let mut kept = Vec::with_capacity(best * choices.len() / n);
    while !choices.is_empty() {
        let rest = choices.split_off(n);
        let mut of_prompt = std::mem::replace(&mut choices, rest);
        of_prompt.sort_by(|a, b| b.likelihood().total_cmp(&a.likelihood()));
        of_prompt.truncate(best);
        kept.append(&mut of_prompt);
    }
    kept
}

fn returned(shown: &Shown, choice: &mut Gathered) -> Option<Vec<u32>> {
    shown.ids.returned.then(|| std::mem::take(&mut choice.ids))
}

/// The tokens of a prompt, if they are sent.
fn prompt_ids(generation: &Generation, prompt: usize) -> Option<Vec<u32>> {
    generation.prompts.get(prompt)?.ids.as_ref().map(|ids| ids.to_vec())
}

fn chat_json(
    generation: &Generation,
    shown: &Shown,
    choices: Vec<Gathered>,
    scores: &[Option<PromptScores>],
    id: String,
) -> String {
    let choice = |(index, mut gathered): (usize, Gathered)| chat::Choice {
        index,
        logprobs: positions(shown, &mut gathered).map(|p| logprobs::Chat::new(&p)),
        finish_reason: gathered.end.reason,
        stop_reason: gathered.end.stop.take(),
        token_ids: returned(shown, &mut gathered),
        message: gathered.said(),
    };
    let answer = chat::ChatCompletion {
        id,
        object: "chat.completion",
        created: unix_seconds(),
        model: generation.model.clone(),
        system_fingerprint: FINGERPRINT,
        choices: choices.into_iter().enumerate().map(choice).collect(),
        usage: generation.usage(),
        prompt_token_ids: prompt_ids(generation, 0),
        prompt_logprobs: scores.first().and_then(|scores| scores::ranked(shown, scores.as_ref())),
    };
    serde_json::to_string(&answer).expect("answers have string keys, which serialize")
}

fn completion_json(
    generation: &Generation,
    shown: &Shown,
    choices: Vec<Gathered>,
    scores: &[Option<PromptScores>],
    id: &str,
) -> String {
    let n = shown.best;
    let choice = |(index, mut gathered): (usize, Gathered)| {
        let prompt = index / n;
        let echo = generation.prompts[prompt].text.as_deref().filter(|_| shown.echo);
        let score = scores[prompt].as_ref();
        completion::Choice {
            index,
            logprobs: positions(shown, &mut gathered).map(|positions| {
                let echoed = echo.and_then(|echo| scores::echoed(shown, score?, echo));
                let (lists, offset) = echoed.unwrap_or_default();
                lists.then(logprobs::Completion::new(&positions, offset).0)
            }),
            text: match echo {
                Some(echo) => format!("{echo}{}", gathered.text),
                None => std::mem::take(&mut gathered.text),
            },
            finish_reason: Some(gathered.end.reason),
            stop_reason: Some(gathered.end.stop.take()),
            token_ids: returned(shown, &mut gathered),
            prompt_token_ids: prompt_ids(generation, prompt),
            prompt_logprobs: scores::ranked(shown, score),
        }
    };
    let answer = completion::Answer {
        id,
        object: "text_completion",
        created: unix_seconds(),
        model: &generation.model,
        system_fingerprint: FINGERPRINT,
        choices: choices.into_iter().enumerate().map(choice).collect(),
        usage: Some(Some(generation.usage())),
    };
    serde_json::to_string(&answer).expect("answers have string keys, which serialize")
}
