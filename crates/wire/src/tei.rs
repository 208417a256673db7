//! text-embeddings-inference's API: `POST /embed`, `/embed_all`, `/embed_sparse`, `/predict`, `/rerank` with `texts`, and
//! `/similarity`.

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Fault;
use crate::fields::{self, Fields, wrong};
use crate::inputs::{
    self, EncoderOptions, InputPrompt, Length, TextInput, Truncation, choice, dimensions, text_list,
    texts_or_tokens,
};
use crate::request_fields::{self, Route};
use crate::scores::{ranked, raw_scores};
use crate::vectors::{push_floats, push_list};
use crate::{json as body_json, limits};

/// A request of `/embed`, `/embed_all` or `/embed_sparse`.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbedRequest {
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
    /// Whether vectors are scaled to length 1.
    pub normalize: bool,
}

impl EmbedRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<EmbedRequest, Fault> {
        let value = body_json::read(body)?;
        EmbedRequest::read(&Fields::body(&value)?)
    }

    pub(crate) fn read(body: &Fields<'_>) -> Result<EmbedRequest, Fault> {
        Ok(EmbedRequest {
            options: EncoderOptions::read(body, Route::TeiEmbed)?,
            inputs: texts_or_tokens(body, "inputs")?.0,
            prompt: InputPrompt::named(body)?,
            length: length(body)?,
            dimensions: dimensions(body, "dimensions")?,
            normalize: body.boolean("normalize")?.unwrap_or(true),
        })
    }
}

/// `truncate`, which is true here unless it is said, and `truncation_direction`.
fn length(body: &Fields<'_>) -> Result<Length, Fault> {
    let words = [("Right", Truncation::End), ("Left", Truncation::Start)];
    let side = choice(body, "truncation_direction", &words)?.unwrap_or(Truncation::End);
    let truncation = match inputs::truncate(body, true)? {
        None | Some(Truncation::End) => side,
        Some(other) => other,
    };
    Ok(Length::of_model(truncation))
}

/// A request of `/predict`.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The inputs.
    pub inputs: Vec<TextInput>,
    /// Whether the inputs were a batch, so that the answer is one.
    pub listed: bool,
    /// The limit of length.
    pub length: Length,
    /// Whether scores are logits.
    pub raw_scores: bool,
}

impl PredictRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<PredictRequest, Fault> {
        let value = body_json::read(body)?;
        PredictRequest::read(&Fields::body(&value)?)
    }

    pub(crate) fn read(body: &Fields<'_>) -> Result<PredictRequest, Fault> {
        let options = EncoderOptions::read(body, Route::TeiPredict)?;
        let (inputs, listed) = sequences(body)?;
        Ok(PredictRequest { options, inputs, listed, length: length(body)?, raw_scores: raw_scores(body)? })
    }
}

/// A text, a pair, or a batch of lists of one or two texts.
fn sequences(body: &Fields<'_>) -> Result<(Vec<TextInput>, bool), Fault> {
    let name = "inputs";
    match body.get(name) {
        None => Err(Fault::missing(name)),
        Some(Value::String(text)) => Ok((vec![TextInput::Text(text.clone())], false)),
        Some(Value::Array(list)) if list.is_empty() => Err(inputs::empty(name.to_owned())),
        Some(Value::Array(list)) if list.first().is_some_and(Value::is_string) => {
            Ok((vec![sequence(name, list)?], false))
        }
        Some(Value::Array(list)) if list.len() > limits::INPUTS => {
            Err(fields::too_many(name, list.len(), limits::INPUTS))
        }
        Some(Value::Array(list)) => {
            let read = |(i, entry): (usize, &Value)| {
                let param = format!("{name}[{i}]");
                sequence(&param, fields::list(&param, entry, 2)?)
            };
            Ok((list.iter().enumerate().map(read).collect::<Result<_, Fault>>()?, true))
        }
        Some(other) => Err(wrong(name, other, "a string, a pair of strings, or an array of arrays of those")),
    }
}

fn sequence(param: &str, texts: &[Value]) -> Result<TextInput, Fault> {
    let text = |i: usize, value| fields::text(&format!("{param}[{i}]"), value, usize::MAX).map(str::to_owned);
    match texts {
        [one] => Ok(TextInput::Text(text(0, one)?)),
        [first, second] => Ok(TextInput::Pair(text(0, first)?, text(1, second)?)),
        other => Err(Fault::field(
            param,
            format!("{param} has {} texts; it must have 1, or 2 for a pair", other.len()),
        )),
    }
}

/// A request of `/rerank` with `texts`.
#[derive(Debug, Clone, PartialEq)]
pub struct RankRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The query.
    pub query: String,
    /// The texts.
    pub texts: Vec<String>,
    /// The limit of length of query and text together.
    pub length: Length,
    /// Whether scores are logits.
    pub raw_scores: bool,
    /// Whether results have the texts.
    pub return_text: bool,
}

impl RankRequest {
    pub(crate) fn read(body: &Fields<'_>) -> Result<RankRequest, Fault> {
        Ok(RankRequest {
            options: EncoderOptions::read(body, Route::TeiRerank)?,
            query: body.text("query", usize::MAX)?.ok_or_else(|| Fault::missing("query"))?.to_owned(),
            texts: text_list(body, "texts", limits::DOCUMENTS)?,
            length: length(body)?,
            raw_scores: raw_scores(body)?,
            return_text: body.boolean("return_text")?.unwrap_or(false),
        })
    }
}

/// A request of `/similarity`.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarityRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The text that the others are compared with.
    pub source: String,
    /// The other texts.
    pub sentences: Vec<String>,
    /// The text before each input.
    pub prompt: InputPrompt,
    /// The limit of length.
    pub length: Length,
}

impl SimilarityRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<SimilarityRequest, Fault> {
        let value = body_json::read(body)?;
        SimilarityRequest::read(&Fields::body(&value)?)
    }

    pub(crate) fn read(body: &Fields<'_>) -> Result<SimilarityRequest, Fault> {
        let mut options = EncoderOptions::read(body, Route::TeiSimilarity)?;
        let inputs = body.get("inputs").ok_or_else(|| Fault::missing("inputs"))?;
        let inputs = Fields::at(inputs, "inputs".into())?;
        let source = inputs.text("source_sentence", usize::MAX)?;
        let source = source.ok_or_else(|| Fault::missing("inputs.source_sentence"))?.to_owned();
        let sentences = text_list(&inputs, "sentences", limits::INPUTS)?;
        inputs::check_pair_bytes(&source, sentences.len(), "inputs.source_sentence")?;
        let none = json!({});
        let parameters = Fields::at(body.get("parameters").unwrap_or(&none), "parameters".into())?;
        options.warnings.extend(request_fields::check(&parameters, Route::TeiSimilarityParameters)?);
        let prompt = InputPrompt::named(&parameters)?;
        Ok(SimilarityRequest { options, source, sentences, prompt, length: length(&parameters)? })
    }
}

/// The answer of `/embed_all`: for each input a list of vectors of `width` numbers, which `values` has one after another.
pub fn token_vectors<'a>(vectors: impl IntoIterator<Item = (usize, &'a [f32])>) -> Vec<u8> {
    let mut out = Vec::new();
    push_list(&mut out, vectors, |out, (width, values)| {
        push_list(out, values.chunks(width.max(1)), push_floats);
    });
    out
}

/// The answer of `/embed`.
pub fn vectors<'a>(vectors: impl IntoIterator<Item = &'a [f32]>) -> Vec<u8> {
    let mut out = Vec::new();
    push_list(&mut out, vectors, push_floats);
    out
}

/// An entry of a sparse vector.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SparseValue {
    /// Index in the vocabulary.
    pub index: u32,
    /// The weight.
    pub value: f32,
}

/// A label with its score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction<'a> {
    /// The score.
    pub score: f32,
    /// The label.
    pub label: &'a str,
}

/// The labels by descending score.
pub fn predictions<'a>(labels: &'a [String], scores: &[f32], most: Option<usize>) -> Vec<Prediction<'a>> {
    let named = ranked(scores, most).into_iter();
    named.filter_map(|(at, score)| Some(Prediction { score, label: labels.get(at)? })).collect()
}

/// A text's place in the answer of `/rerank`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rank<'a> {
    /// Index in the request.
    pub index: usize,
    /// The text, if it is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The score.
    pub score: f32,
}

/// The answer of `/rerank`; `texts` is empty if they are not returned.
pub fn ranks<'a>(scores: &[f32], texts: &'a [String]) -> Vec<Rank<'a>> {
    let rank =
        |(index, score): (usize, f32)| Rank { index, text: texts.get(index).map(String::as_str), score };
    ranked(scores, None).into_iter().map(rank).collect()
}

/// A fault in this API's shape, with its HTTP status for it. `message` is for Cohere's clients, with which `/rerank` is
/// shared.
pub fn fault(fault: &Fault) -> (u16, Value) {
    let (status, kind) = match (fault.status, fault.code) {
        (400, Some("empty_input")) => (400, "Empty"),
        (400, Some("context_length_exceeded")) => (413, "Validation"),
        (400, _) => (422, "Validation"),
        (429, _) => (429, "Overloaded"),
        (503, _) => (503, "Unhealthy"),
        (status @ 500.., _) => (status, "Backend"),
        (status, _) => (status, "Validation"),
    };
    let body = json!({
        "error": fault.message,
        "error_type": kind,
        "message": fault.message,
        "param": fault.param,
        "code": fault.code,
    });
    (status, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rerank::RerankBody;

    fn bytes(body: &Value) -> Vec<u8> {
        body.to_string().into_bytes()
    }

    #[test]
    fn an_embed_request_is_read() {
        let request = EmbedRequest::parse(&bytes(&json!({"inputs": ["a", [1, 2]]}))).unwrap();
        assert_eq!((request.inputs.len(), request.normalize), (2, true));
        assert_eq!(request.length, Length::of_model(Truncation::End));
        let request = json!({"inputs": "a", "truncate": true, "truncation_direction": "left", "prompt_name": "query",
            "normalize": false, "dimensions": 8});
        let request = EmbedRequest::parse(&bytes(&request)).unwrap();
        assert_eq!(request.length, Length::of_model(Truncation::Start));
        assert_eq!((request.prompt, request.dimensions), (InputPrompt::Named("query".into()), Some(8)));
        let refused = json!({"inputs": "a", "truncate": false, "truncation_direction": "Left"});
        let refused = EmbedRequest::parse(&bytes(&refused)).unwrap();
        assert_eq!(refused.length, Length::of_model(Truncation::Refuse));
        for (name, value) in [
            ("inputs", json!([])),
            ("inputs", Value::Null),
            ("truncation_direction", json!("up")),
            ("normalize", json!(1)),
            ("prompt_name", json!(5)),
            ("encoding_format", json!("base64")),
        ] {
            let mut body = json!({"inputs": "a"});
            body[name] = value;
            assert_eq!(
                EmbedRequest::parse(&bytes(&body)).unwrap_err().param.as_deref(),
                Some(name),
                "{body}"
            );
        }
    }

    #[test]
    fn predictions_take_texts_pairs_and_batches() {
        let read = |inputs: Value| {
            PredictRequest::parse(&bytes(&json!({"inputs": inputs}))).map(|r| (r.inputs, r.listed))
        };
        let text = |text: &str| TextInput::Text(text.into());
        let pair = |a: &str, b: &str| TextInput::Pair(a.into(), b.into());
        assert_eq!(read(json!("a")).unwrap(), (vec![text("a")], false));
        assert_eq!(read(json!(["a", "b"])).unwrap(), (vec![pair("a", "b")], false));
        assert_eq!(read(json!([["a"], ["a", "b"]])).unwrap(), (vec![text("a"), pair("a", "b")], true));
        for (bad, at) in [
            (json!(["a", "b", "c"]), "inputs"),
            (json!([]), "inputs"),
            (json!([["a", "b", "c"]]), "inputs[0]"),
            (json!([[]]), "inputs[0]"),
            (json!([["a"], "b"]), "inputs[1]"),
            (json!(["a", 5]), "inputs[1]"),
            (json!(5), "inputs"),
        ] {
            assert_eq!(read(bad.clone()).unwrap_err().param.as_deref(), Some(at), "{bad}");
        }
        let labels = ["no".to_owned(), "yes".to_owned()];
        let said = predictions(&labels, &[0.25, 0.75], None);
        assert_eq!(
            serde_json::to_value(said).unwrap(),
            json!([{"score": 0.75, "label": "yes"}, {"score": 0.25, "label": "no"}])
        );
    }

    #[test]
    fn ranks_and_similarities() {
        let body = json!({"query": "q", "texts": ["a", "b"], "raw_scores": true, "return_text": true});
        let Ok(RerankBody::Texts(request)) = RerankBody::parse(&bytes(&body), true) else { panic!() };
        assert!(request.raw_scores && request.return_text);
        assert_eq!(
            serde_json::to_value(ranks(&[0.25, 0.75], &request.texts)).unwrap(),
            json!([{"index": 1, "text": "b", "score": 0.75}, {"index": 0, "text": "a", "score": 0.25}])
        );
        let body = json!({"inputs": {"source_sentence": "s", "sentences": ["a", "b"]}, "parameters": {"truncate": false}});
        let request = SimilarityRequest::parse(&bytes(&body)).unwrap();
        assert_eq!((request.sentences.len(), request.length.truncation), (2, Truncation::Refuse));
        for (body, at) in [
            (json!({"inputs": {"sentences": ["a"]}}), "inputs.source_sentence"),
            (json!({"inputs": {"source_sentence": "a"}}), "inputs.sentences"),
            (json!({"inputs": {"source_sentence": "a", "sentences": []}}), "inputs.sentences"),
            (json!({"inputs": "a"}), "inputs"),
            (
                json!({"inputs": {"source_sentence": "a", "sentences": ["a"]}, "parameters": {"truncate": 7}}),
                "parameters.truncate",
            ),
        ] {
            assert_eq!(
                SimilarityRequest::parse(&bytes(&body)).unwrap_err().param.as_deref(),
                Some(at),
                "{body}"
            );
        }
        let long = json!({"inputs": {"source_sentence": "a".repeat(1 << 20), "sentences": vec!["b"; 100]}});
        let fault = SimilarityRequest::parse(&bytes(&long)).unwrap_err();
        assert_eq!(fault.param.as_deref(), Some("inputs.source_sentence"));
    }

    #[test]
    fn answers_are_nested_lists() {
        let flat: [&[f32]; 2] = [&[0.5, 1.0], &[-1.0, 0.0]];
        assert_eq!(vectors(flat), b"[[0.5,1.0],[-1.0,0.0]]");
        assert_eq!(
            token_vectors([(2, &[0.5_f32, 1.0, 2.0, 3.0][..]), (2, &[][..])]),
            b"[[[0.5,1.0],[2.0,3.0]],[]]"
        );
        let (status, body) = fault(&inputs::empty("inputs".into()));
        assert_eq!((status, &body["error_type"]), (400, &json!("Empty")));
    }
}
