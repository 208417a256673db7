//! Tracks the reasoning before an answer, token by token.

use crate::parts::ReasoningFormat;

/// The reasoning state of an answer, and its token budget.
#[derive(Debug, Clone)]
pub(super) struct ReasoningState {
    open: Vec<u8>,
    /// The opening tag's token, if it is a single one.
    open_token: Option<u32>,
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
    Before,
    /// Inside, after this many tokens.
    Inside(usize),
    /// This many tokens of `ending` were forced.
    Ending(usize),
    Gap,
    Past,
}

/// The tokens that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The answer, or this opening tag.
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
            open_token: token(tags.open),
            close: tags.close.into(),
            ending: token(tags.close).map_or_else(|| encode(tags.close), |token| vec![token]),
            gap: token("\n\n"),
            budget,
            state: if thought.begun { State::Inside(0) } else { State::Before },
            tail: Vec::new(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        let forced =
            |at: usize| self.ending.get(at).map_or(Stage::Gap(self.gap), |token| Stage::Forced(*token));
        match self.state {
            State::Before => Stage::Before(self.open_token),
            State::Inside(tokens) if self.budget.is_some_and(|budget| tokens >= budget) => forced(0),
            State::Inside(_) => Stage::Inside,
            State::Ending(at) => forced(at),
            State::Gap => Stage::Gap(self.gap),
            State::Past => Stage::Past,
        }
    }

    /// Advances by the chosen token; returns whether it belongs to the answer.
    pub(super) fn accept(&mut self, token: u32, bytes: &[u8], guided: bool) -> bool {
        match self.stage() {
            Stage::Past => return true,
            Stage::Before(_) => return self.before(token, bytes, guided),
            Stage::Gap(gap) => {
                self.state = State::Past;
                return gap != Some(token);
            }
            Stage::Inside | Stage::Forced(_) => {}
        }
        self.tail.extend_from_slice(bytes);
        if contains(&self.tail, &self.close) {
            self.state = State::Gap;
            return false;
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
        false
    }

    fn before(&mut self, token: u32, bytes: &[u8], guided: bool) -> bool {
        if self.open_token == Some(token) {
            self.state = State::Inside(0);
            return false;
        }
        if guided {
            self.state = State::Past;
            return true;
        }
        // Without a grammar the tag may consist of several tokens, and follow white space.
        self.tail.extend_from_slice(bytes);
        let start = self.tail.trim_ascii_start();
        if start.starts_with(&self.open) {
            self.tail.clear();
            self.state = State::Inside(0);
        } else if !self.open.starts_with(start) {
            self.tail.clear();
            self.state = State::Past;
        }
        false
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
