//! What this process has used so far, as the kernel counts it: memory, CPU time, throttling, open files.
//!
//! Only for telling. Sizes never come from here: they come from the one look at the machine ([`crate::probe`]).
//! Formats: proc(5) for `/proc/self/stat`, `status`, `limits` and `/proc/stat`; the kernel's `cgroup-v2.rst` and
//! `sched-bwc.rst` for `cpu.stat`.

use crate::probe::Machine;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The kernel's `USER_HZ`, which is 100 on every architecture that runs this.
const TICKS_PER_S: f64 = 100.0;
/// The longest file read here is `/proc/stat`, with a line a CPU and one of all interrupts.
const FILE_LIMIT: u64 = 1 << 20;

/// What was used so far. `None` where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Memory in RAM: anonymous, of files, and shared.
    pub resident_bytes: Option<u64>,
    /// The anonymous part of it, which is not given back under pressure.
    pub anonymous_bytes: Option<u64>,
    /// Address space.
    pub virtual_bytes: Option<u64>,
    /// CPU time of all threads, in user code and in the kernel.
    pub cpu_s: Option<f64>,
    /// Time for which the CPU quota held threads up, summed over CPUs. Of the control group that sets the quota; 0
    /// without one.
    pub throttled_s: Option<f64>,
    /// Files and sockets open.
    pub open_files: Option<u64>,
    /// How many may be.
    pub max_files: Option<u64>,
    /// When the process started, Unix seconds.
    pub started_unix_s: Option<f64>,
}

/// Reads the usage of this process.
#[derive(Clone, Debug)]
pub struct Meter {
    proc: PathBuf,
    /// `cpu.stat` of the group whose quota holds.
    throttling: Option<PathBuf>,
    started_unix_s: Option<f64>,
}

impl Meter {
    /// A meter on the machine that was looked at.
    #[must_use]
    pub fn new(machine: &Machine) -> Meter {
        let quota = machine.quota_source.as_deref().map(Path::new);
        Meter::at("/proc".into(), quota.map(|file| file.with_file_name("cpu.stat")))
    }

    fn at(proc: PathBuf, throttling: Option<PathBuf>) -> Meter {
        let started_unix_s = started(&proc);
        Meter { proc, throttling, started_unix_s }
    }

    /// What was used until now. Takes some tens of microseconds, and a little more with many open files.
    #[must_use]
    pub fn read(&self) -> Usage {
        let own = |name: &str| text(&self.proc.join("self").join(name));
        let status = own("status").unwrap_or_default();
        let memory = |name: &str| kib(&status, name).map(|kib| kib * 1024);
        let limits = own("limits").unwrap_or_default();
        let max_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let files = std::fs::read_dir(self.proc.join("self/fd"));
        Usage {
            resident_bytes: memory("VmRSS:"),
            anonymous_bytes: memory("RssAnon:"),
            virtual_bytes: memory("VmSize:"),
            cpu_s: Some(cpu_seconds()),
            throttled_s: match &self.throttling {
                Some(file) => text(file).and_then(|stat| throttled_seconds(&stat)),
                None => Some(0.0),
            },
            // The directory is open itself while it is read.
            open_files: files.ok().map(|files| files.count().saturating_sub(1) as u64),
            max_files: max_files.and_then(|line| line.split_whitespace().next()?.parse().ok()),
            started_unix_s: self.started_unix_s,
        }
    }
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(FILE_LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A line `NAME:   123 kB` of `status`.
fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Field `number` of `stat`, counted from 1 as proc(5) does. The second is the program's name in brackets, which may
/// hold anything.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// From the process's own clock: `/proc/self/stat` counts in hundredths, and emulators leave it zero.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// `throttled_usec` in version 2, `throttled_time` in nanoseconds in version 1.
fn throttled_seconds(stat: &str) -> Option<f64> {
    let value = |name: &str| {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<f64>().ok())
    };
    value("throttled_usec").map(|us| us / 1e6).or_else(|| value("throttled_time").map(|ns| ns / 1e9))
}

fn started(proc: &Path) -> Option<f64> {
    let ticks = field(&text(&proc.join("self/stat"))?, 22)?;
    let stat = text(&proc.join("stat"))?;
    let boot: f64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + ticks / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    const STAT: &str =
        "8373 (a) b) (c) R 8367 8367 24098 0 -1 4194304 99 0 0 0 250 75 0 0 20 0 1 0 5026787 3133440 393";

    fn write(folder: &Path, name: &str, text: &str) {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        write(at, "self/stat", STAT);
        write(
            at,
            "self/status",
            "Name:\tx\nVmSize:\t    3060 kB\nVmRSS:\t    1732 kB\nRssAnon:\t     116 kB\n",
        );
        write(
            at,
            "self/limits",
            "Limit    Soft   Hard  Units\nMax open files            1024                 4096                 files\n",
        );
        write(at, "self/fd/0", "");
        write(at, "self/fd/1", "");
        write(at, "stat", "cpu  1 2 3\nbtime 1700000000\n");
        write(at, "cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n");
        let usage = Meter::at(at.to_owned(), Some(at.join("cpu.stat"))).read();
        assert!(usage.cpu_s.is_some());
        assert_eq!(
            Usage { cpu_s: None, ..usage },
            Usage {
                resident_bytes: Some(1732 << 10),
                anonymous_bytes: Some(116 << 10),
                virtual_bytes: Some(3060 << 10),
                cpu_s: None,
                throttled_s: Some(2.5),
                open_files: Some(1),
                max_files: Some(1024),
                started_unix_s: Some(1_700_050_267.87),
            }
        );
    }

    #[test]
    fn version_one_counts_nanoseconds() {
        assert_eq!(throttled_seconds("nr_periods 9\nnr_throttled 2\nthrottled_time 1500000000\n"), Some(1.5));
        assert_eq!(throttled_seconds("nr_periods 9\n"), None);
    }

    #[test]
    fn what_is_not_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Meter::at(folder.path().to_owned(), None).read();
        assert_eq!(usage, Usage { throttled_s: Some(0.0), cpu_s: usage.cpu_s, ..Usage::default() });
        for stat in ["", "1 (x", "1 (x) R", "1 (x) R a b c d e f g h i j k l m n o p q r s t u v"] {
            assert_eq!(field(stat, 22), None, "{stat}");
        }
    }

    #[test]
    fn this_process_is_sane() {
        let meter = Meter::new(&crate::probe::detect());
        let before = meter.read();
        let end = Instant::now() + Duration::from_millis(60);
        let mut burnt = 0_u64;
        while Instant::now() < end {
            burnt = std::hint::black_box(burnt + 1);
        }
        let usage = meter.read();
        assert!(usage.cpu_s.unwrap() > before.cpu_s.unwrap(), "{usage:?}");
        assert!(usage.resident_bytes.unwrap() >= usage.anonymous_bytes.unwrap());
        assert!(
            usage.anonymous_bytes.unwrap() > 0
                && usage.virtual_bytes.unwrap() > usage.resident_bytes.unwrap()
        );
        assert!((3..10_000).contains(&usage.open_files.unwrap()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - usage.started_unix_s.unwrap()).abs() < 3_600.0, "{now} {usage:?}");
    }
}
