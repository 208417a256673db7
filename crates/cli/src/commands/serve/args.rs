//! The flags of `serve`.

use std::path::PathBuf;

use weights::store::DEFAULT_MODEL;

use super::{clients, door, gateway, limits, many, operations, price};
use crate::{flags, kept_jobs};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Catalog name, path, or source (hf:…, https://…, py:…); pulled if it is not there. Several are served side by side,
    /// the first one to requests that name none [default: a small model of the catalog].
    #[arg(value_name = "MODEL", num_args = 0..)]
    pub(super) model: Vec<String>,

    #[command(flatten)]
    pub(super) many: many::flags::Flags,

    /// Address to listen on. Other than loopback only with an API key.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(super) host: String,

    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    pub(super) port: u16,

    /// The name clients put into `model`; may be given again [default: a
    /// catalog's name, a file's name without .gguf, a folder's name].
    #[arg(long, value_name = "NAME")]
    pub(super) served_model_name: Vec<String>,

    /// A key that clients must show as `Authorization: Bearer KEY`; may be given again. Other users of this machine
    /// can see command lines: prefer the variable or the file.
    #[arg(
        long,
        value_name = "KEY",
        env = "GRISTMILL_API_KEY",
        hide_env_values = true,
        value_delimiter = ','
    )]
    #[arg(help_heading = "Access")]
    pub(super) api_key: Vec<String>,

    /// A file of keys, one a line; `#` begins a comment.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub(super) api_key_file: Option<PathBuf>,

    /// Let everybody who reaches the address use the server without a key.
    #[arg(long, help_heading = "Access")]
    pub(super) insecure_no_auth: bool,

    /// Do not serve the page at `/`.
    #[arg(long, help_heading = "Access")]
    pub(super) no_page: bool,

    /// Tell the metrics under llama-server's names too.
    #[arg(long)]
    pub(super) metrics_llamacpp: bool,

    #[command(flatten)]
    pub(super) clients: clients::Flags,

    #[command(flatten)]
    pub(super) limits: limits::Limits,

    /// Tokens of prompt and answer together [default: the model's own, as far as memory allows]; of an encoder those of a
    /// text [default: what its files say].
    #[arg(long, short = 'c', value_name = "N", help_heading = "Machine")]
    pub(super) context: Option<usize>,

    /// Memory for keys and values of all answers at once, as 2G [default: half of what is left beside the weights,
    /// at most --parallel full contexts].
    #[arg(long, value_name = "BYTES", value_parser = door::bytes, help_heading = "Machine")]
    pub(super) kv_memory: Option<u64>,

    /// How the model writes tool calls: auto (what its chat template shows), hermes, llama, mistral, phi or gemma.
    #[arg(long, default_value = "auto", value_name = "STYLE", value_parser = tool_style)]
    pub(super) tool_call_parser: ToolStyle,

    /// Whether an answer that is wholly a JSON object which names an offered tool, bare or fenced, is a call of it, as
    /// small models write calls: auto (for models whose chat template shows no style of calls), on, off.
    #[arg(long, default_value = "auto", value_name = "WHEN")]
    pub(super) tool_calls_from_json: When,

    /// Do not keep keys and values of what ended for requests that begin alike.
    #[arg(long, help_heading = "Machine")]
    pub(super) no_prefix_cache: bool,

    #[command(flatten)]
    pub(super) operations: operations::Flags,

    #[command(flatten)]
    pub(super) gateway: gateway::Flags,

    #[command(flatten)]
    pub(super) jobs: kept_jobs::Flags,

    #[command(flatten)]
    pub(super) price: price::Pricing,

    #[command(flatten)]
    pub(super) compute: flags::Compute,

    #[command(flatten)]
    pub(super) prompts: flags::Prompts,

    #[command(flatten)]
    pub(super) kv: flags::Kv,

    #[command(flatten)]
    pub(super) packed: flags::Packed,

    #[command(flatten)]
    pub(super) encoders: flags::Encoders,

    #[command(flatten)]
    pub(super) speculate: flags::Speculate,
}

impl Args {
    /// The model that answers requests which name none.
    pub(super) fn model(&self) -> &str {
        self.model.first().map_or(DEFAULT_MODEL, String::as_str)
    }

    /// What is loaded, for a line.
    pub(super) fn subject(&self) -> String {
        if self.is_many() { "several models".into() } else { self.model().to_owned() }
    }

    /// Whether there is more than one model, or may be, or one that is served as several are.
    pub(super) fn is_many(&self) -> bool {
        self.model.len() > 1
            || self.many.is_used()
            || self.model.iter().any(|model| many::flags::is_onnx(model))
    }
}

/// When something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum When {
    Auto,
    On,
    Off,
}

/// A style of tool calls; none is what the template shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolStyle(pub(super) Option<text::ToolCallStyle>);

fn tool_style(name: &str) -> Result<ToolStyle, String> {
    let known = || text::ToolCallStyle::ALL.map(|(name, _)| name).join(", ");
    match text::ToolCallStyle::named(name) {
        None if name != "auto" => {
            Err(format!("{name:?} is no style of tool calls; known are auto, {}", known()))
        }
        style => Ok(ToolStyle(style)),
    }
}
