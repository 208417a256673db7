//! Parts, which requests and answers share.

use serde_json::{Map, Value, json};
use wire::Fault;
use wire::error::quote;

use crate::Dialect;
use crate::fields::{Fields, put};
use crate::neutral::{Media, MediaKind, Part, Signature, Source, Thought, ToolCall, ToolResult, Warnings};

/// Gives calls without an id one, and their results the same. Gemini matches them by name and order.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    made: usize,
    /// Calls that have no result yet: name and id.
    open: Vec<(String, String)>,
}

impl CallIds {
    fn call(&mut self, id: Option<&str>, name: &str) -> String {
        let id = id.filter(|id| !id.is_empty()).map_or_else(
            || {
                self.made += 1;
                format!("call_{}", self.made)
            },
            str::to_owned,
        );
        self.open.push((name.to_owned(), id.clone()));
        id
    }

    fn result(&mut self, id: Option<&str>, name: &str) -> String {
        let of = |open: &(String, String)| match id {
            Some(id) if !id.is_empty() => open.1 == id,
            _ => open.0 == name,
        };
        match (self.open.iter().position(of), id) {
            (Some(at), _) => self.open.remove(at).1,
            (None, Some(id)) if !id.is_empty() => id.to_owned(),
            (None, _) => {
                self.made += 1;
                format!("call_{}", self.made)
            }
        }
    }
}

/// Reads parts; those that another part's signature stands in are merged with it.
pub(crate) fn read_all(
    content: &Fields<'_>,
    ids: &mut CallIds,
    warnings: &mut Warnings,
) -> Result<Vec<Part>, Fault> {
    let mut out = Vec::new();
    for part in content.objects("parts")? {
        read(&part, ids, warnings, &mut out)?;
    }
    Ok(out)
}

fn read(
    part: &Fields<'_>,
    ids: &mut CallIds,
    warnings: &mut Warnings,
    out: &mut Vec<Part>,
) -> Result<(), Fault> {
    let signature = part.text(part.either(["thoughtSignature", "thought_signature"]))?;
    let signature = signature.map(|text| Signature::read(Dialect::Gemini, text));
    let camel = [
        ["inlineData", "inline_data"],
        ["fileData", "file_data"],
        ["functionCall", "function_call"],
        ["functionResponse", "function_response"],
    ]
    .map(|names| part.either(names));
    if let Some(call) = part.object(camel[2])? {
        let name = call.required("name")?.to_owned();
        let id = ids.call(call.text("id")?, &name);
        let arguments = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
        out.push(Part::ToolCall(ToolCall { id, name, arguments, signature }));
    } else if let Some(response) = part.object(camel[3])? {
        let name = response.required("name")?.to_owned();
        let id = ids.result(response.text("id")?, &name);
        out.push(Part::ToolResult(read_result(&response, id, name)?));
    } else if let Some(blob) = part.object(camel[0])? {
        let media_type = blob.required(blob.either(["mimeType", "mime_type"]))?.to_ascii_lowercase();
        let data = blob.required("data")?.to_owned();
        out.push(Part::Media(media(Source::Data { media_type: media_type.clone(), data }, &media_type)));
    } else if let Some(file) = part.object(camel[1])? {
        let media_type = file.owned(file.either(["mimeType", "mime_type"]))?;
        let url = file.required(file.either(["fileUri", "file_uri"]))?.to_owned();
        let kind = media_type.clone().unwrap_or_default();
        out.push(Part::Media(media(Source::Url { url, media_type }, &kind)));
    } else if let Some(text) = part.text("text")? {
        if part.flag("thought")?.unwrap_or(false) {
            out.push(Part::Thought(Thought { text: text.to_owned(), signature, redacted: false }));
        } else {
            if let Some(signature) = signature {
                out.push(Part::Thought(Thought {
                    text: String::new(),
                    signature: Some(signature),
                    redacted: false,
                }));
            }
            if !text.is_empty() {
                out.push(Part::Text(text.to_owned()));
            }
        }
    } else {
        skip_unknown(part, warnings)?;
    }
    Ok(())
}

/// Leaves out parts of code that Gemini ran; refuses other unknown ones.
fn skip_unknown(part: &Fields<'_>, warnings: &mut Warnings) -> Result<(), Fault> {
    let kind = part.names().next().unwrap_or("nothing");
    if !matches!(kind, "executableCode" | "codeExecutionResult") {
        return Err(Fault::unsupported(
            part.path(""),
            format!(
                "{} has {}; translated are: text, inlineData, fileData, functionCall, functionResponse",
                part.path(""),
                quote(kind)
            ),
        ));
    }
    warnings.add("parts of code that Gemini ran are left out");
    Ok(())
}

fn media(source: Source, media_type: &str) -> Media {
    let kind = match media_type.split('/').next().unwrap_or_default() {
        "image" => MediaKind::Image,
        "audio" => MediaKind::Audio,
        _ => MediaKind::Document,
    };
    Media { kind, source, detail: None, filename: None }
}

/// The result's text: that of `output`, `result` or `error` if there is nothing else, or the whole object as JSON.
fn read_result(response: &Fields<'_>, id: String, name: String) -> Result<ToolResult, Fault> {
    let object = response.object("response")?;
    let object = object.as_ref().map(Fields::map);
    let only = object.filter(|object| object.len() == 1).and_then(|object| object.iter().next());
    let (text, is_error) = match (only, object) {
        (Some((key, Value::String(text))), _) if matches!(key.as_str(), "output" | "result" | "error") => {
            (text.clone(), key == "error")
        }
        (_, Some(object)) => (Value::Object(object.clone()).to_string(), false),
        (_, None) => (String::new(), false),
    };
    Ok(ToolResult { id, name: Some(name), content: vec![Part::Text(text)], is_error })
}

/// Writes parts. `names` are those of the calls, by id.
pub(crate) fn write_all(
    parts: &[Part],
    names: &[(String, String)],
    warnings: &mut Warnings,
) -> Result<Vec<Value>, Fault> {
    let mut out = Vec::with_capacity(parts.len());
    let mut held: Option<String> = None;
    for part in parts {
        let mut value = match part {
            Part::Text(text) | Part::Refusal(text) => json!({"text": text}),
            Part::Media(media) => write_media(media, warnings)?,
            Part::Thought(thought) => match &thought.signature {
                // A signature without a thought belongs to the part that follows.
                Some(signature) if signature.origin == Dialect::Gemini && thought.text.is_empty() => {
                    held = Some(signature.value.clone());
                    continue;
                }
                Some(signature) if signature.origin == Dialect::Gemini => {
                    json!({"text": thought.text, "thought": true, "thoughtSignature": signature.value})
                }
                Some(_) | None => {
                    warnings.add("thoughts of other providers are left out: gemini takes its own only");
                    continue;
                }
            },
            Part::ToolCall(call) => write_call(call, false),
            Part::ToolResult(result) => {
                for media in result.media() {
                    out.push(write_media(media, warnings)?);
                }
                write_result(result, names)
            }
        };
        if let Some(signature) = held.take() {
            value["thoughtSignature"] = signature.into();
        }
        out.push(value);
    }
    Ok(out)
}

/// A call's part. In answers (`signed`), ids carry signatures of others, and back.
pub(crate) fn write_call(call: &ToolCall, signed: bool) -> Value {
    let mut function = Map::new();
    let own = call.signature.as_ref().filter(|signature| signature.origin == Dialect::Gemini);
    let id = if signed && own.is_none() { call.signed_id() } else { call.id.clone() };
    put(&mut function, "id", (!id.is_empty()).then_some(id));
    function.insert("name".into(), call.name.as_str().into());
    function.insert("args".into(), Value::Object(call.object()));
    let mut part = json!({"functionCall": function});
    if let Some(signature) = own {
        part["thoughtSignature"] = signature.value.as_str().into();
    }
    part
}

fn write_result(result: &ToolResult, names: &[(String, String)]) -> Value {
    let known = names.iter().rev().find(|(id, _)| *id == result.id).map(|(_, name)| name.as_str());
    let name = result.name.as_deref().or(known).unwrap_or("unknown");
    let text = result.text();
    let response = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(object)) if !result.is_error => Value::Object(object),
        _ if result.is_error => json!({"error": text}),
        _ => json!({"output": text}),
    };
    json!({"functionResponse": {"id": result.id, "name": name, "response": response}})
}

fn write_media(media: &Media, warnings: &mut Warnings) -> Result<Value, Fault> {
    match &media.source {
        Source::Data { media_type, data } => {
            Ok(json!({"inlineData": {"mimeType": media_type, "data": data}}))
        }
        Source::Url { url, media_type } => {
            let media_type = match media_type {
                Some(media_type) => media_type.clone(),
                None => guess(url, media.kind, warnings),
            };
            Ok(json!({"fileData": {"mimeType": media_type, "fileUri": url}}))
        }
        Source::Text(text) => Ok(json!({"text": text})),
    }
}

/// The media type by the ending of a URL's path, which Gemini asks for.
fn guess(url: &str, kind: MediaKind, warnings: &mut Warnings) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let ending = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let known = match ending.as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        "heic" => Some("image/heic"),
        "pdf" => Some("application/pdf"),
        "wav" => Some("audio/wav"),
        "mp3" => Some("audio/mp3"),
        _ => None,
    };
    let guessed = known.unwrap_or(match kind {
        MediaKind::Image => "image/jpeg",
        MediaKind::Audio => "audio/wav",
        MediaKind::Document => "application/pdf",
    });
    if known.is_none() {
        warnings.add(format!("the media type of a URL is not known: {guessed} is sent"));
    }
    guessed.to_owned()
}
