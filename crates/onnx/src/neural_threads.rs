//! The threads of the crate `rten`.

use std::sync::{Arc, OnceLock};

/// The threads that graphs are run on which `rten` computes. A process makes one, and hands it to every run: they are
/// threads beside those of [`cpu::Pool`], which `rten` cannot use.
#[derive(Clone)]
pub struct NeuralThreads(pub(crate) Arc<rten::ThreadPool>);

impl NeuralThreads {
    /// Makes `threads` threads, which last as long as the value and its clones.
    #[must_use]
    pub fn new(threads: usize) -> NeuralThreads {
        NeuralThreads(Arc::new(rten::ThreadPool::with_num_threads(threads.max(1))))
    }

    /// The thread of runs that were given none.
    pub(crate) fn single() -> &'static NeuralThreads {
        static SINGLE: OnceLock<NeuralThreads> = OnceLock::new();
        SINGLE.get_or_init(|| NeuralThreads::new(1))
    }
}
