//! A real model, with its KV memory and buffers, as the engine runs it.

use std::sync::Arc;

use kernels::{BLOCK_TOKENS, Compute, KvDtype, KvPool};
use model::{Batch, Model, Scratch};

use crate::{Error, Forward, Limits, Rows, Threads};

/// Everything a forward pass needs.
pub(crate) struct Machine {
    model: Arc<Model>,
    compute: Arc<Compute>,
    kv: KvPool,
    scratch: Scratch,
    context: usize,
    /// Of the whole pool, and how many of them work at which step.
    all_threads: usize,
    threads: Threads,
}

impl Machine {
    /// Reserves KV memory and buffers for steps within `limits`.
    pub(crate) fn new(model: Arc<Model>, compute: Arc<Compute>, limits: &Limits) -> Result<Machine, Error> {
        let spec = &model.spec;
        let context = if limits.context == 0 { spec.context } else { limits.context.min(spec.context) };
        let dtype = limits.kv_dtype.unwrap_or_else(|| KvDtype::fastest(compute.tier));
        let mut shape = spec.kv_shape(context.div_ceil(BLOCK_TOKENS), dtype);
        if limits.kv_bytes > 0 {
            let most = limits.max_running.saturating_mul(shape.blocks);
            let paid =
                usize::try_from(limits.kv_bytes / shape.block_bytes().max(1) as u64).unwrap_or(usize::MAX);
            shape.blocks = paid.min(most).min(u32::MAX as usize);
        }
        let kv = KvPool::new(shape)
            .map_err(|error| Error::Start(format!("no memory for keys and values: {error}")))?;
        let scratch = Scratch::new(spec, limits.max_rows(), limits.max_logit_rows());
        let (all_threads, threads) = (compute.pool.threads(), limits.threads);
        Ok(Machine { kv, scratch, context, model, compute, all_threads, threads })
    }

    /// A draft model beside this one: on the same threads, with KV blocks for as many tokens.
    pub(crate) fn draft(&self, model: Arc<Model>, limits: &Limits) -> Result<Machine, Error> {
        let spec = &model.spec;
        let shape = spec.kv_shape(self.kv.shape().blocks, self.kv.shape().dtype);
        let kv = KvPool::new(shape).map_err(|error| {
            Error::Start(format!("no memory for keys and values of the draft model: {error}"))
        })?;
        let scratch = Scratch::new(spec, limits.max_rows(), limits.max_running);
        let context = self.context.min(spec.context);
        let Machine { all_threads, threads, .. } = *self;
        Ok(Machine { kv, scratch, context, compute: self.compute.clone(), model, all_threads, threads })
    }
}

impl Forward for Machine {
    fn vocab(&self) -> usize {
        self.model.spec.vocab
    }

    fn context(&self) -> usize {
        self.context
    }

    fn blocks(&self) -> usize {
        self.kv.shape().blocks
    }

    fn block_tokens(&self) -> usize {
        BLOCK_TOKENS
    }

    fn tells_prompts(&self) -> bool {
        self.compute.prompt_tiles && self.model.tells_prompts()
    }

    fn settle(&mut self) {
        self.compute.pool.pin_caller();
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        self.compute.pool.limit(self.threads.for_rows(rows.tokens.len(), self.all_threads));
        let Rows { tokens, sequences, want, answers } = *rows;
        let batch = Batch { tokens, sequences, want, answers };
        let result = self.model.forward(&self.compute, &batch, &mut self.kv, &mut self.scratch);
        result.map_err(|error| error.to_string())
    }
}
