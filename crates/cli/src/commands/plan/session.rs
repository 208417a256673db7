//! The plan of one command: a file, what bench files say, and flags over both.

use std::path::PathBuf;

use planner::cost::HOURS_A_MONTH;
use planner::{Currency, Money, Plan};

use super::bench_files::{self, Bench};
use super::report::Report;
use crate::term;
use crate::{Failure, store};

/// Flags of every `plan` command.
#[derive(clap::Args, Debug)]
pub(super) struct Common {
    /// The plan: a TOML file with any of the inputs. Flags go over it; `-` reads standard input.
    #[arg(long, short = 'i', value_name = "FILE", help_heading = "Plan")]
    input: Option<PathBuf>,

    /// Set any field of the plan, such as own.utilization=0.7; may be given again.
    #[arg(long = "set", value_name = "FIELD=VALUE", help_heading = "Plan")]
    set: Vec<String>,

    /// Print one JSON object.
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Write a report to FILE, one page with plots and the plan in it.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
}

/// The fields of a plan that are asked for most often.
#[derive(clap::Args, Debug, Default)]
pub(super) struct Figures {
    /// What an hour of our machine costs (own.price_per_hour).
    #[arg(long, value_name = "AMOUNT", help_heading = "Plan", allow_hyphen_values = true)]
    price_per_hour: Option<String>,

    /// Tokens that it generates a second, all streams together (own.tokens_per_s).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    tokens_per_s: Option<String>,

    /// Prompt tokens that it computes a second (own.prompt_tokens_per_s).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    prompt_tokens_per_s: Option<String>,

    /// Share of the time in which it has work, up to 1 (own.utilization).
    #[arg(long, value_name = "SHARE", help_heading = "Plan", allow_hyphen_values = true)]
    utilization: Option<String>,

    /// The API to compare with, by its name in the price table (api.model).
    #[arg(long, value_name = "NAME", help_heading = "Plan")]
    api: Option<String>,

    /// Requests a month (work.requests_per_month).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    requests: Option<String>,

    /// Tokens in, of the average request (work.input_tokens).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    input_tokens: Option<String>,

    /// Tokens out (work.output_tokens).
    #[arg(long, value_name = "N", help_heading = "Plan", allow_hyphen_values = true)]
    output_tokens: Option<String>,

    /// Rates measured by `gristmill bench -o json` or `bench serve`, or the /metrics of a server under load; may be given
    /// again.
    #[arg(long, value_name = "FILE", help_heading = "Plan")]
    bench: Vec<PathBuf>,
}

impl Figures {
    fn settings(&self) -> Vec<(String, String)> {
        let fields = [
            ("own.price_per_hour", &self.price_per_hour),
            ("own.tokens_per_s", &self.tokens_per_s),
            ("own.prompt_tokens_per_s", &self.prompt_tokens_per_s),
            ("own.utilization", &self.utilization),
            ("api.model", &self.api),
            ("work.requests_per_month", &self.requests),
            ("work.input_tokens", &self.input_tokens),
            ("work.output_tokens", &self.output_tokens),
        ];
        given(&fields)
    }
}

/// The fields of a plan for which a flag was given, with its value.
pub(super) fn given(fields: &[(&str, &Option<String>)]) -> Vec<(String, String)> {
    fields.iter().filter_map(|(field, value)| Some(((*field).to_owned(), (*value).clone()?))).collect()
}

/// Flags of the commands that ask for nothing else.
#[derive(clap::Args, Debug)]
pub(crate) struct Inputs {
    #[command(flatten)]
    figures: Figures,
    #[command(flatten)]
    common: Common,
}

impl Inputs {
    /// Reads the plan.
    ///
    /// # Errors
    /// As [`Common::open`].
    pub(super) fn open(&self) -> Result<Session<'_>, Failure> {
        self.common.open(Some(&self.figures), Vec::new())
    }
}

/// A plan that was read.
pub(super) struct Session<'a> {
    common: &'a Common,
    pub(super) plan: Plan,
    pub(super) currency: Currency,
    /// What `--bench` files hold.
    pub(super) bench: Vec<Bench>,
    printed: String,
}

impl Common {
    /// Reads the plan, with what `figures` and `more` (fields and values) set.
    ///
    /// # Errors
    /// A file that cannot be read, a field that no plan has.
    pub(super) fn open(
        &self,
        figures: Option<&Figures>,
        more: Vec<(String, String)>,
    ) -> Result<Session<'_>, Failure> {
        let text = self.input.as_deref().map_or(Ok(String::new()), bench_files::read_text)?;
        let mut settings = Vec::new();
        let mut bench = Vec::new();
        for path in figures.map_or(&[][..], |figures| &figures.bench) {
            let file = Bench::read(path)?;
            settings.extend(file.settings());
            bench.push(file);
        }
        settings.extend(figures.map(Figures::settings).unwrap_or_default());
        settings.extend(more);
        for pair in &self.set {
            let Some((field, value)) = pair.split_once('=') else {
                return Err(Failure::usage(format!("--set {pair}: wants FIELD=VALUE")));
            };
            settings.push((field.trim().to_owned(), value.trim().to_owned()));
        }
        let (plan, printed) = Plan::read(&text, &settings)?;
        let currency = plan.currency()?;
        Ok(Session { common: self, plan, currency, bench, printed })
    }
}

impl Session<'_> {
    /// What the own machine costs a month; none if the plan does not say.
    ///
    /// # Errors
    /// A price that cannot be used.
    pub(super) fn month_of_own(&self) -> Result<Option<Money>, Failure> {
        let own = &self.plan.own;
        if own.price_per_hour.is_none() && own.price_per_month.is_none() && own.machine.is_none() {
            return Ok(None);
        }
        Ok(Some(self.plan.own_price()?.times(HOURS_A_MONTH)))
    }

    /// Prints the report, as tables or as JSON with `answer`, and writes its page if one is wanted.
    ///
    /// # Errors
    /// A page that cannot be written.
    pub(super) fn finish(&self, report: &Report, answer: &impl serde::Serialize) -> Result<(), Failure> {
        if let Some(path) = &self.common.html {
            let page = super::html::page(report, self.currency, &self.printed, &term::command_line());
            weights::fetch::write_whole(path, page.as_bytes())?;
        }
        if self.common.json {
            return term::json(&serde_json::json!({
                "command": report.command,
                "currency": self.currency.name(),
                "answer": answer,
                "plan": self.printed,
            }));
        }
        report.print();
        if let Some(path) = &self.common.html {
            let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
            term::err!("{}: {} with plots and the plan", path.display(), store::size(bytes));
        }
        Ok(())
    }
}
