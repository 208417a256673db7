//! Attempts over plain HTTP, to receivers that behave and that do not.

use std::time::Duration;

use bytes::Bytes;
use webhooks::delivery::Attempt;
use webhooks::secret::{Secret, headers};
use webhooks::sender::{Failure, Sent};

use crate::receiver::{Answers, LONG, Receiver, sender};

async fn send(receiver: &Receiver, most: Duration) -> Sent {
    sender().send(&receiver.url(), &[], Bytes::from_static(b"{}"), most).await
}

fn status(sent: &Sent) -> u16 {
    sent.result.as_ref().unwrap().status
}

#[tokio::test]
async fn a_message_arrives_as_it_was_signed() {
    let receiver = Receiver::answering("204 No Content").await;
    let secret = Secret::new([1; 32]);
    let body = "{\"text\":\"Grüße\"}";
    let signed = headers(std::slice::from_ref(&secret), "evt_1", 1_700_000_000, body.as_bytes());
    let sent = sender().send(&receiver.url(), &signed, Bytes::from(body), LONG).await;
    assert_eq!(status(&sent), 204);
    let requests = receiver.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    let (head, arrived) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(arrived, body);
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines[0], "POST /hook?x=1 HTTP/1.1");
    let field = |name: &str| lines.iter().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
    assert_eq!(field("host"), format!("127.0.0.1:{}", receiver.port));
    assert_eq!(field("content-type"), "application/json");
    assert_eq!(field("content-length"), body.len().to_string());
    let (id, time, signature) = (field("webhook-id"), field("webhook-timestamp"), field("webhook-signature"));
    assert_eq!(secret.verify(id, time, signature, arrived.as_bytes(), 1_700_000_000), Ok(()));
}

#[tokio::test]
async fn a_busy_receiver_is_heard() {
    let receiver = Receiver::answering("503 Service Unavailable\r\nretry-after: 30").await;
    let attempt = Attempt::from(&send(&receiver, LONG).await);
    assert_eq!((attempt.result, attempt.retry_after.as_deref()), (Ok(503), Some("30")));
}

#[tokio::test]
async fn abuse_redirects_are_not_followed() {
    let private = Receiver::answering("200 OK").await;
    for status_line in ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect"] {
        let location = format!("{status_line}\r\nlocation: {}", private.url());
        let receiver = Receiver::answering(&location).await;
        let sent = send(&receiver, LONG).await;
        assert_eq!(status(&sent).to_string(), status_line[..3]);
        assert_eq!(receiver.requests().len(), 1);
    }
    assert!(private.requests().is_empty());
}

#[tokio::test]
async fn abuse_only_the_beginning_of_a_huge_answer_is_read() {
    let receiver = Receiver::new(Answers::Endless).await;
    let sent = send(&receiver, LONG).await;
    let answer = sent.result.unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 4_096));
}

#[tokio::test]
async fn abuse_a_huge_head_is_no_answer() {
    let mut head = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
    head.resize(64 << 10, b'x');
    let receiver = Receiver::new(Answers::Hangs(head)).await;
    let sent = send(&receiver, LONG).await;
    assert!(matches!(sent.result, Err(Failure::Protocol(_))), "{sent:?}");
    let lines = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(65));
    let receiver = Receiver::new(Answers::Hangs(lines.into_bytes())).await;
    let sent = send(&receiver, LONG).await;
    assert!(matches!(sent.result, Err(Failure::Protocol(_))), "{sent:?}");
}

#[tokio::test]
async fn abuse_a_receiver_that_is_silent_costs_its_time_and_no_more() {
    let receiver = Receiver::new(Answers::Hangs(Vec::new())).await;
    let sent = send(&receiver, Duration::from_millis(50)).await;
    assert!(matches!(sent.result, Err(Failure::Timeout { seconds: 0, .. })), "{sent:?}");
}

#[tokio::test]
async fn a_status_counts_even_if_its_body_does_not_end() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec();
    let receiver = Receiver::new(Answers::Hangs(head)).await;
    let sent = send(&receiver, LONG).await;
    let answer = sent.result.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"half"[..]));
}

#[tokio::test]
async fn abuse_answers_that_are_none() {
    for bytes in
        [&b""[..], b"HTTP/1.1", b"SSH-2.0-x\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n", b"\x16\x03\x01\x02\x00"]
    {
        let receiver = Receiver::new(Answers::Bytes(bytes.to_vec())).await;
        let sent = send(&receiver, LONG).await;
        assert!(matches!(sent.result, Err(Failure::Protocol(_))), "{bytes:?}: {sent:?}");
    }
    let receiver = Receiver::answering("101 Switching Protocols").await;
    assert!(!matches!(send(&receiver, LONG).await.result, Ok(answer) if (200..300).contains(&answer.status)));
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_without_the_address() {
    let receiver = Receiver::answering("200 OK").await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop((listener, receiver));
    let sent = sender().send(&format!("http://127.0.0.1:{port}/"), &[], Bytes::new(), LONG).await;
    let error = sent.result.unwrap_err();
    assert!(matches!(error, Failure::Connection(_)), "{error}");
    assert!(!error.to_string().contains("127"), "{error}");
}

#[tokio::test]
async fn abuse_headers_cannot_be_split() {
    let receiver = Receiver::answering("200 OK").await;
    let headers = [("webhook-id", "evt_1\r\nx: y".to_owned())];
    let sent = sender().send(&receiver.url(), &headers, Bytes::new(), LONG).await;
    assert!(matches!(sent.result, Err(Failure::Protocol(_))), "{sent:?}");
    assert!(receiver.requests().is_empty());
}
