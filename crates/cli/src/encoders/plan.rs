//! The choice of the format that an encoder's weights are computed in.

use cpu::Tier;
use kernels::Precision;
use model::{Model, PackedCacheReport, PackedPlace};
use serde::{Deserialize, Serialize};
use tensor::Dtype;

use super::check::{self, Probing};
use super::format::Format;
use crate::flags::EncoderChoice;
use crate::found::{Found, of};
use crate::{Failure, loading, store};

/// The kind of the store's note about a check.
const KIND: &str = "encoder-check";

/// Which format will be loaded, as far as that is known before anything is loaded.
pub(super) enum Plan {
    /// This one.
    Fixed { format: Format, remark: Option<String> },
    /// Int8 if it passes the check against bf16.
    Check,
}

/// A model loaded in the format that was chosen.
pub(super) struct Chosen {
    pub(super) model: Model,
    pub(super) format: Format,
    pub(super) remarks: Vec<String>,
    /// Whether the weights had been packed before.
    pub(super) packed: bool,
}

/// What is to be said of packed weights.
fn kept(report: &PackedCacheReport) -> Vec<String> {
    loading::remarks(report, None)
}

/// What a check found, kept beside the store so that the next start need not repeat it.
#[derive(Serialize, Deserialize)]
struct Verdict {
    version: u32,
    digest: String,
    tier: String,
    passed: bool,
    remark: String,
}

impl Verdict {
    fn find(found: &Found, tier: Tier, digest: &str) -> Option<Verdict> {
        let note = store::home().ok()?.note(KIND, &found.path)?;
        let verdict: Verdict = serde_json::from_slice(&note).ok()?;
        let same = verdict.version == check::VERSION && verdict.digest == digest;
        (same && verdict.tier == tier.to_string()).then_some(verdict)
    }

    /// Keeps the verdict; a store that cannot be written only costs the next start's time.
    fn keep(&self, found: &Found) {
        if let (Ok(text), Ok(store)) = (serde_json::to_vec_pretty(self), store::home())
            && let Err(error) = store.write_note(KIND, &found.path, &text)
        {
            tracing::debug!(%error, "the verdict on int8 is not kept");
        }
    }
}

impl Plan {
    pub(super) fn choose(
        choice: EncoderChoice,
        found: &Found,
        tier: Tier,
        digest: &str,
    ) -> Result<Plan, Failure> {
        let fixed = |format, remark| Ok(Plan::Fixed { format, remark });
        if choice == EncoderChoice::F32 {
            return fixed(Format::F32, None);
        }
        let weights = found.spec.packed_weights(&found.opened, tier, Precision::Fast);
        let weights = weights.map_err(|error| of(&found.name, error))?;
        let is_float = |dtype| matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        let has_floats =
            weights.iter().any(|weight| !weight.vector && !weight.role.is_task() && is_float(weight.dtype));
        match choice {
            EncoderChoice::Bf16 if !has_floats => {
                let remark = format!("the weights of {} are quantized in its file and stay so", found.name);
                fixed(Format::Int8, Some(remark))
            }
            EncoderChoice::Bf16 => fixed(Format::Bf16, None),
            EncoderChoice::Int8 => fixed(Format::Int8, None),
            _ if !has_floats => fixed(Format::Int8, None),
            _ => Ok(match Verdict::find(found, tier, digest) {
                None => Plan::Check,
                Some(Verdict { passed: true, .. }) => Plan::Fixed { format: Format::Int8, remark: None },
                Some(verdict) => Plan::Fixed { format: Format::Bf16, remark: Some(verdict.remark) },
            }),
        }
    }

    /// The format that takes the most memory of those that may be loaded.
    pub(super) fn most(&self) -> Format {
        match self {
            Plan::Fixed { format, .. } => *format,
            Plan::Check => Format::Bf16,
        }
    }

    /// Loads the model, never in two formats at once.
    ///
    /// # Errors
    /// A damaged file, or no memory.
    pub(super) fn load(
        self,
        probing: &Probing<'_>,
        digest: &str,
        place: PackedPlace<'_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Chosen, Failure> {
        let mut part = |from: f32, to: f32, share: f32| progress(from + (to - from) * share);
        match self {
            Plan::Fixed { format, remark } => {
                let (model, report) = probing.load(format, place, &mut |share| part(0.0, 1.0, share))?;
                let remarks = remark.into_iter().chain(kept(&report)).collect();
                Ok(Chosen { model, format, remarks, packed: report.used })
            }
            Plan::Check => {
                let probes = check::probes(probing)?;
                let off = PackedPlace::default();
                let (reference, _) = probing.load(Format::Bf16, off, &mut |share| part(0.0, 0.4, share))?;
                let expected = check::outputs(probing, &reference, Format::Bf16, &probes)?;
                drop(reference);
                let (model, report) =
                    probing.load(Format::Int8, place, &mut |share| part(0.5, 0.9, share))?;
                let computed = check::outputs(probing, &model, Format::Int8, &probes)?;
                let outcome = check::compare(&expected, &computed);
                let verdict = Verdict {
                    version: check::VERSION,
                    digest: digest.into(),
                    tier: probing.compute.tier.to_string(),
                    passed: outcome.passed(),
                    remark: outcome.say(&probing.found.name),
                };
                verdict.keep(probing.found);
                if verdict.passed {
                    part(0.9, 1.0, 1.0);
                    let (remarks, packed) = (kept(&report), report.used);
                    return Ok(Chosen { model, format: Format::Int8, remarks, packed });
                }
                drop(model);
                // The weights that were just packed are not going to be used.
                if let Some((path, _)) = report.written {
                    let _ = std::fs::remove_file(path);
                }
                let (model, report) =
                    probing.load(Format::Bf16, place, &mut |share| part(0.9, 1.0, share))?;
                let remarks = std::iter::once(verdict.remark).chain(kept(&report)).collect();
                Ok(Chosen { model, format: Format::Bf16, remarks, packed: report.used })
            }
        }
    }
}
