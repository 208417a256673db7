//! A sequence: one request with its tokens, sampler, detokenizer, stops and times.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use text::StopMatcher;

use crate::params::invalid;
use crate::sample::{ConstraintState, EndTokens, Sampler, SamplerScratch, score};
use crate::warming::Text;
use crate::{
    Caller, Detokenizer, Error, Event, FinishReason, MatchedStop, Outbox, Priority, ReceiverGone, Refused,
    Request, Timings, TokenLogprobs, Usage, Vocabulary,
};

/// A request with all of its state except KV blocks, which only running sequences have.
pub(crate) struct Sequence {
    /// Prompt, then answer.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_len: usize,
    /// Tokens of the answer that another engine generated.
    pub(crate) resumed: usize,
    /// See [`Event::Resumed`], until it is sent.
    resumed_texts: Vec<(u32, String)>,
    /// Why the answer ended with the resumed tokens, if it did.
    ended: Option<FinishReason>,
    /// Whether the whole prompt was computed and told.
    prompt_done: bool,
    /// Most tokens of prompt and answer together.
    end: usize,
    /// Whether the request bounds the answer.
    bounded: bool,
    stop_ids: Vec<u32>,
    ignore_end: bool,
    show_stop: bool,
    min_tokens: usize,
    matched_stop: Option<MatchedStop>,
    /// Log-probabilities of the prompt, if they were requested, until they are sent.
    scores: Option<Scores>,
    sampler: Sampler,
    constraint: Option<ConstraintState>,
    detokenizer: Box<dyn Detokenizer>,
    stops: StopMatcher,
    outbox: Box<dyn Outbox>,
    cancelled: Arc<AtomicBool>,
    max_wait: Option<Duration>,
    /// Time limit, after which the request fails.
    deadline: Option<Duration>,
    pub(crate) caller: Caller,
    pub(crate) salt: u64,
    /// Nobody's request: it is computed for the prefix cache, while there is nothing else to do.
    pub(crate) warms: bool,
    /// The model computes generated tokens otherwise than prompts.
    pub(crate) prefill_differs: bool,
    /// Prompt tokens found in the prefix cache.
    cached: usize,
    pub(crate) submitted: Duration,
    started: Option<Duration>,
    first_token: Option<Duration>,
    pub(crate) preemptions: usize,
    /// See [`Usage`].
    pub(crate) prompt_time: Duration,
    pub(crate) completion_time: Duration,
}

/// The log-probabilities of a prompt, as far as it was computed; kept across preemptions.
struct Scores {
    /// Number of alternatives at each position.
    count: usize,
    /// `[positions]`: of the token after each.
    found: Vec<TokenLogprobs>,
}

/// Takes the events of a sequence that nobody asked for.
struct Nobody;

impl Outbox for Nobody {
    fn put(&mut self, _event: Event) -> Result<(), ReceiverGone> {
        Ok(())
    }
}

/// Whether a sequence continues after a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The sequence continues.
    Continue,
    /// The sequence has ended, for this reason.
    Finish(FinishReason),
}

impl Sequence {
    /// `request` has been checked against the context and the vocabulary.
    pub(crate) fn new(
        request: Request,
        seed: u64,
        context: usize,
        vocabulary: &Arc<dyn Vocabulary>,
        outbox: Box<dyn Outbox>,
        now: Duration,
    ) -> Sequence {
        let tokens = request.prompt;
        let prompt_len = tokens.len();
        let late = if request.min_tokens > 0 {
            [vocabulary.ends(), request.stop_ids.clone()].concat()
        } else {
            Vec::new()
        };
        let ends = EndTokens {
            never: if request.ignore_end { vocabulary.ends() } else { Vec::new() },
            late,
            min_tokens: request.min_tokens,
        };
        Sequence {
            prompt_len,
            resumed: 0,
            resumed_texts: Vec::new(),
            ended: None,
            prompt_done: false,
            bounded: request.max_tokens.is_some(),
            end: context.min(prompt_len.saturating_add(request.max_tokens.unwrap_or(usize::MAX))),
            scores: request.prompt_logprobs.map(|count| Scores { count, found: Vec::new() }),
            sampler: Sampler::new(request.params, seed, ends, vocabulary.as_ref(), &tokens),
            stop_ids: request.stop_ids,
            ignore_end: request.ignore_end,
            show_stop: request.show_stop,
            min_tokens: request.min_tokens,
            matched_stop: None,
            constraint: request.constrain.map(|constrain| ConstraintState::new(constrain.begin())),
            detokenizer: vocabulary.clone().detokenizer(&request.shown),
            stops: StopMatcher::new(request.stop).keeping(request.show_stop),
            outbox,
            cancelled: Arc::default(),
            max_wait: request.max_wait,
            deadline: request.time_limit.map(|limit| now + limit),
            caller: request.caller,
            salt: request.cache_salt,
            warms: false,
            prefill_differs: false,
            cached: 0,
            submitted: now,
            started: None,
            first_token: None,
            preemptions: 0,
            prompt_time: Duration::ZERO,
            completion_time: Duration::ZERO,
            tokens,
        }
    }

    /// A sequence that computes a text for the prefix cache.
    pub(crate) fn warming(text: Text, vocabulary: &Arc<dyn Vocabulary>, now: Duration) -> Sequence {
        let Text { tokens: prompt, salt: cache_salt } = text;
        // No client has this number, so none waits longer for it.
        let caller = Caller { priority: Priority::Batch, client: u64::MAX };
        let (max_tokens, max_wait) = (Some(0), Some(Duration::MAX));
        let request = Request { prompt, cache_salt, caller, max_tokens, max_wait, ..Request::default() };
        let context = request.prompt.len();
        let sequence = Sequence::new(request, 0, context, vocabulary, Box::new(Nobody), now);
        Sequence { warms: true, ..sequence }
    }

    /// Tokens of the answer that the next turn of a chat would not find in the prefix cache. None of batch work, which has
    /// no next turn.
    pub(crate) fn lacking(&self) -> usize {
        let lacks = self.prefill_differs && !self.warms && self.caller.priority.is_awaited();
        if lacks { self.tokens.len() - self.prompt_len } else { 0 }
    }

    /// Most tokens worth proposing: the step chooses one more, which must not pass the end.
    pub(crate) fn max_proposal(&self) -> usize {
        self.answer_left().saturating_sub(1)
    }

    /// Tokens that the constraint forces, in order.
    pub(crate) fn forced_tokens(&self) -> &[u32] {
        self.constraint.as_ref().map_or(&[], ConstraintState::forced_tokens)
    }

    /// The flag that a ticket sets to cancel the sequence.
    pub(crate) fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancelled.clone()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Whether no row of the sequence was ever computed.
    pub(crate) fn is_new(&self) -> bool {
        self.started.is_none()
    }

    /// The error of a sequence that exceeded the maximum wait in the queue.
    pub(crate) fn overdue(&self, now: Duration, limit: Duration) -> Option<Error> {
        let limit = self.max_wait.unwrap_or(limit);
        let waited = now.saturating_sub(self.submitted);
        (self.is_new() && waited > limit).then_some(Error::Waited { waited, limit })
    }

    /// The error of a sequence whose time limit has passed.
    pub(crate) fn expired(&self, now: Duration) -> Option<Error> {
        let deadline = self.deadline.filter(|deadline| now > *deadline)?;
        Some(Error::Expired { limit: deadline - self.submitted, tokens: self.tokens.len() - self.prompt_len })
    }

    /// Why the sequence is over before it began: its resumed tokens ended the answer.
    pub(crate) fn ended(&self) -> Option<FinishReason> {
        self.ended
    }

    /// Tokens to compute before the first one is sampled.
    pub(crate) fn queued_tokens(&self) -> usize {
        self.prompt_len + self.resumed
    }

    /// Records that `tokens` tokens were found in the prefix cache. (After a preemption they were computed once.)
    pub(crate) fn reused(&mut self, tokens: usize) {
        if self.preemptions == 0 {
            self.cached = self.prompt_len.min(self.cached + tokens);
        }
    }

    /// Whether the prompt was computed and told ([`Sequence::end_prompt`]).
    pub(crate) fn is_prompt_done(&self) -> bool {
        self.prompt_done
    }

    /// Whether no answer token was generated yet.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.tokens.len() == self.prompt_len
    }

    /// Whether the request bounds the answer, and not the context only.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Tokens that may still be generated.
    pub(crate) fn answer_left(&self) -> usize {
        self.end - self.tokens.len()
    }

    /// Records the start of the first step with a row of the sequence.
    pub(crate) fn start(&mut self, now: Duration) {
        self.started.get_or_insert(now);
    }

    /// Prompt positions whose log-probabilities are requested and not yet computed, without the last position, whose
    /// logits choose the first token.
    pub(crate) fn unscored_positions(&self) -> Range<usize> {
        self.scores.as_ref().map_or(0..0, |scores| scores.found.len()..self.prompt_len - 1)
    }

    /// Takes the logits of the first ones of [`Sequence::unscored_positions`].
    pub(crate) fn score<'a>(&mut self, rows: impl Iterator<Item = &'a [f32]>) -> Result<(), Error> {
        let Some(scores) = &mut self.scores else { return Ok(()) };
        for row in rows {
            let position = scores.found.len();
            scores.found.push(score(row, position, self.tokens[position + 1], scores.count)?);
        }
        Ok(())
    }

    /// Ends the prompt: sends its log-probabilities, if they were requested. Finishes if no token is to be generated.
    pub(crate) fn end_prompt(&mut self) -> Next {
        self.prompt_done = true;
        if let Some(Scores { found, .. }) = self.scores.take()
            && self.outbox.put(Event::Prompt { logprobs: found }).is_err()
        {
            return Next::Finish(FinishReason::Cancelled);
        }
        if self.answer_left() == 0 { Next::Finish(FinishReason::Length) } else { Next::Continue }
    }

    /// Samples the next token from the last row's logits and sends it to the outbox.
    pub(crate) fn advance(
        &mut self,
        logits: &[f32],
        vocabulary: &dyn Vocabulary,
        scratch: &mut SamplerScratch,
        now: Duration,
    ) -> Result<Next, Error> {
        let id = self.sampler.pick(logits, &self.tokens, self.constraint.as_mut(), vocabulary, scratch)?;
        let logprobs = self.sampler.logprobs(logits, id);
        self.first_token.get_or_insert(now);
        let complete = match &mut self.constraint {
            Some(constraint) => constraint.accept(id, &vocabulary.bytes(id), &mut scratch.mask_worker)?,
            None => false,
        };
        let (text, next) = self.append(id, complete, vocabulary);
        if self.outbox.put(Event::Token { text, id, logprobs }).is_err() {
            return Ok(Next::Finish(FinishReason::Cancelled));
        }
        Ok(next)
    }

    /// Appends a token to the answer, which is `complete` with it if the constraint says so. Returns the text that it
    /// completes, and whether the answer goes on.
    fn append(&mut self, id: u32, complete: bool, vocabulary: &dyn Vocabulary) -> (String, Next) {
        self.tokens.push(id);
        self.sampler.accept(id, vocabulary);
        let own_end = !self.ignore_end && vocabulary.is_end(id);
        let by_id = !own_end && self.stop_ids.contains(&id);
        if by_id {
            self.matched_stop = Some(MatchedStop::Id(id));
        }
        let ends = own_end || by_id;
        let silent = own_end || (by_id && !self.show_stop);
        let (text, stopped) = if silent { (String::new(), false) } else { self.detokenize(id) };
        if ends || stopped || complete {
            return (text, Next::Finish(FinishReason::Stop));
        }
        let is_full = self.tokens.len() >= self.end;
        (text, if is_full { Next::Finish(FinishReason::Length) } else { Next::Continue })
    }

    /// Appends the tokens that another engine of the same model generated for the same request, and brings sampler,
    /// constraint, detokenizer and stops to where they were there.
    ///
    /// # Errors
    /// A token that the constraint forbids, or one that follows the answer's end; a reader that has left meanwhile.
    pub(crate) fn replay(&mut self, ids: &[u32], vocabulary: &dyn Vocabulary) -> Result<(), Refused> {
        for (at, id) in ids.iter().copied().enumerate() {
            let refused = |why: String| invalid("resume", format!("token {id} at index {at}"), &why);
            if self.outbox.is_gone() {
                return Err(Refused::Closed);
            }
            if self.ended.is_some() {
                return Err(refused("no token after the one that ends the answer".into()));
            }
            let accepted = self.constraint.as_mut().map(|state| state.replay(id, &vocabulary.bytes(id)));
            let complete =
                accepted.transpose().map_err(|why| refused(format!("one that the form allows: {why}")))?;
            self.sampler.skip();
            let (text, next) = self.append(id, complete.unwrap_or(false), vocabulary);
            self.resumed_texts.push((id, text));
            if let Next::Finish(reason) = next {
                self.ended = Some(reason);
            }
        }
        self.resumed = ids.len();
        Ok(())
    }

    /// Sends the resumed tokens, if there are some.
    pub(crate) fn tell_resumed(&mut self) {
        let tokens = std::mem::take(&mut self.resumed_texts);
        if !tokens.is_empty() && self.outbox.put(Event::Resumed { tokens }).is_err() {
            self.cancelled.store(true, Ordering::Release);
        }
    }

    /// The text that a token completes, and whether a stop string was met.
    fn detokenize(&mut self, id: u32) -> (String, bool) {
        let mut text = String::new();
        self.detokenizer.push(id, &mut text);
        if self.tokens.len() - self.prompt_len <= self.min_tokens {
            return (self.stops.pass(&text), false);
        }
        let found = self.stops.push(&text);
        (found.emit, found.stopped)
    }

    /// Sends `Done` with the text held back: half a character, and what might have become a stop string. After a stop
    /// string nothing is left.
    pub(crate) fn finish(&mut self, reason: FinishReason, now: Duration) {
        let mut rest = String::new();
        // An answer that is cut off inside a character ends before it.
        if reason != FinishReason::Length {
            self.detokenizer.finish(&mut rest);
        }
        let mut text = self.stops.push(&rest).emit;
        text.push_str(&self.stops.finish());
        let by_text = self.stops.met().filter(|_| reason == FinishReason::Stop);
        let matched_stop =
            self.matched_stop.take().or_else(|| by_text.map(|stop| MatchedStop::Text(stop.to_owned())));
        let event =
            Event::Done { text, reason, matched_stop, usage: self.usage(), timings: self.timings(now) };
        // The sequence has ended even if the receiver is gone.
        let _ = self.outbox.put(event);
    }

    /// Sends `Failed`.
    pub(crate) fn fail(&mut self, error: Error, now: Duration) {
        let event = Event::Failed { error, usage: self.usage(), timings: self.timings(now) };
        let _ = self.outbox.put(event);
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_len,
            completion_tokens: self.tokens.len() - self.prompt_len,
            resumed_tokens: self.resumed,
            cached_tokens: self.cached,
            prompt_time: self.prompt_time,
            completion_time: self.completion_time,
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
