//! The log-probabilities of prompts, in both of the forms that clients read: vLLM's `prompt_logprobs`, and the lists of an
//! echoed prompt.

use engine::TokenLogprobs;
use wire::logprobs::{self, Position, Ranked, Scored, characters};
use wire::{Fault, limits};

use crate::Language;
use crate::generation::Generation;
use crate::plan::Plan;

/// Refuses what would make an answer without a bound: each entry is some sixty bytes of JSON.
pub(crate) fn check(plan: &Plan) -> Result<(), Fault> {
    let Some(count) = plan.template.prompt_logprobs else { return Ok(()) };
    let tokens: usize = plan.prompts.iter().map(Vec::len).sum();
    let entries = tokens.saturating_mul(plan.best).saturating_mul(1 + count);
    if entries <= limits::PROMPT_LOGPROBS {
        return Ok(());
    }
    let name = if plan.prompt_logprobs.is_some() { "prompt_logprobs" } else { "logprobs" };
    let message = format!(
        "{name} is {count} and the prompts have {tokens} tokens, for {} answers each: {entries} log-probabilities \
         of prompts; at most {} are allowed",
        plan.best,
        limits::PROMPT_LOGPROBS
    );
    Err(Fault::field(name, message))
}

/// `prompt_logprobs` of a prompt, if they were asked for.
pub(crate) fn ranked(
    generation: &Generation,
    scores: &[TokenLogprobs],
    prompt: usize,
) -> Option<logprobs::Prompt> {
    let count = generation.plan.prompt_logprobs?;
    let language = generation.served.language.as_ref();
    let ranked = |id: u32, rank: usize, logprob: f32| {
        let text = String::from_utf8_lossy(&language.bytes(id)).into_owned();
        Ranked { id, rank, logprob, text }
    };
    let at = |(id, score): (&u32, &TokenLogprobs)| {
        let own = ranked(*id, score.rank, score.logprob);
        let top =
            score.top.iter().take(count).zip(1..).map(|((id, logprob), rank)| ranked(*id, rank, *logprob));
        std::iter::once(own).chain(top).collect()
    };
    let tokens = generation.plan.prompts.get(prompt)?.iter().skip(1);
    Some(logprobs::Prompt::new(tokens.zip(scores).map(at).collect()))
}

/// The lists of an echoed prompt, whose text is `echo`; and the character of the choice's text that the answer starts at.
pub(crate) fn echoed(
    generation: &Generation,
    scores: &[TokenLogprobs],
    prompt: usize,
    echo: &str,
) -> Option<(logprobs::Completion, usize)> {
    let plan = &generation.plan;
    let count = plan.template.params.logprobs.filter(|_| plan.echo_scored)?;
    let tokens = plan.prompts.get(prompt)?;
    let language = generation.served.language.as_ref();
    let scored = |(id, logprob): (u32, f32)| Scored {
        bytes: language.bytes(id),
        id: plan.ids.as_names.then_some(id),
        logprob,
    };
    let positions = tokens.iter().skip(1).zip(scores).map(|(id, score)| Position {
        chosen: scored((*id, score.logprob)),
        top: score.top.iter().take(count).copied().map(scored).collect(),
    });
    let positions: Vec<Position> = positions.collect();
    let first = scored((*tokens.first()?, 0.0));
    let offsets = offsets(language, tokens, echo);
    let lists = logprobs::Completion::of_prompt(&first, positions.iter().zip(offsets.into_iter().skip(1)));
    Some((lists, echo.chars().count()))
}

/// The character of `text` that each token starts at. Tokens that are not in it, as the one at the start of a text and
/// other control tokens, start where the next one does; nor is the space that some tokenizers put before a text.
fn offsets(language: &dyn Language, tokens: &[u32], text: &str) -> Vec<usize> {
    let (mut at, mut rest) = (0, text.as_bytes());
    let offset = |id: &u32| {
        let (start, bytes) = (at, language.bytes(*id));
        let begins = rest.len() == text.len();
        let spaceless = bytes.strip_prefix(b" ").filter(|bytes| begins && !bytes.is_empty());
        let taken = if rest.starts_with(&bytes) {
            bytes.len()
        } else if let Some(bytes) = spaceless.filter(|bytes| rest.starts_with(bytes)) {
            bytes.len()
        } else if begins || language.decode(&[*id]).is_empty() {
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
    tokens.iter().map(offset).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};
    use text::Prompt;

    use super::*;

    /// `<s>`, ` Hé` in two, `llo`, a control token in the text.
    struct Words;

    impl Language for Words {
        fn render(
            &self,
            _: &[Value],
            _: Option<&[Value]>,
            _: bool,
            _: &Map<String, Value>,
        ) -> Result<Prompt, String> {
            Err("no template".into())
        }
        fn encode_prompt(&self, _: &Prompt) -> Result<Vec<u32>, String> {
            Err("no template".into())
        }
        fn encode(&self, _: &str, _: bool) -> Result<Vec<u32>, String> {
            Err("not needed".into())
        }
        fn decode(&self, tokens: &[u32]) -> String {
            let spoken = tokens.iter().filter(|id| ![0, 4].contains(*id));
            String::from_utf8_lossy(&spoken.flat_map(|id| self.bytes(*id)).collect::<Vec<_>>()).into_owned()
        }
        fn bytes(&self, token: u32) -> Vec<u8> {
            [&b"<s>"[..], b" H\xc3", b"\xa9", b"llo", b"<|end|>"][token as usize].to_vec()
        }
        fn is_end(&self, _: u32) -> bool {
            false
        }
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
            assert_eq!(offsets(&Words, tokens, text), wanted, "{tokens:?} in {text:?}");
        }
    }
}
