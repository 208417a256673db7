//! The steps of an attempt, as they are told to the operator.

use bytes::Bytes;
use webhooks::addresses::AddressRules;
use webhooks::explain::{Outcome, Steps};
use webhooks::secret::{Secret, headers};
use webhooks::sender::Sender;

use crate::receiver::{Answers, Changing, LONG, Receiver, sender};

fn told(steps: &Steps) -> Vec<(&str, Outcome, &str)> {
    steps.list().iter().map(|step| (step.phase.name(), step.outcome, step.detail.as_str())).collect()
}

#[tokio::test]
async fn the_steps_of_a_message_that_arrives() {
    let receiver = Receiver::answering("200 OK").await;
    let signed = headers(&[Secret::new([1; 32])], "evt_1", 1_700_000_000, b"{}");
    let (sent, steps) = sender().explain(&receiver.url(), &signed, Bytes::from_static(b"{}"), LONG).await;
    assert_eq!(sent.result.unwrap().status, 200);
    let signature = &signed[2].1;
    assert_eq!(
        told(&steps),
        [
            ("url", Outcome::Passed, format!("127.0.0.1 at port {}", receiver.port).as_str()),
            ("resolution", Outcome::Passed, "the URL names an address"),
            ("rule", Outcome::Passed, "every address is allowed"),
            ("connection", Outcome::Passed, "to 127.0.0.1"),
            (
                "request",
                Outcome::Passed,
                &format!("webhook-id: evt_1, webhook-timestamp: 1700000000, webhook-signature: {signature}"),
            ),
            ("answer", Outcome::Passed, "200 OK"),
        ]
    );
    assert_eq!(steps.failed(), None);
}

#[tokio::test]
async fn the_step_that_fails_is_the_last() {
    let (_, steps) = sender().explain("https://localhost/", &[], Bytes::new(), LONG).await;
    assert_eq!(told(&steps), [("url", Outcome::Failed, "the URL's host is an internal name")]);

    let sender_to = |answers: &[&str]| {
        let sender = Sender::new(AddressRules::default(), None).unwrap();
        sender.with_resolver(Changing::new(&[answers]))
    };
    let (sent, steps) =
        sender_to(&["8.8.8.8", "10.0.0.7"]).explain("https://hooks.example/", &[], Bytes::new(), LONG).await;
    assert_eq!(
        told(&steps)[1..],
        [
            ("resolution", Outcome::Passed, "8.8.8.8, 10.0.0.7"),
            (
                "rule",
                Outcome::Failed,
                "10.0.0.7: the address of the URL's host is not public: private address"
            ),
        ]
    );
    // Owners are not told the address.
    assert_eq!(
        sent.result.unwrap_err().to_string(),
        "the address of the URL's host is not public: private address"
    );

    let (_, steps) = sender_to(&[]).explain("https://hooks.example/", &[], Bytes::new(), LONG).await;
    assert_eq!(steps.failed().unwrap().detail, "the host cannot be looked up: it has no address");
}

#[tokio::test]
async fn the_step_at_which_the_time_was_over_is_unfinished() {
    let receiver = Receiver::new(Answers::Hangs(Vec::new())).await;
    let most = std::time::Duration::from_secs(1);
    let (_, steps) = sender().explain(&receiver.url(), &[], Bytes::new(), most).await;
    assert_eq!(told(&steps).last(), Some(&("answer", Outcome::Unfinished, "")));
}
