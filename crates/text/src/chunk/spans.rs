//! The tokens of a text as byte ranges, to find where chunks may end.

use super::error::ChunkError;
use crate::{EncodeOptions, EncoderTokenizer, TextOrPair, TextTruncation};

/// Where the tokens of a text begin.
pub(super) struct Spans<'a> {
    tokenizer: &'a EncoderTokenizer,
    text: &'a str,
    /// The first byte of each token, ascending; tokens within a character begin with it.
    starts: Vec<u32>,
    should_stop: &'a dyn Fn() -> bool,
}

impl<'a> Spans<'a> {
    /// Tokenizes the text.
    pub(super) fn new(
        tokenizer: &'a EncoderTokenizer,
        text: &'a str,
        should_stop: &'a dyn Fn() -> bool,
    ) -> Result<Spans<'a>, ChunkError> {
        let options = EncodeOptions { offsets: true, should_stop, ..EncodeOptions::new(usize::MAX) };
        let input = tokenizer.encode(&TextOrPair::Text(text), &options)?;
        let plain = input.offsets.iter().zip(&input.special).filter(|(_, special)| !**special);
        let mut last = 0;
        let starts = plain.map(|((start, _), _)| {
            last = last.max(*start);
            last
        });
        Ok(Spans { tokenizer, text, starts: starts.collect(), should_stop })
    }

    /// Tokens of a part as a text of its own.
    fn count(&self, start: usize, end: usize) -> Result<usize, ChunkError> {
        let options = EncodeOptions {
            truncation: TextTruncation::End,
            should_stop: self.should_stop,
            ..EncodeOptions::new(usize::MAX)
        };
        let input = self.tokenizer.encode(&TextOrPair::Text(&self.text[start..end]), &options)?;
        Ok(input.special.iter().filter(|special| !**special).count())
    }

    /// The index of the first token that begins at a byte or after it.
    fn index(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| (*start as usize) < byte)
    }

    /// The byte where a token begins; the text's end beyond the last.
    fn start(&self, token: usize) -> usize {
        self.starts.get(token).map_or(self.text.len(), |start| *start as usize)
    }

    /// The end of the longest chunk from `start` on with at most `size` tokens, and its tokens. It has at least a
    /// character, whose tokens may be more.
    pub(super) fn fill(&self, start: usize, end: usize, size: usize) -> Result<(usize, usize), ChunkError> {
        let first = self.index(start);
        let mut token = first.saturating_add(size).min(self.starts.len());
        loop {
            let character = start + self.text[start..].chars().next().map_or(1, char::len_utf8);
            let at = self.start(token).min(end).max(character);
            let count = self.count(start, at)?;
            if count <= size || at == character {
                return Ok((at, count));
            }
            if token <= first {
                // What is left of a token that was cut before.
                return Ok((character, self.count(start, character)?));
            }
            token = first.max(token - (count - size).clamp(1, token));
        }
    }

    /// Where the chunk after `start..end` begins: `overlap` tokens before its end.
    pub(super) fn back(&self, start: usize, end: usize, overlap: usize) -> usize {
        let at = self.start(self.index(end).saturating_sub(overlap)).min(end);
        if at > start { at } else { end }
    }

    /// The index of the last of `bounds` so that what is between it and `first` has at most `size` tokens, and its
    /// tokens; `first` if one sentence has more.
    pub(super) fn pack(
        &self,
        bounds: &[usize],
        first: usize,
        size: usize,
    ) -> Result<(usize, usize), ChunkError> {
        let most = self.index(bounds[first]).saturating_add(size);
        let fits = bounds[first + 1..].partition_point(|bound| self.index(*bound) <= most);
        let mut last = first + fits;
        while last > first {
            let tokens = self.count(bounds[first], bounds[last])?;
            if tokens <= size {
                return Ok((last, tokens));
            }
            // The part alone has more tokens than within the text: at least that many are left out.
            let most = self.index(bounds[last]).saturating_sub(tokens - size);
            let fits = bounds[first + 1..last].partition_point(|bound| self.index(*bound) <= most);
            last = first + fits;
        }
        Ok((first, 0))
    }

    /// The index of the bound where the chunk after `bounds[first]..bounds[last]` begins: up to `overlap` sentences
    /// before its end, of at most `most` tokens.
    pub(super) fn repeat(
        &self,
        bounds: &[usize],
        first: usize,
        last: usize,
        overlap: usize,
        most: usize,
    ) -> usize {
        let end = self.index(bounds[last]);
        let mut from = last;
        while from > first + 1 && last - from < overlap && end - self.index(bounds[from - 1]) <= most {
            from -= 1;
        }
        from
    }
}
