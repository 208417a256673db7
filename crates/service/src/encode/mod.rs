//! Operations of encoders: embeddings, reranking, classification, entities and scores.
//!
//! A request's way: its texts are read off the async threads (`reader`) → a job of the encoder (`call`) → the numbers
//! of each text → the operation's own arithmetic (`numbers`). A dropped future cancels the job.
//!
//! Deliberately absent: pooling and heads, which the model computes; dialects of APIs.

mod call;
mod classify;
mod embed;
mod entities;
mod heads;
mod numbers;
mod reader;
mod rerank;
mod score;
mod similarity;
mod tokenize;

use std::sync::Arc;
use std::time::{Duration, Instant};

use inference::{Operation, Output, RequestContext};
use wire::Fault;

use crate::core::Core;
use crate::preparation::Admitted;
use crate::registry::Lease;
use call::Call;
pub(crate) use classify::check as check_classify;
pub use heads::{
    Activation, ClassifierHead, DenseHead, EncoderHeads, EncoderPrompts, ShortVectors, TokenVectors,
};
pub(crate) use reader::{Reader, Reading, empty};
pub(crate) use rerank::check as check_rerank;
pub(crate) use score::check as check_score;
pub(crate) use tokenize::tokenize;

/// Answers a request for an operation of encoders.
///
/// # Errors
/// An operation that the model does not support, texts that it cannot take, a full queue, a time limit.
pub(crate) async fn answer(
    core: &Core,
    model: Lease,
    operation: Operation,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    let Some(encoding) = model.encoding().cloned() else {
        return Err(model.unable(operation.name()));
    };
    let deadline = time_limit.and_then(|limit| Instant::now().checked_add(limit));
    let call = Call { core, model: Arc::new(model), encoding, context, deadline };
    match operation {
        Operation::Embed(embed) => embed::answer(&call, embed, admitted).await,
        Operation::Rerank(rerank) => rerank::answer(&call, rerank, admitted).await,
        Operation::Classify(classify) => classify::answer(&call, classify, admitted).await,
        Operation::ClassifyTokens(classify) => entities::answer(&call, classify, admitted).await,
        Operation::Score(score) => score::answer(&call, score, admitted).await,
        other @ (Operation::Generate(_) | Operation::Tokenize(_) | Operation::Infer(_)) => {
            Err(call.model.unable(other.name()))
        }
    }
}

#[cfg(test)]
mod tests;
