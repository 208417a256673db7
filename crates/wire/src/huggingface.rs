//! The tasks of Hugging Face's inference API: `POST /pipeline/TASK`, and `POST /` of a server whose model is an encoder.
//!
//! `InferenceClient` posts to exactly the URL that it is given. Feature extraction and sentence similarity have the
//! bodies of text-embeddings-inference.

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Fault;
use crate::fields::{self, Fields, wrong};
use crate::inputs::{
    self, Aggregation, EncoderOptions, Length, TextInput, Truncation, choice, text_list, texts,
};
use crate::request_fields::{self, Route};
use crate::{json as body_json, limits};

/// A request of text classification.
#[derive(Debug, Clone, PartialEq)]
pub struct TextClassificationRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The inputs.
    pub inputs: Vec<TextInput>,
    /// The function that makes scores of logits; none is the model's own.
    pub function: Option<ScoreFunction>,
    /// Most labels of each input; none is all.
    pub top_k: Option<usize>,
}

/// A function from logits to scores (transformers' `function_to_apply`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreFunction {
    /// The logits themselves.
    None,
    /// 1 / (1 + e⁻ˣ) of each.
    Sigmoid,
    /// Powers of e, divided by their sum.
    Softmax,
}

impl ScoreFunction {
    /// Scores of these logits. Computed in `f64`, in the order of the labels.
    #[must_use]
    pub fn apply(self, logits: &[f32]) -> Vec<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "a probability")]
        let narrow = |value: f64| value as f32;
        match self {
            ScoreFunction::None => logits.to_vec(),
            ScoreFunction::Sigmoid => {
                logits.iter().map(|x| narrow(1.0 / (1.0 + (-f64::from(*x)).exp()))).collect()
            }
            ScoreFunction::Softmax => {
                let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let powers: Vec<f64> = logits.iter().map(|x| f64::from(x - largest).exp()).collect();
                let sum: f64 = powers.iter().sum();
                powers.iter().map(|power| narrow(power / sum)).collect()
            }
        }
    }
}

impl TextClassificationRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<TextClassificationRequest, Fault> {
        let value = body_json::read(body)?;
        TextClassificationRequest::read(&Fields::body(&value)?)
    }

    pub(crate) fn read(body: &Fields<'_>) -> Result<TextClassificationRequest, Fault> {
        let mut options = EncoderOptions::read(body, Route::HfTask)?;
        let none = json!({});
        let parameters = Fields::at(body.get("parameters").unwrap_or(&none), "parameters".into())?;
        options.warnings.extend(request_fields::check(&parameters, Route::HfTextParameters)?);
        let words = [
            ("none", ScoreFunction::None),
            ("sigmoid", ScoreFunction::Sigmoid),
            ("softmax", ScoreFunction::Softmax),
        ];
        Ok(TextClassificationRequest {
            options,
            inputs: sequences(body)?,
            function: choice(&parameters, "function_to_apply", &words)?,
            top_k: parameters.count("top_k", 1..=limits::TOKENS)?,
        })
    }
}

/// A text, a pair as an object, or a list of either.
fn sequences(body: &Fields<'_>) -> Result<Vec<TextInput>, Fault> {
    let name = "inputs";
    match body.get(name) {
        None => Err(Fault::missing(name)),
        Some(Value::Array(list)) if list.is_empty() => Err(inputs::empty(name.to_owned())),
        Some(Value::Array(list)) if list.len() > limits::INPUTS => {
            Err(fields::too_many(name, list.len(), limits::INPUTS))
        }
        Some(Value::Array(list)) => {
            list.iter().enumerate().map(|(i, entry)| sequence(format!("{name}[{i}]"), entry)).collect()
        }
        Some(one) => Ok(vec![sequence(name.to_owned(), one)?]),
    }
}

fn sequence(param: String, value: &Value) -> Result<TextInput, Fault> {
    match value {
        Value::String(text) => Ok(TextInput::Text(text.clone())),
        Value::Object(_) => {
            let object = Fields::at(value, param)?;
            let text =
                object.text("text", usize::MAX)?.ok_or_else(|| Fault::missing(object.param("text")))?;
            Ok(match object.text("text_pair", usize::MAX)? {
                None => TextInput::Text(text.to_owned()),
                Some(pair) => TextInput::Pair(text.to_owned(), pair.to_owned()),
            })
        }
        other => Err(wrong(&param, other, "a string or an object with text")),
    }
}

/// A request of token classification.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenClassificationRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The texts.
    pub texts: Vec<String>,
    /// Whether the texts were a list, so that the answer is a list of lists.
    pub listed: bool,
    /// How labels become entities.
    pub aggregation: Aggregation,
    /// Labels that are left out.
    pub ignore_labels: Vec<String>,
    /// The limit of length.
    pub length: Length,
}

impl TokenClassificationRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<TokenClassificationRequest, Fault> {
        let value = body_json::read(body)?;
        TokenClassificationRequest::read(&Fields::body(&value)?)
    }

    pub(crate) fn read(body: &Fields<'_>) -> Result<TokenClassificationRequest, Fault> {
        let mut options = EncoderOptions::read(body, Route::HfTask)?;
        let (texts, listed) = texts(body, "inputs", limits::INPUTS)?;
        let none = json!({});
        let parameters = Fields::at(body.get("parameters").unwrap_or(&none), "parameters".into())?;
        options.warnings.extend(request_fields::check(&parameters, Route::HfTokenParameters)?);
        Ok(TokenClassificationRequest {
            options,
            texts,
            listed,
            aggregation: Aggregation::read(&parameters, "aggregation_strategy")?,
            ignore_labels: ignore_labels(&parameters)?,
            // As transformers' pipeline without a stride.
            length: Length::of_model(Truncation::End),
        })
    }
}

/// `ignore_labels`; `O` if it is left out.
pub(crate) fn ignore_labels(body: &Fields<'_>) -> Result<Vec<String>, Fault> {
    let name = "ignore_labels";
    match body.list(name, limits::IGNORED_LABELS)? {
        None => Ok(vec!["O".to_owned()]),
        Some([]) => Ok(Vec::new()),
        Some(_) => text_list(body, name, limits::IGNORED_LABELS),
    }
}

/// An entity in Hugging Face's words; positions are in Unicode characters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HfEntity<'a> {
    /// The label, where tokens are aggregated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_group: Option<&'a str>,
    /// The label of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<&'a str>,
    /// The score.
    pub score: f32,
    /// Index of the token, where tokens are not aggregated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The part of the text.
    pub word: &'a str,
    /// Its first character.
    pub start: usize,
    /// The character after its last.
    pub end: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_classification_is_read() {
        let read = |body: Value| TextClassificationRequest::parse(body.to_string().as_bytes());
        let request =
            read(json!({"inputs": "a", "parameters": {"top_k": 2, "function_to_apply": "sigmoid"}})).unwrap();
        assert_eq!((request.top_k, request.function), (Some(2), Some(ScoreFunction::Sigmoid)));
        let request = read(json!({"inputs": ["a", {"text": "b", "text_pair": "c"}]})).unwrap();
        assert_eq!(request.inputs, [TextInput::Text("a".into()), TextInput::Pair("b".into(), "c".into())]);
        for (body, at) in [
            (json!({"inputs": 5}), "inputs"),
            (json!({"inputs": []}), "inputs"),
            (json!({"inputs": [{"text_pair": "a"}]}), "inputs[0].text"),
            (json!({"inputs": "a", "parameters": {"top_k": 0}}), "parameters.top_k"),
            (
                json!({"inputs": "a", "parameters": {"function_to_apply": "tanh"}}),
                "parameters.function_to_apply",
            ),
            (json!({"inputs": "a", "parameters": 5}), "parameters"),
        ] {
            assert_eq!(read(body.clone()).unwrap_err().param.as_deref(), Some(at), "{body}");
        }
    }

    #[test]
    fn token_classification_is_read() {
        let read = |body: Value| TokenClassificationRequest::parse(body.to_string().as_bytes());
        let request =
            read(json!({"inputs": "a", "parameters": {"aggregation_strategy": "max", "ignore_labels": []}}))
                .unwrap();
        assert_eq!(
            (request.aggregation, request.ignore_labels.len(), request.listed),
            (Aggregation::Max, 0, false)
        );
        let request = read(json!({"inputs": ["a"]})).unwrap();
        assert_eq!(
            (request.aggregation, request.ignore_labels.as_slice()),
            (Aggregation::Simple, &["O".to_owned()][..])
        );
        for (name, value) in
            [("aggregation_strategy", json!("most")), ("ignore_labels", json!([5])), ("stride", json!(16))]
        {
            let fault = read(json!({"inputs": "a", "parameters": {name: value}})).unwrap_err();
            assert!(fault.param.unwrap().starts_with(&format!("parameters.{name}")));
        }
    }

    #[test]
    fn functions_are_those_of_transformers() {
        // torch.tensor([1.0, -2.0, 0.5]).softmax(-1) and .sigmoid()
        let close = |found: Vec<f32>, wanted: [f32; 3]| {
            assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        };
        close(ScoreFunction::Softmax.apply(&[1.0, -2.0, 0.5]), [0.603_748_9, 0.030_058_89, 0.366_192_2]);
        close(ScoreFunction::Sigmoid.apply(&[1.0, -2.0, 0.5]), [0.731_058_6, 0.119_202_92, 0.622_459_3]);
        assert_eq!(ScoreFunction::None.apply(&[1.0, -2.0]), [1.0, -2.0]);
        assert!(ScoreFunction::Softmax.apply(&[]).is_empty());
    }
}
