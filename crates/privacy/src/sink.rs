//! Where detectors offer what they found: scores, context and bounds are applied here, once for all of them.

use crate::context::Context;
use crate::kind::{AGAINST, Kind};

/// Cannot be anything else: a check of many digits, or a prefix that somebody registered. No words raise a score so far.
pub(crate) const SURE: u8 = 95;
/// A check digit and a shape.
pub(crate) const LIKELY: u8 = 80;
/// A shape that little else has.
pub(crate) const SHAPE: u8 = 60;
/// Found only beside a word that speaks for it, also where another speaks against it.
pub(crate) const WEAK: u8 = 30;
/// Found only beside a word that speaks for it.
pub(crate) const FAINT: u8 = 15;

/// What a word that speaks for a finding adds, and one against it takes.
const FOR: u8 = 40;
const FOR_AND_AGAINST: u8 = 25;
const AGAINST_ALONE: u8 = 25;

/// A finding in the normal form of a text, before overlaps are resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    pub score: u8,
}

/// What detectors share while a text is scanned.
pub(crate) struct Sink<'t> {
    pub text: &'t [u8],
    context: &'t Context,
    /// What the text's key says, where it is the value of one.
    hint: u128,
    enabled: u128,
    min_score: u8,
    limit: usize,
    /// The context that was looked up last: its place and words.
    last: Option<(usize, usize, u128)>,
    pub found: Vec<Candidate>,
    /// Bytes of context that were read: what a test bounds.
    #[cfg(test)]
    pub steps: usize,
}

impl<'t> Sink<'t> {
    pub(crate) fn new(
        text: &'t [u8],
        (context, hint): (&'t Context, u128),
        (enabled, min_score): (u128, u8),
        limit: usize,
    ) -> Self {
        Sink {
            text,
            context,
            hint,
            enabled,
            min_score,
            limit,
            last: None,
            found: Vec::new(),
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Whether as much was found as is kept.
    pub(crate) fn full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Whether any of the kinds is looked for.
    pub(crate) fn wants(&self, kind: Kind) -> bool {
        self.enabled & kind.bit() != 0
    }

    /// Takes a finding, if its kind is wanted and its score with the words around it suffices.
    pub(crate) fn offer(&mut self, kind: Kind, start: usize, end: usize, score: u8) {
        if !self.wants(kind) || self.full() || score.saturating_add(FOR) < self.min_score {
            return;
        }
        let score = if score >= SURE { score } else { self.weighed(kind, start, end, score) };
        if score >= self.min_score {
            self.found.push(Candidate { kind, start, end, score });
        }
    }

    fn weighed(&mut self, kind: Kind, start: usize, end: usize, score: u8) -> u8 {
        let words = self.words(start, end);
        match (words & kind.bit() != 0, words & AGAINST != 0) {
            (true, false) => score.saturating_add(FOR).min(SURE - 1),
            (true, true) => score.saturating_add(FOR_AND_AGAINST).min(SURE - 1),
            (false, true) => score.saturating_sub(AGAINST_ALONE),
            (false, false) => score,
        }
    }

    /// What the words around a place speak for.
    pub(crate) fn words(&mut self, start: usize, end: usize) -> u128 {
        if let Some((from, to, words)) = self.last
            && (from, to) == (start, end)
        {
            return words;
        }
        #[cfg(test)]
        {
            self.steps += 88;
        }
        let words = self.context.around(self.text, start, end) | self.hint;
        self.last = Some((start, end, words));
        words
    }
}
