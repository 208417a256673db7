//! Signatures are those of the PyPI packages `standardwebhooks` and `cryptography`; what these packages and `openai` take
//! for genuine was checked when the fixture was written (tools/fixtures/webhooks.py).

use serde::Deserialize;
use webhooks::event::{Event, EventType};
use webhooks::pair::{Pair, Public};
use webhooks::secret::{Secret, headers};

#[derive(Deserialize)]
struct Message {
    id: String,
    timestamp: i64,
    body: String,
    r#type: Option<EventType>,
    secret: String,
    v1: String,
    private: String,
    public: String,
    v1a: String,
}

fn messages() -> Vec<Message> {
    let messages: Vec<Message> = serde_json::from_str(include_str!("fixtures/messages.json")).unwrap();
    assert_eq!(messages.len(), 30);
    messages
}

#[test]
fn signatures_of_shared_secrets_are_those_of_other_programs() {
    for message in messages() {
        let Message { id, timestamp, body, v1, .. } = &message;
        let secret = Secret::parse(&message.secret).unwrap();
        assert_eq!(secret.reveal(), message.secret);
        assert_eq!(secret.sign(id, *timestamp, body.as_bytes()), *v1);
        let verified = secret.verify(id, &timestamp.to_string(), v1, body.as_bytes(), *timestamp);
        assert_eq!(verified, Ok(()));
        let all = headers(&[secret], id, *timestamp, body.as_bytes());
        let expected =
            [("webhook-id", id), ("webhook-timestamp", &timestamp.to_string()), ("webhook-signature", v1)];
        assert_eq!(all, expected.map(|(name, value)| (name, value.clone())));
    }
}

#[test]
fn signatures_of_key_pairs_are_those_of_other_programs() {
    for message in messages() {
        let Message { id, timestamp, body, v1a, .. } = &message;
        let pair = Pair::parse(&message.private).unwrap();
        assert_eq!(pair.reveal(), message.private);
        assert_eq!(pair.public().to_string(), message.public);
        assert_eq!(pair.sign(id, *timestamp, body.as_bytes()), *v1a);
        let public = Public::parse(&message.public).unwrap();
        // A receiver finds its version among several.
        let header = format!("{} {v1a}", message.v1);
        let verified = public.verify(id, &timestamp.to_string(), &header, body.as_bytes(), *timestamp);
        assert_eq!(verified, Ok(()));
    }
}

#[test]
fn bodies_of_events_are_those_that_openai_unwraps() {
    let mut events = 0;
    for message in messages() {
        let Some(kind) = message.r#type else { continue };
        let number = message.timestamp - 1_700_000_000;
        let subject = format!("{}_{number}", kind.name().split('.').next().unwrap());
        let event = Event { id: message.id, kind, created_at: message.timestamp * 1_000 + 999, subject };
        assert_eq!(event.body(), message.body);
        events += 1;
    }
    assert_eq!(events, 10);
}
