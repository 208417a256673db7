//! The chain of a prompt: hashes at message boundaries and inside long messages, without a tokenizer.
//!
//! Two prompts that begin alike have equal hashes up to there, and a hash names everything before it. The chain starts
//! from a salt of model and tenant: nodes keep caches by key, and one tenant's timing must not tell of another's
//! prompts. A boundary depends only on the text before it, so a longer conversation keeps those of the shorter one.

use crate::random::mix;

/// A boundary of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Hash of the salt and of all bytes up to here.
    pub hash: u64,
    /// Tokens up to here, exact or estimated.
    pub tokens: u64,
}

/// Upper bound of the boundaries of a chain.
pub const MAX_BOUNDARIES: usize = 512;
/// Bytes between boundaries inside long messages, at the start of a prompt.
const CHUNK_BYTES: u64 = 1024;
/// The first boundaries are wherever a message or chunk ends.
const DENSE: usize = 64;
/// Further ones are at least this part of the bytes before them apart, so that their number grows with the logarithm of
/// the prompt's length (about 22 for a doubling).
const SPACING: u64 = 32;
/// Bytes of a token, until a request's usage tells better.
pub const BYTES_PER_TOKEN: f64 = 4.0;

/// A builder of chains: messages are pushed in order.
#[derive(Clone, Debug)]
pub struct Chain {
    state: u64,
    bytes: u64,
    tokens_per_byte: f64,
    /// Bytes at the last boundary.
    last: u64,
    boundaries: Vec<Boundary>,
    affinity: u64,
}

impl Chain {
    /// An empty chain, salted by model and tenant.
    #[must_use]
    pub fn new(model: &str, tenant: u64) -> Chain {
        Chain::with_token_size(model, tenant, BYTES_PER_TOKEN)
    }

    /// An empty chain whose boundaries estimate tokens of `bytes_per_token` bytes.
    #[must_use]
    pub fn with_token_size(model: &str, tenant: u64, bytes_per_token: f64) -> Chain {
        let state = absorb(mix(tenant ^ 0x6772_6973_746d_696c), model.as_bytes());
        let tokens_per_byte = 1.0 / bytes_per_token.clamp(0.25, 64.0);
        Chain { state, bytes: 0, tokens_per_byte, last: 0, boundaries: Vec::new(), affinity: 0 }
    }

    /// Adds a message. `role` is part of the hash; the end of the first user message marks the conversation.
    pub fn push(&mut self, role: &str, content: &[u8]) {
        self.state = absorb(self.state ^ 1, role.as_bytes());
        let mut rest = content;
        while !rest.is_empty() {
            let into = CHUNK_BYTES - self.bytes % CHUNK_BYTES;
            let (chunk, after) = rest.split_at(rest.len().min(into as usize));
            self.state = absorb(self.state, chunk);
            self.bytes += chunk.len() as u64;
            rest = after;
            if self.bytes.is_multiple_of(CHUNK_BYTES) {
                self.mark();
            }
        }
        // The length ends the message: "ab" + "c" is not "a" + "bc".
        self.state = mix(self.state ^ (content.len() as u64).wrapping_mul(0xff51_afd7_ed55_8ccd));
        self.mark();
        if self.affinity == 0 && role == "user" {
            self.affinity = self.state | 1;
        }
    }

    /// A boundary here, if the last one is far enough before.
    fn mark(&mut self) {
        let count = self.boundaries.len();
        let least = if count < DENSE { 1 } else { (self.bytes / SPACING).max(1) };
        if self.bytes - self.last >= least.min(self.bytes) && count < MAX_BOUNDARIES {
            let tokens = (self.bytes as f64 * self.tokens_per_byte) as u64;
            self.boundaries.push(Boundary { hash: self.state, tokens });
            self.last = self.bytes;
        }
    }

    /// The boundaries so far.
    #[must_use]
    pub fn boundaries(&self) -> &[Boundary] {
        &self.boundaries
    }

    /// The hash that all turns of a conversation share: that of the end of its first user message, or of its first
    /// boundary; 0 for an empty chain.
    #[must_use]
    pub fn affinity(&self) -> u64 {
        match (self.affinity, self.boundaries.first()) {
            (0, Some(first)) => first.hash,
            (marked, _) => marked,
        }
    }

    /// Estimated tokens of all messages.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        (self.bytes as f64 * self.tokens_per_byte) as u64
    }
}

/// The state after `bytes`: eight at a time, by the folded 128-bit product of wyhash (Wang Yi, 2019). Not
/// cryptographic: who finds a collision misleads the routing of an own request.
fn absorb(mut state: u64, bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    fold(state ^ u64::from_le_bytes(last) ^ ((tail.len() as u64 + 1) << 56))
}

fn fold(value: u64) -> u64 {
    let product = u128::from(value ^ 0xa076_1d64_78bd_642f) * u128::from(0xe703_7ed1_a0b4_28db_u64);
    mix((product as u64) ^ ((product >> 64) as u64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn chain(messages: &[(&str, String)]) -> Chain {
        let mut chain = Chain::new("m", 7);
        messages.iter().for_each(|(role, text)| chain.push(role, text.as_bytes()));
        chain
    }

    #[test]
    fn a_longer_conversation_keeps_the_boundaries_of_the_shorter() {
        let mut messages = vec![("system", "s".repeat(3_000)), ("user", "hello".to_owned())];
        let mut before = chain(&messages);
        assert_eq!(before.boundaries().len(), 4);
        for turn in 0..400 {
            messages.push(("assistant", format!("answer {turn} ").repeat(turn)));
            messages.push(("user", format!("question {turn}")));
            let after = chain(&messages);
            assert_eq!(after.affinity(), before.affinity());
            assert!(after.boundaries().starts_with(before.boundaries()));
            before = after;
        }
        let found = before.boundaries();
        assert!(found.len() <= MAX_BOUNDARIES, "{}", found.len());
        assert!(found.windows(2).all(|pair| pair[0].tokens < pair[1].tokens));
        // The last boundary is within a few 64ths of the end of a megabyte.
        let left_out = before.tokens() - found[found.len() - 1].tokens;
        assert!(left_out * SPACING <= before.tokens(), "{left_out} of {}", before.tokens());
    }

    #[test]
    fn models_tenants_roles_and_splits_differ() {
        let of = |model: &str, tenant, messages: &[(&str, &str)]| {
            let mut chain = Chain::new(model, tenant);
            messages.iter().for_each(|(role, text)| chain.push(role, text.as_bytes()));
            chain.boundaries().last().map(|last| last.hash)
        };
        let all = [
            of("m", 1, &[("user", "abc")]),
            of("n", 1, &[("user", "abc")]),
            of("m", 2, &[("user", "abc")]),
            of("m", 1, &[("system", "abc")]),
            of("m", 1, &[("user", "ab"), ("user", "c")]),
            of("m", 1, &[("user", "a"), ("user", "bc")]),
            of("m", 1, &[("user", "abc\0")]),
            of("m", 1, &[]),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    }

    #[test]
    fn a_changed_bit_changes_half_of_the_hash() {
        let of = |bytes: &[u8]| absorb(1, bytes);
        let mut flipped = 0;
        for bit in 0..160 {
            let mut bytes = *b"twenty bytes of text";
            let before = of(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
            flipped += (of(&bytes) ^ before).count_ones();
        }
        assert!((f64::from(flipped) / 160.0 - 32.0).abs() < 2.0, "{flipped}");
    }

    #[test]
    fn boundaries_are_bounded_by_number() {
        let mut chain = Chain::new("m", 1);
        (0..100_000).for_each(|i: u32| chain.push("user", &i.to_le_bytes()));
        assert!(chain.boundaries().len() <= MAX_BOUNDARIES);
        let long = vec![b'x'; 64 << 20];
        let mut chain = Chain::new("m", 1);
        chain.push("user", &long);
        assert!(chain.boundaries().len() <= MAX_BOUNDARIES, "{}", chain.boundaries().len());
    }
}
