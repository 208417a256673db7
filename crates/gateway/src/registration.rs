//! Nodes that register themselves over HTTP, and what is asked again and again beside requests: records and names.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wire::Fault;
use wire::node::{NODE_PATH, NodePush, NodeRecord, PUSH_BYTES};

use crate::config::{Discover, Kind};
use crate::discovery::resolve;
use crate::nodes::{name, tell};
use crate::state::Shared;
use crate::upstream::Upstream;

/// Between two records that are asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// For an answer with a record.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two questions about names.
const RESOLVE_EVERY: Duration = Duration::from_secs(5);

/// Takes a record that a node pushes.
pub(crate) async fn push(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    match take(&shared, request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(fault) => httpd::respond(&fault),
    }
}

async fn take(shared: &Shared, request: Request) -> Result<(), Fault> {
    check_key(shared, &request)?;
    let body = httpd::body::read(&shared.edge, request, httpd::body::Media::Json).await?;
    let (body, _memory) = body.decompressed(PUSH_BYTES)?;
    let push = NodePush::parse(&body)?;
    let snapshot = shared.snapshot.load_full();
    let (name, record) = (name(&push), push.record.clone());
    shared.admin.note(&name, &record);
    if shared.nodes.take(&snapshot, push)? {
        tracing::info!(node = %name, "a node has registered itself or changed");
        shared.nodes.join(&snapshot);
    } else {
        tell(&snapshot, &name, &record);
    }
    Ok(())
}

/// Takes out a node that is about to stop.
pub(crate) async fn leave(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    if let Err(fault) = check_key(&shared, &request) {
        return httpd::respond(&fault);
    }
    if shared.nodes.remove(&id) {
        shared.nodes.join(&shared.snapshot.load_full());
    }
    StatusCode::NO_CONTENT.into_response()
}

/// Whether a request shows the nodes' key. Without one in the configuration no node can register.
fn check_key(shared: &Shared, request: &Request) -> Result<(), Fault> {
    let snapshot = shared.snapshot.load();
    let Some(wanted) = &snapshot.node_key else {
        return Err(Fault::origin(
            "nodes cannot register here: the configuration has no gateway.nodes_key_file",
        ));
    };
    let shown = request.headers().get(axum::http::header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let shown = shown.and_then(|text| text.split_once(' ')).map(|(_, key)| key.trim());
    let same = shown.is_some_and(|shown| {
        use sha2::{Digest, Sha256};
        // Of hashes, how far they agree tells nothing of the key.
        Sha256::digest(shown.as_bytes()) == Sha256::digest(wanted.as_bytes())
    });
    if same { Ok(()) } else { Err(Fault::unauthorized("the nodes' key is wrong or missing")) }
}

/// Resolves the names of the configuration again and again.
pub(crate) async fn watch_names(shared: Arc<Shared>) {
    loop {
        let snapshot = shared.snapshot.load_full();
        let mut changed = false;
        for upstream in snapshot.upstreams.iter().filter(|u| u.discover == Some(Discover::Dns)) {
            changed |= resolve(upstream, &snapshot.discovered, &snapshot.tls).await;
        }
        if changed {
            shared.nodes.join(&snapshot);
        }
        tokio::time::sleep(RESOLVE_EVERY).await;
    }
}

/// Asks nodes of the file for their records, and takes out registered ones that are silent.
pub(crate) async fn watch_nodes(shared: Arc<Shared>) {
    loop {
        let snapshot = shared.snapshot.load_full();
        if shared.nodes.forget_silent() {
            shared.nodes.join(&snapshot);
        }
        let fixed = snapshot.upstreams.iter().filter(|upstream| upstream.discover.is_none()).cloned();
        let nodes = fixed.chain(snapshot.discovered.all());
        let nodes = nodes.filter(|upstream| upstream.kind == Kind::Gristmill);
        let asked: Vec<_> = nodes.map(|upstream| tokio::spawn(record(upstream))).collect();
        for task in asked {
            if let Ok(Some((name, record))) = task.await {
                tell(&snapshot, &name, &record);
                shared.admin.note(&name, &record);
            }
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// A node's record, if it tells one in time.
async fn record(upstream: Arc<Upstream>) -> Option<(String, NodeRecord)> {
    let request = upstream.get(NODE_PATH).ok()?;
    let mut answer = upstream.client.send(request, ASK_TIMEOUT, ASK_TIMEOUT).await.ok()?;
    if !answer.status.is_success() {
        return None;
    }
    let body = answer.whole(PUSH_BYTES, ASK_TIMEOUT).await.ok()?;
    let record = NodeRecord::parse(&body).ok()?;
    Some((upstream.name.clone(), record))
}
