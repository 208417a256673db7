//! Reads the rotary tables of a file: base, rotated dimensions and scaling.

use super::{CONTEXT, Defaults, Format, Key, Source, missing};
use crate::error::Error;
use crate::rope::{Rope, RopeScaling, long_mscale, yarn_mscale};
use crate::tensors;
use serde_json::{Map, Value};

/// The context of pretraining.
pub(crate) const ORIGINAL: Key =
    Key("rope.scaling.original_context_length", &["original_max_position_embeddings"]);
const FACTOR: Key = Key("rope.scaling.factor", &["factor"]);
const OLD_FACTOR: Key = Key("rope.scale_linear", &[]);
const BETA_FAST: Key = Key("rope.scaling.yarn_beta_fast", &["beta_fast"]);
const BETA_SLOW: Key = Key("rope.scaling.yarn_beta_slow", &["beta_slow"]);
const YARN_ATTENTION: Key = Key("rope.scaling.yarn_attn_factor", &[]);
const YARN_LOG: Key = Key("rope.scaling.yarn_log_multiplier", &[]);
const KIND: Key = Key("rope.scaling.type", &["rope_type"]);

impl Source<'_> {
    /// The rotary table of all layers, or of the global layers if there are local ones.
    pub(crate) fn rope(&self, head_dim: usize, defaults: &Defaults) -> Result<Rope, Error> {
        match self.form {
            Format::Gguf { .. } => self.gguf_rope(head_dim, defaults),
            Format::HuggingFace { .. } => self.hf_rope(head_dim, defaults, "full_attention"),
        }
    }

    /// The rotary table of sliding-window layers: another base, and no scaling (Gemma 3).
    pub(crate) fn local_rope(&self, head_dim: usize, base: f32) -> Result<Rope, Error> {
        let stored = self.float(Key("rope.freq_base_swa", &["rope_local_base_freq"]))?;
        let named = self.value(&["rope_parameters"]).and_then(|p| p.get("sliding_attention"));
        if stored.is_none() && named.is_some() {
            let defaults = Defaults { rope_base: base, ..Defaults::default() };
            return self.hf_rope(head_dim, &defaults, "sliding_attention");
        }
        let rotary_dim = self.size(Key("rope.dimension_count_swa", &[]))?.unwrap_or(head_dim);
        Ok(Rope { rotary_dim, base: stored.unwrap_or(base), scaling: RopeScaling::None })
    }

    /// ModernBERT's two tables: of global layers, and of local ones.
    pub(crate) fn modernbert_ropes(&self, head_dim: usize) -> Result<(Rope, Rope), Error> {
        const GLOBAL: Key = Key("rope.freq_base", &["global_rope_theta"]);
        const LOCAL: Key = Key("rope.freq_base_swa", &["local_rope_theta"]);
        let named = self.value(&["rope_parameters"]).and_then(Value::as_object);
        if named.is_some_and(|map| map.contains_key("full_attention")) {
            let with = |base, kind| {
                self.hf_rope(head_dim, &Defaults { rope_base: base, ..Defaults::default() }, kind)
            };
            return Ok((with(160_000.0, "full_attention")?, with(10_000.0, "sliding_attention")?));
        }
        let plain = |base| Rope { rotary_dim: head_dim, base, scaling: RopeScaling::None };
        let global = self.float(GLOBAL)?.unwrap_or(160_000.0);
        Ok((plain(global), plain(self.float(LOCAL)?.unwrap_or(10_000.0))))
    }

    fn gguf_rope(&self, head_dim: usize, defaults: &Defaults) -> Result<Rope, Error> {
        let rotary_dim = self.size(Key("rope.dimension_count", &[]))?.unwrap_or(head_dim);
        let base = self.float(Key("rope.freq_base", &[]))?.unwrap_or(defaults.rope_base);
        Ok(Rope { rotary_dim, base, scaling: self.gguf_scaling(rotary_dim)? })
    }

    fn gguf_scaling(&self, rotary_dim: usize) -> Result<RopeScaling, Error> {
        if let Some(factors) = self.factors("rope_freqs.weight", rotary_dim)? {
            return Ok(RopeScaling::Factors(factors));
        }
        let attention = self.float(Key("rope.scaling.attn_factor", &[]))?.unwrap_or(1.0);
        if let Some(long) = self.factors("rope_factors_long.weight", rotary_dim)? {
            let short = self.factors("rope_factors_short.weight", rotary_dim)?;
            let short = short.ok_or_else(|| missing("tensor rope_factors_short.weight"))?;
            let original = self.need(ORIGINAL, None)?;
            return Ok(RopeScaling::Long { short, long, original, mscale: attention });
        }
        let factor = self.float(FACTOR)?.or(self.float(OLD_FACTOR)?).unwrap_or(1.0);
        match self.text(KIND)?.unwrap_or("linear") {
            "yarn" => Ok(RopeScaling::Yarn {
                factor,
                original: self.need(ORIGINAL, None)?,
                beta_fast: self.float(BETA_FAST)?.unwrap_or(32.0),
                beta_slow: self.float(BETA_SLOW)?.unwrap_or(1.0),
                mscale: self.gguf_yarn_mscale(factor, attention)?,
                truncate: true,
            }),
            "linear" if factor != 1.0 => Ok(RopeScaling::Linear { factor }),
            "none" | "linear" | "longrope" => Ok(RopeScaling::None),
            other => Err(self.bad(KIND, other, "none, linear, yarn or longrope".into())),
        }
    }

    /// YaRN's factor on cos and sin in a GGUF.
    fn gguf_yarn_mscale(&self, factor: f32, attention: f32) -> Result<f32, Error> {
        // Converters write two keys of `config.json` here: `attention_factor`, which is this factor, and `attn_factor`,
        // a part of it that transformers and llama.cpp do not read. Only the latter is below 1.
        if let Some(given) = self.float(YARN_ATTENTION)?.filter(|given| *given >= 1.0) {
            return Ok(given);
        }
        let all = self.float(YARN_LOG)?.filter(|&all| all != 0.0);
        Ok(attention * yarn_mscale(factor, 1.0) / all.map_or(1.0, |all| yarn_mscale(factor, all)))
    }

    /// A number of `rope_parameters` (or the older `rope_scaling`) in `config.json`, or of `config.json` itself.
    pub(crate) fn rope_number(&self, name: &'static str) -> Result<Option<f64>, Error> {
        let own = self.value(&["rope_parameters", "rope_scaling"]).and_then(Value::as_object);
        Parameters { source: self, own, context: None }.number(name)
    }

    /// The context of pretraining by `config.json`; the whole context if it does not say.
    pub(crate) fn rope_original(&self) -> Result<usize, Error> {
        let own = self.value(&["rope_parameters", "rope_scaling"]).and_then(Value::as_object);
        Parameters { source: self, own, context: None }.original()
    }

    /// Rope factors stored as a tensor `[rotary_dim / 2]`.
    fn factors(&self, name: &str, rotary_dim: usize) -> Result<Option<Vec<f32>>, Error> {
        if !self.has(name) {
            return Ok(None);
        }
        let tensor = tensors::tensor(self.opened, name)?;
        let expected = vec![rotary_dim / 2];
        if tensor.shape != expected {
            return Err(Error::Shape { name: name.to_owned(), found: tensor.shape, expected });
        }
        tensors::floats(name, tensor.dtype, tensor.bytes).map(Some)
    }

    fn hf_rope(&self, head_dim: usize, defaults: &Defaults, layer_type: &str) -> Result<Rope, Error> {
        let key = Key("", &["rope_parameters", "rope_scaling"]);
        let stored = match self.value(key.1) {
            None => None,
            Some(value) => {
                Some(value.as_object().ok_or_else(|| self.bad(key, value, "an object".to_owned()))?)
            }
        };
        let own = stored.map(|p| p.get(layer_type).and_then(Value::as_object).unwrap_or(p));
        let params = Parameters { source: self, own, context: defaults.context };
        let partial = params.number("partial_rotary_factor")?.unwrap_or(defaults.partial_rotary);
        let rotary_dim = (head_dim as f64 * partial) as usize;
        let base = params.number("rope_theta")?.unwrap_or(f64::from(defaults.rope_base));
        if let Some(alpha) = params.alpha(defaults.ntk_alpha)? {
            let stretch = alpha.powf(rotary_dim as f64 / (rotary_dim as f64 - 2.0).max(1.0));
            return Ok(Rope { rotary_dim, base: (base * stretch) as f32, scaling: RopeScaling::None });
        }
        if params.kind()? == "proportional" {
            let factor = params.number("factor")?.unwrap_or(1.0);
            return Ok(Rope::proportional(head_dim, base as f32, partial, factor as f32));
        }
        Ok(Rope { rotary_dim, base: base as f32, scaling: params.scaling(rotary_dim)? })
    }
}

/// `rope_parameters` (or the older `rope_scaling`); keys that it lacks are looked up in `config.json` itself.
struct Parameters<'a> {
    source: &'a Source<'a>,
    own: Option<&'a Map<String, Value>>,
    context: Option<usize>,
}

impl Parameters<'_> {
    fn own(&self, name: &str) -> Option<&Value> {
        self.own.and_then(|map| map.get(name)).filter(|value| !value.is_null())
    }

    fn number(&self, name: &'static str) -> Result<Option<f64>, Error> {
        let Some(value) = self.own(name).or_else(|| self.source.value(&[name])) else { return Ok(None) };
        let wrong = || self.wrong(name, value.to_string(), "a number".into());
        value.as_f64().map(Some).ok_or_else(wrong)
    }

    fn required(&self, name: &'static str) -> Result<f32, Error> {
        Ok(self.number(name)?.ok_or_else(|| missing(name))? as f32)
    }

    fn wrong(&self, key: &str, value: String, expected: String) -> Error {
        Error::BadValue { key: key.to_owned(), value, expected }
    }

    /// The context of pretraining; the whole context if the file does not say. If both `config.json` itself and the
    /// rope parameters have it, the former counts, as in transformers.
    fn original(&self) -> Result<usize, Error> {
        if let Some(tokens) = self.source.size(ORIGINAL)? {
            return Ok(tokens);
        }
        match self.number("original_max_position_embeddings")? {
            Some(tokens) => Ok(tokens as usize),
            None => self.source.need(CONTEXT, self.context),
        }
    }

    /// The scaling factor: as written, or the context divided by that of pretraining.
    fn stretch(&self) -> Result<f64, Error> {
        match self.number("factor")? {
            Some(factor) => Ok(factor),
            None => Ok(self.source.need(CONTEXT, self.context)? as f64 / self.original()?.max(1) as f64),
        }
    }

    fn kind(&self) -> Result<&str, Error> {
        match self.own("rope_type").or_else(|| self.own("type")) {
            None => Ok("default"),
            Some(kind) => {
                kind.as_str().ok_or_else(|| self.wrong("rope_type", kind.to_string(), "a text".into()))
            }
        }
    }

    fn scaling(&self, rotary_dim: usize) -> Result<RopeScaling, Error> {
        match self.kind()? {
            "default" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor: self.required("factor")? }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: self.required("factor")?,
                low: self.required("low_freq_factor")?,
                high: self.required("high_freq_factor")?,
                original: self.original()?,
            }),
            // Phi-3's first configs call LongRoPE "su" or "yarn".
            "longrope" | "su" | "yarn" if self.own("long_factor").is_some() => self.long(rotary_dim),
            "yarn" => self.yarn(),
            other => Err(self.wrong(
                "rope_type",
                other.to_owned(),
                "default, linear, llama3, yarn, longrope or proportional".into(),
            )),
        }
    }

    /// The fixed `alpha` of NTK-aware scaling (Hunyuan), which stretches the base; its files call it "dynamic".
    fn alpha(&self, read: bool) -> Result<Option<f64>, Error> {
        let dynamic = self.own("rope_type").or_else(|| self.own("type")).and_then(Value::as_str);
        if !read || dynamic != Some("dynamic") {
            return Ok(None);
        }
        let Some(alpha) = self.own("alpha") else { return Ok(None) };
        let wrong = || self.wrong("alpha", alpha.to_string(), "a positive number".into());
        alpha.as_f64().filter(|alpha| *alpha > 0.0).ok_or_else(wrong).map(Some)
    }

    fn long(&self, rotary_dim: usize) -> Result<RopeScaling, Error> {
        let original = self.original()?;
        let mscale = match self.number("attention_factor")? {
            Some(given) => given as f32,
            None => long_mscale(self.stretch()?, original),
        };
        let (short, long) = (self.list("short_factor", rotary_dim)?, self.list("long_factor", rotary_dim)?);
        Ok(RopeScaling::Long { short, long, original, mscale })
    }

    fn yarn(&self) -> Result<RopeScaling, Error> {
        let factor = self.stretch()? as f32;
        let weight = |name| Ok::<_, Error>(self.number(name)?.filter(|&w| w != 0.0));
        let mscale = match (self.number("attention_factor")?, weight("mscale")?, weight("mscale_all_dim")?) {
            (Some(given), _, _) => given as f32,
            (None, Some(own), Some(all)) => yarn_mscale(factor, own as f32) / yarn_mscale(factor, all as f32),
            (None, _, _) => yarn_mscale(factor, 1.0),
        };
        Ok(RopeScaling::Yarn {
            factor,
            original: self.original()?,
            beta_fast: self.number("beta_fast")?.unwrap_or(32.0) as f32,
            beta_slow: self.number("beta_slow")?.unwrap_or(1.0) as f32,
            mscale,
            truncate: match self.own("truncate") {
                None => true,
                Some(value) => value
                    .as_bool()
                    .ok_or_else(|| self.wrong("truncate", value.to_string(), "true or false".into()))?,
            },
        })
    }

    /// A list of divisors `[rotary_dim / 2]`.
    fn list(&self, name: &'static str, rotary_dim: usize) -> Result<Vec<f32>, Error> {
        let list = self.own(name).and_then(Value::as_array).ok_or_else(|| missing(name))?;
        let numbers: Vec<f32> = list.iter().filter_map(Value::as_f64).map(|n| n as f32).collect();
        if numbers.len() == rotary_dim / 2 && list.len() == numbers.len() {
            return Ok(numbers);
        }
        let value = format!("a list of {} numbers", numbers.len());
        Err(self.wrong(name, value, format!("{} numbers", rotary_dim / 2)))
    }
}
