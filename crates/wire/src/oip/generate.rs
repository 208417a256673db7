//! Text in and text out of models that generate: the inputs of Triton's vLLM and TensorRT-LLM backends, and the bodies of
//! its generate extension.

use serde_json::{Map, Value};

use super::{Parameters, Tensor, TensorData};
use crate::error::{Fault, quote};
use crate::fields::{Fields, wrong};
use crate::{CompletionRequest, json, limits};

/// The input with the prompts, and the output with the answers.
const TEXT_INPUT: &str = "text_input";
/// Options of vLLM's backend, as a JSON object in a string.
const SAMPLING_PARAMETERS: &str = "sampling_parameters";
/// What other backends call a field, and what it is called here.
const ALIASES: [(&str, &str); 7] = [
    ("random_seed", "seed"),
    ("stop_words", "stop"),
    ("min_length", "min_tokens"),
    ("request_output_len", "max_tokens"),
    ("runtime_top_k", "top_k"),
    ("runtime_top_p", "top_p"),
    ("frequency_penality", "frequency_penalty"),
];
/// Inputs that a model that generates takes beside [`TEXT_INPUT`].
const OPTIONS: [&str; 20] = [
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "bad_words",
    "min_tokens",
    "stream",
    "exclude_input_in_output",
    SAMPLING_PARAMETERS,
    "random_seed",
    "stop_words",
    "min_length",
    "runtime_top_k",
    "runtime_top_p",
];
/// Parameters of the protocol, which say nothing about the text.
const PROTOCOL: [&str; 8] = [
    "binary_data_output",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "triton_enable_empty_final_response",
    "headers",
];

/// A request for text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextRequest {
    /// The prompts and how they are continued.
    pub completion: CompletionRequest,
    /// Whether the answers come token by token.
    pub stream: bool,
    /// Whether each answer begins with its prompt, as with vLLM's backend unless `exclude_input_in_output` is true.
    pub echo: bool,
}

impl TextRequest {
    /// The request of these prompts and options.
    fn new(
        model: Option<&str>,
        prompts: Vec<Value>,
        options: Map<String, Value>,
    ) -> Result<TextRequest, Fault> {
        let mut body = Map::new();
        for (name, value) in options {
            let alias = ALIASES.iter().find(|(theirs, _)| *theirs == name);
            let name = alias.map_or(name, |(_, own)| (*own).to_owned());
            body.insert(name, value);
        }
        let flag = |body: &mut Map<String, Value>, name: &str| match body.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(name, &other, "true or false")),
        };
        let stream = flag(&mut body, "stream")?.unwrap_or(false);
        let excludes = flag(&mut body, "exclude_input_in_output")?;
        if stream && excludes == Some(false) {
            let message = "exclude_input_in_output is false; an answer that is streamed has no prompt in it";
            return Err(Fault::field("exclude_input_in_output", message));
        }
        body.insert("prompt".into(), prompts.into());
        body.insert("model".into(), model.into());
        body.insert("stream".into(), stream.into());
        let completion = CompletionRequest::read(&body.into())?;
        let completion = completion_named(completion)?;
        Ok(TextRequest { completion, stream, echo: !stream && !excludes.unwrap_or(false) })
    }
}

/// Refuses more than one answer to a prompt: there is one string for each.
fn completion_named(completion: CompletionRequest) -> Result<CompletionRequest, Fault> {
    if completion.n > 1 {
        let message = format!("n is {}; there is one text_output for each text_input", completion.n);
        return Err(Fault::field("n", message));
    }
    Ok(completion)
}

/// The text that the inputs of a model that generates ask for.
///
/// # Errors
/// No prompt, an input that such models do not have, or an option with an invalid value.
pub fn text_request(
    model: Option<&str>,
    inputs: &[Tensor],
    parameters: &Parameters,
) -> Result<TextRequest, Fault> {
    let mut prompts = None;
    let mut options = Map::new();
    for input in inputs {
        match input.name.as_str() {
            TEXT_INPUT => prompts = Some(input.texts()?.into_iter().map(Value::from).collect()),
            SAMPLING_PARAMETERS => {
                for text in input.texts()?.into_iter().filter(|text| !text.trim().is_empty()) {
                    options.extend(sampling_parameters(text)?);
                }
            }
            name if OPTIONS.contains(&name) => {
                if let Some(value) = option(input)? {
                    options.insert(name.to_owned(), value);
                }
            }
            name => {
                let message = format!(
                    "{} is not an input of a model that generates text; its inputs are: {TEXT_INPUT}, {}",
                    quote(name),
                    OPTIONS.join(", ")
                );
                return Err(Fault::field(name, message));
            }
        }
    }
    for (name, value) in parameters.0.iter().filter(|(name, _)| !PROTOCOL.contains(&name.as_str())) {
        options.insert(name.clone(), value.to_json());
    }
    let prompts: Vec<Value> = prompts.ok_or_else(|| Fault::missing(TEXT_INPUT))?;
    TextRequest::new(model, prompts, options)
}

/// The value of an option: its only element, or all for lists of words; none if it has no elements.
fn option(input: &Tensor) -> Result<Option<Value>, Fault> {
    let lists = ["stop", "stop_words", "bad_words"].contains(&input.name.as_str());
    let count = input.elements();
    if count == 0 {
        return Ok(None);
    }
    if lists {
        let words = input.texts()?.into_iter().filter(|word| !word.is_empty());
        let words: Vec<Value> = words.map(Value::from).collect();
        return Ok((!words.is_empty()).then(|| words.into()));
    }
    if count > 1 {
        let message = format!("the input {} has {count} elements; an option has 1", input.described());
        return Err(Fault::field(input.name.clone(), message));
    }
    if let TensorData::Strings(_) = &input.data {
        return Ok(input.texts()?.first().map(|text| Value::from(*text)));
    }
    let mut out = Vec::new();
    super::elements::write(&mut out, input)?;
    let value: Value = serde_json::from_slice(&out).map_err(|error| Fault::internal(error.to_string()))?;
    Ok(value.get(0).cloned())
}

/// Options in JSON, in which vLLM's clients write numbers as strings too.
fn sampling_parameters(text: &str) -> Result<Map<String, Value>, Fault> {
    let named = |fault: Fault| {
        let message = format!("{SAMPLING_PARAMETERS}: {}", fault.message);
        Fault { param: Some(SAMPLING_PARAMETERS.into()), message, ..fault }
    };
    let value = json::read(text.as_bytes()).map_err(named)?;
    let Value::Object(options) = value else {
        return Err(wrong(SAMPLING_PARAMETERS, &value, "a JSON object"));
    };
    let plain = |(name, value): (String, Value)| {
        let number = value.as_str().filter(|_| name != "stop").and_then(|text| match text {
            "True" | "true" => Some(Value::Bool(true)),
            "False" | "false" => Some(Value::Bool(false)),
            text => serde_json::from_str::<serde_json::Number>(text).ok().map(Value::Number),
        });
        (name, number.unwrap_or(value))
    };
    Ok(options.into_iter().map(plain).collect())
}

/// A body of the generate extension.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// The client's id of the request, which the answer repeats.
    pub id: Option<String>,
    /// The text that is asked for.
    pub text: TextRequest,
}

impl GenerateRequest {
    /// Parses a body: `text_input`, and options beside it or in `parameters`. `streamed` is whether the path streams.
    /// Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8], model: Option<&str>, streamed: bool) -> Result<GenerateRequest, Fault> {
        let value = json::read(body)?;
        let fields = Fields::body(&value)?;
        let prompts = match fields.get(TEXT_INPUT) {
            None => return Err(Fault::missing(TEXT_INPUT)),
            Some(Value::String(text)) => vec![Value::from(text.as_str())],
            Some(Value::Array(list)) if list.len() == 1 && list[0].is_string() => list.clone(),
            Some(other) => return Err(wrong(TEXT_INPUT, other, "a string")),
        };
        let mut options = Map::new();
        let own = [TEXT_INPUT, "id", "parameters", "model_name", "model_version", SAMPLING_PARAMETERS];
        if let Some(text) = fields.text(SAMPLING_PARAMETERS, usize::MAX)? {
            options.extend(sampling_parameters(text)?);
        }
        let beside = fields.entries().filter(|(name, _)| !own.contains(name));
        options.extend(beside.map(|(name, value)| (name.to_owned(), value.clone())));
        if let Some(more) = fields.object("parameters", limits::TENSOR_PARAMETERS)? {
            let told = more.iter().filter(|(name, _)| !PROTOCOL.contains(&name.as_str()));
            options.extend(told.map(|(name, value)| (name.clone(), value.clone())));
        }
        // `stream` says which of both paths was meant; the path decides.
        options.insert("stream".into(), streamed.into());
        let text = TextRequest::new(model, prompts, options)?;
        Ok(GenerateRequest { id: fields.text("id", limits::NAME_BYTES)?.map(str::to_owned), text })
    }
}
