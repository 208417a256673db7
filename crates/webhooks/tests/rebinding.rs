//! Names that mean another address a moment later, and names with several.

use bytes::Bytes;
use std::sync::Arc;
use webhooks::addresses::AddressRules;
use webhooks::explain::Phase;
use webhooks::ranges::Class;
use webhooks::sender::{Failure, Sender};
use webhooks::target::Refused;

use crate::receiver::{Changing, LONG, Receiver, Silent};

fn sender(rules: &[&str], resolver: Arc<Changing>) -> Sender {
    Sender::new(AddressRules::parse(rules).unwrap(), None).unwrap().with_resolver(resolver)
}

/// What comes of a message to `hooks.example` at a port.
async fn result(sender: &Sender, scheme: &str, port: u16) -> Result<u16, Failure> {
    let url = format!("{scheme}://hooks.example:{port}/");
    let sent = sender.send(&url, &[], Bytes::new(), LONG).await;
    sent.result.map(|answer| answer.status)
}

#[tokio::test]
async fn abuse_a_name_that_changes_reaches_only_what_was_checked() {
    let receiver = Receiver::answering("200 OK").await;
    // The operator allows one address; the second lookup, if there were one, would give another.
    let resolver = Changing::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let sender = sender(&["127.0.0.1"], resolver.clone());
    assert_eq!(result(&sender, "http", receiver.port).await, Ok(200));
    assert_eq!(*resolver.names.lock().unwrap(), ["hooks.example."]);
    assert!(receiver.requests()[0].contains(&format!("host: hooks.example:{}", receiver.port)));
    // The next attempt looks again, and is refused.
    let refused = Failure::Refused(Refused::Address(Class::Loopback));
    assert_eq!(result(&sender, "http", receiver.port).await, Err(refused));
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn abuse_one_address_that_is_not_public_refuses_all() {
    let receiver = Receiver::answering("200 OK").await;
    for (addresses, class) in [
        (&["8.8.8.8", "127.0.0.1"][..], Class::Loopback),
        (&["127.0.0.1", "8.8.8.8"], Class::Loopback),
        (&["2606:4700:4700::1111", "::ffff:10.0.0.1"], Class::Private),
        (&["8.8.8.8", "64:ff9b::a9fe:a9fe"], Class::LinkLocal),
    ] {
        let sender = sender(&[], Changing::new(&[addresses]));
        let refused = Failure::Refused(Refused::Address(class));
        assert_eq!(result(&sender, "https", receiver.port).await, Err(refused));
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn abuse_without_tls_each_address_must_be_allowed() {
    let rules = ["10.0.0.0/8"];
    let sender = sender(&rules, Changing::new(&[&["8.8.8.8"]]));
    assert_eq!(result(&sender, "http", 8_080).await, Err(Failure::Refused(Refused::Plain)));
}

#[tokio::test]
async fn addresses_are_dialed_one_after_another() {
    let receiver = Receiver::answering("200 OK").await;
    // Nobody listens on the first.
    let sender = sender(&["127.0.0.0/8", "::1"], Changing::new(&[&["::1", "127.0.0.1"]]));
    assert_eq!(result(&sender, "http", receiver.port).await, Ok(200));
}

#[tokio::test]
async fn abuse_a_name_with_too_many_addresses_or_none() {
    let many: Vec<String> = (0..33).map(|n| format!("8.8.8.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let sender_of = |answer: &[&str]| sender(&[], Changing::new(&[answer]));
    assert_eq!(result(&sender_of(&many), "https", 443).await, Err(Failure::Addresses(33)));
    let none = result(&sender_of(&[]), "https", 443).await.unwrap_err();
    assert_eq!(none.to_string(), "the host cannot be looked up: it has no address");
    let unknown = result(&sender(&[], Changing::new(&[])), "https", 443).await.unwrap_err();
    assert_eq!(unknown.to_string(), "the host cannot be looked up: no such name");
}

#[tokio::test]
async fn names_that_the_operator_allows_are_looked_up_as_they_are() {
    let receiver = Receiver::answering("200 OK").await;
    let resolver = Changing::new(&[&["127.0.0.1"]]);
    let sender = sender(&["hooks.example"], resolver.clone());
    assert_eq!(result(&sender, "http", receiver.port).await, Ok(200));
    assert_eq!(*resolver.names.lock().unwrap(), ["hooks.example"]);
}

#[tokio::test]
async fn abuse_a_resolver_that_is_silent_costs_its_time_and_no_more() {
    let sender = Sender::new(AddressRules::default(), None).unwrap().with_resolver(Arc::new(Silent));
    let most = std::time::Duration::from_millis(50);
    let sent = sender.send("https://hooks.example/", &[], Bytes::new(), most).await;
    assert_eq!(sent.result, Err(Failure::Timeout { phase: Phase::Resolution, seconds: 0 }));
}

#[tokio::test]
async fn names_of_the_system_are_looked_up() {
    let receiver = Receiver::answering("200 OK").await;
    let rules = AddressRules::parse(["localhost"]).unwrap();
    let sender = Sender::new(rules, None).unwrap();
    let sent = sender.send(&format!("http://localhost:{}/", receiver.port), &[], Bytes::new(), LONG).await;
    assert_eq!(sent.result.map(|answer| answer.status), Ok(200));
}
