//! What is to be done: where lines come from, how they become requests, and how they are run.

use crate::endpoint::Endpoint;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Where lines come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file.
    File(PathBuf),
    /// The stream in [`Streams`](crate::run::Streams), which is copied beside the journal first.
    Stream,
}

/// How rows are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON object a line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// Apache Parquet; needs the feature `parquet`.
    Parquet,
}

impl Format {
    /// The format that the ending of a file's name tells; without a known one, lines of JSON.
    pub fn of_name(name: &std::path::Path) -> Format {
        let ending = name.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv,
            "tsv" | "tab" => Format::Tsv,
            "parquet" => Format::Parquet,
            _ => Format::Jsonl,
        }
    }

    /// The format's name in messages and in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Parquet => "parquet",
        }
    }
}

/// In which order requests are computed. The order of the output is always that of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Requests with the same beginning one after another, in windows.
    #[default]
    Auto,
    /// As they come.
    Input,
}

/// Prices in millionths of a currency for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// Price of tokens of prompts.
    pub input: u64,
    /// Price of tokens of prompts that were found in the cache.
    pub cached: u64,
    /// Price of tokens of answers.
    pub output: u64,
}

/// What a run does. [`Options::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where lines come from.
    pub input: Input,
    /// The format of the input; by default the one that its name tells.
    pub input_format: Option<Format>,
    /// The file that is written; `None` for the stream in [`Streams`](crate::run::Streams).
    pub output: Option<PathBuf>,
    /// The format of the output; by default the one that its name tells.
    pub output_format: Option<Format>,
    /// The name whose endings are the journal (`.gristmill`), the errors (`.errors.jsonl`) and the manifest
    /// (`.manifest.json`); by default the output. Needed if the output is a stream.
    pub beside: Option<PathBuf>,
    /// What rows ask; by default chat. Lines in OpenAI's form name their own, and must name this one if it is given.
    pub endpoint: Option<Endpoint>,
    /// The model that is put into every request.
    pub model: Option<String>,
    /// The text of a prompt, with `{column}` for the value of a column and `{{`, `}}` for braces.
    pub template: Option<String>,
    /// The column that is the prompt, in place of a template.
    pub prompt_column: Option<String>,
    /// The text of the system message before each prompt.
    pub system: Option<String>,
    /// Fields that are put into every request.
    pub params: Map<String, Value>,
    /// The columns of the input that are written to the output; by default all.
    pub keep: Option<Vec<String>>,
    /// What answers: hash of the model's weights, arithmetic, or the URL. A journal of another one is not continued.
    pub identity: String,
    /// In which order requests are computed.
    pub order: Order,
    /// Lines that are put into order together.
    pub window_lines: usize,
    /// Bytes of requests that are put into order together.
    pub window_bytes: u64,
    /// The longest line; longer ones are errors.
    pub max_line_bytes: usize,
    /// Requests that run at the same time.
    pub concurrency: usize,
    /// Attempts at a request before it has failed.
    pub attempts: u32,
    /// The first pause between attempts; each next one is twice as long, up to a minute.
    pub first_pause: Duration,
    /// The time that one attempt may take.
    pub attempt_limit: Duration,
    /// Prices, for the report and `max_cost`.
    pub prices: Option<Prices>,
    /// No request is started once this much was spent, in millionths.
    pub max_cost: Option<u64>,
    /// The run stops after this time.
    pub max_time: Option<Duration>,
    /// Throws away a journal of another run, and an output that exists.
    pub force_new: bool,
    /// Runs the requests that failed in an earlier run again.
    pub retry_errors: bool,
    /// Keeps the journal when all lines have succeeded.
    pub keep_journal: bool,
    /// Replaces what differs between two runs of the same requests in bodies of answers: `id` by one derived from the line,
    /// `created` by 0; tokens found in the cache are counted in the manifest only. Otherwise bodies are written as they came.
    pub reproducible: bool,
}

impl Options {
    /// The defaults.
    pub fn new(input: Input, output: Option<PathBuf>) -> Options {
        Options {
            input,
            input_format: None,
            output,
            output_format: None,
            beside: None,
            endpoint: None,
            model: None,
            template: None,
            prompt_column: None,
            system: None,
            params: Map::new(),
            keep: None,
            identity: String::new(),
            order: Order::Auto,
            window_lines: 100_000,
            window_bytes: 1 << 30,
            max_line_bytes: 4 << 20,
            concurrency: 8,
            attempts: 6,
            first_pause: Duration::from_secs(1),
            attempt_limit: Duration::from_hours(1),
            prices: None,
            max_cost: None,
            max_time: None,
            force_new: false,
            retry_errors: false,
            keep_journal: false,
            reproducible: true,
        }
    }
}
