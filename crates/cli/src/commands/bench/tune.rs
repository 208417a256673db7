//! `gristmill tune`: the threads and the size of a prompt's steps that are fastest for a model here. `docs/tune.md` is its
//! manual.
//!
//! Candidates run in turn, so that a machine that slows down slows them all; who falls far behind is dropped. What others do on
//! the machine only ever costs time, so a candidate is as fast as its fastest run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cpu::probe::Machine;

use super::progress::Progress;
use super::runner::Runner;
use super::subject::Subject;
use super::test::Test;
use crate::term::{err, out};
use crate::tuned::{Setting, Tried, Tuned};
use crate::{Failure, flags, loading, store, term};

/// Prompt steps to try, the default first.
const CHUNKS: [usize; 3] = [256, 512, 128];
/// Time for each of the three questions; a round that has begun is finished.
const TIME: Duration = Duration::from_secs(15);
const MOST_ROUNDS: usize = 9;
/// Who takes so much longer than the fastest is dropped.
const BEHIND: f64 = 1.15;
/// A later candidate must be so much faster than the ones before it.
const WORTH: f64 = 1.02;
const DECODE: Test = Test { prompt: 0, generate: 8, depth: 0, streams: 1 };
const PROMPT: Test = Test { prompt: 128, generate: 0, depth: 0, streams: 1 };
const LONG_PROMPT: Test = Test { prompt: 512, generate: 0, depth: 0, streams: 1 };

/// Finds the threads and the size of prompt steps that are fastest for a model on this machine, in under a minute.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Catalog name, path or source; pulled if it is not there.
    #[arg(value_name = "MODEL")]
    model: String,

    /// Instruction tier: scalar, avx2, avx512, amx, amx-fp16 or neon [default: the best this machine has].
    #[arg(long, value_name = "TIER", env = "GRISTMILL_ISA")]
    isa: Option<cpu::Tier>,

    /// Measure and print, but keep nothing.
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Threads, and rows in a step of a prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Candidate {
    threads: usize,
    chunk: usize,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let machine = cpu::probe::look();
    let tier = flags::Compute { isa: args.isa, threads: None }.tier()?;
    let counts = thread_counts(&machine);
    let most = counts.iter().copied().max().unwrap_or(1);
    let compute = loading::compute(&machine, tier, most, flags::Prompts::default())?;
    let path = store::resolve(&args.model)?;
    let opened = weights::open(&path)?;
    let setting = Setting::of(&opened, &machine, tier);
    let context = model::Spec::read(&opened)?.context;
    drop(opened);
    let shorter =
        |test: Test| Test { prompt: test.prompt.min(context), generate: test.generate.min(context), ..test };
    let [decode, prompt, long_prompt] = [DECODE, PROMPT, LONG_PROMPT].map(shorter);
    let progress = Progress::new();
    compute.pool.pin_caller();
    let subject = Subject::File(args.model.clone());
    let largest = CHUNKS.into_iter().max().unwrap_or(1);
    let tests = [decode, prompt, long_prompt];
    let kv = kernels::KvDtype::fastest(compute.tier);
    let packed = flags::Packed::OFF;
    let mut runner = Runner::load(&subject, &machine, &compute, kv, &tests, largest, packed, &progress)?;
    let mut tried = Vec::new();
    let mut ask = |test: Test, candidates: Vec<Candidate>| {
        progress.stage(&format!("{}: {test}", args.model));
        let mut time = |candidate: Candidate| {
            compute.pool.limit(candidate.threads);
            runner.set_chunk(candidate.chunk);
            runner.run(&test).map(|sample| sample.took)
        };
        // The first run touches all memory.
        time(candidates[0])?;
        let runs = in_turn(&candidates, TIME, &mut time)?;
        let best = fastest(&runs);
        tried.extend(runs.iter().map(|(candidate, runs)| Tried {
            test: test.to_string(),
            threads: candidate.threads,
            prefill_chunk: candidate.chunk,
            tokens_per_s: test.tokens() as f64 / shortest(runs).as_secs_f64(),
            runs: runs.len(),
        }));
        Ok::<_, Failure>(best)
    };
    let of = |threads: &[usize], chunk| threads.iter().map(|&threads| Candidate { threads, chunk }).collect();
    let decode = ask(decode, of(&counts, CHUNKS[0]))?;
    let prefill = ask(prompt, of(&counts, CHUNKS[0]))?;
    let chunks = CHUNKS.map(|chunk| Candidate { threads: prefill.threads, chunk });
    let chunk = ask(long_prompt, chunks.to_vec())?.chunk;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let tuned = Tuned::new(setting, (decode.threads, prefill.threads, chunk), tried, now);
    drop(progress);
    let kept = if args.dry_run { None } else { Some(tuned.keep(&path)?) };
    if args.json {
        return term::json(&tuned);
    }
    out!("{:<10}{:>8}{:>10}{:>12}{:>6}", "test", "threads", "steps of", "tokens/s", "runs");
    for Tried { test, threads, prefill_chunk, tokens_per_s, runs } in &tuned.tried {
        out!("{test:<10}{threads:>8}{prefill_chunk:>10}{tokens_per_s:>12.2}{runs:>6}");
    }
    out!("{}: {}", args.model, tuned.say());
    if let Some(kept) = kept {
        err!("kept in {}; serve and run use it unless --threads is given", kept.display());
    }
    Ok(())
}

/// Fewer first: of two that are as fast, the one that leaves more to others.
fn thread_counts(machine: &Machine) -> Vec<usize> {
    let all = machine.threads;
    let mut counts: Vec<usize> = [1, all / 4, all / 2, all * 3 / 4, all - all.min(1), all].into();
    // Two threads on a core share its arithmetic, but may hide waiting.
    if machine.quota_cpus.is_none() {
        counts.push(machine.cpus.len());
    }
    counts.retain(|count| (1..=1024).contains(count));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Runs of each candidate.
type Runs = Vec<(Candidate, Vec<Duration>)>;

/// Runs the candidates in turn until the time is over or one is left.
fn in_turn(
    candidates: &[Candidate],
    time: Duration,
    run: &mut dyn FnMut(Candidate) -> Result<Duration, Failure>,
) -> Result<Runs, Failure> {
    let began = Instant::now();
    let mut runs: Runs = candidates.iter().map(|&candidate| (candidate, Vec::new())).collect();
    for _ in 0..MOST_ROUNDS {
        let best = runs.iter().filter(|(_, runs)| !runs.is_empty()).map(|(_, runs)| shortest(runs)).min();
        let behind = |runs: &[Duration]| {
            best.is_some_and(|best| shortest(runs).as_secs_f64() > BEHIND * best.as_secs_f64())
        };
        if runs.iter().filter(|(_, runs)| !behind(runs)).count() == 1 && best.is_some() {
            break;
        }
        for (candidate, runs) in runs.iter_mut().filter(|(_, runs)| !behind(runs)) {
            runs.push(run(*candidate)?);
        }
        if began.elapsed() > time {
            break;
        }
    }
    Ok(runs)
}

fn shortest(runs: &[Duration]) -> Duration {
    runs.iter().copied().min().unwrap_or(Duration::ZERO)
}

/// The first that none after it beats by [`WORTH`].
fn fastest(runs: &Runs) -> Candidate {
    let mut best = &runs[0];
    for other in &runs[1..] {
        if shortest(&best.1).as_secs_f64() > WORTH * shortest(&other.1).as_secs_f64() {
            best = other;
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(threads: &[usize]) -> Vec<Candidate> {
        threads.iter().map(|&threads| Candidate { threads, chunk: 256 }).collect()
    }

    fn tune(times: &dyn Fn(usize, usize) -> u64) -> (Candidate, Vec<usize>) {
        let mut calls = 0;
        let runs = in_turn(&candidates(&[1, 2, 4]), Duration::from_secs(60), &mut |candidate| {
            calls += 1;
            Ok(Duration::from_micros(times(candidate.threads, calls)))
        });
        let runs = runs.unwrap();
        (fastest(&runs), runs.iter().map(|(_, runs)| runs.len()).collect())
    }

    #[test]
    fn the_fastest_is_found_and_the_slow_are_dropped() {
        let (best, runs) = tune(&|threads, _| 1000 / threads as u64);
        assert_eq!((best.threads, runs), (4, vec![1, 1, 1]), "far apart: one round is enough");
        let (best, runs) = tune(&|threads, _| if threads == 1 { 2000 } else { 1000 });
        assert_eq!((best.threads, runs), (2, vec![1, MOST_ROUNDS, MOST_ROUNDS]), "as fast with fewer");
    }

    #[test]
    fn a_disturbed_run_decides_nothing() {
        // The first run of four threads is slow, but not slow enough to drop it.
        let (best, _) = tune(&|threads, call| match (threads, call) {
            (4, 3) => 1100,
            (4, _) => 900,
            _ => 1000,
        });
        assert_eq!(best.threads, 4);
    }

    #[test]
    fn time_ends_it() {
        let slow =
            in_turn(&candidates(&[1, 2]), Duration::ZERO, &mut |_| Ok(Duration::from_secs(1))).unwrap();
        assert!(slow.iter().all(|(_, runs)| runs.len() == 1));
    }

    #[test]
    fn counts_are_few_distinct_and_allowed() {
        let counts = thread_counts(&cpu::probe::look());
        assert!(counts.is_sorted_by(|a, b| a < b) && counts[0] == 1 && counts.len() <= 7);
    }
}
