//! What a gateway is told: the record of a node, and the load on answers.

use std::time::Duration;

use engine::fake::FakeModel;
use engine::{Limits, Stats};
use serde_json::json;
use wire::node::{LOAD_HEADER, NODE_HEADER, NODE_PATH, NodeLoad, NodeRecord, NodeState};

use crate::frame::{Running, VOCAB, chat_body, encoder, options, paced, ready, ready_with, unready};

const CHAT: &str = "/v1/chat/completions";

fn record(server: &Running) -> NodeRecord {
    let answer = server.get(NODE_PATH);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")), "{answer:?}");
    NodeRecord::parse(answer.body.as_bytes()).unwrap()
}

fn sum(stats: &Stats) -> NodeLoad {
    NodeLoad {
        running: stats.running as u64,
        waiting: stats.waiting as u64,
        backlog_tokens: stats.backlog_tokens as u64,
    }
}

#[test]
fn a_record_tells_what_is_served_and_how_busy_it_is() {
    let limits = Limits { max_running: 2, prefill_chunk: 8, ..Limits::default() };
    let server =
        ready_with(options(), paced(FakeModel::new(VOCAB, 96, 64, 8), Duration::from_millis(20)), limits);
    let before = record(&server);
    assert_eq!((before.state, before.load, before.id.len()), (NodeState::Ready, NodeLoad::default(), 32));
    let model = &before.models[0];
    assert_eq!(
        (model.names.as_slice(), model.state.as_str()),
        (&["tiny".into(), "org/alias".into()][..], "ready")
    );
    assert_eq!((model.context, model.slots, &model.fingerprint), (Some(96), 2, &None));
    assert!(model.step_times.is_empty() && model.prompt_tokens_per_s.is_none());
    assert!(model.operations.iter().any(|operation| operation == "generate"));

    let long = |extra: serde_json::Value| {
        let mut body = chat_body(json!({"ignore_eos": true, "max_tokens": 60, "stream": true}));
        crate::frame::merge(&mut body, extra);
        server.open(CHAT, &body)
    };
    let unbounded = json!({"max_tokens": null});
    let held = (long(json!({})), long(unbounded), long(json!({})));
    server
        .until("two running and one waiting", |s| s.running == 2 && s.waiting == 1 && s.generated_tokens > 2);
    let busy = record(&server);
    let model = &busy.models[0];
    assert!(busy.sequence > before.sequence && busy.id == before.id);
    assert_eq!((busy.load, model.load), (model.load, NodeLoad { running: 2, waiting: 1, ..model.load }));
    // The one that waits has a prompt of `userhelloassistant`.
    assert!(model.load.backlog_tokens >= 18, "{model:?}");
    assert_eq!(model.unbounded, 1);
    assert!((61..=120).contains(&model.output_tokens), "{model:?}");
    assert!(model.step_times.iter().any(|step| step.rows == 2 && step.ms >= 19.0), "{model:?}");
    assert!(model.step_times.windows(2).all(|pair| pair[0].rows < pair[1].rows));
    drop(held);
    server.until("an idle engine", |s| s.running + s.waiting == 0);
    let after = record(&server);
    assert_eq!(
        (after.load, after.models[0].output_tokens, after.models[0].unbounded),
        (NodeLoad::default(), 0, 0)
    );
    let cache = after.models[0].prefix_cache.unwrap();
    assert!(cache.queried_tokens >= 36 && cache.hit_tokens <= cache.queried_tokens, "{cache:?}");
}

#[test]
fn answers_of_models_carry_the_load() {
    let server = ready(options(), Duration::from_millis(5));
    let id = record(&server).id;
    let mut running =
        server.open(CHAT, &chat_body(json!({"ignore_eos": true, "max_tokens": 60, "stream": true})));
    server.until("a running request", |s| s.running == 1);
    for answer in
        [server.chat(json!({"max_tokens": 2})), server.chat(json!({"stream": true, "max_tokens": 2}))]
    {
        let load = NodeLoad::read_header(answer.header(LOAD_HEADER).unwrap()).unwrap();
        assert!(load.running + load.waiting >= 1, "{load:?}");
        assert_eq!(answer.header(NODE_HEADER), Some(id.as_str()));
    }
    let refused = server.chat(json!({"temperature": -1}));
    assert!(refused.status == 400 && refused.header(LOAD_HEADER).is_some(), "{refused:?}");
    for answer in [server.get("/v1/models"), server.get("/metrics"), server.get("/health")] {
        assert_eq!(answer.header(LOAD_HEADER), None);
    }
    std::io::Read::read_to_end(&mut running, &mut Vec::new()).unwrap();
    server.until("an idle engine", |s| s.running == 0);
    assert_eq!(server.server.service().node_load(), sum(&server.stats()));
}

#[test]
fn a_node_that_loads_or_leaves_says_so() {
    let mut server = unready(options(), Duration::from_secs(1));
    let starting = record(&server);
    assert_eq!((starting.state, starting.models.len()), (NodeState::Starting, 0));
    server.server.service().leave();
    assert_eq!(record(&server).state, NodeState::Draining);
    server.stop();
    server.join();
}

#[test]
fn an_encoder_has_a_fingerprint() {
    let server = encoder::serving(encoder::embeds());
    assert_eq!(server.post("/v1/embeddings", &json!({"input": "a b c"})).status, 200);
    let model = record(&server).models.remove(0);
    assert_eq!(model.fingerprint.as_deref(), Some(encoder::FINGERPRINT));
    assert!(model.prompt_tokens_per_s.is_some(), "{model:?}");
    assert!(model.operations.iter().any(|operation| operation == "embed") && model.prefix_cache.is_none());
}
