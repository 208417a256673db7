//! What follows from the options and the beginning of the input, before anything is run.

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::fault::{listed, shortened};
use crate::input::row::{Reading, header};
use crate::input::source::Source;
use crate::input::split::{Rule, Splitter};
use crate::journal::header::Header;
use crate::options::{Format, Input, Options};
use crate::output::whole::with_ending;
use crate::request::{Form, Recipe};
use crate::template::Template;
use serde_json::Value;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The version of the journal and of how requests are made. Journals of others are not continued.
const VERSION: &str = "1";

/// Where the files of a run are.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// The output, unless it is a stream.
    pub(crate) output: Option<PathBuf>,
    pub(crate) errors: PathBuf,
    pub(crate) manifest: PathBuf,
    pub(crate) journal: PathBuf,
    /// The copy of an input that is a stream or is unpacked.
    pub(crate) spool: PathBuf,
}

impl Files {
    pub(crate) fn new(options: &Options) -> Result<Files, Error> {
        let beside = options.beside.as_ref().or(options.output.as_ref());
        let missing = "an output that is a stream needs the name of a file beside which its journal is kept";
        let beside = beside.ok_or_else(|| Error::Usage(missing.to_owned()))?;
        Ok(Files {
            output: options.output.clone(),
            errors: with_ending(beside, ".errors.jsonl"),
            manifest: with_ending(beside, ".manifest.json"),
            journal: with_ending(beside, ".gristmill"),
            spool: with_ending(beside, ".gristmill.input"),
        })
    }
}

/// The format of the input.
pub(crate) fn input_format(options: &Options) -> Format {
    options.input_format.unwrap_or_else(|| match &options.input {
        Input::File(path) => Format::of_name(path),
        Input::Stream => Format::Jsonl,
    })
}

/// The format of the output.
pub(crate) fn output_format(options: &Options) -> Format {
    options.output_format.unwrap_or_else(|| options.output.as_deref().map_or(Format::Jsonl, Format::of_name))
}

/// How the input is read and becomes requests.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) source: Source,
    pub(crate) reading: Reading,
    pub(crate) recipe: Recipe,
}

impl Setup {
    /// Looks at the beginning of the file `path`, whose records are of `format`.
    pub(crate) fn new(options: &Options, path: &Path, format: Format) -> Result<Setup, Error> {
        check(options)?;
        let delimiter = match format {
            Format::Csv => Some(b','),
            Format::Tsv => Some(b'\t'),
            Format::Jsonl | Format::Parquet => None,
        };
        let source = Source {
            path: path.to_owned(),
            rule: delimiter.map_or(Rule::Lines, |delimiter| Rule::Quoted { delimiter }),
            limit: options.max_line_bytes,
            has_header: delimiter.is_some(),
        };
        let reading = match delimiter {
            Some(delimiter) => Reading::Delimited { delimiter, columns: columns(&source, delimiter)? },
            None => Reading::Json,
        };
        let recipe = recipe(options, &source, &reading)?;
        Ok(Setup { source, reading, recipe })
    }

    /// What tells this run from others, with the hash of its input.
    pub(crate) fn header(&self, options: &Options, input_sha256: &str) -> Header {
        let mut header = Header::default();
        header.set("version", Some(VERSION.to_owned()));
        header.set("input", Some(format!("sha256:{input_sha256}")));
        header.set("form", Some(self.recipe.form.name().to_owned()));
        header.set("identity", Some(options.identity.clone()).filter(|identity| !identity.is_empty()));
        header.set("endpoint", options.endpoint.map(|endpoint| endpoint.path().to_owned()));
        header.set("model", options.model.clone());
        header.set("template", options.template.clone());
        header.set("prompt column", options.prompt_column.clone());
        header.set("system", options.system.clone());
        let params = Some(&options.params).filter(|params| !params.is_empty());
        header.set("params", params.map(|params| Value::Object(params.clone()).to_string()));
        // Kept columns are no fields of a body, so they decide what is asked.
        let kept = Some(&self.recipe.keep).filter(|_| self.recipe.form == Form::Body);
        header.set("kept columns", kept.map(|names| names.join(",")).filter(|names| !names.is_empty()));
        header.set("longest line", Some(options.max_line_bytes.to_string()));
        header
    }
}

/// Checks what can be checked without the input.
fn check(options: &Options) -> Result<(), Error> {
    let usage = |message: &str| Err(Error::Usage(message.to_owned()));
    if options.template.is_some() && options.prompt_column.is_some() {
        return usage("a template and a prompt column exclude each other");
    }
    if options.concurrency == 0
        || options.attempts == 0
        || options.window_lines == 0
        || options.max_line_bytes == 0
    {
        return usage("concurrency, attempts, lines of a window and the longest line are at least 1");
    }
    if options.max_cost.is_some() && options.prices.is_none() {
        return usage("the most that may be spent needs prices");
    }
    if let (Input::File(input), Some(output)) = (&options.input, &options.output) {
        let same = |path: &Path| std::fs::canonicalize(path).ok();
        if same(input).is_some_and(|input| same(output) == Some(input)) {
            return usage("the output is the input");
        }
    }
    Ok(())
}

fn recipe(options: &Options, source: &Source, reading: &Reading) -> Result<Recipe, Error> {
    let template = match (&options.template, &options.prompt_column) {
        (Some(text), _) => Some(Template::parse(text).map_err(Error::Usage)?),
        (None, Some(column)) => Some(Template::column(column)),
        (None, None) => None,
    };
    let form = match (&template, reading) {
        (Some(_), _) => Form::Template,
        (None, Reading::Json) => form_of(source)?,
        (None, Reading::Delimited { columns, .. }) => {
            let columns = listed(columns.iter().map(String::as_str));
            return Err(Error::Usage(format!(
                "rows need a template or a prompt column; the columns are: {columns}"
            )));
        }
    };
    let endpoint = options.endpoint.filter(|_| form == Form::Template);
    if let Some(endpoint @ (Endpoint::Rerank | Endpoint::Score)) = endpoint {
        let path = endpoint.path();
        return Err(Error::Usage(format!(
            "{path} asks with several texts: give rows that are bodies, and no template"
        )));
    }
    if options.system.is_some() && form != Form::Template {
        return Err(Error::Usage("a system message goes with a template or a prompt column".to_owned()));
    }
    let recipe = Recipe {
        form,
        endpoint: options.endpoint,
        model: options.model.clone(),
        template: template.unwrap_or_else(|| Template::column("")),
        system: options.system.clone(),
        params: options.params.clone(),
        keep: options.keep.clone().unwrap_or_default(),
    };
    check_columns(&recipe, reading)?;
    Ok(recipe)
}

/// Checks that the columns which are named exist, where a header tells all of them.
fn check_columns(recipe: &Recipe, reading: &Reading) -> Result<(), Error> {
    let Reading::Delimited { columns, .. } = reading else { return Ok(()) };
    let named = recipe.template.columns().chain(recipe.keep.iter().map(String::as_str));
    for name in named {
        if !columns.iter().any(|column| column == name) {
            let (name, has) = (shortened(name), listed(columns.iter().map(String::as_str)));
            return Err(Error::Usage(format!("there is no column {name:?}; the input has: {has}")));
        }
    }
    Ok(())
}

/// The columns of a header.
fn columns(source: &Source, delimiter: u8) -> Result<Vec<String>, Error> {
    let path = source.path.display();
    let Some(first) = beginning(source)?.next().map_err(source.unreadable())? else {
        return Err(Error::Usage(format!("{path} is empty: it has no header")));
    };
    let bytes = first
        .bytes
        .ok_or_else(|| Error::Usage(format!("{path}: the header is longer than a line may be")))?;
    header(&bytes, delimiter).map_err(|why| Error::Usage(format!("{path}: {why}")))
}

/// The form of lines without a template, by the first one that can be read.
fn form_of(source: &Source) -> Result<Form, Error> {
    const LOOKED_AT: usize = 100;
    let mut records = beginning(source)?;
    for _ in 0..LOOKED_AT {
        let Some(piece) = records.next().map_err(source.unreadable())? else { break };
        let row = piece.bytes.and_then(|bytes| Reading::Json.row(&bytes).ok());
        if let Some(row) = row {
            let is_line =
                row.contains_key("body") && (row.contains_key("url") || row.contains_key("custom_id"));
            return Ok(if is_line { Form::OpenAi } else { Form::Body });
        }
    }
    Ok(Form::OpenAi)
}

fn beginning(source: &Source) -> Result<Splitter<BufReader<File>>, Error> {
    let file = File::open(&source.path).map_err(Error::io("open", &source.path))?;
    Ok(Splitter::new(BufReader::new(file), source.rule, source.limit))
}
