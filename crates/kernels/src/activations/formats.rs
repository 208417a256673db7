//! Which formats of activations a GEMM reads.

use std::ops::BitOr;

/// The formats of activations that some matrices read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActFormats {
    /// 8 bits, with a scale for each 32 columns.
    pub q8: bool,
    /// 16 bits, as two planes of 8: a coarse and a fine one.
    pub q16: bool,
    /// 7 bits, unsigned, with a scale and an offset for each 64 columns.
    pub u7: bool,
    /// bf16, in pairs of columns.
    pub bf16: bool,
    /// 8 bits for decode rows, bf16 for prefill rows: see [`Activations::set`](super::Activations::set).
    pub q8_decode_bf16_prefill: bool,
    /// f16, in pairs of columns, for AMX tiles.
    pub f16: bool,
    /// f32, unchanged.
    pub f32: bool,
}

impl ActFormats {
    /// Whether rows must be written as `f32` first.
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
            u7: self.u7 | o.u7,
            bf16: self.bf16 | o.bf16,
            q8_decode_bf16_prefill: self.q8_decode_bf16_prefill | o.q8_decode_bf16_prefill,
            f16: self.f16 | o.f16,
            f32: self.f32 | o.f32,
        }
    }
}
