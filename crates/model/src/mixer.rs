//! What mixes the positions of a layer: attention over keys and values, or a recurrence with a state.

use crate::error::{Error, require};
use crate::latent::LatentAttention;
use crate::weight_role::LayerWeight;
use kernels::{CausalConv, LinearAttention, StateRule};

/// The mixer of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixer {
    /// There is none: the layer is a feed-forward alone, as in Nemotron-H.
    None,
    /// Attention, by the spec's heads.
    Attention,
    /// Attention whose keys and values are projections of one latent, as in DeepSeek-V2 and V3.
    Latent(LatentAttention),
    /// Gated DeltaNet (Yang, Kautz and Hatamizadeh, 2024), as in Qwen3-Next and Qwen3.5.
    DeltaNet(DeltaNet),
    /// A short convolution between two gates, as in LFM2.
    ShortConv(ShortConv),
    /// Mamba-2 (Dao and Gu, 2024), as in Granite 4 and Nemotron-H.
    Mamba2(Mamba2),
    /// Attention and Mamba-2 side by side: both read the layer's input, and both are added, as in Falcon-H1.
    AttentionAndMamba2(Mamba2),
}

/// Factors on the parts of a Mamba-2 layer, as in Falcon-H1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mamba2Factors {
    /// The factor on the gate.
    pub gate: f32,
    /// The factor on the heads' inputs.
    pub input: f32,
    /// The factor on what writes the states.
    pub write: f32,
    /// The factor on what reads them.
    pub read: f32,
    /// The factor on the steps in time, before their bias.
    pub step: f32,
    /// The factor on the layer's output.
    pub out: f32,
}

impl Mamba2Factors {
    /// None of them changes anything.
    pub const ONE: Mamba2Factors =
        Mamba2Factors { gate: 1.0, input: 1.0, write: 1.0, read: 1.0, step: 1.0, out: 1.0 };
}

/// The dimensions of a Mamba-2 layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mamba2 {
    /// Heads, each with a state `[state_dim, head_dim]`.
    pub heads: usize,
    /// Width of a head's inputs and outputs.
    pub head_dim: usize,
    /// Groups of heads that share what writes and reads their states (B and C); divides `heads`.
    pub groups: usize,
    /// Width of what writes or reads a state.
    pub state_dim: usize,
    /// Inputs that the convolution before it sees, the row's own included.
    pub kernel: usize,
    /// Whether the convolution has a bias.
    pub conv_bias: bool,
    /// The least and the largest step in time.
    pub steps: (f32, f32),
    /// Whether the gated output is normalised.
    pub norm: bool,
    /// Factors on parts of the layer.
    pub factors: Mamba2Factors,
    /// Whether the file stores the logarithm of the decay rates (`A_log`), and not the negative rates.
    pub log_rates: bool,
}

/// The dimensions of a short convolution: `c · conv(b · x)`, where `b`, `c` and `x` are projections of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortConv {
    /// Channels, as many as the model is wide.
    pub channels: usize,
    /// Inputs that the convolution sees, the row's own included.
    pub kernel: usize,
}

/// The dimensions of a gated DeltaNet layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNet {
    /// Heads of queries and keys; divides `value_heads`.
    pub key_heads: usize,
    /// Heads of values, each with a state `[key_dim, value_dim]`.
    pub value_heads: usize,
    /// Width of a query or key.
    pub key_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
    /// Inputs that the convolution before it sees, the row's own included.
    pub kernel: usize,
    /// Whether value head `h` belongs to key head `h % key_heads` (GGUF), and not to the one that its group has.
    pub tiled: bool,
    /// Whether the file stores the logarithm of the decay rates (`A_log`), and not the negative rates.
    pub log_rates: bool,
}

impl DeltaNet {
    /// Width of all queries, which equals that of all keys.
    #[must_use]
    pub fn keys_width(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Width of all values, and of the layer's output before its projection.
    #[must_use]
    pub fn values_width(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Channels of the convolution: queries, keys and values.
    #[must_use]
    pub fn channels(&self) -> usize {
        2 * self.keys_width() + self.values_width()
    }

    /// The recurrence.
    #[must_use]
    pub fn attention(&self) -> LinearAttention {
        LinearAttention {
            key_heads: self.key_heads,
            value_heads: self.value_heads,
            key_dim: self.key_dim,
            value_dim: self.value_dim,
            tiled: self.tiled,
            rule: StateRule::Delta,
        }
    }

    /// Values of a state that the convolution has; those of the recurrence follow.
    pub(crate) fn conv_floats(&self) -> usize {
        CausalConv::state_floats(self.kernel, self.channels())
    }

    fn weights(&self, width: usize, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        put(LayerWeight::MixerInput, &[self.channels(), width]);
        put(LayerWeight::MixerGate, &[self.values_width(), width]);
        put(LayerWeight::Beta, &[self.value_heads, width]);
        put(LayerWeight::Alpha, &[self.value_heads, width]);
        put(LayerWeight::Conv, &[self.channels(), self.kernel]);
        put(LayerWeight::DecayRate, &[self.value_heads]);
        put(LayerWeight::TimeBias, &[self.value_heads]);
        put(LayerWeight::MixerNorm, &[self.value_dim]);
    }

    fn multiply_adds(&self, width: usize) -> usize {
        let rows = self.channels() + self.values_width() + 2 * self.value_heads;
        width * rows + 3 * self.attention().state_floats() + self.channels() * self.kernel
    }

    fn check(&self) -> Result<(), Error> {
        let limits = [
            ("key heads of linear attention", self.key_heads, 1 << 12),
            ("value heads of linear attention", self.value_heads, 1 << 12),
            ("key size of linear attention", self.key_dim, 1 << 12),
            ("value size of linear attention", self.value_dim, 1 << 12),
        ];
        for (what, value, limit) in limits {
            require((1..=limit).contains(&value), what, value, &format!("1 to {limit}"))?;
        }
        require(
            self.value_heads.is_multiple_of(self.key_heads),
            "value heads of linear attention",
            self.value_heads,
            &format!("a multiple of the {} key heads", self.key_heads),
        )?;
        check_kernel(self.kernel)
    }
}

impl Mamba2 {
    /// Width of the outputs of all heads, before the projection.
    #[must_use]
    pub fn inner_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of what writes the states of all groups, which equals that of what reads them.
    #[must_use]
    pub fn keys_width(&self) -> usize {
        self.groups * self.state_dim
    }

    /// Channels of the convolution: the heads' inputs, what writes the states, what reads them.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.inner_width() + 2 * self.keys_width()
    }

    /// Rows of the input projection: the gate, what is convolved, and a step in time for each head.
    #[must_use]
    pub fn input_rows(&self) -> usize {
        self.inner_width() + self.channels() + self.heads
    }

    /// The recurrence.
    #[must_use]
    pub fn attention(&self) -> LinearAttention {
        LinearAttention {
            key_heads: self.groups,
            value_heads: self.heads,
            key_dim: self.state_dim,
            value_dim: self.head_dim,
            tiled: false,
            rule: StateRule::Add,
        }
    }

    /// Values of a state that the convolution has; those of the recurrence follow.
    pub(crate) fn conv_floats(&self) -> usize {
        CausalConv::state_floats(self.kernel, self.channels())
    }

    fn weights(&self, width: usize, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        put(LayerWeight::MixerGate, &[self.inner_width(), width]);
        put(LayerWeight::MixerInput, &[self.channels(), width]);
        put(LayerWeight::TimeStep, &[self.heads, width]);
        put(LayerWeight::Conv, &[self.channels(), self.kernel]);
        if self.conv_bias {
            put(LayerWeight::ConvBias, &[self.channels()]);
        }
        put(LayerWeight::TimeBias, &[self.heads]);
        put(LayerWeight::DecayRate, &[self.heads]);
        put(LayerWeight::Skip, &[self.heads]);
        if self.norm {
            put(LayerWeight::MixerNorm, &[self.inner_width()]);
        }
    }

    fn multiply_adds(&self, width: usize) -> usize {
        let states = 2 * self.attention().state_floats();
        width * self.input_rows() + states + self.channels() * self.kernel + self.inner_width()
    }

    fn check(&self) -> Result<(), Error> {
        let limits = [
            ("Mamba-2 heads", self.heads, 1 << 12),
            ("Mamba-2 head size", self.head_dim, 1 << 12),
            ("Mamba-2 groups", self.groups, self.heads.max(1)),
            ("Mamba-2 state size", self.state_dim, 1 << 12),
        ];
        for (what, value, limit) in limits {
            require((1..=limit).contains(&value), what, value, &format!("1 to {limit}"))?;
        }
        require(
            self.heads.is_multiple_of(self.groups),
            "Mamba-2 heads",
            self.heads,
            &format!("a multiple of the {} groups", self.groups),
        )?;
        let (least, most) = self.steps;
        require(
            least >= 0.0 && least <= most,
            "Mamba-2 step limits",
            format!("{least} to {most}"),
            "not negative, the least first",
        )?;
        let Mamba2Factors { gate, input, write, read, step, out } = self.factors;
        for factor in [gate, input, write, read, step, out] {
            require(factor.is_finite(), "Mamba-2 factor", factor, "a finite number")?;
        }
        check_kernel(self.kernel)
    }
}

fn check_kernel(kernel: usize) -> Result<(), Error> {
    let most = CausalConv::MAX_KERNEL;
    require((2..=most).contains(&kernel), "convolution kernel", kernel, &format!("2 to {most}"))
}

impl Mixer {
    /// Values that the mixer keeps of a sequence in its recurrent state; 0 where it has none.
    #[must_use]
    pub fn state_floats(&self) -> usize {
        match self {
            Mixer::None | Mixer::Attention | Mixer::Latent(_) => 0,
            Mixer::DeltaNet(net) => net.conv_floats() + net.attention().state_floats(),
            Mixer::ShortConv(conv) => CausalConv::state_floats(conv.kernel, conv.channels),
            Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net) => {
                net.conv_floats() + net.attention().state_floats()
            }
        }
    }

    /// Whether this is attention, with keys and values in the KV cache.
    #[must_use]
    pub fn is_attention(&self) -> bool {
        matches!(self, Mixer::Attention | Mixer::Latent(_) | Mixer::AttentionAndMamba2(_))
    }

    /// Whether queries, keys and values are projected from the layer's input, by the spec's heads.
    #[must_use]
    pub fn projects_keys(&self) -> bool {
        matches!(self, Mixer::Attention | Mixer::AttentionAndMamba2(_))
    }

    /// Width of the rows before the output projection, where attention has `attention`.
    pub(crate) fn out_width(&self, attention: usize) -> usize {
        match self {
            Mixer::None => 0,
            Mixer::Attention | Mixer::AttentionAndMamba2(_) => attention,
            Mixer::Latent(net) => net.values_width(),
            Mixer::DeltaNet(net) => net.values_width(),
            Mixer::ShortConv(conv) => conv.channels,
            Mixer::Mamba2(net) => net.inner_width(),
        }
    }

    /// The widest rows before an output projection, where attention has `attention`.
    pub(crate) fn widest_out(&self, attention: usize) -> usize {
        match self {
            Mixer::AttentionAndMamba2(net) => attention.max(net.inner_width()),
            _ => self.out_width(attention),
        }
    }

    /// Width of the rows that are convolved, or of the queries' latent; 0 without either.
    pub(crate) fn channels(&self) -> usize {
        match self {
            Mixer::None | Mixer::Attention => 0,
            Mixer::Latent(net) => net.query_rank.unwrap_or(0),
            Mixer::DeltaNet(net) => net.channels(),
            Mixer::ShortConv(conv) => conv.channels,
            Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net) => net.channels(),
        }
    }

    /// Width of the rows that the mixer needs beside those that are convolved.
    pub(crate) fn mixed_width(&self) -> usize {
        match self {
            Mixer::None | Mixer::Attention => 0,
            Mixer::Latent(net) => net.queries_width().max(net.absorbed_width()),
            Mixer::DeltaNet(net) => net.channels(),
            Mixer::ShortConv(conv) => 3 * conv.channels,
            Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net) => net.channels(),
        }
    }

    /// The widest rows that a projection within the mixer reads.
    pub(crate) fn widest_within(&self) -> usize {
        match self {
            Mixer::Latent(net) => net.widest_of_head().max(net.query_rank.unwrap_or(0)),
            _ => 0,
        }
    }

    /// Factors of each row.
    pub(crate) fn factors(&self) -> usize {
        match self {
            Mixer::None | Mixer::Attention | Mixer::Latent(_) | Mixer::ShortConv(_) => 0,
            Mixer::DeltaNet(net) => net.value_heads,
            Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net) => net.heads,
        }
    }

    /// Multiply-adds of one row in a model of this width, of what is recurrent or projects to latents, before the layer's
    /// output projection.
    pub(crate) fn multiply_adds(&self, width: usize) -> u64 {
        match self {
            Mixer::None | Mixer::Attention => 0,
            Mixer::Latent(net) => net.multiply_adds(width) as u64,
            Mixer::DeltaNet(net) => net.multiply_adds(width) as u64,
            Mixer::ShortConv(conv) => (conv.channels * (3 * width + conv.kernel + 2)) as u64,
            Mixer::Mamba2(net) => net.multiply_adds(width) as u64,
            Mixer::AttentionAndMamba2(net) => (net.multiply_adds(width) + net.inner_width() * width) as u64,
        }
    }

    /// The weights that a recurrent mixer, or latent attention, has in place of query, key and value.
    pub(crate) fn weights(&self, width: usize, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        match self {
            Mixer::None | Mixer::Attention => {}
            Mixer::Latent(net) => net.weights(width, put),
            Mixer::DeltaNet(net) => net.weights(width, put),
            Mixer::ShortConv(conv) => {
                put(LayerWeight::MixerInput, &[3 * conv.channels, width]);
                put(LayerWeight::Conv, &[conv.channels, conv.kernel]);
            }
            Mixer::Mamba2(net) => net.weights(width, put),
            Mixer::AttentionAndMamba2(net) => {
                net.weights(width, put);
                put(LayerWeight::MixerOut, &[width, net.inner_width()]);
            }
        }
    }

    /// Checks the ranges of all dimensions.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Mixer::None | Mixer::Attention => Ok(()),
            Mixer::Latent(net) => net.check(),
            Mixer::DeltaNet(net) => net.check(),
            Mixer::ShortConv(conv) => check_kernel(conv.kernel),
            Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net) => net.check(),
        }
    }
}
