//! Bodies of requests, by endpoint.

use hyper::body::Bytes;
use serde_json::{Map, Value, json};

use crate::Failure;

use super::dataset::{Conversation, Prompt, Turn};

/// What every request has in common.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) endpoint: Endpoint,
    pub(super) model: String,
    /// Put over the body's own fields.
    pub(super) extra: Map<String, Value>,
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) path: String,
    pub(super) api: Api,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Completions,
    /// Vectors, in one answer that is not streamed.
    Embeddings,
}

impl Endpoint {
    /// `chat`, `completions`, `embeddings`, or a path that ends in one of `/chat/completions`, `/completions` and
    /// `/embeddings`.
    ///
    /// # Errors
    /// Anything else.
    pub(super) fn parse(text: &str) -> Result<Endpoint, String> {
        let path = match text {
            "chat" => "/v1/chat/completions",
            "completions" => "/v1/completions",
            "embeddings" => "/v1/embeddings",
            path => path,
        };
        let ends = [
            ("/chat/completions", Api::Chat),
            ("/completions", Api::Completions),
            ("/embeddings", Api::Embeddings),
        ];
        match ends.into_iter().find(|(end, _)| path.starts_with('/') && path.ends_with(end)) {
            Some((_, api)) => Ok(Endpoint { path: path.to_owned(), api }),
            None => {
                Err("it is chat, completions, embeddings, or a path that ends in /completions or /embeddings"
                    .into())
            }
        }
    }

    /// vLLM's name of the kind.
    pub(super) fn backend(&self) -> &'static str {
        match self.api {
            Api::Chat => "openai-chat",
            Api::Completions => "openai",
            Api::Embeddings => "openai-embeddings",
        }
    }

    /// Whether vectors are asked for.
    pub(super) fn embeds(&self) -> bool {
        self.api == Api::Embeddings
    }
}

impl Style {
    /// The body that asks for turn `turn` of `conversation`, after `answers` to the turns before it.
    pub(super) fn body(&self, conversation: &Conversation, turn: usize, answers: &[String]) -> Bytes {
        let output_tokens = conversation.turns.get(turn).map_or(1, |turn| turn.output_tokens);
        let mut body = json!({
            "model": self.model,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        match self.endpoint.api {
            Api::Chat => {
                body["messages"] = messages(conversation, turn, answers);
                body["max_completion_tokens"] = output_tokens.into();
            }
            Api::Completions => {
                body["prompt"] = prompt(conversation, turn, answers);
                body["max_tokens"] = output_tokens.into();
            }
            Api::Embeddings => body = self.texts(conversation),
        }
        self.dress(body)
    }

    /// The body that asks for the vectors of all texts, which are the turns of a conversation.
    fn texts(&self, conversation: &Conversation) -> Value {
        let text = |turn: &Turn| match &turn.prompt {
            Prompt::Text(text) => json!(text),
            Prompt::Tokens(ids) => json!(ids),
        };
        let input: Vec<Value> = conversation.turns.iter().map(text).collect();
        json!({ "model": self.model, "input": input })
    }

    /// A body that asks for one token after `text`, not streamed: to see how long the server finds the prompt.
    pub(super) fn probe(&self, text: &str) -> Value {
        let mut body = json!({ "model": self.model });
        match self.endpoint.api {
            Api::Chat => {
                body["messages"] = json!([{ "role": "user", "content": text }]);
                body["max_completion_tokens"] = 1.into();
            }
            Api::Completions => {
                body["prompt"] = text.into();
                body["max_tokens"] = 1.into();
            }
            Api::Embeddings => body["input"] = text.into(),
        }
        body
    }

    fn dress(&self, mut body: Value) -> Bytes {
        if let Some(fields) = body.as_object_mut() {
            fields.extend(self.extra.clone());
        }
        Bytes::from(body.to_string())
    }
}

fn messages(conversation: &Conversation, turn: usize, answers: &[String]) -> Value {
    let mut messages = Vec::new();
    let mut say = |role: &str, content: &str| messages.push(json!({ "role": role, "content": content }));
    if let Some(system) = &conversation.system {
        say("system", system);
    }
    for (index, asked) in conversation.turns.iter().take(turn + 1).enumerate() {
        if let Prompt::Text(text) = &asked.prompt {
            say("user", text);
        }
        if let Some(answer) = answers.get(index).filter(|_| index < turn) {
            say("assistant", answer);
        }
    }
    messages.into()
}

/// Text one after the other, a line for each; token ids only stand alone.
fn prompt(conversation: &Conversation, turn: usize, answers: &[String]) -> Value {
    let mut lines: Vec<&str> = conversation.system.as_deref().into_iter().collect();
    for (index, asked) in conversation.turns.iter().take(turn + 1).enumerate() {
        match &asked.prompt {
            Prompt::Tokens(ids) => return json!(ids),
            Prompt::Text(text) => lines.push(text),
        }
        lines.extend(answers.get(index).filter(|_| index < turn).map(String::as_str));
    }
    lines.join("\n").into()
}

/// The fields over every body: sampling, then `--ignore-eos`, then `--extra-body`, the later over the earlier.
///
/// # Errors
/// An `--extra-body` that is no JSON object.
pub(super) fn extra(
    sampling: &[(&str, Option<f64>)],
    ignore_eos: bool,
    extra_body: Option<&str>,
) -> Result<Map<String, Value>, Failure> {
    let mut fields = Map::new();
    for (name, value) in sampling {
        if let Some(value) = value {
            // Servers take 40 for a count and refuse 40.0.
            #[expect(clippy::cast_possible_truncation, reason = "whole and small: exact")]
            let whole = (value.fract() == 0.0 && value.abs() < 1e9).then_some(*value as i64);
            fields.insert((*name).to_owned(), whole.map_or_else(|| json!(value), Value::from));
        }
    }
    if ignore_eos {
        fields.insert("ignore_eos".to_owned(), true.into());
    }
    if let Some(text) = extra_body {
        let more: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("--extra-body is no JSON object: {error}")))?;
        fields.extend(more);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(endpoint: &str, extra: Map<String, Value>) -> Style {
        Style { endpoint: Endpoint::parse(endpoint).unwrap(), model: "m".to_owned(), extra }
    }

    fn conversation() -> Conversation {
        let turn =
            |text: &str| Turn { prompt: Prompt::Text(text.to_owned()), input_tokens: 1, output_tokens: 5 };
        let turns = vec![turn("A"), turn("B")];
        Conversation { system: Some("S".to_owned()), system_tokens: 1, turns, ..Conversation::default() }
    }

    fn read(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn turns_carry_what_was_answered() {
        let answers = ["x".to_owned(), "never".to_owned()];
        let chat = read(&style("chat", Map::new()).body(&conversation(), 1, &answers));
        let said: Vec<(&str, &str)> = chat["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap()))
            .collect();
        assert_eq!(said, [("system", "S"), ("user", "A"), ("assistant", "x"), ("user", "B")]);
        assert_eq!((&chat["max_completion_tokens"], &chat["stream"]), (&5.into(), &true.into()));
        let completion = read(&style("completions", Map::new()).body(&conversation(), 1, &answers));
        assert_eq!(completion["prompt"], "S\nA\nx\nB");
        let first = read(&style("completions", Map::new()).body(&conversation(), 0, &answers));
        assert_eq!((&first["prompt"], &first["max_tokens"]), (&"S\nA".into(), &5.into()));
    }

    #[test]
    fn ids_are_sent_as_they_are() {
        let turn = Turn { prompt: Prompt::Tokens(vec![7, 9]), input_tokens: 2, output_tokens: 1 };
        let conversation = Conversation { turns: vec![turn], ..Conversation::default() };
        assert_eq!(
            read(&style("/v1/completions", Map::new()).body(&conversation, 0, &[]))["prompt"],
            json!([7, 9])
        );
    }

    #[test]
    fn later_fields_win() {
        let sampling =
            [("temperature", Some(0.0)), ("top_k", Some(40.0)), ("top_p", Some(0.95)), ("min_p", None)];
        let fields = extra(&sampling, true, Some(r#"{"ignore_eos": false, "model": "other"}"#)).unwrap();
        let body = read(&style("chat", fields).body(&conversation(), 0, &[]));
        assert_eq!(body["temperature"].to_string(), "0");
        assert_eq!((body["top_k"].to_string().as_str(), &body["top_p"]), ("40", &0.95.into()));
        assert_eq!((&body["ignore_eos"], &body["model"]), (&false.into(), &"other".into()));
        assert!(body.get("min_p").is_none());
        assert_eq!(extra(&[], false, Some("[1]")).unwrap_err().code, 2);
    }

    #[test]
    fn endpoints() {
        let api = |text| Endpoint::parse(text).unwrap().api;
        assert_eq!(api("chat"), Api::Chat);
        assert_eq!(api("/proxy/v1/chat/completions"), Api::Chat);
        assert_eq!(api("/v1/completions"), Api::Completions);
        assert!(Endpoint::parse("v1/completions").is_err() && Endpoint::parse("/v1/messages").is_err());
    }
}
