//! Mixtures of experts, as data: the experts of a layer, and how its router chooses and weighs them.

use crate::weight_role::LayerWeight;

/// A mixture of experts: a router picks some of them for each row; others are used by every row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixture {
    /// The number of experts that the router chooses from.
    pub count: usize,
    /// The experts that each row uses (top-k).
    pub used: usize,
    /// Rows of one expert's gate and up.
    pub width: usize,
    /// Whether gate, up and down of the experts have biases.
    pub biases: bool,
    /// How experts are chosen and weighed.
    pub router: Router,
    /// The expert that every row uses.
    pub shared: Option<SharedExpert>,
    /// Whether the shared expert is the layer's own feed-forward, with the router and the other experts beside it: each
    /// of the three normalises the layer's input for itself, and the two outputs are normalised before they are added
    /// (Gemma 4). The weights of picked experts then have a factor for each expert.
    pub beside: bool,
}

/// How a router chooses experts for a row and weighs their outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// What makes scores of the router's logits.
    pub score: Score,
    /// What the router's bias is added to; `None` for a router without.
    pub bias: Option<RouterBias>,
    /// The limit of a row's experts to some groups of them.
    pub groups: Option<ExpertGroups>,
    /// Whether the weights of the picked experts are scaled to sum to 1 (`norm_topk_prob`).
    pub renormalise: bool,
    /// The factor on the weights of the picked experts.
    pub scale: f32,
}

/// What makes scores of a router's logits; the weights of the picked experts are their scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each expert's logit.
    Sigmoid,
    /// Experts are picked by their logits, and weighed by a softmax over those that were picked.
    SoftmaxOfPicked,
}

/// What a router's bias `[count]` is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterBias {
    /// The logits: it changes which experts are picked, and their weights.
    Logits,
    /// The scores by which experts are picked, but not their weights.
    Choice,
}

/// Groups of as many consecutive experts each. A group's score is the sum of its two best, or its best after a softmax; the
/// experts of the `used` best groups may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// The number of groups; divides the number of experts.
    pub count: usize,
    /// The groups that a row's experts may come from.
    pub used: usize,
}

/// An expert that every row uses, or several of them as one feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Rows of its gate and up.
    pub width: usize,
    /// Whether its output is multiplied by the sigmoid of a projection of the row (Qwen2-MoE).
    pub gated: bool,
}

impl Router {
    /// A softmax over all experts, without a bias.
    pub const SOFTMAX: Router =
        Router { score: Score::Softmax, bias: None, groups: None, renormalise: true, scale: 1.0 };
}

impl Mixture {
    /// Rows of gate and up of all that a row uses.
    #[must_use]
    pub fn active_width(&self) -> usize {
        self.used * self.width + self.shared.map_or(0, |shared| shared.width)
    }

    /// The number of experts that `rows` rows use together, as expected where a router prefers none.
    #[must_use]
    pub fn expected_experts(&self, rows: usize) -> f64 {
        let (count, used) = (self.count as f64, self.used as f64);
        count * (1.0 - (1.0 - used / count).powf(rows as f64))
    }

    /// Tells `put` of every weight of a layer with this mixture, in a model of `width`; `gated` as of the model's spec.
    pub(crate) fn weights(&self, width: usize, gated: bool, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        let Mixture { count, width: ff, biases, router, shared, beside, .. } = *self;
        let mut optional = |there: bool, part: LayerWeight, shape: &[usize]| {
            if there {
                put(part, shape);
            }
        };
        optional(true, LayerWeight::Router, &[count, width]);
        optional(router.bias.is_some(), LayerWeight::RouterBias, &[count]);
        optional(beside, LayerWeight::RouterNorm, &[width]);
        optional(beside, LayerWeight::ExpertScales, &[count]);
        optional(beside, LayerWeight::ExpertsNorm, &[width]);
        for expert in 0..count {
            optional(gated, LayerWeight::ExpertGate(expert), &[ff, width]);
            optional(true, LayerWeight::ExpertUp(expert), &[ff, width]);
            optional(true, LayerWeight::ExpertDown(expert), &[width, ff]);
        }
        optional(gated && biases, LayerWeight::ExpertGateBiases, &[count, ff]);
        optional(biases, LayerWeight::ExpertUpBiases, &[count, ff]);
        optional(biases, LayerWeight::ExpertDownBiases, &[count, width]);
        if let Some(SharedExpert { width: ff, gated: weighed }) = shared {
            optional(weighed, LayerWeight::SharedRouter, &[1, width]);
            optional(gated, LayerWeight::SharedGate, &[ff, width]);
            optional(true, LayerWeight::SharedUp, &[ff, width]);
            optional(true, LayerWeight::SharedDown, &[width, ff]);
        }
        optional(beside, LayerWeight::ExpertsPostNorm, &[width]);
        optional(beside, LayerWeight::SharedPostNorm, &[width]);
    }

    /// The first dimension that is out of range: what it is, its value, and what is accepted.
    pub(crate) fn problem(&self) -> Option<(&'static str, usize, String)> {
        let mut limits = vec![("experts", self.count, 1, MAX_EXPERTS)];
        // Without groups, all experts are one.
        let groups = self.router.groups.unwrap_or(ExpertGroups { count: 1, used: 1 });
        limits.push(("groups of experts", groups.count, 1, self.count.min(MAX_GROUPS)));
        limits.push(("groups of experts used", groups.used, 1, groups.count));
        let choice = self.count / groups.count.max(1) * groups.used;
        limits.push(("experts used", self.used, 1, choice.min(MAX_EXPERTS_USED)));
        limits.push(("feed-forward width of an expert", self.width, 1, 1 << 22));
        if let Some(shared) = self.shared {
            limits.push(("feed-forward width of the shared expert", shared.width, 1, 1 << 22));
        }
        let out = limits.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value));
        if let Some((what, value, least, most)) = out {
            return Some((what, value, format!("{least} to {most}")));
        }
        let divides =
            self.count.is_multiple_of(groups.count) && (groups.count == 1 || self.count / groups.count >= 2);
        (!divides).then(|| {
            (
                "groups of experts",
                groups.count,
                format!("groups of as many of the {} experts, 2 or more", self.count),
            )
        })
    }
}

/// The most experts of a layer; a file with more is refused.
const MAX_EXPERTS: usize = 4096;

/// The most groups that the experts of a layer may be in; a file with more is refused.
pub(crate) const MAX_GROUPS: usize = 64;

/// The most experts that a row may use; a file with more is refused.
const MAX_EXPERTS_USED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const MIXTURE: Mixture = Mixture {
        count: 8,
        used: 2,
        width: 64,
        biases: false,
        router: Router::SOFTMAX,
        shared: None,
        beside: false,
    };

    #[test]
    fn a_batch_uses_more_experts_than_a_row_and_never_all_for_certain() {
        assert!((MIXTURE.expected_experts(1) - 2.0).abs() < 1e-12);
        assert!((MIXTURE.expected_experts(2) - 3.5).abs() < 1e-12);
        let many = MIXTURE.expected_experts(64);
        assert!(many < 8.0 && many > 7.99, "{many}");
        assert_eq!(Mixture { used: 8, ..MIXTURE }.expected_experts(3), 8.0);
    }

    #[test]
    fn abuse_a_router_that_names_more_than_there_is_is_told_by_name_value_and_limit() {
        assert_eq!(MIXTURE.problem(), None);
        let grouped = |count, used| {
            let router = Router { groups: Some(ExpertGroups { count, used }), ..Router::SOFTMAX };
            Mixture { router, ..MIXTURE }.problem()
        };
        assert_eq!(grouped(4, 1), None);
        assert_eq!(
            Mixture { used: 300, count: 256, ..MIXTURE }.problem().map(|p| (p.0, p.1)),
            Some(("experts used", 300))
        );
        assert_eq!(grouped(9, 1).map(|p| p.0), Some("groups of experts"));
        assert_eq!(grouped(3, 1).map(|p| p.0), Some("groups of experts"));
        assert_eq!(grouped(4, 5).map(|p| p.0), Some("groups of experts used"));
        // Two experts a group: a row that uses three cannot take them from one.
        assert_eq!(
            Mixture {
                used: 3,
                router: Router { groups: Some(ExpertGroups { count: 4, used: 1 }), ..Router::SOFTMAX },
                ..MIXTURE
            }
            .problem(),
            Some(("experts used", 3, "1 to 2".to_owned()))
        );
    }
}
