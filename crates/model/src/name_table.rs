//! The tables of tensor names that the families of encoders have.

use kernels::Activation;

use crate::weight_role::{LayerWeight, WeightRole};

/// The tensor names of a family in a Hugging Face directory. A name is a stem, to which `.weight` or `.bias` is added
/// (or the older `.gamma` and `.beta`).
#[derive(Debug)]
pub(crate) struct Names {
    /// What may stand before the names of the body, the longest first.
    pub(crate) prefixes: &'static [&'static str],
    /// The token embedding.
    pub(crate) embedding: &'static str,
    /// The other weights outside the layers.
    pub(crate) top: &'static [(WeightRole, &'static str)],
    /// What stands before a layer's number.
    pub(crate) layers: &'static str,
    /// The weights of a layer. A part may be listed more than once: the first that the file has counts.
    pub(crate) parts: &'static [(LayerWeight, &'static str, Fused)],
    /// From pooled hidden states to the logits of labels.
    pub(crate) classifier: &'static [HeadStep],
    /// From a token's hidden state to the logits of labels.
    pub(crate) token_classifier: &'static [HeadStep],
    /// From a token's hidden state to the input of the output embedding.
    pub(crate) masked_lm: &'static [HeadStep],
    /// The bias of the output embedding.
    pub(crate) masked_lm_bias: &'static str,
    /// Parts of names of tensors that no output needs.
    pub(crate) waived: &'static [&'static str],
}

/// The part of a tensor that is a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fused {
    /// The whole.
    No,
    /// The query's rows of query, key and value.
    Query,
    /// The key's rows.
    Key,
    /// The value's rows.
    Value,
    /// The first half of gate and up.
    First,
    /// The second half.
    Second,
}

/// A step from hidden states to an output, by its tensor's stem.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeadStep {
    /// A square matrix whose name has the body's prefix.
    Body(&'static str),
    /// A square matrix.
    Linear(&'static str),
    /// The matrix to the labels.
    Labels(&'static str),
    /// A layer norm.
    Norm(&'static str),
    /// An activation function.
    Activation(Activation),
    /// The activation function that `config.json` names under one of these keys, or this one.
    Configured(&'static [&'static str], Activation),
}

/// What may follow a stem: the usual name, that of old norms, and that of weights to which adapters are added.
pub(crate) const WEIGHT_ENDS: [&str; 3] = [".weight", ".gamma", ".parametrizations.weight.original"];
pub(crate) const BIAS_ENDS: [&str; 2] = [".bias", ".beta"];

impl Names {
    /// The prefix of the body's names in a file that has the tensors of which `has` says so.
    pub(crate) fn prefix(&self, has: &dyn Fn(&str) -> bool) -> &'static str {
        let fits =
            |prefix: &&&str| WEIGHT_ENDS.iter().any(|end| has(&format!("{prefix}{}{end}", self.embedding)));
        self.prefixes.iter().find(fits).copied().unwrap_or_default()
    }

    /// The name of the tensor `stem` of the body in such a file.
    pub(crate) fn tensor(&self, has: &dyn Fn(&str) -> bool, stem: &str) -> String {
        let prefix = self.prefix(has);
        let names = WEIGHT_ENDS.map(|end| format!("{prefix}{stem}{end}"));
        let found = names.iter().find(|name| has(name));
        found.unwrap_or(&names[0]).clone()
    }
}
