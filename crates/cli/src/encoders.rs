//! Encoders: from a found model to something that makes vectors and scores of texts.
//!
//! plan memory, and refuse before anything is loaded → load the weights, in the format that passes the check → tokenizer,
//! heads, facts → an encoder on the device.

mod check;
mod fingerprint;
mod format;
mod heads;
mod plan;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::text::EncoderTokenizer;
use cpu::probe::Machine;
use engine::Device;
use engine::encoder::{Encoder, EncoderLimits, EncoderRunner, EncoderSetup};
use inference::EncoderFacts;
use kernels::Compute;
use model::{EncodePass, MemoryNeed, Model, PackedCache, Spec};
use service::{EncoderHeads, EncoderText, Encoding};

use crate::flags::EncoderChoice;
use crate::found::{Found, of};
use crate::loading::{LoadTimes, OTHER_BYTES, check_memory, machine_of_several, tokenizer};
use crate::packed_files::{self, PackedFiles};
use crate::store::size;
use crate::{Failure, details, flags};
pub(crate) use format::Format;
use plan::Plan;

/// Tokens of a step: enough that weights are read for many rows, and few enough for the caches.
const STEP_TOKENS: usize = 2048;
/// Buffers of a step take no more than this, unless one text needs them.
const STEP_BYTES: u64 = 256 << 20;
/// The smallest step that larger buffers are given up for.
const LEAST_STEP_TOKENS: usize = 512;

/// What a command wants of an encoder.
#[derive(Clone, Copy)]
pub(crate) struct EncoderOptions<'a> {
    /// Tier and threads.
    pub(crate) compute: &'a flags::Compute,
    /// How weights are computed.
    pub(crate) format: EncoderChoice,
    /// Most tokens of a text; none is what the model's files say.
    pub(crate) context: Option<usize>,
    /// Whether several models share the machine, whose memory is then counted elsewhere.
    pub(crate) shared: bool,
    /// Whether packed weights and the packed tokenizer are kept.
    pub(crate) packed: PackedCache,
}

/// An encoder found and planned, not loaded yet.
pub(crate) struct PlannedEncoder {
    pub(crate) machine: Machine,
    pub(crate) need: MemoryNeed,
    /// Most tokens of a text.
    pub(crate) context: usize,
    /// What it computes.
    pub(crate) heads: EncoderHeads,
    found: Found,
    tier: cpu::Tier,
    threads: usize,
    step_tokens: usize,
    plan: Plan,
    digest: String,
    packed: Option<PackedFiles>,
}

/// An encoder in memory.
pub(crate) struct LoadedEncoder {
    pub(crate) machine: Machine,
    pub(crate) model: Arc<Model>,
    pub(crate) text: Arc<dyn EncoderText>,
    pub(crate) heads: Arc<EncoderHeads>,
    pub(crate) facts: Arc<EncoderFacts>,
    pub(crate) format: Format,
    pub(crate) details: server::ModelDetails,
    pub(crate) took: Duration,
    pub(crate) times: LoadTimes,
    /// What is to be said of the loading, a line each.
    pub(crate) remarks: Vec<String>,
    pass: EncodePass,
    context: usize,
}

/// Works out whether an encoder fits.
///
/// # Errors
/// A flag out of range, weights or heads that cannot be used, or memory that does not suffice.
pub(crate) fn plan(found: Found, options: &EncoderOptions<'_>) -> Result<PlannedEncoder, Failure> {
    let machine = if options.shared { machine_of_several() } else { cpu::probe::detect() };
    let (tier, threads) = (options.compute.tier()?, options.compute.threads(&machine)?);
    let name = found.name.clone();
    let spec = &found.spec;
    let heads = spec.encoder.as_deref().ok_or_else(|| Failure::new(format!("{name} is not an encoder")))?;
    heads::check(&name, heads)?;
    if matches!(options.packed, PackedCache::Partial(_)) {
        return Err(Failure::usage(format!(
            "--weights-memory: {name} is an encoder, whose weights are in memory"
        )));
    }
    let context = context(options.context, spec.context, heads.max_tokens)?;
    let whole_digest = packed_files::digest(&found.path, &found.opened)?;
    let packed = PackedFiles::new(&found.opened, options.packed, &whole_digest);
    let digest = fingerprint::short(&whole_digest);
    let plan = Plan::choose(options.format, &found, tier, &digest)?;
    let step_tokens = step_tokens(spec, context, plan.most(), tier);
    let weights = spec.encoder_bytes(&found.opened, tier, plan.most().precision(), plan.most().packing());
    let need = MemoryNeed {
        weights: weights.map_err(|error| of(&name, error))?,
        kv: 0,
        scratch: EncodePass::bytes(spec, step_tokens.max(context), plan.most().kv_dtype(tier)),
    };
    if !options.shared {
        let parts = format!(
            " (weights {}, buffers for {context} tokens {}, other {}; a smaller --context needs less)",
            size(need.weights),
            size(need.scratch),
            size(OTHER_BYTES)
        );
        check_memory(&machine, need.total() + OTHER_BYTES, &name, &parts)?;
    }
    let heads = heads::of(&found);
    Ok(PlannedEncoder {
        machine,
        need,
        context,
        heads,
        found,
        tier,
        threads,
        step_tokens,
        plan,
        digest,
        packed,
    })
}

/// Most tokens of a text: what is asked, else what the files say, within what the model has positions for.
fn context(asked: Option<usize>, positions: usize, own: Option<usize>) -> Result<usize, Failure> {
    match asked {
        Some(asked) if !(2..=positions).contains(&asked) => Err(Failure::usage(format!(
            "--context {asked} is outside 2..={positions}, what the model can do"
        ))),
        Some(asked) => Ok(asked),
        None => Ok(own.unwrap_or(positions).clamp(2.min(positions), positions)),
    }
}

/// Tokens of a step, as many as have room in the buffers that it may take.
fn step_tokens(spec: &Spec, context: usize, format: Format, tier: cpu::Tier) -> usize {
    let mut tokens = STEP_TOKENS;
    while tokens > LEAST_STEP_TOKENS && EncodePass::bytes(spec, tokens, format.kv_dtype(tier)) > STEP_BYTES {
        tokens /= 2;
    }
    // Buffers for one long text are there anyway.
    if context > tokens { tokens.max(STEP_TOKENS.min(context)) } else { tokens }
}

impl PlannedEncoder {
    /// Opens the tokenizer and keeps nothing: what else can be wrong with a model than its weights' numbers.
    ///
    /// # Errors
    /// A tokenizer that cannot be used.
    pub(crate) fn check_words(&self) -> Result<(), Failure> {
        EncoderTokenizer::open(&self.found.opened).map(|_| ()).map_err(Failure::from)
    }

    /// Loads what was planned, with kernels of its own. `progress` gets the share that is done, 0 to 1.
    ///
    /// # Errors
    /// A damaged file, or no threads or memory after all.
    pub(crate) fn load(self, progress: &mut dyn FnMut(f32)) -> Result<(LoadedEncoder, Compute), Failure> {
        let compute =
            crate::loading::compute(&self.machine, self.tier, self.threads, flags::Prompts::default())?;
        self.load_with(&compute, progress).map(|loaded| (loaded, compute))
    }

    /// As [`PlannedEncoder::load`], with kernels that are there already.
    ///
    /// # Errors
    /// A damaged file, or no threads or memory after all.
    pub(crate) fn load_with(
        self,
        compute: &Compute,
        progress: &mut dyn FnMut(f32),
    ) -> Result<LoadedEncoder, Failure> {
        let began = Instant::now();
        let PlannedEncoder {
            machine, heads, found, step_tokens, context, plan, tier, digest, packed, ..
        } = self;
        let details = details::of(&found.opened, &found.spec);
        let (tokenizer, mut remarks, packed_words) = tokenizer(&found.opened, packed.as_ref())?;
        let tokenizer = EncoderTokenizer::new(Arc::new(tokenizer))?;
        let after_words = Instant::now();
        if crate::found::generates(&found.spec) {
            remarks.push(format!(
                "{} can continue texts too; its files name what an embedding model has, and it is served as one",
                found.name
            ));
        }
        let probing = check::Probing { found: &found, tokenizer: &tokenizer, compute, step_tokens, context };
        let place = packed.as_ref().map(PackedFiles::place).unwrap_or_default();
        let chosen = plan.load(&probing, &digest, place, progress)?;
        remarks.extend(chosen.remarks);
        let (model, format) = (chosen.model, chosen.format);
        let after_weights = Instant::now();
        let pass = EncodePass::new(&model.spec, step_tokens, format.kv_dtype(tier))?;
        let times = LoadTimes {
            tokenizer: after_words - began,
            weights: after_weights - after_words,
            buffers: after_weights.elapsed(),
            is_packed: chosen.packed && packed_words,
        };
        let fingerprint = fingerprint::of(&digest, format, tier);
        let facts = heads::facts(&found, &heads, context, format, fingerprint);
        Ok(LoadedEncoder {
            machine,
            model: Arc::new(model),
            text: text::text(tokenizer, found.spec.encoder.as_deref()),
            heads: Arc::new(heads),
            facts: Arc::new(facts),
            format,
            details,
            took: began.elapsed(),
            times,
            remarks,
            pass,
            context,
        })
    }
}

impl LoadedEncoder {
    /// `90.9 MB of weights as int8 in 0.42 s · 256 tokens a text · embed, rerank`.
    pub(crate) fn say(&self) -> String {
        format!(
            "{} of weights in {} ready after {:.2} s · {} tokens a text · {}",
            size(self.model.bytes() as u64),
            self.format.name(),
            self.took.as_secs_f64(),
            self.context,
            self.heads.operations().join(", ")
        )
    }

    /// Tokens of a step.
    pub(crate) fn step_tokens(&self) -> usize {
        self.pass.step_tokens()
    }

    /// Starts the encoder on a device.
    ///
    /// # Errors
    /// No thread.
    pub(crate) fn start(self, device: &Device, setup: EncoderSetup) -> Result<Encoding, Failure> {
        let LoadedEncoder { model, text, heads, facts, pass, context, .. } = self;
        let encoder = EncoderRunner::new(model, device, pass, context);
        let engine = Encoder::start(device, encoder, setup)?;
        Ok(Encoding { engine, text, heads, facts })
    }
}

/// The limits of an encoder's queue.
pub(crate) fn limits(context: usize) -> EncoderLimits {
    EncoderLimits { context, ..EncoderLimits::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_the_files_unless_one_is_asked_for() {
        let of = |asked, own| context(asked, 512, own).unwrap();
        assert_eq!((of(None, None), of(None, Some(256)), of(None, Some(8192))), (512, 256, 512));
        assert_eq!((of(Some(300), Some(256)), of(Some(2), None)), (300, 2));
        let failure = context(Some(513), 512, Some(256)).unwrap_err();
        assert_eq!(failure.message, "--context 513 is outside 2..=512, what the model can do");
    }
}
