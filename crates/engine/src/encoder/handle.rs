//! The encoder's handle: jobs in, tickets out.
//!
//! Jobs go through an [`Inbox`]; the encoder's thread owns everything else. Each accepted job gets its `done`, even if
//! the thread panics.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::core::AcceptedJob;
use super::queue::Class;
use super::stats::{EncoderCounters, EncoderStats};
use super::{Job, Text};
use crate::device::Waiter;
use crate::inbox::Inbox;
use crate::{MemoryBudget, MemoryUse};

/// Limits of an encoder, which bound its queue.
#[derive(Debug, Clone)]
pub struct EncoderLimits {
    /// Most texts waiting. A quarter of them is kept free of bulk jobs.
    pub max_queued_texts: usize,
    /// Most tokens waiting, likewise.
    pub max_queued_tokens: usize,
    /// Most tokens of a text; 0 is what the model takes.
    pub context: usize,
    /// Longest time in the queue.
    pub max_wait: Duration,
}

impl Default for EncoderLimits {
    fn default() -> EncoderLimits {
        EncoderLimits {
            max_queued_texts: 16_384,
            max_queued_tokens: 4 << 20,
            context: 0,
            max_wait: Duration::from_secs(300),
        }
    }
}

/// Why a job was not accepted. Nothing of it remains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeRefused {
    /// The job has no texts.
    #[error("the job has no texts, expected at least 1")]
    NoTexts,
    /// A text has no tokens.
    #[error("text {text} has no tokens, expected at least 1")]
    EmptyText {
        /// Index of the text.
        text: usize,
    },
    /// A text is longer than the model takes.
    #[error("text {text} has {tokens} tokens, the limit is {context}")]
    TextTooLong {
        /// Index of the text.
        text: usize,
        /// Tokens of the text.
        tokens: usize,
        /// Most tokens of a text.
        context: usize,
    },
    /// A token is not in the vocabulary.
    #[error("token {token} of text {text} is not in the vocabulary, which has {vocab} tokens")]
    UnknownToken {
        /// Index of the text.
        text: usize,
        /// The token.
        token: u32,
        /// Token ids are below this.
        vocab: usize,
    },
    /// A text has another number of token types than of tokens, or all of its tokens are left out of pooling.
    #[error("text {text} has {tokens} tokens, {types} token types and {skip} tokens that are not pooled")]
    Shape {
        /// Index of the text.
        text: usize,
        /// Tokens of the text.
        tokens: usize,
        /// Token types of the text.
        types: usize,
        /// Tokens of the text that are left out of pooling.
        skip: usize,
    },
    /// As many texts wait as are allowed; try again later.
    #[error("{waiting} texts wait and {texts} more do not fit: the limit is {limit} texts")]
    TooManyTexts {
        /// Texts in the queue.
        waiting: usize,
        /// Texts of the job.
        texts: usize,
        /// Most texts of jobs of this class.
        limit: usize,
    },
    /// As many tokens wait as are allowed; try again later.
    #[error("{waiting} tokens wait and {tokens} more do not fit: the limit is {limit} tokens")]
    TooManyTokens {
        /// Tokens in the queue.
        waiting: usize,
        /// Tokens of the job.
        tokens: usize,
        /// Most tokens of jobs of this class.
        limit: usize,
    },
    /// The encoder is draining or has stopped.
    #[error("the encoder is not taking texts any more")]
    Closed,
}

/// Submits jobs to an encoder; clones lead to the same one. When the last is dropped the encoder finishes what it has
/// and ends.
#[derive(Clone)]
pub struct EncoderHandle {
    shared: Arc<Shared>,
    _close_on_drop: Arc<CloseOnDrop>,
}

/// A job in the encoder. Dropping it cancels the job.
#[must_use = "dropping a ticket cancels its job"]
pub struct EncodeTicket {
    cancelled: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

/// State shared by the handles and the encoder's thread.
pub(super) struct Shared {
    pub(super) inbox: Inbox<AcceptedJob>,
    pub(super) counters: Arc<EncoderCounters>,
    limits: EncoderLimits,
    shape: Shape,
    account: (MemoryBudget, String),
}

/// Fixed facts of the model that admission needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) context: usize,
    pub(super) vocab: usize,
}

/// Closes the inbox when the last handle goes.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.inbox.close();
    }
}

impl Drop for EncodeTicket {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl EncodeTicket {
    /// Cancels now; what was delivered stays delivered.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.shared.inbox.wake();
    }
}

impl EncoderHandle {
    pub(super) fn new(
        limits: EncoderLimits,
        shape: Shape,
        turn: Arc<Waiter>,
        account: (MemoryBudget, String),
    ) -> (EncoderHandle, Arc<Shared>) {
        let shared =
            Arc::new(Shared { inbox: Inbox::new(turn), counters: Arc::default(), limits, shape, account });
        (
            EncoderHandle { shared: shared.clone(), _close_on_drop: Arc::new(CloseOnDrop(shared.clone())) },
            shared,
        )
    }

    /// Puts a job in the queue. Its reply then gets the numbers of each text, and `done` last.
    ///
    /// # Errors
    /// A text that the model does not take, or a full queue.
    pub fn submit(&self, job: Job) -> Result<EncodeTicket, EncodeRefused> {
        let shared = &self.shared;
        shared.check(&job.texts)?;
        let cancelled = Arc::new(AtomicBool::new(false));
        let class = Class::of(job.texts.len());
        let (texts, indices) = distinct(job.texts);
        let accepted = AcceptedJob {
            client: job.client,
            class,
            want: job.want,
            texts,
            indices,
            submitted: shared.inbox.now(),
            deadline: job.deadline.map(|at| shared.inbox.since_start(at)),
            cancelled: cancelled.clone(),
            reply: job.reply,
        };
        let mut inbox = shared.inbox.lock();
        if inbox.closed {
            return Err(EncodeRefused::Closed);
        }
        let tokens = accepted.texts.iter().map(|text| text.tokens.len()).sum();
        shared.admit(class, accepted.texts.len(), tokens)?;
        inbox.arrived.push_back(accepted);
        drop(inbox);
        shared.inbox.wake();
        Ok(EncodeTicket { cancelled, shared: shared.clone() })
    }

    /// Most tokens of a text.
    pub fn context(&self) -> usize {
        self.shared.shape.context
    }

    /// Token ids are below this.
    pub fn vocab(&self) -> usize {
        self.shared.shape.vocab
    }

    /// Gauges and totals of now.
    pub fn stats(&self) -> EncoderStats {
        self.shared.counters.snapshot(self.shared.inbox.now())
    }

    /// What is reserved of the device's memory under the encoder's name.
    pub fn memory(&self) -> MemoryUse {
        let (memory, name) = &self.shared.account;
        memory.of(name)
    }

    /// Whether the encoder still takes jobs.
    pub fn is_open(&self) -> bool {
        self.shared.inbox.is_open()
    }

    /// Closes the encoder to new jobs; accepted ones continue.
    pub fn close(&self) {
        self.shared.inbox.close();
    }

    /// Takes no more jobs, waits until those it has are done, cancels what is left after `deadline`, and returns when
    /// the encoder's thread has ended.
    pub fn drain(&self, deadline: Duration) {
        self.shared.inbox.drain(deadline);
    }
}

impl Shared {
    fn check(&self, texts: &[Text]) -> Result<(), EncodeRefused> {
        if texts.is_empty() {
            return Err(EncodeRefused::NoTexts);
        }
        let Shape { context, vocab } = self.shape;
        for (text, Text { tokens, types, skip }) in texts.iter().enumerate() {
            let (count, types, skip) = (tokens.len(), types.len(), *skip);
            if count == 0 {
                return Err(EncodeRefused::EmptyText { text });
            }
            if count > context {
                return Err(EncodeRefused::TextTooLong { text, tokens: count, context });
            }
            if let Some(token) = tokens.iter().copied().find(|token| *token as usize >= vocab) {
                return Err(EncodeRefused::UnknownToken { text, token, vocab });
            }
            if (types != 0 && types != count) || skip >= count {
                return Err(EncodeRefused::Shape { text, tokens: count, types, skip });
            }
        }
        Ok(())
    }

    /// Counts texts and tokens as waiting, if they fit. An empty queue takes any job: else it could never be served.
    fn admit(&self, class: Class, texts: usize, tokens: usize) -> Result<(), EncodeRefused> {
        let counters = &self.counters;
        let of_class = |limit: usize| match class {
            Class::Interactive => limit,
            Class::Bulk => limit - limit / 4,
        };
        let (waiting, limit) =
            (counters.waiting.load(Ordering::Relaxed), of_class(self.limits.max_queued_texts));
        let refused = if waiting == 0 {
            None
        } else if waiting.saturating_add(texts) > limit {
            Some(EncodeRefused::TooManyTexts { waiting, texts, limit })
        } else {
            let waiting = counters.waiting_tokens.load(Ordering::Relaxed);
            let limit = of_class(self.limits.max_queued_tokens);
            let over = waiting.saturating_add(tokens) > limit;
            over.then_some(EncodeRefused::TooManyTokens { waiting, tokens, limit })
        };
        match refused {
            Some(refused) => {
                counters.refused_busy.fetch_add(1, Ordering::Relaxed);
                Err(refused)
            }
            None => {
                counters.enter_queue(texts, tokens);
                Ok(())
            }
        }
    }
}

/// Each different text once, with the indices of those that are equal to it.
fn distinct(texts: Vec<Text>) -> (Vec<Text>, Vec<Vec<usize>>) {
    let mut known: HashMap<Text, usize> = HashMap::with_capacity(texts.len());
    let mut indices: Vec<Vec<usize>> = Vec::new();
    for (index, text) in texts.into_iter().enumerate() {
        match known.entry(text) {
            Entry::Occupied(place) => indices[*place.get()].push(index),
            Entry::Vacant(place) => {
                place.insert(indices.len());
                indices.push(vec![index]);
            }
        }
    }
    let mut distinct = vec![Text::default(); indices.len()];
    known.into_iter().for_each(|(text, place)| distinct[place] = text);
    (distinct, indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_of_a_job_are_one() {
        let text = |tokens: &[u32], skip| Text { tokens: tokens.to_vec(), types: Vec::new(), skip };
        let all = [text(&[1, 2], 0), text(&[3], 0), text(&[1, 2], 0), text(&[1, 2], 1), text(&[3], 0)];
        let (texts, indices) = distinct(all.to_vec());
        assert_eq!(texts, [all[0].clone(), all[1].clone(), all[3].clone()]);
        assert_eq!(indices, [vec![0, 2], vec![1, 4], vec![3]]);
    }
}
