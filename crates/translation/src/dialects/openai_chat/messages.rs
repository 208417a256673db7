//! Messages, which requests and answers share.

use serde_json::{Map, Value, json};
use wire::Fault;

use crate::Dialect;
use crate::fields::{Fields, put, wrong};
use crate::neutral::{
    Media, MediaKind, NeutralRequest, Part, Role, Signature, Source, Thought, ToolCall, ToolResult, Turn,
    Warnings, split_id,
};

/// Reads a message into the request.
pub(crate) fn read(
    message: &Fields<'_>,
    request: &mut NeutralRequest,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    if message.get("name").is_some() && message.text("role")? != Some("tool") {
        warnings.add("names of messages are not translated");
    }
    match message.required("role")? {
        "system" | "developer" => {
            let parts = content(message)?;
            let text = only_text(message, parts)?;
            if request.turns.is_empty() {
                request.system.push(text);
            } else {
                request.turns.push(Turn { role: Role::System, parts: vec![Part::Text(text)] });
            }
        }
        "user" => request.turns.push(Turn { role: Role::User, parts: content(message)? }),
        "assistant" => request.turns.push(Turn { role: Role::Assistant, parts: assistant(message)? }),
        "tool" => {
            let result = Part::ToolResult(ToolResult {
                id: split_id(message.required("tool_call_id")?).0,
                name: message.owned("name")?,
                content: content(message)?,
                is_error: false,
            });
            // Results of calls that were made together belong to one turn.
            match request.turns.last_mut() {
                Some(turn) if turn.parts.iter().all(|part| matches!(part, Part::ToolResult(_))) => {
                    turn.parts.push(result);
                }
                _ => request.turns.push(Turn { role: Role::User, parts: vec![result] }),
            }
        }
        other => return Err(message.unknown("role", other, "system, developer, user, assistant, tool")),
    }
    Ok(())
}

/// The texts of parts, joined by newlines.
pub(crate) fn only_text(message: &Fields<'_>, parts: Vec<Part>) -> Result<String, Fault> {
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text(text) => texts.push(text),
            _ => return Err(Fault::unsupported(message.path("content"), "a system message has text only")),
        }
    }
    Ok(texts.join("\n"))
}

fn content(message: &Fields<'_>) -> Result<Vec<Part>, Fault> {
    match message.get("content") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::Text(text.clone())]),
        Some(Value::Array(_)) => message.objects("content")?.iter().map(read_part).collect(),
        Some(other) => Err(wrong(&message.path("content"), other, "a string or a list of parts")),
    }
}

fn read_part(part: &Fields<'_>) -> Result<Part, Fault> {
    match part.required("type")? {
        "text" => Ok(Part::Text(part.required("text")?.to_owned())),
        "refusal" => Ok(Part::Refusal(part.required("refusal")?.to_owned())),
        "image_url" => {
            let image = part.object("image_url")?.ok_or_else(|| Fault::missing(part.path("image_url")))?;
            Ok(Part::Media(Media {
                kind: MediaKind::Image,
                source: Source::of_url(image.required("url")?),
                detail: image.owned("detail")?,
                filename: None,
            }))
        }
        "input_audio" => {
            let audio =
                part.object("input_audio")?.ok_or_else(|| Fault::missing(part.path("input_audio")))?;
            let media_type = format!("audio/{}", audio.required("format")?);
            let source = Source::Data { media_type, data: audio.required("data")?.to_owned() };
            Ok(Part::Media(Media { kind: MediaKind::Audio, source, detail: None, filename: None }))
        }
        "file" => {
            let file = part.object("file")?.ok_or_else(|| Fault::missing(part.path("file")))?;
            if file.get("file_id").is_some() {
                let message = "files that a provider stores are not translated; send the file's data";
                return Err(Fault::unsupported(file.path("file_id"), message));
            }
            Ok(Part::Media(Media {
                kind: MediaKind::Document,
                source: Source::of_url(file.required("file_data")?),
                detail: None,
                filename: file.owned("filename")?,
            }))
        }
        other => Err(part.unknown("type", other, "text, refusal, image_url, input_audio, file")),
    }
}

fn assistant(message: &Fields<'_>) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::new();
    let signature = message.text("reasoning_signature")?;
    let thought = message.text(message.either(["reasoning_content", "reasoning"]))?.unwrap_or_default();
    if signature.is_some() || !thought.is_empty() {
        let redacted = signature.and_then(|text| text.strip_prefix("redacted:"));
        parts.push(Part::Thought(Thought {
            text: thought.to_owned(),
            signature: redacted.or(signature).map(|text| Signature::read(Dialect::OpenAiChat, text)),
            redacted: redacted.is_some(),
        }));
    }
    parts.extend(content(message)?.into_iter().filter(|part| *part != Part::Text(String::new())));
    if let Some(refusal) = message.owned("refusal")? {
        parts.push(Part::Refusal(refusal));
    }
    for call in message.objects("tool_calls")? {
        parts.push(Part::ToolCall(read_call(&call)?));
    }
    for name in ["function_call", "audio"] {
        if message.get(name).is_some() {
            let path = message.path(name);
            return Err(Fault::unsupported(path.clone(), format!("{path} is not translated")));
        }
    }
    Ok(parts)
}

/// A call of a message.
pub(crate) fn read_call(call: &Fields<'_>) -> Result<ToolCall, Fault> {
    if let Some(other) = call.text("type")?.filter(|kind| *kind != "function") {
        return Err(call.unknown("type", other, "function"));
    }
    let function = call.object("function")?.ok_or_else(|| Fault::missing(call.path("function")))?;
    let (id, signature) = split_id(call.text("id")?.unwrap_or_default());
    Ok(ToolCall {
        id,
        name: function.required("name")?.to_owned(),
        arguments: function.text("arguments")?.unwrap_or_default().to_owned(),
        signature,
    })
}

/// The messages of a request.
pub(crate) fn write_all(request: &NeutralRequest, warnings: &mut Warnings) -> Result<Vec<Value>, Fault> {
    let mut out: Vec<Value> =
        request.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
    for turn in &request.turns {
        match turn.role {
            Role::System => out.push(json!({"role": "system", "content": write_content(&turn.parts)?})),
            Role::User => user(&turn.parts, &mut out, warnings)?,
            Role::Assistant => out.push(Value::Object(write_message(&turn.parts, true, warnings))),
        }
    }
    Ok(out)
}

/// A user's turn: results of tools are messages of their own, which stand before the rest.
fn user(parts: &[Part], out: &mut Vec<Value>, warnings: &mut Warnings) -> Result<(), Fault> {
    let mut rest = Vec::new();
    for part in parts {
        let Part::ToolResult(result) = part else {
            rest.push(part.clone());
            continue;
        };
        if result.is_error {
            warnings.left_out("is_error of a tool's result", Dialect::OpenAiChat);
        }
        for media in result.media() {
            warnings.add("media of a tool's result are sent as a message of the user");
            rest.push(Part::Media(media.clone()));
        }
        out.push(json!({"role": "tool", "tool_call_id": result.id, "content": result.text()}));
    }
    if !rest.is_empty() {
        out.push(json!({"role": "user", "content": write_content(&rest)?}));
    }
    Ok(())
}

fn write_content(parts: &[Part]) -> Result<Value, Fault> {
    if let [Part::Text(text)] = parts {
        return Ok(text.as_str().into());
    }
    parts.iter().map(write_part).collect::<Result<Vec<Value>, Fault>>().map(Value::Array)
}

fn write_part(part: &Part) -> Result<Value, Fault> {
    match part {
        Part::Text(text) => Ok(json!({"type": "text", "text": text})),
        Part::Media(media) => write_media(media),
        Part::Refusal(_) | Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
            Err(Fault::unsupported("messages", "a user's message has texts and media only"))
        }
    }
}

fn write_media(media: &Media) -> Result<Value, Fault> {
    let url = media.source.url();
    match (media.kind, &media.source) {
        (MediaKind::Image, Source::Data { .. } | Source::Url { .. }) => {
            let mut image = Map::new();
            put(&mut image, "url", url);
            put(&mut image, "detail", media.detail.as_deref());
            Ok(json!({"type": "image_url", "image_url": image}))
        }
        (MediaKind::Audio, Source::Data { media_type, data }) => {
            let format = match media_type.strip_prefix("audio/").unwrap_or(media_type) {
                "mpeg" => "mp3",
                "x-wav" | "wave" => "wav",
                other => other,
            };
            Ok(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
        }
        (MediaKind::Document, Source::Data { .. }) => {
            let name = media.filename.as_deref().unwrap_or("document");
            Ok(json!({"type": "file", "file": {"filename": name, "file_data": url}}))
        }
        (MediaKind::Document, Source::Text(text)) => Ok(json!({"type": "text", "text": text})),
        _ => Err(Fault::unsupported("messages", "openai-chat takes no documents or sounds by URL")),
    }
}

/// An assistant's message. In requests (`history`), signatures of other providers' thoughts are left out, unless they are to
/// come back from a client.
pub(crate) fn write_message(parts: &[Part], history: bool, warnings: &mut Warnings) -> Map<String, Value> {
    let (mut text, mut thought, mut refusal) = (None::<String>, None::<String>, None::<String>);
    let (mut calls, mut signature) = (Vec::new(), None);
    let append = |to: &mut Option<String>, text: &str| to.get_or_insert_default().push_str(text);
    for part in parts {
        match part {
            Part::Text(more) => append(&mut text, more),
            Part::Refusal(more) => append(&mut refusal, more),
            Part::Thought(more) => {
                if !more.text.is_empty() {
                    append(&mut thought, &more.text);
                }
                signature = more.signature.as_ref().map(|signature| (signature, more.redacted));
            }
            Part::ToolCall(call) => calls.push(json!({
                "id": if history { call.id.clone() } else { call.signed_id() },
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })),
            Part::Media(_) => warnings.left_out("media of an assistant's message", Dialect::OpenAiChat),
            Part::ToolResult(_) => {
                warnings.left_out("a tool's result in an assistant's message", Dialect::OpenAiChat)
            }
        }
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), text.into());
    put(&mut message, "refusal", refusal);
    put(&mut message, "reasoning_content", thought);
    if let Some((signature, redacted)) = signature.filter(|_| !history) {
        let mark = if redacted { "redacted:" } else { "" };
        let text = format!("{mark}{}", signature.write(Dialect::OpenAiChat));
        message.insert("reasoning_signature".into(), text.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    message
}
