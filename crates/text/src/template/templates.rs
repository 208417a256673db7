//! The sources of a file's chat templates.

use serde_json::Value;

/// The templates of one model.
#[derive(Clone, Debug)]
pub(crate) struct Templates {
    pub(crate) default: String,
    /// The template for conversations with tools, if there is a separate one.
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
