//! `gristmill inspect`: what is in a model file, and the memory that serving it takes.

mod metadata;
mod report;
mod table;

use std::path::Path;

use model::Spec;
use tensor::Dtype;
use weights::{Element, Opened};

use crate::Failure;
use crate::loading;
use crate::store;
use crate::term;
use report::{FilePart, FormatRow, Memory, Report, TensorRow};

/// Context that memory is counted for when none is asked, or the model's own if that is shorter.
const DEFAULT_CONTEXT: usize = 4096;

/// What `inspect` shows: metadata (long arrays cut), tensors, sizes by format, parameters, and the memory that serving
/// takes at a given context.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A GGUF file, a Hugging Face directory, or any other way to name a model.
    #[arg(value_name = "FILE")]
    model: String,

    /// Tokens of context to count memory for [default: 4096, or the model's own if that is less].
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Print long arrays and texts of the metadata whole.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    compute: crate::flags::Compute,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.context == Some(0) {
        return Err(Failure::usage("--context 0: at least one token is needed"));
    }
    let path = store::resolve(&args.model)?;
    let opened = weights::open(&path)?;
    let report = report(&path, &opened, &args)?;
    if args.json {
        return term::json(&report);
    }
    table::print(&report);
    Ok(())
}

fn report(path: &Path, opened: &Opened, args: &Args) -> Result<Report, Failure> {
    let tier = args.compute.tier()?;
    let tensors: Vec<TensorRow> = opened.tensors().map(|t| row(&t)).collect();
    let is_weight = |t: &&TensorRow| t.format.parse::<Dtype>().is_ok();
    let cannot_run = loading::hindrance(opened, tier);
    let spec = Spec::read(opened);
    let family = spec.as_ref().ok().map(|spec| spec.family);
    let memory = spec.map_err(Failure::from).and_then(|spec| memory(opened, spec, args.context, tier));
    let (memory, memory_unknown) = match memory {
        Ok(memory) => (Some(memory), None),
        Err(failure) => (None, Some(failure.message)),
    };
    Ok(Report {
        path: path.display().to_string(),
        kind: opened.kind().to_string(),
        family,
        files: opened.files().map(|(p, bytes)| FilePart { path: p.display().to_string(), bytes }).collect(),
        file_bytes: opened.file_bytes(),
        parameters: tensors.iter().filter(is_weight).map(|t| t.parameters).sum(),
        metadata: metadata::read(opened.metadata(), args.full),
        formats: formats(opened),
        tensors,
        runs: cannot_run.is_none(),
        cannot_run,
        memory,
        memory_unknown,
    })
}

fn row(t: &weights::TensorInfo<'_>) -> TensorRow {
    TensorRow {
        name: t.name.to_owned(),
        format: t.element.name(),
        shape: t.shape.to_vec(),
        parameters: t.count(),
        bytes: t.bytes as u64,
    }
}

/// Sums by format, the largest first.
fn formats(opened: &Opened) -> Vec<FormatRow> {
    let mut rows: Vec<(Element, FormatRow)> = Vec::new();
    for t in opened.tensors() {
        let at = rows.iter().position(|(element, _)| *element == t.element).unwrap_or_else(|| {
            let row = FormatRow { format: t.element.name(), tensors: 0, parameters: 0, bytes: 0 };
            rows.push((t.element, row));
            rows.len() - 1
        });
        let sum = &mut rows[at].1;
        sum.tensors += 1;
        sum.parameters += t.count();
        sum.bytes += t.bytes as u64;
    }
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.bytes));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// What serving takes: packed weights, keys and values of one full context, and the buffers of the engine's largest
/// step.
fn memory(
    opened: &Opened,
    mut spec: Spec,
    context: Option<usize>,
    tier: cpu::Tier,
) -> Result<Memory, Failure> {
    let context_of_model = spec.context;
    let context = match context {
        Some(asked) if asked > context_of_model => {
            let problem = format!(
                "--context {asked} is more than the model's {}",
                term::number(context_of_model, "token")
            );
            return Err(Failure::new(problem));
        }
        Some(asked) => asked,
        None => DEFAULT_CONTEXT.min(context_of_model),
    };
    spec.limit_context(context);
    let limits = engine::Limits::default();
    let weights = spec.weight_bytes(opened, tier, kernels::Precision::Fast)?;
    let kv = kernels::KvDtype::F16;
    let need = spec.memory(weights, context, kv, limits.max_rows(), limits.max_logit_rows());
    Ok(Memory {
        context,
        context_of_model,
        weights_bytes: need.weights,
        kv_bytes: need.kv,
        kv_bytes_per_token: spec.kv_bytes_per_token(kv) as u64,
        scratch_bytes: need.scratch,
        total_bytes: need.total(),
    })
}
