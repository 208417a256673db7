//! Discovery by DNS: `localhost` is a name that is resolved on every machine.

use fake_provider::{Provider, Script};

use crate::support::{ask, chat, post, start};

#[tokio::test]
async fn an_address_of_a_name_is_a_target_of_its_own() {
    let provider = Provider::start(Script::new().tokens(5)).await.unwrap();
    let port = provider.url().rsplit(':').next().unwrap().to_owned();
    let config = format!(
        r#"
[[upstream]]
name = "farm"
url = "http://localhost:{port}/v1"
kind = "openai"
tier = "own"
discover = "dns"

[[model]]
name = "main"
targets = [{{ upstream = "farm" }}]
"#
    );
    let running = start(&config).await;
    // The name is resolved when the gateway starts, beside the first requests.
    let mut reply = post(running.address, "/v1/chat/completions", &[], &chat("main", false)).await;
    for _ in 0..100 {
        if reply.status == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        reply = post(running.address, "/v1/chat/completions", &[], &chat("main", false)).await;
    }
    assert_eq!(
        (reply.status, reply.header("x-gristmill-upstream")),
        (200, Some("farm@127.0.0.1")),
        "{reply:?}"
    );
    let status = ask(running.address, "GET", "/gateway/status", &[], "").await.json();
    let names: Vec<&str> =
        status["upstreams"].as_array().unwrap().iter().filter_map(|u| u["name"].as_str()).collect();
    assert!(names.contains(&"farm@127.0.0.1") && !names.contains(&"farm"), "{names:?}");
    assert_eq!(status["upstreams"][0]["address"], format!("localhost:{port}"));
    // What was found is kept over a reload.
    running.gateway.reload(gateway::read_config(&config).unwrap()).unwrap();
    let reply = post(running.address, "/v1/chat/completions", &[], &chat("main", false)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[test]
fn an_address_is_no_name() {
    let config = r#"
[[upstream]]
name = "farm"
url = "http://127.0.0.1:80"
kind = "gristmill"
discover = "dns"

[[model]]
name = "main"
targets = [{ upstream = "farm" }]
"#;
    let error = gateway::read_config(config).unwrap_err().to_string();
    assert!(error.contains("discover needs the name of a host"), "{error}");
}
