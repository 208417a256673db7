//! The instruction tiers: which of them this machine has, and which one to use.

use std::fmt;
use std::str::FromStr;

/// A set of vector instructions that the kernels are built for. Ordered from the plainest to the widest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// Plain Rust: the reference that the other tiers are tested against.
    Scalar,
    /// Arm Advanced SIMD (`asimd`), which every AArch64 CPU has. The dot products of `asimddp` and `i8mm` (`sdot`,
    /// `usdot`) are used where they are there.
    Neon,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL and VNNI. BF16 instructions are used where they are there.
    Avx512,
    /// [`Tier::Avx512`] and AMX for bf16: bf16 weights, the bf16 KV cache, and prefill rows × quantized weights,
    /// dequantized to bf16, are multiplied in tiles. There is no int8 path in tiles (decision 23).
    Amx,
    /// [`Tier::Amx`] with f16 tiles and registers: quantized weights, dequantized to f16, are multiplied in tiles for
    /// any number of rows.
    AmxFp16,
}

impl Tier {
    /// Every tier, on whatever machine.
    pub const ALL: [Tier; 6] = [Tier::Scalar, Tier::Neon, Tier::Avx2, Tier::Avx512, Tier::Amx, Tier::AmxFp16];

    /// The tier's name as the command line, the environment and JSON spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tier::Scalar => "scalar",
            Tier::Neon => "neon",
            Tier::Avx2 => "avx2",
            Tier::Avx512 => "avx512",
            Tier::Amx => "amx",
            Tier::AmxFp16 => "amx-fp16",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A tier's name that is none of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no instruction tier; the tiers are scalar, neon, avx2, avx512, amx, amx-fp16")]
pub struct UnknownTier(pub String);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(name: &str) -> Result<Tier, UnknownTier> {
        let wanted = name.trim().to_ascii_lowercase();
        Tier::ALL.into_iter().find(|tier| tier.name() == wanted).ok_or_else(|| UnknownTier(name.to_owned()))
    }
}

impl serde::Serialize for Tier {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Tier;

    #[test]
    fn names_round_trip() {
        for tier in Tier::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        assert!("sse9".parse::<Tier>().unwrap_err().to_string().contains("sse9"));
    }

    #[test]
    fn scalar_is_everywhere_and_the_widest_is_available() {
        let available = Tier::available();
        assert_eq!(available.first(), Some(&Tier::Scalar));
        assert_eq!(available.last(), Some(&Tier::widest()));
        for tier in Tier::ALL {
            assert_eq!(available.contains(&tier), tier.missing().is_empty(), "{tier}");
        }
    }
}
