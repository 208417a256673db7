//! `POST /v1/embed` and `/v2/embed`, Cohere's; its rerank is in [`crate::rerank`].

use serde_json::{Value, json};

use crate::error::Fault;
use crate::fields::{Fields, show, wrong};
use crate::inputs::{self, EncoderOptions, InputPrompt, Length, Truncation, choice, dimensions, text_list};
use crate::request_fields::Route;
use crate::rerank::Meta;
use crate::usage::EncoderUsage;
use crate::vectors::{VectorFormat, push_json, push_list};
use crate::{json as body_json, limits};

/// A validated request.
#[derive(Debug, Clone, PartialEq)]
pub struct CohereEmbedRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The texts.
    pub texts: Vec<String>,
    /// The text before each input, by `input_type`.
    pub prompt: InputPrompt,
    /// The limit of length.
    pub length: Length,
    /// Numbers to keep of each vector; none is all.
    pub dimensions: Option<usize>,
    /// How vectors are written; empty is the older answer with a list of floats.
    pub formats: Vec<VectorFormat>,
}

impl CohereEmbedRequest {
    /// Parses a body of `/v1/embed`.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse_v1(body: &[u8]) -> Result<CohereEmbedRequest, Fault> {
        CohereEmbedRequest::parse(body)
    }

    /// Parses a body of `/v2/embed`, whose answer has types.
    ///
    /// # Errors
    /// As [`CohereEmbedRequest::parse_v1`].
    pub fn parse_v2(body: &[u8]) -> Result<CohereEmbedRequest, Fault> {
        let mut request = CohereEmbedRequest::parse(body)?;
        if request.formats.is_empty() {
            request.formats.push(VectorFormat::Float);
        }
        Ok(request)
    }

    fn parse(body: &[u8]) -> Result<CohereEmbedRequest, Fault> {
        let value = body_json::read(body)?;
        let body = Fields::body(&value)?;
        let options = EncoderOptions::read(&body, Route::CohereEmbed)?;
        Ok(CohereEmbedRequest {
            options,
            texts: texts(&body)?,
            prompt: prompt(&body)?,
            length: Length {
                tokens: body.count("max_tokens", 1..=limits::TOKENS)?,
                truncation: inputs::truncate(&body, true)?.unwrap_or(Truncation::End),
            },
            dimensions: dimensions(&body, "output_dimension")?,
            formats: formats(&body)?,
        })
    }
}

/// `texts`, or `inputs` whose content is text.
fn texts(body: &Fields<'_>) -> Result<Vec<String>, Fault> {
    let name = "inputs";
    let Some(list) = body.list(name, limits::INPUTS)?.filter(|list| !list.is_empty()) else {
        return text_list(body, "texts", limits::INPUTS);
    };
    if body.get("texts").is_some() {
        return Err(Fault::field(name, "texts and inputs are given; give one of them"));
    }
    let read = |(i, input): (usize, &Value)| {
        let input = Fields::at(input, format!("{name}[{i}]"))?;
        let parts = input.list("content", limits::PARTS)?.unwrap_or_default();
        if parts.is_empty() {
            return Err(Fault::missing(input.param("content")));
        }
        let texts =
            parts.iter().enumerate().map(|(k, part)| part_text(part, format!("{name}[{i}].content[{k}]")));
        Ok(texts.collect::<Result<Vec<&str>, Fault>>()?.join("\n"))
    };
    list.iter().enumerate().map(read).collect()
}

fn part_text(part: &Value, path: String) -> Result<&str, Fault> {
    let part = Fields::at(part, path)?;
    match part.text("type", limits::NAME_BYTES)? {
        Some("text") => part.text("text", usize::MAX)?.ok_or_else(|| Fault::missing(part.param("text"))),
        other => {
            let param = part.param("type");
            let message = format!("{param} is {}; this server reads text only", crate::fields::said(other));
            Err(Fault::unsupported(param, message))
        }
    }
}

fn prompt(body: &Fields<'_>) -> Result<InputPrompt, Fault> {
    let words = [
        ("search_document", InputPrompt::DOCUMENT),
        ("search_query", InputPrompt::QUERY),
        ("classification", InputPrompt::CLASSIFICATION),
        ("clustering", InputPrompt::CLUSTERING),
    ];
    let indexes: Vec<(&str, usize)> = words.iter().enumerate().map(|(i, (word, _))| (*word, i)).collect();
    let chosen = choice(body, "input_type", &indexes)?;
    Ok(chosen.and_then(|at| words.into_iter().nth(at)).map_or(InputPrompt::Default, |(_, prompt)| prompt))
}

/// `embedding_types`, each once.
fn formats(body: &Fields<'_>) -> Result<Vec<VectorFormat>, Fault> {
    let name = "embedding_types";
    let mut formats = Vec::new();
    for (i, value) in body.list(name, VectorFormat::ALL.len())?.unwrap_or_default().iter().enumerate() {
        let param = format!("{name}[{i}]");
        let Some(word) = value.as_str() else { return Err(wrong(&param, value, "a string")) };
        let Some((_, format)) = VectorFormat::ALL.into_iter().find(|(known, _)| *known == word) else {
            let known = VectorFormat::ALL.map(|(known, _)| known).join(", ");
            return Err(Fault::field(
                param.clone(),
                format!("{param} is {}; it must be one of {known}", show(value)),
            ));
        };
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    Ok(formats)
}

/// The answer, with `vectors` in the order of `texts`.
pub fn answer(
    id: &str,
    vectors: &[&[f32]],
    texts: &[String],
    formats: &[VectorFormat],
    usage: EncoderUsage,
    version: &'static str,
) -> Vec<u8> {
    let list = |out: &mut Vec<u8>, format: VectorFormat| {
        push_list(out, vectors, |out, vector| format.push(out, vector));
    };
    let mut out = br#"{"id":"#.to_vec();
    push_json(&mut out, id);
    if formats.is_empty() {
        out.extend_from_slice(br#","response_type":"embeddings_floats","embeddings":"#);
        list(&mut out, VectorFormat::Float);
    } else {
        out.extend_from_slice(br#","response_type":"embeddings_by_type","embeddings":{"#);
        let named = VectorFormat::ALL.into_iter().filter(|(_, format)| formats.contains(format));
        for (at, (name, format)) in named.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            push_json(&mut out, name);
            out.push(b':');
            list(&mut out, format);
        }
        out.push(b'}');
    }
    out.extend_from_slice(br#","texts":"#);
    push_json(&mut out, texts);
    out.extend_from_slice(br#","meta":"#);
    push_json(&mut out, &Meta::of_embedding(version, usage));
    out.push(b'}');
    out
}

/// A fault in Cohere's shape, `{"message"}`, with OpenAI's beside it: vLLM and Jina share paths with Cohere.
pub fn fault(fault: &Fault) -> Value {
    json!({
        "message": fault.message,
        "error": {"message": fault.message, "type": fault.kind, "param": fault.param, "code": fault.code},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: Value) -> Result<CohereEmbedRequest, Fault> {
        CohereEmbedRequest::parse_v2(body.to_string().as_bytes())
    }

    #[test]
    fn a_request_is_read() {
        let request = parse(json!({"model": "m", "input_type": "search_query", "texts": ["a", "b"],
            "embedding_types": ["int8", "float", "int8"], "output_dimension": 8, "truncate": "START", "max_tokens": 9}))
        .unwrap();
        assert_eq!((request.texts.len(), request.prompt), (2, InputPrompt::QUERY));
        assert_eq!(request.formats, [VectorFormat::Int8, VectorFormat::Float]);
        assert_eq!(request.length, Length { tokens: Some(9), truncation: Truncation::Start });
        let request = parse(
            json!({"inputs": [{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}),
        );
        assert_eq!(request.unwrap().texts, ["a\nb"]);
        assert_eq!(CohereEmbedRequest::parse_v1(br#"{"texts": ["a"]}"#).unwrap().formats, []);
        for (name, value, at) in [
            ("input_type", json!("image"), "input_type"),
            ("images", json!(["data:"]), "images"),
            ("embedding_types", json!(["float16"]), "embedding_types[0]"),
            ("truncate", json!("MIDDLE"), "truncate"),
            ("output_dimension", json!(0), "output_dimension"),
            ("texts", json!([]), "texts"),
            ("texts", json!("a"), "texts"),
            ("texts", Value::Null, "texts"),
            ("inputs", json!([{"content": [{"type": "text", "text": "a"}]}]), "inputs"),
        ] {
            let mut body = json!({"texts": ["a"]});
            body[name] = value;
            assert_eq!(parse(body).unwrap_err().param.as_deref(), Some(at), "{name}");
        }
        let image = parse(json!({"inputs": [{"content": [{"type": "image_url"}]}]})).unwrap_err();
        assert_eq!(image.param.as_deref(), Some("inputs[0].content[0].type"));
    }

    #[test]
    fn an_answer_has_every_type_that_is_wanted() {
        let texts = ["a".to_owned()];
        let said = |formats: &[VectorFormat]| {
            let bytes = answer("i", &[&[1.0, -0.5]], &texts, formats, EncoderUsage::new(3, 0), "2");
            serde_json::from_slice::<Value>(&bytes).unwrap()
        };
        let meta = json!({"api_version": {"version": "2"}, "billed_units": {"input_tokens": 3},
            "tokens": {"input_tokens": 3}});
        assert_eq!(
            said(&[VectorFormat::Ubinary, VectorFormat::Float]),
            json!({"id": "i", "response_type": "embeddings_by_type", "texts": ["a"], "meta": meta,
                "embeddings": {"float": [[1.0, -0.5]], "ubinary": [[128]]}})
        );
        let floats = said(&[]);
        assert_eq!(
            (&floats["response_type"], &floats["embeddings"]),
            (&json!("embeddings_floats"), &json!([[1.0, -0.5]]))
        );
    }
}
