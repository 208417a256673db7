//! Runs a test: the forward pass, step by step, with the engine's sizes of steps.

use std::time::{Duration, Instant, SystemTime};

use cpu::measure::Ceilings;
use cpu::probe::Machine;
use kernels::{BLOCK_TOKENS, Compute, KvDtype, KvPool, Precision, SeqRows};
use model::{Batch, Model, Scratch, Spec};

use super::progress::Progress;
use super::subject::{About, Subject};
use super::test::Test;
use crate::loading::{self, Reading, partial};
use crate::term::err;
use crate::{Failure, flags, found};

/// Tokens of a depth that are computed; blocks past them are copies of theirs.
const COMPUTED_DEPTH: usize = 512;

/// Prompt rows in a step that also decodes: about what a small model reads in the longest stall that serving allows.
const BESIDE: usize = 64;

/// A model in memory, with room for the largest of the tests.
pub(super) struct Runner<'a> {
    pub(super) about: About,
    pub(super) reading: Reading,
    pub(super) compute: &'a Compute,
    pub(super) model: Model,
    kv: KvPool,
    scratch: Scratch,
    limits: engine::Limits,
    /// Blocks of each stream.
    tables: Vec<Vec<u32>>,
    /// What the streams hold before a test: depth, and how many streams.
    filled: (usize, usize),
    work: Work,
}

/// What a run cost, counted and not timed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Bytes of weights, keys and values read.
    pub(super) bytes: u64,
    pub(super) multiply_adds: u64,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) took: Duration,
    /// From the start to a stream's first token, the mean of all; none without a prompt.
    pub(super) first_token: Option<Duration>,
}

/// All runs of a test, and the ceilings beside them.
pub(super) struct Measured {
    pub(super) began: SystemTime,
    pub(super) samples: Vec<Sample>,
    /// Of one run; all are equal.
    pub(super) work: Work,
    /// The faster of a look before and one after, in GB/s.
    pub(super) read_gb_per_s: Option<f64>,
    /// Likewise, in G multiply-adds/s of the model's numbers.
    pub(super) peak: f64,
}

/// Rows of one stream in a step.
#[derive(Clone, Copy)]
struct Part {
    stream: usize,
    /// Position of the first.
    first: usize,
    rows: usize,
    /// The last row's logits are wanted.
    wanted: bool,
    /// They were generated, and are not of a prompt; in a step such parts come first.
    answers: bool,
}

impl<'a> Runner<'a> {
    /// Loads the model, after checking that it and the tests fit. A prompt is computed in steps of at most `chunk` rows.
    ///
    /// # Errors
    /// A damaged model, a test longer than its context, or memory that does not suffice.
    pub(super) fn load(
        subject: &Subject,
        machine: &Machine,
        compute: &'a Compute,
        kv: KvDtype,
        tests: &[Test],
        chunk: usize,
        packed: flags::Packed,
        progress: &Progress,
    ) -> Result<Runner<'a>, Failure> {
        let label = subject.label();
        progress.stage(&format!("{label}: loading"));
        let opened = subject.open(&compute.pool)?;
        let mut spec = Spec::read(&opened).map_err(|error| found::of(&label, error))?;
        let longest = tests.iter().max_by_key(|test| test.context());
        let context = longest.map_or(1, Test::context);
        if let Some(test) = longest.filter(|_| context > spec.context) {
            let most = spec.context;
            return Err(Failure::usage(format!("{test} takes {context} tokens; {label} can do {most}")));
        }
        spec.limit_context(context);
        let limits = engine::Limits { prefill_chunk: chunk, ..engine::Limits::default() };
        let streams = tests.iter().map(|test| test.streams).max().unwrap_or(1);
        let rows = limits.prefill_chunk.max(BESIDE + streams);
        let tables = tables(tests);
        let blocks = tables.iter().map(Vec::len).sum::<usize>();
        let cache = packed.cache();
        let weights = partial::Weights::of(&spec, &opened, compute.tier, Precision::Fast, cache)
            .map_err(|error| found::of(&label, error))?;
        let need = spec.memory(weights.residence.memory, blocks * BLOCK_TOKENS, kv, rows, streams).total();
        loading::check_memory(machine, need, &label, "")?;
        let about = About::new(label, &opened, &spec);
        let mut share = |share| progress.detail(&format!("{}: loading, {:.0} %", about.label, 100.0 * share));
        let (model, reading, remarks) =
            loading::read(spec, &opened, compute, Precision::Fast, cache.into(), &mut share)?;
        progress.quiet(|| {
            remarks.into_iter().chain(weights.remark()).for_each(|remark| err!("{}: {remark}", about.label));
            err!("{}: {}", about.label, reading.say(model.backing()));
        });
        Ok(Runner {
            kv: model.spec.kv_pool(blocks, kv, streams)?,
            scratch: Scratch::new(&model.spec, rows, streams),
            about,
            reading,
            compute,
            model,
            limits,
            tables,
            filled: (0, 0),
            work: Work::default(),
        })
    }

    /// Runs the test `repetitions` times after one to warm up, looking at the ceilings before and after.
    ///
    /// # Errors
    /// What the forward pass refuses.
    pub(super) fn measure(
        &mut self,
        test: &Test,
        repetitions: usize,
        ceilings: &mut Ceilings,
        progress: &Progress,
    ) -> Result<Measured, Failure> {
        let name = format!("{}: {test}", self.about.label);
        progress.stage(&name);
        self.fill(test)?;
        self.run(&test.warm_up())?;
        let numbers = self.about.numbers;
        let began = SystemTime::now();
        let before = (ceilings.read_gb_per_s(), ceilings.peak(numbers));
        let mut samples = Vec::with_capacity(repetitions);
        for run in 1..=repetitions {
            progress.detail(&format!("{name}, run {run} of {repetitions}"));
            self.work = Work::default();
            samples.push(self.run(test)?);
        }
        let after = (ceilings.read_gb_per_s(), ceilings.peak(numbers));
        let read_gb_per_s = before.0.zip(after.0).map(|(before, after)| before.max(after));
        Ok(Measured { began, samples, work: self.work, read_gb_per_s, peak: before.1.max(after.1) })
    }

    /// How keys and values are kept.
    pub(super) fn kv_dtype(&self) -> KvDtype {
        self.kv.shape().dtype
    }

    /// Gives every stream of the test the tokens that it holds before. The first computes some and repeats their blocks, the
    /// others copy its blocks: speed depends on how much there is to read, each block in memory of its own, not on what.
    fn fill(&mut self, test: &Test) -> Result<(), Failure> {
        let (depth, streams) = self.filled;
        if test.depth == depth && test.streams <= streams {
            return Ok(());
        }
        let computed = test.depth.min(COMPUTED_DEPTH);
        self.prefill(0, 0, computed, false)?;
        let (first, others) = self.tables.split_at(1);
        let full = test.depth.div_ceil(BLOCK_TOKENS);
        let blocks = computed.div_ceil(BLOCK_TOKENS);
        for block in blocks..full {
            self.kv.copy_block(first[0][block % blocks], first[0][block]);
        }
        for table in &others[..test.streams - 1] {
            for (&from, &to) in first[0].iter().zip(table).take(full) {
                self.kv.copy_block(from, to);
            }
        }
        self.filled = (test.depth, test.streams);
        Ok(())
    }

    /// Of now on, a prompt is computed in steps of at most `rows`, which are no more than it was loaded for.
    pub(super) fn set_chunk(&mut self, rows: usize) {
        self.limits.prefill_chunk = rows;
    }

    /// Runs the test once; what its streams hold before must be there ([`Runner::measure`] sees to it).
    ///
    /// # Errors
    /// What the forward pass refuses.
    pub(super) fn run(&mut self, test: &Test) -> Result<Sample, Failure> {
        let start = Instant::now();
        let first_token = match (test.prompt, test.generate) {
            (prompt, 0) => {
                self.prefill(0, test.depth, prompt, true)?;
                Some(start.elapsed())
            }
            (0, generate) => {
                for token in 0..generate {
                    let first = test.depth + token;
                    let part = |stream| Part { stream, first, rows: 1, wanted: true, answers: true };
                    self.step(&(0..test.streams).map(part).collect::<Vec<_>>())?;
                }
                None
            }
            _ => Some(self.mixed(test, start)?),
        };
        Ok(Sample { took: start.elapsed(), first_token })
    }

    /// Rows of one stream in steps as large as the engine's.
    fn prefill(&mut self, stream: usize, first: usize, count: usize, wanted: bool) -> Result<(), Failure> {
        let mut done = 0;
        while done < count {
            let rows = (count - done).min(self.limits.prefill_chunk);
            let wanted = wanted && done + rows == count;
            self.step(&[Part { stream, first: first + done, rows, wanted, answers: false }])?;
            done += rows;
        }
        Ok(())
    }

    /// Requests that come all at once, scheduled as the engine does: each step takes a row of every stream that
    /// generates and a chunk of the prompts, the oldest first. A prompt's last row gives the first token. Returns the
    /// mean time to that.
    fn mixed(&mut self, test: &Test, start: Instant) -> Result<Duration, Failure> {
        let rows = test.prompt + test.generate - 1;
        let mut done = vec![0; test.streams];
        let mut first_tokens = Duration::ZERO;
        let mut parts = Vec::with_capacity(test.streams);
        while done.iter().any(|&done| done < rows) {
            parts.clear();
            let part = |stream, done, rows, wanted| {
                let answers = done >= test.prompt;
                Part { stream, first: test.depth + done, rows, wanted, answers }
            };
            let decoding = |done: &usize| (test.prompt..rows).contains(done);
            let beside = done.iter().any(decoding);
            let mut budget = if beside { BESIDE } else { self.limits.prefill_chunk };
            for (stream, &done) in done.iter().enumerate() {
                if decoding(&done) {
                    parts.push(part(stream, done, 1, true));
                } else if done < test.prompt && budget > 0 {
                    let chunk = budget.min(test.prompt - done);
                    budget -= chunk;
                    parts.push(part(stream, done, chunk, done + chunk == test.prompt));
                }
            }
            self.step(&parts)?;
            for part in &parts {
                done[part.stream] += part.rows;
                if done[part.stream] == test.prompt {
                    first_tokens += start.elapsed();
                }
            }
        }
        Ok(first_tokens / test.streams as u32)
    }

    fn step(&mut self, parts: &[Part]) -> Result<(), Failure> {
        let spec = &self.model.spec;
        let (mut tokens, mut sequences, mut want) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let positions = part.first..part.first + part.rows;
            let blocks = &self.tables[part.stream][..positions.end.div_ceil(BLOCK_TOKENS)];
            let rows = tokens.len()..tokens.len() + part.rows;
            sequences.push(SeqRows::last(rows, part.first, blocks).with_state(part.stream as u32));
            tokens.extend(positions.map(|position| token(part.stream, position, spec.vocab)));
            want.extend(part.wanted.then(|| tokens.len() - 1));
            self.work.bytes += spec.kv_read_bytes(part.first + part.rows - 1, self.kv.shape().dtype);
            // A state is read and written.
            self.work.bytes += 2 * spec.state_shape(1).bytes();
            self.work.multiply_adds += spec.multiply_adds(part.first, part.rows, usize::from(part.wanted));
        }
        self.work.bytes += self.model.weight_read_bytes(tokens.len());
        let decode_rows = parts.iter().take_while(|part| part.answers).map(|part| part.rows).sum();
        let batch = Batch { tokens: &tokens, sequences: &sequences, want: &want, decode_rows };
        self.model.forward(self.compute, &batch, &mut self.kv, &mut self.scratch)?;
        Ok(())
    }
}

/// Blocks for each stream, enough for every test that it takes part in.
fn tables(tests: &[Test]) -> Vec<Vec<u32>> {
    let streams = tests.iter().map(|test| test.streams).max().unwrap_or(1);
    let mut next = 0;
    let table = |stream| {
        let own = tests.iter().filter(|test| test.streams > stream);
        let blocks = own.map(|test| test.context().div_ceil(BLOCK_TOKENS)).max().unwrap_or(1) as u32;
        next += blocks;
        (next - blocks..next).collect()
    };
    (0..streams).map(table).collect()
}

/// Any token of the vocabulary will do, as long as they differ.
fn token(stream: usize, position: usize, vocab: usize) -> u32 {
    let mixed = ((stream << 32) + position + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> 20;
    (mixed % vocab) as u32
}
