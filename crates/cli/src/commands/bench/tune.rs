//! `gristmill tune`: the threads and the size of a prompt's steps that are fastest for a model here. `docs/tune.md` is its
//! manual.
//!
//! Candidates run in turn, there and back, so that a machine that slows down slows them all; who falls far behind twice is
//! dropped. What others do on the machine only ever costs time, so a candidate is as fast as its fastest run. But where
//! others compute all the while, the fastest run is slow too, and fewer threads look better than they are: how disturbed
//! the runs were is measured, a question that was is asked again, and an answer that stays disturbed is not kept.

mod quiet;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cpu::probe::Machine;

use quiet::Noise;

use super::progress::Progress;
use super::runner::Runner;
use super::subject::Subject;
use super::test::Test;
use crate::term::{err, out};
use crate::tuned::{Setting, Tried, Tuned};
use crate::{Failure, flags, found, loading, store, term};

/// Prompt steps to try, the default first.
const CHUNKS: [usize; 3] = [256, 512, 128];
/// Time for each of the three questions; a round that has begun is finished.
const TIME: Duration = Duration::from_secs(15);
const MOST_ROUNDS: usize = 9;
/// Runs that a candidate has before it is dropped, and the fastest before it is chosen.
const LEAST_RUNS: [usize; 2] = [2, 3];
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
    /// Catalog name, path or source; pulled if it is not there. The name of a published shape is taken as --shape.
    #[arg(value_name = "MODEL", required_unless_present = "shape")]
    model: Option<String>,

    /// Instruction tier: scalar, avx2, avx512, amx, amx-fp16 or neon [default: the best this machine has].
    #[arg(long, value_name = "TIER", env = "GRISTMILL_ISA")]
    isa: Option<cpu::Tier>,

    /// A published shape with random weights, NAME:FORMAT, in place of MODEL: measured, and nothing is kept.
    #[arg(long, value_name = "SHAPE", conflicts_with = "model")]
    shape: Option<String>,

    /// Measure and print, but keep nothing.
    #[arg(long)]
    dry_run: bool,

    /// Keep what was found even if other programs disturbed the measurement.
    #[arg(long)]
    force: bool,

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
    let machine = cpu::probe::detect();
    let tier = flags::Compute { isa: args.isa, threads: None }.tier()?;
    let counts = thread_counts(&machine);
    let most = counts.iter().copied().max().unwrap_or(1);
    let compute = loading::compute(&machine, tier, most, flags::Prompts::default())?;
    let subject = subject(args)?;
    let label = subject.label();
    let path = match &subject {
        Subject::File(name) => Some(store::resolve(name)?),
        Subject::Shape(..) => None,
    };
    let opened = match &path {
        Some(path) => weights::open(path)?,
        None => subject.open(&compute.pool)?,
    };
    let setting = Setting::of(&opened, &machine, tier);
    let context = model::Spec::read(&opened).map_err(|error| found::of(&label, error))?.context;
    drop(opened);
    let shorter =
        |test: Test| Test { prompt: test.prompt.min(context), generate: test.generate.min(context), ..test };
    let [decode, prompt, long_prompt] = [DECODE, PROMPT, LONG_PROMPT].map(shorter);
    let progress = Progress::new();
    compute.pool.pin_caller();
    let largest = CHUNKS.into_iter().max().unwrap_or(1);
    let tests = [decode, prompt, long_prompt];
    let kv = kernels::KvDtype::fastest(compute.tier);
    let packed = flags::Packed::OFF;
    let mut runner = Runner::load(&subject, &machine, &compute, kv, &tests, largest, packed, &progress)?;
    let (mut tried, mut trouble) = (Vec::new(), None);
    let mut ask = |test: Test, candidates: Vec<Candidate>| {
        progress.stage(&format!("{label}: {test}"));
        // Threads' time, and what of it they waited.
        let (mut worked, mut waits) = (Duration::ZERO, Some(Duration::ZERO));
        let mut time = |candidate: Candidate| {
            compute.pool.limit(candidate.threads);
            runner.set_chunk(candidate.chunk);
            let before = quiet::waited();
            let took = runner.run(&test)?.took;
            let waited = before.zip(quiet::waited()).map(|(before, after)| after.saturating_sub(before));
            worked += took * candidate.threads as u32;
            waits = waits.zip(waited).map(|(sum, more)| sum + more);
            Ok((took, worked, waits))
        };
        // The first run touches all memory.
        time(candidates[0])?;
        let (runs, noise) = asked(&candidates, &mut time)?;
        if let Some(what) = noise.trouble() {
            trouble.get_or_insert(format!("{test}: {what}"));
        }
        let best = fastest(&runs);
        tried.extend(runs.iter().map(|(candidate, runs)| Tried {
            test: test.to_string(),
            threads: candidate.threads,
            prefill_chunk: candidate.chunk,
            tokens_per_s: test.tokens() as f64 / shortest(runs).as_secs_f64(),
            runs: runs.len(),
            spread: quiet::spread(runs),
            waited: noise.waited,
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
    let quiet_enough = trouble.is_none() || args.force;
    let kept = match path.filter(|_| !args.dry_run && quiet_enough) {
        Some(path) => Some(tuned.keep(&path)?),
        None => None,
    };
    if args.json {
        term::json(&tuned)?;
        return refuse(&label, trouble, args);
    }
    out!("{:<10}{:>8}{:>10}{:>12}{:>6}", "test", "threads", "steps of", "tokens/s", "runs");
    for Tried { test, threads, prefill_chunk, tokens_per_s, runs, .. } in &tuned.tried {
        out!("{test:<10}{threads:>8}{prefill_chunk:>10}{tokens_per_s:>12.2}{runs:>6}");
    }
    out!("{label}: {}", tuned.say());
    match kept {
        Some(kept) => err!("kept in {}; serve and run use it unless --threads is given", kept.display()),
        None if matches!(subject, Subject::Shape(..)) => err!("a shape has no file: nothing is kept"),
        None => {}
    }
    refuse(&label, trouble, args)
}

/// What is measured.
fn subject(args: &Args) -> Result<Subject, Failure> {
    let models: Vec<String> = args.model.iter().cloned().collect();
    let shapes: Vec<String> = args.shape.iter().cloned().collect();
    Subject::all(&models, &shapes)?.pop().ok_or_else(|| Failure::usage("nothing to measure: give a MODEL"))
}

/// Says that other programs disturbed the measurement; a failure where it was to be kept.
fn refuse(label: &str, trouble: Option<String>, args: &Args) -> Result<(), Failure> {
    let Some(what) = trouble else { return Ok(()) };
    if args.dry_run || args.force {
        err!("{label}: the machine was not quiet ({what}); figures may be off");
        return Ok(());
    }
    Err(Failure::new(format!(
        "{label}: the machine was not quiet ({what}), nothing is kept; run tune again on a quiet machine, or keep it all \
         the same with --force"
    )))
}

/// A run's time, and what all runs so far took and waited, summed over threads.
type Timed = (Duration, Duration, Option<Duration>);

/// Runs of the candidates, measured again once if they were disturbed; of the two the less disturbed.
fn asked(
    candidates: &[Candidate],
    time: &mut dyn FnMut(Candidate) -> Result<Timed, Failure>,
) -> Result<(Runs, Noise), Failure> {
    let mut once = || {
        let (mut first, mut last) = (None, None);
        let runs = in_turn(candidates, TIME, &mut |candidate| {
            let (took, worked, waits) = time(candidate)?;
            first.get_or_insert((worked.saturating_sub(took * candidate.threads as u32), waits));
            last = Some((worked, waits));
            Ok(took)
        })?;
        let waited = first.zip(last).and_then(|((worked, waits), (all, waited))| {
            let share = waited?.saturating_sub(waits?).as_secs_f64() / (all - worked).as_secs_f64();
            Some(share).filter(|share| share.is_finite())
        });
        let best = fastest(&runs);
        let spread = runs.iter().find(|(one, _)| *one == best).and_then(|(_, runs)| quiet::spread(runs));
        Ok::<_, Failure>((runs, Noise { waited, spread }))
    };
    let first = once()?;
    if first.1.trouble().is_none() {
        return Ok(first);
    }
    let again = once()?;
    let disturbed = |noise: &Noise| noise.waited.unwrap_or(0.0) + noise.spread.unwrap_or(0.0);
    Ok(if disturbed(&again.1) < disturbed(&first.1) { again } else { first })
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

/// Runs the candidates in turn, there and back, until the time is over or one is left. Each runs twice at least, and who
/// is left at the end three times.
fn in_turn(
    candidates: &[Candidate],
    time: Duration,
    run: &mut dyn FnMut(Candidate) -> Result<Duration, Failure>,
) -> Result<Runs, Failure> {
    let began = Instant::now();
    let mut runs: Runs = candidates.iter().map(|&candidate| (candidate, Vec::new())).collect();
    for round in 0..MOST_ROUNDS {
        let best = runs.iter().filter(|(_, runs)| !runs.is_empty()).map(|(_, runs)| shortest(runs)).min();
        let behind = |runs: &[Duration]| {
            runs.len() >= LEAST_RUNS[0]
                && best.is_some_and(|best| shortest(runs).as_secs_f64() > BEHIND * best.as_secs_f64())
        };
        let left = runs.iter().filter(|(_, runs)| !behind(runs)).count();
        let late = began.elapsed() > time && round >= LEAST_RUNS[0];
        if round >= LEAST_RUNS[1] && (left == 1 || late) || late && began.elapsed() > 2 * time {
            break;
        }
        let mut order: Vec<&mut (Candidate, Vec<Duration>)> =
            runs.iter_mut().filter(|(_, runs)| !behind(runs)).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (candidate, runs) in order {
            runs.push(run(*candidate)?);
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
        assert_eq!(
            (best.threads, runs),
            (4, vec![2, 2, 3]),
            "far apart: a third look at the fastest is enough"
        );
        let (best, runs) = tune(&|threads, _| if threads == 1 { 2000 } else { 1000 });
        assert_eq!((best.threads, runs), (2, vec![2, MOST_ROUNDS, MOST_ROUNDS]), "as fast with fewer");
    }

    #[test]
    fn a_disturbed_run_decides_nothing() {
        // The first run of four threads is five times as slow as it is: one bad run drops nobody.
        let (best, _) = tune(&|threads, call| match (threads, call) {
            (4, 3) => 4500,
            (4, _) => 900,
            _ => 1000,
        });
        assert_eq!(best.threads, 4);
    }

    /// The fault as it was found: beside load, one thread was kept for good after one bad run.
    #[test]
    fn what_was_disturbed_is_measured_again_and_told() {
        let took = Duration::from_millis(10);
        let measure = |waits: &dyn Fn(usize) -> Duration| {
            let (mut calls, mut worked, mut waited) = (0, Duration::ZERO, Duration::ZERO);
            let mut time = |candidate: Candidate| {
                calls += 1;
                worked += took * candidate.threads as u32;
                waited += waits(calls);
                Ok((took, worked, Some(waited)))
            };
            let (_, noise) = asked(&candidates(&[1, 2]), &mut time).unwrap();
            (calls, noise)
        };
        let (calls, noise) = measure(&|_| Duration::ZERO);
        assert_eq!((calls, noise.trouble()), (2 * MOST_ROUNDS, None));
        let (calls, noise) = measure(&|call| if call < 10 { took } else { Duration::ZERO });
        assert_eq!((calls, noise.trouble()), (4 * MOST_ROUNDS, None), "quiet the second time");
        let (calls, noise) = measure(&|_| took);
        assert_eq!(calls, 4 * MOST_ROUNDS);
        assert!(noise.trouble().unwrap().contains("of the time for a CPU"), "{noise:?}");
    }

    #[test]
    fn time_ends_it() {
        let slow =
            in_turn(&candidates(&[1, 2]), Duration::ZERO, &mut |_| Ok(Duration::from_secs(1))).unwrap();
        assert!(slow.iter().all(|(_, runs)| runs.len() == LEAST_RUNS[0]));
    }

    #[test]
    fn counts_are_few_distinct_and_allowed() {
        let counts = thread_counts(&cpu::probe::detect());
        assert!(counts.is_sorted_by(|a, b| a < b) && counts[0] == 1 && counts.len() <= 7);
    }
}
