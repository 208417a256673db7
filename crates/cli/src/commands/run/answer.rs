//! One answer: shown as it comes, and told about afterwards.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use engine::{Event, FinishReason, Timings, TokenLogprobs, Usage};
use serde_json::{Value, json};

use super::session::Session;
use crate::term::err;
use crate::{Failure, term};

/// How soon Ctrl-C is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A finished answer.
pub(super) struct Answer {
    pub(super) text: String,
    tokens: Vec<u32>,
    logprobs: Vec<TokenLogprobs>,
    reason: FinishReason,
    usage: Usage,
    timings: Timings,
    seed: u64,
    /// Tokens guessed ahead, and those of them that were right.
    guesses: (u64, u64),
}

/// Answers `prompt`, writing the text to standard output as it comes if `shown`. A raised `stop` ends it early.
pub(super) fn stream(
    session: &Session,
    prompt: Vec<u32>,
    stop: Option<&AtomicBool>,
    shown: bool,
) -> Result<Answer, Failure> {
    let guessed = || {
        let stats = session.handle.stats();
        (stats.proposed_tokens, stats.accepted_tokens)
    };
    let before = guessed();
    let (outbox, events) = channel();
    let ticket = session.handle.submit(session.request(prompt), Box::new(outbox))?;
    let tidy = shown && std::io::stdout().is_terminal();
    let (mut text, mut tokens, mut all_logprobs) = (String::new(), Vec::new(), Vec::new());
    let mut show = |piece: &str| {
        text.push_str(piece);
        if shown && !piece.is_empty() {
            term::write(&if tidy { printable(piece) } else { piece.to_owned() });
        }
    };
    loop {
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            ticket.cancel();
        }
        match events.recv_timeout(LOOK_EVERY) {
            // Not asked for.
            Ok(Event::Prompt { .. } | Event::Resumed { .. }) => {}
            Ok(Event::Token { text, id, logprobs }) => {
                tokens.push(id);
                all_logprobs.extend(logprobs);
                show(&text);
            }
            Ok(Event::Done { text: rest, reason, usage, timings, .. }) => {
                show(&rest);
                let seed = ticket.seed();
                // One answer at a time: what was guessed meanwhile was for this one.
                let (proposed, accepted) = guessed();
                let guesses = (proposed - before.0, accepted - before.1);
                let logprobs = all_logprobs;
                return Ok(Answer { text, tokens, logprobs, reason, usage, timings, seed, guesses });
            }
            Ok(Event::Failed { error, .. }) => return Err(error.into()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the engine stopped without an answer"));
            }
        }
    }
}

/// A model's text for a terminal: no control characters but newline and tab, so that an answer cannot move the cursor,
/// change the title or hide what was written.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn per_second(count: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { ((count as f64 / time.as_secs_f64()) * 100.0).round() / 100.0 }
}

impl Answer {
    /// Tokens per second after the first one.
    fn decode_rate(&self) -> f64 {
        per_second(self.usage.completion_tokens.saturating_sub(1), self.timings.decode)
    }

    fn prefill_rate(&self) -> f64 {
        per_second(self.usage.prompt_tokens, self.timings.prefill)
    }

    /// What `--json` prints.
    pub(super) fn report(&self, prompt: &[u32], load: Duration, logprobs: bool) -> Value {
        let Timings { queued, prefill, decode, .. } = self.timings;
        let mut report = json!({
            "text": self.text,
            "tokens": self.tokens,
            "prompt_tokens": prompt,
            "finish_reason": self.reason.name(),
            "seed": self.seed,
            "timings": {
                "load_ms": ms(load),
                "queued_ms": ms(queued),
                "prefill_ms": ms(prefill),
                "decode_ms": ms(decode),
                "prefill_tokens": self.usage.prompt_tokens,
                "decode_tokens": self.usage.completion_tokens.saturating_sub(1),
                "prefill_tokens_per_s": self.prefill_rate(),
                "decode_tokens_per_s": self.decode_rate(),
                "draft_tokens": self.guesses.0,
                "accepted_draft_tokens": self.guesses.1,
            },
        });
        if logprobs {
            let one = |(id, l): (&u32, &TokenLogprobs)| {
                let top: Vec<Value> = l.top.iter().map(|(id, p)| json!({ "id": id, "logprob": p })).collect();
                json!({ "id": id, "logprob": l.logprob, "top": top })
            };
            report["logprobs"] = self.tokens.iter().zip(&self.logprobs).map(one).collect();
        }
        report
    }

    /// One line on standard error.
    pub(super) fn say_timings(&self, load: Duration) {
        err!(
            "load {:.2} s · prefill {} in {:.1} ms, {:.1} tokens/s · decode {}, {:.1} tokens/s · \
             {} of {} guessed tokens right · {} · seed {}",
            load.as_secs_f64(),
            term::number(self.usage.prompt_tokens, "token"),
            ms(self.timings.prefill),
            self.prefill_rate(),
            term::number(self.usage.completion_tokens, "token"),
            self.decode_rate(),
            self.guesses.1,
            self.guesses.0,
            self.reason.name(),
            self.seed,
        );
    }

    /// Whether Ctrl-C ended it.
    pub(super) fn was_cancelled(&self) -> bool {
        self.reason == FinishReason::Cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2J\tb\r\nc\u{9b}31m é"), "a[2J\tb\nc31m é");
    }

    #[test]
    fn rates_leave_out_the_first_token() {
        let answer = Answer {
            text: String::new(),
            tokens: vec![1; 11],
            logprobs: Vec::new(),
            reason: FinishReason::Length,
            usage: Usage { prompt_tokens: 100, completion_tokens: 11, ..Usage::default() },
            timings: Timings {
                prefill: Duration::from_millis(500),
                decode: Duration::from_secs(2),
                ..Timings::default()
            },
            seed: 3,
            guesses: (0, 0),
        };
        let report = answer.report(&[4, 5], Duration::from_secs(1), false);
        assert_eq!(report["timings"]["prefill_tokens_per_s"], 200.0);
        assert_eq!(report["timings"]["decode_tokens_per_s"], 5.0);
        assert_eq!(
            (report["finish_reason"].as_str(), report["prompt_tokens"].to_string()),
            (Some("length"), "[4,5]".into())
        );
    }
}
