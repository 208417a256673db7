//! Packed tokenizers: a file of tables beside the packed weights, from which a tokenizer is ready in about a millisecond.
//!
//! What takes time of a vocabulary is building maps of its strings. The tables (`crate::tables`) are read in place
//! instead, and patterns are compiled when a text first needs them. The file is as untrusted as a vocabulary: its index is
//! checked as one, and tables may hold any bytes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokenizers::processors::PostProcessorWrapper;
use weights::opened::Opened;
use weights::packed::{self, BundleKind, Problem};

use super::{Bound, Tokenizer};
use crate::layout::{Frame, Layout};
use crate::names::SpecialTokenNames;
use crate::pack_model::pack_model;
use crate::packed_model::{ModelIndex, ModelIndexKind, PackedModel};
use crate::pipeline::{LazyPipelines, PipelineIndex, SharedModel};
use crate::safe_cuts::SafeCuts;
use crate::spec::MAX_TOKENS;
use crate::spm::{Spm, SpmPieces};
use crate::tables::{SpanPlaces, Spans, Table, TableBytes, TablePlace, TableWriter, Trie};
use crate::token_bytes::{DecoderKind, TokenBytes};
use crate::token_texts::TokenTexts;
use crate::word_encoder::WordEncoder;
use crate::{Error, bounds};

/// Raised when the tables or the index change.
const VERSION: u32 = 1;
/// The file of a packed tokenizer; the largest vocabularies in use take some 30 MB.
const KIND: BundleKind = BundleKind { magic: *b"GRISTTOK", max_bytes: 1 << 30 };

/// Where a packed tokenizer is kept, and of what.
#[derive(Clone, Debug)]
pub struct TokenizerCache {
    /// The path of the file.
    pub path: PathBuf,
    /// What the tokenizer was made of: a digest of the model's files.
    pub key: String,
    /// Whether the file is mapped instead of read into memory.
    pub mapped: bool,
}

/// What happened to a packed tokenizer while a tokenizer was loaded.
#[derive(Debug, Default)]
pub struct TokenizerCacheReport {
    /// Whether the tokenizer came from the file.
    pub used: bool,
    /// The file that was written, and its length in bytes.
    pub written: Option<(PathBuf, u64)>,
    /// Why the file did not match, was damaged, or could not be written.
    pub errors: Vec<packed::Error>,
}

/// A tokenizer as tables.
#[derive(Clone, Debug)]
pub struct PackedTokenizer {
    /// What is not a table, as JSON.
    pub index: Vec<u8>,
    /// The tables.
    pub data: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    version: u32,
    key: String,
    /// The highest id plus one.
    vocab: usize,
    pipeline: PipelineIndex,
    model: ModelIndex,
    /// Control tokens that the model does not make of text.
    control: Vec<(String, u32)>,
    texts: SpanPlaces,
    present: TablePlace,
    pieces: SpanPlaces,
    decoder_kind: DecoderKind,
    special: Vec<u32>,
    around: (Vec<u32>, Vec<u32>),
    layout: Option<Layout>,
    trimmer: Option<PostProcessorWrapper>,
    /// Whether texts are tokenized word by word.
    words: bool,
    /// The longest token, and the bytes that are tokens.
    bound: Option<(usize, Vec<u8>)>,
    bos: Option<u32>,
    eos: Option<u32>,
    ends: Vec<u32>,
    unknown: Option<u32>,
    remarks: Vec<String>,
}

impl Tokenizer {
    /// As [`Tokenizer::open`], from the packed file if there is one that matches; otherwise writes it.
    ///
    /// # Errors
    /// As [`Tokenizer::open`]. A packed file that does not match or cannot be written is not an error.
    pub fn open_cached(
        opened: &Opened,
        cache: &TokenizerCache,
    ) -> Result<(Tokenizer, TokenizerCacheReport), Error> {
        let mut report = TokenizerCacheReport::default();
        let wrong = |problem| packed::Error { path: cache.path.clone(), problem };
        let found = packed::open_bundle(&cache.path, KIND, cache.mapped).and_then(|bundle| {
            let Some(bundle) = bundle else { return Ok(None) };
            let read = super::guarded(|| Tokenizer::read(&bundle.index, &cache.key, Arc::new(bundle.data)));
            read.map(Some).map_err(|error| wrong(Problem::Content(error.to_string())))
        });
        match found {
            Ok(Some(tokenizer)) => {
                report.used = true;
                return Ok((tokenizer, report));
            }
            Ok(None) => {}
            Err(error) => report.errors.push(error),
        }
        let tokenizer = Tokenizer::open(opened)?;
        if let (Some(packed), Some(model)) = (tokenizer.to_packed(&cache.key), opened.first_file()) {
            match packed::write_bundle(&cache.path, model, KIND, &packed.index, &packed.data) {
                Ok(bytes) => report.written = Some((cache.path.clone(), bytes)),
                Err(error) => report.errors.push(error),
            }
        }
        Ok((tokenizer, report))
    }

    /// The tokenizer as tables; `None` if its model is of a kind that is not packed.
    pub fn to_packed(&self, key: &str) -> Option<PackedTokenizer> {
        if !self.packs {
            return None;
        }
        let mut out = TableWriter::default();
        let vocab = self.vocab_size();
        let ids = 0..u32::try_from(vocab).ok()?;
        let (model, control) = pack_model(&self.pipelines.model, self.unknown, &mut out)?;
        let text = |id| self.texts.get(id).unwrap_or_default().as_bytes();
        let texts = Spans::write(ids.clone().map(text), &mut out)?;
        let present: Vec<u8> = ids.clone().map(|id| u8::from(self.texts.get(id).is_some())).collect();
        let pieces = ids.clone().map(|id| self.pieces.get(id).unwrap_or_default());
        let pieces = Spans::write(pieces, &mut out)?;
        let known = |bound: &Bound| (0..=255).filter(|byte| bound.known[usize::from(*byte)]).collect();
        let index = Index {
            version: VERSION,
            key: key.to_owned(),
            vocab,
            pipeline: self.pipelines.index.clone(),
            model,
            control,
            texts,
            present: out.put(&present),
            pieces,
            decoder_kind: self.pieces.decoder_kind().clone(),
            special: ids.filter(|id| self.is_special(*id)).collect(),
            around: (self.prefix.clone(), self.suffix.clone()),
            layout: self.layout.clone(),
            trimmer: self.trimmer.clone(),
            words: self.words.is_some(),
            bound: self.bound.as_ref().map(|bound| (bound.longest, known(bound))),
            bos: self.bos,
            eos: self.eos,
            ends: self.ends.clone(),
            unknown: self.unknown,
            remarks: self.remarks.clone(),
        };
        Some(PackedTokenizer { index: serde_json::to_vec(&index).ok()?, data: out.into_data() })
    }

    /// The tokenizer of tables that were packed under `key`.
    ///
    /// # Errors
    /// Tables or an index that are not a tokenizer's.
    pub fn from_packed(packed: PackedTokenizer, key: &str) -> Result<Tokenizer, Error> {
        super::guarded(|| Tokenizer::read(&packed.index, key, Arc::new(packed.data.into())))
    }

    fn read(index: &[u8], key: &str, data: TableBytes) -> Result<Tokenizer, Error> {
        const WHAT: &str = "the packed tokenizer";
        let broken = |what: &str| Error::malformed(WHAT, format!("its {what} is not one"));
        let index: Index = serde_json::from_slice(index).map_err(|error| Error::malformed(WHAT, error))?;
        index.check(key)?;
        let vocab = index.vocab;
        let model = shared_model(&index, &data).ok_or_else(|| broken("model"))?;
        let spans = |places| Spans::open(&data, places, vocab).ok_or_else(|| broken("vocabulary"));
        let present = Table::new(&data, index.present, vocab).ok_or_else(|| broken("vocabulary"))?;
        let texts = TokenTexts::Packed { spans: spans(&index.texts)?, present };
        let pieces = TokenBytes::packed(index.decoder_kind, spans(&index.pieces)?);
        let mut special = vec![false; vocab];
        for id in &index.special {
            *special.get_mut(*id as usize).ok_or_else(|| broken("list of control tokens"))? = true;
        }
        let names = SpecialTokenNames::new(index.special.iter().filter_map(|id| texts.get(*id)))?;
        let words = if index.words { WordEncoder::new(&index.pipeline, &model, true) } else { None };
        let bound = index.bound.map(|(longest, bytes)| {
            let mut known = [false; 256];
            bytes.into_iter().for_each(|byte| known[usize::from(byte)] = true);
            Bound { longest: longest.max(1), known }
        });
        Ok(Tokenizer {
            bound: bound.filter(|_| words.is_some()),
            words,
            safe_cuts: SafeCuts::of(&index.pipeline),
            pipelines: LazyPipelines::new(index.pipeline, model),
            pieces,
            texts,
            special,
            names,
            prefix: index.around.0,
            suffix: index.around.1,
            layout: index.layout,
            trimmer: index.trimmer,
            packs: true,
            bos: index.bos,
            eos: index.eos,
            ends: index.ends,
            unknown: index.unknown,
            remarks: index.remarks,
        })
    }
}

impl Index {
    /// Checks what a vocabulary's file is checked for.
    fn check(&self, key: &str) -> Result<(), Error> {
        let other = |problem: String| Err(Error::malformed("the packed tokenizer", problem));
        if self.version != VERSION {
            return other(format!("it is of version {}, this program's is {VERSION}", self.version));
        }
        if self.key != key {
            return other("it was made of other files than the model's".into());
        }
        let (size, limit) = (self.vocab as u64, MAX_TOKENS as u64);
        if size > limit {
            return Err(Error::TooLarge { what: "the number of tokens", size, limit });
        }
        let frames =
            self.layout.iter().flat_map(|layout| std::iter::once(&layout.single).chain(&layout.pair));
        let marks =
            |frame: &Frame| [frame.before.clone(), frame.between.clone(), frame.after.clone()].concat();
        let of_layout = frames.flat_map(marks).map(|mark| mark.id);
        let around = self.around.0.iter().chain(&self.around.1).copied().chain(of_layout);
        let (mut count, mut beyond) = (0, None);
        for id in around.chain([self.bos, self.eos, self.unknown].into_iter().flatten()) {
            count += 1;
            beyond = beyond.or((id as usize >= self.vocab).then_some(id));
        }
        if let Some(id) = beyond {
            let what = "a token of the packed tokenizer".into();
            return Err(Error::OutOfRange { what, id: u64::from(id), size: self.vocab });
        }
        if count > 8 * bounds::MAX_AROUND {
            return other(format!("it puts {count} tokens around texts"));
        }
        bounds::check_added(self.pipeline.added.iter().map(|(_, token)| token.content.as_str()))?;
        self.pipeline.normalizer.as_ref().map_or(Ok(()), bounds::check_normalizer)?;
        match self.model.kind {
            ModelIndexKind::WordPiece { max_chars, .. } => bounds::check_word(max_chars),
            _ => Ok(()),
        }
    }
}

/// The model of an index.
fn shared_model(index: &Index, data: &TableBytes) -> Option<SharedModel> {
    let control = || index.control.iter().cloned();
    let ModelIndexKind::Spm { scores, bytes, unknown } = &index.model.kind else {
        let model = PackedModel::open(data, &index.model, index.vocab)?;
        return Some(SharedModel::packed(model, control().collect::<HashMap<_, _>>()));
    };
    let within = |id: &u32| (*id as usize) < index.vocab;
    let pieces = Trie::open(data, &index.model.pieces, index.vocab)?;
    let pieces = SpmPieces::Packed(pieces, Table::any(data, *scores)?);
    let control = control().map(|(text, id)| (text.into_boxed_str(), id)).collect();
    let bytes = bytes.iter().map(|id| id.filter(within)).collect();
    Some(SharedModel::spm(Spm::new(pieces, control, bytes, unknown.filter(within), index.model.size)))
}
