//! One request on its way: its tokens, its sampler, its text, its times.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::{Event, FinishReason, Outbox, Request, Speech, Timings, Usage, Vocabulary};

/// A request and everything it needs but KV blocks, which only running ones have.
pub(crate) struct Sequence {
    /// Prompt, then answer. Room for the whole answer is taken as it grows.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_len: usize,
    /// Most tokens of prompt and answer together.
    pub(crate) end: usize,
    pub(crate) request: Request,
    pub(crate) seed: u64,
    pub(crate) speech: Box<dyn Speech>,
    pub(crate) outbox: Box<dyn Outbox>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) submitted: Duration,
    pub(crate) started: Option<Duration>,
    pub(crate) first_token: Option<Duration>,
    pub(crate) preemptions: usize,
}

impl Sequence {
    pub(crate) fn new(
        mut request: Request,
        seed: u64,
        context: usize,
        vocabulary: &Arc<dyn Vocabulary>,
        outbox: Box<dyn Outbox>,
        now: Duration,
    ) -> Sequence {
        let tokens = std::mem::take(&mut request.prompt);
        let prompt_len = tokens.len();
        let end = context.min(prompt_len.saturating_add(request.max_tokens.unwrap_or(usize::MAX)));
        Sequence {
            tokens,
            prompt_len,
            end,
            request,
            seed,
            speech: vocabulary.clone().speech(),
            outbox,
            cancelled: Arc::default(),
            submitted: now,
            started: None,
            first_token: None,
            preemptions: 0,
        }
    }

    /// Tells the outbox that this was all.
    pub(crate) fn finish(&mut self, reason: FinishReason, text: String, now: Duration) {
        let event = Event::Done { text, reason, usage: self.usage(), timings: self.timings(now) };
        // Gone or not, it is over.
        let _ = self.outbox.put(event);
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_len,
            completion_tokens: self.tokens.len() - self.prompt_len,
            cached_tokens: 0,
        }
    }

    pub(crate) fn timings(&self, now: Duration) -> Timings {
        let started = self.started.unwrap_or(now);
        let first = self.first_token.unwrap_or(now);
        Timings {
            queued: started.saturating_sub(self.submitted),
            prefill: first.saturating_sub(started),
            decode: now.saturating_sub(first),
            preemptions: self.preemptions,
        }
    }
}
