//! The check of int8 against bf16: the same probe texts through both, output by output.
//!
//! The probes are texts of 4 to 128 tokens, always the same: sentences of several kinds, languages and scripts, numbers and
//! code. Vectors pass with a mean cosine of at least 0.998 and each of at least 0.99: with that, measures of retrieval and similarity
//! differ by less than 0.2 points of 100 (docs/embeddings.md). Logits pass if none is further off than a fiftieth
//! of the largest.

use ::text::{EncodeOptions, EncoderTokenizer, TextOrPair, TextTruncation};
use kernels::Compute;
use model::{EncodePass, EncodeText, Model, PackedCacheReport, PackedPlace, Want};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::format::Format;
use crate::Failure;
use crate::found::{Found, of};

/// Raised when probes, limits or numerics change, so that older verdicts are not taken.
pub(super) const VERSION: u32 = 4;
const SEED: u64 = 0x6772_6973_746d_696c;
const PROBES: usize = 32;
/// What probes are made of.
const SENTENCES: &str = include_str!("probes.txt");
/// Between the first sentences of two probes; coprime to their number.
const STRIDE: usize = 7;
/// Tokens of a probe, special tokens included.
const LENGTHS: std::ops::RangeInclusive<usize> = 4..=128;
/// The limit of the mean of all probes' cosines.
const MEAN_COSINE: f64 = 0.998;
/// The limit of each cosine.
const LEAST_COSINE: f64 = 0.99;
/// The largest difference of two logits, as a share of the largest logit.
const MOST_LOGIT_ERROR: f64 = 0.02;

/// What a check needs.
pub(super) struct Probing<'a> {
    pub(super) found: &'a Found,
    pub(super) tokenizer: &'a EncoderTokenizer,
    pub(super) compute: &'a Compute,
    pub(super) step_tokens: usize,
    pub(super) context: usize,
}

impl Probing<'_> {
    /// Loads the weights in a format, from packed ones or to them if they are kept.
    ///
    /// # Errors
    /// As [`Model::load_encoder`].
    pub(super) fn load(
        &self,
        format: Format,
        place: PackedPlace<'_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Model, PackedCacheReport), Failure> {
        let Probing { found, compute, .. } = self;
        let (spec, how) = (found.spec.clone(), (format.precision(), format.packing()));
        Model::load_encoder(spec, &found.opened, compute, how, place, progress)
            .map_err(|error| of(&found.name, error))
    }
}

/// The probe texts as tokens: sentences after one another, cut after a length of its own for each.
///
/// # Errors
/// A tokenizer that cannot take them.
pub(super) fn probes(probing: &Probing<'_>) -> Result<Vec<Vec<u32>>, Failure> {
    let Probing { tokenizer, context, .. } = probing;
    let sentences: Vec<&str> = SENTENCES.lines().collect();
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut probe = |first: usize| {
        let tokens = random.random_range(LENGTHS).min(*context);
        // A sentence has some 15 tokens; more than enough of them.
        let text: Vec<&str> = sentences.iter().cycle().skip(first).take(2 + tokens / 4).copied().collect();
        let options = EncodeOptions { truncation: TextTruncation::End, ..EncodeOptions::new(tokens) };
        let input = tokenizer.encode(&TextOrPair::Text(&text.join(" ")), &options)?;
        Ok(input.tokens)
    };
    (0..PROBES).map(|at| probe(STRIDE * at)).collect()
}

/// The numbers of every probe, for each output of the model.
pub(super) type Outputs = Vec<(Want, Vec<Vec<f32>>)>;

/// Computes all outputs of the probes.
///
/// # Errors
/// A pass that the model refuses, or numbers that are not finite.
pub(super) fn outputs(
    probing: &Probing<'_>,
    model: &Model,
    format: Format,
    probes: &[Vec<u32>],
) -> Result<Outputs, Failure> {
    let compute = probing.compute;
    let mut pass = EncodePass::new(&model.spec, probing.step_tokens, format.kv_dtype(compute.tier))?;
    let mut all: Outputs = wants(model).into_iter().map(|want| (want, Vec::new())).collect();
    let mut rest = probes;
    while !rest.is_empty() {
        let mut tokens = 0;
        let fits = rest.iter().take_while(|probe| {
            tokens += probe.len();
            tokens <= probing.step_tokens
        });
        let count = fits.count().max(1);
        let (step, later) = rest.split_at(count);
        let texts: Vec<EncodeText<'_>> =
            step.iter().map(|tokens| EncodeText { tokens, types: &[], skip: 0 }).collect();
        model.begin(&mut pass, &texts)?;
        while model.advance(compute, &mut pass) {}
        for (want, values) in &mut all {
            for text in 0..step.len() {
                let mut out = Vec::new();
                model.output(compute, &pass, text, *want, &mut out)?;
                values.push(out);
            }
        }
        rest = later;
    }
    Ok(all)
}

/// The outputs that the model has.
fn wants(model: &Model) -> Vec<Want> {
    let Some(heads) = model.spec.encoder.as_deref() else { return Vec::new() };
    let all = [
        (heads.dense.is_some(), Want::Dense),
        (heads.multi_vector.is_some(), Want::Tokens),
        (heads.sparse.is_some(), Want::Sparse),
        (heads.classifier.is_some(), Want::Logits),
        (heads.token_classifier.is_some(), Want::TokenLogits),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, want)| want).collect()
}

/// How close two formats are.
#[derive(Debug, Default)]
pub(super) struct Closeness {
    /// The cosines of each output of vectors.
    cosines: Vec<Cosines>,
    /// The largest difference of two logits, as a share of the largest.
    logits: Option<f64>,
}

/// The cosines of the vectors of one output.
#[derive(Debug)]
struct Cosines {
    what: &'static str,
    mean: f64,
    least: f64,
}

impl Cosines {
    fn passed(&self) -> bool {
        self.mean >= MEAN_COSINE && self.least >= LEAST_COSINE
    }
}

/// Compares the outputs of two formats.
pub(super) fn compare(expected: &Outputs, computed: &Outputs) -> Closeness {
    let mut closeness = Closeness::default();
    for ((want, expected), (_, computed)) in expected.iter().zip(computed) {
        match want {
            Want::Logits | Want::TokenLogits => {
                let error = logit_error(expected, computed);
                closeness.logits = Some(closeness.logits.map_or(error, |worst| worst.max(error)));
            }
            _ => {
                let cosines = || expected.iter().zip(computed).map(|(a, b)| cosine(a, b));
                closeness.cosines.push(Cosines {
                    what: want.name(),
                    mean: cosines().sum::<f64>() / expected.len().max(1) as f64,
                    least: cosines().fold(1.0, f64::min),
                });
            }
        }
    }
    closeness
}

impl Closeness {
    pub(super) fn passed(&self) -> bool {
        self.cosines.iter().all(Cosines::passed) && self.logits.is_none_or(|error| error <= MOST_LOGIT_ERROR)
    }

    /// The line about the check.
    pub(super) fn say(&self, model: &str) -> String {
        let mut parts = Vec::new();
        for Cosines { what, mean, least } in &self.cosines {
            parts.push(format!(
                "{what} have a cosine of {mean:.5} on average and {least:.5} at least (the limits are {MEAN_COSINE} and {LEAST_COSINE})"
            ));
        }
        if let Some(error) = self.logits {
            let (error, most) = (100.0 * error, 100.0 * MOST_LOGIT_ERROR);
            parts.push(format!(
                "logits are off by at most {error:.2} % of the largest (the limit is {most} %)"
            ));
        }
        let verdict = if self.passed() { "is computed in int8" } else { "stays in bf16, not int8" };
        format!("{model} {verdict}: on {PROBES} probe texts, {}", parts.join(", and "))
    }
}

/// The largest difference, as a share of the largest logit of all probes.
fn logit_error(expected: &[Vec<f32>], computed: &[Vec<f32>]) -> f64 {
    let largest = expected.iter().flatten().fold(0.0_f64, |most, value| most.max(f64::from(value.abs())));
    let differences = expected.iter().flatten().zip(computed.iter().flatten());
    let worst = differences.fold(0.0_f64, |worst, (a, b)| worst.max((f64::from(*a) - f64::from(*b)).abs()));
    worst / largest.max(1.0)
}

/// The cosine of two vectors; 1 for two that are all zeros.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let lengths = dot(a, a) * dot(b, b);
    if lengths > 0.0 {
        return dot(a, b) / lengths.sqrt();
    }
    if a == b { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_vector_that_is_off_fails_the_check() {
        let good = vec![(Want::Dense, vec![vec![1.0, 0.0], vec![0.0, 1.0]])];
        assert!(compare(&good, &good).passed());
        let near = vec![(Want::Dense, vec![vec![1.0, 0.08], vec![0.0, 1.0]])];
        assert!(compare(&good, &near).passed());
        // Each within the limit of one, and all of them beyond that of the mean.
        let all = vec![(Want::Dense, vec![vec![1.0, 0.1], vec![0.1, 1.0]])];
        assert!(!compare(&good, &all).passed());
        let off = vec![(Want::Dense, vec![vec![1.0, 0.0], vec![0.2, 1.0]])];
        let outcome = compare(&good, &off);
        assert!(!outcome.passed());
        assert!(
            outcome.say("m").starts_with("m stays in bf16, not int8: on 32 probe texts, dense vectors have")
        );
    }

    #[test]
    fn logits_are_judged_by_the_largest() {
        let logits = |value: f32| vec![(Want::Logits, vec![vec![value], vec![-10.0]])];
        assert!(compare(&logits(1.0), &logits(1.19)).passed());
        assert!(!compare(&logits(1.0), &logits(1.21)).passed());
    }
}
