//! `POST /score`, `/v1/score`, `/classify` and `/pooling`, vLLM's.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Classify, Embed, EmbedKind, Embedding, Operation, Output, Score};
use service::unix_seconds;
use wire::Fault;
use wire::inputs::{EncoderOptions, InputPrompt};
use wire::vectors::VectorFormat;
use wire::vllm_pooling::{
    Classified, ClassifyRequest, PoolingAnswer, PoolingRequest, PoolingTask, ScoreRequest, pair_scores,
    pooling_answer,
};

use super::{Done, classes_of, json, response, run, scores_of, usage, vectors_of, written};
use crate::state::State;

/// An operation's name of the field, and vLLM's.
const INPUT: super::Names = &[("inputs", "input")];

/// `POST /score`.
pub(crate) async fn score(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    scored(&state, request).await.unwrap_or_else(|fault| httpd::respond(&fault))
}

async fn scored(state: &State, request: Request) -> Result<Response, Fault> {
    let make = |body: &[u8]| {
        let ScoreRequest { mut options, pairs, length, prompt, raw_scores } = ScoreRequest::parse(body)?;
        let model = options.model.take();
        Ok((Operation::Score(Score { model, pairs, length, prompt, raw_scores }), options, ()))
    };
    let Done { output, context, .. } = run(state, request, &[], make).await?;
    let encoded = scores_of(output)?;
    let id = format!("score-{}", context.request_id());
    let data = pair_scores(&encoded.results);
    Ok(json(&encoded, &list(&id, &encoded.model, data, usage(&encoded))))
}

fn list<'a, T>(id: &'a str, model: &'a str, data: Vec<T>, usage: wire::EncoderUsage) -> PoolingAnswer<'a, T> {
    PoolingAnswer { id, object: "list", created: unix_seconds(), model, data, usage }
}

/// `POST /classify`.
pub(crate) async fn classify(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    classified(&state, request).await.unwrap_or_else(|fault| httpd::respond(&fault))
}

async fn classified(state: &State, request: Request) -> Result<Response, Fault> {
    let make = |body: &[u8]| {
        let ClassifyRequest { mut options, inputs, length, raw_scores } = ClassifyRequest::parse(body)?;
        let model = options.model.take();
        let classify = Classify { model, inputs, length, raw_scores, labels: Vec::new() };
        Ok((Operation::Classify(classify), options, ()))
    };
    let Done { output, context, .. } = run(state, request, INPUT, make).await?;
    let (labels, encoded) = classes_of(output)?;
    let id = format!("classify-{}", context.request_id());
    let results = encoded.results.iter().enumerate();
    let data = results.map(|(index, scores)| Classified::new(index, &labels, scores)).collect();
    Ok(json(&encoded, &list(&id, &encoded.model, data, usage(&encoded))))
}

/// `POST /pooling`.
pub(crate) async fn pooling(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    pooled(state, request).await.unwrap_or_else(|fault| httpd::respond(&fault))
}

async fn pooled(state: Arc<State>, request: Request) -> Result<Response, Fault> {
    let models = state.clone();
    let make = move |body: &[u8]| {
        let request = PoolingRequest::parse(body)?;
        let task = match request.task {
            Some(task) => task,
            None => default_task(&models, request.options.model.as_deref())?,
        };
        Ok(operation(request, task))
    };
    let Done { output, asked: format, context } = run(&state, request, INPUT, make).await?;
    let id = format!("pool-{}", context.request_id());
    if let Output::Classes { scores, .. } = output {
        let rows = scores.results.iter().map(|row| (None, row.as_slice()));
        let out = pooling_answer(&id, unix_seconds(), &scores.model, rows, format, usage(&scores));
        return Ok(response(&scores, out));
    }
    written(vectors_of(output)?, move |encoded| {
        let rows = encoded.results.iter().map(|result| match result {
            Embedding::Dense(values) => (None, values.as_slice()),
            Embedding::Tokens { width, values } => (Some(*width), values.as_slice()),
            Embedding::Sparse(_) => (None, &[][..]),
        });
        pooling_answer(&id, unix_seconds(), &encoded.model, rows, format, usage(encoded))
    })
    .await
}

/// What a model is for, where the request does not say.
fn default_task(state: &State, model: Option<&str>) -> Result<PoolingTask, Fault> {
    let classifies = state.can(model, "classify")? && !state.can(model, "embed")?;
    Ok(if classifies { PoolingTask::Classify } else { PoolingTask::Embed })
}

fn operation(request: PoolingRequest, task: PoolingTask) -> (Operation, EncoderOptions, VectorFormat) {
    let PoolingRequest { mut options, inputs, length, dimensions, normalize, raw_scores, format, .. } =
        request;
    let model = options.model.take();
    let operation = match task {
        PoolingTask::Classify => {
            Operation::Classify(Classify { model, inputs, length, raw_scores, labels: Vec::new() })
        }
        PoolingTask::Embed | PoolingTask::TokenEmbed => {
            let kind = if task == PoolingTask::Embed { EmbedKind::Dense } else { EmbedKind::Tokens };
            let prompt = InputPrompt::Default;
            Operation::Embed(Embed { model, inputs, kind, prompt, length, dimensions, normalize })
        }
    };
    (operation, options, format)
}
