//! The tokenizer: encodes text to tokens and decodes tokens, for every kind of vocabulary.

use std::collections::HashSet;
use std::path::Path;

use tokenizers::Model as _;
use tokenizers::processors::PostProcessorWrapper;
use weights::opened::{Metadata, Opened};

use crate::config_files::ConfigFiles;
use crate::layout::Layout;
use crate::names::SpecialTokenNames;
use crate::pipeline::{LazyPipelines, PipelineIndex};
use crate::safe_cuts::SafeCuts;
use crate::spec::TokenizerSpec;
use crate::token_bytes::{DecoderKind, TokenBytes, TokenPosition};
use crate::token_texts::TokenTexts;
use crate::word_encoder::{TokenSink, WordEncoder, char_of};
use crate::{EncodeError, Error, Special, TokenLimit, bounds, eog, gguf, huggingface};

/// The tokenizer of a model. Immutable after loading, and shared between threads.
pub struct Tokenizer {
    pipelines: LazyPipelines,
    /// The fast word-by-word encoder; `None` if the pipeline has parts that it does not support.
    words: Option<WordEncoder>,
    /// The bound of tokens by bytes; `None` if the length of a text says nothing about its tokens.
    bound: Option<Bound>,
    pieces: TokenBytes,
    texts: TokenTexts,
    /// Whether each id is a control token, `[vocab]`.
    special: Vec<bool>,
    names: SpecialTokenNames,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    layout: Option<Layout>,
    /// The post-processor, if it trims offsets.
    trimmer: Option<PostProcessorWrapper>,
    /// Whether the pipeline can be written to a packed tokenizer.
    packs: bool,
    safe_cuts: SafeCuts,
    bos: Option<u32>,
    eos: Option<u32>,
    ends: Vec<u32>,
    unknown: Option<u32>,
    remarks: Vec<String>,
}

impl Tokenizer {
    /// Loads the tokenizer of an opened model, GGUF or Hugging Face.
    ///
    /// # Errors
    /// A missing, malformed or unsupported part, by name.
    pub fn open(opened: &Opened) -> Result<Tokenizer, Error> {
        let loaded = guarded(|| match opened.metadata() {
            Metadata::Gguf(metadata) => gguf::load(gguf::Vocabulary::read(metadata)?),
            Metadata::HuggingFace(files) => {
                let only_model = || opened.path().join("tokenizer.model").is_file();
                let configs = ConfigFiles {
                    tokenizer_config: files.tokenizer_config.clone(),
                    generation_config: files.generation_config.clone(),
                    config: Some(files.config.clone()),
                    special_tokens_map: files.special_tokens_map.clone(),
                    sentence_bert_config: files.sentence_bert_config.clone(),
                };
                match (&files.tokenizer_json, &files.vocab_txt) {
                    (Some(json), _) => huggingface::read(json.bytes()?, &configs),
                    (None, Some(vocab)) => huggingface::read_vocab_txt(vocab.bytes()?, &configs),
                    (None, None) => Err(missing_json(only_model())),
                }
            }
        });
        loaded.and_then(Tokenizer::assemble)
    }

    /// Loads a tokenizer from a folder with a `tokenizer.json` or BERT's `vocab.txt`, a `tokenizer.json` itself, or a GGUF (which may have only a
    /// vocabulary).
    ///
    /// # Errors
    /// A missing, malformed or unsupported part, by name.
    pub fn open_path(path: &Path) -> Result<Tokenizer, Error> {
        let is_folder = path.is_dir();
        if !is_folder && path.extension().is_none_or(|extension| extension != "json") {
            return Tokenizer::open(&weights::opened::open(path)?);
        }
        let folder = if is_folder { path } else { path.parent().unwrap_or(Path::new(".")) };
        let json = if is_folder { path.join("tokenizer.json") } else { path.to_owned() };
        let has_vocabulary = json.is_file() || folder.join("vocab.txt").is_file();
        if is_folder && !has_vocabulary && folder.join("tokenizer.model").is_file() {
            return Err(missing_json(true));
        }
        guarded(|| huggingface::open(&json, folder)).and_then(Tokenizer::assemble)
    }

    /// Loads a `tokenizer.json` without configuration files. BOS and EOG tokens are then known by their names only.
    ///
    /// # Errors
    /// A missing, malformed or unsupported part, by name.
    pub fn from_json(bytes: &[u8]) -> Result<Tokenizer, Error> {
        guarded(|| huggingface::read(bytes, &ConfigFiles::default())).and_then(Tokenizer::assemble)
    }

    pub(crate) fn assemble(loaded: TokenizerSpec) -> Result<Tokenizer, Error> {
        guarded(|| Tokenizer::assemble_unguarded(loaded))
    }

    fn assemble_unguarded(loaded: TokenizerSpec) -> Result<Tokenizer, Error> {
        check_ids(&loaded)?;
        let size = loaded.texts.len();
        let mut special = vec![false; size];
        for id in &loaded.special {
            special[*id as usize] = true;
        }
        let control =
            || loaded.special.iter().filter_map(|id| Some((*id, loaded.texts[*id as usize].as_deref()?)));
        let named: Vec<u32> = loaded.ends.iter().copied().filter(|id| (*id as usize) < size).collect();
        let ends = eog::find(control(), &named);
        let names = SpecialTokenNames::new(control().map(|(_, name)| name))?;
        let by_bytes = loaded.decoder_kind == DecoderKind::ByteLevel;
        let known = match &loaded.decoder_kind {
            DecoderKind::ByteLevel => known_bytes(&loaded.texts, |byte| char_of(byte).to_string()),
            DecoderKind::Metaspace { bytes: true, .. } => {
                known_bytes(&loaded.texts, |byte| format!("<0x{byte:02X}>"))
            }
            _ => [false; 256],
        };
        let pieces = TokenBytes::new(loaded.decoder_kind, &loaded.texts)?;
        let index = PipelineIndex::of(&loaded.parts);
        let words = index.as_ref().and_then(|index| WordEncoder::new(index, &loaded.parts.model, false));
        let safe_cuts = index.as_ref().map_or(SafeCuts::None, SafeCuts::of);
        let named = loaded.parts.added.iter().map(|(_, token)| token.content.len());
        let said = loaded.texts.iter().zip(0..).map(|(text, id)| {
            let written = text.as_ref().filter(|_| !by_bytes).map_or(0, String::len);
            pieces.get(id).map_or(0, <[u8]>::len).max(written)
        });
        let longest = said.chain(named).max().unwrap_or(1).max(1);
        let whole = known.iter().zip(IN_UTF8).all(|(known, in_text)| *known || !in_text);
        let bound = match words.as_ref().and_then(WordEncoder::shrinks) {
            Some(times) if whole || (by_bytes && times == 1) => {
                Some(Bound { longest: times * longest, known })
            }
            _ => None,
        };
        let packs = index.is_some();
        let index = index.unwrap_or_else(|| PipelineIndex::of_added(&loaded.parts));
        Ok(Tokenizer {
            pipelines: LazyPipelines::build(index, loaded.parts)?,
            packs,
            bound,
            words,
            pieces,
            texts: TokenTexts::Owned(loaded.texts),
            special,
            names,
            prefix: loaded.around.0,
            suffix: loaded.around.1,
            layout: loaded.layout,
            trimmer: loaded.trimmer,
            safe_cuts,
            bos: loaded.bos,
            eos: loaded.eos,
            ends,
            unknown: loaded.unknown,
            remarks: loaded.remarks,
        })
    }

    /// Encodes a text. With `add_bos_eos`, adds the tokens that the model expects before and after it (if any).
    ///
    /// # Errors
    /// [`Error::Encode`] if the pipeline refuses the text.
    pub fn encode(&self, text: &str, special: Special, add_bos_eos: bool) -> Result<Vec<u32>, Error> {
        self.encode_within(text, special, add_bos_eos, &TokenLimit::NONE)
            .map_err(|e| Error::Encode(e.to_string()))
    }

    /// As [`Tokenizer::encode`], with a limit. For all usual tokenizers the limit also bounds time and memory: a text
    /// that is too long by its bytes is refused at once, and encoding stops at the first token beyond the limit.
    ///
    /// # Errors
    /// The text has more tokens than the limit, or the pipeline refuses it.
    pub fn encode_within(
        &self,
        text: &str,
        special: Special,
        add_bos_eos: bool,
        limit: &TokenLimit<'_>,
    ) -> Result<Vec<u32>, EncodeError> {
        self.may_fit(text, limit)?;
        let mut ids = TokenCollector { tokenizer: self, special, limit, tokens: Vec::new() };
        if add_bos_eos {
            ids.tokens.extend_from_slice(&self.prefix);
        }
        let run = || match &self.words {
            Some(words) => words.encode(text, special == Special::Plain, &mut ids),
            None => self.encode_by_library(text, &mut ids),
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        caught.unwrap_or_else(|_| Err(EncodeError::Failed("the tokenizer's tables are broken".into())))?;
        let mut tokens = ids.tokens;
        if add_bos_eos {
            tokens.extend_from_slice(&self.suffix);
        }
        limit.check(tokens)
    }

    /// Refuses a text that has more tokens than the limit by its bytes alone.
    pub(crate) fn may_fit(&self, text: &str, limit: &TokenLimit<'_>) -> Result<(), EncodeError> {
        let at_least = self.fewest_tokens(text);
        if at_least > limit.max_tokens { Err(EncodeError::TooMany { at_least, worked: 0 }) } else { Ok(()) }
    }

    /// A lower bound of a text's tokens, from its bytes and the longest token; 0 if there is no such bound.
    pub fn fewest_tokens(&self, text: &str) -> usize {
        let Some(bound) = &self.bound else { return 0 };
        let known = text.bytes().filter(|byte| bound.known[usize::from(*byte)]).count();
        known.div_ceil(bound.longest)
    }

    /// Encodes a whole text with the library, as the reference for tests of [`Tokenizer::encode`].
    ///
    /// # Errors
    /// [`Error::Encode`] if the pipeline refuses the text.
    #[doc(hidden)]
    pub fn encode_whole(&self, text: &str, special: Special) -> Result<Vec<u32>, Error> {
        let mut ids =
            TokenCollector { tokenizer: self, special, limit: &TokenLimit::NONE, tokens: Vec::new() };
        self.encode_by_library(text, &mut ids).map_err(|e| Error::Encode(e.to_string()))?;
        Ok(ids.tokens)
    }

    /// Encodes the whole text with the library, for pipelines that [`WordEncoder`] does not support.
    fn encode_by_library(&self, text: &str, ids: &mut TokenCollector<'_>) -> Result<(), EncodeError> {
        let pipeline = self.pipelines.pipeline(ids.special == Special::Parse).map_err(EncodeError::Failed)?;
        let _ = bounds::refusal();
        let encoding = pipeline.encode_fast(text, false).map_err(|e| EncodeError::Failed(e.to_string()))?;
        if let Some(refusal) = bounds::refusal() {
            return Err(EncodeError::Failed(refusal));
        }
        encoding.get_ids().iter().try_for_each(|id| ids.put(*id))
    }

    /// Encodes a control token's name character by character, for models that merge plain text into control tokens.
    pub(crate) fn spell(&self, id: u32, tokens: &mut Vec<u32>) -> Result<(), Error> {
        let name = self.token_text(id).unwrap_or_default();
        for letter in name.chars() {
            let spelt = self.pipelines.model.tokenize(letter.encode_utf8(&mut [0; 4]));
            let spelt = spelt.map_err(|e| Error::Encode(e.to_string()))?;
            tokens.extend(spelt.iter().map(|token| token.id).filter(|id| !self.is_special(*id)));
        }
        Ok(())
    }

    /// The names of control tokens.
    pub(crate) fn names(&self) -> &SpecialTokenNames {
        &self.names
    }

    /// Decodes tokens to text. Invalid UTF-8 becomes U+FFFD, and ids beyond the vocabulary have no text.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut bytes = Vec::new();
        let mut start = TokenPosition::Text;
        for id in ids.iter().filter(|id| !(skip_special && self.is_special(**id))) {
            start = self.append(*id, start, &mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn append(&self, id: u32, start: TokenPosition, out: &mut Vec<u8>) -> TokenPosition {
        self.pieces.append(id, start, out)
    }

    /// The bytes of a token, which may be an incomplete UTF-8 character. `None` beyond the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.pieces.get(id)
    }

    /// A token as the vocabulary writes it (`Ġhello`, `▁hello`, `<0x0A>`).
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.texts.get(id)
    }

    /// The id of a token as the vocabulary writes it.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.pipelines.token_id(text)
    }

    /// The size of the vocabulary: the highest id plus one.
    pub fn vocab_size(&self) -> usize {
        self.texts.len()
    }

    /// Whether the token ends an answer (end of generation).
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// All end-of-generation tokens, ascending.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The beginning-of-sequence token, if any.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token, if any.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether [`encode`](Tokenizer::encode) with `add_bos_eos` adds tokens before a text.
    pub fn adds_bos(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Warnings about the tokenizer's file, to be logged when the model is loaded, one line each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Whether the token is a control token, which has no text of its own.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }
}

/// Refuses a tokenizer that names tokens beyond its vocabulary.
fn check_ids(loaded: &TokenizerSpec) -> Result<(), Error> {
    let size = loaded.texts.len();
    let check = |what: &str, ids: &[u32]| match ids.iter().find(|id| **id as usize >= size) {
        Some(id) => Err(Error::OutOfRange { what: what.into(), id: u64::from(*id), size }),
        None => Ok(()),
    };
    check("the first token of a text", &loaded.around.0)?;
    check("the last token of a text", &loaded.around.1)?;
    check("a control token", &loaded.special)
}

/// A lower bound of tokens by the bytes of a text.
#[derive(Clone)]
struct Bound {
    /// The most bytes of text that one token encodes.
    longest: usize,
    /// Whether each byte is a token by itself, `[256]`; models may drop other bytes.
    known: [bool; 256],
}

/// Whether each byte can occur in UTF-8, `[256]`.
const IN_UTF8: [bool; 256] = {
    let mut bytes = [true; 256];
    let mut at = 0xf5;
    while at < 256 {
        bytes[at] = false;
        at += 1;
    }
    bytes[0xc0] = false;
    bytes[0xc1] = false;
    bytes
};

/// Whether each byte is a token under its `name`, `[256]`.
fn known_bytes(texts: &[Option<String>], name: impl Fn(u8) -> String) -> [bool; 256] {
    let known: HashSet<&str> = texts.iter().flatten().map(String::as_str).filter(|t| t.len() <= 6).collect();
    let mut bytes = [false; 256];
    for (byte, is_known) in (0..=255).zip(&mut bytes) {
        *is_known = known.contains(name(byte).as_str());
    }
    bytes
}

/// Collects the token ids of a text, and enforces the limit.
struct TokenCollector<'a> {
    tokenizer: &'a Tokenizer,
    special: Special,
    limit: &'a TokenLimit<'a>,
    tokens: Vec<u32>,
}

impl TokenSink for TokenCollector<'_> {
    fn put(&mut self, id: u32) -> Result<(), EncodeError> {
        let all = self.tokenizer;
        if all.is_spelled(id, self.special) {
            all.spell(id, &mut self.tokens).map_err(|e| EncodeError::Failed(e.to_string()))?;
        } else {
            self.tokens.push(id);
        }
        let count = self.tokens.len();
        if count > self.limit.max_tokens {
            return Err(EncodeError::TooMany { at_least: count, worked: count });
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), EncodeError> {
        if (self.limit.should_stop)() {
            Err(EncodeError::Stopped { worked: self.tokens.len() })
        } else {
            Ok(())
        }
    }
}

/// The error of a missing tokenizer.json; `only_model` if there is a SentencePiece file.
fn missing_json(only_model: bool) -> Error {
    if only_model {
        Error::OnlySentencePiece
    } else {
        Error::Missing { what: "vocabulary", key: "tokenizer.json" }
    }
}

/// Runs library code on an untrusted file, and turns panics into errors: the library reads some tables (a normalizer's
/// character map) without validating them.
fn guarded<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|_| Err(Error::Encode("the tokenizer's tables are broken".into())))
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("tokens", &self.texts.len())
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

mod packed;
pub use packed::{PackedTokenizer, TokenizerCache, TokenizerCacheReport};

mod parts;
#[cfg(test)]
mod tests;
