//! What a model's file is, for clients that list models.

use server::ModelDetails;
use weights::{Element, ModelFormat, Opened};

/// The details of a model that was opened and read as `spec`.
pub(crate) fn of(opened: &Opened, spec: &model::Spec) -> ModelDetails {
    ModelDetails {
        format: match opened.kind() {
            ModelFormat::Gguf => "gguf",
            ModelFormat::HuggingFace => "safetensors",
        }
        .to_owned(),
        family: spec.family.to_owned(),
        parameters: spec.parameters(),
        quantization: most(opened).map_or_else(String::new, |element| element.name().to_uppercase()),
        weight_bytes: tensor_bytes(opened),
        width: spec.width,
        layers: spec.layers.len(),
    }
}

/// Bytes of all tensors as the file holds them.
pub(crate) fn tensor_bytes(opened: &weights::Opened) -> u64 {
    opened.tensors().map(|tensor| tensor.bytes as u64).sum()
}

/// The format of most numbers of its weights.
fn most(opened: &Opened) -> Option<Element> {
    let mut counts: Vec<(Element, u64)> = Vec::new();
    for tensor in opened.tensors() {
        match counts.iter_mut().find(|(element, _)| *element == tensor.element) {
            Some((_, count)) => *count += tensor.count(),
            None => counts.push((tensor.element, tensor.count())),
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(element, _)| element)
}
