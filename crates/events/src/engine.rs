//! What a model's engine holds now, and what it counts itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::event::{Gauges, ModelMemory};
use crate::family::ModelFamilies;

type Share = Gauge<f64, AtomicU64>;

pub(crate) struct EngineMetrics {
    running: Gauge,
    waiting: Gauge,
    waiting_for_capacity: Gauge,
    waiting_tokens: Gauge,
    kv_usage: Share,
    kv_cached: Share,
    state_snapshots: Gauge,
    /// As [`CACHE_TOTALS`].
    cache_totals: [SinceLoad; CACHE_TOTALS.len()],
    preemptions: SinceLoad,
    prefix_queries: SinceLoad,
    prefix_hits: SinceLoad,
    prefill_rows: SinceLoad,
    /// Seconds, as [`KINDS`].
    machine: [Seconds; KINDS.len()],
    /// Nanoseconds of them since the load.
    machine_last: [AtomicU64; KINDS.len()],
    /// As [`ModelMemory::USES`].
    memory: [Gauge; ModelMemory::USES.len()],
}

type Seconds = Counter<f64, AtomicU64>;

/// What the machine's time goes for, as labels.
const KINDS: [&str; 2] = ["prompt", "output"];

/// Totals of recurrent states and of the prefix cache, as [`cache_totals`] has them: names and helps.
const CACHE_TOTALS: [(&str, &str); 4] = [
    ("gristmill_state_restores", "Snapshots of recurrent states that requests went on from"),
    ("gristmill_state_restored_tokens", "Tokens that those snapshots spared"),
    (
        "gristmill_state_replayed_tokens",
        "Tokens computed again, as a recurrent state was taken back after wrong proposals",
    ),
    (
        "gristmill_warmed_tokens",
        "Tokens of prompts and their answers computed for the prefix cache while the engine was idle",
    ),
];

/// The values of [`CACHE_TOTALS`].
fn cache_totals(gauges: &Gauges) -> [u64; CACHE_TOTALS.len()] {
    [gauges.state_restores, gauges.state_restored_tokens, gauges.state_replayed_tokens, gauges.warmed_tokens]
}

/// A total that begins anew with each load, as a counter that goes on.
struct SinceLoad {
    total: Counter,
    /// The largest that the engine's own count was when it was looked up.
    last: AtomicU64,
}

impl SinceLoad {
    fn new(families: &mut ModelFamilies, name: &'static str, help: &'static str) -> SinceLoad {
        SinceLoad { total: families.add(name, help, Counter::default()), last: AtomicU64::new(0) }
    }

    fn set(&self, now: u64) {
        // Scrapes overlap, so an older count may come after a newer one.
        let last = self.last.fetch_max(now, Ordering::Relaxed);
        self.total.inc_by(now.saturating_sub(last));
    }

    fn begin(&self) {
        self.last.store(0, Ordering::Relaxed);
    }
}

impl EngineMetrics {
    pub(crate) fn new(f: &mut ModelFamilies) -> EngineMetrics {
        let help = "Requests waiting, by reason";
        let reasons = ["capacity", "deferred"];
        let [waiting_for_capacity, _]: [Gauge; 2] =
            f.add_by("vllm:num_requests_waiting_by_reason", help, "reason", reasons);
        let gauge = |f: &mut ModelFamilies, name, help| f.add(name, help, Gauge::default());
        let share = |f: &mut ModelFamilies, name, help| f.add(name, help, Share::default());
        EngineMetrics {
            waiting_for_capacity,
            running: gauge(f, "vllm:num_requests_running", "Requests being computed"),
            waiting: gauge(f, "vllm:num_requests_waiting", "Requests waiting to be computed"),
            waiting_tokens: gauge(f, "gristmill_waiting_tokens", "Prompt tokens waiting to be computed"),
            kv_usage: share(f, "vllm:kv_cache_usage_perc", "KV cache in use; 1 is all of it"),
            preemptions: SinceLoad::new(f, "vllm:num_preemptions", "Times a request lost its KV blocks"),
            prefix_queries: SinceLoad::new(
                f,
                "vllm:prefix_cache_queries",
                "Prompt tokens looked up in the prefix cache",
            ),
            prefix_hits: SinceLoad::new(
                f,
                "vllm:prefix_cache_hits",
                "Prompt tokens found in the prefix cache",
            ),
            kv_cached: share(
                f,
                "gristmill_kv_cache_kept_perc",
                "KV cache that no request holds and that is kept for equal prefixes; 1 is all of it",
            ),
            state_snapshots: gauge(
                f,
                "gristmill_state_snapshots",
                "Snapshots of recurrent states that are kept for equal prefixes",
            ),
            cache_totals: CACHE_TOTALS.map(|(name, help)| SinceLoad::new(f, name, help)),
            prefill_rows: SinceLoad::new(
                f,
                "gristmill_prefill_rows",
                "Prompt rows computed, those computed again after a preemption included",
            ),
            machine: f.add_by(
                "gristmill_model_machine_seconds",
                "The machine's time for requests to the model, by what it went for",
                "kind",
                KINDS,
            ),
            machine_last: Default::default(),
            memory: f.add_by(
                "gristmill_model_memory_bytes",
                "Memory that the model's engine has taken, by its use",
                "use",
                ModelMemory::USES,
            ),
        }
    }

    /// The engine's totals begin anew, as it was just started.
    pub(crate) fn begin(&self) {
        let totals = [&self.preemptions, &self.prefix_queries, &self.prefix_hits, &self.prefill_rows];
        totals.into_iter().chain(&self.cache_totals).for_each(SinceLoad::begin);
        self.machine_last.iter().for_each(|last| last.store(0, Ordering::Relaxed));
    }

    /// Seconds of the machine by what they went for.
    pub(crate) fn machine_seconds(&self) -> [(&'static str, f64); KINDS.len()] {
        std::array::from_fn(|i| (KINDS[i], self.machine[i].get()))
    }

    /// The engine's figures of now.
    pub(crate) fn set(&self, gauges: &Gauges) {
        self.set_held(gauges);
        self.preemptions.set(gauges.preemptions);
        self.prefix_queries.set(gauges.prefix_queries);
        self.prefix_hits.set(gauges.prefix_hits);
        self.prefill_rows.set(gauges.prefill_rows);
        self.cache_totals.iter().zip(cache_totals(gauges)).for_each(|(total, now)| total.set(now));
        let times = [gauges.prompt_time, gauges.output_time].into_iter().zip(&self.machine_last);
        for ((time, last), seconds) in times.zip(&self.machine) {
            let now = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let grown = now.saturating_sub(last.fetch_max(now, Ordering::Relaxed));
            seconds.inc_by(Duration::from_nanos(grown).as_secs_f64());
        }
    }

    /// There is no engine now, so it holds nothing; totals stay.
    pub(crate) fn clear(&self) {
        self.set_held(&Gauges::default());
    }

    fn set_held(&self, gauges: &Gauges) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let share = |blocks: usize| blocks as f64 / gauges.kv_blocks_total.max(1) as f64;
        self.running.set(whole(gauges.running));
        self.waiting.set(whole(gauges.waiting));
        self.waiting_for_capacity.set(whole(gauges.waiting));
        self.waiting_tokens.set(whole(gauges.waiting_tokens));
        self.kv_usage.set(share(gauges.kv_blocks_used));
        self.kv_cached.set(share(gauges.kv_blocks_cached));
        self.state_snapshots.set(whole(gauges.state_snapshots));
        let memory = self.memory.iter().zip(gauges.memory.bytes());
        memory.for_each(|(gauge, bytes)| _ = gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX)));
    }
}
