//! The table of supported families. A family is a row here, a file in this directory, and a test fixture.

mod arcee;
mod bert;
mod deberta;
mod deepseek2;
mod distilbert;
mod ernie4_5;
mod ernie4_5_moe;
mod exaone4;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod gemma_embedding;
mod gpt_oss;
mod granite;
mod granite_hybrid;
mod granitemoe;
mod gte;
mod hunyuan;
mod jina_bert;
mod jina_v3;
mod keys;
mod lfm2;
mod lfm2moe;
mod llama;
mod mamba2;
mod mistral3;
mod mixtral;
mod modernbert;
mod mpnet;
mod nemotron_h;
mod nomic_bert;
mod olmo2;
mod phi2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen35;
mod qwen35moe;
mod qwen3moe;
mod qwen3next;
mod roberta;
mod roberta_heads;
mod seed_oss;
mod smollm3;

use crate::error::Error;
use crate::heads;
use crate::source::Source;
use crate::spec::Spec;

/// A supported architecture: its names, and the function that reads its spec.
pub struct Family {
    /// The family's name, the `general.architecture` of GGUF files.
    pub name: &'static str,
    /// Whether there are GGUF files of the architecture.
    pub gguf: bool,
    /// The `architectures` and `model_type` values of `config.json`.
    pub hugging_face: &'static [&'static str],
    /// The published models of this family, for the documentation.
    pub models: &'static str,
    read: fn(&Source) -> Result<Spec, Error>,
}

/// The classes of an encoder's family.
macro_rules! classes {
    ($($model:literal),+ ; $($kind:literal),+) => { &[$($kind),+ $(, concat!($model, "Model"), concat!($model, "ForMaskedLM"), concat!($model, "ForSequenceClassification"), concat!($model, "ForTokenClassification"))+] };
}
const BERT: &[&str] = classes!("Bert"; "bert", "HF_ColBERT", "BertForPreTraining");
const ROBERTA: &[&str] = classes!("Roberta", "XLMRoberta"; "roberta", "xlm-roberta");
const DISTILBERT: &[&str] = classes!("DistilBert"; "distilbert");
const MPNET: &[&str] = classes!("MPNet"; "mpnet");
const NOMICBERT: &[&str] = classes!("NomicBert"; "nomic_bert");
const JINABERT: &[&str] = classes!("JinaBert"; "jina_bert");
const JINAV3: &[&str] = classes!("JinaEmbeddingsV3", "XLMRobertaLora"; "jina_embeddings_v3");
const GTE: &[&str] = classes!("New", "Gte"; "new", "gte");
const DEBERTA: &[&str] = classes!("DebertaV2"; "deberta-v2");
const MODERNBERT: &[&str] = classes!("ModernBert"; "modernbert");

/// Every supported family.
#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    Family { name: "llama",    gguf: true, hugging_face: &["LlamaForCausalLM", "llama", "MistralForCausalLM", "mistral"],       models: "Llama 2 and 3.x, SmolLM2, TinyLlama, Mistral, MiniCPM5, DeepSeek-R1-Distill-Llama",  read: llama::read },
    Family { name: "qwen2",    gguf: true, hugging_face: &["Qwen2ForCausalLM", "qwen2"],                                        models: "Qwen2, Qwen2.5, Qwen2.5-Coder, DeepSeek-R1-Distill-Qwen",read: qwen2::read },
    Family { name: "qwen3",    gguf: true, hugging_face: &["Qwen3ForCausalLM", "Qwen3Model", "Qwen3ForSequenceClassification", "qwen3"],                                        models: "Qwen3 0.6B to 32B, DeepSeek-R1-0528-Qwen3-8B",  read: qwen3::read },
    Family { name: "qwen3moe", gguf: true, hugging_face: &["Qwen3MoeForCausalLM", "qwen3_moe"],                                 models: "Qwen3 30B-A3B, 235B-A22B",                      read: qwen3moe::read },
    Family { name: "qwen35",   gguf: true, hugging_face: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text"], models: "Qwen3.5 and 3.6 0.8B to 27B (text)", read: qwen35::read },
    Family { name: "lfm2",     gguf: true, hugging_face: &["Lfm2ForCausalLM", "lfm2"],                                           models: "LFM2 and LFM2.5 230M to 2.6B",                  read: lfm2::read },
    Family { name: "lfm2moe",  gguf: true, hugging_face: &["Lfm2MoeForCausalLM", "lfm2_moe"],                                    models: "LFM2 8B-A1B and 24B-A2B",                       read: lfm2moe::read },
    Family { name: "qwen35moe", gguf: true, hugging_face: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "qwen3_5_moe_text"], models: "Qwen3.5 and 3.6 35B-A3B to 397B-A17B (text)", read: qwen35moe::read },
    Family { name: "qwen3next", gguf: true, hugging_face: &["Qwen3NextForCausalLM", "qwen3_next"],                              models: "Qwen3-Next 80B-A3B, Qwen3-Coder-Next",          read: qwen3next::read },
    Family { name: "gemma",    gguf: true, hugging_face: &["GemmaForCausalLM", "gemma"],                                        models: "Gemma 2B and 7B",                               read: gemma::read },
    Family { name: "gemma2",   gguf: true, hugging_face: &["Gemma2ForCausalLM", "gemma2"],                                      models: "Gemma 2 2B, 9B, 27B",                           read: gemma2::read },
    Family { name: "gemma3",   gguf: true, hugging_face: &["Gemma3ForCausalLM", "gemma3_text", "Gemma3ForConditionalGeneration"], models: "Gemma 3 270M to 27B (text)",                  read: gemma3::read },
    Family { name: "gemma3n",  gguf: true, hugging_face: &["Gemma3nForCausalLM", "gemma3n_text", "Gemma3nForConditionalGeneration", "gemma3n"], models: "Gemma 3n E2B and E4B (text)", read: gemma3n::read },
    Family { name: "gemma4",   gguf: true, hugging_face: &["Gemma4ForCausalLM", "gemma4_text", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForCausalLM", "gemma4_unified_text", "Gemma4UnifiedForConditionalGeneration"], models: "Gemma 4 E2B, E4B, 12B, 26B-A4B, 31B (text)", read: gemma4::read },
    Family { name: "phi2",     gguf: true, hugging_face: &["PhiForCausalLM", "phi"],                                            models: "Phi-1, Phi-1.5, Phi-2",                         read: phi2::read },
    Family { name: "phi3",     gguf: true, hugging_face: &["Phi3ForCausalLM", "phi3"],                                          models: "Phi-3, Phi-3.5, Phi-4, Phi-4-mini",             read: phi3::read },
    Family { name: "granite",  gguf: true, hugging_face: &["GraniteForCausalLM", "granite"],                                    models: "Granite 3.x and 4.x, dense",                    read: granite::read },
    Family { name: "granitehybrid", gguf: true, hugging_face: &["GraniteMoeHybridForCausalLM", "granitemoehybrid"],             models: "Granite 4.0 350M to 32B-A9B, with and without Mamba-2 layers", read: granite_hybrid::read },
    Family { name: "falcon-h1", gguf: true, hugging_face: &["FalconH1ForCausalLM", "falcon_h1"],                                models: "Falcon-H1 0.5B to 34B",                         read: falcon_h1::read },
    Family { name: "nemotron_h", gguf: true, hugging_face: &["NemotronHForCausalLM", "nemotron_h"],                             models: "Nemotron-H 4B to 56B, Nemotron Nano 2 9B and 12B, Nemotron 3 Nano", read: nemotron_h::read },
    Family { name: "nemotron_h_moe", gguf: true, hugging_face: &[],                                                             models: "Nemotron 3 Nano 30B-A3B (of a directory: `nemotron_h`)", read: nemotron_h::read },
    Family { name: "mixtral",  gguf: false, hugging_face: &["MixtralForCausalLM", "mixtral"],                                   models: "Mixtral 8x7B (as GGUF: llama)",                 read: mixtral::read },
    Family { name: "qwen2moe", gguf: true, hugging_face: &["Qwen2MoeForCausalLM", "qwen2_moe"],                                 models: "Qwen1.5-MoE A2.7B, Qwen2 57B-A14B",             read: qwen2moe::read },
    Family { name: "granitemoe", gguf: true, hugging_face: &["GraniteMoeForCausalLM", "granitemoe", "GraniteMoeSharedForCausalLM", "granitemoeshared"], models: "Granite 3.x A400M, A800M", read: granitemoe::read },
    Family { name: "ernie4_5-moe", gguf: true, hugging_face: &["Ernie4_5_MoeForCausalLM", "ernie4_5_moe"],                      models: "ERNIE 4.5 21B-A3B, 300B-A47B",                  read: ernie4_5_moe::read },
    Family { name: "deepseek2", gguf: true, hugging_face: &["DeepseekV2ForCausalLM", "deepseek_v2", "DeepseekV3ForCausalLM", "deepseek_v3", "Glm4MoeLiteForCausalLM", "glm4_moe_lite", "YoutuForCausalLM", "youtu"], models: "DeepSeek-V2, V2-Lite, V3 and R1, Moonlight, GLM-4.7-Flash, Youtu-LLM 2B", read: deepseek2::read },
    Family { name: "gpt-oss",  gguf: true, hugging_face: &["GptOssForCausalLM", "gpt_oss"],                                     models: "gpt-oss 20B, 120B",                             read: gpt_oss::read },
    Family { name: "smollm3",  gguf: true, hugging_face: &["SmolLM3ForCausalLM", "smollm3"],                                    models: "SmolLM3 3B",                                    read: smollm3::read },
    Family { name: "arcee",    gguf: true, hugging_face: &["ArceeForCausalLM", "arcee"],                                        models: "AFM-4.5B",                                      read: arcee::read },
    Family { name: "seed_oss", gguf: true, hugging_face: &["SeedOssForCausalLM", "seed_oss"],                                   models: "Seed-OSS 36B",                                  read: seed_oss::read },
    Family { name: "ernie4_5", gguf: true, hugging_face: &["Ernie4_5ForCausalLM", "ernie4_5"],                                  models: "ERNIE 4.5 0.3B",                                read: ernie4_5::read },
    Family { name: "exaone4",  gguf: true, hugging_face: &["Exaone4ForCausalLM", "exaone4"],                                    models: "EXAONE 4.0 1.2B and 32B",                       read: exaone4::read },
    Family { name: "olmo2",    gguf: true, hugging_face: &["Olmo2ForCausalLM", "olmo2", "Olmo3ForCausalLM", "olmo3"],           models: "OLMo 2 and 3",                                  read: olmo2::read },
    Family { name: "hunyuan-dense", gguf: true, hugging_face: &["HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense"],               models: "Hunyuan 0.5B to 7B",                            read: hunyuan::read },
    Family { name: "mistral3", gguf: true, hugging_face: &["Ministral3ForCausalLM", "ministral3"],                              models: "Ministral 3 3B, 8B, 14B (text)",                read: mistral3::read },
    Family { name: "bert",       gguf: true,  hugging_face: BERT,       models: "BERT, MiniLM, bge small to large, E5, GTE",  read: bert::read },
    Family { name: "roberta",    gguf: false, hugging_face: ROBERTA,    models: "RoBERTa, XLM-R, bge-m3, multilingual E5",    read: roberta::read },
    Family { name: "distilbert", gguf: false, hugging_face: DISTILBERT, models: "DistilBERT",                               read: distilbert::read },
    Family { name: "mpnet",      gguf: false, hugging_face: MPNET,      models: "MPNet",                                    read: mpnet::read },
    Family { name: "nomic-bert", gguf: true,  hugging_face: NOMICBERT,  models: "NomicBERT, nomic-embed-text 1 and 1.5",        read: nomic_bert::read },
    Family { name: "jina-bert-v2", gguf: true, hugging_face: JINABERT,  models: "JinaBERT v2",                               read: jina_bert::read },
    Family { name: "jina-bert-v3", gguf: true, hugging_face: JINAV3,   models: "Jina embeddings v3, without adapters",  read: jina_v3::read },
    Family { name: "gte",        gguf: false, hugging_face: GTE,        models: "GTE base and large 1.5, multilingual GTE",   read: gte::read },
    Family { name: "deberta",    gguf: false, hugging_face: DEBERTA,    models: "DeBERTa-v2 without convolution, DeBERTa-v3",  read: deberta::read },
    Family { name: "gemma-embedding", gguf: true, hugging_face: &["Gemma3TextModel"], models: "EmbeddingGemma",              read: gemma_embedding::read },
    Family { name: "modern-bert", gguf: true, hugging_face: MODERNBERT, models: "ModernBERT",                               read: modernbert::read },
];

/// Reads the spec of a file with the reader of its family.
///
/// # Errors
/// A family that is not in the table (the error lists those that are), or the errors of the family's reader.
pub fn read(source: &Source) -> Result<Spec, Error> {
    keys::refuse_non_models(source)?;
    let names = source.names();
    let known = |family: &&Family| {
        if source.is_gguf() {
            family.gguf && names.contains(&family.name)
        } else {
            family.hugging_face.iter().any(|name| names.contains(name))
        }
    };
    let family = FAMILIES.iter().find(known).ok_or_else(|| Error::UnknownFamily {
        found: names.join(", "),
        supported: FAMILIES.iter().map(|f| f.name).collect::<Vec<_>>().join(", "),
    })?;
    keys::refuse(source, family.name)?;
    let mut spec = (family.read)(source)?;
    spec.encoder = heads::read::read(source, &spec)?;
    Ok(spec)
}

impl Spec {
    /// Reads and checks the spec of an opened model file.
    ///
    /// # Errors
    /// An unknown family, a missing key, or a value of the wrong type or out of range, by name.
    pub fn read(opened: &weights::Opened) -> Result<Spec, Error> {
        let source = Source::new(opened)?;
        let spec = self::read(&source)?;
        spec.check()?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_belongs_to_two_families() {
        let mut names: Vec<&str> = FAMILIES.iter().flat_map(|f| f.hugging_face).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
