//! How a model is loaded and run, and what may be loaded.

use crate::error::Problem;
use crate::neural_threads::NeuralThreads;

/// What may be loaded.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most bytes of memory for what a file holds, its tensors included; default 8 GiB.
    pub max_bytes: u64,
    /// Most nodes, those of inner graphs included; default 100,000.
    pub max_nodes: usize,
    /// Whether graphs with operators that are not computed here may go to `rten`; otherwise they are refused.
    pub neural: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_bytes: 8 << 30, max_nodes: 100_000, neural: true }
    }
}

/// How a run is computed.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// The threads; without, the caller's alone. Results do not depend on it.
    pub pool: Option<&'a cpu::Pool>,
    /// The threads of graphs that `rten` computes ([`Runtime::Rten`](crate::Runtime)); without, one thread.
    pub neural: Option<&'a NeuralThreads>,
    /// Whether to end the run with [`Error::Stopped`](crate::Error::Stopped); asked between nodes and between blocks of
    /// rows, before a run only where `rten` computes.
    pub stop: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// How the rows of a job are cut.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// Most rows of a block.
    pub block: usize,
    /// About how long a row takes.
    pub row_ns: usize,
}

/// A shorter job stays on the caller's thread: waking another takes some 10 µs, and on a machine whose cores are busy the
/// job ends when the last thread has had its turn (64 rows of 500 trees: 1,168 µs on two threads, 116 on one).
const WORTH_THREADS_NS: usize = 250_000;

impl RunOptions<'_> {
    /// An error if the caller wants the run to end.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.stopped() { Err(Problem::Stopped) } else { Ok(()) }
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }

    /// The threads that take part.
    pub(crate) fn threads(&self) -> usize {
        self.pool.map_or(1, cpu::Pool::threads)
    }

    /// Cuts `out`, of rows of `width` elements, into blocks, and calls `job(first row, block)` for each: on the pool if
    /// there are several and they take long enough.
    pub(crate) fn row_blocks<T: Send>(
        &self,
        out: &mut [T],
        width: usize,
        Rows { block, row_ns }: Rows,
        job: &(dyn Fn(usize, &mut [T]) + Sync),
    ) -> Result<(), Problem> {
        let piece = width.saturating_mul(block).max(1);
        let rows = out.len().checked_div(width).unwrap_or(0);
        let long = rows.saturating_mul(row_ns) >= WORTH_THREADS_NS;
        let run = |index: usize, part: &mut [T]| {
            if !self.stopped() {
                job(index * block, part);
            }
        };
        match self.pool {
            Some(pool) if long && out.len() > piece => pool.chunks_mut(out, piece, &run),
            _ => out.chunks_mut(piece).enumerate().for_each(|(index, part)| run(index, part)),
        }
        self.check()
    }
}
