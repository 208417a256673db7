//! Runs an encoder's model: its weights and the buffers of a step, on a device.

use std::sync::Arc;

use kernels::Compute;
use model::{EncodePass, EncodeText, Model};

use super::{Encode, Text, Want};
use crate::Device;

/// A model that encodes, with the buffers of one step.
pub struct EncoderRunner {
    model: Arc<Model>,
    compute: Arc<Compute>,
    pass: EncodePass,
    context: usize,
    threads: usize,
}

impl EncoderRunner {
    /// A model that encodes texts of at most `context` tokens on a device, with `pass` for its steps. The caller has
    /// reserved the memory of the buffers as they are for the longest text.
    pub fn new(model: Arc<Model>, device: &Device, pass: EncodePass, context: usize) -> EncoderRunner {
        let compute = device.compute().clone();
        let threads = compute.pool.threads();
        EncoderRunner { model, compute, pass, context, threads }
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
        self.pass.step_tokens()
    }

    fn fit_units(&mut self, rows: usize) {
        self.pass.set_chunk_rows(rows);
    }

    fn begin(&mut self, texts: &[&Text]) -> Result<(), String> {
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
