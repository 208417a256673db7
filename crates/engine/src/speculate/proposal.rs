//! Proposed tokens of one sequence, and the estimated probability that each is accepted.

/// Most tokens proposed for one sequence in one step.
pub(super) const MAX_TOKENS: usize = crate::Speculation::MAX_TOKENS;
/// Classes of proposed tokens whose acceptance is counted apart: by length of the match, by the draft model's margin,
/// what an answer's form leaves no choice about, and the draft model's all together.
pub(crate) const CLASSES: usize = 13;
/// Tokens that a constraint forces.
pub(crate) const FORCED: usize = 10;
/// The last token that a constraint forces: the text after it may merge with it into another token.
pub(crate) const LAST_FORCED: usize = 11;
/// All tokens of the draft model.
pub(crate) const ANY_DRAFT: usize = CLASSES - 1;

/// Tokens that may come next in one sequence.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Proposal {
    tokens: [u32; MAX_TOKENS],
    classes: [u8; MAX_TOKENS],
    /// The estimated probability that this token and all before it are accepted.
    survival: [f32; MAX_TOKENS],
    len: usize,
}

/// Which class a match of `length` tokens is of.
pub(crate) fn match_class(length: usize) -> usize {
    match length {
        0..=2 => 0,
        3 => 1,
        4..=5 => 2,
        6..=8 => 3,
        9..=15 => 4,
        _ => 5,
    }
}

/// The class of a draft model's token, by the margin of its logit over the second best.
pub(crate) fn margin_class(margin: f32) -> usize {
    match margin {
        m if m < 0.5 => 6,
        m if m < 1.5 => 7,
        m if m < 3.0 => 8,
        _ => 9,
    }
}

impl Proposal {
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens[..self.len]
    }

    pub(crate) fn classes(&self) -> &[u8] {
        &self.classes[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a token that is right with probability `odds` if those before it are. Past [`MAX_TOKENS`] nothing happens.
    pub(crate) fn push(&mut self, token: u32, class: usize, odds: f32) {
        if self.len < MAX_TOKENS {
            self.survival[self.len] = self.joint_probability() * odds;
            self.tokens[self.len] = token;
            self.classes[self.len] = class as u8;
            self.len += 1;
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The probability that the whole proposal is accepted.
    pub(crate) fn joint_probability(&self) -> f32 {
        self.len.checked_sub(1).map_or(1.0, |last| self.survival[last])
    }

    /// The probability that the token at `index` and all before it are accepted; none past the end.
    pub(crate) fn survival(&self, index: usize) -> Option<f32> {
        self.survival[..self.len].get(index).copied()
    }
}
