//! The flags of `batch`.

use std::path::PathBuf;
use std::time::Duration;

use ::batch::{Endpoint, Format, Input, Options, Order, Prices};
use serde_json::Value;

use crate::Failure;

/// How progress is told on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProgressStyle {
    /// A bar on a terminal, lines elsewhere.
    Auto,
    /// A JSON object a line.
    Json,
    /// Nothing.
    None,
}

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FormatName {
    Jsonl,
    Csv,
    Tsv,
    Parquet,
}

/// An order of computing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OrderName {
    /// Requests that begin alike one after another.
    Auto,
    /// As they come.
    Input,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lines of JSON (OpenAI's batch form, or rows), CSV, TSV or Parquet; `-` is standard input.
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// The file of answers, in the order of the input; `-` is standard output (then --journal is needed).
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The model: of this machine one as `serve` takes it, with --url a name that the server knows.
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<String>,

    /// Ask this server instead of an engine in this process.
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(super) url: Option<String>,

    /// Hand the file to the server as a batch of its own, wait, and fetch the answers; OpenAI's form only.
    #[arg(long, requires = "url", help_heading = "Server")]
    pub(super) submit: bool,

    /// The server's API key.
    #[arg(
        long,
        env = "GRISTMILL_API_KEY",
        hide_env_values = true,
        value_name = "KEY",
        help_heading = "Server"
    )]
    pub(super) api_key: Option<String>,

    /// Trust the certificates of this file in place of the usual ones.
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub(super) ca_file: Option<PathBuf>,

    /// Requests that run at the same time [default: of this machine's engine twice --parallel, of a server 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "Server")]
    pub(super) concurrency: Option<u16>,

    /// What rows ask: chat, completions, responses, messages, embeddings, rerank, score, classify, pooling or entities.
    #[arg(long, value_name = "ENDPOINT", help_heading = "Rows")]
    endpoint: Option<String>,

    /// The text of a prompt, with {column} for a column's value.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_column", help_heading = "Rows")]
    template: Option<String>,

    /// The column that is the prompt.
    #[arg(long, value_name = "NAME", help_heading = "Rows")]
    prompt_column: Option<String>,

    /// The system message before each prompt.
    #[arg(long, value_name = "TEXT", help_heading = "Rows")]
    system: Option<String>,

    /// A field of every request, its value in JSON or as plain text, as max_tokens=64; may be given again.
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Rows")]
    param: Vec<String>,

    /// Columns of the input that are written to the output, joined by commas [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Rows")]
    keep: Option<Vec<String>>,

    /// The format of the input [default: what its name says, else jsonl].
    #[arg(long, value_name = "FORMAT", help_heading = "Rows")]
    input_format: Option<FormatName>,

    /// The format of the output [default: what its name says, else jsonl].
    #[arg(long, value_name = "FORMAT", help_heading = "Rows")]
    output_format: Option<FormatName>,

    /// The order of computing; the output is in the order of the input.
    #[arg(long, default_value = "auto", value_name = "ORDER")]
    order: OrderName,

    /// Lines that are put into order together.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,

    /// Where the journal, the errors and the manifest go: this name with .gristmill, .errors.jsonl and .manifest.json
    /// [default: OUT].
    #[arg(long, value_name = "NAME")]
    journal: Option<PathBuf>,

    /// Throw away the journal of another run, and an output that exists.
    #[arg(long)]
    force_new: bool,

    /// Run the requests that failed before again.
    #[arg(long)]
    retry_errors: bool,

    /// Keep the journal when all is done.
    #[arg(long)]
    keep_journal: bool,

    /// Write answers with the ids and times that they came with, which differ from run to run.
    #[arg(long)]
    keep_ids: bool,

    /// Say what a run would do: lines, tokens, shared beginnings, duplicates, cost.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Count tokens with the model for --dry-run, which loads it; otherwise they are estimated from bytes.
    #[arg(long, requires = "dry_run")]
    pub(super) count: bool,

    /// Tokens of prompts and of answers a second that the machine reaches, for the time that --dry-run tells, as 400,60.
    #[arg(long, value_name = "PROMPT,ANSWER", value_parser = rates, requires = "dry_run")]
    rates: Option<(f64, f64)>,

    /// Prices for a million tokens of prompts and of answers, as 0.15,0.60.
    #[arg(long, value_name = "PROMPT,ANSWER", value_parser = rates, help_heading = "Bounds")]
    prices: Option<(f64, f64)>,

    /// Start no request once this much is spent.
    #[arg(long, value_name = "AMOUNT", requires = "prices", help_heading = "Bounds")]
    max_cost: Option<f64>,

    /// Stop after so many seconds; the same command goes on.
    #[arg(long, value_name = "SECONDS", help_heading = "Bounds")]
    max_time: Option<u64>,

    /// Attempts at a request before it has failed.
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Bounds")]
    attempts: u32,

    /// How progress is told on standard error.
    #[arg(long, default_value = "auto", value_name = "STYLE")]
    pub(super) progress: ProgressStyle,

    /// Print the report, or the plan, as JSON on standard output.
    #[arg(long)]
    pub(super) json: bool,

    /// Flags of `serve` for the engine in this process, after `--`: `-- --parallel 32 --context 4096`.
    #[arg(last = true, value_name = "FLAGS OF SERVE")]
    pub(super) serve: Vec<String>,
}

fn rates(text: &str) -> Result<(f64, f64), String> {
    let pair = text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    let pair: Option<(f64, f64)> = pair;
    pair.filter(|(a, b)| *a >= 0.0 && *b >= 0.0 && a.is_finite() && b.is_finite())
        .ok_or_else(|| format!("{text} is not two numbers with a comma between them"))
}

impl Args {
    /// Whether the input is standard input.
    pub(super) fn reads_stream(&self) -> bool {
        self.input.as_os_str() == "-"
    }

    /// Whether the output is standard output.
    pub(super) fn writes_stream(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// Tokens of prompts and of answers a second.
    pub(super) fn rates(&self) -> Option<(f64, f64)> {
        self.rates
    }

    /// What the crate is told.
    ///
    /// # Errors
    /// An endpoint that is not known, a parameter without `=`.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let input = if self.reads_stream() { Input::Stream } else { Input::File(self.input.clone()) };
        let output = (!self.writes_stream()).then(|| self.output.clone());
        if output.is_none() && self.journal.is_none() && !self.dry_run {
            let message =
                "OUT is standard output: say with --journal where the journal goes, by which a run resumes";
            return Err(Failure::usage(message));
        }
        if self.url.is_some() && !self.serve.is_empty() {
            return Err(Failure::usage(
                "flags of serve after -- are for an engine in this process, not for --url",
            ));
        }
        let endpoint = self.endpoint.as_deref().map(endpoint).transpose()?;
        // Amounts of money and tokens, far below what a u64 holds.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "amounts in millionths")]
        let millionths = |amount: f64| (amount * 1e6).round() as u64;
        let prices = self.prices.map(|(prompt, answer)| Prices {
            input: millionths(prompt),
            cached: millionths(prompt),
            output: millionths(answer),
        });
        Ok(Options {
            input_format: self.input_format.map(FormatName::format),
            output_format: self.output_format.map(FormatName::format),
            beside: self.journal.clone(),
            endpoint,
            model: self.model.clone(),
            template: self.template.clone(),
            prompt_column: self.prompt_column.clone(),
            system: self.system.clone(),
            params: params(&self.param)?,
            keep: self.keep.clone(),
            order: match self.order {
                OrderName::Auto => Order::Auto,
                OrderName::Input => Order::Input,
            },
            window_lines: self.window as usize,
            concurrency: self.concurrency.map_or(8, usize::from),
            attempts: self.attempts,
            prices,
            max_cost: self.max_cost.map(millionths),
            max_time: self.max_time.map(Duration::from_secs),
            force_new: self.force_new,
            retry_errors: self.retry_errors,
            keep_journal: self.keep_journal,
            reproducible: !self.keep_ids,
            ..Options::new(input, output)
        })
    }
}

impl FormatName {
    fn format(self) -> Format {
        match self {
            FormatName::Jsonl => Format::Jsonl,
            FormatName::Csv => Format::Csv,
            FormatName::Tsv => Format::Tsv,
            FormatName::Parquet => Format::Parquet,
        }
    }
}

fn endpoint(name: &str) -> Result<Endpoint, Failure> {
    Endpoint::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Endpoint::names().collect();
        Failure::usage(format!("--endpoint {name} is not known; known are {}", known.join(", ")))
    })
}

fn params(words: &[String]) -> Result<serde_json::Map<String, Value>, Failure> {
    let mut params = serde_json::Map::new();
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Failure::usage(format!("--param {word} is not NAME=VALUE")));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        params.insert(name.trim().to_owned(), value);
    }
    Ok(params)
}
