//! Runs a model: its weights, its KV cache, its recurrent states and its buffers, on a device.

use std::sync::Arc;

use kernels::{BLOCK_TOKENS, Compute, KvDtype, KvPool, KvShape, StateShape};
use model::{Batch, Model, Scratch, Spec};

use crate::{Device, Error, Forward, Limits, MemoryKind, Reservation, Rows, Threads};

/// Everything a forward pass needs.
pub(crate) struct ModelRunner {
    model: Arc<Model>,
    compute: Arc<Compute>,
    kv: KvPool,
    scratch: Scratch,
    /// Reservations of the two fields above; released after them.
    _memory: [Reservation; 3],
    context: usize,
    /// Of the whole pool, and how many of them work at which step.
    all_threads: usize,
    threads: Threads,
}

impl ModelRunner {
    /// Reserves and allocates the KV cache, recurrent states and buffers for steps within `limits`, for the engine called `owner`.
    pub(crate) fn new(
        model: Arc<Model>,
        device: &Device,
        owner: &str,
        limits: &Limits,
    ) -> Result<ModelRunner, Error> {
        let spec = &model.spec;
        let context = if limits.context == 0 { spec.context } else { limits.context.min(spec.context) };
        let dtype = limits.kv_dtype.unwrap_or_else(|| KvDtype::fastest(device.compute().tier));
        let mut shape = spec.kv_shape(context.div_ceil(BLOCK_TOKENS), dtype);
        if limits.kv_bytes > 0 {
            let most = limits.max_running.saturating_mul(shape.blocks);
            let paid =
                usize::try_from(limits.kv_bytes / shape.block_bytes().max(1) as u64).unwrap_or(usize::MAX);
            shape.blocks = paid.min(most).min(u32::MAX as usize);
        }
        let states = states(spec, device, owner, limits)?;
        ModelRunner::with_shape(model, device, owner, limits, shape, states, context, limits.max_logit_rows())
    }

    /// A runner of a draft model: on the same device, with KV blocks for as many tokens, and with two recurrent states
    /// for each running sequence: before its proposed tokens, and after them.
    pub(crate) fn draft(
        &self,
        model: Arc<Model>,
        device: &Device,
        owner: &str,
        limits: &Limits,
    ) -> Result<ModelRunner, Error> {
        let shape = model.spec.kv_shape(self.kv.shape().blocks, self.kv.shape().dtype);
        let states = model.spec.state_shape(limits.max_running.saturating_mul(2));
        let context = self.context.min(model.spec.context);
        ModelRunner::with_shape(model, device, owner, limits, shape, states, context, limits.max_sequences())
    }

    fn with_shape(
        model: Arc<Model>,
        device: &Device,
        owner: &str,
        limits: &Limits,
        shape: KvShape,
        states: StateShape,
        context: usize,
        logit_rows: usize,
    ) -> Result<ModelRunner, Error> {
        let refused = |what, error: &dyn std::fmt::Display| {
            Error::Start(format!("no memory for the {what} of {owner}: {error}"))
        };
        let kv_bytes = shape.blocks as u64 * shape.block_bytes() as u64;
        let scratch_bytes = Scratch::bytes(&model.spec, limits.max_rows(), logit_rows);
        let memory = device.memory();
        let kv_memory = memory.reserve(owner, MemoryKind::KvCache, kv_bytes);
        let kv_memory = kv_memory.map_err(|full| refused("KV cache", &full))?;
        let state_memory = memory.reserve(owner, MemoryKind::State, states.bytes());
        let state_memory = state_memory.map_err(|full| refused("recurrent states", &full))?;
        let scratch_memory = memory.reserve(owner, MemoryKind::Scratch, scratch_bytes);
        let scratch_memory = scratch_memory.map_err(|full| refused("buffers", &full))?;
        let kv = KvPool::with_states(shape, states).map_err(|error| refused("KV cache", &error))?;
        let scratch = Scratch::new(&model.spec, limits.max_rows(), logit_rows);
        let compute = device.compute().clone();
        let (all_threads, threads) = (compute.pool.threads(), limits.threads);
        let _memory = [kv_memory, state_memory, scratch_memory];
        Ok(ModelRunner { model, compute, kv, scratch, _memory, context, all_threads, threads })
    }
}

/// The recurrent states within `limits`, as many as the device has memory for.
fn states(spec: &Spec, device: &Device, owner: &str, limits: &Limits) -> Result<StateShape, Error> {
    let each = spec.state_shape(1).bytes();
    if each == 0 {
        return Ok(spec.state_shape(0));
    }
    let (wanted, free) = (limits.states(each), device.memory().free());
    let states = wanted.min(usize::try_from(free / each).unwrap_or(usize::MAX));
    if states == 0 {
        let limit = if wanted == 0 { limits.state_bytes } else { free };
        return Err(Error::Start(format!(
            "one recurrent state of {owner} takes {each} bytes, the limit for all of them is {limit} bytes"
        )));
    }
    if states < wanted.min(limits.max_running) {
        tracing::warn!(%owner, states, wanted, "memory for recurrent states bounds the requests that run at once");
    }
    Ok(spec.state_shape(states))
}

impl Forward for ModelRunner {
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

    fn prefill_numerics_differ(&self) -> bool {
        self.compute.prompt_tiles && self.model.prefill_numerics_differ()
    }

    fn states(&self) -> usize {
        self.kv.states().shape().states
    }

    fn clear_state(&mut self, state: u32) {
        self.kv.states_mut().clear(state);
    }

    fn copy_state(&mut self, from: u32, to: u32) {
        self.kv.states_mut().copy(from, to);
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        self.forward_unless(rows, &|| false).map(Option::unwrap_or_default)
    }

    fn predicts(&self) -> bool {
        self.model.spec.predicts()
    }

    fn predict(&mut self, rows: &Rows<'_>, from: &[usize]) -> Result<&[f32], String> {
        self.compute.pool.limit(self.threads.for_rows(rows.tokens.len(), self.all_threads));
        let Rows { tokens, sequences, want, decode_rows } = *rows;
        let batch = Batch { tokens, sequences, want, decode_rows };
        let result = self.model.predict(&self.compute, &batch, from, &mut self.kv, &mut self.scratch);
        result.map_err(|error| error.to_string())
    }

    fn forward_unless(&mut self, rows: &Rows<'_>, stop: &dyn Fn() -> bool) -> Result<Option<&[f32]>, String> {
        self.compute.pool.limit(self.threads.for_rows(rows.tokens.len(), self.all_threads));
        let Rows { tokens, sequences, want, decode_rows } = *rows;
        let batch = Batch { tokens, sequences, want, decode_rows };
        let result = self.model.forward_unless(&self.compute, &batch, &mut self.kv, &mut self.scratch, stop);
        result.map_err(|error| error.to_string())
    }
}
