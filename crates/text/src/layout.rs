//! The special tokens around a text and between the two texts of a pair, with their token types.

use serde::{Deserialize, Serialize};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{Encoding, PostProcessor as _, Token};

use crate::{Error, bounds};

/// A special token and its token type (segment).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) id: u32,
    pub(crate) kind: u8,
}

/// A sequence of special tokens with the places of the texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frame {
    /// Special tokens before the first text, between the texts, and after the last text.
    pub(crate) before: Vec<Mark>,
    pub(crate) between: Vec<Mark>,
    pub(crate) after: Vec<Mark>,
    /// Token types of the first and the second text.
    pub(crate) first: u8,
    pub(crate) second: u8,
}

impl Frame {
    /// The number of special tokens.
    pub(crate) fn special(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }
}

/// The frames of a single text and of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) single: Frame,
    /// The frame of a pair; `None` if the file's template does not have both texts once, in their order.
    pub(crate) pair: Option<Frame>,
}

/// Ids that stand for the texts while a post-processor runs; no vocabulary has them.
const FIRST: u32 = u32::MAX;
const SECOND: u32 = u32::MAX - 1;

impl Layout {
    /// The layout of a post-processor, found by running it on a text of one token.
    ///
    /// # Errors
    /// A post-processor that fails or adds too many tokens, or a single text that it drops or repeats.
    pub(crate) fn of_processor(processor: Option<&PostProcessorWrapper>) -> Result<Layout, Error> {
        let single = run(processor, false)?;
        let single = frame(&single, false)?.ok_or_else(|| {
            Error::malformed("post_processor", "its template does not have the text exactly once")
        })?;
        let pair = frame(&run(processor, true)?, true)?;
        Ok(Layout { single, pair })
    }

    /// The layout with all token types 0.
    pub(crate) fn without_types(mut self) -> Layout {
        for frame in std::iter::once(&mut self.single).chain(&mut self.pair) {
            for mark in frame.before.iter_mut().chain(&mut frame.between).chain(&mut frame.after) {
                mark.kind = 0;
            }
            (frame.first, frame.second) = (0, 0);
        }
        self
    }

    /// The usual layout of an encoder whose file names only the tokens around a text. `types`: whether the second text
    /// of a pair has token type 1. `separator`: the token that follows the end of the first text of a pair.
    pub(crate) fn around(before: &[u32], after: &[u32], separator: Option<u32>, types: bool) -> Layout {
        let marks = |ids: &[u32], kind| ids.iter().map(|id| Mark { id: *id, kind }).collect::<Vec<_>>();
        let second = u8::from(types);
        let single = Frame { before: marks(before, 0), after: marks(after, 0), ..Frame::default() };
        let mut between = marks(after, 0);
        between.extend(separator.map(|id| Mark { id, kind: 0 }));
        let pair = Frame { before: marks(before, 0), between, after: marks(after, second), first: 0, second };
        Layout { single, pair: Some(pair) }
    }
}

fn run(processor: Option<&PostProcessorWrapper>, pair: bool) -> Result<Encoding, Error> {
    let text = |id, kind| Encoding::from_tokens(vec![Token::new(id, "x".into(), (0, 1))], kind);
    let (first, second) = (text(FIRST, 0), pair.then(|| text(SECOND, 1)));
    match processor {
        Some(processor) => {
            processor.process(first, second, true).map_err(|e| Error::malformed("post_processor", e))
        }
        None => Ok(Encoding::merge(std::iter::once(first).chain(second), false)),
    }
}

/// The frame around the texts of an encoding; `None` if they are not there once each, in order.
fn frame(encoding: &Encoding, pair: bool) -> Result<Option<Frame>, Error> {
    let mut marks = Vec::with_capacity(encoding.len());
    for (id, kind) in encoding.get_ids().iter().zip(encoding.get_type_ids()) {
        let kind = u8::try_from(*kind).map_err(|_| Error::TooLarge {
            what: "a token type of the post-processor",
            size: u64::from(*kind),
            limit: u64::from(u8::MAX),
        })?;
        marks.push(Mark { id: *id, kind });
    }
    let (size, limit) = (marks.len() as u64, bounds::MAX_AROUND as u64);
    if size > limit + 2 {
        return Err(Error::TooLarge { what: "the number of tokens around a text", size, limit });
    }
    let at = |id: u32| {
        let mut found = marks.iter().enumerate().filter(|(_, mark)| mark.id == id).map(|(at, _)| at);
        found.next().filter(|_| found.next().is_none())
    };
    let Some(first) = at(FIRST) else { return Ok(None) };
    let before = marks[..first].to_vec();
    if !pair {
        let after = marks[first + 1..].to_vec();
        return Ok(Some(Frame { before, after, first: marks[first].kind, ..Frame::default() }));
    }
    let Some(second) = at(SECOND).filter(|second| *second > first) else { return Ok(None) };
    Ok(Some(Frame {
        before,
        between: marks[first + 1..second].to_vec(),
        after: marks[second + 1..].to_vec(),
        first: marks[first].kind,
        second: marks[second].kind,
    }))
}

/// The post-processor if it trims offsets, which must then be done for offsets as transformers gives them.
pub(crate) fn trimmer(processor: Option<PostProcessorWrapper>) -> Option<PostProcessorWrapper> {
    fn trims(processor: &PostProcessorWrapper) -> bool {
        match processor {
            PostProcessorWrapper::Roberta(_) | PostProcessorWrapper::ByteLevel(_) => true,
            PostProcessorWrapper::Sequence(steps) => steps.as_ref().iter().any(trims),
            PostProcessorWrapper::Bert(_) | PostProcessorWrapper::Template(_) => false,
        }
    }
    processor.filter(trims)
}
