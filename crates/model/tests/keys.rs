//! Every key of transformers' configuration classes changes what is computed, or is refused, or is known to change
//! nothing. The keys are those of `python tools/fixtures/config_keys.py`.

use crate::runner;

use model::Spec;
use runner::fixtures;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use weights::gguf;

/// A class, the fixture that it is tried on, and what is changed in that first.
fn bases() -> Vec<(&'static str, &'static str, Value)> {
    // The switch of the Qwens: without it a window and its layers are told and not used.
    let windowed =
        json!({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 1, "layer_types": null});
    vec![
        ("LlamaForCausalLM", "llama-3", json!({})),
        ("MistralForCausalLM", "mistral-window", json!({})),
        ("Qwen2ForCausalLM", "qwen2-window", windowed.clone()),
        ("Qwen3ForCausalLM", "qwen3", windowed.clone()),
        (
            "Qwen3MoeForCausalLM",
            "qwen3moe-mixed",
            json!({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 1}),
        ),
        ("GemmaForCausalLM", "gemma", json!({})),
        ("Gemma2ForCausalLM", "gemma2", json!({})),
        ("Gemma3ForCausalLM", "gemma3", json!({})),
        ("PhiForCausalLM", "phi2", json!({})),
        ("Phi3ForCausalLM", "phi4-mini", json!({})),
        ("GraniteForCausalLM", "granite", json!({})),
        ("MixtralForCausalLM", "mixtral", json!({})),
        ("Qwen2MoeForCausalLM", "qwen2moe-mixed", windowed),
        ("GraniteMoeForCausalLM", "granitemoe", json!({})),
        ("GraniteMoeSharedForCausalLM", "granitemoeshared", json!({})),
        ("Ernie4_5_MoeForCausalLM", "ernie4_5-moe", json!({})),
        ("GptOssForCausalLM", "gpt-oss", json!({})),
        // The interval counts where there is no list.
        (
            "SmolLM3ForCausalLM",
            "smollm3-window",
            json!({"no_rope_layers": null, "no_rope_layer_interval": 2}),
        ),
        ("ArceeForCausalLM", "arcee", json!({})),
        ("SeedOssForCausalLM", "seed-oss", json!({})),
        ("Ernie4_5ForCausalLM", "ernie4.5", json!({})),
        ("Exaone4ForCausalLM", "exaone4", json!({"layer_types": null})),
        ("Olmo2ForCausalLM", "olmo2", json!({})),
        ("Olmo3ForCausalLM", "olmo3", json!({})),
        ("HunYuanDenseV1ForCausalLM", "hunyuan", json!({})),
        ("Ministral3ForCausalLM", "ministral3", json!({})),
        ("GraniteMoeHybridForCausalLM", "granite4-h", json!({})),
        ("NemotronHForCausalLM", "nemotron-h-groups", json!({})),
        ("FalconH1ForCausalLM", "falcon-h1-norm", json!({"mamba_d_ssm": null})),
        ("Gemma3nForCausalLM", "gemma3n", json!({"altup_active_idx": 1})),
        (
            "Gemma4ForCausalLM",
            "gemma4",
            json!({"enable_moe_block": true, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 8}),
        ),
        ("Qwen3NextForCausalLM", "qwen3next-mixed", json!({})),
        ("DeepseekV2ForCausalLM", "deepseek-v2-groups", json!({"first_k_dense_replace": 1})),
        ("DeepseekV3ForCausalLM", "deepseek-v3", json!({})),
        ("Glm4MoeLiteForCausalLM", "glm4-moe-lite", json!({"n_group": 2})),
        ("YoutuForCausalLM", "youtu", json!({})),
    ]
}

/// Keys that change nothing that is computed for an answer, with the reason.
const NEUTRAL: [(&str, &str); 37] = [
    ("attention_dropout", "training"),
    ("residual_dropout", "training"),
    ("embd_pdrop", "training"),
    ("resid_pdrop", "training"),
    ("initializer_range", "training"),
    ("output_router_logits", "training"),
    ("router_aux_loss_coef", "training"),
    ("router_jitter_noise", "training"),
    ("moe_norm_min", "less than any sum of weights, or refused"),
    ("bos_token_id", "the tokenizer's, read with it"),
    ("eos_token_id", "the tokenizer's, read with it"),
    ("eod_token_id", "the tokenizer's, read with it"),
    ("pad_token_id", "no row is padded"),
    ("use_cache", "keys and values are kept anyway"),
    ("pretraining_tp", "the same sums in another order"),
    ("vocab_size", "the embedding's rows are counted"),
    ("vocab_size_per_layer_input", "the rows of the table are checked"),
    // Of Qwen3 MoE it is no key of the class any more; it is read as Qwen3's.
    ("keys_to_ignore_at_inference", "no key of a file"),
    ("transformers_version", "who wrote the file"),
    ("altup_coef_clip", "training"),
    ("num_logits_to_keep", "logits are computed where they are wanted"),
    ("chunk_size", "the same sums in another order"),
    ("mamba_chunk_size", "the same sums in another order"),
    ("use_mamba_kernels", "the same sums in another order"),
    ("mamba_ssm_cache_dtype", "states are kept in f32"),
    ("residual_in_fp32", "the residual is kept in f32"),
    ("expand", "the heads tell how wide the layer is"),
    ("time_step_max", "training"),
    ("time_step_floor", "training"),
    ("rescale_prenorm_residual", "training"),
    ("hidden_dropout", "training"),
    ("n_shared_experts", "their width is told"),
    ("moe_shared_expert_overlap", "the order in which they are computed"),
    ("num_nextn_predict_layers", "layers that predict further tokens are left out"),
    ("mtp_layers_block_type", "layers that predict further tokens are left out"),
    ("num_mtp_layers", "layers that predict further tokens are left out"),
    ("embedding_initializer_range", "training"),
];

/// Keys that change nothing in one class only, with the reason.
const NEUTRAL_HERE: [(&str, &str, &str); 1] =
    [("DeepseekV2ForCausalLM", "head_dim", "the width of what rotates has a key of its own")];

/// Keys of [`NEUTRAL`] that count in one class.
const COUNTS_HERE: [(&str, &str); 3] = [
    ("DeepseekV2ForCausalLM", "n_shared_experts"),
    ("DeepseekV3ForCausalLM", "n_shared_experts"),
    ("Glm4MoeLiteForCausalLM", "n_shared_experts"),
];

/// Why a key of a class changes nothing, if it does not.
fn neutral(class: &str, key: &str) -> Option<&'static str> {
    let here = NEUTRAL_HERE.iter().find(|(of, name, _)| *of == class && *name == key);
    let counts = COUNTS_HERE.contains(&(class, key));
    let everywhere = NEUTRAL.iter().find(|(name, _)| *name == key && !counts);
    here.map(|(.., reason)| *reason).or(everywhere.map(|(_, reason)| *reason))
}

/// Another value for a key than the fixture has.
fn other(key: &str, before: &Value, layers: usize) -> Value {
    let number = |default: f64| before.as_f64().unwrap_or(default);
    match key {
        "hidden_act" | "hidden_activation" => json!("relu"),
        "layer_types" => {
            let flipped = |at: usize| match before.get(at).and_then(Value::as_str) {
                Some("sliding_attention") => "full_attention",
                _ => "sliding_attention",
            };
            (0..layers).map(flipped).collect()
        }
        "mlp_only_layers" => json!([0]),
        "moe_layer_end_index" => json!(1),
        "rope_parameters" => {
            let mut rope = before.clone();
            match rope.get_mut("full_attention") {
                Some(inner) => inner["rope_theta"] = json!(12_345.0),
                None => rope["rope_theta"] = json!(12_345.0),
            }
            rope
        }
        "rms_norm_eps" | "layer_norm_eps" => json!(0.125),
        "attn_logit_softcapping" | "final_logit_softcapping" => json!(number(10.0) / 2.0),
        "embedding_multiplier" | "logits_scaling" | "residual_multiplier" | "attention_multiplier" => {
            json!(0.625)
        }
        "use_bidirectional_attention" => json!(true),
        _ if before.is_boolean() => json!(!before.as_bool().unwrap_or(false)),
        "head_dim" => json!(number(8.0) * 2.0),
        _ => json!(number(1.0) as u64 * 2),
    }
}

pub(crate) fn folder(case: &str, edit: impl FnOnce(&mut Map<String, Value>)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let from = fixtures().join(case);
    let config = std::fs::read(from.join("config.json")).expect("a fixture");
    let mut config: Map<String, Value> = serde_json::from_slice(&config).expect("a fixture");
    edit(&mut config);
    std::fs::write(folder.path().join("config.json"), Value::Object(config).to_string()).expect("written");
    std::fs::copy(from.join("model.safetensors"), folder.path().join("model.safetensors"))
        .expect("a fixture");
    folder
}

pub(crate) fn read(folder: &tempfile::TempDir) -> Result<Spec, model::Error> {
    Spec::read(&weights::open(folder.path()).expect("a readable folder"))
}

#[test]
fn every_key_of_a_config_json_is_honoured_or_refused() {
    let table: Value = serde_json::from_str(include_str!("config-keys.json")).expect("a table");
    let classes = table["classes"].as_object().expect("classes");
    assert_eq!(classes.len(), bases().len());
    let mut neutral_seen = BTreeSet::new();
    for (class, case, changes) in bases() {
        let base = |config: &mut Map<String, Value>| {
            config.extend(changes.as_object().expect("an object").clone());
            config.insert("architectures".into(), json!([class]));
        };
        let plain = read(&folder(case, base)).unwrap_or_else(|e| panic!("{class}: {e}"));
        for (key, default) in classes[class].as_object().expect("keys") {
            let changed = folder(case, |config| {
                base(config);
                let before = config.get(key).filter(|v| !v.is_null()).unwrap_or(default).clone();
                config.insert(key.clone(), other(key, &before, plain.layers.len()));
            });
            let matters = match read(&changed) {
                Ok(spec) => format!("{spec:?}") != format!("{plain:?}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(!said.contains("Some("), "{said}");
                    true
                }
            };
            match neutral(class, key) {
                Some(reason) => {
                    assert!(!matters, "{class}: {key} is said to change nothing ({reason})");
                    neutral_seen.insert(key.clone());
                }
                None => assert!(matters, "{class}: another {key} changes nothing and is not refused"),
            }
        }
    }
    assert!(neutral_seen.len() >= 11, "{neutral_seen:?}");
}

#[test]
fn said_badly_hidden_act_is_honoured_or_refused_by_name() {
    use kernels::Activation::{Gelu, GeluTanh, Relu, Relu2, Silu};
    let spec = |case: &str, key: &str, act: Value| read(&folder(case, |c| drop(c.insert(key.into(), act))));
    let known = [
        ("silu", Silu),
        ("gelu", Gelu),
        ("gelu_new", GeluTanh),
        ("gelu_pytorch_tanh", GeluTanh),
        ("relu", Relu),
        ("relu2", Relu2),
    ];
    for (name, activation) in known {
        for case in ["llama-3", "qwen2", "qwen3", "phi3", "phi2", "granite", "mistral-window"] {
            assert_eq!(
                spec(case, "hidden_act", json!(name)).expect(case).activation,
                activation,
                "{case} {name}"
            );
        }
    }
    for name in ["quick_gelu", "relu6", "mish", "xielu", "", "SiLU"] {
        let said = spec("llama-3", "hidden_act", json!(name)).expect_err(name).to_string();
        assert!(said.contains("hidden_act") && said.contains("expected silu"), "{said}");
    }
    assert!(spec("llama-3", "hidden_act", json!(3)).is_err());
    // Gemma 1's first files say gelu and mean the tanh form; of Gemma 2 and 3 the other key decides.
    assert_eq!(spec("gemma", "hidden_act", json!("gelu")).expect("gemma").activation, GeluTanh);
    assert_eq!(spec("gemma2", "hidden_activation", json!("gelu")).expect("gemma2").activation, Gelu);
}

#[test]
fn keys_of_elsewhere_that_would_change_the_answer_are_refused() {
    let bad = [
        ("rope_parameters", json!({"rope_type": "dynamic", "factor": 2.0}), "rope_type is dynamic"),
        ("rope_parameters", json!("yarn"), "expected an object"),
        ("rope_parameters", json!({"rope_type": 3}), "rope_type"),
        ("is_causal", json!(false), "both directions"),
        ("use_bidirectional_attention", json!(true), "both directions"),
        ("clip_qkv", json!(8.0), "clip_qkv"),
        ("use_mrope", json!(true), "use_mrope"),
        ("attn_logit_softcapping", json!(30.0), "attn_logit_softcapping"),
        ("tie_word_embeddings", json!("yes"), "tie_word_embeddings"),
        ("layer_types", json!("full_attention"), "layer_types"),
        ("layer_types", json!(["chunked_attention", "full_attention"]), "chunked_attention"),
        ("architectures", json!(["LlamaForSequenceClassification"]), "LlamaForSequenceClassification"),
        ("architectures", json!(["LlamaModel"]), "LlamaModel"),
    ];
    for (key, value, words) in bad {
        let said = read(&folder("llama-3", |c| drop(c.insert(key.into(), value.clone()))));
        let said = said.expect_err(words).to_string();
        assert!(said.contains(words), "{key} {value}: {said}");
    }
    for (key, value) in [("is_causal", json!(true)), ("clip_qkv", json!(null)), ("use_mrope", json!(false))] {
        assert!(read(&folder("llama-3", |c| drop(c.insert(key.into(), value)))).is_ok(), "{key}");
    }
    // Null is "no cap", and not the default of 50.
    let plain = read(&folder("gemma2", |_| ())).expect("a fixture");
    let none = read(&folder("gemma2", |c| drop(c.insert("attn_logit_softcapping".into(), Value::Null))));
    assert!(plain.attention_soft_cap.is_some() && none.expect("no cap").attention_soft_cap.is_none());
}

#[test]
fn said_badly_quantized_checkpoints_name_their_method() {
    let methods = ["gptq", "awq", "bitsandbytes", "fp8", "compressed-tensors", "hqq", "mxfp4"];
    for method in methods {
        let config = json!({"quant_method": method, "bits": 4});
        let said = read(&folder("llama-3", |c| drop(c.insert("quantization_config".into(), config))));
        let said = said.expect_err(method).to_string();
        assert!(said.contains(&format!("quantized by {method}")) && said.contains("GGUF"), "{said}");
    }
    let off = json!({"quant_method": "bitsandbytes", "load_in_4bit": false, "load_in_8bit": false});
    assert!(read(&folder("llama-3", |c| drop(c.insert("quantization_config".into(), off)))).is_ok());
    assert!(read(&folder("llama-3", |c| drop(c.insert("quantization_config".into(), Value::Null)))).is_ok());
}

/// A copy of a GGUF fixture with `edit` applied to its keys.
pub(crate) fn regguf(case: &str, edit: impl FnOnce(gguf::Metadata) -> gguf::Metadata) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = weights::open(&fixtures().join(case).join("model.gguf")).expect("a fixture");
    let tensors: Vec<_> = opened.tensors().filter_map(|t| opened.tensor(t.name)).collect();
    let keys = edit(opened.metadata().gguf().expect("a GGUF").clone());
    gguf::write(&folder.path().join("model.gguf"), &keys, &tensors).expect("written");
    folder
}

pub(crate) fn with(keys: gguf::Metadata, name: &str, value: gguf::Value) -> gguf::Metadata {
    let mut out = gguf::Metadata::default();
    for (key, value) in keys.iter().filter(|(key, _)| *key != name) {
        out.insert(key.to_owned(), value.clone());
    }
    out.insert(name.to_owned(), value);
    out
}

#[test]
fn keys_of_a_gguf_that_would_change_the_answer_are_refused() {
    use gguf::Value::{Bool, F32, String as Text, U32};
    let bad = [
        ("llama.attention.causal", Bool(false), "both directions"),
        ("llama.attention.clamp_kqv", F32(8.0), "clamp_kqv"),
        ("llama.attention.max_alibi_bias", F32(8.0), "alibi"),
        ("llama.use_parallel_residual", Bool(true), "use_parallel_residual"),
        ("llama.attention.scale", F32(0.1), "attention.scale"),
        ("llama.embedding_scale", F32(12.0), "embedding_scale"),
        ("llama.residual_scale", F32(0.2), "residual_scale"),
        ("llama.logit_scale", F32(8.0), "logit_scale"),
        ("llama.attn_logit_softcapping", F32(50.0), "attn_logit_softcapping"),
        ("llama.final_logit_softcapping", F32(30.0), "final_logit_softcapping"),
        ("llama.expert_count", U32(8), "expert_used_count"),
        ("llama.rope.dimension_sections", U32(3), "sections"),
        ("llama.attention.temperature_scale", F32(0.1), "temperature_scale"),
        ("llama.nextn_predict_layers", U32(1), "nextn"),
        ("llama.attention.causal", U32(1), "attention.causal"),
        ("llama.block_count", Text("two".into()), "block_count"),
        ("general.type", Text("adapter".into()), "LoRA adapter"),
        ("adapter.type", Text("lora".into()), "LoRA adapter"),
        ("general.type", Text("mmproj".into()), "vision part"),
        ("general.architecture", Text("clip".into()), "vision part"),
        ("general.type", Text("imatrix".into()), "importance matrix"),
        ("general.type", Text("sauce".into()), "sauce"),
    ];
    for (key, value, words) in bad {
        let folder = regguf("llama-2", |keys| with(keys, key, value));
        let opened = weights::open(&folder.path().join("model.gguf")).expect("a readable file");
        let said = Spec::read(&opened).expect_err(words).to_string();
        assert!(said.contains(words), "{key}: {said}");
    }
    for (key, value) in [
        ("llama.expert_count", U32(0)),
        ("llama.logit_scale", F32(1.0)),
        ("llama.attention.causal", Bool(true)),
        ("general.type", Text("model".into())),
        ("llama.pooling_type", U32(0)),
    ] {
        let folder = regguf("llama-2", |keys| with(keys, key, value));
        let opened = weights::open(&folder.path().join("model.gguf")).expect("a readable file");
        assert!(Spec::read(&opened).is_ok(), "{key}");
    }
}

#[test]
fn said_badly_a_gguf_without_weights_is_a_vocabulary() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = weights::open(&fixtures().join("llama-2/model.gguf")).expect("a fixture");
    let path = folder.path().join("ggml-vocab.gguf");
    gguf::write(&path, opened.metadata().gguf().expect("a GGUF"), &[]).expect("written");
    let said =
        Spec::read(&weights::open(&path).expect("a readable file")).expect_err("no weights").to_string();
    assert!(said.contains("a vocabulary without weights"), "{said}");
}
