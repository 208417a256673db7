//! One look at the machine.

mod machine;

pub use machine::{Cache, HugePages, Machine, Node, Smt, Warning};

use crate::Tier;

/// Looks at this machine, once. Takes a few milliseconds and never fails: what cannot be read is left at its plainest
/// value.
#[must_use]
pub fn look() -> Machine {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus: Vec<usize> = (0..threads).collect();
    let memory = rustix::system::sysinfo();
    let unit = u64::from(memory.mem_unit);
    Machine {
        architecture: std::env::consts::ARCH.to_owned(),
        model_name: "unknown".to_owned(),
        virtualization: None,
        tier: Tier::best(),
        tier_reason: String::new(),
        tiers: Tier::available(),
        features: Vec::new(),
        cpus_online: threads,
        cores: threads,
        quota_cpus: None,
        quota_source: None,
        threads,
        threads_reason: String::new(),
        memory_total_bytes: memory.totalram * unit,
        memory_limit_bytes: memory.totalram * unit,
        memory_limit_source: String::new(),
        memory_available_bytes: memory.freeram * unit,
        numa: vec![Node { id: 0, cpus: cpus.clone(), memory_bytes: memory.totalram * unit }],
        smt: Smt { active: false, cpus_per_core: 1, cores: cpus.iter().map(|&cpu| vec![cpu]).collect() },
        caches: Vec::new(),
        huge_pages: HugePages { transparent: "unknown".to_owned(), bytes: 0, reserved_free: 0 },
        warnings: Vec::new(),
        cpus,
    }
}
