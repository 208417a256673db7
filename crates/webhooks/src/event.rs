//! What happened, and the body that tells it: thin, so that whoever wants to know more asks the API.

use jobs::Millis;
use jobs::id::new_id;
use serde::{Deserialize, Serialize};

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum EventType {
    /// A batch has ended; its files can be read.
    BatchCompleted,
    /// A batch's input is at fault.
    BatchFailed,
    /// A batch's time was over.
    BatchExpired,
    /// A batch was cancelled.
    BatchCancelled,
    /// A background response has ended.
    ResponseCompleted,
    /// A background response failed.
    ResponseFailed,
    /// A background response was cancelled.
    ResponseCancelled,
    /// A background response ended at a limit.
    ResponseIncomplete,
    /// A job has a result.
    JobSucceeded,
    /// A job failed.
    JobFailed,
    /// A job was cancelled.
    JobCancelled,
    /// A job's deadline passed.
    JobExpired,
    /// A job failed for good by a fault that was not its own.
    JobDead,
    /// An Anthropic message batch has ended.
    MessageBatchEnded,
    /// Somebody tries an endpoint.
    WebhookTest,
}

/// A word that is no type of events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no type of events; there are {names}", names = EventType::ALL.map(EventType::name).join(", "))]
pub struct UnknownEvent(pub String);

impl EventType {
    /// All types, in the order in which they are listed.
    pub const ALL: [EventType; 15] = [
        EventType::BatchCompleted,
        EventType::BatchFailed,
        EventType::BatchExpired,
        EventType::BatchCancelled,
        EventType::ResponseCompleted,
        EventType::ResponseFailed,
        EventType::ResponseCancelled,
        EventType::ResponseIncomplete,
        EventType::JobSucceeded,
        EventType::JobFailed,
        EventType::JobCancelled,
        EventType::JobExpired,
        EventType::JobDead,
        EventType::MessageBatchEnded,
        EventType::WebhookTest,
    ];

    /// Its name, such as `batch.completed`.
    pub fn name(self) -> &'static str {
        match self {
            EventType::BatchCompleted => "batch.completed",
            EventType::BatchFailed => "batch.failed",
            EventType::BatchExpired => "batch.expired",
            EventType::BatchCancelled => "batch.cancelled",
            EventType::ResponseCompleted => "response.completed",
            EventType::ResponseFailed => "response.failed",
            EventType::ResponseCancelled => "response.cancelled",
            EventType::ResponseIncomplete => "response.incomplete",
            EventType::JobSucceeded => "job.succeeded",
            EventType::JobFailed => "job.failed",
            EventType::JobCancelled => "job.cancelled",
            EventType::JobExpired => "job.expired",
            EventType::JobDead => "job.dead",
            EventType::MessageBatchEnded => "message_batch.ended",
            EventType::WebhookTest => "webhook.test",
        }
    }
}

impl std::str::FromStr for EventType {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<EventType, UnknownEvent> {
        let found = EventType::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownEvent(text.chars().take(64).collect()))
    }
}

impl TryFrom<String> for EventType {
    type Error = UnknownEvent;

    fn try_from(text: String) -> Result<EventType, UnknownEvent> {
        text.parse()
    }
}

impl From<EventType> for &'static str {
    fn from(kind: EventType) -> &'static str {
        kind.name()
    }
}

impl std::fmt::Display for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// `evt_…`, which is the message's `webhook-id` too.
    pub id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When.
    pub created_at: Millis,
    /// The id of the job, batch or response to which it happened.
    pub subject: String,
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    object: &'static str,
    r#type: EventType,
    created_at: i64,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    id: &'a str,
}

impl Event {
    /// A new event.
    pub fn new(kind: EventType, subject: impl Into<String>, now: Millis, random: u128) -> Event {
        Event { id: new_id("evt_", now, random), kind, created_at: now, subject: subject.into() }
    }

    /// The body of its message: the same bytes at each attempt.
    pub fn body(&self) -> String {
        let body = Body {
            id: &self.id,
            object: "event",
            r#type: self.kind,
            created_at: self.created_at.div_euclid(1_000),
            data: Data { id: &self.subject },
        };
        serde_json::to_string(&body).expect("texts and numbers are JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in EventType::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("{:?}", kind.name()));
        }
        let error = serde_json::from_str::<EventType>("\"job.done\"").unwrap_err().to_string();
        assert!(
            error.starts_with("\"job.done\" is no type of events; there are batch.completed, "),
            "{error}"
        );
    }

    #[test]
    fn a_body_is_thin() {
        let event = Event::new(EventType::BatchCompleted, "batch_1", 1_700_000_000_999, 0);
        let rest = "\"object\":\"event\",\"type\":\"batch.completed\",\"created_at\":1700000000,\
                    \"data\":{\"id\":\"batch_1\"}}";
        assert_eq!(event.body(), format!("{{\"id\":\"{}\",{rest}", event.id));
        let kept = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&kept).unwrap(), event);
    }
}
