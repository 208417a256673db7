//! The input of an encoder.

use std::collections::VecDeque;

use tokenizers::{Encoding, PostProcessor as _, Token};

use super::content::{Content, Placed};
use super::options::EncoderError;
use crate::Tokenizer;
use crate::layout::{Frame, Mark};

/// The tokens of a text or a pair, with their special tokens. All lists have the length of `tokens` or are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncoderInput {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// The token type (segment) of each token; empty if all are 0.
    pub types: Vec<u8>,
    /// Whether each token is a special token of the layout.
    pub special: Vec<bool>,
    /// The index of the first token of the second text; the number of tokens if there is none.
    pub second: usize,
    /// The byte range of each token in its own text, `0..0` for special tokens and the prompt's; empty if not asked.
    pub offsets: Vec<(u32, u32)>,
    /// Whether each token goes on with the word of the token before it, as transformers' token classification sees it;
    /// empty if offsets were not asked.
    pub subword: Vec<bool>,
    /// The first tokens that are left out of pooling if the prompt is: those of the prompt and the special tokens
    /// before it; 0 without a prompt.
    pub skip: usize,
    /// Tokens of the texts that were cut.
    pub truncated: usize,
}

impl EncoderInput {
    /// Puts the texts into their frame.
    pub(super) fn assemble(frame: &Frame, contents: &[Content], truncated: usize) -> EncoderInput {
        let mut input = EncoderInput { truncated, ..EncoderInput::default() };
        input.marks(&frame.before);
        input.content(&contents[0], frame.first);
        let second = contents.get(1).map(|second| {
            input.marks(&frame.between);
            let at = input.tokens.len();
            input.content(second, frame.second);
            at
        });
        input.marks(&frame.after);
        input.second = second.unwrap_or(input.tokens.len());
        if input.types.iter().all(|kind| *kind == 0) {
            input.types = Vec::new();
        }
        input
    }

    fn marks(&mut self, marks: &[Mark]) {
        for mark in marks {
            self.tokens.push(mark.id);
            self.types.push(mark.kind);
            self.special.push(true);
        }
    }

    fn content(&mut self, content: &Content, kind: u8) {
        self.tokens.extend(content.tokens().map(|token| token.id));
        self.types.resize(self.tokens.len(), kind);
        self.special.resize(self.tokens.len(), false);
    }

    /// Adds the offsets and subwords of an assembled input. `texts`: each text, and the bytes of its prompt.
    pub(super) fn locate(
        &mut self,
        tokenizer: &Tokenizer,
        frame: &Frame,
        contents: &[Content],
        texts: [(&str, usize); 2],
    ) -> Result<(), EncoderError> {
        self.offsets = vec![(0, 0); self.tokens.len()];
        self.subword = vec![false; self.tokens.len()];
        let starts = [frame.before.len(), self.second];
        for ((content, (text, prompt)), start) in contents.iter().zip(texts).zip(starts) {
            let places = trimmed(tokenizer, content)?;
            for (at, (id, place)) in (start..).zip(places) {
                let place =
                    [place.0, place.1].map(|byte| (byte as usize).saturating_sub(prompt).min(text.len()));
                let (from, to) = (text.floor_char_boundary(place[0]), text.ceil_char_boundary(place[1]));
                self.offsets[at] = (from as u32, to.max(from) as u32);
                self.subword[at] = tokenizer.goes_on(id, text, from..to.max(from));
            }
        }
        Ok(())
    }
}

/// A token's id, and the bytes of the text that it stands for.
type PlacedToken = (u32, (u32, u32));

/// The tokens with their offsets, without the spaces that the file's post-processor trims.
fn trimmed(tokenizer: &Tokenizer, content: &Content) -> Result<VecDeque<PlacedToken>, EncoderError> {
    let place = |token: Placed| (token.id, (token.start, token.end));
    let Some(trimmer) = tokenizer.trimmer() else { return Ok(content.tokens().map(place).collect()) };
    let tokens = content.tokens().map(|token| {
        let text = tokenizer.token_text(token.id).unwrap_or_default().to_owned();
        Token::new(token.id, text, (token.start as usize, token.end as usize))
    });
    let encoding = Encoding::from_tokens(tokens.collect(), 0);
    let encoding = trimmer.process(encoding, None, false).map_err(|e| EncoderError::Failed(e.to_string()))?;
    let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let places = encoding.get_offsets().iter().map(|(start, end)| (byte(*start), byte(*end)));
    Ok(content.tokens().map(|token| token.id).zip(places).collect())
}
