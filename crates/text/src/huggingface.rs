//! Loads tokenizers from `tokenizer.json` and the configuration files of its directory.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::normalizers::{Lowercase, Sequence};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{
    AddedToken, Model as _, ModelWrapper, NormalizerWrapper, PostProcessor as _, PreTokenizerWrapper,
};

use crate::Error;
use crate::bounds;
use crate::config_files::ConfigFiles;
use crate::layout::{Layout, trimmer};
use crate::pipeline::{PipelineParts, SharedModel};
use crate::spec::{MAX_TOKENS, TokenizerSpec};
use crate::token_bytes::{DecoderKind, LeadingSpace};
use crate::vocab_txt;

/// The largest `tokenizer.json`, in bytes; Gemma's has 33 million.
const MAX_BYTES: u64 = 512 << 20;
/// The deepest nesting of brackets; real files have at most ten levels.
const MAX_DEPTH: usize = 64;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Option<Value>,
    #[serde(default)]
    pre_tokenizer: Option<Value>,
    #[serde(default)]
    post_processor: Option<PostProcessorWrapper>,
    #[serde(default)]
    decoder: Option<Value>,
    model: ModelWrapper,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

/// Reads a `tokenizer.json` and the configuration files of `folder`.
pub(crate) fn open(json: &Path, folder: &Path) -> Result<TokenizerSpec, Error> {
    let side = |name: &str| -> Result<Option<Value>, Error> {
        let path = folder.join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = read_limited(&path)?;
        serde_json::from_slice(&bytes).map(Some).map_err(|e| Error::malformed(name, e))
    };
    let configs = ConfigFiles {
        tokenizer_config: side("tokenizer_config.json")?,
        generation_config: side("generation_config.json")?,
        config: side("config.json")?,
        special_tokens_map: side("special_tokens_map.json")?,
        sentence_bert_config: side("sentence_bert_config.json")?,
    };
    let vocab = folder.join("vocab.txt");
    if !json.is_file() && vocab.is_file() {
        return read_vocab_txt(&read_limited(&vocab)?, &configs);
    }
    read(&read_limited(json)?, &configs)
}

/// Parses BERT's `vocab.txt`.
pub(crate) fn read_vocab_txt(vocab: &[u8], configs: &ConfigFiles) -> Result<TokenizerSpec, Error> {
    let json = vocab_txt::tokenizer_json(vocab, configs)?;
    read(json.to_string().as_bytes(), configs)
}

fn read_limited(path: &Path) -> Result<Vec<u8>, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(io)?.len();
    if size > MAX_BYTES {
        return Err(Error::TooLarge { what: "the tokenizer file in bytes", size, limit: MAX_BYTES });
    }
    std::fs::read(path).map_err(io)
}

/// Parses a `tokenizer.json`.
pub(crate) fn read(bytes: &[u8], configs: &ConfigFiles) -> Result<TokenizerSpec, Error> {
    shallow(bytes)?;
    prefixed_merges(bytes)?;
    let file: File = serde_json::from_slice(bytes).map_err(|e| Error::malformed("tokenizer.json", e))?;
    let (normalizer, pre_tokenizer) = bounded(&file, configs)?;
    let decoder_kind = decoder_kind(file.decoder.as_ref())?;
    let texts = texts(&file)?;
    let added: Vec<(u32, AddedToken)> = file.added_tokens.into_iter().map(|a| (a.id, a.token)).collect();
    let special: Vec<u32> = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
    let model = SharedModel::new(file.model);
    let id_of = |text: &str| {
        let added = added.iter().find(|(_, token)| token.content == text).map(|(id, _)| *id);
        added.or_else(|| model.token_to_id(text))
    };
    let named = |key: &str| {
        let config = configs.tokenizer_config.as_ref()?;
        let token = config.get(key)?;
        id_of(token.as_str().or_else(|| token.get("content")?.as_str())?)
    };
    let unknown = match model.unknown() {
        Some(text) => id_of(&text),
        None => unigram_unknown(bytes),
    };
    let (bos, eos) = (named("bos_token"), named("eos_token"));
    let mut ends: Vec<u32> = eos.into_iter().collect();
    for config in [&configs.generation_config, &configs.config].into_iter().flatten() {
        ends.extend(ids(config.get("eos_token_id")));
    }
    let layout =
        Layout::of_processor(file.post_processor.as_ref()).ok().map(|layout| match configs.has_types() {
            true => layout,
            false => layout.without_types(),
        });
    let trimmer = trimmer(file.post_processor.clone());
    let around = around(file.post_processor)?;
    let parts = PipelineParts { normalizer, pre_tokenizer, model, added };
    Ok(TokenizerSpec {
        parts,
        decoder_kind,
        texts,
        special,
        around,
        layout,
        trimmer,
        bos,
        eos,
        ends,
        unknown,
        remarks: Vec::new(),
    })
}

/// The normalizer and pre-tokenizer, after checking that they cannot blow up a text (see [`crate::bounds`]).
fn bounded(
    file: &File,
    configs: &ConfigFiles,
) -> Result<(Option<NormalizerWrapper>, Option<PreTokenizerWrapper>), Error> {
    fn read<T: serde::de::DeserializeOwned>(what: &str, step: &Value) -> Result<Option<T>, Error> {
        serde_json::from_value(step.clone()).map_err(|e| Error::malformed(what.to_owned(), e))
    }
    bounds::check_added(file.added_tokens.iter().map(|added| added.token.content.as_str()))?;
    bounds::check_model(&file.model)?;
    let (mut normalizer, mut pre_tokenizer) = (None, None);
    if let Some(step) = &file.normalizer {
        bounds::check_normalizer(step)?;
        normalizer = read("normalizer", step)?.map(|step| configs.with_options(step));
    }
    if configs.lowercases() {
        normalizer = Some(lowercasing(normalizer));
    }
    if let Some(step) = &file.pre_tokenizer {
        bounds::check_pre_tokenizer(step)?;
        pre_tokenizer = read("pre_tokenizer", step)?;
    }
    Ok((normalizer, pre_tokenizer))
}

/// A normalizer that lowercases first, if the file's does not lowercase, as sentence-transformers does for
/// `do_lower_case`.
fn lowercasing(normalizer: Option<NormalizerWrapper>) -> NormalizerWrapper {
    let lower = || NormalizerWrapper::from(Lowercase);
    let is_lower = |step: &NormalizerWrapper| matches!(step, NormalizerWrapper::Lowercase(_));
    match normalizer {
        None => lower(),
        Some(step) if is_lower(&step) => step,
        Some(NormalizerWrapper::Sequence(steps)) if steps.as_ref().iter().any(is_lower) => steps.into(),
        Some(step) => Sequence::new(vec![lower(), step]).into(),
    }
}

/// Refuses merges whose right side lacks the continuing-subword prefix: tokenizers 0.22 strips the prefix's length
/// without checking, and panics. Found by fuzzing.
fn prefixed_merges(bytes: &[u8]) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct File<T> {
        model: T,
    }
    #[derive(Deserialize)]
    struct Prefix {
        #[serde(default)]
        continuing_subword_prefix: Option<String>,
    }
    #[derive(Deserialize)]
    struct Merges {
        #[serde(default)]
        merges: Vec<Value>,
    }
    let malformed = |e: serde_json::Error| Error::malformed("tokenizer.json", e);
    let file: File<Prefix> = serde_json::from_slice(bytes).map_err(malformed)?;
    let Some(prefix) = file.model.continuing_subword_prefix.filter(|prefix| !prefix.is_empty()) else {
        return Ok(());
    };
    let file: File<Merges> = serde_json::from_slice(bytes).map_err(malformed)?;
    for merge in &file.model.merges {
        let right = match merge {
            Value::String(pair) => pair.split_once(' ').map(|(_, right)| right),
            pair => pair.get(1).and_then(Value::as_str),
        };
        if !right.is_some_and(|right| right.starts_with(&prefix)) {
            let problem = format!("the merge {merge} does not continue with the prefix {prefix:?}");
            return Err(Error::Malformed { what: "model.merges".into(), problem });
        }
    }
    Ok(())
}

/// The unknown token of a unigram model, which the library does not expose.
fn unigram_unknown(bytes: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Outer {
        model: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        unk_id: Option<u32>,
    }
    serde_json::from_slice::<Outer>(bytes).ok()?.model.unk_id
}

/// One id or a list of them.
fn ids(value: Option<&Value>) -> Vec<u32> {
    let one = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(one).collect(),
        Some(value) => one(value).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Refuses JSON that is nested too deeply for recursive parsers.
fn shallow(bytes: &[u8]) -> Result<(), Error> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            let (size, limit) = (depth as u64, MAX_DEPTH as u64);
            return Err(Error::TooLarge { what: "the nesting of tokenizer.json", size, limit });
        }
    }
    Ok(())
}

/// The text of each token by id, `[vocab]`; fails on duplicates and on large gaps between ids.
fn texts(file: &File) -> Result<Vec<Option<String>>, Error> {
    let vocab = file.model.get_vocab();
    let count = vocab.len() + file.added_tokens.len();
    let added = file.added_tokens.iter().map(|added| (added.token.content.clone(), added.id));
    let mut texts: Vec<Option<String>> = Vec::with_capacity(count);
    for (text, id) in vocab.into_iter().chain(added) {
        let at = id as usize;
        if at >= MAX_TOKENS {
            return Err(Error::TooLarge {
                what: "the largest token id",
                size: at as u64,
                limit: MAX_TOKENS as u64,
            });
        }
        if at >= texts.len() {
            texts.resize(at + 1, None);
        }
        match &texts[at] {
            Some(first) if *first != text => {
                let (value, first) = (id.to_string(), format!("{first:?}"));
                return Err(Error::Duplicate { what: "token id", value, first, second: format!("{text:?}") });
            }
            _ => texts[at] = Some(text),
        }
    }
    if texts.is_empty() {
        return Err(Error::Missing { what: "vocabulary", key: "model.vocab" });
    }
    Ok(texts)
}

/// The tokens that the post-processor adds before and after a text.
fn around(processor: Option<PostProcessorWrapper>) -> Result<(Vec<u32>, Vec<u32>), Error> {
    const MARK: u32 = u32::MAX;
    let Some(processor) = processor else { return Ok((Vec::new(), Vec::new())) };
    let text = tokenizers::Encoding::from_tokens(vec![tokenizers::Token::new(MARK, "x".into(), (0, 1))], 0);
    let whole = processor.process(text, None, true).map_err(|e| Error::malformed("post_processor", e))?;
    let mut halves = whole.get_ids().split(|id| *id == MARK);
    let before = halves.next().unwrap_or_default().to_vec();
    let after = halves.next().unwrap_or_default().to_vec();
    let (size, limit) = ((before.len() + after.len()) as u64, bounds::MAX_AROUND as u64);
    if size > limit {
        return Err(Error::TooLarge { what: "the number of tokens around a text", size, limit });
    }
    Ok((before, after))
}

/// The decoder kind of a `decoder` section.
fn decoder_kind(decoder: Option<&Value>) -> Result<DecoderKind, Error> {
    let Some(decoder) = decoder.filter(|value| !value.is_null()) else { return Ok(DecoderKind::Words) };
    let flat = match decoder.get("decoders").and_then(Value::as_array) {
        Some(list) => list.iter().collect(),
        None => vec![decoder],
    };
    let kind = |step: &&Value| step.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let find = |name: &str| flat.iter().find(|step| kind(step) == name);
    if let Some(step) = flat.iter().find(|step| !KNOWN.contains(&kind(step).as_str())) {
        let supported = KNOWN.join(", ");
        return Err(Error::Unsupported { what: "the tokenizer's decoder", value: kind(step), supported });
    }
    let text = |step: &Value, key: &str| step.get(key).and_then(Value::as_str).map(str::to_owned);
    if find("ByteLevel").is_some() {
        return Ok(DecoderKind::ByteLevel);
    }
    if let Some(step) = find("WordPiece") {
        let cleanup = step.get("cleanup").and_then(Value::as_bool).unwrap_or(true);
        return Ok(DecoderKind::WordPiece {
            prefix: text(step, "prefix").unwrap_or_else(|| "##".into()),
            cleanup,
        });
    }
    if let Some(step) = find("BPEDecoder") {
        return Ok(DecoderKind::Suffixed(text(step, "suffix").unwrap_or_else(|| "</w>".into())));
    }
    let bytes = find("ByteFallback").is_some();
    if let Some(step) = find("Metaspace") {
        let space = text(step, "replacement").and_then(|text| text.chars().next()).unwrap_or('▁');
        let never = text(step, "prepend_scheme").as_deref() == Some("never")
            || step.get("add_prefix_space").and_then(Value::as_bool) == Some(false);
        return Ok(DecoderKind::Metaspace {
            space,
            lead: if never { LeadingSpace::Keep } else { LeadingSpace::StripFirstToken },
            bytes,
        });
    }
    let replaced =
        find("Replace").and_then(|step| step.get("pattern")?.get("String")?.as_str()?.chars().next());
    match replaced {
        Some(space) => {
            let lead = if find("Strip").is_some() { LeadingSpace::StripOne } else { LeadingSpace::Keep };
            Ok(DecoderKind::Metaspace { space, lead, bytes })
        }
        None if bytes => Ok(DecoderKind::Metaspace { space: '▁', lead: LeadingSpace::Keep, bytes }),
        None => Ok(DecoderKind::Verbatim),
    }
}

const KNOWN: [&str; 8] =
    ["ByteLevel", "WordPiece", "BPEDecoder", "Metaspace", "Replace", "ByteFallback", "Fuse", "Strip"];

#[cfg(test)]
mod tests {
    use super::{ConfigFiles, read};
    use serde_json::json;

    /// The interpreter of tokenizer.json panicked on the first of these.
    #[test]
    fn merges_must_continue_with_the_prefix() {
        let open = |prefix: &str, merges: serde_json::Value| {
            let vocab = json!({"a": 0, "b": 1, "ab": 2, "##b": 3});
            let model =
                json!({"type": "BPE", "continuing_subword_prefix": prefix, "vocab": vocab, "merges": merges});
            let file = json!({"version": "1.0", "added_tokens": [], "decoder": {"type": "ByteLevel",
                "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, "model": model});
            read(file.to_string().as_bytes(), &ConfigFiles::default()).map(|_| ()).map_err(|e| e.to_string())
        };
        for merges in [json!(["a b"]), json!([["a", "b"]])] {
            let message = open("##", merges.clone()).expect_err("is refused");
            assert!(message.contains("##") && message.contains('b'), "{message}");
            assert_eq!(open("", merges), Ok(()));
        }
        assert_eq!(open("##", json!(["a ##b"])), Ok(()));
    }
}
