//! Whole requests and answers from one dialect into another.

use serde_json::Value;
use wire::Fault;

use crate::answers::AnswerOptions;
use crate::dialects::{anthropic, gemini, openai_chat, openai_responses};
use crate::neutral::{NeutralAnswer, NeutralRequest, Part, Warnings};
use crate::requests::RequestOptions;
use crate::{Dialect, Edit, FinishReason, Head};

/// A translated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedRequest {
    /// The body.
    pub body: Vec<u8>,
    /// Path and query under the API's root: Gemini has model and streaming there.
    pub path: String,
    /// Whether the answer will be a stream.
    pub stream: bool,
    /// What was left out or changed, in words that name the field.
    pub warnings: Vec<String>,
}

/// A translated answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedAnswer {
    /// The body.
    pub body: Vec<u8>,
    /// What was left out.
    pub warnings: Vec<String>,
}

/// Translates a request. Where the dialects match, only the model's name is changed.
///
/// # Errors
/// 400 if the body is not a request of `from`, or asks for what `to` cannot do and what would change the answer if it were
/// left out; the error names the field.
pub fn request(
    from: Dialect,
    to: Dialect,
    body: &[u8],
    options: &RequestOptions<'_>,
) -> Result<TranslatedRequest, Fault> {
    if from == to && options.drop.is_empty() {
        let head = Head::read(from, body)?;
        let model = options.model.or(head.model.as_deref()).unwrap_or_default().to_owned();
        let stream = options.stream.unwrap_or(head.stream);
        let edit = Edit { model: options.model, ..Edit::default() };
        let (body, path) = (head.rewrite(body, &edit), to.path(&model, stream));
        return Ok(TranslatedRequest { body, path, stream, warnings: Vec::new() });
    }
    wire::scan::values(body)?;
    let value = wire::json::read(body)?;
    let mut warnings = Warnings::default();
    let mut request = read_request(from, &value, &mut warnings)?;
    if let Some(model) = options.model {
        request.model = model.to_owned();
    }
    if let Some(stream) = options.stream {
        request.stream = stream;
    }
    drop_fields(&mut request, options.drop, &mut warnings)?;
    let body = write_request(to, &request, options, &mut warnings)?;
    let warnings = warnings.into_vec();
    if let (true, Some(warning)) = (options.strict, warnings.first()) {
        return Err(Fault::body(format!("the request cannot be translated exactly: {warning}")));
    }
    let path = to.path(&request.model, request.stream);
    Ok(TranslatedRequest { body: body.to_string().into_bytes(), path, stream: request.stream, warnings })
}

pub(crate) fn read_request(
    from: Dialect,
    body: &Value,
    warnings: &mut Warnings,
) -> Result<NeutralRequest, Fault> {
    match from {
        Dialect::OpenAiChat => openai_chat::request::read(body, warnings),
        Dialect::OpenAiResponses => openai_responses::request::read(body, warnings),
        Dialect::Anthropic => anthropic::request::read(body, warnings),
        Dialect::Gemini => gemini::request::read(body, warnings),
    }
}

pub(crate) fn write_request(
    to: Dialect,
    request: &NeutralRequest,
    options: &RequestOptions<'_>,
    warnings: &mut Warnings,
) -> Result<Value, Fault> {
    match to {
        Dialect::OpenAiChat => openai_chat::request::write(request, warnings),
        Dialect::OpenAiResponses => openai_responses::request::write(request, warnings),
        Dialect::Anthropic => anthropic::request::write(request, options, warnings),
        Dialect::Gemini => gemini::request::write(request, warnings),
    }
}

fn drop_fields(request: &mut NeutralRequest, names: &[&str], warnings: &mut Warnings) -> Result<(), Fault> {
    for name in names {
        let given = match *name {
            "temperature" => request.temperature.take().is_some(),
            "top_p" => request.top_p.take().is_some(),
            "top_k" => request.top_k.take().is_some(),
            "seed" => request.seed.take().is_some(),
            "stop" => !std::mem::take(&mut request.stop).is_empty(),
            "frequency_penalty" => request.frequency_penalty.take().is_some(),
            "presence_penalty" => request.presence_penalty.take().is_some(),
            "reasoning" => request.reasoning.take().is_some(),
            "verbosity" => request.verbosity.take().is_some(),
            "user" => request.user.take().is_some(),
            "metadata" => request.metadata.take().is_some(),
            "service_tier" => request.service_tier.take().is_some(),
            "parallel_tool_calls" => request.parallel_tool_calls.take().is_some(),
            other => {
                let message = format!("{} is no field that can be dropped", wire::error::quote(other));
                return Err(Fault::internal(message));
            }
        };
        if given {
            warnings.add(format!("{name} is left out, as configured"));
        }
    }
    Ok(())
}

/// Translates a whole answer whose status said success. Where the dialects match, the bytes are the same.
///
/// # Errors
/// 502 (as a [`Fault`] with that status) if the body is not an answer of `from`.
pub fn answer(
    from: Dialect,
    to: Dialect,
    body: &[u8],
    options: &AnswerOptions<'_>,
) -> Result<TranslatedAnswer, Fault> {
    if from == to && options.schema_tool.is_none() {
        return Ok(TranslatedAnswer { body: body.to_vec(), warnings: Vec::new() });
    }
    let upstream = |fault: Fault| Fault {
        status: 502,
        kind: "server_error",
        code: Some("upstream_format"),
        message: format!("the upstream's answer is not in the format of {from}: {}", fault.message),
        ..fault
    };
    let value: Value = serde_json::from_slice(body).map_err(|error| upstream(Fault::not_json(error)))?;
    let mut warnings = Warnings::default();
    let mut answer = read_answer(from, &value, &mut warnings).map_err(upstream)?;
    if let Some(tool) = options.schema_tool {
        schema_call_as_text(&mut answer, tool);
    }
    let body = match to {
        Dialect::OpenAiChat => openai_chat::answer::write(&answer, options, &mut warnings),
        Dialect::OpenAiResponses => openai_responses::answer::write(&answer, options, &mut warnings),
        Dialect::Anthropic => anthropic::answer::write(&answer, options, &mut warnings),
        Dialect::Gemini => gemini::answer::write(&answer, options),
    };
    Ok(TranslatedAnswer { body: body.to_string().into_bytes(), warnings: warnings.into_vec() })
}

pub(crate) fn read_answer(
    from: Dialect,
    body: &Value,
    warnings: &mut Warnings,
) -> Result<NeutralAnswer, Fault> {
    match from {
        Dialect::OpenAiChat => openai_chat::answer::read(body),
        Dialect::OpenAiResponses => openai_responses::answer::read(body, warnings),
        Dialect::Anthropic => anthropic::answer::read(body, warnings),
        Dialect::Gemini => gemini::answer::read(body, warnings),
    }
}

/// The call of the tool that stands for the answer's schema, as the answer's text.
fn schema_call_as_text(answer: &mut NeutralAnswer, tool: &str) {
    for choice in &mut answer.choices {
        for part in &mut choice.parts {
            if let Part::ToolCall(call) = part
                && call.name == tool
            {
                *part = Part::Text(std::mem::take(&mut call.arguments));
            }
        }
        let calls = choice.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        if !calls && choice.finish == Some(FinishReason::ToolCalls) {
            choice.finish = Some(FinishReason::Stop);
        }
    }
}
