//! `POST /generate`, `/generate_stream` and `/`: the API of text-generation-inference (TGI), and the short form of
//! `/generate` with `prompt` that many guides show.

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

/// Default of `max_new_tokens`, as TGI's.
pub const DEFAULT_MAX_TOKENS: usize = 1_024;

/// A request of `/generate`, in either form.
#[derive(Debug, Clone, PartialEq)]
pub enum Generate {
    /// `inputs` and `parameters`.
    Inputs(Box<TgiRequest>),
    /// `prompt`, with the fields of `/v1/completions`.
    Prompt(Box<CompletionRequest>),
}

/// A validated request with `inputs`.
#[derive(Debug, Clone, PartialEq)]
pub struct TgiRequest {
    /// The equivalent completion request. Of `best_of` answers the most likely is sent.
    pub completion: CompletionRequest,
    /// Whether the text starts with the prompt.
    pub full_text: bool,
    /// Whether the response has [`Details`].
    pub details: bool,
    /// Whether the details include the prompt's tokens.
    pub prefill: bool,
    /// Number of alternatives of each token.
    pub alternatives: usize,
}

impl Generate {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
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
                resume: None,
                // Details have the log-probability of each token, stream events always.
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

    /// The request with `stream` set, for `/generate_stream`.
    ///
    /// # Errors
    /// An option that is not supported in streams.
    pub fn streamed(mut self) -> Result<TgiRequest, Fault> {
        self.completion.stream.on = true;
        self.completion.logprobs = Some(self.alternatives);
        self.check_stream()?;
        Ok(self)
    }

    /// Checks a streamed request.
    ///
    /// # Errors
    /// An option that is not supported in streams.
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

/// The sampling parameters, with TGI's defaults: greedy unless a sampling parameter is given, and then without other
/// filters. The stop string that matched is part of the text.
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

/// Reads `grammar`: `{"type": "json" | "json_schema" | "regex", "value": …}`.
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

/// A fault in TGI's format, with TGI's HTTP status for it.
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

/// TGI's finish reason: `length`, `stop_sequence` or `eos_token`.
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
    /// Token id.
    pub id: u32,
    /// Text of the token. In a stream, the text completed by the token; the texts of all tokens add up to the answer.
    pub text: String,
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// Whether it is a control token, which has no text.
    pub special: bool,
}

/// A token of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prefill {
    /// Token id.
    pub id: u32,
    /// Text of the token.
    pub text: String,
    /// Natural logarithm of the token's probability; null for the first token.
    pub logprob: Option<f32>,
}

/// Details of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Details {
    /// Finish reason: `length`, `eos_token` or `stop_sequence`.
    pub finish_reason: &'static str,
    /// Number of answer tokens.
    pub generated_tokens: usize,
    /// The request's seed.
    pub seed: Option<u64>,
    /// Tokens of the prompt, if requested.
    pub prefill: Vec<Prefill>,
    /// Tokens of the answer.
    pub tokens: Vec<Token>,
    /// The most likely tokens at each position, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_tokens: Vec<Vec<Token>>,
    /// The less likely answers of `best_of`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub best_of_sequences: Vec<BestOf>,
}

/// One of the less likely answers of `best_of`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestOf {
    /// Text of the answer.
    pub generated_text: String,
    /// Details of the answer.
    #[serde(flatten)]
    pub details: Box<Details>,
}

/// A whole response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Text of the answer.
    pub generated_text: String,
    /// Details of the answer, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// Details of a streamed answer, in the last event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamDetails {
    /// Finish reason: `length`, `eos_token` or `stop_sequence`.
    pub finish_reason: &'static str,
    /// Number of answer tokens.
    pub generated_tokens: usize,
    /// Number of prompt tokens.
    pub input_length: usize,
    /// The request's seed.
    pub seed: Option<u64>,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Piece {
    /// Index of the token, from 1.
    pub index: usize,
    /// The token.
    pub token: Token,
    /// The most likely tokens at this position, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_tokens: Vec<Token>,
    /// The whole text, in the last event.
    pub generated_text: Option<String>,
    /// Details of the answer, in the last event, if requested.
    pub details: Option<StreamDetails>,
}

/// A response of `/generate` with `prompt`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Short {
    /// The text, or a list of texts for several answers. In a stream, the new text.
    pub text: Value,
    /// Finish reason, `stop` or `length`, or a list of them for several answers; null before a stream's last event.
    pub finish_reason: Value,
    /// Index of the answer, in a stream of several.
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
