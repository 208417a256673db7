//! The micro-architecture of this CPU.

use std::str::FromStr;
use std::sync::OnceLock;

use super::environment;

/// A CPU's micro-architecture, as far as kernels are tuned for it. It decides how fast they are and which of several
/// quantizations of activations is used (on Zen 4 a coarser one: docs/lab/zen-4.md), never which instructions exist:
/// that is [`Tier`](crate::Tier).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uarch {
    /// Any that has no tuning of its own: the tier's defaults, measured on Zen 5, Sapphire Rapids and Zen 3; on NEON
    /// not measured.
    Generic,
    /// AMD family 19h with AVX-512.
    Zen4,
}

impl Uarch {
    /// The micro-architecture of this CPU; or the one that the environment variable `GRISTMILL_UARCH` names (`generic`, `zen4`), so
    /// that tests run each tuning on any CPU with its instructions.
    pub fn current() -> Uarch {
        static CURRENT: OnceLock<Uarch> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            environment::uarch().and_then(|name| name.parse().ok()).unwrap_or_else(of_this_cpu)
        })
    }
}

impl FromStr for Uarch {
    type Err = ();

    fn from_str(name: &str) -> Result<Uarch, ()> {
        match name {
            "generic" => Ok(Uarch::Generic),
            "zen4" => Ok(Uarch::Zen4),
            _ => Err(()),
        }
    }
}

/// By vendor and family (CPUID leaves 0 and 1).
#[cfg(target_arch = "x86_64")]
fn of_this_cpu() -> Uarch {
    use std::arch::x86_64::__cpuid;
    let vendor = __cpuid(0);
    let amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD";
    let version = __cpuid(1).eax;
    // The extended family is added to a family of 15.
    let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
    if amd && family == 0x19 { Uarch::Zen4 } else { Uarch::Generic }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_this_cpu() -> Uarch {
    Uarch::Generic
}
