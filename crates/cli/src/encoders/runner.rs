//! The model as the engine's encoder: passes over ragged batches, on the device's pool.

use std::sync::Arc;

use engine::encoder::{Encode, Text, Want};
use kernels::Compute;
use model::{EncodePass, EncodeText, Model};

/// A model with the buffers of a step.
pub(super) struct ModelEncoder {
    model: Arc<Model>,
    compute: Arc<Compute>,
    pass: EncodePass,
    context: usize,
    out: Vec<f32>,
}

impl ModelEncoder {
    /// An encoder of texts of at most `context` tokens.
    pub(super) fn new(
        model: Arc<Model>,
        compute: Arc<Compute>,
        pass: EncodePass,
        context: usize,
    ) -> ModelEncoder {
        ModelEncoder { model, compute, pass, context, out: Vec::new() }
    }

    fn want(&self, want: Want) -> model::Want {
        let late = self.model.spec.encoder.as_ref().is_some_and(|heads| heads.multi_vector.is_some());
        match want {
            Want::Dense => model::Want::Dense,
            Want::Tokens if late => model::Want::Tokens,
            Want::Tokens => model::Want::Hidden,
            Want::Sparse => model::Want::Sparse,
            Want::Logits => model::Want::Logits,
            Want::TokenLogits => model::Want::TokenLogits,
        }
    }
}

impl Encode for ModelEncoder {
    fn context(&self) -> usize {
        self.context
    }

    fn vocab(&self) -> usize {
        self.model.spec.vocab
    }

    fn step_tokens(&self) -> usize {
        self.pass.step_tokens()
    }

    fn begin(&mut self, texts: &[&Text]) -> Result<(), String> {
        let texts: Vec<EncodeText<'_>> = texts
            .iter()
            .map(|text| EncodeText { tokens: &text.tokens, types: &text.types, skip: text.skip })
            .collect();
        self.model.begin(&mut self.pass, &texts).map_err(|error| error.to_string())
    }

    fn advance(&mut self) -> Result<bool, String> {
        Ok(self.model.advance(&self.compute, &mut self.pass))
    }

    fn output(&mut self, text: usize, want: Want, out: &mut Vec<f32>) -> Result<(), String> {
        let want = self.want(want);
        let computed = self.model.output(&self.compute, &self.pass, text, want, &mut self.out);
        computed.map_err(|error| error.to_string())?;
        out.extend_from_slice(&self.out);
        Ok(())
    }
}
