//! The machine's ceilings, measured: how fast memory and caches are read, and how many multiply-adds a second the
//! chosen tier makes.
//!
//! The loops are written over [`crate::simd`], so they are made of the very instructions that the kernels use, and
//! there is one of each whatever the tier. Best of several passes: a ceiling is what nothing disturbed.
//! Deliberately absent: writing, and latency. Decoding reads weights in one forward stream a thread.

mod round_trip;

pub use round_trip::{RoundTrip, round_trip};

use crate::probe::Machine;
#[cfg(target_arch = "x86_64")]
use crate::simd::amx::{Amx, ROWS, Tiles};
use crate::simd::{self, DotKind, Job, Simd};
use crate::{Pages, Pool, Tier, Uarch, thread};
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

/// What is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Eight-bit integers, summed in 32 bits.
    Int8,
    /// bf16, summed in f32.
    Bf16,
    /// f32.
    F32,
}

impl Numbers {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Numbers::Int8 => "int8",
            Numbers::Bf16 => "bf16",
            Numbers::F32 => "f32",
        }
    }
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

/// Some thousand rounds; how many multiply-adds they were.
fn multiply_add(tier: Tier, numbers: Numbers) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if let Some(amx) = Amx::for_tier(tier).filter(|_| numbers == Numbers::Bf16) {
        return tiles(amx);
    }
    match numbers {
        Numbers::Int8 => simd::dispatch(tier, Int8),
        Numbers::Bf16 => simd::dispatch(tier, Bf16),
        Numbers::F32 => simd::dispatch(tier, F32),
    }
}

/// Two tiles of rows times two of weights, all zeros, read anew for each round.
#[cfg(target_arch = "x86_64")]
fn tiles(amx: Amx) -> f64 {
    let tiles = Tiles::new(amx, ROWS, 64);
    let zeros = [0u8; 64 * ROWS];
    tiles.zero::<0>();
    tiles.zero::<1>();
    tiles.zero::<2>();
    tiles.zero::<3>();
    for _ in 0..ROUNDS {
        tiles.load_a::<0, _>(&zeros, 64, 0);
        tiles.load_a::<1, _>(&zeros, 64, 0);
        tiles.load_b::<0, _>(&zeros, 64);
        tiles.load_b::<1, _>(&zeros, 64);
        tiles.dot_bf16::<0, 0, 0>();
        tiles.dot_bf16::<1, 0, 1>();
        tiles.dot_bf16::<2, 1, 0>();
        tiles.dot_bf16::<3, 1, 1>();
    }
    (ROUNDS * 4 * ROWS * 16 * 32) as f64
}

fn instructions(tier: Tier, numbers: Numbers) -> &'static str {
    match (tier, numbers) {
        (Tier::Amx | Tier::AmxFp16, Numbers::Bf16) => "tdpbf16ps, tiles of 16 x 32 numbers",
        (_, Numbers::Int8) => simd::int8_instructions(tier),
        (Tier::Avx512, Numbers::Bf16) if simd::has_bf16_dot(tier) => "vdpbf16ps, 512 bits",
        (Tier::Scalar, Numbers::F32) => "plain code",
        (_, Numbers::F32) => "fused multiply-add",
        (_, _) => "widened to f32, multiply-add",
    }
}

/// Prefetches what is read next of a stream, by as much as the products do (`kernels::tune`).
#[inline(always)]
fn prefetch<S: Simd>(s: S, line: &[u8]) {
    match S::UARCH {
        Uarch::Zen4 => s.prefetch_l2(line, 4 << 10),
        Uarch::Generic => s.prefetch(line, 3 << 10),
    }
}

/// The most accumulators of [`accumulators`].
const MAX_ACCUMULATORS: usize = 24;

/// Independent accumulators: at least latency times instructions a cycle, with registers left for the operands.
const fn accumulators<S: Simd>() -> usize {
    if many_registers::<S>() { MAX_ACCUMULATORS } else { 12 }
}

/// Whether there are registers for two of weights beside [`MAX_ACCUMULATORS`], each broadcast of activations shared by both.
const fn many_registers<S: Simd>() -> bool {
    matches!(S::TIER, Tier::Avx512)
}

/// Rounds over the sums for each look at the clock.
const ROUNDS: usize = 20_000;

/// Which register of weights and which number of `x` sum `i` is of. In pairs two sums share the number: to read one for each is what limits
/// a CPU that starts as many products a cycle as it reads registers.
#[inline(always)]
fn factors(i: usize, pairs: bool) -> [usize; 2] {
    if pairs { [i % 2, i / 2] } else { [0, i] }
}

// Each returns how many multiply-adds it did. Operands are read again each round from memory that the compiler must
// think changed, so that no product can be taken out of the loop; the numbers keep every sum small.

struct Int8;

impl Job for Int8 {
    type Out = f64;
    const DOT_KIND: DotKind = DotKind::Int8;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let weights = [[3u8; 64]; 2];
        let x = [[5i8, -5, 5, -5]; MAX_ACCUMULATORS];
        let mut sums = [s.splat_i(0); MAX_ACCUMULATORS];
        for _ in 0..ROUNDS {
            let w = black_box(&weights).each_ref();
            let w = [s.load_bytes(w[0]), s.load_bytes(w[1])];
            let x = black_box(&x);
            for (i, sum) in sums[..accumulators::<S>()].iter_mut().enumerate() {
                let [of_w, of_x] = factors(i, many_registers::<S>());
                *sum = s.dot(*sum, w[of_w], s.splat4(&x[of_x]));
            }
        }
        let mut results = [s.splat(0.0); MAX_ACCUMULATORS];
        for (result, sum) in results.iter_mut().zip(sums) {
            *result = s.to_f(sum);
        }
        keep(s, results);
        (ROUNDS * accumulators::<S>() * S::LANES * 4) as f64
    }
}

struct Bf16;

impl Job for Bf16 {
    type Out = f64;
    const DOT_KIND: DotKind = DotKind::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        // 1.0 in bf16 is 0x3f80; its sign bit is 0x8000.
        let weights: [[u8; 64]; 2] = [std::array::from_fn(|i| if i % 2 == 0 { 0x80 } else { 0x3f }); 2];
        let x = [0xbf80_3f80_u32 as i32; MAX_ACCUMULATORS];
        let x_f32 = [1.0f32; MAX_ACCUMULATORS];
        let mut sums = [s.splat(0.0); MAX_ACCUMULATORS];
        for _ in 0..ROUNDS {
            let w = black_box(&weights).each_ref();
            let w = [s.load_bytes(w[0]), s.load_bytes(w[1])];
            if S::BF16_DOT {
                let x = black_box(&x);
                for (i, sum) in sums[..accumulators::<S>()].iter_mut().enumerate() {
                    let [of_w, of_x] = factors(i, many_registers::<S>());
                    *sum = s.bf16_dot(*sum, w[of_w], s.splat_i(x[of_x]));
                }
            } else {
                let x = black_box(&x_f32);
                let low = s.cast_f(s.shl::<16>(w[0]));
                let high = s.cast_f(s.and(w[0], s.splat_i(0xffff_0000_u32 as i32)));
                for (sum, &value) in sums[..accumulators::<S>()].iter_mut().zip(x) {
                    let value = s.splat(value);
                    *sum = s.fma(high, value, s.fma(low, value, *sum));
                }
            }
        }
        keep(s, sums);
        (ROUNDS * accumulators::<S>() * S::LANES * 2) as f64
    }
}

struct F32;

impl Job for F32 {
    type Out = f64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let weights = [0.5f32; 64];
        let x = [0.25f32; MAX_ACCUMULATORS];
        let mut sums = [s.splat(0.0); MAX_ACCUMULATORS];
        for _ in 0..ROUNDS {
            let weights = black_box(&weights);
            let w = [s.load(&weights[..]), s.load(&weights[S::LANES..])];
            let x = black_box(&x);
            for (i, sum) in sums[..accumulators::<S>()].iter_mut().enumerate() {
                let [of_w, of_x] = factors(i, matches!(S::TIER, Tier::Avx512 | Tier::Avx2));
                *sum = s.fma(w[of_w], s.splat(x[of_x]), *sum);
            }
        }
        keep(s, sums);
        (ROUNDS * accumulators::<S>() * S::LANES) as f64
    }
}

/// Makes the compiler believe that the sums are used.
#[inline(always)]
fn keep<S: Simd, const N: usize>(s: S, sums: [S::F; N]) {
    for sum in sums {
        let mut out = [0.0f32; 64];
        s.store(sum, &mut out);
        black_box(out);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bf16, Ceilings, F32, Int8, Memory, Numbers, Read};
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
