//! Items of a request's input.

use serde_json::{Map, Value, json};
use wire::Fault;

use crate::Dialect;
use crate::fields::{Fields, put, wrong};
use crate::neutral::{
    Media, MediaKind, NeutralRequest, Part, Role, Signature, Source, Thought, ToolCall, ToolResult, Turn,
    Warnings, split_id,
};

/// Reads one item into the request.
pub(crate) fn read(item: &Fields<'_>, request: &mut NeutralRequest) -> Result<(), Fault> {
    match item.text("type")?.unwrap_or("message") {
        "message" => message(item, request),
        "function_call" => {
            let (id, signature) = split_id(item.required("call_id")?);
            append(
                request,
                Role::Assistant,
                Part::ToolCall(ToolCall {
                    id,
                    name: item.required("name")?.to_owned(),
                    arguments: item.text("arguments")?.unwrap_or_default().to_owned(),
                    signature,
                }),
            );
            Ok(())
        }
        "function_call_output" => {
            let content = match item.get("output") {
                None => Vec::new(),
                Some(Value::String(text)) => vec![Part::Text(text.clone())],
                Some(_) => item.objects("output")?.iter().map(part).collect::<Result<_, _>>()?,
            };
            append(
                request,
                Role::User,
                Part::ToolResult(ToolResult {
                    id: split_id(item.required("call_id")?).0,
                    name: None,
                    content,
                    is_error: false,
                }),
            );
            Ok(())
        }
        "reasoning" => {
            append(request, Role::Assistant, Part::Thought(read_thought(item)?));
            Ok(())
        }
        other => Err(item.unknown("type", other, "message, function_call, function_call_output, reasoning")),
    }
}

/// The thought of a reasoning item: its text, or else its summary.
pub(crate) fn read_thought(item: &Fields<'_>) -> Result<Thought, Fault> {
    let texts = |name: &str| -> Result<String, Fault> {
        let parts = item.objects(name)?;
        let texts: Result<Vec<&str>, Fault> = parts.iter().map(|part| part.required("text")).collect();
        Ok(texts?.join("\n\n"))
    };
    let content = texts("content")?;
    let text = if content.is_empty() { texts("summary")? } else { content };
    let encrypted = item.text("encrypted_content")?.filter(|text| !text.is_empty());
    // Another provider's thought that was encrypted whole says so behind its origin.
    let signature = encrypted.map(|text| Signature::read(Dialect::OpenAiResponses, text));
    let foreign = signature.as_ref().is_some_and(|signature| signature.origin != Dialect::OpenAiResponses);
    Ok(Thought { redacted: foreign && text.is_empty(), text, signature })
}

/// Adds a part to the turn that is being built: items of one role belong together.
fn append(request: &mut NeutralRequest, role: Role, part: Part) {
    match request.turns.last_mut() {
        Some(turn) if turn.role == role && joins(turn, &part) => turn.parts.push(part),
        _ => request.turns.push(Turn { role, parts: vec![part] }),
    }
}

/// Results join results; calls, thoughts and texts of the assistant join each other.
fn joins(turn: &Turn, part: &Part) -> bool {
    turn.role == Role::Assistant
        || matches!((turn.parts.last(), part), (Some(Part::ToolResult(_)), Part::ToolResult(_)))
}

fn message(item: &Fields<'_>, request: &mut NeutralRequest) -> Result<(), Fault> {
    let parts = match item.get("content") {
        None => return Err(Fault::missing(item.path("content"))),
        Some(Value::String(text)) => vec![Part::Text(text.clone())],
        Some(Value::Array(_)) => item.objects("content")?.iter().map(part).collect::<Result<_, _>>()?,
        Some(other) => return Err(wrong(&item.path("content"), other, "a string or a list of parts")),
    };
    match item.required("role")? {
        "user" => request.turns.push(Turn { role: Role::User, parts }),
        "assistant" => parts.into_iter().for_each(|part| append(request, Role::Assistant, part)),
        "system" | "developer" => {
            let text = crate::dialects::openai_chat::messages::only_text(item, parts)?;
            if request.turns.is_empty() {
                request.system.push(text);
            } else {
                request.turns.push(Turn { role: Role::System, parts: vec![Part::Text(text)] });
            }
        }
        other => return Err(item.unknown("role", other, "user, assistant, system, developer")),
    }
    Ok(())
}

fn part(part: &Fields<'_>) -> Result<Part, Fault> {
    if part.get("file_id").is_some() {
        let message = "files that a provider stores are not translated; send the file's data";
        return Err(Fault::unsupported(part.path("file_id"), message));
    }
    match part.required("type")? {
        "input_text" | "output_text" | "text" => Ok(Part::Text(part.required("text")?.to_owned())),
        "refusal" => Ok(Part::Refusal(part.required("refusal")?.to_owned())),
        "input_image" => Ok(Part::Media(Media {
            kind: MediaKind::Image,
            source: Source::of_url(part.required("image_url")?),
            detail: part.owned("detail")?,
            filename: None,
        })),
        "input_file" => {
            let url = match part.text("file_data")? {
                Some(data) => data,
                None => part.required("file_url")?,
            };
            let (source, filename) = (Source::of_url(url), part.owned("filename")?);
            Ok(Part::Media(Media { kind: MediaKind::Document, source, detail: None, filename }))
        }
        other => {
            Err(part.unknown("type", other, "input_text, output_text, refusal, input_image, input_file"))
        }
    }
}

/// The items of a request's turns.
pub(crate) fn write_all(request: &NeutralRequest, warnings: &mut Warnings) -> Result<Vec<Value>, Fault> {
    let mut out = Vec::with_capacity(request.turns.len());
    for turn in &request.turns {
        match turn.role {
            Role::System => out.push(json!({
                "type": "message", "role": "developer", "content": user_parts(&turn.parts)?,
            })),
            Role::User => {
                let (results, rest): (Vec<_>, Vec<_>) =
                    turn.parts.iter().cloned().partition(|part| matches!(part, Part::ToolResult(_)));
                for result in &results {
                    if let Part::ToolResult(result) = result {
                        out.push(write_result(result, warnings)?);
                    }
                }
                if !rest.is_empty() {
                    out.push(json!({"type": "message", "role": "user", "content": user_parts(&rest)?}));
                }
            }
            Role::Assistant => assistant(&turn.parts, &mut out, warnings),
        }
    }
    Ok(out)
}

fn write_result(result: &ToolResult, warnings: &mut Warnings) -> Result<Value, Fault> {
    if result.is_error {
        warnings.left_out("is_error of a tool's result", Dialect::OpenAiResponses);
    }
    let output = match result.media().next() {
        None => Value::from(result.text()),
        Some(_) => user_parts(&result.content)?,
    };
    Ok(json!({"type": "function_call_output", "call_id": result.id, "output": output}))
}

fn user_parts(parts: &[Part]) -> Result<Value, Fault> {
    parts.iter().map(user_part).collect::<Result<Vec<Value>, Fault>>().map(Value::Array)
}

fn user_part(part: &Part) -> Result<Value, Fault> {
    let Part::Media(media) = part else {
        return match part {
            Part::Text(text) => Ok(json!({"type": "input_text", "text": text})),
            _ => Err(Fault::unsupported("input", "a user's message has texts and media only")),
        };
    };
    let mut out = Map::new();
    match (media.kind, &media.source) {
        (MediaKind::Image, Source::Data { .. } | Source::Url { .. }) => {
            out.insert("type".into(), "input_image".into());
            put(&mut out, "image_url", media.source.url());
            put(&mut out, "detail", Some(media.detail.as_deref().unwrap_or("auto")));
        }
        (MediaKind::Document, Source::Data { .. }) => {
            out.insert("type".into(), "input_file".into());
            put(&mut out, "filename", Some(media.filename.as_deref().unwrap_or("document")));
            put(&mut out, "file_data", media.source.url());
        }
        (MediaKind::Document, Source::Url { url, .. }) => {
            out.insert("type".into(), "input_file".into());
            out.insert("file_url".into(), url.as_str().into());
        }
        (_, Source::Text(text)) => return Ok(json!({"type": "input_text", "text": text})),
        (MediaKind::Audio, _) => {
            let message = "sounds cannot be translated: openai-responses takes none";
            return Err(Fault::unsupported("input", message));
        }
    }
    Ok(Value::Object(out))
}

/// An assistant's turn: thoughts, texts and calls are items of their own. A text alone needs no id there.
fn assistant(parts: &[Part], out: &mut Vec<Value>, warnings: &mut Warnings) {
    for part in parts {
        match part {
            Part::Text(text) => out.push(json!({"type": "message", "role": "assistant", "content": text})),
            Part::Refusal(text) => out.push(json!({
                "type": "message", "id": format!("msg_{}", out.len()), "role": "assistant", "status": "completed",
                "content": [{"type": "refusal", "refusal": text}],
            })),
            Part::Thought(thought) => match &thought.signature {
                Some(signature) if signature.origin == Dialect::OpenAiResponses => {
                    let summary = [json!({"type": "summary_text", "text": thought.text})];
                    let summary = if thought.text.is_empty() { &summary[..0] } else { &summary };
                    // The id is required, and names nothing: the response was not stored.
                    out.push(json!({
                        "type": "reasoning", "id": format!("rs_{}", out.len()), "summary": summary,
                        "encrypted_content": signature.value,
                    }));
                }
                _ => warnings.add("thoughts of other providers are left out: openai-responses takes its own only"),
            },
            Part::ToolCall(call) => out.push(json!({
                "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments,
            })),
            Part::Media(_) | Part::ToolResult(_) => {
                warnings.left_out("media of an assistant's message", Dialect::OpenAiResponses);
            }
        }
    }
}
