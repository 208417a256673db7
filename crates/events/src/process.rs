//! Metrics of the process, under the names of Prometheus' client libraries where they have one.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// What the operating system says of the process, looked up when somebody asks for the metrics. `None` where it does
/// not tell, which makes `NaN` of a gauge and leaves a counter where it was.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Process {
    /// Memory in RAM, bytes.
    pub resident_bytes: Option<u64>,
    /// The anonymous part of it, bytes.
    pub anonymous_bytes: Option<u64>,
    /// Address space, bytes.
    pub virtual_bytes: Option<u64>,
    /// What the process may use: of the machine, or of its control group. Bytes.
    pub memory_limit_bytes: Option<u64>,
    /// CPU time of all threads, seconds.
    pub cpu_s: Option<f64>,
    /// Time for which a CPU quota held threads up, seconds.
    pub throttled_s: Option<f64>,
    /// Files and sockets open.
    pub open_files: Option<u64>,
    /// How many may be.
    pub max_files: Option<u64>,
    /// When the process started, Unix seconds.
    pub started_unix_s: Option<f64>,
}

type Value = Gauge<f64, AtomicU64>;
type Seconds = Counter<f64, AtomicU64>;

pub(crate) struct ProcessMetrics {
    resident: Value,
    anonymous: Value,
    virtual_bytes: Value,
    limit: Value,
    cpu: Seconds,
    throttled: Seconds,
    open_files: Value,
    max_files: Value,
    started: Value,
}

impl ProcessMetrics {
    pub(crate) fn new(r: &mut Registry) -> ProcessMetrics {
        fn add<M: Metric + Clone + Default>(r: &mut Registry, name: &str, help: &str) -> M {
            let metric = M::default();
            r.register(name, help, metric.clone());
            metric
        }
        ProcessMetrics {
            resident: add(r, "process_resident_memory_bytes", "Memory in RAM"),
            anonymous: add(r, "gristmill_process_anonymous_memory_bytes", "Memory in RAM that is of no file"),
            virtual_bytes: add(r, "process_virtual_memory_bytes", "Address space"),
            limit: add(r, "gristmill_memory_limit_bytes", "Memory that the process may use"),
            cpu: add(r, "process_cpu_seconds", "CPU time of all threads"),
            throttled: add(
                r,
                "gristmill_cpu_throttled_seconds",
                "Time for which the CPU quota held threads up",
            ),
            open_files: add(r, "process_open_fds", "Files and sockets open"),
            max_files: add(r, "process_max_fds", "Files and sockets that may be open"),
            started: add(r, "process_start_time_seconds", "When the process started, Unix seconds"),
        }
    }

    pub(crate) fn set(&self, p: &Process) {
        let whole = |n: Option<u64>| n.map_or(f64::NAN, |n| n as f64);
        let total = |counter: &Seconds, seconds: Option<f64>| {
            if let Some(seconds) = seconds {
                counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
            }
        };
        self.resident.set(whole(p.resident_bytes));
        self.anonymous.set(whole(p.anonymous_bytes));
        self.virtual_bytes.set(whole(p.virtual_bytes));
        self.limit.set(whole(p.memory_limit_bytes));
        self.open_files.set(whole(p.open_files));
        self.max_files.set(whole(p.max_files));
        self.started.set(p.started_unix_s.unwrap_or(f64::NAN));
        total(&self.cpu, p.cpu_s);
        total(&self.throttled, p.throttled_s);
    }
}
