//! The flags of `bench serve`, and what they mean together.

use std::path::PathBuf;

use crate::Failure;

use super::arrivals::Arrivals;
use super::body::{Api, Endpoint};
use super::dataset::{Lengths, Made};
use super::metrics::Goal;
use super::mix::{Mix, Weighted};
use super::report::{Metric, Selection};

/// Requests of a run; more would not fit what is kept of each.
const MAX_REQUESTS: usize = 1_000_000;
/// Tokens of a prompt or an answer.
const MAX_TOKENS: usize = 4 << 20;
/// Token ids that are text in nearly every vocabulary: control tokens stand at its beginning or its end.
pub(super) const ID_RANGE: std::ops::Range<u32> = 1_000..30_000;
/// Puts load on a server with the OpenAI API and measures it as `vllm bench serve` does.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the server is, without /v1.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(super) base_url: String,

    /// chat, completions, embeddings, or a path that ends in /completions or /embeddings.
    #[arg(long, value_name = "WHICH", default_value = "completions", value_parser = Endpoint::parse)]
    pub(super) endpoint: Endpoint,

    /// What requests say in `model` [default: the first that the server lists]; several share the requests by their
    /// weights (1 each), in an order drawn from the seed.
    #[arg(long, value_name = "NAME[=WEIGHT],…", value_delimiter = ',', value_parser = Weighted::parse)]
    pub(super) model: Vec<Weighted>,

    /// Shown as `Authorization: Bearer KEY`.
    #[arg(long, value_name = "KEY", env = "OPENAI_API_KEY", hide_env_values = true)]
    pub(super) api_key: Option<String>,

    /// A header for every request; may be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) header: Vec<String>,

    /// Certificates (PEM) to trust instead of Mozilla's.
    #[arg(long, value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,

    /// Seconds after which an answer that is not complete has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(super) timeout: u64,

    /// Seconds to wait for the server's first good answer before the run.
    #[arg(long, alias = "ready-check-timeout-sec", value_name = "SECONDS", default_value_t = 0)]
    pub(super) ready_timeout: u64,

    /// What is asked.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Dataset::Random, help_heading = "Data set")]
    pub(super) dataset_name: Dataset,

    /// A ShareGPT-style file: [{"conversations": [{"value": …}, …]}, …].
    #[arg(long, value_name = "FILE", help_heading = "Data set")]
    pub(super) dataset_path: Option<PathBuf>,

    /// Requests; with multi-turn, conversations.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Data set")]
    pub(super) num_prompts: usize,

    /// Tokens of a prompt, or of a turn; what a chat template adds comes on top.
    #[arg(long, alias = "random-input-len", alias = "prefix-repetition-suffix-len", value_name = "N")]
    #[arg(default_value_t = 128, help_heading = "Data set")]
    pub(super) input_len: usize,

    /// Texts of a request for embeddings.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Data set")]
    pub(super) texts: usize,

    /// Most tokens of an answer [default: 128; sharegpt: as long as the file's].
    #[arg(long, alias = "random-output-len", alias = "sharegpt-output-len", value_name = "N")]
    #[arg(alias = "prefix-repetition-output-len", help_heading = "Data set")]
    pub(super) output_len: Option<usize>,

    /// Lengths are drawn evenly from (1 − R) to (1 + R) times the two above.
    #[arg(long, alias = "random-range-ratio", value_name = "R", default_value_t = 0.0)]
    #[arg(help_heading = "Data set")]
    pub(super) range_ratio: f64,

    /// Tokens at the beginning that prompts share; with multi-turn and chat, the system prompt [default: 0;
    /// prefix_repetition: 256].
    #[arg(long, alias = "random-prefix-len", alias = "prefix-repetition-prefix-len", value_name = "N")]
    #[arg(help_heading = "Data set")]
    pub(super) prefix_len: Option<usize>,

    /// How many such beginnings there are [default: 1; prefix_repetition: 10].
    #[arg(long, alias = "prefix-repetition-num-prefixes", value_name = "N", help_heading = "Data set")]
    pub(super) num_prefixes: Option<usize>,

    /// Requests of a conversation, with multi-turn.
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Data set")]
    pub(super) turns: usize,

    /// Whether prompts are sent as token ids or as text [default: tokens for random prompts to completions].
    #[arg(long, value_name = "FORM", value_enum, help_heading = "Data set")]
    pub(super) prompt_as: Option<Form>,

    /// Who counts tokens of text: a model's name or path [default: the server's /tokenize, else its usage].
    #[arg(long, value_name = "MODEL", help_heading = "Data set")]
    pub(super) tokenizer: Option<String>,

    /// Token ids to draw from [default: 1000..30000].
    #[arg(long, value_name = "LOW..HIGH", value_parser = id_range, help_heading = "Data set")]
    pub(super) token_ids: Option<std::ops::Range<u32>>,

    /// Where random numbers start.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Data set")]
    pub(super) seed: u64,

    /// Requests a second; inf sends all at once.
    #[arg(long, value_name = "RATE", default_value_t = f64::INFINITY, help_heading = "Load")]
    pub(super) request_rate: f64,

    /// How even arrivals are: 1 is a Poisson process, less comes in bursts (gamma distribution's shape).
    #[arg(long, value_name = "SHAPE", default_value_t = 1.0, help_heading = "Load")]
    pub(super) burstiness: f64,

    /// Most requests under way at once; with multi-turn, conversations.
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(super) max_concurrency: Option<usize>,

    /// Requests before the run that are not counted.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Load")]
    pub(super) num_warmups: usize,

    /// Ask for answers of full length [default: true; sharegpt: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Body")]
    pub(super) ignore_eos: Option<bool>,

    /// Sampling parameter; what is not given is left to the server.
    #[arg(long, value_name = "T", help_heading = "Body")]
    pub(super) temperature: Option<f64>,

    /// Sampling parameter.
    #[arg(long, value_name = "P", help_heading = "Body")]
    pub(super) top_p: Option<f64>,

    /// Sampling parameter.
    #[arg(long, value_name = "K", help_heading = "Body", allow_negative_numbers = true)]
    pub(super) top_k: Option<f64>,

    /// Sampling parameter.
    #[arg(long, value_name = "P", help_heading = "Body")]
    pub(super) min_p: Option<f64>,

    /// Sampling parameter.
    #[arg(long, value_name = "F", help_heading = "Body", allow_negative_numbers = true)]
    pub(super) frequency_penalty: Option<f64>,

    /// Sampling parameter.
    #[arg(long, value_name = "F", help_heading = "Body", allow_negative_numbers = true)]
    pub(super) presence_penalty: Option<f64>,

    /// Sampling parameter.
    #[arg(long, value_name = "F", help_heading = "Body")]
    pub(super) repetition_penalty: Option<f64>,

    /// Fields to put over every body.
    #[arg(long, value_name = "JSON", help_heading = "Body")]
    pub(super) extra_body: Option<String>,

    /// Limits of a good request in milliseconds: ttft:500 tpot:50 e2el:9000, one or more.
    #[arg(long, value_name = "NAME:MS", num_args = 1.., help_heading = "Report")]
    pub(super) goodput: Vec<String>,

    /// Latencies to print.
    #[arg(long, value_name = "NAME,…", value_enum, value_delimiter = ',', default_value = "ttft,tpot,itl")]
    #[arg(help_heading = "Report")]
    pub(super) percentile_metrics: Vec<Metric>,

    /// Percentiles to print; the median is printed too.
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_value = "99", help_heading = "Report")]
    pub(super) metric_percentiles: Vec<f64>,

    /// Print histograms of the latencies too.
    #[arg(long, help_heading = "Report")]
    pub(super) histogram: bool,

    /// Write the result with one value a request as JSON; without FILE print it instead of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Report")]
    pub(super) json: Option<PathBuf>,

    /// Write a page with plots.
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(super) html: Option<PathBuf>,

    /// Write the totals as JSON under the name that vLLM would choose.
    #[arg(long, help_heading = "Report")]
    pub(super) save_result: bool,

    /// With --save-result, one value a request too.
    #[arg(long, help_heading = "Report", requires = "save_result")]
    pub(super) save_detailed: bool,

    /// Folder for --save-result.
    #[arg(long, value_name = "DIR", help_heading = "Report", requires = "save_result")]
    pub(super) result_dir: Option<PathBuf>,

    /// Name for --save-result.
    #[arg(long, value_name = "NAME", help_heading = "Report", requires = "save_result")]
    pub(super) result_filename: Option<PathBuf>,

    /// A name for the run.
    #[arg(long, value_name = "TEXT", help_heading = "Report")]
    pub(super) label: Option<String>,
}

/// What `--dataset-name` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dataset {
    /// Random tokens or words.
    Random,
    /// Questions of a ShareGPT-style file.
    Sharegpt,
    /// Random prompts in groups that begin alike.
    #[value(name = "prefix_repetition", alias = "shared-prefix")]
    PrefixRepetition,
    /// Conversations: each turn carries those before it and their answers.
    #[value(name = "multi-turn")]
    MultiTurn,
}

impl Dataset {
    /// vLLM's name of it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Dataset::Random => "random",
            Dataset::Sharegpt => "sharegpt",
            Dataset::PrefixRepetition => "prefix_repetition",
            Dataset::MultiTurn => "multi-turn",
        }
    }
}

/// What `--prompt-as` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Arrays of token ids: exact on every server that takes them.
    Tokens,
    /// Words of one token each.
    Text,
}

/// What the flags say, read before anything is sent.
pub(super) struct Checked {
    pub(super) arrivals: Arrivals,
    pub(super) goal: Option<Goal>,
    pub(super) selection: Selection,
    pub(super) lengths: Lengths,
    pub(super) form: Form,
    pub(super) mix: Mix,
}

impl Checked {
    /// # Errors
    /// A value outside its range, or flags that do not go together.
    pub(super) fn new(args: &Args) -> Result<Checked, Failure> {
        let arrivals = Arrivals::new(args.request_rate, args.burstiness)?;
        let goal = Goal::parse(&args.goodput)?;
        if let Some(bad) = args.metric_percentiles.iter().find(|p| !(0.0..=100.0).contains(*p)) {
            return Err(Failure::usage(format!("--metric-percentiles {bad} is outside 0..=100")));
        }
        if args.max_concurrency == Some(0) {
            return Err(Failure::usage("--max-concurrency 0 sends nothing"));
        }
        let embeds = args.endpoint.embeds();
        if embeds && args.dataset_name != Dataset::Random {
            return Err(Failure::usage("embeddings are asked for of random texts (--dataset-name random)"));
        }
        if !embeds && args.texts != 1 {
            return Err(Failure::usage("--texts is for --endpoint embeddings"));
        }
        let selection = Selection {
            metrics: if embeds {
                Metric::of_embeddings(&args.percentile_metrics)
            } else {
                args.percentile_metrics.clone()
            },
            percentiles: args.metric_percentiles.clone(),
            max_concurrency: args.max_concurrency,
            request_rate: args.request_rate,
        };
        let (lengths, mix) = (lengths(args)?, Mix::new(&args.model)?);
        Ok(Checked { arrivals, goal, selection, lengths, form: form(args)?, mix })
    }
}

fn lengths(args: &Args) -> Result<Lengths, Failure> {
    let within = |flag: &str, value: usize, least: usize, most: usize| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Failure::usage(format!("{flag} {value} is outside {least}..={most}")))
    };
    let output = args.output_len.unwrap_or(128);
    within("--num-prompts", args.num_prompts, 1, MAX_REQUESTS)?;
    within("--turns", args.turns, 1, MAX_REQUESTS / args.num_prompts)?;
    within("--texts", args.texts, 1, MAX_REQUESTS / args.num_prompts)?;
    within("--input-len", args.input_len, 1, MAX_TOKENS)?;
    within("--output-len", output, 1, MAX_TOKENS)?;
    within("--prefix-len", args.prefix_len.unwrap_or(0), 0, MAX_TOKENS)?;
    within("--num-prefixes", args.num_prefixes.unwrap_or(1), 1, MAX_REQUESTS)?;
    if !(0.0..1.0).contains(&args.range_ratio) {
        return Err(Failure::usage(format!("--range-ratio {} is outside 0..1", args.range_ratio)));
    }
    Ok(Lengths { input: args.input_len, output, ratio: args.range_ratio })
}

fn form(args: &Args) -> Result<Form, Failure> {
    let only_text =
        args.endpoint.api == Api::Chat || matches!(args.dataset_name, Dataset::Sharegpt | Dataset::MultiTurn);
    match (args.prompt_as, only_text) {
        (Some(Form::Tokens), true) => Err(Failure::usage(
            "--prompt-as tokens goes with random prompts to completions or embeddings only",
        )),
        (Some(form), _) => Ok(form),
        (None, true) => Ok(Form::Text),
        (None, false) => Ok(Form::Tokens),
    }
}

/// `LOW..HIGH`, the high one left out.
fn id_range(text: &str) -> Result<std::ops::Range<u32>, String> {
    let range = text.split_once("..").and_then(|(low, high)| {
        let range = low.trim().parse().ok()?..high.trim().parse().ok()?;
        (!range.is_empty()).then_some(range)
    });
    range.ok_or_else(|| format!("{text:?} is not LOW..HIGH, as 1000..30000"))
}

impl Args {
    /// Whether answers are to run to their full length: as in vLLM for made-up prompts, whose answers end anywhere.
    pub(super) fn ignores_eos(&self) -> bool {
        self.ignore_eos.unwrap_or(self.dataset_name != Dataset::Sharegpt && !self.endpoint.embeds())
    }

    /// Sampling parameters under their names in a body.
    pub(super) fn sampling(&self) -> [(&'static str, Option<f64>); 7] {
        [
            ("temperature", self.temperature),
            ("top_p", self.top_p),
            ("top_k", self.top_k),
            ("min_p", self.min_p),
            ("frequency_penalty", self.frequency_penalty),
            ("presence_penalty", self.presence_penalty),
            ("repetition_penalty", self.repetition_penalty),
        ]
    }

    /// How many made-up conversations look like, `count` of them.
    pub(super) fn made(&self, count: usize, lengths: Lengths) -> Made {
        let grouped = self.dataset_name == Dataset::PrefixRepetition;
        Made {
            count,
            turns: if self.dataset_name == Dataset::MultiTurn { self.turns } else { self.texts },
            lengths,
            prefix: self.prefix_len.unwrap_or(if grouped { 256 } else { 0 }),
            prefixes: self.num_prefixes.unwrap_or(if grouped { 10 } else { 1 }),
            prefix_is_system: self.dataset_name == Dataset::MultiTurn,
        }
    }
}
