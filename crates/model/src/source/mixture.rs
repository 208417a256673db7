//! Reads mixtures of experts: how many there are, which layers have them, and how their router chooses.

use super::{Key, Source};
use crate::error::Error;
use crate::mixture::{ExpertGroups, Mixture, Router, Score, SharedExpert};
use crate::spec::{FeedForward, Spec};

const COUNT: Key =
    Key("expert_count", &["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"]);
const USED: Key = Key("expert_used_count", &["num_experts_per_tok", "moe_k", "top_k_experts"]);
const SCALE: Key = Key("expert_weights_scale", &["routed_scaling_factor"]);
const GATING: Key = Key("expert_gating_func", &[]);
const NORM: Key = Key("expert_weights_norm", &["norm_topk_prob"]);
const GROUPS: Key = Key("expert_group_count", &["n_group"]);
const GROUPS_USED: Key = Key("expert_group_used_count", &["topk_group"]);
const SHARED: Key = Key("expert_shared_feed_forward_length", &[]);
const LEADING: Key =
    Key("leading_dense_block_count", &["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"]);

/// Rows of one expert's gate and up, where a file has a width for experts.
pub(crate) const EXPERT_WIDTH: Key = Key("expert_feed_forward_length", &["moe_intermediate_size"]);

/// The values of `expert_gating_func` in a GGUF, with llama.cpp's names: `SOFTMAX`, `SIGMOID`, `SOFTMAX_WEIGHT`.
const GATINGS: [(usize, Score); 3] = [(1, Score::Softmax), (2, Score::Sigmoid), (3, Score::SoftmaxOfPicked)];

impl Source<'_> {
    /// The mixture that the file declares, with experts of `width`, without a shared expert. `router` is that of the
    /// family, for what the file does not tell. The errors name the file's keys.
    pub(crate) fn mixture(&self, width: usize, router: Router) -> Result<Mixture, Error> {
        let (count, used) = (self.need(COUNT, None)?, self.need(USED, None)?);
        if used > count {
            return Err(self.bad(USED, used, format!("at most the {count} experts")));
        }
        let score = match self.size(GATING)?.filter(|&code| code != 0) {
            None => router.score,
            Some(code) => match GATINGS.iter().find(|(of, _)| *of == code) {
                Some((_, score)) => *score,
                None => return Err(self.bad(GATING, code, "1 to 3".into())),
            },
        };
        let router = Router {
            score,
            renormalise: self.flag(NORM)?.unwrap_or(router.renormalise),
            scale: self.float(SCALE)?.filter(|&scale| scale != 0.0).unwrap_or(router.scale),
            ..router
        };
        if !router.scale.is_finite() {
            return Err(self.bad(SCALE, router.scale, "a finite number".into()));
        }
        Ok(Mixture { count, used, width, biases: false, router, shared: None, beside: false })
    }

    /// The groups of experts that a router may pick from, if there is more than one.
    pub(crate) fn expert_groups(&self) -> Result<Option<ExpertGroups>, Error> {
        match self.size(GROUPS)? {
            None | Some(0 | 1) => Ok(None),
            Some(count) => Ok(Some(ExpertGroups { count, used: self.need(GROUPS_USED, None)? })),
        }
    }

    /// Whether a GGUF declares experts.
    pub(crate) fn gguf_has_experts(&self) -> Result<bool, Error> {
        Ok(self.is_gguf() && self.size(COUNT)?.is_some_and(|count| count > 0))
    }

    /// How many layers come before the first with experts, if the file says so.
    pub(crate) fn leading_dense(&self) -> Result<Option<usize>, Error> {
        self.size(LEADING)
    }

    /// Gives the mixture to the layers that have a router; to those of `index` for which `sparse` says so where the file
    /// does not name its tensors by layer (`config.json`), or has none (a shape).
    pub(crate) fn spread(&self, spec: &mut Spec, mixture: Mixture, sparse: impl Fn(usize) -> bool) {
        let router = |index: usize| self.has(&format!("blk.{index}.ffn_gate_inp.weight"));
        let told = (0..spec.layers.len()).any(router);
        for (index, layer) in spec.layers.iter_mut().enumerate() {
            if if told { router(index) } else { sparse(index) } {
                layer.feed = FeedForward::Experts(mixture);
            }
        }
    }

    /// The shared expert of a GGUF, if it has one: as wide as its tensor, or as its key says.
    pub(crate) fn gguf_shared(&self, layers: usize, gated: bool) -> Result<Option<SharedExpert>, Error> {
        let tensor = (0..layers).find_map(|index| self.rows(&format!("blk.{index}.ffn_up_shexp.weight")));
        let width = match tensor {
            Some(rows) => Some(rows),
            None => self.size(SHARED)?.filter(|&width| width > 0),
        };
        Ok(width.map(|width| SharedExpert { width, gated }))
    }
}
