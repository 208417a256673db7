//! The pre-tokenizers of `tokenizer.ggml.pre`: how each family splits text into words before BPE merges.
//!
//! A GGUF has only the name. The patterns are from each family's published `tokenizer.json`; names share patterns as in
//! llama.cpp's `llama-vocab.cpp`.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::Error;

/// The normalization and pre-tokenization of a family with byte-level BPE.
pub(super) struct PreTokenizerConfig {
    /// Whether text is NFC-normalized first.
    nfc: bool,
    steps: &'static [Step],
    /// Whether a word that is a token skips the merges.
    pub(super) ignore_merges: bool,
    /// Whether BOS is added if the file does not say.
    pub(super) add_bos: bool,
}

#[derive(Clone, Copy)]
enum Step {
    /// Splits before and after each match.
    Split(&'static str),
    /// Splits off each digit.
    Digits,
    /// Splits off runs of digits.
    DigitRuns,
    /// Splits off runs of punctuation.
    Punctuation,
    /// Splits by GPT-2's pattern, then maps bytes to characters.
    Gpt2,
    /// Maps bytes to characters.
    Bytes,
}

use Step::{Bytes, DigitRuns, Gpt2, Split as Cut};

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const KANA_HAN: &str = r"[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+";
const CJK: &str = r"[\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+";
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+";
const DEEPSEEK_MARKS: &str =
    r"\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+";
const BLOOM: &str = r" ?[^(\s|[.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c}])]+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const SEED: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
const MINICPM5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const OLD_DEFAULT_MARKS: &str = r"[\p{P}\$\+<=>\^~\|]+";

/// `(names, composed form, steps, ignore_merges, add_bos)`.
type Row = (&'static [&'static str], bool, &'static [Step], bool, bool);

const TABLE: &[Row] = &[
    (
        &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "exaone4",
            "jais",
            "trillion",
            "granite-docling",
        ],
        false,
        &[Gpt2],
        false,
        false,
    ),
    (&["mpt", "olmo"], true, &[Gpt2], false, false),
    (
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        false,
        &[Cut(LLAMA3), Bytes],
        true,
        true,
    ),
    (&["dbrx", "smaug-bpe", "chatglm-bpe"], false, &[Cut(LLAMA3), Bytes], false, false),
    (&["glm4", "glm5"], false, &[Cut(LLAMA3), Bytes], true, false),
    (&["qwen2", "megrez"], true, &[Cut(QWEN2), Bytes], false, false),
    (
        &["deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "grok-2"],
        false,
        &[Cut(QWEN2), Bytes],
        false,
        false,
    ),
    (&["qwen35"], false, &[Cut(QWEN35), Bytes], false, false),
    (
        &["smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"],
        false,
        &[Step::Digits, Gpt2],
        false,
        false,
    ),
    (&["command-r"], true, &[Step::Digits, Gpt2], false, false),
    (&["tekken"], false, &[Cut(TEKKEN), Bytes], true, true),
    (&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], false, &[Cut(O200K), Bytes], false, false),
    (&["tiny_aya", "cohere2moe"], false, &[Cut(r"\d{1,3}(?=(?:\d{3})*\b)"), Cut(O200K), Bytes], false, false),
    (&["falcon"], false, &[Step::Punctuation, Gpt2, DigitRuns, Cut("[0-9][0-9][0-9]")], false, false),
    (
        &["deepseek-llm"],
        false,
        &[
            Cut("[\r\n]"),
            Cut(DEEPSEEK_LETTERS),
            Cut(DEEPSEEK_MARKS),
            Cut(r"\s+$"),
            Cut(CJK),
            Step::Digits,
            Bytes,
        ],
        false,
        false,
    ),
    (
        &["deepseek-coder"],
        false,
        &[Cut("[\r\n]"), Cut(r"\s?\p{L}+"), Cut(r"\s?\p{P}+"), Cut(CJK), Step::Digits, Bytes],
        false,
        false,
    ),
    (
        &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        false,
        &[Cut(r"\p{N}{1,3}"), Cut(KANA_HAN), Cut(DEEPSEEK3), Bytes],
        false,
        false,
    ),
    (&["poro-chat", "bloom", "gpt3-finnish"], false, &[Cut(BLOOM), Bytes], false, false),
    (&["viking"], false, &[Cut(BLOOM), Step::Digits, Bytes], false, false),
    (&["bailingmoe", "bailingmoe2", "llada-moe"], false, &[Cut(BAILING), Bytes], false, false),
    (&["seed-coder"], false, &[Cut(SEED), Bytes], false, false),
    (&["exaone-moe"], false, &[Cut(EXAONE_MOE), Bytes], false, false),
    (&["minicpm5"], false, &[Cut(r"\p{N}{1,3}"), Cut(MINICPM5), Bytes], true, false),
    (&["laguna"], false, &[Cut(r"[^\n]+|[\n]+"), Cut(QWEN2), Bytes], false, false),
    // Files from before the key existed, as in llama.cpp.
    (&["default"], false, &[Cut(OLD_DEFAULT_MARKS), Gpt2, DigitRuns, Cut("[0-9][0-9][0-9]")], false, false),
];

/// The pre-tokenizer of a name.
///
/// # Errors
/// An unknown name; the error lists the known ones.
pub(super) fn pre_tokenizer_config(name: &str) -> Result<PreTokenizerConfig, Error> {
    let name = if name.is_empty() { "default" } else { name };
    match TABLE.iter().find(|row| row.0.contains(&name)) {
        Some((_, nfc, steps, ignore_merges, add_bos)) => {
            Ok(PreTokenizerConfig { nfc: *nfc, steps, ignore_merges: *ignore_merges, add_bos: *add_bos })
        }
        None => {
            let supported: Vec<&str> = TABLE.iter().flat_map(|row| row.0).copied().collect();
            let (value, supported) = (name.to_owned(), supported.join(", "));
            Err(Error::Unsupported { what: "tokenizer.ggml.pre", value, supported })
        }
    }
}

impl PreTokenizerConfig {
    /// The normalizer and pre-tokenizer.
    pub(super) fn build(&self) -> Result<(Option<NormalizerWrapper>, PreTokenizerWrapper), Error> {
        let steps = self.steps.iter().map(|step| step.build()).collect::<Result<Vec<_>, _>>()?;
        Ok((self.nfc.then_some(NormalizerWrapper::NFC(NFC)), Sequence::new(steps).into()))
    }
}

impl Step {
    fn build(self) -> Result<PreTokenizerWrapper, Error> {
        Ok(match self {
            Cut(pattern) => {
                Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false)
                    .map_err(|e| Error::malformed("the pattern of tokenizer.ggml.pre", e))?
                    .into()
            }
            Step::Digits => Digits::new(true).into(),
            DigitRuns => Digits::new(false).into(),
            Step::Punctuation => Punctuation::new(SplitDelimiterBehavior::Contiguous).into(),
            Gpt2 => ByteLevel::new(false, true, true).into(),
            Bytes => ByteLevel::new(false, true, false).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{TABLE, pre_tokenizer_config};

    #[test]
    fn each_name_stands_once_and_builds() {
        let mut seen = std::collections::HashSet::new();
        for name in TABLE.iter().flat_map(|row| row.0) {
            assert!(seen.insert(name), "{name} stands twice");
            pre_tokenizer_config(name).and_then(|config| config.build()).expect("builds");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known() {
        let error = pre_tokenizer_config("martian").err().expect("unknown").to_string();
        assert!(
            error.contains("martian") && error.contains("llama-bpe") && error.contains("qwen2"),
            "{error}"
        );
    }
}
