//! The log-probabilities of prompts, in both of the forms that clients read: vLLM's `prompt_logprobs`, and the lists of an
//! echoed prompt.

use inference::{PromptScores, ScoredToken, TokenText};
use wire::logprobs::{self, Position, Ranked, Scored, characters};

use crate::shown::Shown;

/// `prompt_logprobs` of a prompt, if they were asked for.
pub(crate) fn ranked(shown: &Shown, scores: Option<&PromptScores>) -> Option<logprobs::Prompt> {
    let count = shown.prompt_logprobs?;
    let ranked = |scored: &ScoredToken, rank: usize| {
        let text = String::from_utf8_lossy(&scored.token.bytes).into_owned();
        Ranked { id: scored.token.id, rank, logprob: scored.logprob, text }
    };
    let at = |score: &inference::TokenScore| {
        let own = ranked(&score.chosen, score.rank);
        let top = score.top.iter().take(count).zip(1..).map(|(scored, rank)| ranked(scored, rank));
        std::iter::once(own).chain(top).collect()
    };
    let rest = scores.map_or(&[][..], |scores| &scores.rest);
    Some(logprobs::Prompt::new(rest.iter().map(at).collect()))
}

/// The lists of an echoed prompt, whose text is `echo`; and the character of the choice's text that the answer starts at.
pub(crate) fn echoed(
    shown: &Shown,
    scores: &PromptScores,
    echo: &str,
) -> Option<(logprobs::Completion, usize)> {
    let count = shown.logprobs.filter(|_| shown.echo)?;
    let positions: Vec<Position> =
        scores.rest.iter().map(|score| score.position(count, shown.ids.as_names)).collect();
    let first = Scored {
        bytes: scores.first.bytes.clone(),
        id: shown.ids.as_names.then_some(scores.first.id),
        logprob: 0.0,
    };
    let tokens = std::iter::once(&scores.first).chain(scores.rest.iter().map(|score| &score.chosen.token));
    let offsets = offsets(tokens, echo);
    let lists = logprobs::Completion::of_prompt(&first, positions.iter().zip(offsets.into_iter().skip(1)));
    Some((lists, echo.chars().count()))
}

/// The character of `text` that each token starts at. Tokens that are not in it, as the one at the start of a text and
/// other control tokens, start where the next one does; nor is the space that some tokenizers put before a text.
fn offsets<'a>(tokens: impl Iterator<Item = &'a TokenText>, text: &str) -> Vec<usize> {
    let (mut at, mut rest) = (0, text.as_bytes());
    let offset = |token: &TokenText| {
        let (start, bytes) = (at, &token.bytes);
        let begins = rest.len() == text.len();
        let spaceless = bytes.strip_prefix(b" ").filter(|bytes| begins && !bytes.is_empty());
        let taken = if rest.starts_with(bytes) {
            bytes.len()
        } else if let Some(bytes) = spaceless.filter(|bytes| rest.starts_with(bytes)) {
            bytes.len()
        } else if begins || token.special {
            0
        } else {
            // Its tokenizer writes the text otherwise.
            bytes.len().min(rest.len())
        };
        let (own, others) = rest.split_at(taken);
        at += characters(own);
        rest = others;
        start
    };
    tokens.map(offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `<s>`, ` Hé` in two, `llo`, a control token in the text.
    fn token(id: u32) -> TokenText {
        let bytes = [&b"<s>"[..], b" H\xc3", b"\xa9", b"llo", b"<|end|>"][id as usize].to_vec();
        TokenText { id, bytes, special: [0, 4].contains(&id) }
    }

    #[test]
    fn each_token_starts_where_its_text_does() {
        for (tokens, text, wanted) in [
            (&[0, 1, 2, 3][..], "Héllo", &[0, 0, 2, 2][..]),
            (&[0, 1, 2, 3, 4, 3], " Héllo<|end|>llo", &[0, 0, 3, 3, 6, 13]),
            (&[1, 2, 3, 4, 3], "Hélloo", &[0, 2, 2, 5, 5]),
            (&[0, 0, 3], "llo", &[0, 0, 0]),
            (&[3, 3, 3], "lloLLO", &[0, 3, 6]),
            (&[3], "", &[0]),
        ] {
            let texts: Vec<TokenText> = tokens.iter().map(|id| token(*id)).collect();
            assert_eq!(offsets(texts.iter(), text), wanted, "{tokens:?} in {text:?}");
        }
    }
}
