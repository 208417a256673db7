//! `POST /v1/embeddings`, OpenAI's, with the fields that vLLM, Jina and NVIDIA NIM add; and `POST /embeddings`.

use crate::error::Fault;
use crate::fields::Fields;
use crate::inputs::{
    self, EncoderOptions, InputPrompt, Length, TextInput, choice, dimensions, texts_or_tokens, vllm_length,
};
use crate::json;
use crate::request_fields::Route;
use crate::usage::EncoderUsage;
use crate::vectors::{VectorFormat, push_json, push_list};

/// A validated request.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingsRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The inputs.
    pub inputs: Vec<TextInput>,
    /// The text before each input.
    pub prompt: InputPrompt,
    /// The limit of length.
    pub length: Length,
    /// Numbers to keep of each vector; none is all.
    pub dimensions: Option<usize>,
    /// Whether vectors are scaled to length 1; none is as the model's file says.
    pub normalize: Option<bool>,
    /// How vectors are written.
    pub format: VectorFormat,
}

impl EmbeddingsRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<EmbeddingsRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        Ok(EmbeddingsRequest {
            options: EncoderOptions::read(&body, Route::Embeddings)?,
            inputs: texts_or_tokens(&body, "input")?.0,
            prompt: prompt(&body)?,
            length: length(&body)?,
            dimensions: dimensions(&body, "dimensions")?,
            normalize: one_of(&body, ["normalize", "normalized"], |name| body.boolean(name))?,
            format: one_of(&body, ["encoding_format", "embedding_type"], |name| format(&body, name))?
                .unwrap_or_default(),
        })
    }
}

/// The value of whichever of two names is given; both together are refused.
fn one_of<T>(
    body: &Fields<'_>,
    names: [&str; 2],
    read: impl Fn(&str) -> Result<Option<T>, Fault>,
) -> Result<Option<T>, Fault> {
    let [first, second] = names;
    if body.get(first).is_some() && body.get(second).is_some() {
        let message = format!("{second} is another name of {first}, which is given too; give one of them");
        return Err(Fault::field(second, message));
    }
    Ok(read(first)?.or(read(second)?))
}

fn format(body: &Fields<'_>, name: &str) -> Result<Option<VectorFormat>, Fault> {
    choice(body, name, &VectorFormat::ALL)
}

/// How long inputs may be; without a word about it, a longer one is refused as OpenAI does.
fn length(body: &Fields<'_>) -> Result<Length, Fault> {
    let truncate = inputs::truncate(body, true)?;
    match (vllm_length(body)?, truncate) {
        (Some(_), Some(_)) => {
            let message =
                "truncate is given beside truncate_prompt_tokens or truncation_side; give one of them";
            Err(Fault::field("truncate", message))
        }
        (Some(length), None) => Ok(length),
        (None, truncation) => Ok(Length::of_model(truncation.unwrap_or_default())),
    }
}

/// The prompt before each input: by its name, or by what the text is for.
fn prompt(body: &Fields<'_>) -> Result<InputPrompt, Fault> {
    let given: Vec<&str> =
        ["prompt_name", "input_type", "task"].into_iter().filter(|name| body.get(name).is_some()).collect();
    if let [first, second, ..] = given.as_slice() {
        let message = format!("{first} and {second} are given; give one of them");
        return Err(Fault::field(*second, message));
    }
    let purpose = |name| choice(body, name, PURPOSES).map(|purpose| purpose.unwrap_or(Purpose::Any).prompt());
    match given.first() {
        Some(name @ (&"input_type" | &"task")) => purpose(name),
        _ => InputPrompt::named(body),
    }
}

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Query,
    Document,
    Classification,
    Clustering,
    Any,
}

impl Purpose {
    pub(crate) fn prompt(self) -> InputPrompt {
        match self {
            Purpose::Query => InputPrompt::QUERY,
            Purpose::Document => InputPrompt::DOCUMENT,
            Purpose::Classification => InputPrompt::CLASSIFICATION,
            Purpose::Clustering => InputPrompt::CLUSTERING,
            Purpose::Any => InputPrompt::Default,
        }
    }
}

/// Words of NVIDIA NIM, Cohere, Voyage and Jina.
const PURPOSES: &[(&str, Purpose)] = &[
    ("query", Purpose::Query),
    ("passage", Purpose::Document),
    ("document", Purpose::Document),
    ("search_query", Purpose::Query),
    ("search_document", Purpose::Document),
    ("classification", Purpose::Classification),
    ("clustering", Purpose::Clustering),
    ("retrieval.query", Purpose::Query),
    ("retrieval.passage", Purpose::Document),
    ("separation", Purpose::Clustering),
    ("text-matching", Purpose::Any),
];

/// The answer: `{"object": "list", "data": [{"object": "embedding", "index", "embedding"}], "model", "usage"}`.
pub fn answer<'a>(
    model: &str,
    vectors: impl IntoIterator<Item = &'a [f32]>,
    format: VectorFormat,
    usage: EncoderUsage,
) -> Vec<u8> {
    let mut out = br#"{"object":"list","data":"#.to_vec();
    push_list(&mut out, vectors.into_iter().enumerate(), |out, (index, vector)| {
        out.extend_from_slice(br#"{"object":"embedding","index":"#);
        push_json(out, &index);
        out.extend_from_slice(br#","embedding":"#);
        format.push(out, vector);
        out.push(b'}');
    });
    out.extend_from_slice(br#","model":"#);
    push_json(&mut out, model);
    out.extend_from_slice(br#","usage":"#);
    push_json(&mut out, &usage);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::inputs::Truncation;

    fn parse(body: Value) -> Result<EmbeddingsRequest, Fault> {
        EmbeddingsRequest::parse(body.to_string().as_bytes())
    }

    #[test]
    fn inputs_are_texts_or_tokens() {
        let inputs = |input: Value| parse(json!({"input": input})).map(|request| request.inputs);
        let text = |text: &str| TextInput::Text(text.into());
        assert_eq!(inputs(json!("a")).unwrap(), [text("a")]);
        assert_eq!(inputs(json!(["a", ""])).unwrap(), [text("a"), text("")]);
        assert_eq!(inputs(json!([1, 2])).unwrap(), [TextInput::Tokens(vec![1, 2])]);
        assert_eq!(inputs(json!([[1], "a"])).unwrap(), [TextInput::Tokens(vec![1]), text("a")]);
        for (bad, at) in [
            (json!([]), "input"),
            (json!([[]]), "input[0]"),
            (json!([1, "a"]), "input[0]"),
            (json!([1, -1]), "input[1]"),
            (json!([["a"]]), "input[0][0]"),
            (json!({}), "input"),
            (json!(5), "input"),
            (json!(vec!["a"; crate::limits::INPUTS + 1]), "input"),
        ] {
            assert_eq!(inputs(bad.clone()).unwrap_err().param.as_deref(), Some(at), "{bad}");
        }
        assert_eq!(parse(json!({})).unwrap_err().code, Some("missing_required_parameter"));
        assert_eq!(inputs(json!(vec!["a"; crate::limits::INPUTS])).unwrap().len(), crate::limits::INPUTS);
    }

    #[test]
    fn options_of_several_servers() {
        let with = |name: &str, value: Value| parse(json!({"input": "a", name: value}));
        let length = |name: &str, value: Value| with(name, value).unwrap().length;
        assert_eq!(with("user", json!("u")).unwrap().length, Length::of_model(Truncation::Refuse));
        assert_eq!(
            length("truncate_prompt_tokens", json!(7)),
            Length { tokens: Some(7), truncation: Truncation::End }
        );
        assert_eq!(length("truncate_prompt_tokens", json!(-1)), Length::of_model(Truncation::End));
        assert_eq!(length("truncation_side", json!("left")), Length::of_model(Truncation::Start));
        for (value, truncation) in [
            (json!(true), Truncation::End),
            (json!(false), Truncation::Refuse),
            (json!("START"), Truncation::Start),
            (json!("chunk"), Truncation::Chunk),
        ] {
            assert_eq!(length("truncate", value).truncation, truncation);
        }
        assert_eq!(with("encoding_format", json!("base64")).unwrap().format, VectorFormat::Base64);
        assert_eq!(with("embedding_type", json!("ubinary")).unwrap().format, VectorFormat::Ubinary);
        assert_eq!(with("input_type", json!("query")).unwrap().prompt, InputPrompt::QUERY);
        assert_eq!(with("task", json!("retrieval.passage")).unwrap().prompt, InputPrompt::DOCUMENT);
        assert_eq!(with("prompt_name", json!("s2p")).unwrap().prompt, InputPrompt::Named("s2p".into()));
        assert_eq!(with("normalized", json!(false)).unwrap().normalize, Some(false));
        assert_eq!(with("dimensions", json!(64)).unwrap().dimensions, Some(64));
        for (name, value) in [
            ("encoding_format", json!("bytes")),
            ("dimensions", json!(0)),
            ("truncate_prompt_tokens", json!(0)),
            ("truncate_prompt_tokens", json!(-2)),
            ("truncation_side", json!("middle")),
            ("truncate", json!("some")),
            ("input_type", json!("image")),
            ("messages", json!([{"role": "user", "content": "a"}])),
            ("add_special_tokens", json!(false)),
            ("late_chunking", json!(true)),
            ("embed_dtype", json!("float16")),
            ("endianness", json!("big")),
            ("timeout", json!(0)),
        ] {
            assert_eq!(with(name, value).unwrap_err().param.as_deref(), Some(name), "{name}");
        }
        let both = parse(json!({"input": "a", "prompt_name": "a", "task": "classification"}));
        assert_eq!(both.unwrap_err().param.as_deref(), Some("task"));
        let both = parse(json!({"input": "a", "encoding_format": "float", "embedding_type": "float"}));
        assert_eq!(both.unwrap_err().param.as_deref(), Some("embedding_type"));
    }

    #[test]
    fn an_answer_is_openais() {
        let vectors = [vec![0.5_f32, -1.0], vec![1.0, 0.25]];
        let usage = EncoderUsage { prompt_tokens: 7, total_tokens: 7, truncated_tokens: 0 };
        let said = |format| {
            let bytes = answer("m\"", vectors.iter().map(Vec::as_slice), format, usage);
            serde_json::from_slice::<Value>(&bytes).unwrap()
        };
        assert_eq!(
            said(VectorFormat::Float),
            json!({"object": "list", "model": "m\"", "usage": {"prompt_tokens": 7, "total_tokens": 7}, "data": [
                {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]},
                {"object": "embedding", "index": 1, "embedding": [1.0, 0.25]},
            ]})
        );
        assert_eq!(said(VectorFormat::Base64)["data"][0]["embedding"], "AAAAPwAAgL8=");
    }
}
