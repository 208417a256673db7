//! Every row of the table of routes has its handler here, and answers what is not there in its API's shape.

use wire::routes::{ErrorFormat, ROUTES};

use crate::support::Server;

const TAGS: [&str; 4] = ["jobs", "files", "batches", "webhooks"];

#[tokio::test]
async fn every_row_is_answered() {
    let server = Server::new();
    let rows = ROUTES.iter().filter(|route| route.tag.is_some_and(|tag| TAGS.contains(&tag)));
    let mut count = 0;
    for route in rows {
        assert!(job_server::faces::handler(route.id).is_some(), "{}", route.id);
        count += 1;
        if !route.path.contains('{') {
            continue;
        }
        let path = route.path.replace("{id}", "none").replace("{delivery}", "none");
        let ask = match route.method {
            "GET" => server.get(path),
            "DELETE" => server.delete(path),
            _ if route.request.is_some() => server.post(path).json(&serde_json::json!({})),
            _ => server.post(path),
        };
        let body = ask.send().await.expect(404);
        let is_anthropic = body["type"] == "error";
        assert_eq!(is_anthropic, route.shape == ErrorFormat::Anthropic, "{}: {body}", route.id);
        assert!(body["error"]["message"].as_str().unwrap().contains("none"), "{}: {body}", route.id);
    }
    assert!(count >= 35, "{count}");
    assert!(job_server::faces::handler("createChatCompletion").is_none());
}
