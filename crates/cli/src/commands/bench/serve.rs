//! `gristmill bench serve`: a load for any server with the OpenAI API, by the definitions of `vllm bench serve`.
//! `docs/bench-serve.md` is its manual.
//!
//! What is drawn (arrivals, prompts), what is computed (statistics, metrics) and what is shown (table, JSON, page) is
//! apart from what waits (client, drive, counter), so that the figures' definitions are tested without a server.

mod args;
mod arrivals;
mod body;
mod client;
mod counter;
mod dataset;
mod drive;
mod events;
mod html;
mod metrics;
mod mix;
mod plot;
mod report;
mod statistics;
mod table;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use text::Tokenizer;

use crate::calendar::stamp;
use crate::http::{Client, Reach};
use crate::term::{self, err, number, out};
use crate::{Failure, commands};
pub(crate) use args::Args;
use args::{Checked, Dataset, Form, ID_RANGE};
use body::Style;
use counter::Counter;
use dataset::{Conversation, Prompt, Source, Turn};
use drive::Load;
use metrics::{Figures, Metrics, Outcome};
use report::{Metric, Setting};

/// Failures that are printed.
const ERRORS_SHOWN: usize = 10;
/// Between two looks whether the server answers.
const READY_EVERY: Duration = Duration::from_millis(250);
/// Warm-up prompts are others than the run's: a cache must not know them.
const WARMUP_STREAM: u64 = 1;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let checked = Checked::new(args)?;
    // One thread: what it does between two chunks is little, and the rest of the machine may be the server's.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the HTTP thread: {error}")))?;
    let run = runtime.block_on(measure(args, &checked))?;
    let models = run.setting.models.len();
    let figures = Figures::of(&run.outcomes, run.duration, checked.goal.as_ref(), models);
    tell(args, &checked, &run, &figures)?;
    if figures.total.completed == 0 {
        let why = run.outcomes.iter().find_map(|o| o.error.clone()).unwrap_or_default();
        let count = run.outcomes.len();
        return Err(Failure::new(format!(
            "none of {} succeeded; the first: {why}",
            number(count, "request")
        )));
    }
    Ok(())
}

/// What was run, what became of each request, and the seconds it took.
struct Run {
    setting: Setting,
    outcomes: Vec<Outcome>,
    duration: f64,
}

async fn measure(args: &Args, checked: &Checked) -> Result<Run, Failure> {
    let client = Arc::new(Client::new(&Reach {
        base_url: &args.base_url,
        api_key: args.api_key.as_deref(),
        headers: &args.header,
        ca_file: args.ca_file.as_deref(),
        timeout: Duration::from_secs(args.timeout),
    })?);
    let ready_by = Instant::now() + Duration::from_secs(args.ready_timeout);
    let models = models(args, &client, ready_by).await?;
    let extra = body::extra(&args.sampling(), args.ignores_eos(), args.extra_body.as_deref())?;
    let style = |model: &String| {
        Arc::new(Style { endpoint: args.endpoint.clone(), model: model.clone(), extra: extra.clone() })
    };
    let styles: Vec<Arc<Style>> = models.iter().map(style).collect();
    for style in &styles {
        ready(&client, style, ready_by).await?;
    }
    // Whatever model it is for, a prompt is made of what is a token to the first.
    let style = &styles[0];
    let local = args.tokenizer.as_deref().map(tokenizer).transpose()?;
    let counter = match local {
        // Ids are counted by themselves.
        None if checked.form == Form::Tokens => Counter::Usage(&client, style),
        local => Counter::find(local, &client, style).await,
    };
    let prompts = Prompts::new(args, checked, &counter).await?;
    let mut warmups = prompts.make(args.num_warmups, WARMUP_STREAM).await?;
    let mut conversations = prompts.make(args.num_prompts, 0).await?;
    let setting = setting(args, models, conversations.len());
    if !warmups.is_empty() {
        // Whatever their weights, each model is to be loaded.
        let in_turn: Vec<usize> = (0..warmups.len()).map(|index| index % styles.len()).collect();
        assign(&mut warmups, &in_turn);
        warm_up(&client, &styles, warmups, args.max_concurrency).await?;
    }
    let requests: usize = conversations.iter().map(|c| c.turns.len()).sum();
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
    rng.set_stream(u64::MAX);
    let times = checked.arrivals.times(conversations.len(), &mut rng);
    let drawn = checked.mix.draw(conversations.len(), &mut rng);
    assign(&mut conversations, &drawn);
    let max_concurrency = args.max_concurrency;
    let load = Load { client: client.clone(), styles: styles.clone(), conversations, times, max_concurrency };
    let bar = bar(requests);
    let (mut outcomes, duration) = load.run(&bar).await?;
    bar.finish_and_clear();
    recount(&counter, &mut outcomes).await?;
    Ok(Run { setting, outcomes, duration })
}

fn assign(conversations: &mut [Conversation], models: &[usize]) {
    for (conversation, model) in conversations.iter_mut().zip(models) {
        conversation.model = *model;
    }
}

/// The models to ask for: one at least.
async fn models(args: &Args, client: &Client, ready_by: Instant) -> Result<Vec<String>, Failure> {
    if !args.model.is_empty() {
        return Ok(args.model.iter().map(|one| one.model.clone()).collect());
    }
    loop {
        match client.json("/v1/models", None).await {
            Ok(list) => {
                let first = list["data"][0]["id"].as_str().map(str::to_owned);
                return first.map(|model| vec![model]).ok_or_else(|| {
                    Failure::new(format!("{}/v1/models lists no model; name one with --model", args.base_url))
                });
            }
            Err(error) if Instant::now() >= ready_by => {
                return Err(Failure::new(format!("cannot find out the model: {error}")));
            }
            Err(_) => tokio::time::sleep(READY_EVERY).await,
        }
    }
}

/// Waits until the server answers, if it is to be waited for.
async fn ready(client: &Client, style: &Style, by: Instant) -> Result<(), Failure> {
    let probe = style.probe("Hello");
    while Instant::now() < by {
        match client.json(&style.endpoint.path, Some(&probe)).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() + READY_EVERY >= by => {
                return Err(Failure::new(format!("the server is not ready: {error}")));
            }
            Err(_) => tokio::time::sleep(READY_EVERY).await,
        }
    }
    Ok(())
}

fn tokenizer(model: &str) -> Result<Tokenizer, Failure> {
    Ok(Tokenizer::open_path(&commands::tokenize::locate(model)?)?)
}

/// Where prompts come from.
struct Prompts<'a> {
    args: &'a Args,
    checked: &'a Checked,
    counter: &'a Counter<'a>,
    /// None for a file's.
    source: Option<Source>,
}

impl<'a> Prompts<'a> {
    async fn new(
        args: &'a Args,
        checked: &'a Checked,
        counter: &'a Counter<'a>,
    ) -> Result<Prompts<'a>, Failure> {
        let source = match (args.dataset_name, checked.form) {
            (Dataset::Sharegpt, _) => None,
            (_, Form::Tokens) => Some(Source::Ids(args.token_ids.clone().unwrap_or(ID_RANGE))),
            (_, Form::Text) => {
                err!("prompts of words, one token each by {}", counter.name());
                Some(Source::Words(counter.words().await?))
            }
        };
        Ok(Prompts { args, checked, counter, source })
    }

    /// `count` conversations; another `stream` gives others.
    async fn make(&self, count: usize, stream: u64) -> Result<Vec<Conversation>, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.args.seed);
        rng.set_stream(stream);
        match &self.source {
            Some(source) => Ok(self.args.made(count, self.checked.lengths).make(source, &mut rng)),
            None if count == 0 => Ok(Vec::new()),
            None => self.read(count, &mut rng).await,
        }
    }

    /// Questions of the file that keep vLLM's rule, from the beginning again if there are too few.
    async fn read(&self, count: usize, rng: &mut ChaCha8Rng) -> Result<Vec<Conversation>, Failure> {
        let Some(path) = &self.args.dataset_path else {
            return Err(Failure::usage("--dataset-name sharegpt needs a --dataset-path"));
        };
        let mut all = Vec::new();
        for (question, answer) in dataset::sharegpt(path, rng)? {
            let input_tokens = self.counter.count_or_guess(&question).await?;
            let output_tokens = match self.args.output_len {
                Some(tokens) => tokens,
                None => self.counter.count_or_guess(&answer).await?,
            };
            if dataset::is_asked(input_tokens, output_tokens, self.args.output_len.is_some()) {
                let turns = vec![Turn { prompt: Prompt::Text(question), input_tokens, output_tokens }];
                all.push(Conversation { turns, ..Conversation::default() });
            }
            if all.len() == count {
                return Ok(all);
            }
        }
        if all.is_empty() {
            return Err(Failure::new(format!("{} has no question of 4 to 1,024 tokens", path.display())));
        }
        err!("note: {} has {} questions of the right size; they are asked again", path.display(), all.len());
        Ok(all.iter().cycle().take(count).cloned().collect())
    }
}

async fn warm_up(
    client: &Arc<Client>,
    styles: &[Arc<Style>],
    conversations: Vec<Conversation>,
    max_concurrency: Option<usize>,
) -> Result<(), Failure> {
    let bar = bar(conversations.iter().map(|c| c.turns.len()).sum());
    let times = vec![0.0; conversations.len()];
    let (client, styles) = (client.clone(), styles.to_vec());
    let (outcomes, _) = Load { client, styles, conversations, times, max_concurrency }.run(&bar).await?;
    bar.finish_and_clear();
    match outcomes.into_iter().find_map(|o| o.error) {
        Some(error) => Err(Failure::new(format!("a request to warm up failed: {error}"))),
        None => Ok(()),
    }
}

/// Where the server gave no usage and a tokenizer is here, it counts answers.
async fn recount(counter: &Counter<'_>, outcomes: &mut [Outcome]) -> Result<(), Failure> {
    if !matches!(counter, Counter::Local(_)) {
        return Ok(());
    }
    for outcome in outcomes.iter_mut().filter(|o| o.counted_by_chunks && o.error.is_none()) {
        outcome.output_tokens = counter.count_or_guess(&outcome.text).await?;
        outcome.counted_by_chunks = false;
    }
    Ok(())
}

fn setting(args: &Args, models: Vec<String>, num_prompts: usize) -> Setting {
    Setting {
        date: stamp(SystemTime::now()),
        label: args.label.clone(),
        backend: args.endpoint.backend(),
        models,
        tokenizer: args.tokenizer.clone(),
        base_url: args.base_url.clone(),
        dataset: args.dataset_name.name(),
        num_prompts,
        seed: args.seed,
        burstiness: args.burstiness,
    }
}

fn bar(requests: usize) -> ProgressBar {
    let bar = ProgressBar::new(requests as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} requests, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Prints the result and writes what is to be written.
fn tell(args: &Args, checked: &Checked, run: &Run, figures: &Figures) -> Result<(), Failure> {
    let Run { setting, outcomes, .. } = run;
    let metrics = &figures.total;
    let json = |detailed| report::json(setting, &checked.selection, figures, outcomes, detailed);
    let only_json = args.json.as_deref() == Some(Path::new("-"));
    if only_json {
        term::json(&json(true))?;
    } else {
        out!("{}", table::table(figures, &setting.models, &checked.selection));
    }
    if args.histogram && !only_json {
        for metric in [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el] {
            let title = format!("{} (ms)", metric.label());
            out!("{}", table::histogram(&title, &metric.of(metrics).sorted_ms));
        }
    }
    notes(metrics, outcomes);
    if let Some(file) = args.json.as_ref().filter(|_| !only_json) {
        write(file, &json(true).to_string())?;
    }
    if args.save_result {
        write(&result_file(args, setting), &json(args.save_detailed).to_string())?;
    }
    if let Some(file) = &args.html {
        write(file, &html::page(setting, &checked.selection, figures, outcomes))?;
    }
    Ok(())
}

/// What a reader of the figures should know, on standard error.
fn notes(metrics: &Metrics, outcomes: &[Outcome]) {
    for error in outcomes.iter().filter_map(|o| o.error.as_ref()).take(ERRORS_SHOWN) {
        err!("failed: {error}");
    }
    let done = || outcomes.iter().filter(|o| o.error.is_none());
    let more = done().map(|o| o.prompt_tokens as i64 - o.asked_tokens as i64);
    let (least, most) = (more.clone().min().unwrap_or(0), more.max().unwrap_or(0));
    // A request for vectors has special tokens for each of its texts.
    if (least, most) != (0, 0) && metrics.texts == 0 {
        err!(
            "note: the server counts {least:+} to {most:+} tokens beside those of the prompts (template, first token)"
        );
    }
    let guessed = done().filter(|o| o.counted_by_chunks).count();
    if guessed > 0 {
        err!("note: {} came without usage; their chunks are counted as tokens", number(guessed, "answer"));
    }
    let (first, text) = (metrics.ttft.sorted_ms.median(), metrics.first_text.sorted_ms.median());
    if text > first * 1.1 + 1.0 {
        err!(
            "note: first chunks were empty; the first with text came after {text:.2} ms (median), not {first:.2}"
        );
    }
}

/// The file that vLLM would write.
fn result_file(args: &Args, setting: &Setting) -> PathBuf {
    let name = args.result_filename.clone().unwrap_or_else(|| {
        let most = args.max_concurrency.map_or_else(String::new, |most| format!("-concurrency{most}"));
        let label = setting.label.as_deref().unwrap_or(setting.backend);
        let models: Vec<&str> = setting.models.iter().filter_map(|model| model.rsplit('/').next()).collect();
        let model = models.join("+");
        let name = format!("{label}-{}qps{most}-{model}-{}.json", args.request_rate, setting.date);
        // A model's name is the server's word and stays in the folder.
        PathBuf::from(name.replace(['/', '\\'], "_"))
    });
    args.result_dir.as_ref().map_or(name.clone(), |dir| dir.join(name))
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    if let Some(dir) = file.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir)
            .map_err(|error| Failure::new(format!("cannot make the folder {}: {error}", dir.display())))?;
    }
    weights::fetch::write_whole(file, text.as_bytes())?;
    err!("wrote {}", file.display());
    Ok(())
}
