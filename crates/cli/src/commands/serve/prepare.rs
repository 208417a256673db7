//! What the flags say of a model: its memory, its text, and what is measured while it is served.

use std::sync::Arc;

use cpu::probe::Machine;
use cpu::usage::Meter;
use engine::encoder::EncoderLimits;
use kernels::Precision;
use model::{MemoryNeed, PackedCache};
use server::{ModelText, Server, TextPipeline};
use text::{ChatTemplate, Tokenizer};

use super::args::{Args, ToolStyle, When};
use crate::Failure;
use crate::encoders::{self, EncoderOptions, PlannedEncoder};
use crate::found::Found;
use crate::loading::{Planned, Wish, check_memory, machine_of_several, plan_found};
use crate::store::size;

/// Threads that limits are derived from: what the flag or the probe says, whatever was tuned for one model.
pub(super) fn threads(args: &Args) -> Result<usize, Failure> {
    args.compute.threads(&cpu::probe::detect())
}

/// What one of several models is to have otherwise than the flags say.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) model: Option<String>,
    pub(super) context: Option<usize>,
    pub(super) kv_memory: Option<u64>,
    pub(super) kv_room: Option<u64>,
}

/// A model found and planned, of either kind.
pub(super) enum PlannedModel {
    Generates(Box<Planned>),
    Encodes(Box<PlannedEncoder>),
}

impl PlannedModel {
    /// The memory that it takes.
    pub(super) fn need(&self) -> MemoryNeed {
        match self {
            PlannedModel::Generates(planned) => planned.need,
            PlannedModel::Encodes(planned) => planned.need,
        }
    }
}

/// The model found, and its memory planned as the flags say.
pub(super) fn planned(args: &Args, wanted: &Wanted) -> Result<PlannedModel, Failure> {
    // A flag that is wrong is told before the model is looked for.
    args.compute.tier()?;
    if wanted.kv_room.is_some() && args.packed.weights_memory.is_some() {
        return Err(Failure::usage("--weights-memory is for a server of one model"));
    }
    let found = Found::find(wanted.model.as_deref().unwrap_or_else(|| args.model()))?;
    if !found.encodes() {
        return generating(args, wanted, found).map(Box::new).map(PlannedModel::Generates);
    }
    let shared = wanted.kv_room.is_some();
    // One of several models has what it can of a context that is meant for all.
    let for_all = args.context.map(|asked| if shared { asked.min(found.spec.context) } else { asked });
    let context = wanted.context.or(for_all);
    let format = args.encoders.encoder_format;
    let packed = packed(args, wanted);
    let options = EncoderOptions { compute: &args.compute, format, context, shared, packed };
    encoders::plan(found, &options).map(Box::new).map(PlannedModel::Encodes)
}

/// Whether packed files are kept: of several models unless a flag says otherwise, since they come and go.
fn packed(args: &Args, wanted: &Wanted) -> PackedCache {
    if wanted.kv_room.is_some() { args.packed.cache_of_several() } else { args.packed.cache() }
}

/// The limits of an encoder's queue, as the flags say.
pub(super) fn encoder_limits(args: &Args, context: usize) -> EncoderLimits {
    let standard = encoders::limits(context);
    let max_wait = args.limits.longest_wait().unwrap_or(standard.max_wait);
    let max_queued_tokens = args.limits.asked_tokens().unwrap_or(standard.max_queued_tokens);
    EncoderLimits { max_wait, max_queued_tokens, ..standard }
}

fn generating(args: &Args, wanted: &Wanted, found: Found) -> Result<Planned, Failure> {
    let threads = match wanted.kv_room {
        Some(_) => args.compute.threads(&machine_of_several())?,
        None => threads(args)?,
    };
    let wish = Wish {
        model: wanted.model.as_deref().unwrap_or_else(|| args.model()),
        compute: &args.compute,
        precision: Precision::Fast,
        prompts: args.prompts,
        kv: args.kv,
        context: wanted.context.or(args.context),
        max_running: args.limits.parallel(threads),
        speculate: &args.speculate,
        packed: packed(args, wanted),
        kv_room: wanted.kv_room,
    };
    let mut planned = plan_found(found, &wish)?;
    if let Some(kv_bytes) = wanted.kv_memory.or(args.kv_memory) {
        let context_bytes = planned.context_bytes();
        if kv_bytes < context_bytes {
            return Err(Failure::usage(format!(
                "--kv-memory {} does not hold one context of {} tokens, which takes {}; a smaller --context may",
                size(kv_bytes),
                planned.limits.context,
                size(context_bytes)
            )));
        }
        planned.set_kv_bytes(kv_bytes);
        planned.need.kv = kv_bytes;
        if wanted.kv_room.is_none() {
            check_memory(&planned.machine, planned.need.total(), wish.model, "")?;
        }
    }
    let tier = args.compute.tier()?;
    let multiply_adds = planned.multiply_adds_per_token();
    planned.limits.max_queued_tokens = args.limits.queued_tokens(tier, threads, multiply_adds);
    planned.limits.max_stall = args.limits.max_stall();
    planned.limits.prefix_cache = !args.no_prefix_cache;
    planned.limits.max_queued = args.limits.requests(threads);
    Ok(planned)
}

/// Tokens and chat format of a model, as the flags say.
pub(super) fn text_of(
    args: &Args,
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
) -> Arc<dyn TextPipeline> {
    let mut text = ModelText::new(tokenizer, template);
    if let ToolStyle(Some(style)) = args.tool_call_parser {
        text = text.with_style(style);
    }
    if args.tool_calls_from_json != When::Auto {
        text = text.with_calls_from_json(args.tool_calls_from_json == When::On);
    }
    Arc::new(text)
}

/// Lets the metrics tell what the kernel counts of this process.
pub(super) fn measure(server: &Server, machine: &Machine) {
    let meter = Meter::new(machine);
    let memory_limit_bytes = Some(machine.memory_limit_bytes);
    server.measure(move || {
        let used = meter.read();
        events::Process {
            resident_bytes: used.resident_bytes,
            anonymous_bytes: used.anonymous_bytes,
            virtual_bytes: used.virtual_bytes,
            memory_limit_bytes,
            cpu_s: used.cpu_s,
            throttled_s: used.throttled_s,
            open_files: used.open_files,
            max_files: used.max_files,
            started_unix_s: used.started_unix_s,
        }
    });
}
