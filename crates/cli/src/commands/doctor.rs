//! `gristmill doctor`: what this machine gives us, what is made of it and why, and what slows it down.

use crate::Failure;
use crate::term::{self, Colour, out, paint};
use cpu::measure::Measured;
use cpu::probe::{Cache, Machine};
use serde::Serialize;

/// What `doctor` shows: the machine's CPUs, quota, memory, caches and instruction sets, what is chosen and why.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure read bandwidth and arithmetic peaks too (about 20 seconds, wants a quiet machine).
    #[arg(long)]
    measure: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Print every file that was read, for a bug report; nothing in it identifies you but host and group names.
    #[arg(long, conflicts_with_all = ["json", "measure"])]
    record: bool,

    #[command(flatten)]
    compute: crate::flags::Compute,
}

#[derive(Serialize)]
struct Report<'a> {
    version: &'static str,
    #[serde(flatten)]
    machine: &'a Machine,
    /// The instructions of the chosen tier that multiply weights in eight bits, and their width.
    int8_instructions: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<&'a Measured>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.record {
        term::write(&cpu::probe::record());
        return Ok(());
    }
    let mut machine = cpu::probe::detect();
    let threads = args.compute.threads(&machine)?;
    if threads != machine.threads {
        machine.threads = threads;
        machine.threads_reason = "--threads asks for it".to_owned();
    }
    let tier = args.compute.tier()?;
    if tier != machine.tier {
        machine.tier = tier;
        machine.tier_reason = "--isa asks for it".to_owned();
    }
    if !args.json {
        print(&machine);
    }
    let measured = args.measure.then(|| measure(&machine, args.json));
    match (&measured, args.json) {
        (_, true) => term::json(&Report {
            version: env!("CARGO_PKG_VERSION"),
            machine: &machine,
            int8_instructions: cpu::simd::int8_instructions(machine.tier),
            measured: measured.as_ref(),
        }),
        (Some(measured), false) => {
            print_measured(measured);
            Ok(())
        }
        (None, false) => Ok(()),
    }
}

fn measure(machine: &Machine, quiet: bool) -> Measured {
    let bar = if quiet { indicatif::ProgressBar::hidden() } else { indicatif::ProgressBar::new_spinner() };
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let measured = cpu::measure::run(machine, &mut |what| bar.set_message(format!("measuring {what}")));
    bar.finish_and_clear();
    measured
}

fn line(label: &str, value: &str) {
    out!("{}  {value}", paint(Colour::Bold, &format!("{label:>11}")));
}

fn print(machine: &Machine) {
    line("cpu", &format!("{} ({})", machine.model_name, machine.architecture));
    line("runs on", &place(machine));
    line("cpus", &cpus(machine));
    line("quota", &quota(machine));
    line("threads", &format!("{}: {}", machine.threads, machine.threads_reason));
    let tiers: Vec<&str> = machine.tiers.iter().map(|tier| tier.name()).collect();
    line("tier", &format!("{}: {} (here: {})", machine.tier, machine.tier_reason, tiers.join(", ")));
    line("int8", cpu::simd::int8_instructions(machine.tier));
    line("features", &machine.features.join(" "));
    for cache in &machine.caches {
        line(&format!("L{} {}", cache.level, short(&cache.kind)), &cache_line(cache));
    }
    line("memory", &memory(machine));
    for node in &machine.numa {
        line("numa node", &format!("{}: {}, {}", node.id, ids("CPUs", &node.cpus), bytes(node.memory_bytes)));
    }
    let pages = &machine.huge_pages;
    let size = if pages.bytes > 0 { format!(" ({})", bytes(pages.bytes)) } else { String::new() };
    line(
        "huge pages",
        &format!("transparent: {}{size}; reserved and free: {}", pages.transparent, pages.reserved_free),
    );
    for warning in &machine.warnings {
        out!("{} {} [{}]", paint(Colour::Yellow, "   warning:"), warning.message, warning.code);
    }
    if machine.warnings.is_empty() {
        out!("{}", paint(Colour::Green, "         ok: nothing here slows Gristmill down"));
    }
}

fn place(machine: &Machine) -> String {
    let host =
        machine.virtualization.clone().unwrap_or_else(|| "bare metal, as far as can be seen".to_owned());
    match &machine.container {
        Some(container) => format!("{host}, in a container ({container})"),
        None => host,
    }
}

fn cpus(machine: &Machine) -> String {
    let smt = if machine.smt.active {
        format!("{} hardware threads a core", machine.smt.cpus_per_core)
    } else {
        "no SMT".to_owned()
    };
    format!(
        "{} of {} online allowed ({}); {}, {smt}",
        machine.cpus.len(),
        machine.cpus_online,
        ids("ids", &machine.cpus),
        term::number(machine.cores, "core")
    )
}

fn quota(machine: &Machine) -> String {
    match (machine.quota_cpus, &machine.quota_source) {
        (Some(cpus), Some(file)) => format!("{cpus:.2} CPUs ({file})"),
        (Some(cpus), None) => format!("{cpus:.2} CPUs"),
        (None, _) => "none".to_owned(),
    }
}

fn memory(machine: &Machine) -> String {
    format!(
        "{} available of {} allowed ({}); {} in the machine",
        bytes(machine.memory_available_bytes),
        bytes(machine.memory_limit_bytes),
        machine.memory_limit_source,
        bytes(machine.memory_total_bytes)
    )
}

fn short(kind: &str) -> &str {
    match kind {
        "instruction" => "code",
        "unified" => "",
        other => other,
    }
}

fn cache_line(cache: &Cache) -> String {
    format!(
        "{} × {}, shared by {} CPU{}, {}-byte lines",
        cache.instances,
        bytes(cache.bytes),
        cache.shared_by,
        if cache.shared_by == 1 { "" } else { "s" },
        cache.line_bytes
    )
}

/// `0-3,8`, the way the kernel writes lists.
fn ids(what: &str, ids: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &id in ids {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => ranges.push((id, id)),
        }
    }
    let ranges: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    if ranges.is_empty() { format!("no {what}") } else { format!("{what} {}", ranges.join(",")) }
}

fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    if bytes == u64::MAX {
        return "unknown".to_owned();
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

fn print_measured(measured: &Measured) {
    out!("");
    let head =
        format!("{:<58}{:>12}{:>14}", "measured", "1 thread", term::number(measured.threads, "thread"));
    out!("{}", paint(Colour::Bold, &head));
    for row in &measured.bandwidth {
        let size = bytes(row.bytes_per_thread as u64);
        let name = format!("{} read, {} pages, {size} a thread, GB/s", row.what, row.pages);
        out!("{name:<58}{:>12.1}{:>14.1}", row.one_thread, row.all_threads);
    }
    for row in &measured.peaks {
        let name = format!("{} ({}), G multiply-adds/s", row.numbers, row.instructions);
        out!("{name:<58}{:>12.1}{:>14.1}", row.one_thread, row.all_threads);
    }
    if let Some(trip) = &measured.round_trip {
        let name = format!("round of the threads, best (median {:.2}), µs", trip.median_us);
        out!("{name:<58}{:>12}{:>14.2}", "–", trip.best_us);
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, ids};

    #[test]
    fn lists_are_written_as_ranges() {
        assert_eq!(ids("CPUs", &[0, 1, 2, 5, 7, 8]), "CPUs 0-2,5,7-8");
        assert_eq!(ids("CPUs", &[]), "no CPUs");
    }

    #[test]
    fn sizes_are_written_in_binary_units() {
        assert_eq!(bytes(32 << 10), "32 KiB");
        assert_eq!(bytes(1 << 30), "1 GiB");
        assert_eq!(bytes(1_500_000_000), "1.4 GiB");
        assert_eq!(bytes(0), "0 B");
    }
}
