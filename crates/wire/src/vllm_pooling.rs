//! `POST /score`, `/v1/score`, `/classify` and `/pooling`: vLLM's API of pooling models.

use serde::Serialize;

use crate::error::Fault;
use crate::fields::Fields;
use crate::inputs::{
    self, EncoderOptions, InputPrompt, Length, TextInput, choice, dimensions, texts, texts_or_tokens,
    vllm_length,
};
use crate::request_fields::Route;
use crate::scores::{ranked, raw_scores};
use crate::usage::EncoderUsage;
use crate::vectors::{VectorFormat, push_floats, push_json, push_list};
use crate::{json, limits};

/// Names of the first texts of pairs, the newest first.
const FIRST: [&str; 3] = ["queries", "text_1", "data_1"];
/// Names of the second texts.
const SECOND: [&str; 4] = ["documents", "items", "text_2", "data_2"];

/// A request of `/score`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The pairs.
    pub pairs: Vec<(String, String)>,
    /// The limit of length.
    pub length: Length,
    /// The text before each input, for an embedding model.
    pub prompt: InputPrompt,
    /// Whether scores are logits.
    pub raw_scores: bool,
}

impl ScoreRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<ScoreRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        let options = EncoderOptions::read(&body, Route::Score)?;
        Ok(ScoreRequest {
            options,
            pairs: pairs(&body)?,
            length: length(&body)?,
            prompt: InputPrompt::named(&body)?,
            raw_scores: raw_scores(&body)?,
        })
    }
}

/// One text with each of several, or the texts at the same place of two lists.
fn pairs(body: &Fields<'_>) -> Result<Vec<(String, String)>, Fault> {
    let (first_name, second_name) = (given(body, &FIRST)?, given(body, &SECOND)?);
    let (mut first, _) = texts(body, first_name, limits::INPUTS)?;
    let (mut second, _) = texts(body, second_name, limits::INPUTS)?;
    match (first.len(), second.len()) {
        (a, b) if a == b => Ok(first.into_iter().zip(second).collect()),
        (1, count) => {
            let text = first.pop().unwrap_or_default();
            inputs::check_pair_bytes(&text, count, first_name)?;
            Ok(second.into_iter().map(|other| (text.clone(), other)).collect())
        }
        (count, 1) => {
            let text = second.pop().unwrap_or_default();
            inputs::check_pair_bytes(&text, count, second_name)?;
            Ok(first.into_iter().map(|other| (other, text.clone())).collect())
        }
        (a, b) => {
            let message = format!(
                "{second_name} has {b} entries and {first_name} {a}; both must have as many, or one of them 1"
            );
            Err(Fault::field(second_name, message))
        }
    }
}

/// Which one of several names of a field is given.
fn given(body: &Fields<'_>, names: &[&'static str]) -> Result<&'static str, Fault> {
    let mut given = names.iter().copied().filter(|name| body.get(name).is_some());
    let name = given.next().ok_or_else(|| Fault::missing(names[0]))?;
    match given.next() {
        None => Ok(name),
        Some(other) => {
            let message = format!("{other} is another name of {name}, which is given too; give one of them");
            Err(Fault::field(other, message))
        }
    }
}

/// As vLLM: what is too long is refused, unless the request says how much to keep, or `truncate`.
fn length(body: &Fields<'_>) -> Result<Length, Fault> {
    match vllm_length(body)? {
        Some(length) => Ok(length),
        None => Ok(Length::of_model(inputs::truncate(body, false)?.unwrap_or_default())),
    }
}

/// A request of `/classify`.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifyRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The inputs.
    pub inputs: Vec<TextInput>,
    /// The limit of length.
    pub length: Length,
    /// Whether scores are logits.
    pub raw_scores: bool,
}

impl ClassifyRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<ClassifyRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        let options = EncoderOptions::read(&body, Route::Classify)?;
        let (inputs, _) = texts_or_tokens(&body, "input")?;
        Ok(ClassifyRequest { options, inputs, length: length(&body)?, raw_scores: raw_scores(&body)? })
    }
}

/// What `/pooling` computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingTask {
    /// A vector for each input.
    Embed,
    /// A vector for each token of each input.
    TokenEmbed,
    /// A score for each label.
    Classify,
}

/// A request of `/pooling`.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolingRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The inputs.
    pub inputs: Vec<TextInput>,
    /// What is computed; none is what the model can, vectors first.
    pub task: Option<PoolingTask>,
    /// The limit of length.
    pub length: Length,
    /// Numbers to keep of each vector; none is all.
    pub dimensions: Option<usize>,
    /// Whether vectors are scaled to length 1; none is as the model's file says.
    pub normalize: Option<bool>,
    /// Whether scores are logits.
    pub raw_scores: bool,
    /// How numbers are written: `Float` or `Base64`.
    pub format: VectorFormat,
}

impl PoolingRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<PoolingRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        let options = EncoderOptions::read(&body, Route::Pooling)?;
        let raw_scores = raw_scores(&body)?;
        Ok(PoolingRequest {
            options,
            inputs: texts_or_tokens(&body, "input")?.0,
            task: task(&body)?,
            length: length(&body)?,
            dimensions: dimensions(&body, "dimensions")?,
            normalize: body.boolean("normalize")?.or(body.boolean("use_activation")?),
            raw_scores,
            format: choice(&body, "encoding_format", &VectorFormat::ALL[..2])?.unwrap_or_default(),
        })
    }
}

fn task(body: &Fields<'_>) -> Result<Option<PoolingTask>, Fault> {
    let name = "task";
    if body.get(name).is_some_and(|task| task == "token_classify") {
        let message =
            "task is \"token_classify\": use /v1/entities, which gives labels with their places in the text";
        return Err(Fault::unsupported(name, message));
    }
    choice(
        body,
        name,
        &[
            ("embed", PoolingTask::Embed),
            ("classify", PoolingTask::Classify),
            ("token_embed", PoolingTask::TokenEmbed),
            ("score", PoolingTask::Classify),
            ("encode", PoolingTask::TokenEmbed),
        ],
    )
}

/// An answer of vLLM's: `{"id", "object": "list", "created", "model", "data", "usage"}`.
#[derive(Debug, Clone, Serialize)]
pub struct PoolingAnswer<'a, T> {
    /// Id of the request.
    pub id: &'a str,
    /// Always `list`.
    pub object: &'static str,
    /// Creation time, in Unix seconds.
    pub created: u64,
    /// Name of the answering model.
    pub model: &'a str,
    /// A result for each input or pair.
    pub data: Vec<T>,
    /// Token counts.
    pub usage: EncoderUsage,
}

/// The score of a pair.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PairScore {
    /// Index of the pair.
    pub index: usize,
    /// Always `score`.
    pub object: &'static str,
    /// The score.
    pub score: f32,
}

/// The classes of an input.
#[derive(Debug, Clone, Serialize)]
pub struct Classified<'a> {
    /// Index of the input.
    pub index: usize,
    /// The label with the highest score.
    pub label: Option<&'a str>,
    /// A score for each label, in the model's order.
    pub probs: &'a [f32],
    /// Number of labels.
    pub num_classes: usize,
}

impl<'a> Classified<'a> {
    /// The classes of an input with these scores; the first of equal ones gives the label.
    pub fn new(index: usize, labels: &'a [String], scores: &'a [f32]) -> Classified<'a> {
        let best = ranked(scores, Some(1));
        let label = best.first().and_then(|(at, _)| labels.get(*at)).map(String::as_str);
        Classified { index, label, probs: scores, num_classes: scores.len() }
    }
}

/// Scores of pairs, in the request's order.
pub fn pair_scores(scores: &[f32]) -> Vec<PairScore> {
    let score = |(index, score): (usize, &f32)| PairScore { index, object: "score", score: *score };
    scores.iter().enumerate().map(score).collect()
}

/// The answer of `/pooling`. Each input has numbers in one row, or in rows of `width` of them.
pub fn pooling_answer<'a>(
    id: &str,
    created: u64,
    model: &str,
    data: impl IntoIterator<Item = (Option<usize>, &'a [f32])>,
    format: VectorFormat,
    usage: EncoderUsage,
) -> Vec<u8> {
    let mut out = br#"{"id":"#.to_vec();
    push_json(&mut out, id);
    out.extend_from_slice(br#","object":"list","created":"#);
    push_json(&mut out, &created);
    out.extend_from_slice(br#","model":"#);
    push_json(&mut out, model);
    out.extend_from_slice(br#","data":"#);
    push_list(&mut out, data.into_iter().enumerate(), |out, (index, (width, values))| {
        out.extend_from_slice(br#"{"object":"pooling","index":"#);
        push_json(out, &index);
        out.extend_from_slice(br#","data":"#);
        match width {
            Some(width) if format == VectorFormat::Float => {
                push_list(out, values.chunks(width.max(1)), push_floats);
            }
            _ => format.push(out, values),
        }
        out.push(b'}');
    });
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

    fn score(body: Value) -> Result<ScoreRequest, Fault> {
        ScoreRequest::parse(body.to_string().as_bytes())
    }

    #[test]
    fn pairs_under_all_their_names() {
        let pairs = |body: Value| score(body).unwrap().pairs;
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(pairs(json!({"text_1": "a", "text_2": "b"})), [pair("a", "b")]);
        assert_eq!(pairs(json!({"queries": "a", "documents": ["b", "c"]})), [pair("a", "b"), pair("a", "c")]);
        assert_eq!(
            pairs(json!({"data_1": ["a", "b"], "data_2": ["c", "d"]})),
            [pair("a", "c"), pair("b", "d")]
        );
        assert_eq!(pairs(json!({"queries": ["a", "b"], "items": "c"})), [pair("a", "c"), pair("b", "c")]);
        for (body, at) in [
            (json!({"queries": ["a", "b"], "documents": ["c", "d", "e"]}), "documents"),
            (json!({"queries": "a"}), "documents"),
            (json!({"documents": "a"}), "queries"),
            (json!({"queries": "a", "text_1": "b", "documents": "c"}), "text_1"),
            (json!({"queries": [], "documents": "c"}), "queries"),
            (json!({"queries": "a", "documents": [5]}), "documents[0]"),
            (json!({"queries": "a", "documents": "b", "max_tokens_per_doc": 5}), "max_tokens_per_doc"),
            (json!({"queries": "a".repeat(1 << 20), "documents": vec!["b"; 99]}), "queries"),
        ] {
            assert_eq!(score(body.clone()).unwrap_err().param.as_deref(), Some(at), "{at}");
        }
    }

    #[test]
    fn classify_and_pooling_are_read() {
        let body = json!({"input": ["a", [1]], "use_activation": false, "truncate_prompt_tokens": -1});
        let classify = ClassifyRequest::parse(body.to_string().as_bytes()).unwrap();
        assert!(classify.raw_scores && classify.inputs.len() == 2);
        assert_eq!(classify.length, Length::of_model(Truncation::End));
        let pooling = |body: Value| PoolingRequest::parse(body.to_string().as_bytes());
        let request =
            pooling(json!({"input": "a", "task": "token_embed", "encoding_format": "base64"})).unwrap();
        assert_eq!((request.task, request.format), (Some(PoolingTask::TokenEmbed), VectorFormat::Base64));
        assert_eq!(pooling(json!({"input": "a"})).unwrap().task, None);
        for (name, value) in [
            ("task", json!("token_classify")),
            ("task", json!("plugin")),
            ("encoding_format", json!("int8")),
            ("messages", json!([1])),
            ("input", json!({"image": "x"})),
        ] {
            let mut body = json!({"input": "a"});
            body[name] = value;
            assert_eq!(pooling(body).unwrap_err().param.as_deref(), Some(name));
        }
    }

    #[test]
    fn answers_are_vllms() {
        let labels = ["no".to_owned(), "yes".to_owned()];
        assert_eq!(
            serde_json::to_value(Classified::new(3, &labels, &[0.25, 0.75])).unwrap(),
            json!({"index": 3, "label": "yes", "probs": [0.25, 0.75], "num_classes": 2})
        );
        let said = |width, format| {
            let bytes =
                pooling_answer("p", 7, "m", [(width, &[0.5_f32, 1.0][..])], format, EncoderUsage::new(2, 0));
            serde_json::from_slice::<Value>(&bytes).unwrap()["data"][0]["data"].clone()
        };
        assert_eq!(said(None, VectorFormat::Float), json!([0.5, 1.0]));
        assert_eq!(said(Some(1), VectorFormat::Float), json!([[0.5], [1.0]]));
        assert_eq!(said(Some(1), VectorFormat::Base64), json!("AAAAPwAAgD8="));
    }
}
