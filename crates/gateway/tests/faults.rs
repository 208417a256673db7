//! What a gateway owes its clients when a provider misbehaves: the faults of the public suite *failoverbench*
//! (MIT, catalogue of August 2026), each as a test of our own.

use std::time::Duration;

use fake_provider::{Fault, Provider, Script, When};

use crate::support::{Reply, chat, post, start, two};

/// Both providers, and the answers to requests one after the other.
async fn asked(primary: Script, requests: usize) -> (Vec<Reply>, Provider, Provider) {
    let primary = Provider::start(primary.tokens(60)).await.unwrap();
    let backup = Provider::start(Script::new().tokens(60)).await.unwrap();
    let running = start(&two(&primary.url(), &backup.url(), "")).await;
    let mut replies = Vec::new();
    for _ in 0..requests {
        replies.push(post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await);
    }
    (replies, primary, backup)
}

fn is_whole(reply: &Reply) {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.is_complete(), "{reply:?}");
    assert_eq!(reply.text().split_whitespace().count(), 60, "{}", reply.text());
}

#[tokio::test]
async fn s01_429_with_retry_after_is_honoured() {
    let script = Script::new().fault(When::requests([1]), Fault::rate_limited("1"));
    let (replies, primary, backup) = asked(script, 1).await;
    is_whole(&replies[0]);
    assert!(replies[0].took >= Duration::from_secs(1), "{:?}", replies[0].took);
    assert_eq!((primary.totals().attempts, backup.totals().attempts), (2, 0));
}

#[tokio::test]
async fn s02_persistent_429_falls_back() {
    let fault = Fault::RateLimited { retry_after: None };
    let (replies, primary, backup) = asked(Script::new().fault(When::always(), fault), 1).await;
    is_whole(&replies[0]);
    assert!(primary.totals().attempts <= 3, "{:?}", primary.totals());
    assert_eq!(backup.totals().attempts, 1);
}

#[tokio::test]
async fn s03_500_once_is_tried_again_at_the_same_provider() {
    let (replies, primary, backup) =
        asked(Script::new().fault(When::requests([1]), Fault::status(500)), 1).await;
    is_whole(&replies[0]);
    assert_eq!((primary.totals().attempts, backup.totals().attempts), (2, 0));
}

#[tokio::test]
async fn s04_persistent_503_falls_back() {
    let (replies, primary, _) = asked(Script::new().fault(When::always(), Fault::status(503)), 1).await;
    is_whole(&replies[0]);
    assert!(primary.totals().attempts <= 3);
    assert_eq!(replies[0].header("x-gristmill-upstream"), Some("backup"));
}

#[tokio::test]
async fn s05_reset_before_headers() {
    let (replies, ..) = asked(Script::new().fault(When::requests([1]), Fault::Reset), 1).await;
    is_whole(&replies[0]);
}

#[tokio::test]
async fn s06_a_silent_provider_is_not_asked_twice() {
    let (replies, primary, backup) = asked(Script::new().fault(When::always(), Fault::NoResponse), 1).await;
    is_whole(&replies[0]);
    assert_eq!((primary.totals().attempts, backup.totals().attempts), (1, 1));
}

#[tokio::test]
async fn s07_a_slow_first_token_falls_back() {
    let fault = Fault::SlowFirstToken { delay_ms: 5_000 };
    let (replies, _, backup) = asked(Script::new().fault(When::always(), fault), 1).await;
    is_whole(&replies[0]);
    assert_eq!(backup.totals().attempts, 1);
}

#[tokio::test]
async fn s08_a_stream_that_is_cut_is_continued_or_fails() {
    for reset in [false, true] {
        let fault = Fault::Cut { after_tokens: 40, reset };
        let (replies, ..) = asked(Script::new().fault(When::always(), fault), 1).await;
        is_whole(&replies[0]);
    }
}

#[tokio::test]
async fn s09_a_stream_that_stalls_is_continued() {
    let (replies, ..) =
        asked(Script::new().fault(When::requests([1]), Fault::Stall { after_tokens: 20 }), 2).await;
    replies.iter().for_each(is_whole);
}

#[tokio::test]
async fn s08_without_replay_a_cut_stream_ends_with_an_error() {
    let script =
        Script::new().tokens(60).fault(When::always(), Fault::Cut { after_tokens: 40, reset: false });
    let primary = Provider::start(script).await.unwrap();
    let backup = Provider::start(Script::new().tokens(60)).await.unwrap();
    let config = two(&primary.url(), &backup.url(), "").replace("on_cut = \"replay\"", "on_cut = \"error\"");
    let running = start(&config).await;
    let reply = post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await;
    assert!(!reply.is_complete(), "{reply:?}");
    let error: serde_json::Value = serde_json::from_str(reply.events().last().unwrap()).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("primary"), "{error}");
    assert_eq!(backup.totals().attempts, 0);
}

#[tokio::test]
async fn s08_a_replay_that_differs_ends_with_an_error() {
    let script =
        Script::new().tokens(60).fault(When::always(), Fault::Cut { after_tokens: 40, reset: false });
    let primary = Provider::start(script).await.unwrap();
    let backup = Provider::start(Script::new().tokens(60).seed(99)).await.unwrap();
    let running = start(&two(&primary.url(), &backup.url(), "")).await;
    let reply = post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await;
    assert!(!reply.is_complete(), "{reply:?}");
    assert_eq!(reply.text().split_whitespace().count(), 40, "what was sent stays");
}

#[tokio::test]
async fn s10_a_malformed_event_is_left_out() {
    let fault = Fault::MalformedEvent { after_tokens: 10 };
    let (replies, ..) = asked(Script::new().fault(When::requests([1]), fault), 2).await;
    assert!(replies[0].is_complete(), "{:?}", replies[0]);
    for event in replies[0].events() {
        assert!(event == "[DONE]" || serde_json::from_str::<serde_json::Value>(event).is_ok(), "{event}");
    }
    is_whole(&replies[1]);
}

#[tokio::test]
async fn s11_a_stream_without_done_is_complete() {
    let (replies, primary, _) = asked(Script::new().fault(When::always(), Fault::NoDone), 1).await;
    assert_eq!(replies[0].text().split_whitespace().count(), 60);
    assert!(replies[0].took < Duration::from_secs(5));
    assert_eq!(primary.totals().attempts, 1);
}

#[tokio::test]
async fn s12_a_prompt_that_is_too_long_goes_to_another_model() {
    let (replies, primary, backup) =
        asked(Script::new().fault(When::always(), Fault::ContextLength), 1).await;
    is_whole(&replies[0]);
    assert_eq!((primary.totals().attempts, backup.totals().attempts), (1, 1));
}

#[tokio::test]
async fn s13_a_content_filter_is_final() {
    let (replies, primary, backup) =
        asked(Script::new().fault(When::always(), Fault::ContentFilter), 1).await;
    assert_eq!(replies[0].status, 400);
    assert!(replies[0].body.contains("content"), "{}", replies[0].body);
    assert_eq!((primary.totals().attempts, backup.totals().attempts), (1, 0));
}

#[tokio::test]
async fn s15_a_flapping_provider_is_left_alone_and_found_again() {
    let script = Script::new().tokens(60).fault(When::always(), Fault::status(503));
    let primary = Provider::start(script).await.unwrap();
    let backup = Provider::start(Script::new().tokens(60)).await.unwrap();
    let running = start(&two(&primary.url(), &backup.url(), "")).await;
    for _ in 0..20 {
        is_whole(&post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await);
    }
    let during = primary.totals().attempts;
    assert!(during <= 15, "{during} attempts at a provider that is down");
    primary.set_script(Script::new().tokens(60));
    let mut back = false;
    for _ in 0..60 {
        let reply = post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await;
        is_whole(&reply);
        back |= reply.header("x-gristmill-upstream") == Some("primary");
        if back {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(back, "the provider is well again and is not used");
}

#[tokio::test]
async fn s16_the_answer_names_who_gave_it() {
    let (replies, ..) = asked(Script::new().fault(When::always(), Fault::status(503)), 1).await;
    let chunk: serde_json::Value = serde_json::from_str(replies[0].events()[0]).unwrap();
    assert_eq!(chunk["model"], "other");
}

#[tokio::test]
async fn whole_answers_survive_the_same_faults() {
    for fault in [
        Fault::status(500),
        Fault::status(503),
        Fault::Reset,
        Fault::NoResponse,
        Fault::Cut { after_tokens: 10, reset: false },
        Fault::MalformedEvent { after_tokens: 1 },
        Fault::EmptyBody,
        Fault::HtmlError { status: 502 },
        Fault::WrongContentType,
        Fault::NoUsage,
    ] {
        let name = fault.name();
        let primary = Provider::start(Script::new().tokens(60).fault(When::always(), fault)).await.unwrap();
        let backup = Provider::start(Script::new().tokens(60)).await.unwrap();
        let running = start(&two(&primary.url(), &backup.url(), "")).await;
        let reply = post(running.address, "/v1/chat/completions", &[], &chat("main", false)).await;
        assert_eq!(reply.status, 200, "{name}: {reply:?}");
        assert_eq!(reply.text().split_whitespace().count(), 60, "{name}");
    }
}

#[tokio::test]
async fn a_line_without_end_is_given_up() {
    let fault = Fault::EndlessLine { bytes: 64 << 20 };
    let (replies, ..) = asked(Script::new().fault(When::always(), fault), 1).await;
    is_whole(&replies[0]);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_attempt() {
    let primary = Provider::start(Script::new().tokens(60).pace(0, 200)).await.unwrap();
    let backup = Provider::start(Script::new()).await.unwrap();
    let running = start(&two(&primary.url(), &backup.url(), "")).await;
    let body = chat("main", true);
    let asked = post(running.address, "/v1/chat/completions", &[], &body);
    assert!(tokio::time::timeout(Duration::from_millis(500), asked).await.is_err());
    for _ in 0..50 {
        if primary.totals().cancelled == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:?}", primary.totals());
}
