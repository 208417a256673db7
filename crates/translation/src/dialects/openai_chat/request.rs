//! Requests of `/v1/chat/completions`.

use serde_json::{Map, Value, json};
use wire::Fault;
use wire::error::quote;

use super::messages;
use crate::Dialect;
use crate::fields::{Fields, put};
use crate::neutral::{Format, NeutralRequest, Reasoning, Tier, Tool, ToolChoice, Warnings};

/// Fields that are read here.
const KNOWN: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "stop",
    "n",
    "logprobs",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "user",
    "safety_identifier",
    "metadata",
    "service_tier",
    "store",
];
/// Fields that change the answer and that no other dialect has.
const REFUSED: &[&str] = &[
    "functions",
    "function_call",
    "logit_bias",
    "audio",
    "prediction",
    "web_search_options",
    "guided_json",
    "grammar",
];

/// Reads a request.
pub(crate) fn read(body: &Value, warnings: &mut Warnings) -> Result<NeutralRequest, Fault> {
    let body = Fields::of_body(body)?;
    for name in REFUSED {
        if body.get(name).is_some() {
            return Err(Fault::unsupported(*name, format!("{name} is not translated into other dialects")));
        }
    }
    let modalities = body.strings("modalities")?;
    if modalities.iter().any(|kind| kind != "text") {
        return Err(Fault::unsupported("modalities", "modalities other than text are not translated"));
    }
    for name in body.names().filter(|name| !KNOWN.contains(name) && *name != "modalities") {
        warnings.add(format!("{} is not translated", quote(name)));
    }
    let mut request = NeutralRequest {
        model: body.text("model")?.unwrap_or_default().to_owned(),
        stream: body.flag("stream")?.unwrap_or(false),
        max_tokens: match body.count("max_completion_tokens")? {
            None => body.count("max_tokens")?,
            some => some,
        },
        temperature: body.number("temperature")?,
        top_p: body.number("top_p")?,
        top_k: body.integer("top_k")?.and_then(|k| u64::try_from(k).ok()).filter(|k| *k > 0),
        frequency_penalty: body.number("frequency_penalty")?.filter(|penalty| *penalty != 0.0),
        presence_penalty: body.number("presence_penalty")?.filter(|penalty| *penalty != 0.0),
        seed: body.integer("seed")?,
        stop: stop(&body)?,
        n: body.count("n")?.filter(|n| *n != 1),
        tools: tools(&body)?,
        tool_choice: tool_choice(&body)?,
        parallel_tool_calls: body.flag("parallel_tool_calls")?,
        format: format(&body)?,
        verbosity: body.owned("verbosity")?,
        user: match body.owned("safety_identifier")? {
            None => body.owned("user")?,
            some => some,
        },
        metadata: body.object("metadata")?.map(|metadata| metadata.map().clone()),
        service_tier: tier(&body)?,
        ..NeutralRequest::default()
    };
    if let Some(options) = body.object("stream_options")? {
        request.include_usage = options.flag("include_usage")?.unwrap_or(false);
    }
    if body.flag("logprobs")?.unwrap_or(false) {
        request.logprobs = Some(body.count("top_logprobs")?.unwrap_or(0));
    }
    if let Some(effort) = body.owned("reasoning_effort")? {
        let off = effort == "none";
        request.reasoning = Some(Reasoning { effort: (!off).then_some(effort), off, ..Reasoning::default() });
    }
    for message in body.objects("messages")? {
        messages::read(&message, &mut request, warnings)?;
    }
    if request.turns.is_empty() && request.system.is_empty() {
        return Err(Fault::missing("messages"));
    }
    Ok(request)
}

fn stop(body: &Fields<'_>) -> Result<Vec<String>, Fault> {
    match body.get("stop") {
        Some(Value::String(stop)) => Ok(vec![stop.clone()]),
        _ => body.strings("stop"),
    }
}

/// OpenAI's `service_tier`.
pub(crate) fn tier(body: &Fields<'_>) -> Result<Option<Tier>, Fault> {
    Ok(match body.text("service_tier")? {
        Some("auto") => Some(Tier::Auto),
        Some("default") => Some(Tier::Standard),
        Some("flex") => Some(Tier::Flex),
        Some("priority" | "fast" | "scale") => Some(Tier::Priority),
        Some(other) => {
            return Err(body.unknown("service_tier", other, "auto, default, flex, priority, fast, scale"));
        }
        None => None,
    })
}

/// OpenAI's word for a tier.
pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Auto => "auto",
        Tier::Standard => "default",
        Tier::Flex => "flex",
        Tier::Priority => "priority",
    }
}

fn tools(body: &Fields<'_>) -> Result<Vec<Tool>, Fault> {
    let mut tools = Vec::new();
    for tool in body.objects("tools")? {
        match tool.text("type")? {
            None | Some("function") => {}
            Some(other) => return Err(tool.unknown("type", other, "function")),
        }
        let function = tool.object("function")?.ok_or_else(|| Fault::missing(tool.path("function")))?;
        tools.push(Tool {
            name: function.required("name")?.to_owned(),
            description: function.owned("description")?,
            parameters: function.get("parameters").cloned(),
            strict: function.flag("strict")?,
        });
    }
    Ok(tools)
}

fn tool_choice(body: &Fields<'_>) -> Result<Option<ToolChoice>, Fault> {
    let Some(value) = body.get("tool_choice") else { return Ok(None) };
    if let Value::String(word) = value {
        return word_choice(body, word).map(Some);
    }
    let choice = Fields::of(value, body.path("tool_choice"))?;
    match choice.text("type")? {
        Some("function") => {
            let function =
                choice.object("function")?.ok_or_else(|| Fault::missing(choice.path("function")))?;
            Ok(Some(ToolChoice::Named(function.required("name")?.to_owned())))
        }
        Some("allowed_tools") => {
            let inner = choice.object("allowed_tools")?.unwrap_or_else(|| choice.clone());
            let mut names = Vec::new();
            for tool in inner.objects("tools")? {
                let function = tool.object("function")?.unwrap_or_else(|| tool.clone());
                names.push(function.required("name")?.to_owned());
            }
            Ok(Some(ToolChoice::Allowed(names, inner.text("mode")? == Some("required"))))
        }
        other => Err(choice.unknown("type", other.unwrap_or("left out"), "function, allowed_tools")),
    }
}

/// OpenAI's words of `tool_choice`.
pub(crate) fn word_choice(body: &Fields<'_>, word: &str) -> Result<ToolChoice, Fault> {
    match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        other => Err(body.unknown("tool_choice", other, "auto, none, required, or an object")),
    }
}

fn format(body: &Fields<'_>) -> Result<Option<Format>, Fault> {
    let Some(format) = body.object("response_format")? else { return Ok(None) };
    match format.required("type")? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::Json)),
        "json_schema" => {
            let schema =
                format.object("json_schema")?.ok_or_else(|| Fault::missing(format.path("json_schema")))?;
            read_schema(&schema).map(Some)
        }
        other => Err(format.unknown("type", other, "text, json_object, json_schema")),
    }
}

/// OpenAI's name, description, schema and strictness.
pub(crate) fn read_schema(schema: &Fields<'_>) -> Result<Format, Fault> {
    Ok(Format::Schema {
        name: schema.owned("name")?,
        description: schema.owned("description")?,
        schema: schema.get("schema").cloned().ok_or_else(|| Fault::missing(schema.path("schema")))?,
        strict: schema.flag("strict")?,
    })
}

/// Writes a request.
pub(crate) fn write(request: &NeutralRequest, warnings: &mut Warnings) -> Result<Value, Fault> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    body.insert("messages".into(), Value::Array(messages::write_all(request, warnings)?));
    if request.stream {
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    put(&mut body, "max_completion_tokens", request.max_tokens);
    put(&mut body, "temperature", request.temperature);
    put(&mut body, "top_p", request.top_p);
    put(&mut body, "frequency_penalty", request.frequency_penalty);
    put(&mut body, "presence_penalty", request.presence_penalty);
    put(&mut body, "seed", request.seed);
    put(&mut body, "n", request.n);
    if request.top_k.is_some() {
        warnings.left_out("top_k", Dialect::OpenAiChat);
    }
    if !request.stop.is_empty() {
        body.insert("stop".into(), json!(request.stop));
    }
    if let Some(top) = request.logprobs {
        body.insert("logprobs".into(), true.into());
        put(&mut body, "top_logprobs", (top > 0).then_some(top));
    }
    write_tools(request, &mut body);
    put(&mut body, "response_format", request.format.as_ref().map(response_format));
    if let Some(reasoning) = &request.reasoning {
        let effort = if reasoning.off { Some("none") } else { reasoning.as_effort() };
        put(&mut body, "reasoning_effort", effort);
    }
    put(&mut body, "verbosity", request.verbosity.as_deref());
    put(&mut body, "safety_identifier", request.user.as_deref());
    put(&mut body, "metadata", request.metadata.clone());
    put(&mut body, "service_tier", request.service_tier.map(tier_name));
    Ok(Value::Object(body))
}

fn write_tools(request: &NeutralRequest, body: &mut Map<String, Value>) {
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut function = Map::new();
            function.insert("name".into(), tool.name.as_str().into());
            put(&mut function, "description", tool.description.as_deref());
            put(&mut function, "parameters", tool.parameters.clone());
            put(&mut function, "strict", tool.strict);
            json!({"type": "function", "function": function})
        });
        body.insert("tools".into(), tools.collect());
    }
    let choice = request.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
        ToolChoice::Allowed(names, required) => {
            let tools: Vec<Value> =
                names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
            let mode = if *required { "required" } else { "auto" };
            json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}})
        }
    });
    put(body, "tool_choice", choice);
    put(body, "parallel_tool_calls", request.parallel_tool_calls);
}

fn response_format(format: &Format) -> Value {
    match format {
        Format::Json => json!({"type": "json_object"}),
        Format::Schema { .. } => json!({"type": "json_schema", "json_schema": write_schema(format)}),
    }
}

/// OpenAI's name, description, schema and strictness; the name is required there.
pub(crate) fn write_schema(format: &Format) -> Map<String, Value> {
    let mut out = Map::new();
    if let Format::Schema { name, description, schema, strict } = format {
        out.insert("name".into(), name.as_deref().unwrap_or("response").into());
        put(&mut out, "description", description.as_deref());
        out.insert("schema".into(), schema.clone());
        put(&mut out, "strict", *strict);
    }
    out
}
