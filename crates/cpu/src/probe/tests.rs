//! The probe on machines that this one is not. Fixtures: `tests/fixtures/machines/`, written by
//! `tools/fixtures/machines.py` or recorded with `gristmill doctor --record`.

use super::detect;
use super::environment::Environment;
use super::machine::Machine;
use super::root::Root;
use crate::Tier;
use proptest::prelude::*;
use std::path::Path;

const GIB: u64 = 1 << 30;

/// Lays a recording out as files and looks at it.
fn machine(recording: &str, environment: &Environment) -> Machine {
    let folder = tempfile::tempdir().expect("a temporary folder");
    lay_out(recording, folder.path());
    detect::detect(&Root::at(folder.path()), environment)
}

fn lay_out(recording: &str, folder: &Path) {
    for part in recording.split("== ").skip(1) {
        let (path, content) = part.split_once('\n').unwrap_or((part, ""));
        let file = folder.join(path.trim().trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().expect("inside the folder")).expect("folders");
        std::fs::write(file, content).expect("a file");
    }
}

fn x86(tiers: &[Tier]) -> Environment {
    Environment {
        architecture: "x86_64".to_owned(),
        tiers: tiers.to_vec(),
        isa: None,
        hypervisor: None,
        parallelism: 3,
    }
}

fn avx512() -> Environment {
    x86(&[Tier::Scalar, Tier::Avx2, Tier::Avx512])
}

fn avx2() -> Environment {
    x86(&[Tier::Scalar, Tier::Avx2])
}

fn codes(machine: &Machine) -> Vec<&str> {
    machine.warnings.iter().map(|warning| warning.code).collect()
}

macro_rules! recording {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/machines/", $name, ".txt"))
    };
}

#[test]
fn docker_quota_is_rounded_down_and_its_threads_float() {
    let machine = machine(recording!("docker-v1"), &avx512());
    assert_eq!((machine.cpus.len(), machine.quota_cpus, machine.threads), (8, Some(2.5), 2));
    assert_eq!(machine.quota_source.as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"));
    assert_eq!(machine.pin_cpus(), None);
    assert_eq!(machine.memory_limit_bytes, 4 * GIB);
    // 3 GiB used, of which 1.5 GiB are file pages: 2.5 GiB can be had.
    assert_eq!(machine.memory_available_bytes, 5 * GIB / 2);
    assert_eq!(
        (machine.container.as_deref(), machine.virtualization.as_deref()),
        (Some("docker"), Some("amazon"))
    );
    assert_eq!(codes(&machine), ["quota-below-cores"]);
    assert!(machine.warnings[0].message.contains("2.50 of the 8 CPUs"), "{}", machine.warnings[0].message);
}

#[test]
fn limits_of_outer_slices_hold() {
    let machine = machine(recording!("systemd-v2"), &avx2());
    assert_eq!((machine.quota_cpus, machine.threads), (Some(1.5), 1));
    assert!(
        machine.quota_source.as_deref().is_some_and(|file| file.ends_with("inference-small.slice/cpu.max"))
    );
    assert_eq!(machine.memory_limit_bytes, 6 * GIB);
    assert!(machine.memory_limit_source.ends_with("inference.slice/memory.high"));
    assert_eq!(machine.memory_available_bytes, 3 * GIB);
    assert_eq!((machine.virtualization.as_deref(), machine.container.as_deref()), (Some("qemu"), None));
}

#[test]
fn less_than_one_cpu_still_runs_one_thread_and_is_told() {
    let machine = machine(recording!("kubernetes-v2"), &avx2());
    assert_eq!((machine.quota_cpus, machine.threads, machine.cores), (Some(0.5), 1, 8));
    assert_eq!((machine.memory_limit_bytes, machine.memory_available_bytes), (GIB / 2, GIB / 4));
    assert_eq!(machine.container.as_deref(), Some("kubernetes"));
    assert_eq!(codes(&machine), ["quota-below-one", "smt", "steal", "memory-low"]);
}

#[test]
fn cpuset_and_affinity_are_intersected() {
    let machine = machine(recording!("cpuset-v2"), &avx512());
    assert_eq!((machine.cpus.as_slice(), machine.cpus_online, machine.threads), (&[4, 5][..], 16, 2));
    assert_eq!(machine.pin_cpus(), Some(vec![4, 5]));
    assert_eq!(machine.quota_cpus, None);
    let l3 = machine.caches.last().expect("caches");
    assert_eq!((l3.level, l3.bytes, l3.shared_by, l3.instances), (3, 32 << 20, 8, 1));
    assert!(codes(&machine).is_empty());
}

#[test]
fn one_thread_a_core_where_cores_have_two() {
    let machine = machine(recording!("laptop-smt"), &avx2());
    assert_eq!((machine.cpus.len(), machine.cores, machine.threads), (8, 4, 4));
    assert!(machine.smt.active);
    assert_eq!(machine.smt.cores[1], [1, 5]);
    assert_eq!(machine.pin_cpus(), Some(vec![0, 1, 2, 3]));
    assert_eq!(
        (machine.virtualization.as_deref(), machine.huge_pages.transparent.as_str()),
        (None, "always")
    );
    assert_eq!(codes(&machine), ["smt"]);
    let sizes: Vec<(u8, u64, usize)> =
        machine.caches.iter().map(|c| (c.level, c.bytes >> 10, c.instances)).collect();
    assert_eq!(sizes, [(1, 32, 4), (1, 32, 4), (2, 256, 4), (3, 8192, 1)]);
}

#[test]
fn two_nodes_share_the_cores() {
    let machine = machine(recording!("two-nodes"), &avx512());
    assert_eq!((machine.cpus.len(), machine.cores, machine.threads, machine.cpus_online), (8, 8, 8, 16));
    let nodes: Vec<(usize, &[usize], u64)> =
        machine.numa.iter().map(|node| (node.id, node.cpus.as_slice(), node.memory_bytes)).collect();
    assert_eq!(nodes, [(0, &[0, 1, 2, 3][..], 64 * GIB), (1, &[4, 5, 6, 7][..], 64 * GIB)]);
    assert_eq!((machine.memory_limit_bytes, machine.memory_limit_source.as_str()), (96 * GIB, "ulimit -v"));
    assert_eq!(codes(&machine), ["smt-shared-cores", "huge-pages-off", "numa"]);
}

#[test]
fn an_arm_server_in_a_container() {
    let environment = Environment { architecture: "aarch64".to_owned(), ..x86(&[Tier::Scalar, Tier::Neon]) };
    let machine = machine(recording!("arm-server"), &environment);
    assert_eq!((machine.model_name.as_str(), machine.tier), ("Neoverse N1", Tier::Neon));
    assert_eq!(machine.features, ["asimd", "asimdhp", "asimddp"]);
    assert_eq!((machine.memory_limit_bytes, machine.memory_available_bytes), (2 * GIB, GIB));
    assert_eq!((machine.threads, machine.container.as_deref()), (4, Some("podman")));
    assert_eq!(machine.virtualization.as_deref(), Some("amazon"));
}

#[test]
fn a_recorded_virtual_machine_with_both_versions() {
    let machine = machine(recording!("vm-cgroup-v1"), &avx512());
    assert_eq!((machine.cpus.as_slice(), machine.threads, machine.quota_cpus), (&[0, 1][..], 2, None));
    assert_eq!(machine.model_name, "AMD EPYC");
    assert_eq!(machine.virtualization.as_deref(), Some("a virtual machine"));
    assert_eq!(machine.memory_limit_source, "/proc/meminfo MemTotal");
    assert!(
        machine.memory_available_bytes > GIB && machine.memory_available_bytes < machine.memory_total_bytes
    );
    assert!(machine.features.iter().any(|name| name == "avx512_vnni"));
}

#[test]
fn a_machine_that_tells_nothing_is_still_a_machine() {
    let machine = machine("", &x86(&[Tier::Scalar]));
    assert_eq!((machine.cpus.as_slice(), machine.threads), (&[0, 1, 2][..], 3));
    assert_eq!((machine.memory_limit_bytes, machine.numa.len()), (u64::MAX, 1));
    assert_eq!(codes(&machine), ["no-simd", "huge-pages-off"]);
}

#[test]
fn the_tier_asked_for_is_taken_if_it_is_there() {
    let asked =
        |isa: &str| machine(recording!("cpuset-v2"), &Environment { isa: Some(isa.to_owned()), ..avx512() });
    let forced = asked("avx2");
    assert_eq!((forced.tier, codes(&forced)), (Tier::Avx2, vec!["isa-forced"]));
    let best = asked("avx512");
    assert_eq!((best.tier, codes(&best).len()), (Tier::Avx512, 0));
    for refused in ["neon", "sse9"] {
        let machine = asked(refused);
        assert_eq!((machine.tier, codes(&machine)), (Tier::Avx512, vec!["isa-refused"]), "{refused}");
        assert!(machine.tier_reason.contains(refused), "{}", machine.tier_reason);
    }
}

#[test]
fn a_recording_looks_like_the_machine_it_was_made_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    lay_out(recording!("two-nodes"), folder.path());
    let root = Root::at(folder.path());
    let first = detect::detect(&root, &avx512());
    assert_eq!(machine(&root.recording(), &avx512()), first);
}

#[test]
fn this_machine_can_be_looked_at() {
    let machine = super::detect();
    assert!(machine.threads >= 1 && machine.threads <= machine.cpus.len());
    assert!(machine.memory_available_bytes <= machine.memory_limit_bytes);
    assert!(machine.memory_limit_bytes <= machine.memory_total_bytes);
    assert!(machine.tiers.contains(&machine.tier));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Whatever the files say, the probe ends with at least one thread and no more than it has CPUs.
    #[test]
    fn any_text_in_any_file(which in 0usize..6, text in "[ -~\\n]{0,200}") {
        let paths = [
            "/proc/self/cgroup", "/proc/self/mountinfo", "/sys/fs/cgroup/inference.slice/cpu.max", "/proc/cpuinfo",
            "/sys/devices/system/cpu/online", "/proc/meminfo",
        ];
        let folder = tempfile::tempdir().expect("a temporary folder");
        lay_out(recording!("systemd-v2"), folder.path());
        std::fs::write(folder.path().join(&paths[which][1..]), text).expect("a file");
        let machine = detect::detect(&Root::at(folder.path()), &avx2());
        prop_assert!(machine.threads >= 1);
        prop_assert!(machine.threads <= machine.cpus.len().max(1));
    }
}
