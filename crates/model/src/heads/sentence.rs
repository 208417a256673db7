//! The modules of a sentence-transformers directory: `modules.json` and the folders that it names.

use serde_json::Value;
use weights::huggingface::Module;

use super::classes::{multi_vector, torch_activation};
use super::{Dense, Heads, MultiVector, Pooling, Sparse, Stack, Step, TokenLogits};
use crate::error::Error;
use crate::source::Source;
use crate::spec::{LmHead, Spec};

/// The folder of bge-m3's matrices in an opened directory.
const SPARSE: &str = "sparse_linear";
const COLBERT: &str = "colbert_linear";

/// Fills the heads that `modules.json` describes; without one, an encoder's hidden states are averaged, as
/// sentence-transformers does.
///
/// # Errors
/// A module, a pooling or an activation function that is not understood.
pub(super) fn read(source: &Source, spec: &Spec, heads: &mut Heads) -> Result<(), Error> {
    let Some(files) = source.opened().metadata().hugging_face() else { return Ok(()) };
    if let Some(modules) = &files.modules {
        let mut state =
            Modules { source, width: spec.width, pooling: None, stack: Vec::new(), normalize: false };
        for module in modules {
            state.module(module, heads)?;
        }
        state.finish(heads);
    } else if (spec.names.is_some() || spec.lm_head == LmHead::None)
        && heads.classifier.is_none()
        && heads.token_classifier.is_none()
        && heads.multi_vector.is_none()
    {
        let (pooling, stack) = (vec![Pooling::Mean], Stack::default());
        heads.dense = Some(Dense { pooling, stack, width: spec.width, normalize: false });
    }
    if let Some(stem) = beside(source, SPARSE) {
        let step = heads.linear(source, &stem, 1, spec.width);
        let unused = special_tokens(source);
        heads.sparse = Some(Sparse::Lexical { stack: Stack(vec![step]), unused });
    }
    if let Some(stem) = beside(source, COLBERT) {
        multi_vector(source, spec, heads, &stem)?;
        if let Some(head) = &mut heads.multi_vector {
            head.skips_first = true;
        }
    }
    settings(files.sentence_bert_config.as_ref(), files.sentence_transformers.as_ref(), heads);
    if let Some(list) =
        source.config().and_then(|config| config.get("matryoshka_dimensions")).and_then(Value::as_array)
    {
        heads.matryoshka =
            list.iter().filter_map(Value::as_u64).filter_map(|n| usize::try_from(n).ok()).collect();
    }
    Ok(())
}

/// The ids of the first, last, padding and unknown token.
fn special_tokens(source: &Source) -> Vec<u32> {
    /// XLM-R's unknown token, of which its `config.json` does not tell.
    const UNKNOWN: u32 = 3;
    let id = |key: &str| source.config()?.get(key)?.as_u64().and_then(|id| u32::try_from(id).ok());
    let named = ["bos_token_id", "eos_token_id", "pad_token_id"].into_iter().filter_map(id);
    named.chain([UNKNOWN]).collect()
}

/// The stem of the matrix in the file `name.safetensors` beside the model; its tensors are `name.weight` or `weight`.
fn beside(source: &Source, name: &str) -> Option<String> {
    let stems = [format!("{name}/{name}."), format!("{name}/")];
    stems.into_iter().find(|stem| source.has(&format!("{stem}weight")))
}

/// The length limit, the lower-casing and the prompts.
fn settings(bert: Option<&Value>, transformers: Option<&Value>, heads: &mut Heads) {
    if let Some(config) = bert {
        heads.max_tokens =
            config.get("max_seq_length").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        heads.lower_case = config.get("do_lower_case").and_then(Value::as_bool).unwrap_or(false);
    }
    if let Some(config) = transformers {
        let prompts = config.get("prompts").and_then(Value::as_object).into_iter().flatten();
        heads.prompts =
            prompts.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect();
        heads.default_prompt = config.get("default_prompt_name").and_then(Value::as_str).map(str::to_owned);
    }
}

/// The error of a module that is not understood.
fn refused(module: &Module, problem: String) -> Error {
    Error::Head { what: format!("module {} ({})", module.kind, module.path), problem }
}

/// What the modules so far make of hidden states.
struct Modules<'a> {
    source: &'a Source<'a>,
    /// Numbers of the present vector.
    width: usize,
    pooling: Option<Vec<Pooling>>,
    stack: Vec<Step>,
    normalize: bool,
}

impl Modules<'_> {
    fn module(&mut self, module: &Module, heads: &mut Heads) -> Result<(), Error> {
        let config = &module.config;
        let refuse = |problem: String| refused(module, problem);
        match module.kind.as_str() {
            "Transformer" | "MLMTransformer" => {}
            "Pooling" => {
                let modes = pooling(config).map_err(refuse)?;
                self.width *= modes.len();
                self.pooling = Some(modes);
                heads.pools_prompt = config.get("include_prompt").and_then(Value::as_bool).unwrap_or(true);
            }
            "Dense" => self.dense(module, heads)?,
            "Normalize" => self.normalize = true,
            "SpladePooling" => {
                let text = |key: &str, default| config.get(key).and_then(Value::as_str).unwrap_or(default);
                let (strategy, function) =
                    (text("pooling_strategy", "max"), text("activation_function", "relu"));
                let known = matches!(strategy, "max" | "sum") && matches!(function, "relu" | "log1p_relu");
                let Some(Sparse::MaskedLm { twice, sum, .. }) = heads.sparse.as_mut().filter(|_| known)
                else {
                    return Err(refuse(format!(
                        "pooling_strategy {strategy} and activation_function {function}; known are max and sum, relu and \
                         log1p_relu, of a masked language model"
                    )));
                };
                (*twice, *sum) = (function == "log1p_relu", strategy == "sum");
            }
            "LogitScore" => {
                let id =
                    |key: &str| config.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
                let (Some(yes), Some(no)) = (id("true_token_id"), id("false_token_id")) else {
                    return Err(refuse("config.json has no true_token_id and false_token_id".into()));
                };
                heads.token_logits = Some(TokenLogits { yes, no });
            }
            _ => {
                return Err(refuse(
                    "not understood; known are Transformer, Pooling, Dense, Normalize, SpladePooling and LogitScore".into(),
                ));
            }
        }
        Ok(())
    }

    /// Adds a linear map and its activation function.
    fn dense(&mut self, module: &Module, heads: &mut Heads) -> Result<(), Error> {
        let size =
            |key: &str| module.config.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let (Some(inputs), Some(outputs)) = (size("in_features"), size("out_features")) else {
            return Err(refused(module, "config.json has no in_features and out_features".into()));
        };
        if inputs != self.width {
            return Err(refused(
                module,
                format!("in_features is {inputs}; the vectors before it have {}", self.width),
            ));
        }
        self.stack.push(heads.linear(self.source, &format!("{}/linear", module.path), outputs, inputs));
        let named = module.config.get("activation_function").and_then(Value::as_str).unwrap_or("Tanh");
        self.stack.extend(torch_activation(named)?.map(Step::Activation));
        self.width = outputs;
        Ok(())
    }

    /// Pooled vectors, or with a `Dense` and no `Pooling` vectors of tokens (PyLate).
    fn finish(self, heads: &mut Heads) {
        let (stack, width) = (Stack(self.stack), self.width);
        match self.pooling {
            Some(pooling) => {
                heads.dense = Some(Dense { pooling, stack, width, normalize: self.normalize });
            }
            None if !stack.0.is_empty() => {
                heads.multi_vector = Some(MultiVector { stack, width, skips_first: false });
            }
            None => {}
        }
    }
}

/// The poolings of a module's `config.json`, in the older spelling (a flag for each) or the newer (`pooling_mode`).
fn pooling(config: &Value) -> Result<Vec<Pooling>, String> {
    if let Some(mode) = config.get("pooling_mode") {
        let one = |value: &Value| {
            let named = value.as_str().ok_or_else(|| format!("pooling_mode {value} is no text"))?;
            by_name(named).ok_or_else(|| {
                format!("pooling_mode {named} is not known; known are cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken")
            })
        };
        return match mode {
            Value::Array(list) if list.is_empty() || list.len() > 6 => {
                Err(format!("pooling_mode has {} entries; known are 1 to 6", list.len()))
            }
            Value::Array(list) => list.iter().map(one).collect(),
            value => one(value).map(|mode| vec![mode]),
        };
    }
    const FLAGS: [(&str, Pooling); 6] = [
        ("pooling_mode_cls_token", Pooling::Cls),
        ("pooling_mode_max_tokens", Pooling::Max),
        ("pooling_mode_mean_tokens", Pooling::Mean),
        ("pooling_mode_mean_sqrt_len_tokens", Pooling::MeanSqrtLen),
        ("pooling_mode_weightedmean_tokens", Pooling::WeightedMean),
        ("pooling_mode_lasttoken", Pooling::Last),
    ];
    let flags = config.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("pooling_mode_"));
    for (key, value) in flags {
        if value == &Value::Bool(true) && !FLAGS.iter().any(|(flag, _)| flag == key) {
            return Err(format!("{key} is not known"));
        }
    }
    let on = |flag: &str| config.get(flag).and_then(Value::as_bool).unwrap_or(false);
    let modes: Vec<Pooling> = FLAGS.iter().filter(|(flag, _)| on(flag)).map(|(_, mode)| *mode).collect();
    Ok(if modes.is_empty() { vec![Pooling::Mean] } else { modes })
}

fn by_name(name: &str) -> Option<Pooling> {
    match name {
        "cls" => Some(Pooling::Cls),
        "max" => Some(Pooling::Max),
        "mean" => Some(Pooling::Mean),
        "mean_sqrt_len_tokens" | "mean_sqrt_len" => Some(Pooling::MeanSqrtLen),
        "weightedmean" => Some(Pooling::WeightedMean),
        "lasttoken" => Some(Pooling::Last),
        _ => None,
    }
}
