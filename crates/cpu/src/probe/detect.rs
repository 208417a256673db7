//! Combines what the files and the [`Environment`] tell into a [`Machine`].

use super::cgroup;
use super::environment::Environment;
use super::machine::{HugePages, Machine};
use super::root::Root;
use super::topology;
use super::warnings;
use crate::Tier;

/// CPU features that change what the kernels can do, or will.
const FEATURES: [&str; 29] = [
    "avx",
    "f16c",
    "fma",
    "avx2",
    "bmi2",
    "avx_vnni",
    "avx_vnni_int8",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "avx512vbmi",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "amx_fp16",
    "gfni",
    "asimd",
    "asimdhp",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "svei8mm",
    "sme",
];

pub(super) fn detect(root: &Root, environment: &Environment) -> Machine {
    let cpuinfo = root.read("/proc/cpuinfo").unwrap_or_default();
    let groups = cgroup::read(root);
    let online = topology::online(root).unwrap_or_else(|| (0..environment.parallelism).collect());
    let cpus = allowed(root, &online, groups.cpuset.as_deref());
    let smt = topology::smt(root, &cpus);
    let cores = smt.cores.len();
    let quota_cpus = groups.quota.as_ref().map(|&(cpus, _)| cpus);
    let (threads, threads_reason) = threads(cpus.len(), cores, online.len(), quota_cpus);
    let (tier, tier_reason) = tier(environment);
    let (total, available) = memory(root);
    let mut limits = vec![(total, "/proc/meminfo MemTotal".to_owned())];
    limits.extend(groups.memory.filter(|&(bytes, _)| bytes < total));
    limits.extend(address_space(root).filter(|&(bytes, _)| bytes < total));
    let (limit, limit_source) = limits.into_iter().min_by_key(|&(bytes, _)| bytes).unwrap_or_default();
    let mut machine = Machine {
        architecture: environment.architecture.clone(),
        model_name: model_name(root, &cpuinfo),
        virtualization: virtualization(root, &cpuinfo, environment),
        container: container(root),
        tier,
        tier_reason,
        tiers: environment.tiers.clone(),
        features: features(&cpuinfo),
        cpus_online: online.len(),
        cores,
        quota_cpus,
        quota_source: groups.quota.map(|(_, file)| file),
        threads,
        threads_reason,
        memory_total_bytes: total,
        memory_limit_bytes: limit,
        memory_limit_source: limit_source,
        memory_available_bytes: groups.memory_left.map_or(available, |left| left.min(available)).min(limit),
        numa: topology::numa(root, &cpus, total),
        smt,
        caches: topology::caches(root, &cpus),
        huge_pages: huge_pages(root),
        steal: steal(root),
        warnings: Vec::new(),
        cpus,
    };
    machine.warnings = warnings::of(&machine, environment);
    machine
}

/// CPUs that are online, in the affinity mask and in the cpuset. Where the three have none in common (a file is out
/// of date), the narrowest that is not empty.
fn allowed(root: &Root, online: &[usize], cpuset: Option<&[usize]>) -> Vec<usize> {
    let affinity = topology::affinity(root);
    let mut cpus = online.to_vec();
    for mask in [affinity.as_deref(), cpuset].into_iter().flatten() {
        let both: Vec<usize> = cpus.iter().copied().filter(|cpu| mask.contains(cpu)).collect();
        if !both.is_empty() {
            cpus = both;
        }
    }
    cpus
}

/// One thread a core: a second thread on a core shares its multipliers, and both wait at every barrier for the slower.
fn threads(cpus: usize, cores: usize, online: usize, quota: Option<f64>) -> (usize, String) {
    let by_quota = quota.map_or(usize::MAX, |cpus| (cpus.floor() as usize).max(1));
    let threads = cores.min(by_quota).max(1);
    let reason = if by_quota < cores {
        format!("the CPU quota of {:.2}, rounded down", quota.unwrap_or_default())
    } else if cores < cpus {
        format!("one for each of the {cores} cores under {cpus} CPUs")
    } else if cpus < online {
        format!("the {cpus} CPUs of {online} that this process may run on")
    } else {
        "one for each CPU".to_owned()
    };
    (threads, reason)
}

fn tier(environment: &Environment) -> (Tier, String) {
    let widest = environment.tiers.last().copied().unwrap_or(Tier::Scalar);
    let Some(asked) = environment.isa.as_deref().filter(|name| !name.is_empty()) else {
        return (widest, "the widest that this CPU and system have".to_owned());
    };
    match asked.parse::<Tier>() {
        Ok(tier) if environment.tiers.contains(&tier) => (tier, "GRISTMILL_ISA asks for it".to_owned()),
        Ok(tier) => {
            (widest, format!("the widest here; GRISTMILL_ISA asks for {tier}, which this machine lacks"))
        }
        Err(_) => (widest, format!("the widest here; GRISTMILL_ISA is `{asked}`, which names no tier")),
    }
}

/// (total, available) in bytes; no limit where the kernel does not tell.
fn memory(root: &Root) -> (u64, u64) {
    let meminfo = root.read("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| meminfo.lines().find_map(|line| topology::kib(line.strip_prefix(name)?));
    let total = field("MemTotal:").unwrap_or(u64::MAX);
    (total, field("MemAvailable:").or_else(|| field("MemFree:")).unwrap_or(total))
}

/// `ulimit -v`: a mapped model counts against it whether its pages are resident or not.
fn address_space(root: &Root) -> Option<(u64, String)> {
    let limits = root.read("/proc/self/limits")?;
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max address space"))?.split_whitespace().next()?;
    Some((soft.parse().ok()?, "ulimit -v".to_owned()))
}

/// The value of the first line `key : value` of `/proc/cpuinfo`.
fn cpuinfo_field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn model_name(root: &Root, cpuinfo: &str) -> String {
    // Arm kernels tell no name; boards have one in the device tree, servers are known by their part number.
    let arm = || {
        let board = root.read("/proc/device-tree/model").map(|name| name.trim_end_matches('\0').to_owned());
        let part = cpuinfo_field(cpuinfo, "CPU part").map(|part| {
            let name = arm_core(cpuinfo_field(cpuinfo, "CPU implementer").unwrap_or_default(), part);
            name.map_or_else(|| format!("Arm part {part}"), str::to_owned)
        });
        match (board, part) {
            (Some(board), Some(part)) => Some(format!("{board} ({part})")),
            (board, part) => board.or(part),
        }
    };
    cpuinfo_field(cpuinfo, "model name")
        .map(str::to_owned)
        .or_else(arm)
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Names of the server and board cores most seen, by MIDR implementer and part (Arm's technical reference manuals).
fn arm_core(implementer: &str, part: &str) -> Option<&'static str> {
    Some(match (implementer, part) {
        ("0x41", "0xd03") => "Cortex-A53",
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd0c") => "Neoverse N1",
        ("0x41", "0xd40") => "Neoverse V1",
        ("0x41", "0xd49") => "Neoverse N2",
        ("0x41", "0xd4f") => "Neoverse V2",
        ("0xc0", "0xac3") => "Ampere-1",
        _ => return None,
    })
}

fn features(cpuinfo: &str) -> Vec<String> {
    let line =
        cpuinfo_field(cpuinfo, "flags").or_else(|| cpuinfo_field(cpuinfo, "Features")).unwrap_or_default();
    let has: Vec<&str> = line.split_whitespace().collect();
    FEATURES.iter().filter(|name| has.contains(name)).map(|name| (*name).to_owned()).collect()
}

fn virtualization(root: &Root, cpuinfo: &str, environment: &Environment) -> Option<String> {
    let firmware = || {
        let read = |name: &str| root.read(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
        let words = format!("{} {}", read("sys_vendor"), read("product_name"));
        let known = [
            ("QEMU", "qemu"),
            ("KVM", "kvm"),
            ("Amazon EC2", "amazon"),
            ("Google", "google"),
            ("VMware", "vmware"),
            ("Microsoft Corporation Virtual", "hyper-v"),
            ("innotek", "virtualbox"),
            ("Xen", "xen"),
            ("Parallels", "parallels"),
        ];
        known.into_iter().find(|(mark, _)| words.contains(mark)).map(|(_, name)| name.to_owned())
    };
    let flag = features_have(cpuinfo, "hypervisor").then(|| "a virtual machine".to_owned());
    let by_type = || root.read("/sys/hypervisor/type").filter(|name| !name.is_empty());
    // A CPU without the flag may still be a guest (Arm has no such flag), which the firmware then tells.
    environment.hypervisor.clone().or_else(by_type).or_else(firmware).or(flag)
}

fn features_have(cpuinfo: &str, flag: &str) -> bool {
    cpuinfo_field(cpuinfo, "flags").is_some_and(|line| line.split_whitespace().any(|name| name == flag))
}

fn container(root: &Root) -> Option<String> {
    let groups = root.read("/proc/self/cgroup").unwrap_or_default();
    let name = if root.has("/run/.containerenv") {
        "podman"
    } else if groups.contains("kubepods") || root.has("/var/run/secrets/kubernetes.io/serviceaccount/token") {
        "kubernetes"
    } else if root.has("/.dockerenv") || groups.contains("/docker") {
        "docker"
    } else if groups.contains("/lxc") {
        "lxc"
    } else {
        return None;
    };
    Some(name.to_owned())
}

fn huge_pages(root: &Root) -> HugePages {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    let modes = root.read(&format!("{FOLDER}/enabled")).unwrap_or_default();
    let chosen =
        modes.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(mode, _)| mode.to_owned());
    let meminfo = root.read("/proc/meminfo").unwrap_or_default();
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    HugePages {
        transparent: chosen.unwrap_or_else(|| "unknown".to_owned()),
        bytes: root.number(&format!("{FOLDER}/hpage_pmd_size")).unwrap_or(0),
        reserved_free: free.and_then(|n| n.trim().parse().ok()).unwrap_or(0),
    }
}

/// Of the time that CPUs wanted to run since boot, the share the hypervisor gave to others: `steal` over everything
/// but idle and waiting for I/O in the first line of `/proc/stat`.
fn steal(root: &Root) -> f64 {
    let stat = root.read("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal (guest times are already in user and nice)
    if ticks.len() < 8 {
        return 0.0;
    }
    let wanted: f64 = ticks[..3].iter().sum::<f64>() + ticks[5..8].iter().sum::<f64>();
    if wanted > 0.0 { ticks[7] / wanted } else { 0.0 }
}
