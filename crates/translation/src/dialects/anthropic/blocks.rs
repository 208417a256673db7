//! Content blocks, which requests and answers share.

use serde_json::{Map, Value, json};
use wire::Fault;

use crate::Dialect;
use crate::fields::{Fields, put};
use crate::neutral::{
    Media, MediaKind, Part, Signature, Source, Thought, ToolCall, ToolResult, Warnings, split_id,
};

/// Reads blocks.
pub(crate) fn read_all(blocks: &[Fields<'_>], warnings: &mut Warnings) -> Result<Vec<Part>, Fault> {
    blocks.iter().map(|block| read(block, warnings)).collect()
}

fn read(block: &Fields<'_>, warnings: &mut Warnings) -> Result<Part, Fault> {
    if block.get("cache_control").is_some() {
        warnings.add("cache_control is not translated: other providers cache by themselves");
    }
    match block.required("type")? {
        "text" => Ok(Part::Text(block.required("text")?.to_owned())),
        "image" => Ok(Part::Media(Media {
            kind: MediaKind::Image,
            source: source(block)?,
            detail: None,
            filename: None,
        })),
        "document" => Ok(Part::Media(Media {
            kind: MediaKind::Document,
            source: source(block)?,
            detail: None,
            filename: block.owned("title")?,
        })),
        "thinking" => Ok(Part::Thought(Thought {
            text: block.text("thinking")?.unwrap_or_default().to_owned(),
            signature: signature(block.text("signature")?),
            redacted: false,
        })),
        "redacted_thinking" => Ok(Part::Thought(Thought {
            text: String::new(),
            signature: signature(Some(block.required("data")?)),
            redacted: true,
        })),
        "tool_use" => {
            let (id, signature) = split_id(block.required("id")?);
            let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
            let name = block.required("name")?.to_owned();
            Ok(Part::ToolCall(ToolCall { id, name, arguments: input.to_string(), signature }))
        }
        "tool_result" => Ok(Part::ToolResult(result(block, warnings)?)),
        other => Err(block.unknown(
            "type",
            other,
            "text, image, document, thinking, redacted_thinking, tool_use, tool_result",
        )),
    }
}

fn signature(text: Option<&str>) -> Option<Signature> {
    text.filter(|text| !text.is_empty()).map(|text| Signature::read(Dialect::Anthropic, text))
}

fn result(block: &Fields<'_>, warnings: &mut Warnings) -> Result<ToolResult, Fault> {
    let content = match block.get("content") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![Part::Text(text.clone())],
        Some(_) => read_all(&block.objects("content")?, warnings)?,
    };
    Ok(ToolResult {
        id: split_id(block.required("tool_use_id")?).0,
        name: None,
        content,
        is_error: block.flag("is_error")?.unwrap_or(false),
    })
}

fn source(block: &Fields<'_>) -> Result<Source, Fault> {
    let source = block.object("source")?.ok_or_else(|| Fault::missing(block.path("source")))?;
    match source.required("type")? {
        "base64" => Ok(Source::Data {
            media_type: source.required("media_type")?.to_owned(),
            data: source.required("data")?.to_owned(),
        }),
        "url" => Ok(Source::of_url(source.required("url")?)),
        "text" => Ok(Source::Text(source.required("data")?.to_owned())),
        other => Err(source.unknown("type", other, "base64, url, text")),
    }
}

/// Writes blocks of a request.
pub(crate) fn write_all(parts: &[Part], warnings: &mut Warnings) -> Result<Vec<Value>, Fault> {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            // Empty texts are an error there.
            Part::Text(text) | Part::Refusal(text) if text.is_empty() => {}
            Part::Text(text) | Part::Refusal(text) => out.push(json!({"type": "text", "text": text})),
            Part::Media(media) => out.push(write_media(media)?),
            Part::Thought(thought) => match &thought.signature {
                Some(signature) if signature.origin == Dialect::Anthropic => out.push(write_thought(thought)),
                _ => warnings.add("thoughts of other providers are left out: anthropic takes its own only"),
            },
            Part::ToolCall(call) => out.push(json!({
                "type": "tool_use", "id": call.id, "name": call.name, "input": call.object(),
            })),
            Part::ToolResult(result) => {
                let content = match result.content.as_slice() {
                    [Part::Text(text)] => Value::from(text.as_str()),
                    parts => Value::Array(write_all(parts, warnings)?),
                };
                let mut block = json!({"type": "tool_result", "tool_use_id": result.id, "content": content});
                if result.is_error {
                    block["is_error"] = true.into();
                }
                out.push(block);
            }
        }
    }
    Ok(out)
}

/// A thought's block; another provider's signature carries its origin, and comes back with it.
pub(crate) fn write_thought(thought: &Thought) -> Value {
    let signature = thought.signature.as_ref().map(|signature| signature.write(Dialect::Anthropic));
    let signature = signature.unwrap_or_default();
    if thought.redacted {
        json!({"type": "redacted_thinking", "data": signature})
    } else {
        json!({"type": "thinking", "thinking": thought.text, "signature": signature})
    }
}

fn write_media(media: &Media) -> Result<Value, Fault> {
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Document => "document",
        MediaKind::Audio => {
            return Err(Fault::unsupported("messages", "sounds cannot be translated: anthropic takes none"));
        }
    };
    let source = match &media.source {
        Source::Data { media_type, data } => {
            json!({"type": "base64", "media_type": media_type, "data": data})
        }
        Source::Url { url, .. } => json!({"type": "url", "url": url}),
        Source::Text(text) => json!({"type": "text", "media_type": "text/plain", "data": text}),
    };
    let mut block = Map::new();
    block.insert("type".into(), kind.into());
    block.insert("source".into(), source);
    if media.kind == MediaKind::Document {
        put(&mut block, "title", media.filename.as_deref());
    }
    Ok(Value::Object(block))
}
