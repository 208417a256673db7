//! What a family takes for keys that are not in the file.

use crate::spec::NormKind;

/// The defaults of a family's published configuration class, for keys that `config.json` leaves out.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    pub(crate) norm: NormKind,
    pub(crate) tied: bool,
    /// The norm's epsilon.
    pub(crate) eps: Option<f32>,
    pub(crate) rope_base: f32,
    pub(crate) partial_rotary: f64,
    /// Whether "dynamic" rope with a fixed `alpha` stretches the base.
    pub(crate) ntk_alpha: bool,
    pub(crate) width: Option<usize>,
    pub(crate) layers: Option<usize>,
    pub(crate) heads: Option<usize>,
    pub(crate) kv_heads: Option<usize>,
    /// Whether a GGUF may list the KV heads of each layer, 0 for those without attention.
    pub(crate) listed: bool,
    /// Whether the heads of the KV cache are told in other keys: those of latent attention.
    pub(crate) latent: bool,
    pub(crate) head_dim: Option<usize>,
    pub(crate) feed: Option<usize>,
    pub(crate) context: Option<usize>,
}

impl Defaults {
    /// A class that leaves nothing out.
    pub(crate) const NONE: Defaults = Defaults {
        norm: NormKind::Rms,
        tied: false,
        eps: None,
        rope_base: 10_000.0,
        partial_rotary: 1.0,
        ntk_alpha: false,
        width: None,
        layers: None,
        heads: None,
        kv_heads: None,
        listed: false,
        latent: false,
        head_dim: None,
        feed: None,
        context: None,
    };
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults::NONE
    }
}
