//! The flags of `plan fit`.

use std::path::PathBuf;

use super::ceilings::Source;
use crate::commands::plan::session::Common;
use crate::flags;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Models: catalog names, paths, sources, or published shapes (a model's measures without its weights), as
    /// qwen3-4b:q4_k_m [default: all published shapes in three formats].
    #[arg(value_name = "MODEL")]
    pub(super) models: Vec<String>,

    /// A published shape, NAME:FORMAT; may be given again.
    #[arg(long = "shape", value_name = "SHAPE")]
    pub(super) shapes: Vec<String>,

    /// Requests that run together.
    #[arg(long, short = 'b', value_name = "N,…", value_delimiter = ',', default_value = "1,4,16")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) streams: Vec<u32>,

    /// Tokens of context that each of them may have.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 4096)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    pub(super) context: u32,

    /// Tokens of the prompt whose time to the first token is told; for an encoder, of the longer texts.
    #[arg(long, short = 'p', value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(super) prompt: u32,

    /// Longest time to the first token, ms; the largest model that keeps it is named (slo.ttft_p95_ms).
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    pub(super) ttft_ms: Option<String>,

    /// Longest time for a token, ms, with as many streams as the first of --streams (slo.tpot_p95_ms).
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    pub(super) tpot_ms: Option<String>,

    /// Hold predictions against measurements of `gristmill bench -o json`; may be given again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["models", "shapes", "ttft_ms", "tpot_ms"])]
    pub(super) against: Vec<PathBuf>,

    /// What the disk reads, GB/s, for models of which a part must stay there (`--weights-memory`).
    #[arg(long, value_name = "GB/S", default_value_t = 1.0, value_parser = disk_rate, help_heading = "Machine")]
    pub(super) disk_gb_per_s: f64,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) kv: flags::Kv,

    #[command(flatten)]
    pub(super) common: Common,
}

fn disk_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.001..=1000.0).contains(&rate) { Ok(rate) } else { Err(format!("{rate} is outside 0.001..=1000")) }
}
