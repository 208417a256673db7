//! What no file tells about the machine: the CPU itself and the environment variables, read here and nowhere else in this crate.

use std::sync::OnceLock;

use crate::Tier;

/// What no file tells about the machine.
pub(super) struct Environment {
    pub(super) architecture: String,
    /// The tiers this CPU runs.
    pub(super) tiers: Vec<Tier>,
    /// The value of `GRISTMILL_ISA`.
    pub(super) isa: Option<String>,
    /// The hypervisor that the CPU names.
    pub(super) hypervisor: Option<String>,
    /// CPUs to assume where the files tell none.
    pub(super) parallelism: usize,
}

impl Environment {
    /// Asks this machine.
    pub(super) fn current() -> Environment {
        Environment {
            architecture: std::env::consts::ARCH.to_owned(),
            tiers: Tier::available(),
            isa: isa().map(str::to_owned),
            hypervisor: hypervisor(),
            parallelism: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The value of `GRISTMILL_ISA`, the tier to use.
pub(crate) fn isa() -> Option<&'static str> {
    static ISA: OnceLock<Option<String>> = OnceLock::new();
    ISA.get_or_init(|| std::env::var("GRISTMILL_ISA").ok()).as_deref()
}

/// The value of `GRISTMILL_UARCH`, the micro-architecture to tune for: for tests.
pub(super) fn uarch() -> Option<String> {
    std::env::var("GRISTMILL_UARCH").ok()
}

/// The hypervisor's signature, CPUID leaf 0x4000_0000, where the CPU says it runs under one.
#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let mut signature = Vec::new();
    for register in [leaf.ebx, leaf.ecx, leaf.edx] {
        signature.extend_from_slice(&register.to_le_bytes());
    }
    let signature = String::from_utf8_lossy(&signature).trim_end_matches('\0').to_owned();
    let known = [
        ("KVMKVMKVM", "kvm"),
        ("Microsoft Hv", "hyper-v"),
        ("VMwareVMware", "vmware"),
        ("XenVMMXenVMM", "xen"),
        ("TCGTCGTCGTCG", "qemu (emulated)"),
        ("bhyve bhyve ", "bhyve"),
        ("VBoxVBoxVBox", "virtualbox"),
        ("ACRNACRNACRN", "acrn"),
    ];
    let name = known.into_iter().find(|(mark, _)| *mark == signature).map(|(_, name)| name.to_owned());
    Some(name.unwrap_or(signature)).filter(|name| !name.is_empty())
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<String> {
    None
}
