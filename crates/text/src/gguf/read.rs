//! Reads and validates the vocabulary in GGUF metadata.

use std::collections::HashMap;

use weights::gguf::{Array, Metadata};

use crate::spec::MAX_TOKENS;
use crate::{Error, eog};

/// The type of a token (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// The values of `tokenizer.ggml.*`; all lists have the length of `tokens`, and all ids are below it.
#[derive(Clone, Debug)]
pub(crate) struct Vocabulary {
    pub(crate) model: String,
    pub(crate) pre: Option<String>,
    /// The text of each token, `[vocab]`; empty for an id without a token.
    pub(crate) tokens: Vec<String>,
    pub(crate) types: Vec<Type>,
    /// The score of each token, `[vocab]`; empty if the file has none.
    pub(crate) scores: Vec<f32>,
    pub(crate) merges: Vec<String>,
    pub(crate) charsmap: Option<Vec<u8>>,
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    pub(crate) unknown: Option<u32>,
    pub(crate) cls: Option<u32>,
    pub(crate) sep: Option<u32>,
    /// End of turn (`eot`) and end of message (`eom`).
    pub(crate) other_ends: Vec<u32>,
    pub(crate) add_bos: Option<bool>,
    pub(crate) add_eos: Option<bool>,
    pub(crate) add_sep: Option<bool>,
    pub(crate) add_space_prefix: Option<bool>,
    pub(crate) remove_extra_whitespaces: bool,
    pub(crate) lowercase: Option<bool>,
    pub(crate) strip_accents: Option<bool>,
    /// Whether spaces after control tokens are removed (Phi-3).
    pub(crate) strips_after_control: bool,
}

impl Vocabulary {
    /// Reads and checks the keys.
    ///
    /// # Errors
    /// A key that is missing, of the wrong type or out of range, by name.
    pub(crate) fn read(metadata: &Metadata) -> Result<Vocabulary, Error> {
        let keys = Keys(metadata);
        let tokens = keys.strings("tokens")?.unwrap_or_default();
        let size = tokens.len();
        if size == 0 {
            return Err(Error::Missing { what: "vocabulary", key: "tokenizer.ggml.tokens" });
        }
        let id = |key: &'static str| keys.id(key, size);
        let model =
            keys.text("model")?.ok_or(Error::Missing { what: "model", key: "tokenizer.ggml.model" })?;
        let is_spm = model == "llama";
        let mut other_ends: Vec<u32> = Vec::new();
        for key in ["eot_token_id", "eom_token_id"] {
            other_ends.extend(id(key)?);
        }
        let name = metadata.get_str("general.name").unwrap_or_default().to_lowercase();
        let vocabulary = Vocabulary {
            pre: keys.text("pre")?,
            types: keys.types(size)?,
            scores: keys.scores()?,
            merges: keys.strings("merges")?.unwrap_or_default(),
            charsmap: keys.bytes("precompiled_charsmap")?,
            // SentencePiece files may leave BOS, EOS and unknown at their usual ids.
            bos: id("bos_token_id")?.or((is_spm && size > 1).then_some(1)),
            eos: id("eos_token_id")?.or((is_spm && size > 2).then_some(2)),
            unknown: id("unknown_token_id")?.or((is_spm && size > 0).then_some(0)),
            cls: id("cls_token_id")?,
            sep: id("seperator_token_id")?,
            other_ends,
            add_bos: keys.flag("add_bos_token")?,
            add_eos: keys.flag("add_eos_token")?,
            add_sep: keys.flag("add_sep_token")?,
            add_space_prefix: keys.flag("add_space_prefix")?,
            remove_extra_whitespaces: keys.flag("remove_extra_whitespaces")?.unwrap_or(false),
            lowercase: keys.flag("normalizer.lowercase")?,
            strip_accents: keys.flag("normalizer.strip_accents")?,
            strips_after_control: is_spm && (name.contains("phi-3") || name.contains("phi3")),
            tokens,
            model,
        };
        vocabulary.check()?;
        Ok(vocabulary)
    }

    /// Refuses lists of another length than `tokens`, duplicate tokens and too many tokens.
    pub(super) fn check(&self) -> Result<(), Error> {
        let size = self.tokens.len();
        if size > MAX_TOKENS {
            let (size, limit) = (size as u64, MAX_TOKENS as u64);
            return Err(Error::TooLarge { what: "the number of tokens", size, limit });
        }
        let lengths = [("token_type", self.types.len(), false), ("scores", self.scores.len(), true)];
        for (key, len, optional) in lengths {
            if len < size && !(optional && len == 0) {
                let problem = format!("{len} values for {size} tokens");
                return Err(Error::malformed(format!("tokenizer.ggml.{key}"), problem));
            }
        }
        let mut seen: HashMap<&str, usize> = HashMap::with_capacity(size);
        for (id, text) in self.tokens.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            if let Some(first) = seen.insert(text, id) {
                let (first, second) = (format!("id {first}"), format!("id {id}"));
                return Err(Error::Duplicate { what: "token", value: format!("{text:?}"), first, second });
            }
        }
        Ok(())
    }

    /// The tokens of the given types, as `(id, text)`.
    pub(super) fn of_type<'a>(&'a self, types: &'a [Type]) -> impl Iterator<Item = (u32, &'a str)> + 'a {
        let all = self.tokens.iter().zip(&self.types).zip(0..);
        let wanted = all.filter(|((text, kind), _)| types.contains(kind) && !text.is_empty());
        wanted.map(|((text, _), id)| (id, text.as_str()))
    }

    /// Marks EOG tokens as control tokens if the file lists them as normal ones, so that text cannot produce them.
    /// Names that could be ordinary words (`</s>`) count only if the file names them as an end.
    pub(super) fn mark_ends(&mut self) {
        let all = self.tokens.iter().zip(0..).map(|(text, id)| (id, text.as_str()));
        let mut found = eog::find(all, &[]);
        found.retain(|id| ["<|", "<｜"].iter().any(|start| self.tokens[*id as usize].starts_with(start)));
        found.extend([self.bos, self.eos].into_iter().flatten().chain(self.other_ends.iter().copied()));
        for id in found {
            let kind = &mut self.types[id as usize];
            if matches!(kind, Type::Normal | Type::UserDefined) {
                *kind = Type::Control;
            }
        }
    }

    /// The scores, which must be present and finite.
    pub(super) fn finite_scores(&self) -> Result<Vec<f32>, Error> {
        if self.scores.is_empty() {
            return Err(Error::Missing { what: "scores", key: "tokenizer.ggml.scores" });
        }
        match self.scores.iter().position(|score| !score.is_finite()) {
            Some(at) => Err(Error::malformed(
                format!("tokenizer.ggml.scores[{at}]"),
                format!("{} is no score", self.scores[at]),
            )),
            None => Ok(self.scores.clone()),
        }
    }
}

/// Typed access to the keys below `tokenizer.ggml.`.
struct Keys<'a>(&'a Metadata);

impl Keys<'_> {
    fn wrong(key: &str, expected: &str) -> Error {
        Error::malformed(format!("tokenizer.ggml.{key}"), format!("is not {expected}"))
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let full = format!("tokenizer.ggml.{key}");
        match self.0.get(&full) {
            None => Ok(None),
            Some(_) => read(&full).map(Some).ok_or_else(|| Keys::wrong(key, expected)),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>, Error> {
        self.typed(key, "a text", |key| self.0.get_str(key).map(str::to_owned))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "true or false", |key| self.0.get_bool(key))
    }

    fn strings(&self, key: &str) -> Result<Option<Vec<String>>, Error> {
        self.typed(key, "a list of texts", |key| self.0.get_strings(key).map(<[String]>::to_vec))
    }

    /// A token id, which must be below `size`; the largest 32-bit number means none.
    fn id(&self, key: &'static str, size: usize) -> Result<Option<u32>, Error> {
        let id = self.typed(key, "a token id", |key| {
            let none = self.0.get_i64(key) == Some(-1);
            if none { Some(u64::from(u32::MAX)) } else { self.0.get_u64(key) }
        })?;
        match id.filter(|id| *id != u64::from(u32::MAX)) {
            None => Ok(None),
            Some(id) if id < size as u64 => Ok(u32::try_from(id).ok()),
            Some(id) => Err(Error::OutOfRange { what: format!("tokenizer.ggml.{key}"), id, size }),
        }
    }

    fn types(&self, size: usize) -> Result<Vec<Type>, Error> {
        let types = self.typed("token_type", "a list of numbers", |key| self.0.get_integers(key))?;
        let Some(types) = types else { return Ok(vec![Type::Normal; size]) };
        let kind = |number: i64| match number {
            2 => Type::Unknown,
            3 => Type::Control,
            4 => Type::UserDefined,
            5 => Type::Unused,
            6 => Type::Byte,
            _ => Type::Normal,
        };
        Ok(types.into_iter().map(kind).collect())
    }

    fn scores(&self) -> Result<Vec<f32>, Error> {
        let read = |key: &str| match self.0.get_array(key)? {
            Array::F32(scores) => Some(scores.clone()),
            Array::I32(scores) => Some(scores.iter().map(|score| *score as f32).collect()),
            _ => None,
        };
        Ok(self.typed("scores", "a list of numbers", read)?.unwrap_or_default())
    }

    fn bytes(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.typed(key, "a list of bytes", |key| match self.0.get_array(key)? {
            Array::U8(bytes) => Some(bytes.clone()),
            Array::I8(bytes) => Some(bytes.iter().map(|byte| *byte as u8).collect()),
            _ => None,
        })
    }
}
