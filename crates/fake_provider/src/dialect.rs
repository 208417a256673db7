//! Which API a request speaks, and what is read of it.

use crate::words::prompt_tokens;
use serde::Serialize;
use serde_json::Value;

/// An API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI `POST /v1/chat/completions`.
    Chat,
    /// OpenAI `POST /v1/completions`.
    Completions,
    /// OpenAI `POST /v1/embeddings`.
    Embeddings,
    /// OpenAI `POST /v1/responses`.
    Responses,
    /// Anthropic `POST /v1/messages`.
    Messages,
    /// Gemini `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`.
    Gemini,
}

/// A path that is served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) dialect: Dialect,
    /// The model, where the path names it.
    pub(crate) model: Option<String>,
    /// Gemini's method with a stream.
    pub(crate) stream: bool,
}

impl Route {
    /// The route of a path without its query. Paths of Azure OpenAI name the deployment.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let plain = |dialect| Some(Self { dialect, model: None, stream: false });
        if let Some(rest) = path.strip_prefix("/v1beta/models/").or_else(|| path.strip_prefix("/v1/models/"))
        {
            let (model, method) = rest.rsplit_once(':')?;
            let stream = match method {
                "generateContent" => false,
                "streamGenerateContent" => true,
                _ => return None,
            };
            return Some(Self { dialect: Dialect::Gemini, model: Some(model.to_owned()), stream });
        }
        if let Some(rest) = path.strip_prefix("/openai/deployments/") {
            let (model, operation) = rest.split_once('/')?;
            let route = Self::of(&format!("/v1/{operation}"))?;
            return Some(Self { model: Some(model.to_owned()), ..route });
        }
        let operation = ["/v1/", "/openai/v1/", "/"].iter().find_map(|prefix| path.strip_prefix(prefix))?;
        match operation {
            "chat/completions" => plain(Dialect::Chat),
            "completions" => plain(Dialect::Completions),
            "embeddings" => plain(Dialect::Embeddings),
            "responses" => plain(Dialect::Responses),
            "messages" => plain(Dialect::Messages),
            _ => None,
        }
    }
}

/// What is read of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// OpenAI's `stream_options.include_usage`.
    pub(crate) include_usage: bool,
    /// Gemini streams are a JSON array unless the query has `alt=sse`.
    pub(crate) array: bool,
    pub(crate) max_tokens: Option<usize>,
    /// The text of the prompt, system prompt first.
    pub(crate) prompt: String,
    /// The last text of the prompt.
    pub(crate) last: String,
    pub(crate) prompt_tokens: u64,
    /// Whether tools are offered and not forbidden.
    pub(crate) tools: bool,
    /// Whether log-probabilities are asked for.
    pub(crate) logprobs: bool,
    /// Texts to embed.
    pub(crate) inputs: Vec<String>,
    pub(crate) dimensions: Option<usize>,
    pub(crate) base64: bool,
}

/// Collects the texts of a value, in order: strings, and the fields of objects that hold text or further values.
fn texts<'a>(value: &'a Value, depth: usize, found: &mut Vec<&'a str>) {
    const FIELDS: [&str; 6] = ["content", "text", "parts", "input", "output", "arguments"];
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) if depth > 0 => values.iter().for_each(|value| texts(value, depth - 1, found)),
        Value::Object(fields) if depth > 0 => FIELDS
            .iter()
            .filter_map(|field| fields.get(*field))
            .for_each(|value| texts(value, depth - 1, found)),
        _ => {}
    }
}

impl Question {
    /// Reads a request; the error says what is wrong with it.
    pub(crate) fn read(route: &Route, query: &str, body: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(body).map_err(|e| format!("the body is not JSON: {e}"))?;
        let model = route.model.clone().or_else(|| value["model"].as_str().map(str::to_owned));
        let model = model.ok_or("you must provide a model parameter")?;
        const PROMPT: [&str; 8] = [
            "instructions",
            "system",
            "systemInstruction",
            "system_instruction",
            "messages",
            "contents",
            "prompt",
            "input",
        ];
        let mut found = Vec::new();
        PROMPT.iter().filter_map(|field| value.get(field)).for_each(|value| texts(value, 6, &mut found));
        if found.is_empty() {
            return Err("the request has no prompt: messages, contents, prompt or input".to_owned());
        }
        let limit = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
        let limit = limit.iter().find_map(|field| value[field].as_u64());
        let generation = &value["generationConfig"];
        let max_tokens = limit.or_else(|| generation["maxOutputTokens"].as_u64());
        if route.dialect == Dialect::Messages && max_tokens.is_none() {
            return Err("max_tokens: Field required".to_owned());
        }
        let prompt = found.concat();
        let offered = value["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let embeds = route.dialect == Dialect::Embeddings;
        Ok(Self {
            model,
            stream: route.stream || value["stream"].as_bool().unwrap_or(false),
            include_usage: value["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            array: route.stream && !query.split('&').any(|pair| pair == "alt=sse"),
            max_tokens: max_tokens.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            prompt_tokens: prompt_tokens(&prompt),
            last: found.last().map(|&text| text.to_owned()).unwrap_or_default(),
            logprobs: value["logprobs"] == true,
            tools: offered && value["tool_choice"] != "none",
            inputs: if embeds { found.iter().map(|&text| text.to_owned()).collect() } else { Vec::new() },
            dimensions: value["dimensions"]
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .filter(|&n| n <= 4_096),
            base64: value["encoding_format"] == "base64",
            prompt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(path: &str, body: &str) -> Question {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Question::read(&Route::of(path).unwrap(), query, body.as_bytes()).unwrap()
    }

    #[test]
    fn one_conversation_in_four_dialects_is_one_prompt() {
        let chat = r#"{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"Q"}]}]}"#;
        let responses = r#"{"model":"m","instructions":"S","input":[{"role":"user","content":[{"type":"input_text","text":"Q"}]}]}"#;
        let messages =
            r#"{"model":"m","max_tokens":9,"system":"S","messages":[{"role":"user","content":"Q"}]}"#;
        let gemini = r#"{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[{"role":"user","parts":[{"text":"Q"}]}]}"#;
        for (path, body) in [
            ("/v1/chat/completions", chat),
            ("/openai/deployments/m/chat/completions", chat),
            ("/v1/responses", responses),
            ("/v1/messages", messages),
            ("/v1beta/models/m:generateContent", gemini),
        ] {
            let question = question(path, body);
            assert_eq!((question.prompt.as_str(), question.last.as_str()), ("SQ", "Q"), "{path}");
            assert_eq!(question.model, "m", "{path}");
        }
    }

    #[test]
    fn gemini_streams_are_arrays_unless_events_are_asked_for() {
        let body = r#"{"contents":[{"parts":[{"text":"Q"}]}]}"#;
        assert!(question("/v1beta/models/m:streamGenerateContent", body).array);
        let events = question("/v1beta/models/m:streamGenerateContent?key=k&alt=sse", body);
        assert!(events.stream && !events.array);
    }

    #[test]
    fn other_paths_are_not_served() {
        for path in ["/", "/v1/nothing", "/v1/models/m:countTokens", "/v1/models/m"] {
            assert_eq!(Route::of(path), None, "{path}");
        }
    }
}
