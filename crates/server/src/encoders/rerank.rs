//! `POST /rerank`, `/v1/rerank` and `/v2/rerank`, in the forms of Cohere, Jina, vLLM and text-embeddings-inference.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Operation, Rerank};
use wire::Fault;
use wire::inputs::EncoderOptions;
use wire::rerank::{RerankAnswer, RerankBody, RerankRequest};
use wire::tei::{self, RankRequest};

use super::{Done, json, run, scores_of, usage};
use crate::faults;
use crate::state::State;

/// What the answer is to look like.
enum Asked {
    /// Cohere's, Jina's and vLLM's; with the documents if they are part of it.
    Documents { documents: Vec<String>, top_n: Option<usize> },
    /// text-embeddings-inference's; with the texts if they are part of it.
    Texts(Vec<String>),
}

/// `POST /rerank`.
pub(crate) async fn rerank(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, true, "1").await.unwrap_or_else(|fault| faults::tei(&fault))
}

/// `POST /v1/rerank`: the documents are part of the answer, as Jina's and vLLM's clients expect.
pub(crate) async fn rerank_v1(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, true, "1").await.unwrap_or_else(|fault| faults::cohere(&fault))
}

/// `POST /v2/rerank`.
pub(crate) async fn rerank_v2(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, false, "2").await.unwrap_or_else(|fault| faults::cohere(&fault))
}

async fn answered(
    state: &State,
    request: Request,
    documents: bool,
    version: &'static str,
) -> Result<Response, Fault> {
    let make = move |body: &[u8]| {
        Ok(match RerankBody::parse(body, documents)? {
            RerankBody::Documents(request) => of_documents(request),
            RerankBody::Texts(request) => of_texts(request),
        })
    };
    // Which of both forms the body has is known too late: its own readers say `texts` where there are texts.
    let Done { output, asked, context } = run(state, request, &[], make).await?;
    let encoded = scores_of(output)?;
    Ok(match asked {
        Asked::Documents { documents, top_n } => {
            let id = context.request_id();
            let scores = &encoded.results;
            let usage = usage(&encoded);
            let answer = RerankAnswer::new(&id, &encoded.model, scores, top_n, &documents, usage, version);
            json(&encoded, &answer)
        }
        Asked::Texts(texts) => json(&encoded, &tei::ranks(&encoded.results, &texts)),
    })
}

fn of_documents(request: RerankRequest) -> (Operation, EncoderOptions, Asked) {
    let RerankRequest {
        mut options,
        query,
        documents,
        top_n,
        length,
        document_tokens,
        raw_scores,
        return_documents,
    } = request;
    let returned = if return_documents { documents.clone() } else { Vec::new() };
    let model = options.model.take();
    let rerank = Rerank { model, query, documents, length, document_tokens, raw_scores };
    (Operation::Rerank(rerank), options, Asked::Documents { documents: returned, top_n })
}

fn of_texts(request: RankRequest) -> (Operation, EncoderOptions, Asked) {
    let RankRequest { mut options, query, texts, length, raw_scores, return_text } = request;
    let returned = if return_text { texts.clone() } else { Vec::new() };
    let model = options.model.take();
    let rerank = Rerank { model, query, documents: texts, length, document_tokens: None, raw_scores };
    (Operation::Rerank(rerank), options, Asked::Texts(returned))
}
