//! Reads a model's hyperparameters from GGUF metadata or from a Hugging Face `config.json` through one interface.
//!
//! A GGUF has a typed key/value map (`{architecture}.{key}`), a Hugging Face folder a `config.json`, in its older
//! spelling (`rope_theta`, `rope_scaling`, `torch_dtype`) and the newer one (`rope_parameters`,
//! `layer_types`). What all decoders share is read here; a family's file reads its differences.

mod defaults;
mod dimensions;
mod lists;
mod mixture;
mod recurrent;
mod rope;
mod windows;

use crate::error::Error;
use crate::name_table::Names;
use crate::spec::{
    Biases, Direction, Layer, LayerFactors, LmHead, NormKind, NormPlace, Positions, Prediction, QkNorm, Spec,
};
use crate::tensors;
use crate::weight_role::WeightRole;
use kernels::{Activation, Pairing};
use serde_json::{Map, Value};
use weights::{Metadata, Opened, gguf};

pub(crate) use defaults::Defaults;
pub(crate) use mixture::EXPERT_WIDTH;
pub(crate) use rope::ORIGINAL;

/// A key in its two spellings: that of a GGUF without the architecture, and those of `config.json`, of which the first
/// that is present counts.
#[derive(Clone, Copy)]
pub(crate) struct Key(pub(crate) &'static str, pub(crate) &'static [&'static str]);

const LAYERS: Key = Key("block_count", &["num_hidden_layers"]);
const WIDTH: Key = Key("embedding_length", &["hidden_size"]);
const CONTEXT: Key = Key("context_length", &["max_position_embeddings"]);
const HEADS: Key = Key("attention.head_count", &["num_attention_heads"]);
const HEAD_DIM: Key = Key("attention.key_length", &["head_dim"]);
const VALUE_DIM: Key = Key("attention.value_length", &["head_dim"]);
const FEED: Key = Key("feed_forward_length", &["intermediate_size"]);
/// The embedding of a decoder in a Hugging Face folder, after the prefix.
const EMBEDDINGS: [&str; 2] = ["embed_tokens.weight", "embeddings.weight"];
pub(crate) const HIDDEN_ACT: Key = Key("", &["hidden_act"]);
pub(crate) const WINDOW: Key = Key("attention.sliding_window", &["sliding_window"]);

/// The value of a key that is only compared with its neutral value.
pub(crate) enum RawValue {
    Flag(bool),
    Number(f64),
    Other(String),
}

/// The metadata of an opened model file, in either format.
pub struct Source<'a> {
    opened: &'a Opened,
    form: Format<'a>,
}

enum Format<'a> {
    Gguf { architecture: String },
    HuggingFace { config: &'a Map<String, Value>, text: Option<&'a Map<String, Value>> },
}

impl<'a> Source<'a> {
    /// Reads the metadata of either format.
    ///
    /// # Errors
    /// The file does not name its architecture.
    pub fn new(opened: &'a Opened) -> Result<Self, Error> {
        let form = match opened.metadata() {
            Metadata::Gguf(keys) => {
                let name =
                    keys.get_str("general.architecture").ok_or_else(|| missing("general.architecture"))?;
                Format::Gguf { architecture: name.to_owned() }
            }
            Metadata::HuggingFace(folder) => {
                let config = folder.config.as_object().ok_or_else(|| missing("config.json"))?;
                Format::HuggingFace { config, text: config.get("text_config").and_then(Value::as_object) }
            }
        };
        Ok(Source { opened, form })
    }

    /// Whether the file is a GGUF.
    #[must_use]
    pub fn is_gguf(&self) -> bool {
        matches!(self.form, Format::Gguf { .. })
    }

    /// The names that the file gives its architecture: one for a GGUF; `architectures` for a Hugging Face
    /// folder, and `model_type` where that list is empty or the model has a text model inside.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match &self.form {
            Format::Gguf { architecture } => vec![architecture],
            Format::HuggingFace { config, text } => {
                let listed = config.get("architectures").and_then(Value::as_array).into_iter().flatten();
                let mut names: Vec<&str> = listed.filter_map(Value::as_str).collect();
                // The class decides, not `model_type`: `LlamaForSequenceClassification` has `llama` too. A multimodal
                // model has its own class around a text model that may be supported.
                if names.is_empty() || text.is_some() {
                    names.extend(config.get("model_type").and_then(Value::as_str));
                    names.extend(text.and_then(|t| t.get("model_type")).and_then(Value::as_str));
                }
                names
            }
        }
    }

    /// The first of `architectures` in `config.json`.
    pub(crate) fn class(&self) -> Option<&'a str> {
        self.config()?.get("architectures")?.as_array()?.first()?.as_str()
    }

    /// The rows of a tensor, if the file holds it.
    pub(crate) fn rows(&self, tensor: &str) -> Option<usize> {
        self.opened.info(tensor)?.shape.first().copied()
    }

    /// Whether the file holds a tensor of this name.
    #[must_use]
    pub fn has(&self, tensor: &str) -> bool {
        self.opened.info(tensor).is_some()
    }

    /// The spec with the defaults that most decoders share, for the family to complete: pre-norms, no sliding window, a
    /// gated SiLU feed-forward, rope over halves of a head.
    pub(crate) fn decoder(&self, family: &'static str, defaults: &Defaults) -> Result<Spec, Error> {
        let lm_head = match self.class() {
            Some(class) if class.ends_with("Model") || class.ends_with("Classification") => LmHead::None,
            _ if self.tied(defaults.tied)? => LmHead::Tied,
            _ => LmHead::Own,
        };
        let mut spec =
            self.transformer(family, self.vocabulary(&self.embedding_name())?, lm_head, defaults)?;
        spec.ropes = vec![self.rope(spec.head_dim, defaults)?];
        Ok(spec)
    }

    /// The spec with the defaults that most encoders share, which are those of BERT: post-norms with biases, no gate, the
    /// exact GELU, learned positions, no output head unless the file is a masked language model's.
    pub(crate) fn encoder(
        &self,
        family: &'static str,
        names: &'static Names,
        defaults: &Defaults,
    ) -> Result<Spec, Error> {
        let embedding = match self.is_gguf() {
            true => self.embedding_name(),
            false => names.tensor(&|name| self.has(name), names.embedding),
        };
        // Directories of sentence-transformers name this class too, although the head is not there.
        let masked = self.masked_lm(names);
        let lm_head = if masked { LmHead::Tied } else { LmHead::None };
        let defaults = Defaults { norm: NormKind::Layer, eps: defaults.eps.or(Some(1e-12)), ..*defaults };
        let mut spec = self.transformer(family, self.vocabulary(&embedding)?, lm_head, &defaults)?;
        spec.names = Some(names);
        spec.direction = Direction::Bidirectional;
        spec.norm_place = NormPlace::Post;
        spec.embedding_norm = true;
        spec.final_norm = false;
        spec.gated = false;
        spec.activation = self.activation(HIDDEN_ACT)?.unwrap_or(Activation::Gelu);
        spec.biases = Biases { qkv: true, out: true, feed: true, down: true, head: masked };
        spec.layers.iter_mut().for_each(|layer| layer.rope = None);
        spec.token_types = self.token_types(names)?;
        Ok(spec)
    }

    /// Whether the file has the head of a masked language model.
    pub(crate) fn masked_lm(&self, names: &Names) -> bool {
        self.class().is_some_and(|class| class.ends_with("ForMaskedLM")) && self.has(names.masked_lm_bias)
    }

    /// Rows of the token type embedding: those of the tensor, none if there is none.
    fn token_types(&self, names: &Names) -> Result<usize, Error> {
        let name = match self.is_gguf() {
            true => Some("token_types.weight".to_owned()),
            false => names
                .top
                .iter()
                .find(|(role, _)| *role == WeightRole::TokenType)
                .map(|(_, stem)| names.tensor(&|name| self.has(name), stem)),
        };
        Ok(name.and_then(|name| self.rows(&name)).unwrap_or(0))
    }

    /// The positions of a learned embedding, of which the first `first` rows are no positions. A GGUF leaves those out.
    pub(crate) fn learned(&self, spec: &mut Spec, first: usize) -> Result<(), Error> {
        let first = if self.is_gguf() { 0 } else { first };
        let rows = match self.is_gguf() {
            true => self.rows("position_embd.weight").ok_or_else(|| missing("position_embd.weight"))?,
            false => self.need(CONTEXT, None)?,
        };
        spec.context = rows.saturating_sub(first).max(1);
        spec.positions = Positions::Learned { rows, first };
        Ok(())
    }

    /// Turns queries and keys of all layers by one rotary table.
    pub(crate) fn rotate(&self, spec: &mut Spec, defaults: &Defaults) -> Result<(), Error> {
        spec.ropes = vec![self.rope(spec.head_dim, defaults)?];
        spec.layers.iter_mut().for_each(|layer| layer.rope = Some(0));
        Ok(())
    }

    fn layer_count(&self, defaults: &Defaults) -> Result<usize, Error> {
        let layers = self.need(LAYERS, defaults.layers)?;
        if layers <= 4096 { Ok(layers) } else { Err(self.bad(LAYERS, layers, "at most 4096".into())) }
    }

    fn transformer(
        &self,
        family: &'static str,
        vocab: usize,
        lm_head: LmHead,
        defaults: &Defaults,
    ) -> Result<Spec, Error> {
        let width = self.need(WIDTH, defaults.width)?;
        let heads = self.need(HEADS, defaults.heads)?;
        let kv_heads = self.kv_heads(heads, defaults)?;
        let head_dim = self.size(HEAD_DIM)?.or(defaults.head_dim).unwrap_or(width / heads.max(1));
        let value_dim = self.size(VALUE_DIM)?.unwrap_or(head_dim);
        if value_dim != head_dim && !defaults.latent {
            return Err(self.bad(VALUE_DIM, value_dim, format!("the key heads' {head_dim}")));
        }
        let layers = self.layer_count(defaults)?;
        Ok(Spec {
            family,
            vocab,
            width,
            context: self.need(CONTEXT, defaults.context)?,
            heads,
            kv_heads,
            head_dim,
            layers: self.feeds(layers, defaults)?.into_iter().map(Layer::attention).collect(),
            norm: self.norm(defaults)?,
            norm_place: NormPlace::Pre,
            embedding_norm: false,
            final_norm: true,
            parallel: false,
            qk_norm: QkNorm::None,
            value_norm: false,
            per_layer_width: 0,
            per_layer_vocab: vocab,
            alt_up: None,
            layer_scale: false,
            query_temperature: None,
            attention_gate: false,
            prediction: Prediction::LeftOut(0),
            sinks: false,
            biases: Biases::default(),
            activation: self.activation(HIDDEN_ACT)?.unwrap_or(Activation::Silu),
            gated: true,
            pairing: Pairing::Halves,
            ropes: Vec::new(),
            direction: Direction::Causal,
            positions: Positions::Rope,
            token_types: 0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            attention_soft_cap: None,
            logit_soft_cap: None,
            factors: LayerFactors::ONE,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            lm_head,
            encoder: None,
            names: None,
        })
    }

    /// The biases of attention and feed-forward that a GGUF has, by the tensors of a layer that has both.
    pub(crate) fn biases(&self, layer: usize) -> Biases {
        let has = |part: &str| self.has(&format!("blk.{layer}.{part}.bias"));
        Biases {
            qkv: has("attn_q") || has("attn_qkv"),
            out: has("attn_output"),
            feed: has("ffn_up"),
            ..Biases::default()
        }
    }

    fn embedding_name(&self) -> String {
        if self.is_gguf() {
            return "token_embd.weight".to_owned();
        }
        let prefix = self.prefix();
        let mut names = EMBEDDINGS.iter().map(|name| format!("{prefix}{name}"));
        names.find(|name| self.has(name)).unwrap_or_else(|| format!("{prefix}{}", EMBEDDINGS[0]))
    }

    fn vocabulary(&self, embedding: &str) -> Result<usize, Error> {
        let embedding = tensors::tensor(self.opened, embedding)?;
        // Converters drop unused embedding rows, or pad them: the tensor's shape counts, not the metadata.
        Ok(embedding.shape.first().copied().unwrap_or(0))
    }

    /// The prefix of the embedding and of `layers.0.…` in a Hugging Face folder.
    pub(crate) fn prefix(&self) -> &'static str {
        const PREFIXES: [&str; 5] =
            ["model.", "language_model.model.", "model.language_model.", "backbone.", ""];
        let has = |p: &&str| EMBEDDINGS.iter().any(|name| self.has(&format!("{p}{name}")));
        PREFIXES.into_iter().find(has).unwrap_or("model.")
    }

    /// The name of the untied head in this file.
    pub(crate) fn head_name(&self) -> &'static str {
        match self.form {
            Format::Gguf { .. } => "output.weight",
            Format::HuggingFace { .. } if self.has("language_model.lm_head.weight") => {
                "language_model.lm_head.weight"
            }
            Format::HuggingFace { .. } => "lm_head.weight",
        }
    }

    fn tied(&self, default: bool) -> Result<bool, Error> {
        Ok(match self.form {
            Format::Gguf { .. } => !self.has("output.weight"),
            Format::HuggingFace { .. } => match self.flag(Key("", &["tie_word_embeddings"]))? {
                Some(declared) => declared,
                None => default || !self.has(self.head_name()),
            },
        })
    }

    /// An integer, if the file has the key.
    pub(crate) fn size(&self, key: Key) -> Result<Option<usize>, Error> {
        let Some(number) = self.number(key)? else { return Ok(None) };
        if number.fract() != 0.0 || !(0.0..=1e15).contains(&number) {
            return Err(self.bad(key, number, "a whole number".into()));
        }
        Ok(Some(number as usize))
    }

    /// An integer that the file must have, unless the family has a default.
    pub(crate) fn need(&self, key: Key, default: Option<usize>) -> Result<usize, Error> {
        self.size(key)?.or(default).ok_or_else(|| missing(&self.spelled(key)))
    }

    /// A float, if the file has the key.
    pub(crate) fn float(&self, key: Key) -> Result<Option<f32>, Error> {
        Ok(self.number(key)?.map(|n| n as f32))
    }

    /// A boolean, if the file has the key.
    pub(crate) fn flag(&self, key: Key) -> Result<Option<bool>, Error> {
        match (&self.form, self.opened.metadata()) {
            (Format::Gguf { .. }, Metadata::Gguf(keys)) => match keys.get(&self.spelled(key)) {
                None => Ok(None),
                Some(gguf::Value::Bool(value)) => Ok(Some(*value)),
                Some(value) => Err(self.bad(key, value.type_name(), "true or false".into())),
            },
            _ => match self.value(key.1) {
                None => Ok(None),
                Some(v) => v.as_bool().map(Some).ok_or_else(|| self.bad(key, v, "true or false".into())),
            },
        }
    }

    /// A string, if the file has the key.
    pub(crate) fn text(&self, key: Key) -> Result<Option<&str>, Error> {
        match (&self.form, self.opened.metadata()) {
            (Format::Gguf { .. }, Metadata::Gguf(keys)) => match keys.get(&self.spelled(key)) {
                None => Ok(None),
                Some(gguf::Value::String(text)) => Ok(Some(text)),
                Some(value) => Err(self.bad(key, value.type_name(), "a text".into())),
            },
            _ => match self.value(key.1) {
                None => Ok(None),
                Some(v) => v.as_str().map(Some).ok_or_else(|| self.bad(key, v, "a text".into())),
            },
        }
    }

    /// Whether `config.json` has the key with the value null, which some classes read as "off" instead of the default.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        let Format::HuggingFace { config, text } = &self.form else { return false };
        let places = text.iter().copied().chain([*config]);
        places.filter_map(|map| map.get(name)).next().is_some_and(Value::is_null)
    }

    /// The feed-forward activation that `config.json` names, in transformers' spelling; `None` if it names none. A GGUF
    /// never does: its family decides.
    pub(crate) fn activation(&self, key: Key) -> Result<Option<Activation>, Error> {
        if self.is_gguf() {
            return Ok(None);
        }
        let Some(named) = self.text(key)? else { return Ok(None) };
        match named {
            "silu" | "swish" => Ok(Some(Activation::Silu)),
            "gelu" | "gelu_python" => Ok(Some(Activation::Gelu)),
            "gelu_new" | "gelu_fast" | "gelu_accurate" | "gelu_pytorch_tanh" | "gelu_python_tanh" => {
                Ok(Some(Activation::GeluTanh))
            }
            "relu" => Ok(Some(Activation::Relu)),
            "relu2" => Ok(Some(Activation::Relu2)),
            other => {
                Err(self.bad(key, other, "silu, gelu, gelu_new, gelu_pytorch_tanh, relu or relu2".into()))
            }
        }
    }

    /// The untyped value of a key; `None` if it is absent or null.
    pub(crate) fn raw(&self, key: Key) -> Option<RawValue> {
        match (&self.form, self.opened.metadata()) {
            (Format::Gguf { .. }, Metadata::Gguf(keys)) => {
                let value = keys.get(&self.spelled(key))?;
                Some(match value {
                    gguf::Value::Bool(flag) => RawValue::Flag(*flag),
                    gguf::Value::String(text) => RawValue::Other(text.clone()),
                    gguf::Value::Array(list) => RawValue::Other(format!("a list of {}", list.len())),
                    number => number.as_f64().map_or(RawValue::Other("a number".into()), RawValue::Number),
                })
            }
            _ => Some(match self.value(key.1)? {
                Value::Bool(flag) => RawValue::Flag(*flag),
                Value::Number(number) => RawValue::Number(number.as_f64().unwrap_or(f64::NAN)),
                other => RawValue::Other(other.to_string()),
            }),
        }
    }

    /// The opened model file.
    pub(crate) fn opened(&self) -> &'a Opened {
        self.opened
    }

    /// The `config.json` of a Hugging Face folder; `None` for a GGUF.
    pub(crate) fn config(&self) -> Option<&'a Map<String, Value>> {
        match &self.form {
            Format::HuggingFace { config, .. } => Some(config),
            Format::Gguf { .. } => None,
        }
    }

    fn number(&self, key: Key) -> Result<Option<f64>, Error> {
        match (&self.form, self.opened.metadata()) {
            (Format::Gguf { .. }, Metadata::Gguf(keys)) => {
                let name = self.spelled(key);
                match keys.get(&name) {
                    None => Ok(None),
                    Some(gguf::Value::Array(list)) => self.same_for_all(key, list).map(Some),
                    Some(value) => {
                        value.as_f64().map(Some).ok_or_else(|| self.bad(key, "no number", "a number".into()))
                    }
                }
            }
            _ => match self.value(key.1) {
                None => Ok(None),
                Some(v) => v.as_f64().map(Some).ok_or_else(|| self.bad(key, v, "a number".into())),
            },
        }
    }

    /// The number that a GGUF lists for each layer, if it is the same for all.
    fn same_for_all(&self, key: Key, list: &gguf::Array) -> Result<f64, Error> {
        let numbers: Vec<f64> = match list {
            gguf::Array::U32(list) => list.iter().map(|&n| f64::from(n)).collect(),
            gguf::Array::I32(list) => list.iter().map(|&n| f64::from(n)).collect(),
            _ => return Err(self.bad(key, "a list of another type", "a number".into())),
        };
        let differs = || self.bad(key, format!("{numbers:?}"), "the same number for all layers".into());
        let first = *numbers.first().ok_or_else(differs)?;
        if numbers.iter().all(|n| *n == first) { Ok(first) } else { Err(differs()) }
    }

    /// The first of `names` with a value that is not null, looked up in `text_config` first.
    fn value(&self, names: &[&str]) -> Option<&'a Value> {
        let Format::HuggingFace { config, text } = &self.form else { return None };
        let places = text.iter().copied().chain([*config]);
        places.flat_map(|map| names.iter().filter_map(|n| map.get(*n))).find(|v| !v.is_null())
    }

    fn spelled(&self, key: Key) -> String {
        match &self.form {
            Format::Gguf { architecture } => format!("{architecture}.{}", key.0),
            Format::HuggingFace { .. } => key.1.join(" or "),
        }
    }

    pub(crate) fn bad(&self, key: Key, value: impl ToString, expected: String) -> Error {
        Error::BadValue { key: self.spelled(key), value: value.to_string(), expected }
    }
}

pub(crate) fn missing(key: &str) -> Error {
    Error::MissingKey { key: key.to_owned() }
}
