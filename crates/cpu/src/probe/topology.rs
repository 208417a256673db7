//! Which CPUs there are, and how they share cores, caches and memory.
//! Formats: the kernel's `Documentation/ABI/{stable,testing}/sysfs-devices-system-cpu` and `-node`.

use super::machine::{Cache, Node, Smt};
use super::root::{Root, id_list};

/// The ids of the CPUs that are online.
pub(super) fn online(root: &Root) -> Option<Vec<usize>> {
    Some(id_list(&root.read("/sys/devices/system/cpu/online")?)).filter(|ids| !ids.is_empty())
}

/// The ids in this process's affinity mask.
pub(super) fn affinity(root: &Root) -> Option<Vec<usize>> {
    let line = root.read_lines("/proc/self/status", |line| line.starts_with("Cpus_allowed_list:"))?;
    Some(id_list(line.strip_prefix("Cpus_allowed_list:")?)).filter(|ids| !ids.is_empty())
}

/// Groups the allowed `cpus` by physical core.
pub(super) fn smt(root: &Root, cpus: &[usize]) -> Smt {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    let mut cpus_per_core = 1;
    for &cpu in cpus {
        if cores.iter().any(|core| core.contains(&cpu)) {
            continue;
        }
        let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        // `core_cpus_list` is the newer name of the same list.
        let siblings = ["core_cpus_list", "thread_siblings_list"]
            .iter()
            .find_map(|name| root.read(&format!("{topology}/{name}")))
            .map_or_else(Vec::new, |text| id_list(&text));
        cpus_per_core = cpus_per_core.max(siblings.len());
        let mut core: Vec<usize> = cpus.iter().copied().filter(|id| siblings.contains(id)).collect();
        if !core.contains(&cpu) {
            core = vec![cpu];
        }
        cores.push(core);
    }
    Smt { active: cpus_per_core > 1, cpus_per_core, cores }
}

/// The caches that the allowed `cpus` reach.
pub(super) fn caches(root: &Root, cpus: &[usize]) -> Vec<Cache> {
    let mut caches: Vec<(Cache, Vec<String>)> = Vec::new();
    for &cpu in cpus {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
        for index in root.numbered(&folder, "index") {
            let read = |name: &str| root.read(&format!("{folder}/index{index}/{name}"));
            let (Some(level), Some(kind), Some(bytes)) = (
                read("level").and_then(|l| l.parse().ok()),
                read("type"),
                read("size").and_then(|s| size(&s)),
            ) else {
                continue;
            };
            let shared = read("shared_cpu_list").unwrap_or_else(|| cpu.to_string());
            let cache = Cache {
                level,
                kind: kind.to_lowercase(),
                bytes,
                line_bytes: read("coherency_line_size").and_then(|line| line.parse().ok()).unwrap_or(64),
                shared_by: id_list(&shared).len().max(1),
                instances: 1,
            };
            // Cores of two kinds (big and little) have caches of two sizes: an entry each.
            let same = |known: &Cache| (known.level, &known.kind, known.bytes) == (level, &cache.kind, bytes);
            match caches.iter_mut().find(|(known, _)| same(known)) {
                None => caches.push((cache, vec![shared])),
                Some((_, instances)) if instances.contains(&shared) => {}
                Some((known, instances)) => {
                    instances.push(shared);
                    known.instances = instances.len();
                }
            }
        }
    }
    let mut caches: Vec<Cache> = caches.into_iter().map(|(cache, _)| cache).collect();
    caches.sort_by(|a, b| (a.level, &a.kind, b.bytes).cmp(&(b.level, &b.kind, a.bytes)));
    caches
}

/// A size as sysfs writes it: `32K`, `8192K`, `8M`, or plain bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.trim().split_at_checked(text.trim().len().checked_sub(1)?)? {
        (digits, "K") => (digits, 1 << 10),
        (digits, "M") => (digits, 1 << 20),
        (digits, "G") => (digits, 1 << 30),
        _ => (text.trim(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The NUMA nodes, those without memory and allowed CPUs left out; one made up where the kernel tells none.
pub(super) fn numa(root: &Root, cpus: &[usize], memory_bytes: u64) -> Vec<Node> {
    const FOLDER: &str = "/sys/devices/system/node";
    let node = |id: usize| {
        let here = id_list(&root.read(&format!("{FOLDER}/node{id}/cpulist")).unwrap_or_default());
        let info = root.read(&format!("{FOLDER}/node{id}/meminfo")).unwrap_or_default();
        let total = info.lines().find_map(|line| line.split_once("MemTotal:"));
        let memory_bytes = total.and_then(|(_, rest)| kib(rest)).unwrap_or(0);
        Node { id, cpus: cpus.iter().copied().filter(|cpu| here.contains(cpu)).collect(), memory_bytes }
    };
    let nodes: Vec<Node> = root
        .numbered(FOLDER, "node")
        .into_iter()
        .map(node)
        .filter(|node| node.memory_bytes > 0 || !node.cpus.is_empty())
        .collect();
    if nodes.is_empty() { vec![Node { id: 0, cpus: cpus.to_vec(), memory_bytes }] } else { nodes }
}

/// `  123 kB` in bytes.
pub(super) fn kib(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
