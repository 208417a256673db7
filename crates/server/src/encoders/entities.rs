//! `POST /v1/entities`.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{ClassifyTokens, Encoded, Entity, Operation, Output};
use service::unix_seconds;
use wire::Fault;
use wire::entities::{EntitiesRequest, EntityAnswer, TextEntities};
use wire::vllm_pooling::PoolingAnswer;

use super::{Done, json, run, unexpected, usage};
use crate::state::State;

/// `POST /v1/entities`.
pub(crate) async fn entities(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request).await.unwrap_or_else(|fault| httpd::respond(&fault))
}

async fn answered(state: &State, request: Request) -> Result<Response, Fault> {
    let make = |body: &[u8]| {
        let EntitiesRequest { mut options, texts, aggregation, ignore_labels, length } =
            EntitiesRequest::parse(body)?;
        let model = options.model.take();
        let classify = ClassifyTokens { model, texts: texts.clone(), length, aggregation, ignore_labels };
        Ok((Operation::ClassifyTokens(classify), options, texts))
    };
    // Faults of all texts together are told of `inputs`, as with every operation.
    let names = &[("texts", "input"), ("inputs", "input")];
    let Done { output, asked: texts, context } = run(state, request, names, make).await?;
    let encoded = entities_of(output)?;
    let results = encoded.results.iter().zip(&texts).enumerate();
    let data = results.map(|(index, (entities, text))| of_text(index, entities, text)).collect();
    let id = format!("entities-{}", context.request_id());
    let answer = PoolingAnswer {
        id: &id,
        object: "list",
        created: unix_seconds(),
        model: &encoded.model,
        data,
        usage: usage(&encoded),
    };
    Ok(json(&encoded, &answer))
}

pub(super) fn entities_of(output: Output) -> Result<Encoded<Vec<Entity>>, Fault> {
    match output {
        Output::Entities(encoded) => Ok(encoded),
        _ => Err(unexpected()),
    }
}

fn of_text<'a>(index: usize, entities: &'a [Entity], text: &'a str) -> TextEntities<'a> {
    let entities = entities.iter().map(|entity| placed(entity, text)).collect();
    TextEntities { index, object: "entities", entities }
}

fn placed<'a>(entity: &'a Entity, text: &'a str) -> EntityAnswer<'a> {
    EntityAnswer {
        label: &entity.label,
        score: entity.score,
        text: text.get(entity.bytes.clone()).unwrap_or_default(),
        bytes: entity.bytes.clone().into(),
        chars: entity.chars.clone().into(),
    }
}
