//! Which formats of the activations a product reads.

use std::ops::BitOr;

/// Which forms of the rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActFormats {
    /// Eight bits, and a scale for each 32 values.
    pub q8: bool,
    /// Sixteen bits, as two rows of eight: the coarse part, then the rest.
    pub q16: bool,
    /// bfloat16 pairs.
    pub bf16: bool,
    /// Eight bits for rows of answers only, bfloat16 pairs for those of prompts: see [`Activations::set`].
    pub q8_decode_bf16_prefill: bool,
    /// Pairs of half-precision floats.
    pub f16: bool,
    /// As they are.
    pub f32: bool,
}

impl ActFormats {
    /// Whether a form is wanted for which rows are written as floats first.
    pub(super) fn needs_f32(self) -> bool {
        self.f32 || self.f16
    }
}

impl BitOr for ActFormats {
    type Output = ActFormats;
    fn bitor(self, o: ActFormats) -> ActFormats {
        ActFormats {
            q8: self.q8 | o.q8,
            q16: self.q16 | o.q16,
            bf16: self.bf16 | o.bf16,
            q8_decode_bf16_prefill: self.q8_decode_bf16_prefill | o.q8_decode_bf16_prefill,
            f16: self.f16 | o.f16,
            f32: self.f32 | o.f32,
        }
    }
}
