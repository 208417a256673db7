//! A tokenizer of words for encoders and a model of tensors, for tests of this crate and of those that depend on it.
//!
//! Every word is a token, `[` and `]` are put around a text, and `|` between the texts of a pair.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::encoder::{Encode, Encoder, EncoderLimits};
use inference::EncoderFacts;
use text::{EncodeOptions, EncoderError, EncoderInput, PairTruncation, TextOrPair, TextTruncation};
use wire::Fault;
use wire::oip::{Datatype, Signature, Tensor, TensorData, TensorSpec};

use crate::encode::EncoderHeads;
use crate::encoding::{EncoderText, Encoding};
use crate::tensor_model::TensorModel;

/// Token of the start of a text.
pub const START: u32 = 1;
/// Token between two texts.
pub const BETWEEN: u32 = 2;
/// Token of the end.
pub const END: u32 = 3;

/// A tokenizer whose tokens are words, with ids below its number of tokens.
#[derive(Debug, Clone, Copy)]
pub struct Words(pub usize);

type Word = (u32, (u32, u32));

impl Words {
    /// The token of a word.
    pub fn token(&self, word: &str) -> u32 {
        let hash = word.bytes().fold(17u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
        4 + hash % (self.0 as u32).saturating_sub(4).max(1)
    }

    fn words(&self, text: &str) -> Vec<Word> {
        let place = |word: &str| {
            let from = word.as_ptr() as usize - text.as_ptr() as usize;
            (self.token(word), (from as u32, (from + word.len()) as u32))
        };
        text.split_whitespace().map(place).collect()
    }
}

fn cut(words: &mut Vec<Word>, keep: usize, truncation: TextTruncation) {
    let gone = words.len().saturating_sub(keep);
    match truncation {
        TextTruncation::Start => drop(words.drain(..gone)),
        TextTruncation::Refuse | TextTruncation::End => words.truncate(keep),
    }
}

impl EncoderText for Words {
    fn encode(
        &self,
        text: &TextOrPair<'_>,
        options: &EncodeOptions<'_>,
    ) -> Result<EncoderInput, EncoderError> {
        if (options.should_stop)() {
            return Err(EncoderError::Stopped);
        }
        let (first, second) = match text {
            TextOrPair::Text(first) => (*first, None),
            TextOrPair::Pair(first, second) => (*first, Some(*second)),
        };
        let prompt = self.words(options.prompt.unwrap_or_default());
        let mut first = [prompt.clone(), self.words(first)].concat();
        let mut second = second.map(|second| self.words(second));
        let special = if second.is_some() { 3 } else { 2 };
        let limit = options.max_tokens;
        let whole = first.len() + second.as_ref().map_or(0, Vec::len);
        if let (Some(second), Some(most)) = (&mut second, options.max_second) {
            cut(second, most, TextTruncation::End);
        }
        let tokens = first.len() + second.as_ref().map_or(0, Vec::len) + special;
        if tokens > limit {
            if options.truncation == TextTruncation::Refuse {
                return Err(EncoderError::TooLong { tokens, exact: true, limit });
            }
            let room =
                limit.checked_sub(special + 1).ok_or(EncoderError::LimitTooSmall { limit, special })? + 1;
            match &mut second {
                None => cut(&mut first, room, options.truncation),
                Some(second) if options.pair == PairTruncation::OnlySecond => {
                    if first.len() >= room {
                        return Err(EncoderError::FirstTooLong { tokens: first.len() + special, limit });
                    }
                    cut(second, room - first.len(), options.truncation);
                }
                Some(second) => {
                    while first.len() + second.len() > room {
                        let longer = if first.len() > second.len() { &mut first } else { &mut *second };
                        cut(longer, longer.len() - 1, options.truncation);
                    }
                }
            }
        }
        Ok(assemble(&first, second.as_deref(), whole, prompt.len(), options))
    }

    fn encode_windows(
        &self,
        text: &str,
        options: &EncodeOptions<'_>,
        most: usize,
    ) -> Result<Vec<EncoderInput>, EncoderError> {
        let prompt = self.words(options.prompt.unwrap_or_default());
        let words = self.words(text);
        let limit = options.max_tokens;
        let room = limit.checked_sub(2 + prompt.len()).filter(|room| *room > 0);
        let room = room.ok_or(EncoderError::LimitTooSmall { limit, special: 2 })?;
        if words.len() > room * most {
            return Err(EncoderError::TooLong { tokens: words.len(), exact: true, limit: room * most });
        }
        let window = |part: &[Word]| {
            let whole = [prompt.as_slice(), part].concat();
            assemble(&whole, None, whole.len(), prompt.len(), options)
        };
        Ok(words.chunks(room).map(window).collect())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|token| format!("w{token} ")).collect()
    }

    fn special_tokens(&self) -> usize {
        2
    }

    fn chunk(
        &self,
        text: &str,
        _: &text::ChunkOptions<'_>,
    ) -> Result<Vec<text::TextChunk>, text::ChunkError> {
        let (chars, tokens) = (text.chars().count(), text.split_whitespace().count());
        Ok(vec![text::TextChunk { bytes: 0..text.len(), chars: 0..chars, tokens, headings: Vec::new() }])
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        format!("w{token} ").into_bytes()
    }
}

fn assemble(
    first: &[Word],
    second: Option<&[Word]>,
    whole: usize,
    prompt: usize,
    options: &EncodeOptions<'_>,
) -> EncoderInput {
    let mut all: Vec<(Word, u8, bool)> = vec![((START, (0, 0)), 0, true)];
    all.extend(first.iter().map(|word| (*word, 0, false)));
    let mut at = all.len() + 1;
    if let Some(second) = second {
        all.push(((BETWEEN, (0, 0)), 0, true));
        at = all.len();
        all.extend(second.iter().map(|word| (*word, 1, false)));
    }
    let last = if second.is_some() { 1 } else { 0 };
    all.push(((END, (0, 0)), last, true));
    let kept = first.len() + second.map_or(0, <[Word]>::len);
    EncoderInput {
        tokens: all.iter().map(|((token, _), ..)| *token).collect(),
        types: if second.is_some() { all.iter().map(|(_, kind, _)| *kind).collect() } else { Vec::new() },
        special: all.iter().map(|(.., special)| *special).collect(),
        second: at,
        offsets: if options.offsets {
            all.iter().map(|((_, place), ..)| *place).collect()
        } else {
            Vec::new()
        },
        subword: if options.offsets { vec![false; all.len()] } else { Vec::new() },
        skip: if options.prompt.is_some() { 1 + prompt } else { 0 },
        truncated: whole - kept,
    }
}

/// An encoder of words, on a device of its own.
///
/// # Errors
/// As [`Encoder::start_alone`].
pub fn encoding(
    encode: impl Encode + 'static,
    heads: EncoderHeads,
    facts: EncoderFacts,
) -> Result<Encoding, engine::Error> {
    let text = Arc::new(Words(encode.vocab()));
    let engine = Encoder::start_alone(encode, EncoderLimits::default())?;
    Ok(Encoding { engine, text, heads: Arc::new(heads), facts: Arc::new(facts) })
}

/// A model of tensors: `double` is twice `numbers`, and `upper` is `words` in upper case.
#[derive(Debug, Clone, Copy, Default)]
pub struct FakeTensors {
    /// How long a computation takes, unless it is stopped.
    pub pace: Duration,
}

/// The number that makes the fake fail, and the one that makes it panic.
pub const FAILS: f32 = -1.0;
/// The number that makes the fake panic.
pub const PANICS: f32 = -2.0;

impl FakeTensors {
    fn wait(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Fault> {
        let end = Instant::now() + self.pace;
        while Instant::now() < end {
            if stop() {
                return Err(Fault::internal("stopped"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl TensorModel for FakeTensors {
    fn signature(&self) -> Arc<Signature> {
        let spec = TensorSpec::new;
        Arc::new(Signature {
            inputs: vec![
                spec("numbers", Datatype::Fp32, &[-1, 3]),
                spec("words", Datatype::Bytes, &[-1]).optional(),
            ],
            outputs: vec![spec("double", Datatype::Fp32, &[-1, 3]), spec("upper", Datatype::Bytes, &[-1])],
            platform: "fake".to_owned(),
            decoupled: false,
        })
    }

    fn labels(&self, _output: &str) -> Arc<[String]> {
        ["bad", "fair", "good"].map(str::to_owned).into()
    }

    fn infer(
        &self,
        inputs: Vec<Tensor>,
        outputs: &[String],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Tensor>, Fault> {
        self.wait(stop)?;
        let mut made = Vec::new();
        for input in inputs {
            match &input.data {
                TensorData::Raw(bytes) => {
                    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap_or_default());
                    let numbers: Vec<f32> = bytes.chunks_exact(4).map(number).collect();
                    if numbers.contains(&FAILS) {
                        return Err(Fault::field("numbers", "a number is refused"));
                    }
                    assert!(!numbers.contains(&PANICS), "a model that panics");
                    let doubles: Vec<f32> = numbers.iter().map(|number| 2.0 * number).collect();
                    made.push(Tensor::floats("double", input.shape, &doubles));
                }
                TensorData::Strings(words) => {
                    let upper = words.iter().map(|word| word.to_ascii_uppercase().into()).collect();
                    made.push(Tensor::strings("upper", input.shape, upper));
                }
            }
        }
        let mut made = made.into_iter().collect::<Result<Vec<_>, String>>().map_err(Fault::internal)?;
        made.retain(|tensor| outputs.is_empty() || outputs.contains(&tensor.name));
        made.sort_by_key(|tensor| outputs.iter().position(|name| *name == tensor.name));
        Ok(made)
    }
}
