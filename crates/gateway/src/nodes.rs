//! Nodes of ours: those that register themselves, and the records by which all are chosen.
//!
//! A node pushes its record when something has changed, and every answer carries its load. Nodes that are in the file are
//! asked for their records when they have told nothing for a while. A record that is old widens doubt; a node that has
//! said nothing for long and registered itself is taken out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use privacy::Label;
use wire::Fault;
use wire::node::{LOAD_HEADER, NODE_HEADER, NodeLoad, NodePush, NodeRecord, NodeState};

use crate::config::{self, Kind, Tier};
use crate::route::Flight;
use crate::snapshot::Snapshot;
use crate::upstream::Upstream;

/// The name of the key by which nodes register themselves.
pub(crate) const KEY_NAME: &str = "gristmill/nodes";
/// Most nodes that have registered themselves.
const MOST: usize = 1_024;
/// A node that has said nothing for so long is taken out.
const SILENT: Duration = Duration::from_secs(20);

/// The nodes that have registered themselves, by id.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<BTreeMap<String, Node>>);

struct Node {
    upstream: Arc<Upstream>,
    url: String,
    record: NodeRecord,
    seen: Instant,
}

impl Nodes {
    /// Takes a node's record; whether the set of nodes has changed.
    pub(crate) fn take(&self, snapshot: &Snapshot, push: NodePush) -> Result<bool, Fault> {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = push.record.id.clone();
        if let Some(node) = nodes.get_mut(&id)
            && node.url == push.advertise
        {
            node.seen = Instant::now();
            // An older record that was late says nothing new.
            if push.record.sequence >= node.record.sequence {
                let changed = node.record.state != push.record.state
                    || node.record.models.len() != push.record.models.len();
                node.record = push.record;
                return Ok(changed);
            }
            return Ok(false);
        }
        // A node that was started again at the same place takes the place of the one before.
        nodes.retain(|_, node| node.url != push.advertise);
        if nodes.len() >= MOST {
            return Err(Fault::busy(format!("{MOST} nodes have registered themselves, the limit"), 5));
        }
        let table = config::Upstream {
            name: name(&push),
            url: push.advertise.clone(),
            kind: Kind::Gristmill,
            tier: Some(Tier::Own),
            clearance: Some(Label::Secret),
            key_env: None,
            key_file: None,
            api_version: None,
            responses: false,
            max_in_flight: None,
            discover: None,
            timeouts: config::Timeouts::default(),
            headers: BTreeMap::new(),
        };
        let upstream =
            Upstream::new(&table, None, &snapshot.tls).map_err(|why| Fault::field("advertise", why))?;
        let node = Node {
            upstream: Arc::new(upstream),
            url: push.advertise,
            record: push.record,
            seen: Instant::now(),
        };
        nodes.insert(id, node);
        Ok(true)
    }

    pub(crate) fn remove(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id).is_some()
    }

    /// Takes out those that have said nothing for long; whether there were any.
    pub(crate) fn forget_silent(&self) -> bool {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = nodes.len();
        nodes.retain(|_, node| node.seen.elapsed() < SILENT);
        nodes.len() != before
    }

    /// Makes the nodes targets of the routes that take them, and tells their records.
    pub(crate) fn join(&self, snapshot: &Snapshot) {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for route in &snapshot.routes {
            if !route.has_changing_targets() {
                continue;
            }
            let mut targets = route.discovered(&snapshot.discovered);
            if let Some(table) = route.takes_nodes() {
                let model = table.model.as_deref().unwrap_or(route.name());
                let ready = nodes.values().filter(|node| {
                    node.record.state == NodeState::Ready
                        && node.record.models.iter().any(|m| m.names.iter().any(|n| n == model))
                });
                targets.extend(ready.map(|node| route.node(node.upstream.clone(), table, None)));
            }
            route.set_nodes(targets);
        }
        for node in nodes.values() {
            tell(snapshot, &node.upstream.name, &node.record);
        }
    }
}

/// The name of a node that registered itself: its place, which outlives its process.
pub(crate) fn name(push: &NodePush) -> String {
    let place = push.advertise.trim_start_matches("http://").trim_start_matches("https://");
    format!("node:{}", place.trim_end_matches('/'))
}

/// Tells a node's record to all routes.
pub(crate) fn tell(snapshot: &Snapshot, upstream: &str, record: &NodeRecord) {
    for route in &snapshot.routes {
        for model in &record.models {
            route.observe(upstream, &record.id, model);
        }
    }
}

/// Takes the load that a node told with an answer.
pub(crate) fn note_load(flight: &Flight, headers: &HeaderMap) {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let (Some(load), Some(boot)) = (text(LOAD_HEADER).and_then(NodeLoad::read_header), text(NODE_HEADER)) {
        flight.observe(boot, &load);
    }
}
