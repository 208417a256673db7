//! The instruction tiers: which of them this machine has, and which one to use.

use std::fmt;
use std::str::FromStr;

use crate::probe::environment;

/// A set of vector instructions that the kernels are built for. Ordered from the plainest to the widest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// Plain Rust: the reference that the other tiers are tested against.
    Scalar,
    /// Arm Advanced SIMD (`asimd`), which every AArch64 CPU has. The dot products of `asimddp` and `i8mm` are used where
    /// they are there.
    Neon,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL and VNNI. BF16 instructions are used where they are there.
    Avx512,
    /// [`Tier::Avx512`] and AMX: bf16 weights and the bf16 KV cache are multiplied in tiles.
    Amx,
    /// [`Tier::Amx`] with f16 tiles and registers: quantized weights are multiplied in tiles too.
    AmxFp16,
}

impl Tier {
    /// Every tier, on whatever machine.
    pub const ALL: [Tier; 6] = [Tier::Scalar, Tier::Neon, Tier::Avx2, Tier::Avx512, Tier::Amx, Tier::AmxFp16];

    /// The tiers that this machine can run, plainest first. Never empty.
    #[must_use]
    pub fn available() -> Vec<Tier> {
        Tier::ALL.into_iter().filter(|tier| tier.is_available()).collect()
    }

    /// The tier to use when the user names none: the one in the environment variable `GRISTMILL_ISA` if this machine
    /// has it, else the widest it has.
    #[must_use]
    pub fn best() -> Tier {
        let asked = environment::isa().and_then(|name| name.parse().ok());
        asked.filter(|tier: &Tier| tier.is_available()).unwrap_or_else(Tier::widest)
    }

    /// The widest tier that this machine has, whatever the environment says.
    #[must_use]
    pub fn widest() -> Tier {
        Tier::available().pop().unwrap_or(Tier::Scalar)
    }

    /// Whether this machine (CPU and operating system) can run the tier.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.missing().is_empty()
    }

    /// The CPU features that the tier needs and this machine lacks, by their name in `/proc/cpuinfo`. On a machine of
    /// another architecture, the architecture that is needed.
    #[must_use]
    pub fn missing(self) -> Vec<&'static str> {
        match self {
            Tier::Scalar => Vec::new(),
            Tier::Neon => missing_neon(),
            Tier::Avx2 => missing_avx2(),
            Tier::Avx512 => missing_avx512(),
            Tier::Amx => missing_amx(),
            Tier::AmxFp16 => missing_amx_fp16(),
        }
    }

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

// `is_x86_feature_detected!` also asks the operating system (XGETBV) whether it saves the wide registers.
#[cfg(target_arch = "x86_64")]
macro_rules! lacking {
    ($($feature:tt => $name:literal),* $(,)?) => {{
        let mut lacking = Vec::new();
        $(if !std::arch::is_x86_feature_detected!($feature) { lacking.push($name); })*
        lacking
    }};
}

#[cfg(target_arch = "x86_64")]
fn missing_avx2() -> Vec<&'static str> {
    lacking!("avx2" => "avx2", "fma" => "fma", "f16c" => "f16c")
}

#[cfg(target_arch = "x86_64")]
fn missing_avx512() -> Vec<&'static str> {
    lacking!(
        "avx2" => "avx2", "fma" => "fma", "f16c" => "f16c",
        "avx512f" => "avx512f", "avx512bw" => "avx512bw", "avx512dq" => "avx512dq", "avx512vl" => "avx512vl",
        "avx512vnni" => "avx512_vnni",
    )
}

#[cfg(target_arch = "x86_64")]
fn missing_amx() -> Vec<&'static str> {
    let mut lacking = missing_avx512();
    lacking.extend(crate::simd::amx::missing_features());
    if lacking.is_empty() && crate::simd::amx::Amx::new().is_none() {
        lacking.push("amx, which the system refuses");
    }
    lacking
}

#[cfg(target_arch = "x86_64")]
fn missing_amx_fp16() -> Vec<&'static str> {
    let mut lacking = missing_amx();
    lacking.extend(crate::simd::amx::missing_fp16_features());
    lacking
}

#[cfg(not(target_arch = "x86_64"))]
fn missing_amx() -> Vec<&'static str> {
    vec!["an x86-64 CPU"]
}

#[cfg(not(target_arch = "x86_64"))]
fn missing_amx_fp16() -> Vec<&'static str> {
    vec!["an x86-64 CPU"]
}

#[cfg(not(target_arch = "x86_64"))]
fn missing_avx2() -> Vec<&'static str> {
    vec!["an x86-64 CPU"]
}

#[cfg(not(target_arch = "x86_64"))]
fn missing_avx512() -> Vec<&'static str> {
    vec!["an x86-64 CPU"]
}

#[cfg(target_arch = "aarch64")]
fn missing_neon() -> Vec<&'static str> {
    if std::arch::is_aarch64_feature_detected!("neon") { Vec::new() } else { vec!["asimd"] }
}

#[cfg(not(target_arch = "aarch64"))]
fn missing_neon() -> Vec<&'static str> {
    vec!["an AArch64 CPU"]
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
