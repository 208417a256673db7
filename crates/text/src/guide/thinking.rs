//! Tracks the reasoning before an answer, token by token.

use crate::parts::ReasoningFormat;

/// The reasoning state of an answer, and its token budget.
#[derive(Debug, Clone)]
pub(super) struct ReasoningState {
    open: Vec<u8>,
    /// The opening tag's tokens.
    opening: Vec<u32>,
    close: Vec<u8>,
    /// The tokens that are forced to end reasoning over the budget.
    ending: Vec<u32>,
    /// The token of the blank line after the closing tag, if it is a single one.
    gap: Option<u32>,
    /// The most tokens of reasoning.
    budget: Option<usize>,
    state: State,
    /// The last bytes, in which the tags are searched.
    tail: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// After this many tokens of the opening tag.
    Before(usize),
    /// Inside, after this many tokens.
    Inside(usize),
    /// This many tokens of `ending` were forced.
    Ending(usize),
    Gap,
    Past,
}

/// To whom a token belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Reasoning,
    Answer,
    /// It may belong to the opening tag or to the answer.
    Either,
    /// It completes the opening tag, so that those before it were of the tag, too.
    Opened,
}

/// The tokens that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The answer, or this token of the opening tag.
    Before(Option<u32>),
    /// Any token except those that end the answer.
    Inside,
    /// This token only.
    Forced(u32),
    /// The answer, or this blank line before it.
    Gap(Option<u32>),
    /// The answer only.
    Past,
}

impl ReasoningState {
    /// `token` returns the single token of a text, if there is one; `encode` returns the tokens of a text.
    pub(super) fn new(
        thought: &ReasoningFormat,
        budget: Option<usize>,
        token: impl Fn(&str) -> Option<u32>,
        encode: impl Fn(&str) -> Vec<u32>,
    ) -> ReasoningState {
        let tags = thought.tags;
        ReasoningState {
            open: tags.open.into(),
            opening: token(tags.open).map_or_else(|| encode(tags.open), |token| vec![token]),
            close: tags.close.into(),
            ending: token(tags.close).map_or_else(|| encode(tags.close), |token| vec![token]),
            gap: token("\n\n"),
            budget,
            state: if thought.begun { State::Inside(0) } else { State::Before(0) },
            tail: Vec::new(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        let forced =
            |at: usize| self.ending.get(at).map_or(Stage::Gap(self.gap), |token| Stage::Forced(*token));
        match self.state {
            State::Before(at) => Stage::Before(self.opening.get(at).copied()),
            State::Inside(tokens) if self.budget.is_some_and(|budget| tokens >= budget) => forced(0),
            State::Inside(_) => Stage::Inside,
            State::Ending(at) => forced(at),
            State::Gap => Stage::Gap(self.gap),
            State::Past => Stage::Past,
        }
    }

    /// Advances by the chosen token.
    pub(super) fn accept(&mut self, token: u32, bytes: &[u8], guided: bool) -> Owner {
        match self.stage() {
            Stage::Past => return Owner::Answer,
            Stage::Before(_) => return self.before(token, bytes, guided),
            Stage::Gap(gap) => {
                self.state = State::Past;
                return if gap == Some(token) { Owner::Reasoning } else { Owner::Answer };
            }
            Stage::Inside | Stage::Forced(_) => {}
        }
        self.tail.extend_from_slice(bytes);
        if contains(&self.tail, &self.close) {
            self.state = State::Gap;
            return Owner::Reasoning;
        }
        let kept = self.close.len() - 1;
        self.tail.drain(..self.tail.len().saturating_sub(kept));
        self.state = match (self.stage(), self.state) {
            (Stage::Forced(_), State::Ending(at)) if at + 1 < self.ending.len() => State::Ending(at + 1),
            (Stage::Forced(_), State::Ending(_)) => State::Gap,
            (Stage::Forced(_), _) if self.ending.len() > 1 => State::Ending(1),
            (Stage::Forced(_), _) => State::Gap,
            (_, State::Inside(tokens)) => State::Inside(tokens + 1),
            (_, other) => other,
        };
        Owner::Reasoning
    }

    fn before(&mut self, token: u32, bytes: &[u8], guided: bool) -> Owner {
        if let State::Before(at) = self.state
            && self.opening.get(at) == Some(&token)
        {
            if at + 1 == self.opening.len() {
                self.tail.clear();
                self.state = State::Inside(0);
                return Owner::Opened;
            }
            self.tail.extend_from_slice(bytes);
            self.state = State::Before(at + 1);
            return Owner::Either;
        }
        if guided {
            self.state = State::Past;
            return Owner::Answer;
        }
        // Without a grammar the tag may be other tokens, and follow white space.
        self.tail.extend_from_slice(bytes);
        let start = self.tail.trim_ascii_start();
        if start.starts_with(&self.open) {
            self.tail.clear();
            self.state = State::Inside(0);
        } else if self.open.starts_with(start) {
            // No token of the tag's usual ones comes any more.
            self.state = State::Before(self.opening.len());
        } else {
            self.tail.clear();
            self.state = State::Past;
        }
        Owner::Reasoning
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
