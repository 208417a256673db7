//! A model as work: its weights by format, its attention, its memory, from its file or its published shape alone.

use kernels::{KvDtype, Matrix, Precision};
use model::{Layer, LayerWeight as Place, LmHead, PackedWeight, Spec, WeightRole, shapes};
use planner::step::{AttentionLayers, ModelWork, WeightGroup};
use tensor::Dtype;

use crate::{Failure, found, store};

/// A model that was looked at, and not loaded.
pub(super) struct Looked {
    /// As it was asked for.
    pub(super) label: String,
    pub(super) spec: Spec,
    pub(super) parameters: u64,
    /// Bytes of all weights in memory.
    pub(super) weight_bytes: u64,
    pub(super) work: ModelWork,
    /// All weights as they are loaded.
    pub(super) packed: Vec<PackedWeight>,
}

/// A model file, found or pulled.
///
/// # Errors
/// No such model, or a damaged one.
pub(super) fn file(name: &str, tier: cpu::Tier, kv: KvDtype) -> Result<Looked, Failure> {
    let opened = weights::open(&store::resolve(name)?)?;
    looked(name.to_owned(), &opened, tier, kv)
}

/// A published shape, `NAME:FORMAT`.
///
/// # Errors
/// An unknown name or format, with those that are known.
pub(super) fn shape(text: &str, tier: cpu::Tier, kv: KvDtype) -> Result<Looked, Failure> {
    let (shape, recipe) = shapes::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
    looked(shape.label(recipe), &shape.outline(recipe)?, tier, kv)
}

fn looked(label: String, opened: &weights::Opened, tier: cpu::Tier, kv: KvDtype) -> Result<Looked, Failure> {
    let spec = Spec::read(opened).map_err(|error| found::of(&label, error))?;
    let mut packed =
        spec.packed_weights(opened, tier, Precision::Fast).map_err(|error| found::of(&label, error))?;
    if spec.encoder.is_some() {
        packed.iter_mut().for_each(|weight| as_int8(weight, tier));
    }
    let work = work(&spec, &packed, kv);
    let weight_bytes = packed.iter().map(|weight| weight.bytes).sum();
    Ok(Looked { label, parameters: spec.parameters(), weight_bytes, work, spec, packed })
}

/// The weight as an encoder has it that is computed in int8, as most are.
fn as_int8(weight: &mut PackedWeight, tier: cpu::Tier) {
    let is_float = matches!(weight.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
    if weight.vector || weight.role.is_task() || !is_float {
        return;
    }
    let blocks = weight.role != WeightRole::Embedding && weight.cols.is_multiple_of(32);
    weight.dtype = if blocks { Dtype::Q8_0 } else { Dtype::BF16 };
    weight.bytes = Matrix::packed_bytes(tier, weight.dtype, weight.rows, weight.cols, Precision::Fast);
}

fn work(spec: &Spec, packed: &[PackedWeight], kv: KvDtype) -> ModelWork {
    let (mut body, mut head) = (Vec::new(), Vec::new());
    let (count, used) = spec.experts();
    let experts = (count > 0).then_some((count as f64, used as f64));
    for weight in packed.iter().filter(|weight| !weight.vector) {
        match weight.role {
            WeightRole::Head => add(&mut head, weight, None),
            WeightRole::Embedding if spec.lm_head == LmHead::Tied => add(&mut head, weight, None),
            // Of an embedding that is not the head, a row reads its own line.
            WeightRole::Embedding
            | WeightRole::Position
            | WeightRole::TokenType
            | WeightRole::PerLayerEmbedding
            | WeightRole::Relative
            | WeightRole::RelativeBias
            // Once a text, not once a token.
            | WeightRole::Task(_) => {}
            WeightRole::Layer(_, Place::ExpertGate(_) | Place::ExpertUp(_) | Place::ExpertDown(_)) => {
                add(&mut body, weight, experts);
            }
            _ => add(&mut body, weight, None),
        }
    }
    ModelWork { body, head, attention: attention(spec, kv), elements: elements(spec) }
}

/// Joins a weight with those of its format.
fn add(parts: &mut Vec<WeightGroup>, weight: &PackedWeight, experts: Option<(f64, f64)>) {
    let format = weight.dtype.name();
    let multiply_adds = weight.rows as f64 * weight.cols as f64;
    let bytes = weight.bytes as f64;
    match parts.iter_mut().find(|part| part.format == format && part.experts == experts) {
        Some(part) => {
            part.multiply_adds += multiply_adds;
            part.bytes += bytes;
        }
        None => parts.push(WeightGroup { format: format.to_owned(), multiply_adds, bytes, experts }),
    }
}

/// Layers by what they see.
fn attention(spec: &Spec, kv: KvDtype) -> Vec<AttentionLayers> {
    let mut all: Vec<AttentionLayers> = Vec::new();
    for (index, layer) in spec.layers.iter().enumerate().filter(|(_, layer)| layer.mixer.is_attention()) {
        let window = layer.window.map(|window| window as f64);
        let one = spec.kv_layer_bytes(index, kv) as f64;
        // Scores, and the mix of values.
        let multiply_adds = 2.0 * spec.query_width_of(layer) as f64;
        match all.iter_mut().find(|group| group.window == window) {
            Some(group) => {
                group.multiply_adds += multiply_adds;
                group.bytes += one;
            }
            None => all.push(AttentionLayers { multiply_adds, bytes: one, window }),
        }
    }
    all
}

/// Two norms, queries, keys, and both sides of the activation.
fn elements(spec: &Spec) -> f64 {
    let row = |layer: &Layer| {
        let heads = spec.query_width_of(layer) + spec.heads_of(layer).width();
        (2 * spec.width + heads + 2 * layer.feed.active_width()) as f64
    };
    spec.layers.iter().map(row).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_what_the_model_counts() {
        for name in ["qwen3-0.6b:q4_k_m", "gemma3-1b:q8_0", "llama2-7b:q4_0", "gemma4-e2b:q4_k_m"] {
            let looked = shape(name, cpu::Tier::Scalar, KvDtype::F16).unwrap();
            let spec = &looked.spec;
            let products: f64 =
                [&looked.work.body, &looked.work.head].into_iter().flatten().map(|p| p.multiply_adds).sum();
            let scores: f64 = looked.work.attention.iter().map(|group| group.multiply_adds).sum();
            assert_eq!(products + scores, spec.multiply_adds(0, 1, 1) as f64, "{name}");
            let kv: f64 = looked.work.attention.iter().map(|group| group.bytes).sum();
            assert_eq!(kv, spec.kv_read_bytes(0, KvDtype::F16) as f64, "{name}");
        }
    }

    #[test]
    fn a_model_of_any_size_is_looked_at_without_its_weights() {
        let large = shape("phi-4:bf16", cpu::Tier::Scalar, KvDtype::F16).unwrap();
        assert!(large.weight_bytes > 22_000_000_000 && large.parameters > 14_000_000_000);
    }
}
