//! Tensor names of mixtures of experts: the router, the experts, alone or stacked, and what all rows share.

use crate::mixture::Mixture;
use crate::spec::{FeedForward, Spec};
use crate::tensor_location::{BLOCKS, Slice, TensorLocation};
use crate::weight_role::LayerWeight;

/// The tensors that may hold a weight of a mixture in a GGUF, where `full` makes the name in its layer.
pub(crate) fn gguf(
    spec: &Spec,
    layer: usize,
    part: LayerWeight,
    full: &dyn Fn(&str) -> String,
) -> Vec<TensorLocation> {
    let FeedForward::Experts(Mixture { count, width: ff, beside, .. }) = spec.layers[layer].feed else {
        return Vec::new();
    };
    let any = |names: &[&str]| names.iter().map(|name| TensorLocation::whole(full(name))).collect();
    let stacked = |name: &str, index, rows, first_fused: Option<usize>| {
        let at = |name: &str, first, of| {
            let slice = Slice::Expert { index, count, first, of };
            TensorLocation { name: full(&format!("{name}_exps.weight")), slice }
        };
        let fused = first_fused.map(|first| at("ffn_gate_up", first, 2 * rows));
        let alone = TensorLocation::whole(full(&format!("{name}.{index}.weight")));
        [at(name, 0, rows), alone].into_iter().chain(fused).collect()
    };
    match part {
        LayerWeight::Router => any(&["ffn_gate_inp.weight"]),
        LayerWeight::RouterBias => any(&["ffn_gate_inp.bias", "exp_probs_b.bias"]),
        LayerWeight::ExpertGate(e) => stacked("ffn_gate", e, ff, Some(0)),
        LayerWeight::ExpertUp(e) => stacked("ffn_up", e, ff, Some(ff)),
        LayerWeight::ExpertDown(e) => stacked("ffn_down", e, spec.width, None),
        LayerWeight::ExpertGateBiases => any(&["ffn_gate_exps.bias"]),
        LayerWeight::ExpertUpBiases => any(&["ffn_up_exps.bias"]),
        LayerWeight::ExpertDownBiases => any(&["ffn_down_exps.bias"]),
        LayerWeight::RouterNorm => any(&["ffn_gate_inp.scale"]),
        LayerWeight::ExpertScales => any(&["ffn_down_exps.scale"]),
        LayerWeight::ExpertsNorm => any(&["pre_ffw_norm_2.weight"]),
        LayerWeight::ExpertsPostNorm => any(&["post_ffw_norm_2.weight"]),
        LayerWeight::SharedPostNorm => any(&["post_ffw_norm_1.weight"]),
        LayerWeight::SharedGate if beside => any(&["ffn_gate.weight"]),
        LayerWeight::SharedUp if beside => any(&["ffn_up.weight"]),
        LayerWeight::SharedDown if beside => any(&["ffn_down.weight"]),
        LayerWeight::SharedRouter => any(&["ffn_gate_inp_shexp.weight"]),
        LayerWeight::SharedGate => any(&["ffn_gate_shexp.weight"]),
        LayerWeight::SharedUp => any(&["ffn_up_shexp.weight"]),
        LayerWeight::SharedDown => any(&["ffn_down_shexp.weight"]),
        _ => Vec::new(),
    }
}

/// Where the projections of the shared expert are in a Hugging Face directory, within their layer.
const SHARED_FOLDERS: [&str; 3] = ["mlp.shared_expert", "mlp.shared_experts", "mixer.shared_experts"];

/// The tensors that may hold a weight of a mixture in a Hugging Face directory.
pub(crate) fn hugging_face(
    spec: &Spec,
    layer: usize,
    part: LayerWeight,
    full: &dyn Fn(&str) -> String,
) -> Vec<TensorLocation> {
    let FeedForward::Experts(mixture) = spec.layers[layer].feed else { return Vec::new() };
    let any = |names: &[&str]| names.iter().map(|name| TensorLocation::whole(full(name))).collect();
    let width = mixture.shared.map_or(0, |shared| shared.width);
    let shared = |projection: &str, both: &str, first: Option<usize>| {
        let fused = match first {
            Some(first) => TensorLocation::rows(full(both), first, 2 * width),
            None => TensorLocation::whole(full(both)),
        };
        let own = |folder: &str| TensorLocation::whole(full(&format!("{folder}.{projection}.weight")));
        SHARED_FOLDERS.map(own).into_iter().chain([fused]).collect()
    };
    match part {
        LayerWeight::Router => any(&[
            "mlp.gate.weight",
            "mlp.router.weight",
            "block_sparse_moe.gate.weight",
            "block_sparse_moe.router.layer.weight",
            "feed_forward.gate.weight",
            "mixer.gate.weight",
            "router.proj.weight",
        ]),
        LayerWeight::RouterBias => any(&[
            "mlp.router.bias",
            "mlp.gate.e_score_correction_bias",
            "mlp.moe_statics.e_score_correction_bias",
            "feed_forward.expert_bias",
            "mixer.gate.e_score_correction_bias",
        ]),
        LayerWeight::ExpertGate(e) => expert(spec, &mixture, full, e, Projection::GATE),
        LayerWeight::ExpertUp(e) => expert(spec, &mixture, full, e, Projection::UP),
        LayerWeight::ExpertDown(e) => expert(spec, &mixture, full, e, Projection::DOWN),
        LayerWeight::ExpertGateBiases | LayerWeight::ExpertUpBiases => {
            let first = usize::from(part == LayerWeight::ExpertUpBiases);
            let name = full("mlp.experts.gate_up_proj_bias");
            vec![TensorLocation { name, slice: Slice::Every { first, step: 2 } }]
        }
        LayerWeight::ExpertDownBiases => any(&["mlp.experts.down_proj_bias"]),
        LayerWeight::RouterNorm => any(&["router.scale"]),
        LayerWeight::ExpertScales => any(&["router.per_expert_scale"]),
        LayerWeight::ExpertsNorm => any(&["pre_feedforward_layernorm_2.weight"]),
        LayerWeight::ExpertsPostNorm => any(&["post_feedforward_layernorm_2.weight"]),
        LayerWeight::SharedPostNorm => any(&["post_feedforward_layernorm_1.weight"]),
        LayerWeight::SharedGate if mixture.beside => any(&["mlp.gate_proj.weight"]),
        LayerWeight::SharedUp if mixture.beside => any(&["mlp.up_proj.weight"]),
        LayerWeight::SharedDown if mixture.beside => any(&["mlp.down_proj.weight"]),
        LayerWeight::SharedRouter => any(&["mlp.shared_expert_gate.weight"]),
        LayerWeight::SharedGate => shared("gate_proj", "shared_mlp.input_linear.weight", Some(0)),
        LayerWeight::SharedUp => shared("up_proj", "shared_mlp.input_linear.weight", Some(width)),
        LayerWeight::SharedDown => shared("down_proj", "shared_mlp.output_linear.weight", None),
        _ => Vec::new(),
    }
}

/// A projection of an expert: its names where experts are alone, and its place where they are stacked.
#[derive(Clone, Copy)]
struct Projection {
    /// With the names of most models.
    long: &'static str,
    /// With those of Mixtral and LFM2.
    short: &'static str,
    /// The stack that holds it, after `experts.`, and that of Granite.
    stacks: [&'static str; 2],
    /// Which half of its stack it is; `None` for all of it.
    half: Option<usize>,
}

impl Projection {
    const GATE: Projection = Projection {
        long: "gate_proj",
        short: "w1",
        stacks: ["gate_up_proj", "input_linear.weight"],
        half: Some(0),
    };
    const UP: Projection = Projection { long: "up_proj", short: "w3", half: Some(1), ..Projection::GATE };
    const DOWN: Projection = Projection {
        long: "down_proj",
        short: "w2",
        stacks: ["down_proj", "output_linear.weight"],
        half: None,
    };
}

/// The tensors that may hold a projection of expert `index` in a Hugging Face directory.
fn expert(
    spec: &Spec,
    mixture: &Mixture,
    full: &dyn Fn(&str) -> String,
    index: usize,
    projection: Projection,
) -> Vec<TensorLocation> {
    let Projection { long, short, stacks: [stack, granite], half } = projection;
    let count = mixture.count;
    // gpt-oss has its stacks transposed, with gate and up interleaved.
    if spec.family == "gpt-oss" {
        let (first, step) = half.map_or((0, 1), |half| (half, 2));
        let name = full(&format!("mlp.experts.{stack}"));
        let blocks = format!("{name}{BLOCKS}");
        return vec![
            TensorLocation { name: blocks, slice: Slice::ExpertBlocks { index, count, first, step } },
            TensorLocation { name, slice: Slice::ExpertColumns { index, count, first, step } },
        ];
    }
    let (first, of) = match half {
        Some(half) => (half * mixture.width, 2 * mixture.width),
        None => (0, spec.width),
    };
    let stacked = |name: &str| {
        let slice = Slice::Expert { index, count, first, of };
        TensorLocation { name: full(name), slice }
    };
    let alone = |folder: &str, name: &str| {
        TensorLocation::whole(full(&format!("{folder}.experts.{index}.{name}.weight")))
    };
    vec![
        alone("mlp", long),
        stacked(&format!("mlp.experts.{stack}")),
        alone("block_sparse_moe", short),
        stacked(&format!("block_sparse_moe.{granite}")),
        alone("feed_forward", short),
        stacked(&format!("feed_forward.experts.{stack}")),
        alone("mixer", long),
        stacked(&format!("experts.{stack}")),
    ]
}
