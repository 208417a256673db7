//! What kind of message a raw message is.

use std::ops::Range;

use memchr::memmem;

use crate::Dialect;
use crate::object::Object;
use crate::skim;

/// Whether a message gives a tool's result to the model.
pub(crate) fn is_tool_result(dialect: Dialect, message: &[u8]) -> bool {
    let Ok(message) = Object::walk(message, "") else { return false };
    let is = |name: &str, expected: &[&str]| {
        message.raw(name).is_some_and(|raw| expected.contains(&skim::text(raw).as_ref()))
    };
    match dialect {
        Dialect::OpenAiChat => is("role", &["tool", "function"]),
        // Results of tools are items of their own: `function_call_output`, `custom_tool_call_output`, …
        Dialect::OpenAiResponses => {
            message.raw("type").is_some_and(|raw| skim::text(raw).ends_with("_output"))
        }
        Dialect::Anthropic => message.raw("content").is_some_and(|raw| has_string(raw, "tool_result")),
        Dialect::Gemini => message
            .raw("parts")
            .is_some_and(|raw| has_string(raw, "functionResponse") || has_string(raw, "function_response")),
    }
}

/// Whether a message has an image, a sound or a file.
pub(crate) fn has_media(dialect: Dialect, body: &[u8], messages: &[Range<usize>]) -> bool {
    let names: &[&str] = match dialect {
        Dialect::OpenAiChat => &["image_url", "input_audio", "file"],
        Dialect::OpenAiResponses => &["input_image", "input_audio", "input_file"],
        Dialect::Anthropic => &["image", "document"],
        Dialect::Gemini => &["inlineData", "inline_data", "fileData", "file_data"],
    };
    // One search over all messages: they lie together.
    let from = messages.iter().map(|range| range.start).min().unwrap_or(0);
    let to = messages.iter().map(|range| range.end).max().unwrap_or(0);
    let text = body.get(from..to).unwrap_or_default();
    names.iter().any(|name| has_string(text, name))
}

/// Whether JSON text has a string that is exactly `name`, as key or value. Within a longer string, the quotes around the
/// name would be escaped.
fn has_string(json: &[u8], name: &str) -> bool {
    memmem::find(json, format!("\"{name}\"").as_bytes()).is_some()
}
