//! What lists and shows models: `/api/tags`, `/api/ps`, `/api/show`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Fault;
use crate::fields::Fields;
use crate::{json, limits};

/// What a model's file is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    /// Always empty: models are not derived from others here.
    pub parent_model: &'static str,
    /// `gguf` or `safetensors`.
    pub format: String,
    /// The family's name, such as `llama`.
    pub family: String,
    /// The same, as a list.
    pub families: Vec<String>,
    /// Parameters, such as `1.5B`.
    pub parameter_size: String,
    /// The format of most weights, such as `Q4_K`.
    pub quantization_level: String,
}

impl Details {
    /// Those of a model of this family, with so many parameters.
    pub fn new(format: &str, family: &str, parameters: u64, quantization: &str) -> Details {
        Details {
            parent_model: "",
            format: format.to_owned(),
            family: family.to_owned(),
            families: vec![family.to_owned()],
            parameter_size: parameter_size(parameters),
            quantization_level: quantization.to_owned(),
        }
    }
}

/// A count in millions or billions, as Ollama writes it: `134.52M`, `1.5B`.
fn parameter_size(parameters: u64) -> String {
    let count = parameters as f64;
    match parameters {
        1_000_000_000.. => format!("{:.1}B", count / 1e9),
        1_000_000.. => format!("{:.2}M", count / 1e6),
        1_000.. => format!("{:.2}K", count / 1e3),
        few => few.to_string(),
    }
}

/// A name with Ollama's tag: clients look for `NAME:latest` where they were told `NAME`.
pub fn tagged(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') { name.to_owned() } else { format!("{name}:latest") }
}

/// A model in `/api/tags`.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// The name, with a tag.
    pub name: String,
    /// The same.
    pub model: String,
    /// When it was loaded, RFC 3339.
    pub modified_at: String,
    /// Bytes of its weights in the file.
    pub size: u64,
    /// 64 hex digits that tell models apart.
    pub digest: String,
    /// What its file is.
    pub details: Details,
    /// What it can do.
    pub capabilities: Vec<&'static str>,
}

/// A model in `/api/ps`.
#[derive(Debug, Clone, Serialize)]
pub struct Running {
    /// The name, with a tag.
    pub name: String,
    /// The same.
    pub model: String,
    /// Bytes of its weights.
    pub size: u64,
    /// 64 hex digits that tell models apart.
    pub digest: String,
    /// What its file is.
    pub details: Details,
    /// When it will be unloaded, RFC 3339; centuries ahead for one that stays.
    pub expires_at: String,
    /// Always 0: there is no GPU.
    pub size_vram: u64,
    /// Tokens that a request may have, answer included.
    pub context_length: usize,
}

/// The answer of `/api/show`.
#[derive(Debug, Clone, Serialize)]
pub struct Show {
    /// Always a comment: models are not made from such files here.
    pub modelfile: String,
    /// Always empty: a request's options have no other defaults for one model than for another.
    pub parameters: &'static str,
    /// The chat template, in Jinja's language.
    pub template: String,
    /// What its file is.
    pub details: Details,
    /// Figures under the names of a GGUF's metadata.
    pub model_info: Map<String, Value>,
    /// What it can do.
    pub capabilities: Vec<&'static str>,
    /// When it was loaded, RFC 3339.
    pub modified_at: String,
}

/// A request for `/api/show`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowRequest {
    /// The model's name, under either of two names.
    pub model: String,
}

impl ShowRequest {
    /// Reads a body; what is neither `model` nor `name` is ignored. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// When neither is there.
    pub fn parse(body: &[u8]) -> Result<ShowRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        for name in ["model", "name"] {
            if let Some(model) = body.text(name, limits::BODY_BYTES)?.filter(|model| !model.is_empty()) {
                return Ok(ShowRequest { model: model.to_owned() });
            }
        }
        Err(Fault::missing("model"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_tag_and_counts_a_unit() {
        for (name, with) in [
            ("tiny", "tiny:latest"),
            ("tiny:q4", "tiny:q4"),
            ("org/tiny", "org/tiny:latest"),
            ("host:80/org/tiny", "host:80/org/tiny:latest"),
        ] {
            assert_eq!(tagged(name), with);
        }
        for (count, shown) in [
            (7, "7"),
            (26_000, "26.00K"),
            (134_515_008, "134.52M"),
            (1_543_714_304, "1.5B"),
            (8_030_261_248, "8.0B"),
        ] {
            assert_eq!(parameter_size(count), shown);
        }
    }
}
