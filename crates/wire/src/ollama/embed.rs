//! `POST /api/embed` and the older `/api/embeddings`.

use super::options::Options;
use super::time::KeepAlive;
use crate::error::Fault;
use crate::fields::Fields;
use crate::inputs::{EncoderOptions, Length, TextInput, Truncation, dimensions, texts};
use crate::request_fields::Route;
use crate::vectors::{push_floats, push_json, push_list};
use crate::{json, limits};

/// A validated request.
#[derive(Debug, Clone, PartialEq)]
pub struct OllamaEmbedRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The texts; with none, the model is only loaded, or with a `keep_alive` of 0 unloaded.
    pub inputs: Vec<TextInput>,
    /// The limit of length.
    pub length: Length,
    /// Numbers to keep of each vector; none is all.
    pub dimensions: Option<usize>,
    /// How long the model stays loaded after it.
    pub keep_alive: Option<KeepAlive>,
}

impl OllamaEmbedRequest {
    /// Parses a body of `/api/embed`.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse_embed(body: &[u8]) -> Result<OllamaEmbedRequest, Fault> {
        OllamaEmbedRequest::parse(body, "input", Route::OllamaEmbed)
    }

    /// Parses a body of `/api/embeddings`.
    ///
    /// # Errors
    /// As [`OllamaEmbedRequest::parse_embed`].
    pub fn parse_embeddings(body: &[u8]) -> Result<OllamaEmbedRequest, Fault> {
        OllamaEmbedRequest::parse(body, "prompt", Route::OllamaEmbeddings)
    }

    fn parse(body: &[u8], name: &str, route: Route) -> Result<OllamaEmbedRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        let mut options = EncoderOptions::read(&body, route)?;
        options.warnings.extend(Options::read(&body)?.warnings);
        let texts = match body.get(name) {
            None => Vec::new(),
            Some(list) if list.as_array().is_some_and(Vec::is_empty) => Vec::new(),
            Some(_) if route == Route::OllamaEmbeddings => {
                body.text(name, usize::MAX)?.map(str::to_owned).into_iter().collect()
            }
            Some(_) => texts(&body, name, limits::INPUTS)?.0,
        };
        // An empty text stands for no text, as an empty prompt does.
        let only_empty = matches!(texts.as_slice(), [text] if text.is_empty());
        let texts = if only_empty { Vec::new() } else { texts };
        let cut = body.boolean("truncate")?.unwrap_or(true);
        Ok(OllamaEmbedRequest {
            options,
            inputs: texts.into_iter().map(TextInput::Text).collect(),
            length: Length::of_model(if cut { Truncation::End } else { Truncation::Refuse }),
            dimensions: dimensions(&body, "dimensions")?,
            keep_alive: KeepAlive::read(&body)?,
        })
    }
}

/// The answer of `/api/embed`; times are in nanoseconds.
pub fn embed_answer<'a>(
    model: &str,
    vectors: impl IntoIterator<Item = &'a [f32]>,
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: usize,
) -> Vec<u8> {
    let mut out = br#"{"model":"#.to_vec();
    push_json(&mut out, model);
    out.extend_from_slice(br#","embeddings":"#);
    push_list(&mut out, vectors, push_floats);
    for (name, value) in [("total_duration", total_duration), ("load_duration", load_duration)] {
        out.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
    }
    out.extend_from_slice(format!(",\"prompt_eval_count\":{prompt_eval_count}}}").as_bytes());
    out
}

/// The answer of `/api/embeddings`.
pub fn embeddings_answer(vector: &[f32]) -> Vec<u8> {
    let mut out = br#"{"embedding":"#.to_vec();
    push_floats(&mut out, vector);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_are_read() {
        let read = |body: Value| OllamaEmbedRequest::parse_embed(body.to_string().as_bytes());
        let request = json!({"model": "m:latest", "input": ["a", "b"], "truncate": false, "dimensions": 8,
            "keep_alive": 0, "options": {"num_ctx": 512, "temperature": 0.5}});
        let request = read(request).unwrap();
        assert_eq!((request.inputs.len(), request.length.truncation), (2, Truncation::Refuse));
        assert!(request.keep_alive.unwrap().unloads());
        for none in
            [json!({"model": "m"}), json!({"input": ""}), json!({"input": []}), json!({"input": [""]})]
        {
            assert!(read(none.clone()).unwrap().inputs.is_empty(), "{none}");
        }
        assert_eq!(read(json!({"input": ["a", ""]})).unwrap().inputs.len(), 2);
        let older = OllamaEmbedRequest::parse_embeddings(br#"{"model": "m", "prompt": "a"}"#).unwrap();
        assert_eq!((older.inputs.len(), older.length.truncation), (1, Truncation::End));
        assert!(OllamaEmbedRequest::parse_embeddings(br#"{"prompt": ["a"]}"#).is_err());
        for (name, value, at) in [
            ("input", json!([5]), "input[0]"),
            ("input", json!(5), "input"),
            ("truncate", json!("END"), "truncate"),
            ("keep_alive", json!("soon"), "keep_alive"),
            ("options", json!({"temperature": "hot"}), "options.temperature"),
        ] {
            let mut body = json!({"input": "a"});
            body[name] = value;
            assert_eq!(read(body).unwrap_err().param.as_deref(), Some(at));
        }
    }

    #[test]
    fn answers_are_ollamas() {
        let vectors: [&[f32]; 1] = [&[0.5, 1.0]];
        let said: Value = serde_json::from_slice(&embed_answer("m", vectors, 7, 3, 2)).unwrap();
        let wanted = json!({"model": "m", "embeddings": [[0.5, 1.0]], "total_duration": 7, "load_duration": 3,
            "prompt_eval_count": 2});
        assert_eq!(said, wanted);
        assert_eq!(embeddings_answer(&[0.5]), b"{\"embedding\":[0.5]}");
    }
}
