//! `gristmill bench`: how fast a model runs here. `docs/bench.md` is its manual.

use std::path::{Path, PathBuf};

use model::shapes;

use crate::term::err;
use crate::{Failure, flags, loading, store};

/// Where random weights start; any number would do, and the same one makes runs comparable.
const SEED: u64 = 1;

/// Measures published shapes with random weights.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A published shape with random weights, NAME:FORMAT [format: q4_k_m unless given]; may be given again.
    #[arg(long = "shape", value_name = "SHAPE", required = true)]
    shapes: Vec<String>,

    /// Write the shape to a GGUF file instead, for other programs.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    #[command(flatten)]
    compute: flags::Compute,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let machine = cpu::probe::look();
    let (tier, threads) = (args.compute.tier()?, args.compute.threads(&machine)?);
    let compute = loading::compute(&machine, tier, threads)?;
    match (&args.write, &args.shapes[..]) {
        (Some(file), [shape]) => write(shape, file, &compute.pool),
        (Some(_), shapes) => Err(Failure::usage(format!("--write takes one --shape, not {}", shapes.len()))),
        (None, _) => Err(Failure::usage("--write FILE is needed")),
    }
}

/// Writes the shape `text` to `file`.
fn write(text: &str, file: &Path, pool: &cpu::Pool) -> Result<(), Failure> {
    let (shape, recipe) = shapes::parse(text).map_err(usage)?;
    let opened = shape.open(recipe, SEED, pool)?;
    let metadata = opened.metadata().gguf().cloned().unwrap_or_default();
    let tensors: Vec<weights::Tensor<'_>> =
        opened.tensors().filter_map(|tensor| opened.tensor(tensor.name)).collect();
    let bytes = tensors.iter().map(|tensor| tensor.bytes.len() as u64).sum();
    weights::gguf::write(file, &metadata, &tensors)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))?;
    err!("{}: {} of random weights, {}", shape.label(recipe), store::size(bytes), file.display());
    Ok(())
}

fn usage(error: model::Error) -> Failure {
    Failure::usage(error.to_string())
}
