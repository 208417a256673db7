//! What the user should know before wondering why it is slow.

use super::environment::Environment;
use super::machine::{Machine, Warning};
use crate::Tier;

pub(super) fn of(machine: &Machine, environment: &Environment) -> Vec<Warning> {
    let rules = [quota, smt, isa, simd, huge_pages, numa, steal, memory];
    rules.iter().filter_map(|rule| rule(machine, environment)).collect()
}

fn warn(code: &'static str, message: String) -> Option<Warning> {
    Some(Warning { code, message })
}

fn quota(machine: &Machine, _: &Environment) -> Option<Warning> {
    let quota = machine.quota_cpus?;
    if quota < 1.0 {
        let message = format!(
            "the CPU quota is {quota:.2} CPUs: even one thread is stopped for {:.0} % of each period; raise it to at \
             least 1",
            (1.0 - quota) * 100.0
        );
        return warn("quota-below-one", message);
    }
    if quota >= machine.cpus.len() as f64 {
        return None;
    }
    let rest = quota - quota.floor();
    let unused = if rest > 0.01 { format!(" ({rest:.2} CPUs of it stay unused)") } else { String::new() };
    let message = format!(
        "the CPU quota allows {quota:.2} of the {} CPUs seen here: programs that start a thread for each CPU are \
         throttled; {} threads are used{unused}",
        machine.cpus.len(),
        machine.threads
    );
    warn("quota-below-cores", message)
}

fn smt(machine: &Machine, _: &Environment) -> Option<Warning> {
    if !machine.smt.active {
        return None;
    }
    if machine.cores == machine.cpus.len() {
        let message =
            "each CPU allowed here is one hardware thread of a core; whoever has its other threads takes \
                       from its speed"
                .to_owned();
        return warn("smt-shared-cores", message);
    }
    let message = format!(
        "the {} CPUs are {} cores with {} hardware threads each: one thread a core is used, more rarely help",
        machine.cpus.len(),
        machine.cores,
        machine.smt.cpus_per_core
    );
    warn("smt", message)
}

fn isa(machine: &Machine, environment: &Environment) -> Option<Warning> {
    let asked = environment.isa.as_deref().filter(|name| !name.is_empty())?;
    let widest = environment.tiers.last().copied().unwrap_or(Tier::Scalar);
    if asked.parse() != Ok(machine.tier) {
        return warn("isa-refused", format!("GRISTMILL_ISA={asked} cannot be had; {} is used", machine.tier));
    }
    if machine.tier == widest {
        return None;
    }
    warn("isa-forced", format!("GRISTMILL_ISA={asked} holds back a machine that has {widest}"))
}

fn simd(machine: &Machine, _: &Environment) -> Option<Warning> {
    if machine.tiers.iter().any(|&tier| tier != Tier::Scalar) {
        return None;
    }
    let message = match machine.architecture.as_str() {
        "x86_64" => {
            "no AVX2, FMA and F16C here: the plain code is used, ten or more times slower; a virtual machine \
                     may be hiding them (choose the host's CPU model)"
        }
        "aarch64" => "no Advanced SIMD (asimd) here: the plain code is used, several times slower",
        _ => "no vector code for this architecture: the plain code is used, ten or more times slower",
    };
    warn("no-simd", message.to_owned())
}

fn huge_pages(machine: &Machine, _: &Environment) -> Option<Warning> {
    let message = match machine.huge_pages.transparent.as_str() {
        "always" | "madvise" => return None,
        "never" => {
            "transparent huge pages are off: reading weights is up to a quarter slower; as root: \
             echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        }
        _ => {
            "whether transparent huge pages can be had is not told here: weights may be read through 4 KiB pages"
        }
    };
    warn("huge-pages-off", message.to_owned())
}

fn numa(machine: &Machine, _: &Environment) -> Option<Warning> {
    let nodes = machine.numa.iter().filter(|node| !node.cpus.is_empty()).count();
    if nodes < 2 {
        return None;
    }
    let message = format!(
        "{nodes} NUMA nodes: threads read part of the weights from the other nodes' memory; a process for each node \
         (numactl --cpunodebind=N --membind=N) avoids it"
    );
    warn("numa", message)
}

fn steal(machine: &Machine, _: &Environment) -> Option<Warning> {
    if machine.steal < 0.02 {
        return None;
    }
    let message = format!(
        "the hypervisor gave {:.1} % of the CPU time wanted since boot to others; speeds will vary",
        machine.steal * 100.0
    );
    warn("steal", message)
}

fn memory(machine: &Machine, _: &Environment) -> Option<Warning> {
    const MIB: u64 = 1 << 20;
    if machine.memory_available_bytes >= 512 * MIB {
        return None;
    }
    let message = format!(
        "{} MiB of memory can be had now; the smallest model in the catalog needs about 300",
        machine.memory_available_bytes / MIB
    );
    warn("memory-low", message)
}
