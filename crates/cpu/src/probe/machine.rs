//! The result of the probe.

use crate::Tier;
use serde::Serialize;

/// The machine as this process may use it. Plain data: [`super::detect`] fills it once at start, everything that sizes
/// threads, pools, caches or queues reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// `x86_64`, `aarch64`, …
    pub architecture: String,
    /// The CPU's name as the kernel tells it, or `unknown`.
    pub model_name: String,
    /// The hypervisor (`kvm`, `xen`, `hyper-v`, …) as far as it can be seen; `None` for bare metal.
    pub virtualization: Option<String>,
    /// The kind of container (`docker`, `kubernetes`, `podman`, `lxc`) as far as it can be seen.
    pub container: Option<String>,
    /// The instruction tier chosen.
    pub tier: Tier,
    /// Why that tier, in a sentence.
    pub tier_reason: String,
    /// Every tier that this machine can run.
    pub tiers: Vec<Tier>,
    /// The CPU features that matter to the kernels, by their name in `/proc/cpuinfo`.
    pub features: Vec<String>,
    /// Ids of the CPUs this process may run on: online, in its affinity mask and in its cpuset. Ascending.
    pub cpus: Vec<usize>,
    /// How many CPUs are online, allowed to this process or not.
    pub cpus_online: usize,
    /// Physical cores among `cpus`.
    pub cores: usize,
    /// The CPU quota in CPUs (the least over this process's control groups and their ancestors).
    pub quota_cpus: Option<f64>,
    /// The file that sets the quota.
    pub quota_source: Option<String>,
    /// Compute threads to use by default: cores allowed or quota, whichever is less, rounded down, at least 1.
    pub threads: usize,
    /// Why that many, in a sentence.
    pub threads_reason: String,
    /// Memory of the machine, in bytes.
    pub memory_total_bytes: u64,
    /// What this process may use: the least of RAM and its control groups' limits, in bytes.
    pub memory_limit_bytes: u64,
    /// The file that sets the limit.
    pub memory_limit_source: String,
    /// What can be had now without swapping or being killed, in bytes: the least of what the kernel calls available
    /// and what the control groups leave (reclaimable file pages count as free).
    pub memory_available_bytes: u64,
    /// NUMA nodes with CPUs or memory. Never empty.
    pub numa: Vec<Node>,
    /// Simultaneous multithreading.
    pub smt: Smt,
    /// Caches of the allowed CPUs, one entry a level and kind, L1 first.
    pub caches: Vec<Cache>,
    /// Huge pages.
    pub huge_pages: HugePages,
    /// Share of the CPU time wanted since boot that the hypervisor gave to others, 0 to 1.
    pub steal: f64,
    /// What slows this machine down, or will surprise its user.
    pub warnings: Vec<Warning>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The node's id.
    pub id: usize,
    /// Its CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
}

/// Whether several of the CPUs are one physical core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Smt {
    /// Whether any core has more than one CPU online.
    pub active: bool,
    /// CPUs a core, at most.
    pub cpus_per_core: usize,
    /// The allowed CPUs by core, `[cores][cpus of the core]`, each list ascending.
    pub cores: Vec<Vec<usize>>,
}

/// One level of cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1, 2, 3, …
    pub level: u8,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size of one instance, in bytes.
    pub bytes: u64,
    /// Line size, in bytes.
    pub line_bytes: u64,
    /// How many CPUs share an instance (allowed or not).
    pub shared_by: usize,
    /// Instances that the allowed CPUs reach.
    pub instances: usize,
}

/// Huge pages, which weights are read through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Transparent huge pages: `always`, `madvise`, `never`, or `unknown`.
    pub transparent: String,
    /// Their size, in bytes; 0 where the kernel does not tell.
    pub bytes: u64,
    /// Reserved huge pages of the default size that are free.
    pub reserved_free: u64,
}

/// Something about the machine that its user should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// A short name that does not change: `quota-below-cores`, `huge-pages-off`, ….
    pub code: &'static str,
    /// What it is, what it costs and what to do, in one line.
    pub message: String,
}

impl Machine {
    /// The CPUs to pin compute threads to, one a core, or `None` when they should float.
    ///
    /// They should float under a quota smaller than the allowed cores: every container on the host sees the same CPU
    /// ids, and all of them pinned to the first few would share those while the rest idle.
    #[must_use]
    pub fn pin_cpus(&self) -> Option<Vec<usize>> {
        if self.threads < self.smt.cores.len() {
            return None;
        }
        Some(self.smt.cores.iter().filter_map(|core| core.first().copied()).take(self.threads).collect())
    }
}
