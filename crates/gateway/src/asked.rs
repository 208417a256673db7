//! A request as the gateway sees it: what is asked, by whom, and how far it may travel.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use bytes::Bytes;
use httpd::Edge;
use inference::{RequestContext, Share};
use privacy::Label;
use routing::{Boundary, Chain, Class};
use translation::{GeminiPath, Head};
use wire::Fault;

use crate::admission::Place;
use crate::api::Api;
use crate::config;
use crate::detection::Detected;
use crate::keys::KeyPolicy;
use crate::redaction::Redacted;
use crate::snapshot::Snapshot;
use crate::wishes::Wishes;

/// Answer tokens of a request that does not say how many it wants, for estimates and reservations.
const USUAL_TOKENS: u64 = 4_096;

/// A request; clones are the same one.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) api: &'static Api,
    pub(crate) body: Bytes,
    pub(crate) head: Head,
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) label: Label,
    /// Kinds of findings that raised the label.
    pub(crate) found: Vec<String>,
    /// The request without its findings, for upstreams that its label excludes.
    pub(crate) redacted: Option<Arc<Redacted>>,
    pub(crate) class: config::Class,
    pub(crate) key: Option<Arc<KeyPolicy>>,
    pub(crate) tenant: u64,
    pub(crate) chain: Vec<Boundary>,
    pub(crate) affinity: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) max_tokens: u64,
    pub(crate) request_id: String,
    /// The request's own limit of time.
    pub(crate) limit: Option<Duration>,
    /// The place among the model's requests; none for one that is only explained.
    _place: Option<Arc<Place>>,
    /// Bytes of the body, counted until the request has ended.
    _memory: Arc<Share>,
}

impl Asked {
    /// Reads a request.
    ///
    /// # Errors
    /// A body that is not what the operation takes, a model or a label that the key may not ask for.
    pub(crate) async fn read(
        edge: &Edge,
        snapshot: &Snapshot,
        api: &'static Api,
        request: Request,
        context: &Arc<RequestContext>,
    ) -> Result<Asked, Fault> {
        let path = request.uri().path().to_owned();
        let wishes = Wishes::read(request.headers())?;
        let key = context.key().and_then(|name| snapshot.keys.get(&name).cloned());
        let (tenant, request_id) = (context.client().0, context.request_id());
        let who = Who { key, tenant, request_id, waits: true };
        let read = httpd::body::read(edge, request, httpd::body::Media::Json).await?;
        let (body, memory) = read.decompressed(edge.options.body_bytes)?;
        Asked::of(snapshot, api, &path, &wishes, who, (Bytes::from(body), memory)).await
    }

    /// A request of this body, whose bytes are counted until it has ended.
    ///
    /// # Errors
    /// As [`Asked::read`].
    pub(crate) async fn of(
        snapshot: &Snapshot,
        api: &'static Api,
        path: &str,
        headers: &Wishes,
        who: Who,
        (body, memory): (Bytes, Share),
    ) -> Result<Asked, Fault> {
        let Who { key, tenant, request_id, waits } = who;
        let mut head = Head::read(api.dialect, &body)?;
        if let Some(path) = GeminiPath::parse(path) {
            head.stream = path.streams();
            head.model = Some(path.model);
        }
        let model = head.model.clone().ok_or_else(|| Fault::missing("model"))?;
        let route = snapshot.route(&model).ok_or_else(|| no_model(snapshot, &model, key.as_deref()))?;
        if key.as_ref().is_some_and(|key| !key.may_ask(route.names())) {
            return Err(no_model(snapshot, &model, key.as_deref()));
        }
        let class = key.as_ref().map_or(config::Class::Standard, |key| key.class);
        let class = headers.class.map_or(class, |wish| if key.is_none() { wish } else { wish.min(class) });
        // Before any work on the text.
        let place = match waits {
            true => Some(route.places().enter(routing_class(class), tenant, body.len() as u64).await?),
            false => None,
        };
        let Detected { label, found, redacted } = crate::detection::detect(
            snapshot.detection.as_deref(),
            route,
            key.as_deref(),
            headers,
            &head,
            &body,
        );
        let mut chain = Chain::new(route.name(), tenant);
        for message in head.raw_messages(&body) {
            chain.push(role(message), message);
        }
        Ok(Asked {
            api,
            model,
            stream: head.stream && api.generates,
            label,
            found,
            redacted,
            class,
            tenant,
            affinity: chain.affinity(),
            prompt_tokens: (head.prompt_bytes() as u64).div_ceil(4).max(1),
            max_tokens: head.max_tokens.unwrap_or(USUAL_TOKENS) * head.n.max(1),
            chain: chain.boundaries().to_vec(),
            request_id,
            limit: headers.limit,
            key,
            head,
            body,
            _place: place.map(Arc::new),
            _memory: Arc::new(memory),
        })
    }

    /// The class as the router knows it.
    pub(crate) fn routing_class(&self) -> Class {
        routing_class(self.class)
    }
}

fn routing_class(class: config::Class) -> Class {
    match class {
        config::Class::Urgent => Class::Urgent,
        config::Class::Premium => Class::Premium,
        config::Class::Standard => Class::Standard,
        config::Class::Batch => Class::Batch,
    }
}

/// Who asks.
pub(crate) struct Who {
    pub(crate) key: Option<Arc<KeyPolicy>>,
    pub(crate) tenant: u64,
    pub(crate) request_id: String,
    /// Whether it takes a place among the model's requests, or is only explained.
    pub(crate) waits: bool,
}

/// The role of a raw message, by which the router knows where a conversation's own text begins: `user` for what has none,
/// such as a prompt.
fn role(message: &[u8]) -> &str {
    let key = b"\"role\"";
    // Clients write it first; a long text without it is not searched to its end.
    let message = message.get(..message.len().min(4_096)).unwrap_or_default();
    let after = message.windows(key.len()).position(|window| window == key).map(|at| at + key.len());
    let Some(rest) = after.and_then(|at| message.get(at..)) else { return "user" };
    let mut parts = rest.splitn(3, |byte| *byte == b'"');
    // Between the key and its value stands a colon; the value ends at the next quote.
    let value = parts.nth(1).and_then(|value| std::str::from_utf8(value).ok());
    value.filter(|value| value.len() <= 16).unwrap_or("user")
}

/// A model that is not there, or that the key may not ask for: whoever may not, does not hear that it is there.
fn no_model(snapshot: &Snapshot, model: &str, key: Option<&KeyPolicy>) -> Fault {
    let names = snapshot.routes.iter().filter(|route| key.is_none_or(|key| key.may_ask(route.names())));
    let names: Vec<String> = names.map(|route| route.name().to_owned()).collect();
    Fault::no_model(model, &names)
}
