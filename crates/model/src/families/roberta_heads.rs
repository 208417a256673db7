//! The heads of RoBERTa's classes, which other families share.

use crate::name_table::HeadStep;
use kernels::Activation;

pub(super) const CLASSIFIER: &[HeadStep] = &[
    HeadStep::Linear("classifier.dense"),
    HeadStep::Activation(Activation::Tanh),
    HeadStep::Labels("classifier.out_proj"),
];
pub(super) const MASKED_LM: &[HeadStep] = &[
    HeadStep::Linear("lm_head.dense"),
    HeadStep::Activation(Activation::Gelu),
    HeadStep::Norm("lm_head.layer_norm"),
];
pub(super) const MASKED_LM_BIAS: &str = "lm_head.bias";
