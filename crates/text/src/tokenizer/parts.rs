//! What inputs of encoders need of a tokenizer.

use std::ops::Range;

use tokenizers::processors::PostProcessorWrapper;

use super::Tokenizer;
use crate::layout::Layout;
use crate::safe_cuts::SafeCuts;
use crate::word_encoder::WordEncoder;
use crate::{EncodeError, Special, bounds};

impl Tokenizer {
    /// The word-by-word encoder, if it supports the pipeline.
    pub(crate) fn words(&self) -> Option<&WordEncoder> {
        self.words.as_ref()
    }

    /// The special tokens around a text and a pair.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// The post-processor, if it trims offsets.
    pub(crate) fn trimmer(&self) -> Option<&PostProcessorWrapper> {
        self.trimmer.as_ref()
    }

    /// Where texts may be cut before they are tokenized.
    pub(crate) fn safe_cuts(&self) -> SafeCuts {
        self.safe_cuts
    }

    /// Whether a control token that the model made of plain text is to be spelled.
    pub(crate) fn is_spelled(&self, id: u32, special: Special) -> bool {
        special == Special::Plain && self.is_special(id) && Some(id) != self.unknown
    }

    /// Encodes a text with the library, and gives each token with its byte range (`0..0` unless `offsets`).
    ///
    /// # Errors
    /// The pipeline refuses the text, or an error of `put`.
    pub(crate) fn encode_part(
        &self,
        text: &str,
        special: Special,
        offsets: bool,
        put: &mut dyn FnMut(u32, (usize, usize)) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let pipeline = self.pipelines.pipeline(special == Special::Parse).map_err(EncodeError::Failed)?;
        let _ = bounds::refusal();
        let run = || if offsets { pipeline.encode(text, false) } else { pipeline.encode_fast(text, false) };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let broken = || EncodeError::Failed("the tokenizer's tables are broken".into());
        let encoding = caught.map_err(|_| broken())?.map_err(|e| EncodeError::Failed(e.to_string()))?;
        if let Some(refusal) = bounds::refusal() {
            return Err(EncodeError::Failed(refusal));
        }
        let places = encoding.get_offsets();
        for (at, id) in encoding.get_ids().iter().enumerate() {
            let place = if offsets { places.get(at).copied().unwrap_or_default() } else { (0, 0) };
            put(*id, place)?;
        }
        Ok(())
    }

    /// Whether a token goes on with the word of the token before it, as transformers' token classification sees it: a
    /// vocabulary that marks such tokens says so; else every token that no space precedes.
    pub(crate) fn goes_on(&self, id: u32, text: &str, place: Range<usize>) -> bool {
        if Some(id) == self.unknown {
            return false;
        }
        let covered = text.get(place.clone()).unwrap_or_default();
        match self.pipelines.model.subword_prefix() {
            Some(_) => self.token_text(id).unwrap_or_default().chars().count() != covered.chars().count(),
            None => {
                let before = text.get(..place.start).and_then(|text| text.chars().next_back());
                let here = text.get(place.start..).and_then(|text| text.chars().next());
                before.is_some_and(|before| before != ' ') && here != Some(' ')
            }
        }
    }
}
