//! Where templates come from, and what is done to one before it is compiled.

use fancy_regex::Regex;
use serde_json::{Map, Value};
use weights::gguf;
use weights::opened::{Metadata, Opened};

use super::methods::REVERSED;
use super::{ChatTemplate, MAX_SOURCE, TemplateError};
use crate::{Error, Tokenizer};

/// The templates of one model.
#[derive(Clone, Debug)]
pub(crate) struct Templates {
    pub(crate) default: String,
    /// Another one for when tools are offered.
    pub(crate) tool_use: Option<String>,
}

impl Templates {
    /// From `chat_template` of a tokenizer_config.json: a text, or a list of named ones.
    pub(crate) fn from_json(value: &Value) -> Option<Templates> {
        if let Some(source) = value.as_str() {
            return Some(Templates { default: source.to_owned(), tool_use: None });
        }
        let list = value.as_array()?;
        let source = |name: &str| {
            let entry = list.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?;
            Some(entry.get("template")?.as_str()?.to_owned())
        };
        Templates::from_names(source)
    }

    /// From a lookup by name.
    pub(crate) fn from_names(source: impl Fn(&str) -> Option<String>) -> Option<Templates> {
        let tool_use = source("tool_use");
        let default = source("default").or_else(|| tool_use.clone())?;
        Some(Templates { default, tool_use })
    }
}

/// Line ends as Jinja2 sees them; `{% generation %}`, which marks text for training, as a plain scope; `[::-1]` as a method
/// that knows empty lists (minijinja 2.24 reads past their end).
pub(super) fn prepare(source: &str) -> Result<String, TemplateError> {
    if source.len() > MAX_SOURCE {
        let message = format!("is {} bytes long; the limit is {MAX_SOURCE}", source.len());
        return Err(TemplateError::new(message));
    }
    // A byte order mark is the file's, not the template's.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let bad = |e: fancy_regex::Error| TemplateError::new(e.to_string());
    let reversed = Regex::new(r"\[\s*:\s*:\s*-\s*1\s*\]").map_err(bad)?;
    let begin = Regex::new(r"^(\{%[-+]?\s*)generation(\s*[-+]?%\})$").map_err(bad)?;
    let end = Regex::new(r"^(\{%[-+]?\s*)endgeneration(\s*[-+]?%\})$").map_err(bad)?;
    let mut out = String::with_capacity(source.len());
    for (is_code, piece) in pieces(&source) {
        if !is_code {
            out.push_str(piece);
            continue;
        }
        let piece = reversed.replace_all(piece, format!(".{REVERSED}()"));
        let piece = begin.replace(&piece, "${1}with${2}");
        out.push_str(&end.replace(&piece, "${1}endwith${2}"));
    }
    Ok(out)
}

/// Cuts a template into code (tags, without their string literals) and all else.
fn pieces(source: &str) -> Vec<(bool, &str)> {
    let bytes = source.as_bytes();
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut cut = |from: usize, to: usize, is_code: bool| {
        if from < to {
            pieces.push((is_code, source.get(from..to).unwrap_or_default()));
        }
        to
    };
    while at < bytes.len() {
        let close: &[u8] = match bytes.get(at..at + 2) {
            Some(b"{{") => b"}}",
            Some(b"{%") => b"%}",
            Some(b"{#") => {
                let len =
                    source.get(at..).and_then(|rest| rest.find("#}")).map_or(bytes.len() - at, |end| end + 2);
                at += len;
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        start = cut(start, at, false);
        at += 2;
        while at < bytes.len() && !bytes[at..].starts_with(close) {
            if let quote @ (b'"' | b'\'') = bytes[at] {
                start = cut(start, at, true);
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                start = cut(start, at, false);
            } else {
                at += 1;
            }
        }
        at = (at + 2).min(bytes.len());
        start = cut(start, at, true);
    }
    cut(start, bytes.len(), false);
    pieces
}

impl ChatTemplate {
    /// The template of an opened model, with the names of its control tokens. `None`: the file has none.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn open(opened: &Opened, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, Error> {
        match opened.metadata() {
            Metadata::Gguf(metadata) => from_gguf(metadata, tokenizer),
            Metadata::HuggingFace(files) => {
                let listed = files.tokenizer_config.as_ref().and_then(|config| config.get("chat_template"));
                let listed = listed.and_then(Templates::from_json);
                // The list, unless a file of its own overrides it.
                let file = files.chat_template.as_deref();
                let file = file.filter(|file| listed.as_ref().is_none_or(|listed| listed.default != *file));
                let template = ChatTemplate::from_parts(file, files.tokenizer_config.as_ref())?;
                let also = files.special_tokens_map.as_ref().and_then(Value::as_object).map(special_tokens);
                Ok(template.map(|mut template| {
                    for (name, token) in also.unwrap_or_default() {
                        template.tokens.entry(name).or_insert(token);
                    }
                    template
                }))
            }
        }
    }

    /// From the files of a Hugging Face directory: `chat_template.jinja` if there is one, else what
    /// `tokenizer_config.json` holds. `None`: the model has no template.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn from_parts(
        jinja: Option<&str>,
        tokenizer_config: Option<&Value>,
    ) -> Result<Option<ChatTemplate>, TemplateError> {
        let config = tokenizer_config.and_then(Value::as_object);
        let listed = || config.and_then(|config| config.get("chat_template")).and_then(Templates::from_json);
        let file = jinja.map(|source| Templates { default: source.to_owned(), tool_use: None });
        let Some(templates) = file.or_else(listed) else { return Ok(None) };
        let tokens = config.map(special_tokens).unwrap_or_default();
        if let Some(name) = name_only(&templates.default) {
            let begins = config.and_then(|config| config.get("add_bos_token")).and_then(Value::as_bool);
            return Ok(Some(ChatTemplate::by_name(name, begins)?.with_tokens(tokens)));
        }
        ChatTemplate::assemble(&templates, tokens).map(Some)
    }
}

fn from_gguf(metadata: &gguf::Metadata, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, Error> {
    const IDS: [(&str, &str); 7] = [
        ("bos_token", "bos"),
        ("eos_token", "eos"),
        ("unk_token", "unknown"),
        ("sep_token", "seperator"),
        ("pad_token", "padding"),
        ("cls_token", "cls"),
        ("mask_token", "mask"),
    ];
    let Some(default) = metadata.get_str("tokenizer.chat_template") else { return Ok(None) };
    let tool_use = metadata.get_str("tokenizer.chat_template.tool_use").map(str::to_owned);
    let token = |key: &str| {
        let id = metadata.get_u32(&format!("tokenizer.ggml.{key}_token_id"))?;
        tokenizer.token_text(id).map(Value::from)
    };
    let tokens: Map<String, Value> =
        IDS.iter().filter_map(|(name, key)| Some(((*name).to_owned(), token(key)?))).collect();
    if let Some(name) = name_only(default) {
        return Ok(Some(ChatTemplate::by_name(name, Some(tokenizer.adds_bos()))?.with_tokens(tokens)));
    }
    Ok(Some(ChatTemplate::assemble(&Templates { default: default.to_owned(), tool_use }, tokens)?))
}

/// The name that stands where a template should: one word, and nothing that a template would write with.
fn name_only(source: &str) -> Option<&str> {
    let name = source.strip_prefix('\u{feff}').unwrap_or(source).trim();
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    is_name.then_some(name)
}

/// `bos_token` and its like: a text, or an object with one.
fn special_tokens(config: &Map<String, Value>) -> Map<String, Value> {
    const NAMES: [&str; 7] =
        ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
    let text = |value: &Value| value.as_str().or_else(|| value.get("content")?.as_str()).map(Value::from);
    NAMES.iter().filter_map(|name| Some(((*name).to_owned(), text(config.get(*name)?)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{pieces, prepare};

    #[test]
    fn only_code_is_changed() {
        let source = "a[::-1]{{ x[::-1] ~ '[::-1] }}' }}{# {% generation %} #}{%- generation -%}b{% endgeneration %}\r\n";
        let want =
            "a[::-1]{{ x.__reversed__() ~ '[::-1] }}' }}{# {% generation %} #}{%- with -%}b{% endwith %}\n";
        assert_eq!(prepare(source).expect("prepares"), want);
    }

    #[test]
    fn pieces_put_together_are_the_source() {
        for source in ["", "{", "{{", "{%'", "{{ '\\", "{# x", "é{{ 'é' }}é", "{{ \"a\\\"b\" }}{%x%}"] {
            assert_eq!(pieces(source).iter().map(|(_, piece)| *piece).collect::<String>(), source);
        }
    }
}
