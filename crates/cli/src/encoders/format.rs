//! How an encoder's weights are computed.

use cpu::Tier;
use kernels::{KvDtype, Precision};
use model::EncoderFormat;

/// How weights are kept and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Eight bits; what the file has quantized stays as it is.
    Int8,
    Bf16,
    F32,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Int8 => "int8",
            Format::Bf16 => "bf16",
            Format::F32 => "f32",
        }
    }

    pub(crate) fn precision(self) -> Precision {
        match self {
            Format::Int8 | Format::Bf16 => Precision::Fast,
            Format::F32 => Precision::F32,
        }
    }

    pub(crate) fn packing(self) -> EncoderFormat {
        match self {
            Format::Int8 => EncoderFormat::Int8,
            Format::Bf16 => EncoderFormat::Bf16,
            Format::F32 => EncoderFormat::File,
        }
    }

    /// How keys and values of a layer are kept.
    pub(crate) fn kv_dtype(self, tier: Tier) -> KvDtype {
        match self {
            // Without a dot product of halves, halves are widened for every product. Blocks of one layer are small.
            Format::Int8 | Format::Bf16 if tier == Tier::Avx2 => KvDtype::F32,
            Format::Int8 | Format::Bf16 => KvDtype::fastest(tier),
            Format::F32 => KvDtype::F32,
        }
    }
}
