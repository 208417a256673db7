//! Refuses metadata keys that would change the computation in a way that is not implemented.
//!
//! Each such key must have its neutral value. Keys that are implemented are read by the families; keys without effect
//! on inference (dropout, token ids, checkpoint dtype) are ignored. `tests/keys.rs` classifies every key of the
//! configuration classes.

use crate::error::Error;
use crate::source::{Key, RawValue, Source};

/// The values with which a key has no effect.
enum Neutral {
    /// False, zero or null.
    Off,
    /// True or null.
    On,
    /// One, or zero for "not set".
    One,
}

/// The key, its neutral value, the expected value for the error message, and the families that implement it.
type Rule = (Key, Neutral, &'static str, &'static [&'static str]);

/// The families that read in which direction attention goes: encoders, and the one where it may be that of pictures.
const DIRECTED: &[&str] = &[
    "bert",
    "roberta",
    "distilbert",
    "mpnet",
    "modern-bert",
    "nomic-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "gte",
    "deberta",
    "gemma-embedding",
    "gemma4",
];

/// The families with experts.
const MIXTURES: &[&str] = &[
    "qwen3moe",
    "qwen2moe",
    "mixtral",
    "llama",
    "granitemoe",
    "ernie4_5-moe",
    "gpt-oss",
    "qwen35moe",
    "qwen3next",
    "deepseek2",
    "lfm2moe",
    "granitehybrid",
    "nemotron_h",
    "nemotron_h_moe",
    "gemma4",
];

/// The families with an expert that every row uses.
const SHARED: &[&str] = &[
    "qwen2moe",
    "granitemoe",
    "ernie4_5-moe",
    "qwen35moe",
    "qwen3next",
    "deepseek2",
    "granitehybrid",
    "nemotron_h",
    "nemotron_h_moe",
];

/// The families whose layers that predict further tokens are left out.
const PREDICTING: &[&str] =
    &["qwen35", "qwen35moe", "qwen3next", "deepseek2", "nemotron_h", "nemotron_h_moe"];

/// The families with Granite's factors.
const GRANITES: &[&str] = &["granite", "granitemoe", "granitehybrid"];

const RULES: &[Rule] = &[
    (
        Key("attention.causal", &["is_causal"]),
        Neutral::On,
        "true: attention in both directions is not built for this family",
        DIRECTED,
    ),
    (
        Key("", &["use_bidirectional_attention"]),
        Neutral::Off,
        "false: attention in both directions is not built for this family",
        DIRECTED,
    ),
    (
        Key("attention.clamp_kqv", &["clip_qkv"]),
        Neutral::Off,
        "0: clamped queries and keys are not built",
        &[],
    ),
    (Key("attention.max_alibi_bias", &[]), Neutral::Off, "0: ALiBi is not built", &["jina-bert-v2"]),
    (Key("use_parallel_residual", &[]), Neutral::Off, "false, for this family", &["phi2"]),
    (Key("attention.scale", &[]), Neutral::Off, "not there, for this family", GRANITES),
    (Key("embedding_scale", &[]), Neutral::One, "1, for this family", GRANITES),
    (Key("residual_scale", &[]), Neutral::One, "1, for this family", GRANITES),
    (Key("logit_scale", &[]), Neutral::One, "1, for this family", GRANITES),
    (
        Key("attn_logit_softcapping", &["attn_logit_softcapping"]),
        Neutral::Off,
        "0, for this family",
        &["gemma2"],
    ),
    (
        Key("final_logit_softcapping", &["final_logit_softcapping"]),
        Neutral::Off,
        "0, for this family",
        &["gemma2", "gemma3", "gemma3n", "gemma4"],
    ),
    (Key("expert_count", &[]), Neutral::Off, "0: this family has no experts here", MIXTURES),
    (
        Key("expert_shared_count", &[]),
        Neutral::Off,
        "0: shared experts are not built for this family",
        SHARED,
    ),
    (
        Key("expert_weights_scale", &[]),
        Neutral::One,
        "1: scaled expert weights are not built for this family",
        MIXTURES,
    ),
    // 1 is softmax in llama.cpp's `llama_expert_gating_func_type`.
    (
        Key("expert_gating_func", &[]),
        Neutral::One,
        "1: the routers of this family are softmax here",
        MIXTURES,
    ),
    (
        Key("leading_dense_block_count", &[]),
        Neutral::Off,
        "0: read from the tensors",
        &["deepseek2", "ernie4_5-moe", "lfm2moe"],
    ),
    (Key("", &["conv_bias"]), Neutral::Off, "false: convolutions with a bias are not built", &[]),
    (
        Key("", &["mamba_proj_bias"]),
        Neutral::Off,
        "false: Mamba-2 projections with a bias are not built",
        &[],
    ),
    // Sections matter only for positions in images.
    (
        Key("rope.dimension_sections", &[]),
        Neutral::Off,
        "not there: rope in sections is not built",
        &["qwen35", "qwen35moe"],
    ),
    (Key("attention.temperature_scale", &[]), Neutral::Off, "0, for this family", &["mistral3"]),
    (
        Key("attention.shared_kv_layers", &[]),
        Neutral::Off,
        "0: shared keys and values are not built",
        &["gemma3n", "gemma4"],
    ),
    (Key("nextn_predict_layers", &[]), Neutral::Off, "0: prediction layers are not built", PREDICTING),
    (Key("", &["use_mrope"]), Neutral::Off, "false: rope in sections is not built", &[]),
];

/// Refuses every key of [`RULES`] whose value is not the neutral one.
pub(super) fn refuse(source: &Source, family: &str) -> Result<(), Error> {
    for (key, neutral, expected, implemented_by) in RULES {
        if implemented_by.contains(&family) {
            continue;
        }
        let Some(found) = source.raw(*key) else { continue };
        let fits = match (neutral, &found) {
            (Neutral::Off, RawValue::Flag(flag)) => !flag,
            (Neutral::On, RawValue::Flag(flag)) => *flag,
            (Neutral::Off, RawValue::Number(number)) => *number == 0.0,
            (Neutral::One, RawValue::Number(number)) => *number == 1.0 || *number == 0.0,
            _ => false,
        };
        if !fits {
            let value = match found {
                RawValue::Flag(flag) => flag.to_string(),
                RawValue::Number(number) => number.to_string(),
                RawValue::Other(text) => text,
            };
            return Err(source.bad(*key, value, (*expected).to_owned()));
        }
    }
    Ok(())
}

/// Refuses files that are not a language model (adapters, projectors), and weights that another library quantized.
pub(super) fn refuse_non_models(source: &Source) -> Result<(), Error> {
    match source.config() {
        Some(_) => quantized(source),
        None => gguf(source),
    }
}

fn gguf(source: &Source) -> Result<(), Error> {
    let Some(keys) = source.opened().metadata().gguf() else { return Ok(()) };
    let not = |what: &str, advice| Err(Error::NotAModel { what: what.to_owned(), advice });
    let kind = keys.get_str("general.type").unwrap_or("model");
    if kind == "adapter" || keys.get("adapter.type").is_some() {
        return not("a LoRA adapter", "merge it into its base model, and serve the merged model");
    }
    if kind == "mmproj" || keys.get_str("general.architecture") == Some("clip") {
        return not(
            "the vision part of a model (mmproj)",
            "serve the GGUF file of the language model; pictures are not read",
        );
    }
    match kind {
        "model" => {}
        "imatrix" => return not("an importance matrix", "it is for a quantizer; serve the quantized model"),
        other => {
            let what = format!("of the kind {other:?} (general.type)");
            return not(&what, "serve a GGUF file whose general.type is model");
        }
    }
    if source.opened().tensors().len() == 0 {
        return not("a vocabulary without weights", "serve the GGUF file that has the weights");
    }
    Ok(())
}

/// Name endings of the tensors that quantization libraries write, with the library's name.
const QUANTIZED: [(&str, &str); 7] = [
    (".qweight", "GPTQ or AWQ"),
    (".qzeros", "GPTQ or AWQ"),
    (".weight_packed", "compressed-tensors"),
    (".weight_scale_inv", "FP8"),
    (".weight_scale", "compressed-tensors or FP8"),
    (".weight.absmax", "bitsandbytes"),
    (".SCB", "bitsandbytes"),
];

fn quantized(source: &Source) -> Result<(), Error> {
    if let Some(quantization) = source.opened().quantization() {
        let method = quantization.method.clone();
        // Blocks and exponents of gpt-oss, which are read.
        let own = method == "mxfp4"
            && source.names().iter().any(|name| matches!(*name, "GptOssForCausalLM" | "gpt_oss"));
        match quantization.refused.clone() {
            Some(told) if !own => return Err(Error::Quantized { method, told }),
            Some(_) => {}
            None => return Ok(()),
        }
    }
    for tensor in source.opened().tensors() {
        if let Some((_, method)) = QUANTIZED.iter().find(|(end, _)| tensor.name.ends_with(end)) {
            let told = format!("tensor {}", tensor.name);
            return Err(Error::Quantized { method: (*method).to_owned(), told });
        }
    }
    Ok(())
}
