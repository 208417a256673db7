//! Builds a tokenizer from GGUF metadata.

use std::collections::HashMap;

use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::{BertNormalizer, Precompiled, Prepend, Sequence, Strip};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use super::Vocabulary;
use super::pre::pre_tokenizer_config;
use super::read::Type;
use crate::Error;
use crate::layout::Layout;
use crate::pipeline::{PipelineParts, SharedModel};
use crate::spec::TokenizerSpec;
use crate::spm::{Spm, SpmPieces};
use crate::token_bytes::{DecoderKind, LeadingSpace, byte_piece};

/// The supported values of `tokenizer.ggml.model`.
const MODELS: [&str; 5] = ["gpt2", "llama", "gemma4", "t5", "bert"];

/// The parts of a tokenizer that depend on the kind of vocabulary.
struct Core {
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    model: SharedModel,
    decoder_kind: DecoderKind,
    before: Vec<u32>,
    after: Vec<u32>,
}

/// Builds the tokenizer of a vocabulary.
pub(crate) fn load(mut vocabulary: Vocabulary) -> Result<TokenizerSpec, Error> {
    vocabulary.mark_ends();
    let core = match vocabulary.model.as_str() {
        "gpt2" => byte_level(&vocabulary),
        "llama" => sentencepiece(&vocabulary),
        "gemma4" => marked_merges(&vocabulary),
        "t5" => unigram(&vocabulary),
        "bert" => wordpiece(&mut vocabulary),
        other => Err(Error::Unsupported {
            what: "tokenizer.ggml.model",
            value: other.to_owned(),
            supported: MODELS.join(", "),
        }),
    }?;
    let layout = layout(&vocabulary, &core);
    let special: Vec<u32> = vocabulary.of_type(&[Type::Control, Type::Unknown]).map(|(id, _)| id).collect();
    let added = added(&vocabulary);
    let remarks = remarks(&vocabulary);
    let ends = vocabulary.eos.into_iter().chain(vocabulary.other_ends.iter().copied()).collect();
    Ok(TokenizerSpec {
        parts: PipelineParts {
            normalizer: core.normalizer,
            pre_tokenizer: core.pre_tokenizer,
            model: core.model,
            added,
        },
        decoder_kind: core.decoder_kind,
        special,
        around: (core.before, core.after),
        layout: Some(layout),
        trimmer: None,
        bos: vocabulary.bos,
        eos: vocabulary.eos,
        ends,
        unknown: vocabulary.unknown,
        remarks,
        texts: vocabulary.tokens.into_iter().map(|text| Some(text).filter(|text| !text.is_empty())).collect(),
    })
}

/// The layout of texts and pairs: RoBERTa and XLM-R put a separator after the end of the first text (`</s></s>`), BERT
/// has token types.
fn layout(vocabulary: &Vocabulary, core: &Core) -> Layout {
    let doubles = match vocabulary.model.as_str() {
        "bert" => false,
        "t5" => !core.before.is_empty(),
        _ => matches!(vocabulary.pre.as_deref(), Some("roberta-bpe" | "jina-v1-en" | "jina-v2-code")),
    };
    let is_bert = vocabulary.model == "bert";
    let doubles = !is_bert && vocabulary.add_sep.unwrap_or(doubles);
    let separator = vocabulary.sep.or(vocabulary.eos).filter(|_| doubles);
    Layout::around(&core.before, &core.after, separator, is_bert)
}

/// Warnings about the file.
fn remarks(vocabulary: &Vocabulary) -> Vec<String> {
    let needs_pre = vocabulary.model == "gpt2" && vocabulary.pre.as_deref().unwrap_or_default().is_empty();
    let remark = "tokenizer.ggml.pre is missing: texts are cut as llama.cpp cuts them then, which may not be how this model was \
                  trained; files of newer converters name it";
    needs_pre.then(|| remark.to_owned()).into_iter().collect()
}

/// The added tokens, which are matched in text before the model runs.
fn added(vocabulary: &Vocabulary) -> Vec<(u32, AddedToken)> {
    let tokens = vocabulary.of_type(&[Type::Control, Type::Unknown, Type::UserDefined]);
    tokens
        .map(|(id, text)| {
            let special = vocabulary.types[id as usize] != Type::UserDefined;
            // Phi-3's tokenizer.json strips spaces after its control tokens; a GGUF cannot say so.
            let keeps_spaces = ["<unk>", "<s>", "<|endoftext|>"].contains(&text);
            let rstrip = vocabulary.strips_after_control && !keeps_spaces;
            (id, AddedToken::from(text, special).normalized(false).rstrip(rstrip))
        })
        .collect()
}

/// The tokens that are added before and after a text, by the file's flags or the defaults of the kind.
fn around(vocabulary: &Vocabulary, add_bos: bool, add_eos: bool) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let one = |yes: bool, id: Option<u32>, key: &'static str| match (yes, id) {
        (false, _) => Ok(Vec::new()),
        (true, Some(id)) => Ok(vec![id]),
        (true, None) => Err(Error::Missing { what: "token to put around a text", key }),
    };
    let before = one(vocabulary.add_bos.unwrap_or(add_bos), vocabulary.bos, "tokenizer.ggml.bos_token_id")?;
    let after = one(vocabulary.add_eos.unwrap_or(add_eos), vocabulary.eos, "tokenizer.ggml.eos_token_id")?;
    Ok((before, after))
}

fn merges(vocabulary: &Vocabulary) -> Result<Vec<(String, String)>, Error> {
    if vocabulary.merges.is_empty() {
        return Err(Error::Missing { what: "merges", key: "tokenizer.ggml.merges" });
    }
    let pair = |(rank, merge): (usize, &String)| {
        // The first character may be a space itself.
        let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
        let halves = at.map(|at| (merge[..at].to_owned(), merge[at + 1..].to_owned()));
        halves.filter(|(_, right)| !right.is_empty()).ok_or_else(|| {
            Error::malformed(format!("tokenizer.ggml.merges[{rank}]"), format!("{merge:?} is not two pieces"))
        })
    };
    vocabulary.merges.iter().enumerate().map(pair).collect()
}

fn ids(vocabulary: &Vocabulary) -> impl Iterator<Item = (String, u32)> + '_ {
    let all = vocabulary.tokens.iter().zip(0..).filter(|(text, _)| !text.is_empty());
    all.map(|(text, id)| (text.clone(), id))
}

fn byte_level(vocabulary: &Vocabulary) -> Result<Core, Error> {
    let config = pre_tokenizer_config(vocabulary.pre.as_deref().unwrap_or_default())?;
    let (normalizer, pre_tokenizer) = config.build()?;
    let words: HashMap<String, u32> = ids(vocabulary).collect();
    let builder = BPE::builder().ignore_merges(config.ignore_merges);
    let bpe = builder
        .vocab_and_merges(words.into_iter().collect::<tokenizers::models::bpe::Vocab>(), merges(vocabulary)?);
    let bpe = bpe.build().map_err(|e| Error::malformed("tokenizer.ggml.merges", e))?;
    let (before, after) = around(vocabulary, config.add_bos, false)?;
    let (model, decoder_kind) = (SharedModel::new(bpe.into()), DecoderKind::ByteLevel);
    Ok(Core { normalizer, pre_tokenizer: Some(pre_tokenizer), model, decoder_kind, before, after })
}

fn marked(prefix: bool) -> DecoderKind {
    DecoderKind::Metaspace {
        space: '▁',
        lead: if prefix { LeadingSpace::StripOne } else { LeadingSpace::Keep },
        bytes: true,
    }
}

fn replace(pattern: ReplacePattern, by: &str) -> Result<NormalizerWrapper, Error> {
    Replace::new(pattern, by).map(Into::into).map_err(|e| Error::malformed("the normalizer", e))
}

fn squeeze() -> Result<[NormalizerWrapper; 2], Error> {
    Ok([Strip::new(true, true).into(), replace(ReplacePattern::Regex(" {2,}".into()), " ")?])
}

fn sentencepiece(vocabulary: &Vocabulary) -> Result<Core, Error> {
    let mut pieces = HashMap::new();
    let mut control = HashMap::new();
    let mut bytes = vec![None; 256];
    for (text, id) in ids(vocabulary) {
        match vocabulary.types[id as usize] {
            Type::Control | Type::Unknown => control.insert(text.into_boxed_str(), id),
            Type::Byte => {
                let byte = byte_piece(&text).ok_or_else(|| {
                    Error::malformed(format!("byte token {id}"), format!("{text:?} names no byte"))
                })?;
                bytes[usize::from(byte)] = Some(id);
                control.insert(text.into_boxed_str(), id)
            }
            Type::Normal | Type::UserDefined | Type::Unused => pieces.insert(text.into_boxed_str(), id),
        };
    }
    let scores = vocabulary.finite_scores()?;
    let prefix = vocabulary.add_space_prefix.unwrap_or(true);
    let mut steps = Vec::new();
    if vocabulary.remove_extra_whitespaces {
        steps.extend(squeeze()?);
    }
    if prefix {
        steps.push(Prepend::new("▁".into()).into());
    }
    steps.push(replace(ReplacePattern::String(" ".into()), "▁")?);
    let (before, after) = around(vocabulary, true, false)?;
    let size = pieces.len() + control.len();
    let pieces = SpmPieces::Map(pieces, scores);
    let model = SharedModel::spm(Spm::new(pieces, control, bytes, vocabulary.unknown, size));
    let normalizer = Some(Sequence::new(steps).into());
    Ok(Core { normalizer, pre_tokenizer: None, model, decoder_kind: marked(prefix), before, after })
}

/// Gemma 4: SentencePiece's `▁` spelling with a list of merges.
fn marked_merges(vocabulary: &Vocabulary) -> Result<Core, Error> {
    let words: tokenizers::models::bpe::Vocab = ids(vocabulary).collect();
    let mut bpe =
        BPE::builder().vocab_and_merges(words, merges(vocabulary)?).fuse_unk(true).byte_fallback(true);
    if let Some(unknown) = vocabulary.unknown {
        bpe = bpe.unk_token(vocabulary.tokens[unknown as usize].clone());
    }
    let bpe = bpe.build().map_err(|e| Error::malformed("tokenizer.ggml.merges", e))?;
    let cut = Split::new(SplitPattern::String(" ".into()), SplitDelimiterBehavior::MergedWithPrevious, false)
        .map_err(|e| Error::malformed("the pre-tokenizer", e))?;
    let normalizer = Some(replace(ReplacePattern::String(" ".into()), "▁")?);
    let before = vocabulary.bos.into_iter().collect();
    let (_, after) = around(vocabulary, false, false)?;
    let model = SharedModel::new(bpe.into());
    Ok(Core {
        normalizer,
        pre_tokenizer: Some(cut.into()),
        model,
        decoder_kind: marked(false),
        before,
        after,
    })
}

fn unigram(vocabulary: &Vocabulary) -> Result<Core, Error> {
    let scores = vocabulary.finite_scores()?;
    let pieces = vocabulary.tokens.iter().zip(&scores).enumerate().map(|(id, (text, score))| {
        // The library's trie cannot hold an empty piece, and would match control tokens in plain text.
        let hidden = text.is_empty() || matches!(vocabulary.types[id], Type::Control | Type::Unknown);
        let text = if hidden { format!("\u{10ffff}{id}\u{10ffff}") } else { text.clone() };
        (text, f64::from(*score))
    });
    let control =
        vocabulary.of_type(&[Type::Control, Type::Unknown]).map(|(id, text)| (text.to_owned(), id)).collect();
    let has_bytes = vocabulary.types.contains(&Type::Byte);
    let unknown = vocabulary.unknown.map(|id| id as usize);
    let model = Unigram::from(pieces.collect(), unknown, has_bytes);
    let model = model.map_err(|e| Error::malformed("tokenizer.ggml.tokens", e))?;
    let mut steps = Vec::new();
    if let Some(map) = &vocabulary.charsmap {
        let map =
            Precompiled::from(map).map_err(|e| Error::malformed("tokenizer.ggml.precompiled_charsmap", e))?;
        steps.push(map.into());
    }
    if vocabulary.remove_extra_whitespaces {
        steps.extend(squeeze()?);
    }
    let prefix = vocabulary.add_space_prefix.unwrap_or(true);
    let scheme = if prefix { PrependScheme::Always } else { PrependScheme::Never };
    let lead = if prefix { LeadingSpace::StripFirstToken } else { LeadingSpace::Keep };
    // Of this kind, only encoders (XLM-R) have a separator; they begin texts with BOS.
    let (before, after) = around(vocabulary, vocabulary.sep.is_some(), true)?;
    Ok(Core {
        normalizer: (!steps.is_empty()).then(|| Sequence::new(steps).into()),
        pre_tokenizer: Some(Metaspace::new('▁', scheme, true).into()),
        model: SharedModel::with_control(ModelWrapper::Unigram(model), control),
        decoder_kind: DecoderKind::Metaspace { space: '▁', lead, bytes: has_bytes },
        before,
        after,
    })
}

/// BERT. GGUF files spell a piece that begins a word `▁word` and one that continues it `ing`; this restores `##ing`.
fn wordpiece(vocabulary: &mut Vocabulary) -> Result<Core, Error> {
    for (text, kind) in vocabulary.tokens.iter_mut().zip(&vocabulary.types) {
        if matches!(kind, Type::Normal | Type::Unused) && !text.is_empty() {
            *text = text.strip_prefix('▁').map_or_else(|| format!("##{text}"), str::to_owned);
        }
    }
    let unknown = vocabulary.unknown.unwrap_or(100);
    let unknown_text = vocabulary.tokens.get(unknown as usize).cloned().unwrap_or_default();
    vocabulary.unknown = Some(unknown);
    let words: tokenizers::models::bpe::Vocab = ids(vocabulary).collect();
    if words.len() != vocabulary.tokens.iter().filter(|text| !text.is_empty()).count() {
        return Err(Error::malformed("tokenizer.ggml.tokens", "two pieces are the same"));
    }
    let model = WordPiece::builder().vocab(words).unk_token(unknown_text).max_input_chars_per_word(100);
    let model = model.build().map_err(|e| Error::malformed("tokenizer.ggml.tokens", e))?;
    let named = |id: Option<u32>, default: u32| id.unwrap_or(default);
    let before = vec![named(vocabulary.cls.or(vocabulary.bos), 101)];
    let after = vec![named(vocabulary.sep.or(vocabulary.eos), 102)];
    let lower = vocabulary.lowercase.unwrap_or(true);
    Ok(Core {
        normalizer: Some(BertNormalizer::new(true, true, vocabulary.strip_accents, lower).into()),
        pre_tokenizer: Some(BertPreTokenizer.into()),
        model: SharedModel::new(ModelWrapper::WordPiece(model)),
        decoder_kind: DecoderKind::WordPiece { prefix: "##".into(), cleanup: true },
        // As in llama.cpp whatever the flags say: converters write `add_sep_token` false, which is of pairs.
        before,
        after,
    })
}
