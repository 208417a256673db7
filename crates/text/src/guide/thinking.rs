//! The thought before an answer, token by token.

use crate::parts::ReasoningFormat;

/// Where a thought is, and how long it may get.
#[derive(Debug, Clone)]
pub(super) struct ReasoningState {
    open: Vec<u8>,
    /// The opening tag, if it is one token.
    open_token: Option<u32>,
    close: Vec<u8>,
    /// What ends a thought that is too long.
    ending: Vec<u32>,
    /// The line ends that models write after a thought, if they are one token.
    gap: Option<u32>,
    /// Most tokens of the thought.
    budget: Option<usize>,
    state: State,
    /// The last bytes, as many as matter.
    tail: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    /// After so many tokens.
    Inside(usize),
    /// So many tokens of the ending were forced.
    Ending(usize),
    Gap,
    Past,
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The answer, or this token that opens the thought.
    Before(Option<u32>),
    /// Anything that does not end the answer.
    Inside,
    /// This token.
    Forced(u32),
    /// The answer, or this token between it and the thought.
    Gap(Option<u32>),
    /// The answer.
    Past,
}

impl ReasoningState {
    /// `token` finds the token that is this text and no more; `encode` the tokens of a text.
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

    /// Takes the token that came; returns whether it belongs to the answer.
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
        // Without a grammar the tag may also come in pieces, after space.
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
