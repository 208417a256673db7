//! Streams of a job's events.

use serde_json::{Value, json};

use crate::support::{Answer, Server, refused};

/// Events as triples of id, name and data.
fn read(answer: &Answer) -> Vec<(u64, String, Value)> {
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let text = std::str::from_utf8(&answer.body).unwrap();
    let parts = text.split("\n\n").filter(|part| !part.is_empty() && !part.starts_with(':'));
    let read = parts.map(|part| {
        let field =
            |name: &str| part.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
        (
            field("id").parse().unwrap(),
            field("event").to_owned(),
            serde_json::from_str(field("data")).unwrap(),
        )
    });
    read.collect()
}

#[tokio::test]
async fn a_stream_ends_with_the_job() {
    let server = Server::new();
    let id = server.job(json!({"ms": 50})).await;
    let server = server.run();
    let events = read(&server.get(format!("/v1/jobs/{id}/events")).send().await);
    let names: Vec<&str> = events.iter().map(|event| event.1.as_str()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("job.queued", "job.succeeded"));
    assert!(names.contains(&"job.running"), "{names:?}");
    assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!((&events[0].2["object"], &events[0].2["status"]), (&json!("job"), &json!("queued")));
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_left() {
    let server = Server::running();
    let id = server.job(json!({})).await;
    server.ended(&id).await;
    let path = format!("/v1/jobs/{id}/events");
    let all = read(&server.get(&path).send().await);
    let first = all[0].0.to_string();
    let rest = read(&server.get(&path).header("last-event-id", &first).send().await);
    assert_eq!(rest, all[1..]);
    assert_eq!(read(&server.get(format!("{path}?after={first}")).send().await), rest);
    let last = all.last().unwrap().0;
    assert_eq!(read(&server.get(format!("{path}?after={last}")).send().await), []);
    assert_eq!(refused(&server.get(format!("{path}?after=x")).send().await, 400)["param"], "after");
    refused(&server.get("/v1/jobs/job_none/events").send().await, 404);
}

#[tokio::test]
async fn abuse_streams_are_bounded_and_end_with_the_server() {
    let options = job_server::Options { max_waiting: 1, ..job_server::Options::default() };
    let server = Server::with(options, job_store::StoreLimits::default());
    let id = server.job(json!({})).await;
    let path = format!("/v1/jobs/{id}/events");
    let held = server.get(&path).response().await;
    refused(&server.get(&path).send().await, 429);
    server.jobs.close();
    let events = read(&Answer::of(held).await);
    assert!(events.len() <= 1, "the stream of an open job ended");
}
