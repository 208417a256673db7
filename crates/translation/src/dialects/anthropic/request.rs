//! Requests of `/v1/messages`.

use serde_json::{Map, Value, json};
use wire::Fault;
use wire::error::quote;

use super::blocks;
use crate::Dialect;
use crate::fields::{Fields, put, refuse, wrong};
use crate::neutral::{Format, NeutralRequest, Part, Reasoning, Role, Tier, Tool, ToolChoice, Turn, Warnings};
use crate::requests::RequestOptions;

const KNOWN: &[&str] = &[
    "model",
    "messages",
    "system",
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "output_format",
    "metadata",
    "service_tier",
];
const REFUSED: &[&str] = &["container", "mcp_servers", "context_management"];

/// Reads a request.
pub(crate) fn read(body: &Value, warnings: &mut Warnings) -> Result<NeutralRequest, Fault> {
    let body = Fields::of_body(body)?;
    for name in REFUSED {
        if body.get(name).is_some() {
            return Err(Fault::unsupported(*name, format!("{name} is not translated into other dialects")));
        }
    }
    for name in body.names().filter(|name| !KNOWN.contains(name)) {
        warnings.add(format!("{} is not translated", quote(name)));
    }
    let mut request = NeutralRequest {
        model: body.text("model")?.unwrap_or_default().to_owned(),
        stream: body.flag("stream")?.unwrap_or(false),
        include_usage: true,
        max_tokens: body.count("max_tokens")?,
        temperature: body.number("temperature")?,
        top_p: body.number("top_p")?,
        top_k: body.count("top_k")?,
        stop: body.strings("stop_sequences")?,
        tools: tools(&body, warnings)?,
        format: format(&body)?,
        reasoning: reasoning(&body)?,
        ..NeutralRequest::default()
    };
    read_choice(&body, &mut request)?;
    if let Some(metadata) = body.object("metadata")? {
        request.user = metadata.owned("user_id")?;
    }
    request.service_tier = match body.text("service_tier")? {
        Some("auto") => Some(Tier::Auto),
        Some("standard_only") => Some(Tier::Standard),
        Some(other) => return Err(body.unknown("service_tier", other, "auto, standard_only")),
        None => None,
    };
    read_messages(&body, &mut request, warnings)?;
    if request.turns.is_empty() {
        return Err(Fault::missing("messages"));
    }
    Ok(request)
}

fn read_choice(body: &Fields<'_>, request: &mut NeutralRequest) -> Result<(), Fault> {
    if let Some(choice) = body.object("tool_choice")? {
        request.parallel_tool_calls = choice.flag("disable_parallel_tool_use")?.map(|disabled| !disabled);
        request.tool_choice = Some(match choice.required("type")? {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "any" => ToolChoice::Required,
            "tool" => ToolChoice::Named(choice.required("name")?.to_owned()),
            other => return Err(choice.unknown("type", other, "auto, any, tool, none")),
        });
    }
    Ok(())
}

fn read_messages(
    body: &Fields<'_>,
    request: &mut NeutralRequest,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    match body.get("system") {
        None => {}
        Some(Value::String(text)) => request.system.push(text.clone()),
        Some(_) => {
            for block in body.objects("system")? {
                request.system.push(block.required("text")?.to_owned());
            }
        }
    }
    for message in body.objects("messages")? {
        let role = match message.required("role")? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            other => return Err(message.unknown("role", other, "user, assistant, system")),
        };
        let parts = match message.get("content") {
            Some(Value::String(text)) => vec![Part::Text(text.clone())],
            Some(Value::Array(_)) => blocks::read_all(&message.objects("content")?, warnings)?,
            Some(other) => {
                return Err(wrong(&message.path("content"), other, "a string or a list of blocks"));
            }
            None => return Err(Fault::missing(message.path("content"))),
        };
        request.turns.push(Turn { role, parts });
    }
    Ok(())
}

fn tools(body: &Fields<'_>, warnings: &mut Warnings) -> Result<Vec<Tool>, Fault> {
    let mut tools = Vec::new();
    for tool in body.objects("tools")? {
        if let Some(kind) = tool.text("type")?.filter(|kind| *kind != "custom") {
            return Err(tool.unknown("type", kind, "custom (tools that Anthropic runs have no counterpart)"));
        }
        if tool.get("cache_control").is_some() {
            warnings.add("cache_control is not translated: other providers cache by themselves");
        }
        tools.push(Tool {
            name: tool.required("name")?.to_owned(),
            description: tool.owned("description")?,
            parameters: tool.get("input_schema").cloned(),
            strict: tool.flag("strict")?,
        });
    }
    Ok(tools)
}

fn format(body: &Fields<'_>) -> Result<Option<Format>, Fault> {
    let config = body.object("output_config")?;
    let format = match config {
        Some(config) => config.object("format")?,
        None => None,
    };
    let format = match format {
        None => body.object("output_format")?,
        some => some,
    };
    let Some(format) = format else { return Ok(None) };
    match format.required("type")? {
        "json_schema" => {
            let schema =
                format.get("schema").cloned().ok_or_else(|| Fault::missing(format.path("schema")))?;
            Ok(Some(Format::Schema { name: None, description: None, schema, strict: Some(true) }))
        }
        other => Err(format.unknown("type", other, "json_schema")),
    }
}

fn reasoning(body: &Fields<'_>) -> Result<Option<Reasoning>, Fault> {
    let effort = match body.object("output_config")? {
        Some(config) => config.owned("effort")?,
        None => None,
    };
    let Some(thinking) = body.object("thinking")? else {
        return Ok(effort.map(|effort| Reasoning { effort: Some(effort), ..Reasoning::default() }));
    };
    let show = match thinking.text("display")? {
        Some("omitted") => Some(false),
        _ => Some(true),
    };
    Ok(Some(match thinking.required("type")? {
        "disabled" => Reasoning { off: true, ..Reasoning::default() },
        "enabled" => Reasoning { budget: thinking.count("budget_tokens")?, effort, show, off: false },
        "adaptive" | "between_tools" => Reasoning { effort, show, ..Reasoning::default() },
        other => return Err(thinking.unknown("type", other, "enabled, adaptive, between_tools, disabled")),
    }))
}

/// Writes a request.
pub(crate) fn write(
    request: &NeutralRequest,
    options: &RequestOptions<'_>,
    warnings: &mut Warnings,
) -> Result<Value, Fault> {
    refuse_foreign(request)?;
    let to = Dialect::Anthropic;
    for (field, given) in [
        ("seed", request.seed.is_some()),
        ("frequency_penalty", request.frequency_penalty.is_some()),
        ("presence_penalty", request.presence_penalty.is_some()),
        ("verbosity", request.verbosity.is_some()),
        ("metadata", request.metadata.is_some()),
    ] {
        if given {
            warnings.left_out(field, to);
        }
    }
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let max_tokens = request.max_tokens.unwrap_or_else(|| {
        warnings.add(format!("max_tokens is required by anthropic: {} is sent", options.default_max_tokens));
        options.default_max_tokens
    });
    body.insert("max_tokens".into(), max_tokens.into());
    if !request.system.is_empty() {
        let system = match request.system.as_slice() {
            [one] => Value::from(one.as_str()),
            more => more.iter().map(|text| json!({"type": "text", "text": text})).collect(),
        };
        body.insert("system".into(), system);
    }
    body.insert("messages".into(), Value::Array(messages(request, warnings)?));
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    let temperature = request.temperature.map(|temperature| {
        if temperature > 1.0 {
            warnings.add(format!("temperature {temperature} is above anthropic's most, 1: 1 is sent"));
        }
        temperature.min(1.0)
    });
    put(&mut body, "temperature", temperature);
    put(&mut body, "top_p", request.top_p);
    put(&mut body, "top_k", request.top_k);
    if !request.stop.is_empty() {
        body.insert("stop_sequences".into(), json!(request.stop));
    }
    write_tools(request, options, &mut body, warnings)?;
    write_thinking(request, &mut body);
    put(&mut body, "metadata", request.user.as_deref().map(|user| json!({"user_id": user})));
    match request.service_tier {
        None => {}
        Some(Tier::Auto | Tier::Priority) => drop(body.insert("service_tier".into(), "auto".into())),
        Some(Tier::Standard) => drop(body.insert("service_tier".into(), "standard_only".into())),
        Some(Tier::Flex) => warnings.left_out("service_tier flex", to),
    }
    Ok(Value::Object(body))
}

/// What would change the answer if it were left out.
fn refuse_foreign(request: &NeutralRequest) -> Result<(), Fault> {
    if request.n.is_some() {
        return Err(refuse("n", Dialect::Anthropic));
    }
    if request.logprobs.is_some() {
        return Err(refuse("logprobs", Dialect::Anthropic));
    }
    if request.format == Some(Format::Json) {
        let message =
            "response_format json_object cannot be translated: anthropic constrains answers by a schema only";
        return Err(Fault::unsupported("response_format", message));
    }
    Ok(())
}

fn write_tools(
    request: &NeutralRequest,
    options: &RequestOptions<'_>,
    body: &mut Map<String, Value>,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    let empty = || json!({"type": "object", "properties": {}});
    let mut tools: Vec<Value> = Vec::new();
    for tool in &request.tools {
        let mut out = Map::new();
        out.insert("name".into(), tool.name.as_str().into());
        put(&mut out, "description", tool.description.as_deref());
        out.insert("input_schema".into(), tool.parameters.clone().unwrap_or_else(empty));
        put(&mut out, "strict", tool.strict);
        tools.push(Value::Object(out));
    }
    let mut choice = request.tool_choice.clone();
    if let Some(Format::Schema { schema, description, .. }) = &request.format {
        if options.schema_as_tool {
            warnings.add("the schema is sent as a tool that must be called; its call is the answer");
            let mut out = Map::new();
            out.insert("name".into(), RequestOptions::SCHEMA_TOOL.into());
            put(&mut out, "description", description.as_deref());
            out.insert("input_schema".into(), schema.clone());
            tools.push(Value::Object(out));
            choice = Some(if request.tools.is_empty() {
                ToolChoice::Named(RequestOptions::SCHEMA_TOOL.into())
            } else {
                ToolChoice::Required
            });
        } else {
            let format = json!({"type": "json_schema", "schema": schema});
            body.entry("output_config").or_insert_with(|| json!({}))["format"] = format;
        }
    }
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    let mut written = match choice {
        None if request.parallel_tool_calls == Some(false) && !request.tools.is_empty() => {
            json!({"type": "auto"})
        }
        None => return Ok(()),
        Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::None) => json!({"type": "none"}),
        Some(ToolChoice::Required) => json!({"type": "any"}),
        Some(ToolChoice::Named(name)) => json!({"type": "tool", "name": name}),
        Some(ToolChoice::Allowed(names, true)) if names.len() == 1 => {
            json!({"type": "tool", "name": names[0]})
        }
        Some(ToolChoice::Allowed(..)) => return Err(refuse("tool_choice.allowed_tools", Dialect::Anthropic)),
    };
    if request.parallel_tool_calls == Some(false) && written["type"] != "none" {
        written["disable_parallel_tool_use"] = true.into();
    }
    body.insert("tool_choice".into(), written);
    Ok(())
}

fn write_thinking(request: &NeutralRequest, body: &mut Map<String, Value>) {
    let Some(reasoning) = &request.reasoning else { return };
    let mut thinking = match (reasoning.off, reasoning.budget) {
        (true, _) => json!({"type": "disabled"}),
        (false, Some(budget)) => json!({"type": "enabled", "budget_tokens": budget}),
        (false, None) => json!({"type": "adaptive"}),
    };
    if reasoning.show == Some(false) && !reasoning.off {
        thinking["display"] = "omitted".into();
    }
    body.insert("thinking".into(), thinking);
    if let Some(effort) = &reasoning.effort {
        // Anthropic's least effort is `low`.
        let effort = if effort == "minimal" { "low" } else { effort };
        body.entry("output_config").or_insert_with(|| json!({}))["effort"] = effort.into();
    }
}

fn messages(request: &NeutralRequest, warnings: &mut Warnings) -> Result<Vec<Value>, Fault> {
    let mut out: Vec<Value> = Vec::with_capacity(request.turns.len());
    for turn in &request.turns {
        let role = match turn.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let content = match turn.parts.as_slice() {
            [Part::Text(text)] => Value::from(text.as_str()),
            parts => Value::Array(blocks::write_all(parts, warnings)?),
        };
        if content != json!([]) {
            out.push(json!({"role": role, "content": content}));
        }
    }
    Ok(out)
}
