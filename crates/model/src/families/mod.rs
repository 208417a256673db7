//! The table of supported families. A family is a row here, a file in this directory, and a test fixture.

mod gemma;
mod gemma2;
mod gemma3;
mod granite;
mod keys;
mod llama;
mod phi2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3moe;

use crate::error::Error;
use crate::source::Source;
use crate::spec::Spec;

/// A supported architecture: its names, and the function that reads its spec.
pub struct Family {
    /// The `general.architecture` of GGUF files.
    pub gguf: &'static str,
    /// The `architectures` and `model_type` values of `config.json`.
    pub hugging_face: &'static [&'static str],
    /// The published models of this family, for the documentation.
    pub models: &'static str,
    read: fn(&Source) -> Result<Spec, Error>,
}

/// Every supported family.
#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    Family { gguf: "llama",    hugging_face: &["LlamaForCausalLM", "llama", "MistralForCausalLM", "mistral"],       models: "Llama 2 and 3.x, SmolLM2, TinyLlama, Mistral",  read: llama::read },
    Family { gguf: "qwen2",    hugging_face: &["Qwen2ForCausalLM", "qwen2"],                                        models: "Qwen2, Qwen2.5, Qwen2.5-Coder",                 read: qwen2::read },
    Family { gguf: "qwen3",    hugging_face: &["Qwen3ForCausalLM", "qwen3"],                                        models: "Qwen3 0.6B to 32B",                             read: qwen3::read },
    Family { gguf: "qwen3moe", hugging_face: &["Qwen3MoeForCausalLM", "qwen3_moe"],                                 models: "Qwen3 30B-A3B, 235B-A22B",                      read: qwen3moe::read },
    Family { gguf: "gemma",    hugging_face: &["GemmaForCausalLM", "gemma"],                                        models: "Gemma 2B and 7B",                               read: gemma::read },
    Family { gguf: "gemma2",   hugging_face: &["Gemma2ForCausalLM", "gemma2"],                                      models: "Gemma 2 2B, 9B, 27B",                           read: gemma2::read },
    Family { gguf: "gemma3",   hugging_face: &["Gemma3ForCausalLM", "gemma3_text", "Gemma3ForConditionalGeneration"], models: "Gemma 3 270M to 27B (text)",                  read: gemma3::read },
    Family { gguf: "phi2",     hugging_face: &["PhiForCausalLM", "phi"],                                            models: "Phi-1, Phi-1.5, Phi-2",                         read: phi2::read },
    Family { gguf: "phi3",     hugging_face: &["Phi3ForCausalLM", "phi3"],                                          models: "Phi-3, Phi-3.5, Phi-4, Phi-4-mini",             read: phi3::read },
    Family { gguf: "granite",  hugging_face: &["GraniteForCausalLM", "granite"],                                    models: "Granite 3.x, dense",                            read: granite::read },
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
            names.contains(&family.gguf)
        } else {
            family.hugging_face.iter().any(|name| names.contains(name))
        }
    };
    let family = FAMILIES.iter().find(known).ok_or_else(|| Error::UnknownFamily {
        found: names.join(", "),
        supported: FAMILIES.iter().map(|f| f.gguf).collect::<Vec<_>>().join(", "),
    })?;
    keys::refuse(source, family.gguf)?;
    (family.read)(source)
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
