//! `POST /generate`, `/generate_stream` and `/`: text-generation-inference's API, and `/generate` with `prompt`, the short form
//! that many guides show.

use serde::Serialize;
use serde_json::{Value, json};

use crate::chat::Stream;
use crate::completion::{CompletionRequest, Prompt};
use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::guided::{self, Guided};
use crate::numbers::{self, Exact};
use crate::request_fields::{self, Route};
use crate::{Handling, Ids, Sampling, Truncate, limits};

/// Tokens of an answer when the request does not say: that server's default.
pub const DEFAULT_MAX_TOKENS: usize = 1_024;

/// Either form of `/generate`.
#[derive(Debug, Clone, PartialEq)]
pub enum Generate {
    /// `inputs` and `parameters`.
    Inputs(Box<TgiRequest>),
    /// `prompt`, with the fields of `/v1/completions`.
    Prompt(Box<CompletionRequest>),
}

/// A request with `inputs`, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct TgiRequest {
    /// What is continued, and how. Of `best_of` answers the likeliest is sent.
    pub completion: CompletionRequest,
    /// Whether the text begins with the prompt.
    pub full_text: bool,
    /// Whether the answer says how it came about.
    pub details: bool,
    /// Whether it also says so of the prompt's tokens.
    pub prefill: bool,
    /// Alternatives that are told for each token.
    pub alternatives: usize,
}

impl Generate {
    /// Reads a body. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// When a field has a wrong value or asks for what is not built here.
    pub fn parse(body: &[u8]) -> Result<Generate, Fault> {
        let value = crate::json::read(body)?;
        let exact = numbers::exact(body);
        let fields = Fields::body(&value)?;
        match (fields.get("inputs").is_some(), fields.get("prompt").is_some()) {
            (true, true) => Err(Fault::field("prompt", "inputs and prompt are given; give one of them")),
            (true, false) => Ok(Generate::Inputs(Box::new(TgiRequest::read(&fields, &exact)?))),
            (false, true) => Ok(Generate::Prompt(Box::new(CompletionRequest::read_exact(&value, &exact)?))),
            (false, false) => Err(Fault::missing("inputs")),
        }
    }
}

impl TgiRequest {
    fn read(body: &Fields<'_>, exact: &[Exact]) -> Result<TgiRequest, Fault> {
        let mut warnings = request_fields::check(body, Route::Generate)?;
        let text = body.text("inputs", usize::MAX)?.unwrap_or_default();
        if text.is_empty() {
            return Err(Fault::field("inputs", "inputs is empty; it must have a character"));
        }
        let stream = Stream { on: body.boolean("stream")?.unwrap_or(false), usage: false };
        let none = json!({});
        let parameters = Fields::at(body.get("parameters").unwrap_or(&none), "parameters".into())?;
        warnings.extend(request_fields::check(&parameters, Route::Parameters)?);
        let details = parameters.boolean("details")?.unwrap_or(false);
        let prefill = parameters.boolean("decoder_input_details")?.unwrap_or(false);
        let alternatives = parameters.count("top_n_tokens", 0..=limits::LOGPROBS)?.unwrap_or(0);
        let most = parameters.count("max_new_tokens", 1..=limits::TOKENS)?.unwrap_or(DEFAULT_MAX_TOKENS);
        let request = TgiRequest {
            completion: CompletionRequest {
                model: body.text("model", usize::MAX)?.map(str::to_owned),
                prompts: vec![Prompt::Text(text.to_owned())],
                add_special_tokens: true,
                max_tokens: Some(most),
                n: 1,
                best_of: parameters.count("best_of", 1..=limits::N)?.unwrap_or(1),
                echo: false,
                sampling: sampling(&parameters)?,
                handling: Handling::read(&parameters)?,
                ids: Ids { truncate: truncate(&parameters)?, ..Ids::default() },
                // Each token is told with its own, in streams always.
                logprobs: (details || stream.on || alternatives > 0).then_some(alternatives),
                prompt_logprobs: prefill.then_some(0),
                guided: grammar(&parameters, exact)?,
                stream,
                warnings,
            },
            full_text: parameters.boolean("return_full_text")?.unwrap_or(false),
            details,
            prefill,
            alternatives,
        };
        request.completion.check()?;
        Ok(request)
    }

    /// Says that the answer is streamed, whatever the body says.
    ///
    /// # Errors
    /// When something is asked for that a stream has no place for.
    pub fn streamed(mut self) -> Result<TgiRequest, Fault> {
        self.completion.stream.on = true;
        self.completion.logprobs = Some(self.alternatives);
        self.check_stream()?;
        Ok(self)
    }

    /// Whether a stream has a place for what is asked for.
    ///
    /// # Errors
    /// When it has not.
    pub fn check_stream(&self) -> Result<(), Fault> {
        if !self.completion.stream.on {
            return Ok(());
        }
        if self.prefill {
            let name = "parameters.decoder_input_details";
            return Err(Fault::field(name, format!("{name} is true; an answer with it is not streamed")));
        }
        let best_of = self.completion.best_of;
        if best_of > 1 {
            let name = "parameters.best_of";
            return Err(Fault::field(
                name,
                format!("{name} is {best_of}; it must be 1 for a streamed answer"),
            ));
        }
        Ok(())
    }
}

/// That server's defaults: greedy unless something about sampling is said, and then no filter that was not asked for. The
/// stop string that is met is part of the text.
fn sampling(parameters: &Fields<'_>) -> Result<Sampling, Fault> {
    let mut sampling = Sampling::read(parameters)?;
    let asked = [&sampling.temperature, &sampling.top_p, &sampling.typical_p].iter().any(|p| p.is_some());
    let samples = parameters.boolean("do_sample")?.unwrap_or(false) || asked || sampling.top_k.is_some();
    sampling.temperature.get_or_insert(if samples { 1.0 } else { 0.0 });
    sampling.top_k.get_or_insert(0);
    sampling.top_p.get_or_insert(1.0);
    sampling.min_p.get_or_insert(0.0);
    sampling.include_stop = parameters.boolean("include_stop_str_in_output")?.unwrap_or(true);
    Ok(sampling)
}

fn truncate(parameters: &Fields<'_>) -> Result<Option<Truncate>, Fault> {
    Ok(parameters.count("truncate", 1..=limits::TOKENS)?.map(Truncate::Last))
}

/// `{"type": "json" | "json_schema" | "regex", "value": …}`.
fn grammar(parameters: &Fields<'_>, exact: &[Exact]) -> Result<Option<Guided>, Fault> {
    let name = "grammar";
    let Some(value) = parameters.get(name) else { return Ok(None) };
    let grammar = Fields::at(value, parameters.param(name))?;
    let at = grammar.param("type");
    let form = match grammar.text("type", limits::NAME_BYTES)? {
        Some("json") => guided::schema(&grammar, "value")?,
        Some("json_schema") => {
            let inner = grammar.get("value").ok_or_else(|| Fault::missing(grammar.param("value")))?;
            guided::schema(&Fields::at(inner, grammar.param("value"))?, "schema")?
        }
        Some("regex") => {
            grammar.text("value", limits::REGEX_BYTES)?.map(|regex| guided::Form::Regex(regex.to_owned()))
        }
        other => {
            let message = format!("{at} is {}; it must be json, json_schema or regex", fields::said(other));
            return Err(Fault::field(at, message));
        }
    };
    let field = grammar.param("value");
    match form {
        Some(guided::Form::Schema(mut schema)) => {
            let at = if grammar.get("type").is_some_and(|kind| kind == "json") { "" } else { "/schema" };
            let pointer = format!("/{}{at}", field.replace('.', "/"));
            schema.exact.extend(guided::numbers_within(exact, &pointer));
            Ok(Some(Guided { field, form: guided::Form::Schema(schema), space: guided::Space::default() }))
        }
        Some(form) => Ok(Some(Guided { field, form, space: guided::Space::default() })),
        None => Err(Fault::missing(field)),
    }
}

/// A fault in that server's shape, and the status that it has there.
pub fn fault(fault: &Fault) -> (u16, Value) {
    let (status, kind) = match fault.status {
        400 => (422, "validation"),
        429 => (429, "overloaded"),
        503 => (503, "overloaded"),
        status @ 500.. => (status, "generation"),
        status => (status, "validation"),
    };
    let body = json!({
        "error": fault.message,
        "error_type": kind,
        "param": fault.param,
        "code": fault.code,
    });
    (status, body)
}

/// Why an answer ended, in that server's words.
pub fn finish_reason(reason: &str, stop: bool) -> &'static str {
    match reason {
        "length" => "length",
        _ if stop => "stop_sequence",
        _ => "eos_token",
    }
}

/// A token of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its text. In a stream, the text that it made certain: the texts of all tokens are the answer's.
    pub text: String,
    /// ln p.
    pub logprob: f32,
    /// Whether it is a control token, which has no part in the text.
    pub special: bool,
}

/// A token of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prefill {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// ln p; null for the first.
    pub logprob: Option<f32>,
}

/// How an answer came about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Details {
    /// `length`, `eos_token` or `stop_sequence`.
    pub finish_reason: &'static str,
    /// Tokens of the answer.
    pub generated_tokens: usize,
    /// The request's seed.
    pub seed: Option<u64>,
    /// The prompt's tokens, if asked for.
    pub prefill: Vec<Prefill>,
    /// The answer's tokens.
    pub tokens: Vec<Token>,
    /// The likeliest tokens at each place, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_tokens: Vec<Vec<Token>>,
    /// The answers that were not the likeliest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub best_of_sequences: Vec<BestOf>,
}

/// One of the answers that were not the likeliest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestOf {
    /// Its text.
    pub generated_text: String,
    /// How it came about.
    #[serde(flatten)]
    pub details: Box<Details>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The text.
    pub generated_text: String,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// The end of a streamed answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamDetails {
    /// `length`, `eos_token` or `stop_sequence`.
    pub finish_reason: &'static str,
    /// Tokens of the answer.
    pub generated_tokens: usize,
    /// Tokens of the prompt.
    pub input_length: usize,
    /// The request's seed.
    pub seed: Option<u64>,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Piece {
    /// From 1.
    pub index: usize,
    /// What came.
    pub token: Token,
    /// The likeliest tokens there, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_tokens: Vec<Token>,
    /// The whole text, in the last event.
    pub generated_text: Option<String>,
    /// In the last event, if asked for.
    pub details: Option<StreamDetails>,
}

/// An answer to `/generate` with `prompt`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Short {
    /// The text; a list of texts where there are several answers. In a stream, what is new.
    pub text: Value,
    /// `stop` or `length`; null while a stream goes on. A list where there are several answers.
    pub finish_reason: Value,
    /// Which answer, in a stream of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Token counts; at the end of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<crate::Usage>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(body: Value) -> Result<TgiRequest, Fault> {
        match Generate::parse(body.to_string().as_bytes())? {
            Generate::Inputs(request) => Ok(*request),
            Generate::Prompt(_) => panic!("{body} has no inputs"),
        }
    }

    #[test]
    fn fault_12_requests_of_tgi_are_read() {
        let greedy = inputs(json!({"inputs": "a"})).unwrap();
        assert_eq!(greedy.completion.max_tokens, Some(DEFAULT_MAX_TOKENS));
        assert_eq!((greedy.completion.sampling.temperature, greedy.completion.logprobs), (Some(0.0), None));
        let sampled = json!({"inputs": "a", "parameters": {"do_sample": true, "max_new_tokens": 5, "details": true,
            "stop": ["x"], "truncate": 3, "top_n_tokens": 2, "best_of": 2, "seed": 7}});
        let sampled = inputs(sampled).unwrap();
        let sampling = &sampled.completion.sampling;
        assert_eq!((sampling.temperature, sampling.top_k, sampling.top_p), (Some(1.0), Some(0), Some(1.0)));
        assert_eq!((sampled.completion.logprobs, sampled.completion.best_of), (Some(2), 2));
        assert!(sampling.include_stop && sampled.clone().streamed().is_err());
        let form = json!({"inputs": "a", "parameters": {"grammar": {"type": "regex", "value": "a+"}}});
        assert_eq!(inputs(form).unwrap().completion.guided.unwrap().form, guided::Form::Regex("a+".into()));
        for (body, param) in [
            (json!({"inputs": 5}), "inputs"),
            (json!({"inputs": ""}), "inputs"),
            (json!({}), "inputs"),
            (json!({"inputs": "a", "prompt": "b"}), "prompt"),
            (json!({"inputs": "a", "parameters": 5}), "parameters"),
            (json!({"inputs": "a", "parameters": {"watermark": true}}), "parameters.watermark"),
            (json!({"inputs": "a", "parameters": {"max_new_tokens": 0}}), "parameters.max_new_tokens"),
            (json!({"inputs": "a", "parameters": {"stop": [5]}}), "parameters.stop[0]"),
            (json!({"inputs": "a", "parameters": {"adapter_id": "x"}}), "parameters.adapter_id"),
            (
                json!({"inputs": "a", "parameters": {"grammar": {"type": "bnf", "value": ""}}}),
                "parameters.grammar.type",
            ),
            (json!({"inputs": "a", "parameters": {"grammar": {"type": "json"}}}), "parameters.grammar.value"),
        ] {
            let fault = Generate::parse(body.to_string().as_bytes()).unwrap_err();
            assert_eq!(fault.param.as_deref(), Some(param), "{body}: {fault}");
        }
    }

    #[test]
    fn the_short_form_is_a_completion() {
        let body = json!({"prompt": "a", "max_tokens": 4});
        let Ok(Generate::Prompt(request)) = Generate::parse(body.to_string().as_bytes()) else { panic!() };
        assert_eq!(request.max_tokens, Some(4));
    }

    #[test]
    fn faults_have_that_servers_shape() {
        let (status, body) = fault(&Fault::field("parameters.top_k", "too large"));
        assert_eq!(
            (status, &body["error"], &body["error_type"]),
            (422, &json!("too large"), &json!("validation"))
        );
    }
}
