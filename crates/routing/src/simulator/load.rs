//! Simulated clients: chats of several turns, and single requests at a rate that changes.

use std::time::Duration;

use crate::chain::Boundary;
use crate::random::{Random, mix};

/// What clients send.
#[derive(Clone, Debug)]
pub enum Load {
    /// Clients that hold conversations, one after the other.
    Chats(Chats),
    /// Single requests of no conversation.
    Arrivals(Arrivals),
}

impl Load {
    /// The number of the period in which a time lies; the same again when the periods start again.
    pub(super) fn period(&self, at: Duration) -> usize {
        match self {
            Load::Chats(_) => 0,
            Load::Arrivals(arrivals) => arrivals.period(at.as_secs_f64()),
        }
    }
}

/// Conversations.
#[derive(Clone, Copy, Debug)]
pub struct Chats {
    /// Clients, each with one conversation at a time.
    pub clients: usize,
    /// Turns of a conversation.
    pub turns: u32,
    /// Different system prompts, shared by the clients in turn.
    pub systems: u64,
    /// Tokens of a system prompt.
    pub system_tokens: u64,
    /// Mean tokens of a question; exponential.
    pub question_tokens: f64,
    /// Mean tokens of an answer; exponential.
    pub answer_tokens: f64,
    /// Mean seconds between an answer and the next question.
    pub think_s: f64,
}

/// Single requests: a Poisson process whose rate changes by steps.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Requests a second in each period, one period after the other and from the start again.
    pub per_s: Vec<f64>,
    /// Seconds of a period.
    pub period_s: f64,
    /// Mean prompt tokens; exponential unless fixed.
    pub prompt_tokens: f64,
    /// Mean tokens of an answer.
    pub answer_tokens: f64,
    /// Whether all requests are of the mean lengths.
    pub is_fixed: bool,
}

impl Arrivals {
    fn period(&self, at_s: f64) -> usize {
        (at_s / self.period_s) as usize % self.per_s.len().max(1)
    }

    /// Seconds to the next request, by thinning of a process of the highest rate.
    pub(super) fn next_s(&self, mut now_s: f64, random: &mut Random) -> f64 {
        let most = self.per_s.iter().copied().fold(1e-9, f64::max);
        let start = now_s;
        loop {
            now_s += random.exponential(1.0 / most);
            let rate = self.per_s.get(self.period(now_s)).copied().unwrap_or(most);
            if random.unit() * most <= rate {
                return now_s - start;
            }
        }
    }
}

/// A prompt with the length of its answer.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub(super) chain: Vec<Boundary>,
    pub(super) affinity: u64,
    pub(super) tokens: u64,
    pub(super) output: u64,
    /// Hash of the prompt with its answer.
    pub(super) after: u64,
}

/// A conversation that goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    chain: Vec<Boundary>,
    affinity: u64,
    turn: u32,
}

fn length(mean: f64, random: &mut Random) -> u64 {
    (random.exponential(mean).min(8.0 * mean)).ceil() as u64
}

impl Conversation {
    /// The next turn; a new conversation after the last.
    pub(super) fn next(&mut self, client: usize, chats: &Chats, random: &mut Random) -> Prompt {
        if self.turn == chats.turns || self.chain.is_empty() {
            let system = mix(client as u64 % chats.systems.max(1) + 1);
            let first = Boundary { hash: system, tokens: chats.system_tokens };
            *self = Conversation { chain: vec![first], affinity: 0, turn: 0 };
        }
        self.turn += 1;
        self.push(length(chats.question_tokens, random), random.bits());
        if self.turn == 1 {
            self.affinity = self.last().hash;
        }
        let (chain, tokens) = (self.chain.clone(), self.last().tokens);
        let output = length(chats.answer_tokens, random);
        self.push(output, random.bits());
        Prompt { chain, affinity: self.affinity, tokens, output, after: self.last().hash }
    }

    fn last(&self) -> Boundary {
        self.chain.last().copied().unwrap_or(Boundary { hash: 0, tokens: 0 })
    }

    fn push(&mut self, tokens: u64, salt: u64) {
        let last = self.last();
        self.chain.push(Boundary { hash: mix(last.hash ^ salt), tokens: last.tokens + tokens });
    }
}

/// A single request.
pub(super) fn single(arrivals: &Arrivals, random: &mut Random) -> Prompt {
    let mut of = |mean: f64| if arrivals.is_fixed { mean.round() as u64 } else { length(mean, random) };
    let (tokens, output) = (of(arrivals.prompt_tokens).max(1), of(arrivals.answer_tokens).max(1));
    Prompt { chain: Vec::new(), affinity: 0, tokens, output, after: random.bits() }
}
