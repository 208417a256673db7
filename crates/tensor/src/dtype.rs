//! The element formats: what each is called, and how many bytes its blocks take.

use std::fmt;

/// How the numbers of a tensor are written. A quantized format packs `block_weights` numbers into `block_bytes` bytes;
/// the plain ones are blocks of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[allow(non_camel_case_types, reason = "the names users know these formats by")]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an F32.
    BF16,
    /// 4 bits, one scale to 32 weights.
    Q4_0,
    /// 4 bits, one scale and one minimum to 32 weights.
    Q4_1,
    /// 5 bits, one scale to 32 weights.
    Q5_0,
    /// 5 bits, one scale and one minimum to 32 weights.
    Q5_1,
    /// 8 bits, one scale to 32 weights.
    Q8_0,
    /// 2 bits, 4-bit scales and minima to 16 weights.
    Q2_K,
    /// 3 bits, 6-bit scales to 16 weights.
    Q3_K,
    /// 4 bits, 6-bit scales and minima to 32 weights.
    Q4_K,
    /// 5 bits, 6-bit scales and minima to 32 weights.
    Q5_K,
    /// 6 bits, 8-bit scales to 16 weights.
    Q6_K,
    /// 4 bits through an uneven table, one scale to 32 weights.
    IQ4_NL,
    /// 4 bits through an uneven table, 6-bit scales to 32 weights.
    IQ4_XS,
    /// 4-bit floats (E2M1), a power of two to 32 weights.
    MXFP4,
    /// 4-bit floats (E2M1), an 8-bit float (E4M3) to 16 weights.
    NVFP4,
    /// Points of eight from a grid, 3-bit scales to 32 weights.
    IQ1_S,
    /// Points of eight from a grid, 3-bit scales to 16 weights.
    IQ1_M,
    /// Points of eight from a grid, 4-bit scales to 32 weights.
    IQ2_XXS,
    /// Points of eight from a grid, 4-bit scales to 16 weights.
    IQ2_XS,
    /// Points of eight from a larger grid, 4-bit scales to 16 weights.
    IQ2_S,
    /// Points of four from a grid, 4-bit scales to 32 weights.
    IQ3_XXS,
    /// Points of four from a larger grid, 4-bit scales to 32 weights.
    IQ3_S,
    /// Minus one, zero and one, five in a byte, one scale to 256 weights.
    TQ1_0,
    /// Minus one, zero and one in 2 bits, one scale to 256 weights.
    TQ2_0,
}

impl Dtype {
    /// Every format, in the order they are listed to users.
    pub const ALL: [Dtype; 26] = [
        Dtype::F32,
        Dtype::F16,
        Dtype::BF16,
        Dtype::Q4_0,
        Dtype::Q4_1,
        Dtype::Q5_0,
        Dtype::Q5_1,
        Dtype::Q8_0,
        Dtype::Q2_K,
        Dtype::Q3_K,
        Dtype::Q4_K,
        Dtype::Q5_K,
        Dtype::Q6_K,
        Dtype::IQ4_NL,
        Dtype::IQ4_XS,
        Dtype::MXFP4,
        Dtype::NVFP4,
        Dtype::IQ1_S,
        Dtype::IQ1_M,
        Dtype::IQ2_XXS,
        Dtype::IQ2_XS,
        Dtype::IQ2_S,
        Dtype::IQ3_XXS,
        Dtype::IQ3_S,
        Dtype::TQ1_0,
        Dtype::TQ2_0,
    ];

    /// Weights in one block.
    pub const fn block_weights(self) -> usize {
        match self {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => 1,
            Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q5_0 | Dtype::Q5_1 | Dtype::Q8_0 => 32,
            Dtype::IQ4_NL | Dtype::MXFP4 => 32,
            Dtype::NVFP4 => 64,
            Dtype::Q2_K | Dtype::Q3_K | Dtype::Q4_K | Dtype::Q5_K | Dtype::Q6_K | Dtype::IQ4_XS => 256,
            Dtype::IQ1_S | Dtype::IQ1_M | Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S => 256,
            Dtype::IQ3_XXS | Dtype::IQ3_S | Dtype::TQ1_0 | Dtype::TQ2_0 => 256,
        }
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::BF16 => 2,
            Dtype::Q4_0 | Dtype::IQ4_NL => 18,
            Dtype::Q4_1 => 20,
            Dtype::Q5_0 => 22,
            Dtype::Q5_1 => 24,
            Dtype::Q8_0 => 34,
            Dtype::Q2_K => 84,
            Dtype::Q3_K => 110,
            Dtype::Q4_K => 144,
            Dtype::Q5_K => 176,
            Dtype::Q6_K => 210,
            Dtype::IQ4_XS => 136,
            Dtype::MXFP4 => 17,
            Dtype::NVFP4 => 36,
            Dtype::IQ1_S => 50,
            Dtype::IQ1_M => 56,
            Dtype::IQ2_XXS => 66,
            Dtype::IQ2_XS => 74,
            Dtype::IQ2_S => 82,
            Dtype::IQ3_XXS => 98,
            Dtype::IQ3_S => 110,
            Dtype::TQ1_0 => 54,
            Dtype::TQ2_0 => 66,
        }
    }

    /// The name as llama.cpp and model files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "F32",
            Dtype::F16 => "F16",
            Dtype::BF16 => "BF16",
            Dtype::Q4_0 => "Q4_0",
            Dtype::Q4_1 => "Q4_1",
            Dtype::Q5_0 => "Q5_0",
            Dtype::Q5_1 => "Q5_1",
            Dtype::Q8_0 => "Q8_0",
            Dtype::Q2_K => "Q2_K",
            Dtype::Q3_K => "Q3_K",
            Dtype::Q4_K => "Q4_K",
            Dtype::Q5_K => "Q5_K",
            Dtype::Q6_K => "Q6_K",
            Dtype::IQ4_NL => "IQ4_NL",
            Dtype::IQ4_XS => "IQ4_XS",
            Dtype::MXFP4 => "MXFP4",
            Dtype::NVFP4 => "NVFP4",
            Dtype::IQ1_S => "IQ1_S",
            Dtype::IQ1_M => "IQ1_M",
            Dtype::IQ2_XXS => "IQ2_XXS",
            Dtype::IQ2_XS => "IQ2_XS",
            Dtype::IQ2_S => "IQ2_S",
            Dtype::IQ3_XXS => "IQ3_XXS",
            Dtype::IQ3_S => "IQ3_S",
            Dtype::TQ1_0 => "TQ1_0",
            Dtype::TQ2_0 => "TQ2_0",
        }
    }

    /// The number a GGUF file writes for this format (`enum ggml_type`).
    pub const fn ggml_id(self) -> u32 {
        match self {
            Dtype::F32 => 0,
            Dtype::F16 => 1,
            Dtype::Q4_0 => 2,
            Dtype::Q4_1 => 3,
            Dtype::Q5_0 => 6,
            Dtype::Q5_1 => 7,
            Dtype::Q8_0 => 8,
            Dtype::Q2_K => 10,
            Dtype::Q3_K => 11,
            Dtype::Q4_K => 12,
            Dtype::Q5_K => 13,
            Dtype::Q6_K => 14,
            Dtype::IQ4_NL => 20,
            Dtype::IQ4_XS => 23,
            Dtype::BF16 => 30,
            Dtype::MXFP4 => 39,
            Dtype::NVFP4 => 40,
            Dtype::IQ1_S => 19,
            Dtype::IQ1_M => 29,
            Dtype::IQ2_XXS => 16,
            Dtype::IQ2_XS => 17,
            Dtype::IQ2_S => 22,
            Dtype::IQ3_XXS => 18,
            Dtype::IQ3_S => 21,
            Dtype::TQ1_0 => 34,
            Dtype::TQ2_0 => 35,
        }
    }

    /// The format a GGUF file means by `id`, if it is one of ours.
    pub fn from_ggml(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.ggml_id() == id)
    }

    /// Bytes of `cols` weights, which must be whole blocks; none if they are not, or if the product overflows.
    pub const fn row_bytes(self, cols: usize) -> Option<usize> {
        if !cols.is_multiple_of(self.block_weights()) {
            return None;
        }
        (cols / self.block_weights()).checked_mul(self.block_bytes())
    }

    /// Whether a block shares a scale (everything but the plain floats).
    pub const fn is_quantized(self) -> bool {
        self.block_weights() > 1
    }

    /// The supported names, comma separated: for error messages.
    pub fn supported() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_round_trip() {
        for d in Dtype::ALL {
            assert_eq!(Dtype::from_ggml(d.ggml_id()), Some(d));
            assert_eq!(d.name().to_lowercase().parse::<Dtype>().unwrap(), d);
        }
        assert_eq!(Dtype::from_ggml(4), None);
        assert!("Q9_Z".parse::<Dtype>().unwrap_err().to_string().contains("IQ4_XS"));
    }

    #[test]
    fn rows_must_be_whole_blocks() {
        assert_eq!(Dtype::Q4_K.row_bytes(512), Some(288));
        assert_eq!(Dtype::Q4_K.row_bytes(100), None);
        assert_eq!(Dtype::F32.row_bytes(usize::MAX), None);
    }
}
