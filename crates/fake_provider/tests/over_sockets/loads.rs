//! Loads count what the provider has counted.

use crate::client::{CHAT, chat};
use fake_provider::{Fault, Load, LoadMode, LoadReport, Provider, Script, When};
use std::time::Duration;

async fn run(provider: &Provider, mode: LoadMode, stream: bool) -> LoadReport {
    let load = Load {
        url: format!("{}{CHAT}", provider.url()),
        body: chat("hi", stream).to_string().into(),
        headers: Vec::new(),
        connections: 4,
        mode,
        warmup: Duration::ZERO,
        time: Duration::from_millis(500),
        timeout: Duration::from_secs(20),
        ends_with: stream.then(|| "[DONE]\n\n".to_owned()),
    };
    load.run().await.unwrap()
}

#[tokio::test]
async fn a_closed_loop_gets_every_answer() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let report = run(&provider, LoadMode::Closed, false).await;
    let completed = provider.totals().completed;
    // Those that ended after the time are not in the report: one a connection at most.
    assert!(report.answered <= completed && completed <= report.answered + 4, "{report:?}");
    assert!(report.answered > 0 && report.errors.is_empty(), "{report:?}");
}

#[tokio::test]
async fn an_open_loop_sends_what_is_due_and_waits_with_it() {
    // Four connections, answers of 50 ms: 80 a second at most. 200 a second are due for half a second.
    let provider = Provider::start(Script::new().pace(50, 0)).await.unwrap();
    let report = run(&provider, LoadMode::Open { rate: 200.0 }, false).await;
    assert_eq!((report.answered, provider.totals().completed), (100, 100));
    // The last is due after 0.5 s and is answered after 100 × 50 ms / 4 = 1.25 s at the earliest.
    assert!(report.latency.max_ms >= 700.0, "{report:?}");
}

#[tokio::test]
async fn what_is_due_too_late_is_not_sent() {
    let provider = Provider::start(Script::new().pace(400, 0)).await.unwrap();
    let load = Load {
        url: format!("{}{CHAT}", provider.url()),
        body: chat("hi", false).to_string().into(),
        headers: Vec::new(),
        connections: 1,
        mode: LoadMode::Open { rate: 100.0 },
        warmup: Duration::ZERO,
        time: Duration::from_millis(200),
        timeout: Duration::from_millis(800),
        ends_with: None,
    };
    let report = load.run().await.unwrap();
    let unsent = report.errors.get("not sent").copied().unwrap_or(0);
    // One connection has three answers at most before the second is over.
    assert!((1..=3).contains(&report.answered), "{report:?}");
    assert_eq!(report.answered + report.errors.values().sum::<u64>(), 20, "{report:?}");
    assert!(unsent >= 16, "{report:?}");
}

#[tokio::test]
async fn streams_are_whole_or_counted() {
    let script = Script::new().fault(When::requests([2]), Fault::Cut { after_tokens: 3, reset: false });
    let script =
        script.fault(When::requests([3]), Fault::NoDone).fault(When::requests([4]), Fault::status(503));
    let provider = Provider::start(script).await.unwrap();
    let report = run(&provider, LoadMode::Open { rate: 40.0 }, true).await;
    assert_eq!(report.answered, 17, "{report:?}");
    for kind in ["cut", "incomplete", "status 503"] {
        assert_eq!(report.errors.get(kind), Some(&1), "{kind}: {report:?}");
    }
}

#[tokio::test]
async fn streams_are_held_to_the_end() {
    let provider = Provider::start(Script::new().tokens(100_000).pace(0, 20)).await.unwrap();
    let report = run(&provider, LoadMode::Streams, true).await;
    assert_eq!((report.answered, report.errors.len()), (4, 0), "{report:?}");
    assert!(report.bytes > 0);
    let totals = provider.settled(Duration::from_secs(20)).await;
    assert_eq!((totals.most_running, totals.cancelled), (4, 4));
    // Streams that end by themselves were not held.
    provider.set_script(Script::new().tokens(2));
    let report = run(&provider, LoadMode::Streams, true).await;
    assert_eq!(report.errors.get("incomplete"), Some(&4), "{report:?}");
}

#[tokio::test]
async fn a_server_that_is_away_is_an_error_of_its_kind() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let url = provider.url();
    drop(provider);
    let load = Load {
        url,
        body: Default::default(),
        headers: Vec::new(),
        connections: 1,
        mode: LoadMode::Open { rate: 20.0 },
        warmup: Duration::ZERO,
        time: Duration::from_millis(200),
        timeout: Duration::from_secs(20),
        ends_with: None,
    };
    let report = load.clone().run().await.unwrap();
    assert_eq!((report.answered, report.errors.values().sum::<u64>()), (0, 4), "{report:?}");
    for url in ["", "https://x/", "x:80"] {
        assert!(Load { url: url.to_owned(), ..load.clone() }.run().await.is_err(), "{url}");
    }
}
