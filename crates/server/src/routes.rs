//! The routes of the API and their handlers.

use std::sync::Arc;

use axum::extract::{Path, Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get, post};
use axum::{Router, middleware};
use events::Format;
use inference::Generate;
use service::{Facts, ModelId};
use wire::routes::{ROUTES, Route};
use wire::{ChatRequest, CompletionRequest, Fault, models};

use crate::answer;
use crate::requests::{Begun, Read, begin};
use crate::shown::Shown;
use crate::state::State;
use crate::{
    encoders, faults, grpc, hints, jobs, llamacpp, messages, node, oip, ollama, page, responses, stream, tgi,
    tokens,
};

/// Paths of OpenAI's that are said rather than found missing.
const CONVERSATIONS: [&str; 2] = ["/v1/conversations", "/v1/conversations/{*rest}"];

/// The handler of a route.
fn handler(state: &State, route: &Route) -> Option<MethodRouter<Arc<State>>> {
    own_handler(route).or_else(|| jobs::handler(state, route))
}

/// The handler of a route that needs no store of jobs.
fn own_handler(route: &Route) -> Option<MethodRouter<Arc<State>>> {
    Some(match route.id {
        "health" | "healthReady" => get(health),
        "healthLive" => get(live),
        "metrics" => get(metrics),
        "openApi" => get(openapi),
        "getNode" => get(node::record),
        "createChatCompletion" => post(chat),
        "createCompletion" => post(completions),
        "createResponse" => post(responses::create),
        "getResponse" => get(responses::retrieve),
        "deleteResponse" => delete(responses::delete),
        "cancelResponse" => post(responses::cancel),
        "listInputItems" => get(responses::input_items),
        "createMessage" => post(messages),
        "countMessageTokens" => post(tokens::count),
        "listModels" => get(list_models),
        "retrieveModel" => get(one_model),
        "loadModel" => post(change_model),
        // The router has one path for all of them.
        "unloadModel" | "pinModel" | "unpinModel" => MethodRouter::new(),
        "tokenize" => post(tokens::tokenize),
        "detokenize" => post(tokens::detokenize),
        "applyTemplate" => post(tokens::apply_template),
        "tokenizerInfo" => get(tokenizer_info),
        "generate" => post(tgi::generate),
        "generateStream" => post(tgi::generate_stream),
        "createChunks" => post(tokens::chunk),
        "llamaCompletion" | "llamaCompletions" => post(llamacpp::completion),
        "llamaInfill" => post(llamacpp::infill),
        "slots" => get(llamacpp::slots),
        "version" => get(version),
        "props" => get(props),
        "ollamaChat" => post(ollama::chat),
        "ollamaGenerate" => post(ollama::generate),
        "ollamaEmbed" => post(ollama::embed),
        "ollamaEmbeddings" => post(ollama::embeddings),
        "ollamaTags" => get(ollama::tags),
        "ollamaPs" => get(ollama::ps),
        "ollamaShow" => post(ollama::show),
        "ollamaVersion" => get(version),
        "ollamaRunning" => get(ollama::running),
        _ => return encoder_handler(route),
    })
}

/// The handler of a route for encoders.
fn encoder_handler(route: &Route) -> Option<MethodRouter<Arc<State>>> {
    Some(match route.id {
        "compatGenerate" => post(encoders::root),
        "info" => get(encoders::info),
        "createEmbedding" | "createEmbeddingAlias" => post(encoders::embeddings),
        "cohereEmbedV1" => post(encoders::embed_v1),
        "cohereEmbed" => post(encoders::embed_v2),
        "rerank" => post(encoders::rerank),
        "rerankV1" => post(encoders::rerank_v1),
        "rerankV2" => post(encoders::rerank_v2),
        "score" | "scoreV1" => post(encoders::score),
        "classify" => post(encoders::classify),
        "pooling" => post(encoders::pooling),
        "teiEmbed" | "featureExtraction" => post(encoders::embed),
        "teiEmbedAll" => post(encoders::embed_all),
        "teiEmbedSparse" => post(encoders::embed_sparse),
        "teiPredict" => post(encoders::predict),
        "teiSimilarity" | "sentenceSimilarity" => post(encoders::similarity),
        "textClassification" => post(encoders::text_classification),
        "tokenClassification" => post(encoders::token_classification),
        "createEntities" => post(encoders::entities),
        _ => return oip_handler(route),
    })
}

/// The handler of a route of the Open Inference Protocol. The router has one path for all that is behind a model's name.
fn oip_handler(route: &Route) -> Option<MethodRouter<Arc<State>>> {
    Some(match route.id {
        "oipServer" => get(oip::server),
        "oipLive" => get(oip::live),
        "oipReady" => get(oip::ready),
        "oipAllStatistics" => get(oip::all_statistics),
        "oipModel" => get(oip::look).post(oip::ask),
        "oipTrace" => get(oip::trace).post(oip::set_trace),
        "oipLogging" => get(oip::logging).post(oip::set_logging),
        "oipSystemMemory" | "oipCudaMemory" => get(oip::memory).post(oip::set_memory),
        "oipGrpc" => post(grpc::serve),
        "oipIndex" => post(oip::index),
        "oipLoad" => post(oip::change),
        "oipUnload" => MethodRouter::new(),
        id if id.starts_with("oip") && route.path.starts_with("/v2/models/{*id}/") => MethodRouter::new(),
        _ => return None,
    })
}

/// Every route, behind the layers that all requests go through.
pub(crate) fn router(state: &Arc<State>) -> Router {
    httpd::layered(bare(state).with_state(state.clone()), &state.edge)
}

/// Every route, without the layers.
pub(crate) fn bare(state: &Arc<State>) -> Router<Arc<State>> {
    let mut router = if state.page { page::routes() } else { Router::new() };
    // The page's own `GET /` is in the place of Ollama's.
    for route in ROUTES.iter().filter(|route| !(state.page && route.id == "ollamaRunning")) {
        if let Some(handler) = handler(state, route) {
            let handler = if route.infers() { inferring(state, route, handler) } else { handler };
            router = router.route(routed_path(route), handler);
        }
    }
    for path in CONVERSATIONS {
        router = router.route(path, any(responses::no_conversations));
    }
    router.fallback(hints::nothing_there).method_not_allowed_fallback(hints::wrong_method)
}

/// A handler that computes with a model, with what goes before and after it.
fn inferring(
    state: &Arc<State>,
    route: &Route,
    handler: MethodRouter<Arc<State>>,
) -> MethodRouter<Arc<State>> {
    let handler = handler
        .layer(middleware::from_fn_with_state(state.clone(), node::add_load))
        .layer(middleware::from_fn_with_state((state.clone(), route.shape), jobs::prefer));
    if route.id == "generate" {
        return handler.layer(middleware::from_fn_with_state(state.clone(), jobs::guide));
    }
    handler
}

/// The path that the router knows a route by: what stands behind a name of several segments is read by the handler.
fn routed_path(route: &Route) -> &'static str {
    match route.path.find("{*").and_then(|at| route.path[at..].find('}').map(|end| at + end + 1)) {
        Some(end) => &route.path[..end],
        None => route.path,
    }
}

async fn health(Shared(state): Shared<Arc<State>>) -> Response {
    match state.service.is_ready() {
        Ok(()) => json(r#"{"status":"ok"}"#.to_owned()),
        Err(fault) => httpd::respond(&fault),
    }
}

/// Whether the process is worth keeping: the engine moves, or has nothing to do. Loading and draining are no reason
/// to restart it.
async fn live(Shared(state): Shared<Arc<State>>) -> Response {
    let Some(stuck) = state.service.watchdog().stuck() else {
        return match state.service.engines_run() {
            Ok(()) => json(r#"{"status":"ok"}"#.to_owned()),
            Err(fault) => httpd::respond(&fault),
        };
    };
    let message = format!(
        "the engine has work and has made no step for {} s; the work is of {}",
        stuck.as_secs(),
        state.service.busy_models()
    );
    httpd::respond(&Fault::unavailable("engine_stuck", message, 60))
}

async fn metrics(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let format = Format::accepted(accept);
    let metrics = state.service.metrics();
    if let Some(process) = state.process.get() {
        metrics.set_process(&process());
    }
    let mut text = state.service.write_metrics(format);
    if let Some(jobs) = state.jobs() {
        jobs::add_metrics(&jobs, format, &mut text).await;
    }
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

/// A card for each name of a model.
fn cards(facts: &Facts) -> Vec<models::Card> {
    let model = facts.state.model();
    let created = model.map_or(0, |model| model.created);
    let context = model.map(|model| model.context());
    let card = |name: &String| models::Card {
        state: facts.state.name(),
        memory_bytes: facts.bytes.filter(|bytes| *bytes > 0),
        pinned: facts.pinned,
        uses: facts.uses,
        idle_s: facts.idle.as_secs(),
        rejected: facts.rejected.clone(),
        ..models::Card::new(name, created, context)
    };
    facts.names.iter().map(card).collect()
}

async fn list_models(Shared(state): Shared<Arc<State>>) -> Response {
    match state.service.open_or_reject() {
        Ok(()) => {
            let cards = state.service.registry().facts().iter().flat_map(cards).collect();
            to_json(&models::List::new(cards))
        }
        Err(fault) => httpd::respond(&fault),
    }
}

async fn one_model(Shared(state): Shared<Arc<State>>, Path(id): Path<String>) -> Response {
    match state.service.open_or_reject().and_then(|()| state.service.find(Some(&id))) {
        Ok(model) => to_json(&card(&state, model, &id)),
        Err(fault) => httpd::respond(&fault),
    }
}

/// The card of a model under the name that it was asked for by.
fn card(state: &State, model: ModelId, id: &str) -> models::Card {
    let facts = state.service.registry().facts_of(model);
    let own = facts.and_then(|facts| cards(&facts).into_iter().next());
    let own = own.unwrap_or_else(|| models::Card::new(id, 0, None));
    models::Card { id: id.to_owned(), ..own }
}

/// `POST /v1/models/{id}/load`, `/unload`, `/pin` and `/unpin`.
async fn change_model(Shared(state): Shared<Arc<State>>, Path(rest): Path<String>) -> Response {
    let changed = async {
        state.service.open_or_reject()?;
        if let Some(id) = rest.strip_suffix("/load") {
            drop(state.service.model(Some(id)).await?);
            return Ok(card(&state, state.service.find(Some(id))?, id));
        }
        if let Some(id) = rest.strip_suffix("/unload") {
            let model = state.service.find(Some(id))?;
            state.service.registry().unload(model)?;
            return Ok(card(&state, model, id));
        }
        for (end, pinned) in [("/pin", true), ("/unpin", false)] {
            if let Some(id) = rest.strip_suffix(end) {
                let model = state.service.find(Some(id))?;
                state.service.registry().pin(model, pinned)?;
                if pinned {
                    drop(state.service.model(Some(id)).await?);
                }
                return Ok(card(&state, model, id));
            }
        }
        Err(Fault::not_found(&format!("/v1/models/{rest}")))
    };
    changed.await.map_or_else(|fault| httpd::respond(&fault), |card| to_json(&card))
}

async fn chat(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| {
        let request = ChatRequest::parse(body)?;
        let shown = Shown::of_chat(&request);
        Ok((Generate::chat(request), shown))
    };
    complete(&state, request, "chatcmpl-", read).await
}

async fn completions(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| {
        let request = CompletionRequest::parse(body)?;
        let shown = Shown::of_completion(&request);
        Ok((Generate::text(request), shown))
    };
    complete(&state, request, "cmpl-", read).await
}

/// One request of OpenAI's completions, from body to answer.
async fn complete(state: &State, request: Request, prefix: &str, read: Read<Generate, Shown>) -> Response {
    let answered = async {
        let Begun { generation, asked: shown, id } = begin(state, request, read).await?;
        let id = format!("{prefix}{id}");
        if shown.stream.on {
            let writer = stream::Writer::new(&generation, shown, id);
            return Ok(stream::response(generation, Box::new(writer), state.ping));
        }
        answer::whole(generation, &shown, id).await
    };
    answered.await.unwrap_or_else(|fault| httpd::respond(&fault))
}

async fn messages(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    messages::answer(&state, request).await.unwrap_or_else(|fault| faults::anthropic(&fault))
}

async fn openapi() -> Response {
    to_json(&wire::openapi::document(env!("CARGO_PKG_VERSION")))
}

async fn version() -> Response {
    to_json(&serde_json::json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// What llama.cpp's clients ask for, as far as it exists here.
async fn props(Shared(state): Shared<Arc<State>>) -> Response {
    let model = match state.service.model(None).await {
        Ok(model) => model,
        Err(fault) => return httpd::respond(&fault),
    };
    let defaults = service::Params::default();
    to_json(&serde_json::json!({
        "default_generation_settings": {
            "n_ctx": model.context(),
            "params": {
                "temperature": defaults.temperature,
                "top_k": defaults.top_k,
                "top_p": defaults.top_p,
                "min_p": defaults.min_p,
                "typical_p": defaults.typical_p,
                "repeat_penalty": defaults.repeat_penalty,
                "repeat_last_n": defaults.repeat_last_n,
            },
        },
        "total_slots": state.service.options().parallel,
        "model_alias": model.name(),
        "build_info": answer::FINGERPRINT,
        "modalities": {"vision": false, "audio": false},
    }))
}

/// What is known of the tokenizer, in the words of `tokenizer_config.json`, as vLLM tells it.
async fn tokenizer_info(Shared(state): Shared<Arc<State>>) -> Response {
    match state.service.model(None).await {
        Ok(model) => {
            let mut facts = match model.generation() {
                Ok(generating) => generating.text.facts(),
                Err(fault) => return httpd::respond(&fault),
            };
            facts.entry("tokenizer_class").or_insert("PreTrainedTokenizerFast".into());
            facts.insert("model_max_length".into(), model.context().into());
            to_json(&facts)
        }
        Err(fault) => httpd::respond(&fault),
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> Response {
    json(serde_json::to_string(value).expect("cards have string keys, which serialize"))
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests {
    use wire::routes::{HEALTH, LIVE, METRICS, OIP_LIVE, OIP_READY, READY};

    use super::*;
    use crate::paths::label;

    #[test]
    fn every_route_has_a_handler_and_a_label() {
        for route in ROUTES {
            assert!(
                own_handler(route).is_some() || job_server::faces::handler(route.id).is_some(),
                "{} {} has no handler",
                route.method,
                route.path
            );
            let path = route.path.replace("{*id}", "org/name").replace("{id}", "resp_1");
            let counted = ![HEALTH, LIVE, READY, METRICS, OIP_LIVE, OIP_READY].contains(&route.path);
            assert_eq!(label(&path), counted.then(|| route.path.replace("{*", "{")).as_deref(), "{path}");
        }
        assert_eq!(label("/nothing"), Some("none"));
    }

    #[test]
    fn the_manual_has_every_route() {
        let manual = include_str!("../../../docs/api-reference.md");
        let table: Vec<&str> = manual.lines().filter(|line| line.starts_with("| `")).collect();
        for route in ROUTES {
            let shown =
                route.path.replace("{*id}", "NAME").replace("{id}", "ID").replace("{version}", "VERSION");
            let end = shown.rsplit_once("/v1/responses/").map_or(shown.as_str(), |(_, end)| end);
            let known = |line: &&str| line.contains(&format!("{end}`")) || line.contains(&format!("{end}/"));
            assert!(table.iter().any(known), "{} is not in docs/api-reference.md", route.path);
        }
    }
}
