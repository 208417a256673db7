//! `/api/tags`, `/api/ps` and `/api/show`, and what a request says of its model beside asking it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Operation, RequestContext, Tokenize};
use serde_json::{Map, Value, json};
use service::{Facts, LoadedModel, Takes, TextPipeline};
use sha2::{Digest, Sha256};
use wire::Fault;
use wire::error::quote;
use wire::ollama::{Details, KeepAlive, Listed, Running, Show, ShowRequest, rfc3339, tagged};

use super::answer::{json as answer, since_1970};
use crate::faults;
use crate::requests::{Parsed, parsed};
use crate::state::State;

/// When a model that stays is unloaded: as Ollama tells it, some centuries ahead.
const NEVER: &str = "2318-01-01T00:00:00.000000Z";
/// What is said of a `keep_alive` for a model that is pinned.
const PINNED: &str = "keep_alive is left out: this model stays loaded";

/// What is known of the model of this name; none is the default one.
fn find(state: &State, name: Option<&str>) -> Result<Facts, Fault> {
    state.service.open_or_reject()?;
    let facts = state.service.registry().facts_of(state.service.find(name)?);
    facts.ok_or_else(|| Fault::internal("a model that is found is not there"))
}

/// The name that a model's answers carry.
pub(super) fn name_of(state: &State, name: Option<&str>) -> Result<String, Fault> {
    Ok(find(state, name)?.names.into_iter().next().unwrap_or_default())
}

/// Has a model stay as long after its requests as this one says, unless the server pins it.
pub(super) fn keep(
    state: &State,
    name: Option<&str>,
    keep_alive: Option<KeepAlive>,
    context: &RequestContext,
) -> Result<(), Fault> {
    let time = match keep_alive {
        None => return Ok(()),
        Some(KeepAlive::For(time)) => Some(time),
        Some(KeepAlive::Forever) => None,
    };
    let kept = state.service.registry().keep(state.service.find(name)?, time);
    // A pinned one stays for ever too.
    if !kept && time.is_some() {
        context.warn(PINNED.to_owned());
    }
    Ok(())
}

/// Unloads a model, unless it is to stay loaded; gives back its name.
pub(super) fn unload(state: &State, name: Option<&str>, context: &RequestContext) -> Result<String, Fault> {
    let facts = find(state, name)?;
    if facts.pinned {
        context.warn(PINNED.to_owned());
    } else {
        state.service.registry().unload(state.service.find(name)?)?;
    }
    Ok(facts.names.into_iter().next().unwrap_or_default())
}

/// Refuses to have a model think that does not. It is loaded to be asked.
pub(super) async fn check_thinks(
    state: &State,
    name: Option<&str>,
    context: &RequestContext,
) -> Result<(), Fault> {
    let model = state.service.model(name).await?;
    context.add_model_wait(model.waited());
    if model.generation()?.text.tags().is_some() {
        return Ok(());
    }
    let message = format!("think is asked for, and the model {} does not think", quote(model.name()));
    Err(Fault::unsupported("think", message))
}

/// `GET /api/tags`.
pub(crate) async fn tags(Shared(state): Shared<Arc<State>>) -> Response {
    if let Err(fault) = state.service.open_or_reject() {
        return faults::ollama(&fault);
    }
    let listed = |facts: &Facts| -> Vec<Listed> {
        let entry = |name: &String| Listed {
            name: tagged(name),
            model: tagged(name),
            modified_at: created(facts),
            size: size(facts),
            digest: digest(facts),
            details: details(facts),
            capabilities: capabilities(facts),
        };
        facts.names.iter().map(entry).collect()
    };
    let listed: Vec<Listed> = state.service.registry().facts().iter().flat_map(listed).collect();
    answer(&json!({"models": listed}))
}

/// `GET /api/ps`.
pub(crate) async fn ps(Shared(state): Shared<Arc<State>>) -> Response {
    if let Err(fault) = state.service.open_or_reject() {
        return faults::ollama(&fault);
    }
    let running = |facts: &Facts| {
        let model = facts.state.model()?;
        Some(Running {
            name: tagged(model.name()),
            model: tagged(model.name()),
            size: size(facts),
            digest: digest(facts),
            details: details(facts),
            expires_at: expires(facts),
            size_vram: 0,
            context_length: model.context(),
        })
    };
    let running: Vec<Running> = state.service.registry().facts().iter().filter_map(running).collect();
    answer(&json!({"models": running}))
}

/// `POST /api/show`. A model is not loaded for it: of one that is not loaded, the name is known.
pub(crate) async fn show(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| {
        let ShowRequest { model } = ShowRequest::parse(body)?;
        let (name, text) = (Some(model.clone()), String::new());
        Ok((Operation::Tokenize(Tokenize::Encode { model: name, text, wrapped: false }), model))
    };
    // It is not asked for anything: what was admitted ends here.
    let shown = match parsed(&state, request, Takes::Texts, read).await {
        Ok(Parsed { asked: name, .. }) => find(&state, Some(&name)),
        Err(fault) => Err(fault),
    };
    shown.map_or_else(|fault| faults::ollama(&fault), |facts| answer(&shown_of(&facts)))
}

fn first(facts: &Facts) -> &str {
    facts.names.first().map_or("model", String::as_str)
}

fn shown_of(facts: &Facts) -> Show {
    Show {
        modelfile: format!("# {} is served by Gristmill; it has no Modelfile", first(facts)),
        parameters: "",
        template: text(facts).and_then(TextPipeline::template).unwrap_or_default().to_owned(),
        details: details(facts),
        model_info: facts.state.model().map(|model| info(model)).unwrap_or_default(),
        capabilities: capabilities(facts),
        modified_at: created(facts),
    }
}

/// Figures under the names of a GGUF's metadata, as far as they are known.
fn info(model: &LoadedModel) -> Map<String, Value> {
    let d = &model.details;
    let family = if d.family.is_empty() { "unknown" } else { d.family.as_str() };
    let mut info = Map::new();
    info.insert("general.architecture".into(), family.into());
    info.insert("general.basename".into(), model.name().into());
    info.insert(format!("{family}.context_length"), model.context().into());
    if d.parameters > 0 {
        info.insert("general.parameter_count".into(), d.parameters.into());
        info.insert(format!("{family}.embedding_length"), d.width.into());
        info.insert(format!("{family}.block_count"), d.layers.into());
    }
    let size = model.generating().and_then(|generating| generating.text.facts().get("vocab_size").cloned());
    let size = size.or_else(|| model.encoding().map(|encoding| encoding.engine.vocab().into()));
    if let Some(size) = size {
        info.insert(format!("{family}.vocab_size"), size);
    }
    info
}

fn details(facts: &Facts) -> Details {
    let known = facts.state.model().map(|model| model.details.clone()).unwrap_or_default();
    Details::new(&known.format, &known.family, known.parameters, &known.quantization)
}

/// Bytes of the weights in the file; of a model that is not loaded, those of memory that it will take.
fn size(facts: &Facts) -> u64 {
    let loaded = facts.state.model().map(|model| model.details.weight_bytes);
    loaded.or(facts.bytes).unwrap_or_default()
}

/// The text pipeline of a model that is loaded and generates.
fn text(facts: &Facts) -> Option<&dyn TextPipeline> {
    facts.state.model()?.generating().map(|generating| generating.text.as_ref())
}

/// What the model can do, in Ollama's words; of one that is not loaded, what every model can.
fn capabilities(facts: &Facts) -> Vec<&'static str> {
    let (tools, thinks) = text(facts)
        .map_or((false, false), |text| (text.knows_tools() || text.style().is_some(), text.tags().is_some()));
    let model = facts.state.model();
    let generates = model.is_none_or(|model| model.generating().is_some());
    let embeds = model.is_some_and(|model| model.operations().contains(&"embed"));
    let words = [(generates, "completion"), (tools, "tools"), (thinks, "thinking"), (embeds, "embedding")];
    words.into_iter().filter(|(can, _)| *can).map(|(_, word)| word).collect()
}

/// When it was loaded; 1970 if it is not.
fn created(facts: &Facts) -> String {
    rfc3339(Duration::from_secs(facts.state.model().map_or(0, |model| model.created)))
}

/// When it will be unloaded if nobody asks it any more.
fn expires(facts: &Facts) -> String {
    match facts.keep_alive.filter(|_| !facts.pinned) {
        Some(kept) => rfc3339(since_1970() + kept.saturating_sub(facts.idle)),
        None => NEVER.to_owned(),
    }
}

/// What tells models apart: a hash of the name, as files are not hashed when they are loaded.
fn digest(facts: &Facts) -> String {
    Sha256::digest(first(facts).as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
