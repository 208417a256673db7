//! Tensor names of latent attention, within their layer.

use crate::latent::LatentAttention;
use crate::mixer::Mixer;
use crate::tensor_location::{Slice, TensorLocation};
use crate::weight_role::LayerWeight;

/// The tensors that may hold a weight of latent attention in a GGUF, where `full` makes the name in its layer; none for other
/// weights.
pub(crate) fn gguf(
    mixer: &Mixer,
    part: LayerWeight,
    full: &dyn Fn(&str) -> String,
) -> Option<Vec<TensorLocation>> {
    let Mixer::Latent(net) = mixer else { return None };
    let of_head = |name: &str, index, of| {
        let slice = Slice::Expert { index, count: net.heads, first: 0, of };
        TensorLocation { name: full(name), slice }
    };
    Some(match part {
        // Older files have the keys' and values' projections as one.
        LayerWeight::HeadKey(head) => {
            vec![of_head("attn_k_b.weight", head, net.rank), key_of(net, head, full("attn_kv_b.weight"))]
        }
        LayerWeight::HeadValue(head) => {
            let own = of_head("attn_v_b.weight", head, net.value_dim);
            vec![own, value_of(net, head, full("attn_kv_b.weight"))]
        }
        LayerWeight::QueryLatent => whole(full("attn_q_a.weight")),
        LayerWeight::QueryLatentNorm => whole(full("attn_q_a_norm.weight")),
        LayerWeight::Query if net.query_rank.is_some() => whole(full("attn_q_b.weight")),
        LayerWeight::KvLatent => whole(full("attn_kv_a_mqa.weight")),
        LayerWeight::KvLatentNorm => whole(full("attn_kv_a_norm.weight")),
        _ => return None,
    })
}

/// The tensors that may hold a weight of latent attention in a Hugging Face directory; none for other weights.
pub(crate) fn hugging_face(
    mixer: &Mixer,
    part: LayerWeight,
    full: &dyn Fn(&str) -> String,
) -> Option<Vec<TensorLocation>> {
    let Mixer::Latent(net) = mixer else { return None };
    let own = |name: &str| whole(full(&format!("self_attn.{name}.weight")));
    let both = || full("self_attn.kv_b_proj.weight");
    Some(match part {
        LayerWeight::HeadKey(head) => vec![key_of(net, head, both())],
        LayerWeight::HeadValue(head) => vec![value_of(net, head, both())],
        LayerWeight::QueryLatent => own("q_a_proj"),
        LayerWeight::QueryLatentNorm => own("q_a_layernorm"),
        LayerWeight::Query if net.query_rank.is_some() => own("q_b_proj"),
        LayerWeight::KvLatent => own("kv_a_proj_with_mqa"),
        LayerWeight::KvLatentNorm => own("kv_a_layernorm"),
        _ => return None,
    })
}

fn whole(name: String) -> Vec<TensorLocation> {
    vec![TensorLocation::whole(name)]
}

/// A head's key projection in the tensor of all keys and values: its rows, of which the columns are ours.
fn key_of(net: &LatentAttention, head: usize, name: String) -> TensorLocation {
    let rows = net.plain + net.value_dim;
    TensorLocation { name, slice: Slice::Transposed { first: head * rows, of: net.heads * rows } }
}

/// A head's value projection in that tensor.
fn value_of(net: &LatentAttention, head: usize, name: String) -> TensorLocation {
    let rows = net.plain + net.value_dim;
    TensorLocation::rows(name, head * rows + net.plain, net.heads * rows)
}
