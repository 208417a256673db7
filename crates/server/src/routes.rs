//! The table of contents of the API.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Request, State as Shared};
use axum::http::header;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use events::Format;
use tower_http::catch_panic::CatchPanicLayer;
use wire::error::quote;
use wire::{Fault, models};

use crate::auth::Client;
use crate::generation::Generation;
use crate::plan::{Form, Plan};
use crate::preparation::Work;
use crate::state::State;
use crate::{
    Served, answer, body, cors, held, hints, layers, llamacpp, messages, page, plan, responses, stream, tgi,
    tokens, visit,
};

pub(crate) const HEALTH: &str = "/health";
pub(crate) const LIVE: &str = "/health/live";
pub(crate) const READY: &str = "/health/ready";
const METRICS: &str = "/metrics";
const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const MODELS: &str = "/v1/models";
const MODEL: &str = "/v1/models/{*id}";
pub(crate) const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";
const RESPONSES: &str = "/v1/responses";
const RESPONSE: &str = "/v1/responses/{id}";
const CANCEL: &str = "/v1/responses/{id}/cancel";
const INPUT_ITEMS: &str = "/v1/responses/{id}/input_items";
const CONVERSATIONS: &str = "/v1/conversations";
const CONVERSATION: &str = "/v1/conversations/{*rest}";
const TOKENIZE: &str = "/tokenize";
const DETOKENIZE: &str = "/detokenize";
const APPLY_TEMPLATE: &str = "/apply-template";
const VERSION: &str = "/version";
const PROPS: &str = "/props";
const OPENAPI: &str = "/openapi.json";
const TOKENIZER_INFO: &str = "/tokenizer_info";
const GENERATE: &str = "/generate";
const GENERATE_STREAM: &str = "/generate_stream";
const ROOT: &str = "/";
const INFO: &str = "/info";
const COMPLETION: &str = "/completion";
const LLAMA_COMPLETIONS: &str = "/completions";
const SLOTS: &str = "/slots";

const GET: &[&str] = &["GET"];
const POST: &[&str] = &["POST"];

/// Every route but the page's, and the methods that it answers.
const ROUTES: [(&str, &[&str]); 28] = [
    (HEALTH, GET),
    (LIVE, GET),
    (READY, GET),
    (METRICS, GET),
    (CHAT, POST),
    (COMPLETIONS, POST),
    (MODELS, GET),
    (MODEL, GET),
    (MESSAGES, POST),
    (COUNT, POST),
    (RESPONSES, POST),
    (RESPONSE, &["GET", "DELETE"]),
    (CANCEL, POST),
    (INPUT_ITEMS, GET),
    (TOKENIZE, POST),
    (DETOKENIZE, POST),
    (APPLY_TEMPLATE, POST),
    (TOKENIZER_INFO, GET),
    (GENERATE, POST),
    (GENERATE_STREAM, POST),
    (ROOT, POST),
    (INFO, GET),
    (COMPLETION, POST),
    (LLAMA_COMPLETIONS, POST),
    (SLOTS, GET),
    (VERSION, GET),
    (PROPS, GET),
    (OPENAPI, GET),
];

/// The methods that a path answers, if it is one without a part of the client's.
pub(crate) fn methods(path: &str) -> Option<&'static [&'static str]> {
    ROUTES.iter().find(|(route, _)| *route == path).map(|(_, methods)| *methods)
}

/// Every route, behind the layers that all requests go through.
pub(crate) fn router(state: Arc<State>) -> Router {
    let page = if state.options.page { page::routes() } else { Router::new() };
    page.route(HEALTH, get(health))
        .route(READY, get(health))
        .route(LIVE, get(live))
        .route(METRICS, get(metrics))
        .route(CHAT, post(chat))
        .route(COMPLETIONS, post(completions))
        .route(MODELS, get(list_models))
        .route(MODEL, get(one_model))
        .route(MESSAGES, post(messages))
        .route(COUNT, post(tokens::count))
        .route(RESPONSES, post(responses::create))
        .route(RESPONSE, get(responses::retrieve).delete(responses::delete))
        .route(CANCEL, post(responses::cancel))
        .route(INPUT_ITEMS, get(responses::input_items))
        .route(CONVERSATIONS, any(responses::no_conversations))
        .route(CONVERSATION, any(responses::no_conversations))
        .route(TOKENIZE, post(tokens::tokenize))
        .route(DETOKENIZE, post(tokens::detokenize))
        .route(APPLY_TEMPLATE, post(tokens::apply_template))
        .route(TOKENIZER_INFO, get(tokenizer_info))
        .route(GENERATE, post(tgi::generate))
        .route(GENERATE_STREAM, post(tgi::generate_stream))
        .route(ROOT, post(tgi::root))
        .route(INFO, get(tgi::info))
        .route(COMPLETION, post(llamacpp::completion))
        .route(LLAMA_COMPLETIONS, post(llamacpp::completion))
        .route(SLOTS, get(llamacpp::slots))
        .route(VERSION, get(version))
        .route(PROPS, get(props))
        .route(OPENAPI, get(openapi))
        .fallback(hints::nothing_there)
        .method_not_allowed_fallback(hints::wrong_method)
        .layer(middleware::from_fn_with_state(state.clone(), held::hold))
        .layer(middleware::from_fn_with_state(state.clone(), layers::guard))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(middleware::from_fn_with_state(state.clone(), cors::apply))
        .layer(middleware::from_fn_with_state(state.clone(), layers::name_and_count))
        .with_state(state)
}

/// A path's route for the metrics: a fixed set of labels. None for those that are not counted.
pub(crate) fn pattern(path: &str) -> Option<&'static str> {
    match path {
        HEALTH | LIVE | READY | METRICS => None,
        _ if path.starts_with("/v1/models/") => Some("/v1/models/{id}"),
        _ if path.starts_with("/v1/responses/") => {
            let known =
                [CANCEL, INPUT_ITEMS].into_iter().find(|route| path.ends_with(&route[RESPONSE.len()..]));
            Some(known.unwrap_or(RESPONSE))
        }
        _ => {
            let plain = ROUTES.iter().map(|(route, _)| *route).find(|route| *route == path);
            plain.or_else(|| page::path(path)).or(Some("none"))
        }
    }
}

async fn health(Shared(state): Shared<Arc<State>>) -> Response {
    match state.is_ready() {
        Ok(()) => json(r#"{"status":"ok"}"#.to_owned()),
        Err(fault) => layers::respond(&fault),
    }
}

/// Whether the process is worth keeping: the engine moves, or has nothing to do. Loading and draining are no reason
/// to restart it.
async fn live(Shared(state): Shared<Arc<State>>) -> Response {
    match state.pulse.stuck() {
        None if state.engine_has_stopped() => layers::respond(&Fault::unavailable(
            "engine_stopped",
            "the engine has stopped; the server must be restarted",
            60,
        )),
        None => json(r#"{"status":"ok"}"#.to_owned()),
        Some(stuck) => layers::respond(&Fault::unavailable(
            "engine_stuck",
            format!("the engine has work and has made no step for {} s", stuck.as_secs()),
            60,
        )),
    }
}

async fn metrics(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let format = Format::accepted(accept);
    if let Some(process) = state.process.get() {
        state.metrics.set_process(&process());
    }
    state.metrics.set_time(&state.machine_time());
    let text = state.metrics.write(state.gauges().as_ref(), format);
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

fn cards(served: &Served) -> impl Iterator<Item = models::Card> {
    let context = served.engine.context();
    served.names.iter().map(move |name| models::Card::new(name, served.created, context))
}

async fn list_models(Shared(state): Shared<Arc<State>>) -> Response {
    match state.served_or_reject() {
        Ok(served) => to_json(&models::List::new(cards(&served).collect())),
        Err(fault) => layers::respond(&fault),
    }
}

async fn one_model(Shared(state): Shared<Arc<State>>, Path(id): Path<String>) -> Response {
    match state.served_or_reject() {
        Ok(served) => match cards(&served).find(|card| card.id == id) {
            Some(card) => to_json(&card),
            None if served.is_called(&id) => {
                to_json(&models::Card::new(id, served.created, served.engine.context()))
            }
            None => layers::respond(&Fault::no_model(&id, &served.names)),
        },
        Err(fault) => layers::respond(&fault),
    }
}

async fn chat(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    generate(state, request, plan::chat).await.unwrap_or_else(|fault| layers::respond(&fault))
}

async fn completions(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    generate(state, request, plan::completion).await.unwrap_or_else(|fault| layers::respond(&fault))
}

async fn messages(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    generate(state, request, plan::messages).await.unwrap_or_else(|fault| messages::respond(&fault))
}

/// One request, from body to answer.
async fn generate(
    state: Arc<State>,
    request: Request,
    make: fn(&Work, &[u8]) -> Result<Plan, Fault>,
) -> Result<Response, Fault> {
    let Begun { mut generation, id } = begin(&state, request, make).await?;
    let prefix = match generation.plan.form {
        Form::Completion(_) => "cmpl-",
        Form::Message => "msg_",
        _ => "chatcmpl-",
    };
    let id = format!("{prefix}{id}");
    match (&generation.plan.form, generation.plan.stream.on) {
        (Form::Message, false) => messages::whole(generation, id).await,
        (_, false) => answer::whole(generation, id).await,
        (form, true) => {
            let dialect: Box<dyn stream::Dialect> = match form {
                Form::Message => Box::new(messages::Writer::new(id)),
                _ => Box::new(stream::Writer::new(&mut generation, id)),
            };
            Ok(stream::response(generation, dialect, state.options.ping))
        }
    }
}

/// A request in the engine, and its name.
pub(crate) struct Begun {
    pub(crate) generation: Generation,
    pub(crate) id: String,
}

/// From the body into the engine; `make` is computed off the async threads.
pub(crate) async fn begin(
    state: &State,
    request: Request,
    make: impl FnOnce(&Work, &[u8]) -> Result<Plan, Fault> + Send + 'static,
) -> Result<Begun, Fault> {
    let arrived = Instant::now();
    let served = state.served_or_reject()?;
    let id = request.headers().get(&layers::REQUEST_ID).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let client = request.extensions().get::<Client>().copied().unwrap_or_default();
    let time_limit = time_limit(&request)?;
    let body = body::read(state, request).await?;
    let permit = state.enter()?;
    // The place of the answer goes along: while the body is worked on it is taken, whoever has left.
    let planned = move |work: &Work, body: &[u8]| Ok((make(work, body)?, permit));
    let (mut plan, mut permit) = body.read_by(state, &served, planned).await?;
    plan.ask_for(client, time_limit);
    if let Some(visit) = visit::current() {
        plan.warnings.drain(..).for_each(|warning| visit.warn(warning));
    }
    permit.grow(plan.choices()).inspect_err(|fault| state.count_refusal(fault))?;
    let generation = Generation::start(state, served, plan, permit, arrived)?;
    Ok(Begun { generation, id: id.unwrap_or_else(|| layers::new_id(state)) })
}

async fn openapi() -> Response {
    to_json(&wire::openapi::document(env!("CARGO_PKG_VERSION")))
}

async fn version() -> Response {
    to_json(&serde_json::json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// What llama.cpp's clients ask for, as far as it exists here.
async fn props(Shared(state): Shared<Arc<State>>) -> Response {
    let served = match state.served_or_reject() {
        Ok(served) => served,
        Err(fault) => return layers::respond(&fault),
    };
    let defaults = engine::Params::default();
    to_json(&serde_json::json!({
        "default_generation_settings": {
            "n_ctx": served.engine.context(),
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
        "total_slots": state.options.parallel,
        "model_alias": served.name(),
        "build_info": answer::FINGERPRINT,
        "modalities": {"vision": false, "audio": false},
    }))
}

/// The header for clients that cannot add the field `timeout`, seconds.
const TIMEOUT: &str = "x-request-timeout";

fn time_limit(request: &Request) -> Result<Option<Duration>, Fault> {
    let Some(value) = request.headers().get(TIMEOUT) else { return Ok(None) };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<f32>().ok());
    match seconds.filter(|s| (0.001..=wire::limits::TIMEOUT_S).contains(s)) {
        Some(seconds) => Ok(Some(plan::whole_ms(seconds))),
        None => {
            let message = format!(
                "the header {TIMEOUT} is {}; it must be between 0.001 and {} seconds",
                quote(value.to_str().unwrap_or("not ASCII")),
                wire::limits::TIMEOUT_S
            );
            Err(Fault::field(TIMEOUT, message))
        }
    }
}

/// What is known of the tokenizer, in the words of `tokenizer_config.json`, as vLLM tells it.
async fn tokenizer_info(Shared(state): Shared<Arc<State>>) -> Response {
    match state.served_or_reject() {
        Ok(served) => {
            let mut facts = served.language.facts();
            facts.entry("tokenizer_class").or_insert("PreTrainedTokenizerFast".into());
            facts.insert("model_max_length".into(), served.engine.context().into());
            to_json(&facts)
        }
        Err(fault) => layers::respond(&fault),
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
    use super::*;

    #[test]
    fn the_document_has_every_route() {
        let document = wire::openapi::document("1");
        let paths = document["paths"].as_object().expect("paths");
        let told = |route: &str| ![OPENAPI, METRICS, HEALTH, LIVE, READY].contains(&route);
        for (route, methods) in ROUTES.into_iter().filter(|(route, _)| told(route)) {
            let route = route.replace("{*id}", "{id}");
            let path = paths.get(&route).unwrap_or_else(|| panic!("{route} is not in the document"));
            for method in methods {
                assert!(path.get(method.to_lowercase()).is_some(), "{method} {route} is not in the document");
            }
        }
        for path in paths.keys().filter(|path| !path.contains('{')) {
            assert_eq!(pattern(path), Some(path.as_str()), "{path} is no route");
        }
    }

    #[test]
    fn the_manual_has_every_route() {
        let manual = include_str!("../../../docs/api-reference.md");
        let table: Vec<&str> = manual.lines().filter(|line| line.starts_with("| `")).collect();
        for (route, _) in ROUTES {
            let shown = route.replace("{*id}", "NAME").replace("{id}", "ID");
            let end = shown.rsplit_once("/v1/responses/").map_or(shown.as_str(), |(_, end)| end);
            let known = |line: &&str| line.contains(&format!("{end}`")) || line.contains(&format!("{end}/"));
            assert!(table.iter().any(known), "{route} is not in docs/api-reference.md");
        }
    }
}
