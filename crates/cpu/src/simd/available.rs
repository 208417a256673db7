//! Which tiers this machine has.

#[cfg(target_arch = "x86_64")]
use super::amx;
use crate::Tier;
use crate::probe::environment;

impl Tier {
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
    lacking.extend(amx::missing_features());
    if lacking.is_empty() && amx::Amx::new().is_none() {
        lacking.push("amx, which the system refuses");
    }
    lacking
}

#[cfg(target_arch = "x86_64")]
fn missing_amx_fp16() -> Vec<&'static str> {
    let mut lacking = missing_amx();
    lacking.extend(amx::missing_fp16_features());
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
