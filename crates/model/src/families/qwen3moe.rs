//! Qwen3 with experts: softmax over all experts, top-k for each row, weights renormalised to sum to 1.

use super::qwen3;
use crate::error::Error;
use crate::source::{Key, Source};
use crate::spec::{FeedForward, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = qwen3::read(source)?;
    spec.family = "qwen3moe";
    let experts = FeedForward::Experts {
        count: source.need(Key("expert_count", &["num_experts", "num_local_experts"]), None)?,
        used: source.need(Key("expert_used_count", &["num_experts_per_tok"]), None)?,
        width: source.need(Key("expert_feed_forward_length", &["moe_intermediate_size"]), None)?,
        // GGUF files do not store this; every published model renormalises.
        renormalise: source
            .flag(Key("expert_weights_norm", &["norm_topk_prob"]))?
            .unwrap_or(source.is_gguf()),
    };
    let step = source.size(Key("", &["decoder_sparse_step"]))?.unwrap_or(1).max(1);
    let dense = source.sizes(Key("", &["mlp_only_layers"]))?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let sparse = if source.is_gguf() {
            source.has(&format!("blk.{index}.ffn_gate_inp.weight"))
        } else {
            !dense.contains(&index) && (index + 1).is_multiple_of(step)
        };
        if sparse {
            layer.feed = experts;
        }
    }
    Ok(spec)
}
