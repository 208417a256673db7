//! An encoder on the machine: how many texts a second, in how much memory.

use kernels::KvDtype;
use model::EncodePass;
use planner::step::{Batch, Roofline};
use serde::Serialize;

use super::Place;
use crate::commands::plan::models::Looked;
use crate::commands::plan::report::{Report, rate};
use crate::{Failure, loading, store};

/// Tokens of a step, as the engine has them.
const STEP_TOKENS: usize = 4096;
/// Tokens of the shorter texts; the longer ones have those of `--prompt`.
const SHORT: usize = 128;

/// An encoder in int8.
#[derive(Serialize)]
pub(super) struct EncoderFit {
    model: String,
    parameters: u64,
    weight_bytes: u64,
    scratch_bytes: u64,
    need_bytes: u64,
    fits: bool,
    texts: Vec<TextRate>,
}

/// Texts of so many tokens.
#[derive(Serialize)]
struct TextRate {
    tokens: usize,
    texts_per_s: f64,
    tokens_per_s: f64,
}

/// Predicts an encoder's rates by the roofline of its steps.
///
/// # Errors
/// A format whose kernels were not measured.
pub(super) fn fit(looked: Looked, prompt: u32, place: &Place, kv: KvDtype) -> Result<EncoderFit, Failure> {
    let Looked { label, spec, parameters, weight_bytes, work, .. } = looked;
    let positions = spec.encoder.as_ref().and_then(|heads| heads.max_tokens).unwrap_or(spec.context);
    let positions = positions.min(spec.context);
    let roofline = Roofline::new(work, place.ceilings.clone())?;
    let mut lengths = vec![SHORT.min(positions), (prompt as usize).min(positions)];
    lengths.dedup();
    let texts = lengths.into_iter().map(|tokens| {
        let texts = (STEP_TOKENS / tokens).max(1);
        // Each row sees all of its text.
        let batch =
            Batch { prompt_rows: (texts * tokens) as f64, prompt_context: tokens as f64, ..Batch::default() };
        let texts_per_s = texts as f64 / roofline.seconds(&batch);
        TextRate { tokens, texts_per_s, tokens_per_s: texts_per_s * tokens as f64 }
    });
    let texts = texts.collect();
    let scratch_bytes = EncodePass::bytes(&spec, STEP_TOKENS.max(positions), kv);
    let need_bytes = weight_bytes + scratch_bytes + loading::OTHER_BYTES;
    let fits = need_bytes <= place.memory_bytes;
    Ok(EncoderFit { model: label, parameters, weight_bytes, scratch_bytes, need_bytes, fits, texts })
}

/// The table of encoders.
pub(super) fn say(fits: &[EncoderFit], report: &mut Report) {
    let rows = fits.iter().map(|fit| {
        let texts = fit.texts.iter().map(|text| format!("{} x {}", rate(text.texts_per_s), text.tokens));
        vec![
            fit.model.clone(),
            store::size(fit.weight_bytes),
            format!("{}{}", store::size(fit.need_bytes), if fit.fits { "" } else { " too much" }),
            texts.collect::<Vec<_>>().join(", "),
            fit.texts.last().map_or_else(String::new, |text| rate(text.tokens_per_s)),
        ]
    });
    let rows = rows.collect();
    report.table("", &["encoder", "weights", "needs", "texts/s x tokens", "t/s"], rows);
    report.text("Encoders: in int8, many texts at once. Needs: weights and the buffers of a step.");
}
