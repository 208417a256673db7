//! Loads chat templates from model files.

use serde_json::{Map, Value};
use weights::gguf;
use weights::opened::{Metadata, Opened};

use super::templates::Templates;
use super::{ChatTemplate, TemplateError};
use crate::{Error, Tokenizer};

impl ChatTemplate {
    /// The template of an opened model, with the names of its control tokens; `None` if the file has no template.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn open(opened: &Opened, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, Error> {
        match opened.metadata() {
            Metadata::Gguf(metadata) => from_gguf(metadata, tokenizer),
            Metadata::HuggingFace(files) => {
                let listed = files.tokenizer_config.as_ref().and_then(|config| config.get("chat_template"));
                let listed = listed.and_then(Templates::from_json);
                // The list of templates, unless a separate file overrides it.
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

/// The name in place of a template: a single word without Jinja syntax.
fn name_only(source: &str) -> Option<&str> {
    let name = source.strip_prefix('\u{feff}').unwrap_or(source).trim();
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    is_name.then_some(name)
}

/// The special tokens (`bos_token`, …), each a string or an object with one.
fn special_tokens(config: &Map<String, Value>) -> Map<String, Value> {
    const NAMES: [&str; 7] =
        ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
    let text = |value: &Value| value.as_str().or_else(|| value.get("content")?.as_str()).map(Value::from);
    NAMES.iter().filter_map(|name| Some(((*name).to_owned(), text(config.get(*name)?)?))).collect()
}
