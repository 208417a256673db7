//! The machine's ceilings, measured: how fast memory and caches are read, and how many multiply-adds a second the
//! chosen tier makes.
//!
//! The loops are written over [`crate::simd`], so they are made of the very instructions that the kernels use, and
//! there is one of each whatever the tier. Best of several passes: a ceiling is what nothing disturbed.
//! Deliberately absent: writing, and latency. Decoding reads weights in one forward stream a thread.

mod peaks;
mod round_trip;

pub use peaks::Numbers;
pub use round_trip::{RoundTrip, round_trip};

use crate::probe::Machine;
use crate::simd::{self, Job, Simd};
use crate::{Pages, Pool, Tier, Uarch, thread};
use peaks::{instructions, keep, multiply_add};
use serde::Serialize;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Passes of which the best counts: many short ones, so that on a busy machine some are undisturbed.
const PASSES: usize = 20;
/// How long one pass takes at least.
const PASS: Duration = Duration::from_millis(30);

/// What was measured, with one thread and with all.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The tier measured.
    pub tier: Tier,
    /// How many threads "all" are.
    pub threads: usize,
    /// Read bandwidth of memory and caches.
    pub bandwidth: Vec<Bandwidth>,
    /// Arithmetic peaks.
    pub peaks: Vec<Peak>,
    /// A pool's round trip; none when its threads cannot be had.
    pub round_trip: Option<RoundTrip>,
}

/// Read bandwidth in GB/s (1e9 bytes).
#[derive(Clone, Debug, Serialize)]
pub struct Bandwidth {
    /// `memory`, `L3`, `L2`, `L1`.
    pub what: String,
    /// `huge` or `4 KiB` pages.
    pub pages: &'static str,
    /// Bytes that each of the threads reads over and over.
    pub bytes_per_thread: usize,
    /// One thread, GB/s.
    pub one_thread: f64,
    /// All threads together, GB/s.
    pub all_threads: f64,
}

/// An arithmetic peak in G multiply-adds/s.
#[derive(Clone, Debug, Serialize)]
pub struct Peak {
    /// `int8`, `bf16`, `f32`.
    pub numbers: &'static str,
    /// The instructions it is made of.
    pub instructions: &'static str,
    /// One thread, G multiply-adds/s.
    pub one_thread: f64,
    /// All threads together, G multiply-adds/s.
    pub all_threads: f64,
}

/// Measures `machine` with its tier and threads; `progress` hears what is being measured. Takes some 20 seconds and up
/// to 1 GiB, never more than a quarter of the memory available.
pub fn run(machine: &Machine, progress: &mut dyn FnMut(&str)) -> Measured {
    let team = Team { cpus: machine.pin_cpus(), threads: machine.threads };
    let tier = machine.tier;
    let mut bandwidth = Vec::new();
    let total = usize::try_from(machine.memory_available_bytes / 4).unwrap_or(usize::MAX).min(1 << 30);
    let share = (total / machine.threads) & !0xfff;
    for pages in ["huge", "4 KiB"] {
        progress(&format!("memory through {pages} pages"));
        bandwidth.extend(measure_read(tier, &team, "memory".to_owned(), pages, share));
    }
    for cache in machine.caches.iter().rev().filter(|cache| cache.kind != "instruction") {
        progress(&format!("L{} cache", cache.level));
        // Half of what a thread has for itself, so that nothing else pushes it out.
        let sharers = cache.shared_by.min(machine.threads.div_ceil(cache.instances.max(1))).max(1);
        let share = (usize::try_from(cache.bytes).unwrap_or(0) / 2 / sharers) & !0xfff;
        bandwidth.extend(measure_read(tier, &team, format!("L{}", cache.level), "huge", share));
    }
    let mut peaks = Vec::new();
    for numbers in [Numbers::Int8, Numbers::Bf16, Numbers::F32] {
        progress(&format!("{} multiply-adds", numbers.name()));
        peaks.push(measure_peak(tier, &team, numbers));
    }
    progress("a round of the threads");
    let round_trip = team.round_trip();
    Measured { tier, threads: machine.threads, bandwidth, peaks, round_trip }
}

/// Ceilings that can be looked at again and again, beside what is held against them: on a shared machine they move
/// from minute to minute.
pub struct Ceilings {
    tier: Tier,
    team: Team,
    /// Bytes that each thread reads.
    share: usize,
    /// What each thread reads, from the first look at it on.
    memory: Vec<Memory>,
}

impl Ceilings {
    /// Of `threads` threads and `tier`. Keeps half a GiB to read, never more than an eighth of the memory available.
    #[must_use]
    pub fn new(machine: &Machine, tier: Tier, threads: usize) -> Ceilings {
        let total = usize::try_from(machine.memory_available_bytes / 8).unwrap_or(usize::MAX).min(512 << 20);
        let share = (total / threads.max(1)) & !0xfff;
        let cpus = machine.pin_cpus().filter(|cpus| cpus.len() >= threads);
        Ceilings { tier, team: Team { cpus, threads: threads.max(1) }, share, memory: Vec::new() }
    }

    /// How fast all threads together read memory through huge pages, in GB/s (1e9 bytes). Takes 1.2 seconds. None
    /// if the memory cannot be had.
    #[must_use]
    pub fn read_gb_per_s(&mut self) -> Option<f64> {
        if self.share < 4096 {
            return None;
        }
        while self.memory.len() < self.team.threads {
            self.memory.push(Memory::new(self.share, true)?);
        }
        Some(fastest_read(self.tier, &self.team, &mut self.memory))
    }

    /// The arithmetic peak of all threads together, in G multiply-adds/s. Takes 0.6 seconds.
    #[must_use]
    pub fn peak(&self, numbers: Numbers) -> f64 {
        let mut nothing = vec![(); self.team.threads];
        self.team.best(&mut nothing, &|()| multiply_add(self.tier, numbers)) / 1e9
    }
}

/// The threads that measure.
struct Team {
    cpus: Option<Vec<usize>>,
    threads: usize,
}

impl Team {
    /// On a thread of its own, since it is pinned.
    fn round_trip(&self) -> Option<RoundTrip> {
        let pool = Pool::new(self.threads, self.cpus.as_deref()).ok()?;
        std::thread::scope(|scope| {
            let measured = scope.spawn(|| {
                pool.pin_caller();
                round_trip(&pool)
            });
            measured.join().ok()
        })
    }

    /// Runs `work(thread, memory of the thread)` on the first `threads` threads at once; the best pass's work a second.
    /// `work` returns how much it did.
    fn best<M: Send>(&self, memory: &mut [M], work: &(dyn Fn(&mut M) -> f64 + Sync)) -> f64 {
        let threads = memory.len();
        let barrier = Barrier::new(threads);
        let pass = |index: usize, memory: &mut M| {
            if let Some(&cpu) = self.cpus.as_ref().and_then(|cpus| cpus.get(index)) {
                thread::pin(cpu);
            }
            let mut passes = Vec::with_capacity(PASSES);
            for _ in 0..PASSES {
                barrier.wait();
                let start = Instant::now();
                let mut done = 0.0;
                while start.elapsed() < PASS {
                    done += work(memory);
                }
                passes.push(done / start.elapsed().as_secs_f64());
            }
            passes
        };
        let rates: Vec<Vec<f64>> = std::thread::scope(|scope| {
            let pass = &pass;
            let started: Vec<_> = memory
                .iter_mut()
                .enumerate()
                .map(|(index, memory)| scope.spawn(move || pass(index, memory)))
                .collect();
            started.into_iter().map(|handle| handle.join().unwrap_or_default()).collect()
        });
        (0..PASSES)
            .map(|pass| rates.iter().map(|thread| thread.get(pass).copied().unwrap_or(0.0)).sum())
            .fold(0.0, f64::max)
    }
}

/// Nothing when the memory cannot be had or is too little to tell anything.
fn measure_read(
    tier: Tier,
    team: &Team,
    what: String,
    pages: &'static str,
    share: usize,
) -> Option<Bandwidth> {
    if share < 4096 {
        return None;
    }
    let mut memory = Vec::new();
    for _ in 0..team.threads {
        memory.push(Memory::new(share, pages == "huge")?);
    }
    let one_thread = fastest_read(tier, team, &mut memory[..1]);
    let all_threads = fastest_read(tier, team, &mut memory);
    Some(Bandwidth { what, pages, bytes_per_thread: share, one_thread, all_threads })
}

/// The most that the threads read together, in GB/s: some CPUs read more with software prefetch than their hardware prefetcher brings, others
/// less.
fn fastest_read(tier: Tier, team: &Team, memory: &mut [Memory]) -> f64 {
    let plain = team.best(memory, &|memory| read(tier, memory, false));
    plain.max(team.best(memory, &|memory| read(tier, memory, true)))
}

/// Reads all of it, small buffers many times for each look at the clock; the GB read.
fn read(tier: Tier, memory: &Memory, asks: bool) -> f64 {
    let bytes = memory.bytes();
    let times = ((1 << 20) / bytes.len()).max(1);
    for _ in 0..times {
        let bytes = black_box(bytes);
        if asks {
            simd::dispatch(tier, PrefetchedRead(bytes));
        } else {
            simd::dispatch(tier, Read(bytes));
        }
    }
    (bytes.len() * times) as f64 / 1e9
}

/// Bytes to read, every page written once.
enum Memory {
    Huge(Pages),
    Plain(Vec<u8>),
}

impl Memory {
    fn new(len: usize, huge: bool) -> Option<Memory> {
        if huge {
            let mut pages = Pages::new(len).ok()?;
            pages.fill(1);
            return Some(Memory::Huge(pages));
        }
        let mut plain: Vec<u8> = Vec::new();
        plain.try_reserve_exact(len).ok()?;
        refuse_huge_pages(&plain);
        plain.resize(len, 1);
        Some(Memory::Plain(plain))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Huge(pages) => pages,
            Memory::Plain(plain) => plain,
        }
    }
}

/// Where transparent huge pages are `always` on, a large allocation gets them unasked.
fn refuse_huge_pages(memory: &Vec<u8>) {
    const PAGE: usize = 4096;
    let start = memory.as_ptr().addr().next_multiple_of(PAGE);
    let end = (memory.as_ptr().addr() + memory.capacity()) & !(PAGE - 1);
    if end > start {
        let whole_pages = memory.as_ptr().with_addr(start).cast_mut().cast();
        // SAFETY: the range is made of whole pages inside one live allocation; this advice changes no contents.
        unsafe {
            libc::madvise(whole_pages, end - start, libc::MADV_NOHUGEPAGE);
        }
    }
}

/// Reads the bytes once from end to end.
struct Read<'a>(&'a [u8]);

impl Job for Read<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const AT_ONCE: usize = 8;
        let step = 4 * S::LANES;
        let mut seen = [s.splat_i(0); AT_ONCE];
        for chunk in self.0.chunks_exact(AT_ONCE * step) {
            for (register, bytes) in seen.iter_mut().zip(chunk.chunks_exact(step)) {
                *register = s.or(*register, s.load_bytes(bytes));
            }
        }
        keep_bytes(s, &seen);
    }
}

/// Reads the bytes once, both halves at a time, with software prefetch: as a GEMM reads two panels of weights.
struct PrefetchedRead<'a>(&'a [u8]);

impl Job for PrefetchedRead<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const LINE: usize = 64;
        let step = 4 * S::LANES;
        let halves = self.0.split_at(self.0.len() / 2 / LINE * LINE);
        let mut seen = [s.splat_i(0); 2];
        for lines in halves.0.chunks_exact(LINE).zip(halves.1.chunks_exact(LINE)) {
            for (register, line) in seen.iter_mut().zip([lines.0, lines.1]) {
                prefetch(s, line);
                *register = s.prefetch_barrier(*register);
                for bytes in line.chunks_exact(step) {
                    *register = s.or(*register, s.load_bytes(bytes));
                }
            }
        }
        keep_bytes(s, &seen);
    }
}

/// Has the compiler believe that what was read matters.
#[inline(always)]
fn keep_bytes<S: Simd>(s: S, seen: &[S::I]) {
    for register in seen {
        keep(s, [s.cast_f(*register)]);
    }
}

fn measure_peak(tier: Tier, team: &Team, numbers: Numbers) -> Peak {
    let mut nothing = vec![(); team.threads];
    let work = |(): &mut ()| multiply_add(tier, numbers);
    let one_thread = team.best(&mut nothing[..1], &work) / 1e9;
    let all_threads = team.best(&mut nothing, &work) / 1e9;
    Peak { numbers: numbers.name(), instructions: instructions(tier, numbers), one_thread, all_threads }
}

/// Prefetches what is read next of a stream, by as much as the products do (`kernels::tune`).
#[inline(always)]
fn prefetch<S: Simd>(s: S, line: &[u8]) {
    match S::UARCH {
        Uarch::Zen4 => s.prefetch_l2(line, 4 << 10),
        Uarch::Generic => s.prefetch(line, 3 << 10),
    }
}

#[cfg(test)]
mod tests {
    use super::peaks::{Bf16, F32, Int8};
    use super::{Ceilings, Memory, Numbers, Read};
    use crate::{Tier, probe, simd};

    #[test]
    fn ceilings_are_looked_at_more_than_once() {
        let mut ceilings = Ceilings::new(&probe::detect(), Tier::best(), 1);
        for _ in 0..2 {
            assert!(ceilings.read_gb_per_s().is_some_and(|rate| rate > 0.1));
            assert!(ceilings.peak(Numbers::Int8) > 0.1);
        }
    }

    #[test]
    fn every_tier_counts_its_work_by_its_width() {
        for tier in Tier::available() {
            let lanes = simd::lanes(tier) as f64;
            let f32s = simd::dispatch(tier, F32);
            assert_eq!(f32s % lanes, 0.0, "{tier}");
            assert_eq!(simd::dispatch(tier, Int8), 4.0 * f32s, "{tier}");
            assert_eq!(simd::dispatch(tier, Bf16), 2.0 * f32s, "{tier}");
        }
    }

    #[test]
    fn memory_is_as_long_as_asked_and_written() {
        for huge in [false, true] {
            let memory = Memory::new(3 << 20, huge).expect("3 MiB can be had");
            assert_eq!(memory.bytes().len(), 3 << 20);
            assert!(memory.bytes().iter().all(|&byte| byte == 1));
            simd::dispatch(Tier::widest(), Read(memory.bytes()));
        }
    }
}
