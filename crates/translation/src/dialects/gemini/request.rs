//! Requests of `generateContent`. The model is in the path.

use serde_json::{Map, Value, json};
use wire::Fault;
use wire::error::quote;

use super::parts::{self, CallIds};
use super::schema::to_json_schema;
use crate::Dialect;
use crate::fields::{Fields, put, refuse};
use crate::neutral::{Format, NeutralRequest, Part, Reasoning, Role, Tier, Tool, ToolChoice, Turn, Warnings};

const KNOWN: &[&str] = &[
    "contents",
    "systemInstruction",
    "system_instruction",
    "generationConfig",
    "generation_config",
    "tools",
    "toolConfig",
    "tool_config",
    "safetySettings",
    "safety_settings",
    "labels",
    "serviceTier",
    "cachedContent",
    "model",
];
const KNOWN_CONFIG: &[&str] = &[
    "maxOutputTokens",
    "max_output_tokens",
    "temperature",
    "topP",
    "top_p",
    "topK",
    "top_k",
    "seed",
    "stopSequences",
    "stop_sequences",
    "candidateCount",
    "candidate_count",
    "presencePenalty",
    "presence_penalty",
    "frequencyPenalty",
    "frequency_penalty",
    "responseLogprobs",
    "response_logprobs",
    "logprobs",
    "responseMimeType",
    "response_mime_type",
    "responseSchema",
    "response_schema",
    "responseJsonSchema",
    "response_json_schema",
    "thinkingConfig",
    "thinking_config",
    "responseModalities",
    "response_modalities",
];

/// Reads a request; model and streaming are those of the path.
pub(crate) fn read(body: &Value, warnings: &mut Warnings) -> Result<NeutralRequest, Fault> {
    let body = Fields::of_body(body)?;
    for name in body.names().filter(|name| !KNOWN.contains(name)) {
        warnings.add(format!("{} is not translated", quote(name)));
    }
    if body.get("cachedContent").is_some() {
        let message = "cachedContent is kept by Gemini and cannot be translated; send the contents";
        return Err(Fault::unsupported("cachedContent", message));
    }
    if body.get(body.either(["safetySettings", "safety_settings"])).is_some() {
        warnings.add("safetySettings are not translated: other providers have none");
    }
    let mut request = NeutralRequest { include_usage: true, ..NeutralRequest::default() };
    if let Some(labels) = body.object("labels")? {
        request.metadata = Some(labels.map().clone());
    }
    request.service_tier = match body.text("serviceTier")? {
        Some("flex") => Some(Tier::Flex),
        Some("priority") => Some(Tier::Priority),
        Some("standard") => Some(Tier::Standard),
        _ => None,
    };
    let mut ids = CallIds::default();
    if let Some(system) = body.object(body.either(["systemInstruction", "system_instruction"]))? {
        for part in parts::read_all(&system, &mut ids, warnings)? {
            match part {
                Part::Text(text) => request.system.push(text),
                _ => return Err(Fault::unsupported("systemInstruction", "a system prompt has text only")),
            }
        }
    }
    for content in body.objects("contents")? {
        let role = match content.text("role")? {
            None | Some("user" | "function" | "tool") => Role::User,
            Some("model") => Role::Assistant,
            Some(other) => return Err(content.unknown("role", other, "user, model")),
        };
        let parts = parts::read_all(&content, &mut ids, warnings)?;
        request.turns.push(Turn { role, parts });
    }
    if request.turns.is_empty() {
        return Err(Fault::missing("contents"));
    }
    request.tools = tools(&body)?;
    request.tool_choice = tool_choice(&body)?;
    if let Some(config) = body.object(body.either(["generationConfig", "generation_config"]))? {
        read_config(&config, &mut request, warnings)?;
    }
    Ok(request)
}

fn read_config(
    config: &Fields<'_>,
    request: &mut NeutralRequest,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    for name in config.names().filter(|name| !KNOWN_CONFIG.contains(name)) {
        warnings.add(format!("generationConfig.{} is not translated", quote(name)));
    }
    let modalities = config.strings(config.either(["responseModalities", "response_modalities"]))?;
    if modalities.iter().any(|kind| !kind.eq_ignore_ascii_case("text")) {
        return Err(Fault::unsupported(
            "generationConfig.responseModalities",
            "responseModalities other than TEXT are not translated",
        ));
    }
    request.max_tokens = config.count(config.either(["maxOutputTokens", "max_output_tokens"]))?;
    request.temperature = config.number("temperature")?;
    request.top_p = config.number(config.either(["topP", "top_p"]))?;
    request.top_k = config.count(config.either(["topK", "top_k"]))?;
    request.seed = config.integer("seed")?;
    request.stop = config.strings(config.either(["stopSequences", "stop_sequences"]))?;
    request.n = config.count(config.either(["candidateCount", "candidate_count"]))?.filter(|n| *n != 1);
    let penalty =
        |names| Ok::<_, Fault>(config.number(config.either(names))?.filter(|penalty| *penalty != 0.0));
    request.presence_penalty = penalty(["presencePenalty", "presence_penalty"])?;
    request.frequency_penalty = penalty(["frequencyPenalty", "frequency_penalty"])?;
    if config.flag(config.either(["responseLogprobs", "response_logprobs"]))?.unwrap_or(false) {
        request.logprobs = Some(config.count("logprobs")?.unwrap_or(0));
    }
    let json_schema = config.get(config.either(["responseJsonSchema", "response_json_schema"]));
    let schema = config.get(config.either(["responseSchema", "response_schema"]));
    let schema = json_schema.cloned().or_else(|| schema.map(to_json_schema));
    let media_type = config.text(config.either(["responseMimeType", "response_mime_type"]))?;
    request.format = match (media_type, schema) {
        (_, Some(schema)) => Some(Format::Schema { name: None, description: None, schema, strict: None }),
        (Some("application/json"), None) => Some(Format::Json),
        (None | Some("text/plain"), None) => None,
        (Some(other), None) => {
            return Err(config.unknown("responseMimeType", other, "text/plain, application/json"));
        }
    };
    if let Some(thinking) = config.object(config.either(["thinkingConfig", "thinking_config"]))? {
        let budget = thinking.integer(thinking.either(["thinkingBudget", "thinking_budget"]))?;
        let level = thinking.text(thinking.either(["thinkingLevel", "thinking_level"]))?;
        request.reasoning = Some(Reasoning {
            effort: level.map(str::to_ascii_lowercase),
            // -1 leaves it to the model.
            budget: budget.and_then(|budget| u64::try_from(budget).ok()).filter(|budget| *budget > 0),
            off: budget == Some(0),
            show: thinking.flag(thinking.either(["includeThoughts", "include_thoughts"]))?,
        });
    }
    Ok(())
}

fn tools(body: &Fields<'_>) -> Result<Vec<Tool>, Fault> {
    let mut tools = Vec::new();
    for tool in body.objects("tools")? {
        let declared = tool.either(["functionDeclarations", "function_declarations"]);
        if let Some(other) = tool.names().find(|name| *name != declared) {
            let path = tool.path(other);
            let message = format!("{path} is a tool that Gemini runs; it has no counterpart");
            return Err(Fault::unsupported(path, message));
        }
        for function in tool.objects(declared)? {
            let json_schema =
                function.get(function.either(["parametersJsonSchema", "parameters_json_schema"]));
            let schema = function.get("parameters");
            tools.push(Tool {
                name: function.required("name")?.to_owned(),
                description: function.owned("description")?,
                parameters: json_schema.cloned().or_else(|| schema.map(to_json_schema)),
                strict: None,
            });
        }
    }
    Ok(tools)
}

fn tool_choice(body: &Fields<'_>) -> Result<Option<ToolChoice>, Fault> {
    let Some(config) = body.object(body.either(["toolConfig", "tool_config"]))? else { return Ok(None) };
    let calling = config.object(config.either(["functionCallingConfig", "function_calling_config"]))?;
    let Some(calling) = calling else { return Ok(None) };
    let names = calling.strings(calling.either(["allowedFunctionNames", "allowed_function_names"]))?;
    let mode = calling.text("mode")?.unwrap_or("AUTO").to_ascii_uppercase();
    Ok(match (mode.as_str(), names.len()) {
        ("AUTO", _) => Some(ToolChoice::Auto),
        ("NONE", _) => Some(ToolChoice::None),
        ("ANY", 0) => Some(ToolChoice::Required),
        ("ANY", 1) => names.into_iter().next().map(ToolChoice::Named),
        ("ANY", _) => Some(ToolChoice::Allowed(names, true)),
        ("VALIDATED", 0) => Some(ToolChoice::Auto),
        ("VALIDATED", _) => Some(ToolChoice::Allowed(names, false)),
        ("MODE_UNSPECIFIED", _) => None,
        (other, _) => return Err(calling.unknown("mode", other, "AUTO, ANY, NONE, VALIDATED")),
    })
}

/// Writes a request.
pub(crate) fn write(request: &NeutralRequest, warnings: &mut Warnings) -> Result<Value, Fault> {
    let to = Dialect::Gemini;
    for (field, given) in [
        ("user", request.user.is_some()),
        ("verbosity", request.verbosity.is_some()),
        ("parallel_tool_calls", request.parallel_tool_calls == Some(false)),
        ("strict of tools", request.tools.iter().any(|tool| tool.strict == Some(true))),
    ] {
        if given {
            warnings.left_out(field, to);
        }
    }
    let mut body = Map::new();
    if !request.system.is_empty() {
        let parts: Vec<Value> = request.system.iter().map(|text| json!({"text": text})).collect();
        body.insert("systemInstruction".into(), json!({"parts": parts}));
    }
    body.insert("contents".into(), Value::Array(contents(request, warnings)?));
    if !request.tools.is_empty() {
        let functions = request.tools.iter().map(|tool| {
            let mut function = Map::new();
            function.insert("name".into(), tool.name.as_str().into());
            put(&mut function, "description", tool.description.as_deref());
            put(&mut function, "parametersJsonSchema", tool.parameters.clone());
            Value::Object(function)
        });
        let functions: Vec<Value> = functions.collect();
        body.insert("tools".into(), json!([{"functionDeclarations": functions}]));
    }
    let calling = request.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Named(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        ToolChoice::Allowed(names, true) => json!({"mode": "ANY", "allowedFunctionNames": names}),
        ToolChoice::Allowed(names, false) => json!({"mode": "VALIDATED", "allowedFunctionNames": names}),
    });
    if let Some(calling) = calling {
        body.insert("toolConfig".into(), json!({"functionCallingConfig": calling}));
    }
    let config = write_config(request)?;
    if !config.is_empty() {
        body.insert("generationConfig".into(), Value::Object(config));
    }
    put(&mut body, "labels", request.metadata.clone());
    let tier = request.service_tier.and_then(|tier| match tier {
        Tier::Auto => None,
        Tier::Standard => Some("standard"),
        Tier::Flex => Some("flex"),
        Tier::Priority => Some("priority"),
    });
    put(&mut body, "serviceTier", tier);
    Ok(Value::Object(body))
}

fn write_config(request: &NeutralRequest) -> Result<Map<String, Value>, Fault> {
    let mut config = Map::new();
    put(&mut config, "maxOutputTokens", request.max_tokens);
    put(&mut config, "temperature", request.temperature);
    put(&mut config, "topP", request.top_p);
    put(&mut config, "topK", request.top_k);
    put(&mut config, "presencePenalty", request.presence_penalty);
    put(&mut config, "frequencyPenalty", request.frequency_penalty);
    put(&mut config, "candidateCount", request.n);
    if let Some(seed) = request.seed {
        // Gemini's seeds have 32 bits.
        let seed = i32::try_from(seed).map_err(|_| {
            Fault::field("seed", format!("seed is {seed}; gemini takes {} to {}", i32::MIN, i32::MAX))
        })?;
        config.insert("seed".into(), seed.into());
    }
    if !request.stop.is_empty() {
        config.insert("stopSequences".into(), json!(request.stop));
    }
    if let Some(top) = request.logprobs {
        config.insert("responseLogprobs".into(), true.into());
        put(&mut config, "logprobs", (top > 0).then_some(top));
    }
    match &request.format {
        None => {}
        Some(Format::Json) => drop(config.insert("responseMimeType".into(), "application/json".into())),
        Some(Format::Schema { schema, .. }) => {
            config.insert("responseMimeType".into(), "application/json".into());
            config.insert("responseJsonSchema".into(), schema.clone());
        }
    }
    if let Some(reasoning) = &request.reasoning {
        let mut thinking = Map::new();
        put(&mut thinking, "includeThoughts", reasoning.show.filter(|_| !reasoning.off));
        if reasoning.off {
            thinking.insert("thinkingBudget".into(), 0.into());
        } else if let Some(budget) = reasoning.budget {
            thinking.insert("thinkingBudget".into(), budget.into());
        } else if let Some(effort) = &reasoning.effort {
            // Gemini's most is `XHIGH`.
            let level = if effort == "max" { "XHIGH".to_owned() } else { effort.to_ascii_uppercase() };
            thinking.insert("thinkingLevel".into(), level.into());
        }
        config.insert("thinkingConfig".into(), Value::Object(thinking));
    }
    Ok(config)
}

fn contents(request: &NeutralRequest, warnings: &mut Warnings) -> Result<Vec<Value>, Fault> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut out = Vec::with_capacity(request.turns.len());
    for turn in &request.turns {
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "model",
            Role::System => return Err(refuse("a system message after the first turn", Dialect::Gemini)),
        };
        for part in &turn.parts {
            if let Part::ToolCall(call) = part {
                names.push((call.id.clone(), call.name.clone()));
            }
        }
        let parts = parts::write_all(&turn.parts, &names, warnings)?;
        if !parts.is_empty() {
            out.push(json!({"role": role, "parts": parts}));
        }
    }
    Ok(out)
}
