//! Runs a model on prompts in every way that the engine may: whole, in chunks, token by token, among others.

#![allow(dead_code, reason = "each test file uses its own part")]

use cpu::{Pool, Tier};
use kernels::{BLOCK_TOKENS, Compute, KvDtype, KvPool, Precision, SeqRows};
use model::{Batch, Model, PackedCache, PackedCacheReport, Scratch, Spec};
use std::path::{Path, PathBuf};

/// Recurrent states that a runner has.
const STATES: usize = 16;

/// A model with memory for a few sequences.
pub(crate) struct Runner {
    pub(crate) model: Model,
    pub(crate) compute: Compute,
    kv: KvPool,
    scratch: Scratch,
    free: Vec<u32>,
    free_states: Vec<u32>,
    /// So many of the rows of the batches to come, from the first, are of answers.
    pub(crate) decode_rows: usize,
}

/// A sequence on its way: its blocks and how many tokens are in.
#[derive(Default)]
pub(crate) struct Sequence {
    blocks: Vec<u32>,
    state: Option<u32>,
    len: usize,
}

/// A part of a batch: a sequence and the tokens it goes on with.
pub(crate) struct Run<'a> {
    pub(crate) sequence: &'a mut Sequence,
    pub(crate) tokens: &'a [u32],
}

impl Runner {
    /// Loads a model; `context` limits it first, if given.
    pub(crate) fn load(
        path: &Path,
        tier: Tier,
        precision: Precision,
        kv: KvDtype,
        context: Option<usize>,
    ) -> Runner {
        let opened = weights::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut spec = Spec::read(&opened).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Some(context) = context {
            spec.limit_context(context);
        }
        Runner::with_spec(path, spec, tier, precision, kv)
    }

    /// Loads a model by a spec of the test's own.
    pub(crate) fn with_spec(
        path: &Path,
        spec: Spec,
        tier: Tier,
        precision: Precision,
        kv: KvDtype,
    ) -> Runner {
        Runner::cached(path, spec, tier, precision, kv, PackedCache::Off).0
    }

    /// The same with packed weights kept beside the model; also returns what came of them.
    pub(crate) fn cached(
        path: &Path,
        spec: Spec,
        tier: Tier,
        precision: Precision,
        kv: KvDtype,
        cache: PackedCache,
    ) -> (Runner, PackedCacheReport) {
        // Threads split columns, so they matter where the product is fast; the truth is as true on one.
        let threads = if precision == Precision::Fast { 2 } else { 1 };
        let pool = Pool::new(threads, None).expect("threads");
        // Where there are tiles, rows of prompts and of answers differ, which is more to get wrong.
        let compute = Compute { prompt_tiles: true, ..Compute::new(tier, pool) };
        let opened = weights::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (model, cached) = Model::load_cached(spec, &opened, &compute, precision, cache, &mut |_| ())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let blocks = 96;
        let kv = model.spec.kv_pool(blocks, kv, STATES).expect("a small pool");
        let scratch = Scratch::new(&model.spec, 256, 256);
        // Blocks in no order, as after a day of serving.
        let free = (0..blocks as u32).map(|b| (b * 37) % blocks as u32).collect();
        let free_states = (0..STATES as u32).collect();
        (Runner { model, compute, kv, scratch, free, free_states, decode_rows: 0 }, cached)
    }

    /// Runs one batch; returns the logits of every row `[rows, vocab]`.
    pub(crate) fn step(&mut self, runs: &mut [Run]) -> Vec<f32> {
        let want: Vec<usize> = (0..runs.iter().map(|r| r.tokens.len()).sum()).collect();
        self.step_wanting(runs, &want)
    }

    /// Runs one batch; returns the logits of the wanted rows.
    pub(crate) fn step_wanting(&mut self, runs: &mut [Run], want: &[usize]) -> Vec<f32> {
        let mut tokens = Vec::new();
        let mut parts = Vec::new();
        for run in runs.iter_mut() {
            let first = tokens.len();
            tokens.extend_from_slice(run.tokens);
            let end = run.sequence.len + run.tokens.len();
            while run.sequence.blocks.len() * BLOCK_TOKENS < end {
                run.sequence.blocks.push(self.free.pop().expect("enough blocks"));
            }
            let state = *run.sequence.state.get_or_insert_with(|| {
                let state = self.free_states.pop().expect("enough states");
                if self.model.spec.has_states() {
                    self.kv.states_mut().clear(state);
                }
                state
            });
            parts.push((first..tokens.len(), run.sequence.len, state));
            run.sequence.len = end;
        }
        let sequences: Vec<SeqRows> = parts
            .into_iter()
            .zip(runs.iter())
            .map(|((rows, first_position, state), run)| {
                SeqRows::last(rows, first_position, &run.sequence.blocks).with_state(state)
            })
            .collect();
        let decode_rows = self.decode_rows.min(tokens.len());
        let batch = Batch { tokens: &tokens, sequences: &sequences, want, decode_rows };
        self.model
            .forward(&self.compute, &batch, &mut self.kv, &mut self.scratch)
            .expect("a good batch")
            .to_vec()
    }

    /// Takes rows of one sequence, from position `first` on, through the block that predicts further tokens.
    pub(crate) fn predict(
        &mut self,
        sequence: &Sequence,
        first: usize,
        tokens: &[u32],
        from: &[usize],
        want: &[usize],
    ) -> Vec<f32> {
        self.try_predict(sequence, first, tokens, from, want).expect("a good batch")
    }

    /// The same, which may be refused.
    pub(crate) fn try_predict(
        &mut self,
        sequence: &Sequence,
        first: usize,
        tokens: &[u32],
        from: &[usize],
        want: &[usize],
    ) -> Result<Vec<f32>, model::Error> {
        let state = sequence.state.expect("a sequence on its way");
        let rows = SeqRows::last(0..tokens.len(), first, &sequence.blocks).with_state(state);
        let decode_rows = self.decode_rows.min(tokens.len());
        let batch = Batch { tokens, sequences: &[rows], want, decode_rows };
        let logits = self.model.predict(&self.compute, &batch, from, &mut self.kv, &mut self.scratch);
        logits.map(<[f32]>::to_vec)
    }

    /// Gives a finished sequence's blocks back.
    pub(crate) fn end(&mut self, sequence: Sequence) {
        self.free.extend(sequence.blocks);
        self.free_states.extend(sequence.state);
    }

    /// The logits of every position of a prompt, in chunks of `chunk` tokens.
    pub(crate) fn prompt(&mut self, tokens: &[u32], chunk: usize) -> Vec<f32> {
        let mut sequence = Sequence::default();
        let mut logits = Vec::new();
        for part in tokens.chunks(chunk) {
            logits.extend(self.step(&mut [Run { sequence: &mut sequence, tokens: part }]));
        }
        self.end(sequence);
        logits
    }
}

/// Where fixtures are.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Every fixture, by name.
pub(crate) fn cases() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(fixtures())
        .expect("fixtures")
        .map(|e| e.expect("entry").path())
        .filter(|p| p.join("config.json").exists())
        .collect();
    all.sort();
    assert!(all.len() >= 18, "fixtures are missing: {}", all.len());
    all
}

/// A fixture's prompts.
pub(crate) fn prompts(case: &Path) -> Vec<Vec<u32>> {
    let text = std::fs::read_to_string(case.join("tokens.json")).expect("tokens.json");
    serde_json::from_str(&text).expect("lists of tokens")
}

/// The logits that transformers gave for a fixture's prompt `[positions, vocab]`.
pub(crate) fn truth(case: &Path, prompt: usize) -> Vec<f32> {
    let bytes = std::fs::read(case.join(format!("logits.{prompt}.f32"))).expect("logits");
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Both files of a fixture, or the one it has.
pub(crate) fn files(case: &Path) -> Vec<PathBuf> {
    let gguf = case.join("model.gguf");
    let mut files = vec![case.to_owned()];
    if gguf.exists() {
        files.push(gguf);
    }
    files
}

/// The largest difference over the largest true value.
pub(crate) fn error(ours: &[f32], truth: &[f32]) -> f32 {
    assert_eq!(ours.len(), truth.len());
    let largest = truth.iter().fold(0.0_f32, |m, t| m.max(t.abs()));
    let worst = ours.iter().zip(truth).fold(0.0_f32, |m, (o, t)| {
        let difference = (o - t).abs();
        if difference.is_nan() { f32::INFINITY } else { m.max(difference) }
    });
    worst / largest
}
