//! Requests of `/v1/responses`.

use serde_json::{Map, Value, json};
use wire::Fault;
use wire::error::quote;

use super::items;
use crate::Dialect;
use crate::dialects::openai_chat::request::{read_schema, tier, tier_name, word_choice, write_schema};
use crate::fields::{Fields, put, refuse, wrong};
use crate::neutral::{Format, NeutralRequest, Part, Reasoning, Role, Tool, ToolChoice, Turn, Warnings};

const KNOWN: &[&str] = &[
    "model",
    "input",
    "instructions",
    "stream",
    "stream_options",
    "max_output_tokens",
    "temperature",
    "top_p",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "user",
    "safety_identifier",
    "metadata",
    "service_tier",
    "include",
    "top_logprobs",
    "store",
    "background",
    "truncation",
];
/// What an upstream keeps between requests.
const KEPT: &[&str] = &["previous_response_id", "conversation", "prompt"];

/// Reads a request.
pub(crate) fn read(body: &Value, warnings: &mut Warnings) -> Result<NeutralRequest, Fault> {
    let body = Fields::of_body(body)?;
    for name in KEPT {
        if body.get(name).is_some() {
            let message = format!(
                "{name} names what its provider keeps and cannot be translated; send the items as input"
            );
            return Err(Fault::unsupported(*name, message));
        }
    }
    if body.flag("background")?.unwrap_or(false) {
        return Err(Fault::unsupported("background", "background responses are not translated"));
    }
    for name in body.names().filter(|name| !KNOWN.contains(name) && !KEPT.contains(name)) {
        warnings.add(format!("{} is not translated", quote(name)));
    }
    let include = body.strings("include")?;
    let mut request = NeutralRequest {
        model: body.text("model")?.unwrap_or_default().to_owned(),
        stream: body.flag("stream")?.unwrap_or(false),
        include_usage: true,
        max_tokens: body.count("max_output_tokens")?,
        temperature: body.number("temperature")?,
        top_p: body.number("top_p")?,
        tools: tools(&body)?,
        tool_choice: tool_choice(&body)?,
        parallel_tool_calls: body.flag("parallel_tool_calls")?,
        user: match body.owned("safety_identifier")? {
            None => body.owned("user")?,
            some => some,
        },
        metadata: body.object("metadata")?.map(|metadata| metadata.map().clone()),
        service_tier: tier(&body)?,
        system: body.owned("instructions")?.into_iter().collect(),
        ..NeutralRequest::default()
    };
    if include.iter().any(|what| what == "message.output_text.logprobs") {
        request.logprobs = Some(body.count("top_logprobs")?.unwrap_or(0));
    }
    read_text_and_reasoning(&body, &mut request)?;
    match body.get("input") {
        None => return Err(Fault::missing("input")),
        Some(Value::String(text)) => {
            request.turns.push(Turn { role: Role::User, parts: vec![Part::Text(text.clone())] });
        }
        Some(Value::Array(_)) => {
            for item in body.objects("input")? {
                items::read(&item, &mut request)?;
            }
        }
        Some(other) => return Err(wrong("input", other, "a string or a list of items")),
    }
    Ok(request)
}

fn read_text_and_reasoning(body: &Fields<'_>, request: &mut NeutralRequest) -> Result<(), Fault> {
    if let Some(text) = body.object("text")? {
        request.verbosity = text.owned("verbosity")?;
        request.format = format(&text)?;
    }
    if let Some(reasoning) = body.object("reasoning")? {
        let effort = reasoning.owned("effort")?;
        let off = effort.as_deref() == Some("none");
        let show = reasoning.text("summary")?.map(|_| true);
        let effort = effort.filter(|_| !off);
        request.reasoning = Some(Reasoning { effort, off, show, budget: None });
    }
    Ok(())
}

fn tools(body: &Fields<'_>) -> Result<Vec<Tool>, Fault> {
    let mut tools = Vec::new();
    for tool in body.objects("tools")? {
        match tool.required("type")? {
            "function" => {}
            other => {
                return Err(tool.unknown(
                    "type",
                    other,
                    "function (tools that OpenAI runs have no counterpart)",
                ));
            }
        }
        tools.push(Tool {
            name: tool.required("name")?.to_owned(),
            description: tool.owned("description")?,
            parameters: tool.get("parameters").cloned(),
            strict: tool.flag("strict")?,
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
    match choice.required("type")? {
        "function" => Ok(Some(ToolChoice::Named(choice.required("name")?.to_owned()))),
        "allowed_tools" => {
            let mut names = Vec::new();
            for tool in choice.objects("tools")? {
                names.push(tool.required("name")?.to_owned());
            }
            Ok(Some(ToolChoice::Allowed(names, choice.text("mode")? == Some("required"))))
        }
        other => Err(choice.unknown("type", other, "function, allowed_tools")),
    }
}

fn format(text: &Fields<'_>) -> Result<Option<Format>, Fault> {
    let Some(format) = text.object("format")? else { return Ok(None) };
    match format.required("type")? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::Json)),
        "json_schema" => read_schema(&format).map(Some),
        other => Err(format.unknown("type", other, "text, json_object, json_schema")),
    }
}

/// Writes a request. Nothing is stored: the gateway could not tell later who holds it.
pub(crate) fn write(request: &NeutralRequest, warnings: &mut Warnings) -> Result<Value, Fault> {
    let to = Dialect::OpenAiResponses;
    for (field, given) in [("n", request.n.is_some()), ("stop", !request.stop.is_empty())] {
        if given {
            return Err(refuse(field, to));
        }
    }
    for (field, given) in [
        ("seed", request.seed.is_some()),
        ("top_k", request.top_k.is_some()),
        ("frequency_penalty", request.frequency_penalty.is_some()),
        ("presence_penalty", request.presence_penalty.is_some()),
    ] {
        if given {
            warnings.left_out(field, to);
        }
    }
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    if !request.system.is_empty() {
        body.insert("instructions".into(), request.system.join("\n\n").into());
    }
    body.insert("input".into(), Value::Array(items::write_all(request, warnings)?));
    body.insert("store".into(), false.into());
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    put(&mut body, "max_output_tokens", request.max_tokens);
    put(&mut body, "temperature", request.temperature);
    put(&mut body, "top_p", request.top_p);
    write_tools(request, &mut body);
    write_text_and_reasoning(request, &mut body);
    put(&mut body, "safety_identifier", request.user.as_deref());
    put(&mut body, "metadata", request.metadata.clone());
    put(&mut body, "service_tier", request.service_tier.map(tier_name));
    Ok(Value::Object(body))
}

fn write_text_and_reasoning(request: &NeutralRequest, body: &mut Map<String, Value>) {
    let mut text = Map::new();
    match &request.format {
        None => {}
        Some(Format::Json) => drop(text.insert("format".into(), json!({"type": "json_object"}))),
        Some(format) => {
            let mut schema = Map::new();
            schema.insert("type".into(), "json_schema".into());
            schema.extend(write_schema(format));
            text.insert("format".into(), Value::Object(schema));
        }
    }
    put(&mut text, "verbosity", request.verbosity.as_deref());
    put(body, "text", (!text.is_empty()).then_some(text));
    // Without it, thoughts could not come back in the next request, as nothing is stored.
    let mut include = Vec::new();
    if let Some(reasoning) = &request.reasoning {
        let mut out = Map::new();
        let effort = if reasoning.off { Some("none") } else { reasoning.as_effort() };
        put(&mut out, "effort", effort);
        put(&mut out, "summary", reasoning.show.filter(|show| *show).map(|_| "auto"));
        body.insert("reasoning".into(), Value::Object(out));
        if !reasoning.off {
            include.push("reasoning.encrypted_content");
        }
    }
    if let Some(top) = request.logprobs {
        include.push("message.output_text.logprobs");
        put(body, "top_logprobs", (top > 0).then_some(top));
    }
    put(body, "include", (!include.is_empty()).then(|| json!(include)));
}

fn write_tools(request: &NeutralRequest, body: &mut Map<String, Value>) {
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut out = Map::new();
            out.insert("type".into(), "function".into());
            out.insert("name".into(), tool.name.as_str().into());
            put(&mut out, "description", tool.description.as_deref());
            let empty = || json!({"type": "object", "properties": {}});
            out.insert("parameters".into(), tool.parameters.clone().unwrap_or_else(empty));
            // Left out, the Responses API would make the schema strict; the other dialects do not.
            out.insert("strict".into(), tool.strict.unwrap_or(false).into());
            Value::Object(out)
        });
        body.insert("tools".into(), tools.collect());
    }
    let choice = request.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => json!({"type": "function", "name": name}),
        ToolChoice::Allowed(names, required) => {
            let tools: Vec<Value> = names.iter().map(|name| json!({"type": "function", "name": name})).collect();
            json!({"type": "allowed_tools", "mode": if *required { "required" } else { "auto" }, "tools": tools})
        }
    });
    put(body, "tool_choice", choice);
    put(body, "parallel_tool_calls", request.parallel_tool_calls);
}
