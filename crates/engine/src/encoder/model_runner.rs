//! Runs an encoder's model: its weights and the buffers of a step, on a device.

use std::sync::Arc;

use kernels::{Compute, KvDtype};
use model::{EncodePass, EncodeText, Model};

use super::{Encode, Text, Want};
use crate::{Device, Error, MemoryKind, Reservation};

/// A model that encodes, with the buffers of one step.
pub struct EncoderRunner {
    model: Arc<Model>,
    compute: Arc<Compute>,
    pass: EncodePass,
    step_tokens: usize,
    kv_dtype: KvDtype,
    /// The reservation of `pass`; released after it.
    memory: Reservation,
    context: usize,
    threads: usize,
}

impl EncoderRunner {
    /// Reserves and allocates the buffers of steps of `step_tokens` tokens, for the encoder called `owner`. Keys and
    /// values of a layer are kept as `kv_dtype`; none is the fastest for the tier.
    ///
    /// # Errors
    /// A model without an encoder's heads, or no memory.
    pub fn new(
        model: Arc<Model>,
        device: &Device,
        owner: &str,
        step_tokens: usize,
        kv_dtype: Option<KvDtype>,
    ) -> Result<EncoderRunner, Error> {
        let refused = |error: &dyn std::fmt::Display| {
            Error::Start(format!("no memory for the buffers of {owner}: {error}"))
        };
        let Some(heads) = model.spec.encoder.as_deref() else {
            return Err(Error::Start(format!("the model {owner} has no heads of an encoder")));
        };
        let context = heads.max_tokens.map_or(model.spec.context, |most| most.min(model.spec.context));
        let compute = device.compute().clone();
        let kv_dtype = kv_dtype.unwrap_or_else(|| KvDtype::fastest(compute.tier));
        let bytes = EncodePass::bytes(&model.spec, step_tokens, kv_dtype);
        let memory = device.memory().reserve(owner, MemoryKind::Scratch, bytes);
        let memory = memory.map_err(|full| refused(&full))?;
        let pass = EncodePass::new(&model.spec, step_tokens, kv_dtype).map_err(|error| refused(&error))?;
        let threads = compute.pool.threads();
        Ok(EncoderRunner { model, compute, pass, step_tokens, kv_dtype, memory, context, threads })
    }

    /// Reserves the buffers of a step of `tokens`, before they grow or after they may shrink.
    fn reserve(&mut self, tokens: usize) -> Result<(), String> {
        let bytes = EncodePass::bytes(&self.model.spec, tokens.max(self.step_tokens), self.kv_dtype);
        let resized = if bytes == self.memory.bytes() { Ok(()) } else { self.memory.resize(bytes) };
        resized.map_err(|full| format!("a text of {tokens} tokens needs {bytes} bytes of buffers: {full}"))
    }
}

impl Encode for EncoderRunner {
    fn context(&self) -> usize {
        self.context
    }

    fn vocab(&self) -> usize {
        self.model.spec.vocab
    }

    fn step_tokens(&self) -> usize {
        self.step_tokens
    }

    fn fit_units(&mut self, rows: usize) {
        self.pass.set_chunk_rows(rows);
    }

    fn begin(&mut self, texts: &[&Text]) -> Result<(), String> {
        self.reserve(texts.iter().map(|text| text.tokens.len()).sum())?;
        let texts: Vec<EncodeText<'_>> = texts
            .iter()
            .map(|text| EncodeText { tokens: &text.tokens, types: &text.types, skip: text.skip })
            .collect();
        self.model.begin(&mut self.pass, &texts).map_err(|error| error.to_string())
    }

    fn advance(&mut self) -> Result<bool, String> {
        // Another engine may have used fewer in its turn.
        self.compute.pool.limit(self.threads);
        Ok(self.model.advance(&self.compute, &mut self.pass))
    }

    fn output(&mut self, text: usize, want: Want, out: &mut Vec<f32>) -> Result<(), String> {
        self.compute.pool.limit(self.threads);
        let heads = self.model.spec.encoder.as_deref();
        let late = heads.is_some_and(|heads| heads.multi_vector.is_some());
        let want = match want {
            Want::Dense => model::Want::Dense,
            Want::Tokens if late => model::Want::Tokens,
            Want::Tokens => model::Want::Hidden,
            Want::Sparse => model::Want::Sparse,
            Want::Logits => model::Want::Logits,
            Want::TokenLogits => model::Want::TokenLogits,
        };
        self.model.output(&self.compute, &self.pass, text, want, out).map_err(|error| error.to_string())
    }
}
