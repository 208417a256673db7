//! Chunks of a text for retrieval: by tokens, by sentences, or by the headings of Markdown.
//!
//! Chunks begin and end at characters. Without overlap their concatenation is the text. The number of tokens of a chunk
//! is that of the chunk as a text of its own, without special tokens, so that what fits here fits when it is embedded.

mod error;
mod headings;
mod sentences;
mod spans;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::{EncoderError, EncoderTokenizer};
pub use error::ChunkError;
use spans::Spans;

/// The longest text, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// The most chunks of a text.
const MAX_CHUNKS: usize = 32_768;

/// Where chunks end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkMethod {
    /// After [`ChunkOptions::size`] tokens.
    #[default]
    Tokens,
    /// At sentence ends (Unicode Standard Annex 29); a sentence that is too long is cut by tokens.
    Sentences,
    /// At Markdown headings; a section that is too long is cut by sentences.
    Headings,
}

/// The options of [`EncoderTokenizer::chunk`].
#[derive(Clone, Copy)]
pub struct ChunkOptions<'a> {
    /// Where chunks end.
    pub method: ChunkMethod,
    /// Most tokens of a chunk.
    pub size: usize,
    /// What a chunk repeats of the one before it: tokens with [`ChunkMethod::Tokens`], else whole sentences. It repeats
    /// at most half of `size` tokens.
    pub overlap: usize,
    /// Called between chunks; true stops.
    pub should_stop: &'a dyn Fn() -> bool,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChunk {
    /// The part in bytes.
    pub bytes: Range<usize>,
    /// The part in Unicode characters.
    pub chars: Range<usize>,
    /// Tokens of the part as a text of its own, without special tokens.
    pub tokens: usize,
    /// The headings above the part, the outermost first; empty unless chunks end at headings.
    pub headings: Vec<String>,
}

impl EncoderTokenizer {
    /// Cuts a text into chunks. An empty text has none.
    ///
    /// # Errors
    /// Options out of range, a text that is too long or has too many chunks, or one that cannot be tokenized.
    pub fn chunk(&self, text: &str, options: &ChunkOptions<'_>) -> Result<Vec<TextChunk>, ChunkError> {
        let ChunkOptions { method, size, overlap, .. } = *options;
        if size == 0 {
            return Err(ChunkError::Size);
        }
        if method == ChunkMethod::Tokens && overlap > size / 2 {
            return Err(ChunkError::Overlap { overlap, size });
        }
        if text.len() > MAX_BYTES {
            return Err(ChunkError::TooManyBytes { bytes: text.len(), limit: MAX_BYTES });
        }
        let spans = Spans::new(self, text, options.should_stop)?;
        let mut chunks = Chunks { text, spans: &spans, options, out: Vec::new(), byte: 0, chars: 0 };
        match method {
            ChunkMethod::Tokens => chunks.by_tokens(0..text.len(), overlap, &[])?,
            ChunkMethod::Sentences => chunks.by_sentences(0..text.len(), &[])?,
            ChunkMethod::Headings => {
                for section in headings::sections(text) {
                    chunks.by_sentences(section.bytes, &section.path)?;
                }
            }
        }
        Ok(chunks.out)
    }
}

/// The chunks of a text as they are found.
struct Chunks<'a> {
    text: &'a str,
    spans: &'a Spans<'a>,
    options: &'a ChunkOptions<'a>,
    out: Vec<TextChunk>,
    /// A place in the text, and the characters before it.
    byte: usize,
    chars: usize,
}

impl Chunks<'_> {
    fn push(&mut self, bytes: Range<usize>, tokens: usize, headings: &[String]) -> Result<(), ChunkError> {
        if (self.options.should_stop)() {
            return Err(EncoderError::Stopped.into());
        }
        if self.out.len() >= MAX_CHUNKS {
            return Err(ChunkError::TooManyChunks { size: self.options.size, limit: MAX_CHUNKS });
        }
        let start = self.chars_before(bytes.start);
        let end = start + self.text[bytes.clone()].chars().count();
        self.out.push(TextChunk { bytes, chars: start..end, tokens, headings: headings.to_vec() });
        Ok(())
    }

    /// Characters before a byte. Chunks ascend, so that little is counted twice.
    fn chars_before(&mut self, byte: usize) -> usize {
        if byte < self.byte {
            self.chars -= self.text[byte..self.byte].chars().count();
        } else {
            self.chars += self.text[self.byte..byte].chars().count();
        }
        self.byte = byte;
        self.chars
    }

    /// Cuts a part of the text after `size` tokens, each chunk with `overlap` tokens of the one before.
    fn by_tokens(
        &mut self,
        part: Range<usize>,
        overlap: usize,
        headings: &[String],
    ) -> Result<(), ChunkError> {
        let (mut start, mut done) = (part.start, part.start);
        while done < part.end {
            let (end, tokens) = self.spans.fill(start, part.end, self.options.size)?;
            if end <= done {
                // Alone, the repeated tokens are more than within the text, and leave no room for new ones.
                start = done;
                continue;
            }
            self.push(start..end, tokens, headings)?;
            (start, done) = (self.spans.back(start, end, overlap), end);
        }
        Ok(())
    }

    /// Packs the sentences of a part of the text into chunks.
    fn by_sentences(&mut self, part: Range<usize>, headings: &[String]) -> Result<(), ChunkError> {
        let bounds = sentences::bounds(self.text, part);
        let size = self.options.size;
        let (mut first, mut done) = (0, 0);
        while done + 1 < bounds.len() {
            let (last, tokens) = self.spans.pack(&bounds, first, size)?;
            if last <= done && first < done {
                first = done;
                continue;
            }
            if last == first {
                self.by_tokens(bounds[first]..bounds[first + 1], 0, headings)?;
                (first, done) = (first + 1, first + 1);
                continue;
            }
            self.push(bounds[first]..bounds[last], tokens, headings)?;
            (first, done) = (self.spans.repeat(&bounds, first, last, self.options.overlap, size / 2), last);
        }
        Ok(())
    }
}

impl std::fmt::Debug for ChunkOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ChunkOptions { method, size, overlap, .. } = self;
        write!(f, "{method:?}, size {size}, overlap {overlap}")
    }
}
