//! `POST /rerank`, `/v1/rerank` and `/v2/rerank` with `documents`: one request and one answer for the clients of Cohere,
//! Jina and vLLM.
//!
//! The three differ in what they require and leave out, not in what a name means, so the answer has the fields of all.

use serde::Serialize;
use serde_json::Value;

use crate::error::Fault;
use crate::fields::{Fields, wrong};
use crate::inputs::{self, EncoderOptions, Length, Truncation, vllm_length};
use crate::request_fields::Route;
use crate::scores::{ranked, raw_scores};
use crate::tei::RankRequest;
use crate::usage::EncoderUsage;
use crate::{json, limits};

/// Documents of a search unit, in which Cohere counts.
const DOCUMENTS_OF_A_UNIT: usize = 100;

/// A request of a path that has both forms.
#[derive(Debug, Clone, PartialEq)]
pub enum RerankBody {
    /// `documents`.
    Documents(RerankRequest),
    /// text-embeddings-inference's `texts`.
    Texts(RankRequest),
}

impl RerankBody {
    /// Parses a body. `documents` tells whether the documents are part of the answer unless `return_documents` says.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8], documents: bool) -> Result<RerankBody, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        match (body.get("texts").is_some(), body.get("documents").is_some()) {
            (true, true) => Err(Fault::field("texts", "texts and documents are given; give one of them")),
            (true, false) => RankRequest::read(&body).map(RerankBody::Texts),
            (false, _) => RerankRequest::read(&body, documents).map(RerankBody::Documents),
        }
    }
}

/// A validated request with `documents`.
#[derive(Debug, Clone, PartialEq)]
pub struct RerankRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// Most results; none is all.
    pub top_n: Option<usize>,
    /// The limit of length of query and document together.
    pub length: Length,
    /// Most tokens of a document.
    pub document_tokens: Option<usize>,
    /// Whether scores are logits.
    pub raw_scores: bool,
    /// Whether results have the documents.
    pub return_documents: bool,
}

impl RerankRequest {
    fn read(body: &Fields<'_>, documents: bool) -> Result<RerankRequest, Fault> {
        let options = EncoderOptions::read(body, Route::Rerank)?;
        let length = match vllm_length(body)? {
            Some(length) => length,
            // Cohere and Jina cut what is too long; the answer says how much.
            None => Length::of_model(inputs::truncate(body, false)?.unwrap_or(Truncation::End)),
        };
        let query = body.get("query").ok_or_else(|| Fault::missing("query"))?;
        Ok(RerankRequest {
            options,
            query: text_of("query", query)?,
            documents: texts_of(body)?,
            top_n: body.count("top_n", 0..=limits::TOKENS)?.filter(|n| *n > 0),
            length,
            document_tokens: body.count("max_tokens_per_doc", 0..=limits::TOKENS)?.filter(|n| *n > 0),
            raw_scores: raw_scores(body)?,
            return_documents: body.boolean("return_documents")?.unwrap_or(documents),
        })
    }
}

fn texts_of(body: &Fields<'_>) -> Result<Vec<String>, Fault> {
    let name = "documents";
    let list = match body.get(name) {
        None => return Err(Fault::missing(name)),
        Some(text @ Value::String(_)) => std::slice::from_ref(text),
        Some(_) => body.list(name, limits::DOCUMENTS)?.unwrap_or_default(),
    };
    if list.is_empty() {
        return Err(inputs::empty(name.to_owned()));
    }
    list.iter().enumerate().map(|(i, entry)| text_of(&format!("{name}[{i}]"), entry)).collect()
}

/// A text, or an object with one.
fn text_of(param: &str, value: &Value) -> Result<String, Fault> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Object(_) => {
            let object = Fields::at(value, param.to_owned())?;
            let text = object.text("text", usize::MAX)?;
            text.map(str::to_owned).ok_or_else(|| Fault::missing(object.param("text")))
        }
        other => Err(wrong(param, other, "a string or an object with text")),
    }
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
pub struct RerankAnswer<'a> {
    /// Id of the request.
    pub id: &'a str,
    /// Always `list`.
    pub object: &'static str,
    /// Name of the answering model.
    pub model: &'a str,
    /// The documents by descending relevance.
    pub results: Vec<RankedDocument<'a>>,
    /// Token counts, as Jina and vLLM have them.
    pub usage: EncoderUsage,
    /// The same in Cohere's words.
    pub meta: Meta,
}

/// A document's place in the answer.
#[derive(Debug, Clone, Serialize)]
pub struct RankedDocument<'a> {
    /// Index in the request.
    pub index: usize,
    /// The score.
    pub relevance_score: f32,
    /// The document, if it is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<Document<'a>>,
}

/// A document in an answer.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Document<'a> {
    /// The text.
    pub text: &'a str,
}

impl<'a> RerankAnswer<'a> {
    /// The answer with these scores, in the request's order. `documents` is empty if they are not returned.
    pub fn new(
        id: &'a str,
        model: &'a str,
        scores: &[f32],
        top_n: Option<usize>,
        documents: &'a [String],
        usage: EncoderUsage,
        version: &'static str,
    ) -> RerankAnswer<'a> {
        let result = |(index, relevance_score): (usize, f32)| RankedDocument {
            index,
            relevance_score,
            document: documents.get(index).map(|text| Document { text }),
        };
        RerankAnswer {
            id,
            object: "list",
            model,
            results: ranked(scores, top_n).into_iter().map(result).collect(),
            usage,
            meta: Meta::of_search(version, scores.len().div_ceil(DOCUMENTS_OF_A_UNIT), usage),
        }
    }
}

/// Cohere's `meta`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Meta {
    api_version: ApiVersion,
    billed_units: BilledUnits,
    tokens: MetaTokens,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ApiVersion {
    version: &'static str,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct BilledUnits {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_units: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct MetaTokens {
    input_tokens: usize,
}

impl Meta {
    /// `meta` of a search with so many units.
    pub fn of_search(version: &'static str, search_units: usize, usage: EncoderUsage) -> Meta {
        let billed_units = BilledUnits { search_units: Some(search_units), input_tokens: None };
        Meta::new(version, billed_units, usage)
    }

    /// `meta` of an embedding.
    pub fn of_embedding(version: &'static str, usage: EncoderUsage) -> Meta {
        let billed_units = BilledUnits { search_units: None, input_tokens: Some(usage.prompt_tokens) };
        Meta::new(version, billed_units, usage)
    }

    fn new(version: &'static str, billed_units: BilledUnits, usage: EncoderUsage) -> Meta {
        let cut = usage.truncated_tokens;
        let warnings = if cut > 0 { vec![format!("{cut} tokens were truncated")] } else { Vec::new() };
        Meta {
            api_version: ApiVersion { version },
            billed_units,
            tokens: MetaTokens { input_tokens: usage.prompt_tokens },
            warnings,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: Value) -> Result<RerankRequest, Fault> {
        match RerankBody::parse(body.to_string().as_bytes(), true)? {
            RerankBody::Documents(request) => Ok(request),
            RerankBody::Texts(_) => panic!("{body} has no texts"),
        }
    }

    #[test]
    fn requests_of_three_servers_are_read() {
        let cohere = parse(json!({"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1,
            "max_tokens_per_doc": 40, "return_documents": false, "rank_fields": ["text"]}))
        .unwrap();
        assert_eq!((cohere.documents.as_slice(), cohere.top_n), (&["a".into(), "b".into()][..], Some(1)));
        assert_eq!((cohere.document_tokens, cohere.return_documents), (Some(40), false));
        assert_eq!(cohere.length, Length::of_model(Truncation::End));
        let vllm =
            parse(json!({"query": {"text": "q"}, "documents": "a", "top_n": 0, "use_activation": false,
            "truncate_prompt_tokens": 9}))
            .unwrap();
        assert_eq!((vllm.query.as_str(), vllm.top_n, vllm.raw_scores), ("q", None, true));
        assert_eq!((vllm.length.tokens, vllm.return_documents), (Some(9), true));
        for (name, value) in [
            ("query", json!(5)),
            ("query", Value::Null),
            ("documents", json!([])),
            ("documents", json!([5])),
            ("documents", json!([{"title": "a"}])),
            ("documents", Value::Null),
            ("texts", json!(["a"])),
            ("top_n", json!(-1)),
            ("rank_fields", json!(["title"])),
            ("relevant_spans", json!({"mode": "enabled"})),
            ("max_tokens_per_query", json!(7)),
            ("documents", json!(vec!["a"; limits::DOCUMENTS + 1])),
        ] {
            let mut body = json!({"query": "q", "documents": ["a"]});
            body[name] = value;
            let fault = parse(body).unwrap_err();
            assert!(fault.param.as_deref().is_some_and(|param| param.starts_with(name)), "{name}: {fault:?}");
        }
    }

    #[test]
    fn an_answer_has_the_fields_of_all() {
        let documents = ["a".to_owned(), "b".to_owned()];
        let usage = EncoderUsage::new(12, 3);
        let answer = RerankAnswer::new("r", "m", &[0.25, 0.75], Some(1), &documents, usage, "1");
        assert_eq!(
            serde_json::to_value(&answer).unwrap(),
            json!({"id": "r", "object": "list", "model": "m",
                "results": [{"index": 1, "relevance_score": 0.75, "document": {"text": "b"}}],
                "usage": {"prompt_tokens": 12, "total_tokens": 12, "truncated_tokens": 3},
                "meta": {"api_version": {"version": "1"}, "billed_units": {"search_units": 1},
                    "tokens": {"input_tokens": 12}, "warnings": ["3 tokens were truncated"]}})
        );
    }
}
