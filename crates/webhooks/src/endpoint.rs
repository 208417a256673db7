//! A webhook endpoint: a URL, the events of which it wants to know, and the secret that signs its messages. Kept as a
//! JSON document, shown as OpenAI's `webhook_endpoint`.

use jobs::Millis;
use jobs::id::new_id;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::addresses::AddressRules;
use crate::delivery::Consequence;
use crate::event::{EventType, UnknownEvent};
use crate::sealed::{SealError, SecretBox};
use crate::secret::{Secret, SecretError};
use crate::target::{Refused, Target};

/// How long a replaced secret signs beside the new one.
pub const OLD_SECRET_KEPT: Millis = 24 * 60 * 60 * 1_000;
/// Characters of a name.
pub const MOST_NAME_CHARACTERS: usize = 256;
/// Names of events that a request may have.
const MOST_EVENT_NAMES: usize = 64;

/// Whether an endpoint is told of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is.
    Enabled,
    /// It is not: its owner switched it off, or it answered 410.
    Disabled,
}

/// A webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `we_…`.
    pub id: String,
    /// The name of the API key that made it; empty without keys. Others do not see it.
    pub key: String,
    /// Its owner's name for it.
    pub name: String,
    /// Where messages go.
    pub url: String,
    /// The events of which it is told, each once.
    pub event_types: Vec<EventType>,
    /// When it was made.
    pub created_at: Millis,
    /// When its owner changed it last.
    pub updated_at: Millis,
    /// Its secret, sealed.
    pub sealed_secret: String,
    /// As much of the secret as is shown.
    pub secret_hint: String,
    /// The secret before, while it signs too.
    pub old_secret: Option<OldSecret>,
    /// Whether it is told.
    pub status: Status,
    /// Why it is not, where the server decided that.
    pub disabled_reason: Option<String>,
    /// Since when its messages fail; one at a time is sent meanwhile.
    pub failing_since: Option<Millis>,
    /// It wants nothing before this time.
    pub busy_until: Option<Millis>,
}

/// A secret that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldSecret {
    /// The secret, sealed.
    pub sealed: String,
    /// Until when it signs.
    pub until: Millis,
}

/// What a client says of a new endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Names of its events.
    pub event_types: Vec<String>,
}

/// What a client changes of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Change {
    /// A new name.
    pub name: Option<String>,
    /// A new URL.
    pub url: Option<String>,
    /// Names of all its events.
    pub event_types: Option<Vec<String>>,
    /// Switches it on or off.
    pub status: Option<Status>,
}

/// Random bytes for an endpoint and its secret; of a rotation, the id is not used.
pub struct Random {
    /// For the id.
    pub id: u128,
    /// For the secret.
    pub secret: [u8; 32],
    /// For sealing it. Never used twice.
    pub nonce: [u8; 12],
}

/// Why an endpoint is not made, changed or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Its name.
    #[error("`name` has {0} characters; it takes 1 to {MOST_NAME_CHARACTERS}, without control characters")]
    Name(usize),
    /// Its URL.
    #[error("`url`: {0}")]
    Url(#[from] Refused),
    /// Its events.
    #[error("`event_types`: {0}")]
    Event(#[from] UnknownEvent),
    /// None or too many events.
    #[error("`event_types` has {0} names; it takes 1 to {MOST_EVENT_NAMES}")]
    Events(usize),
    /// Its secret cannot be sealed or opened.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// What was sealed is no secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl EndpointError {
    /// The field of the request that is at fault; nothing if it is the server's fault.
    pub fn param(&self) -> Option<&'static str> {
        match self {
            EndpointError::Name(_) => Some("name"),
            EndpointError::Url(_) => Some("url"),
            EndpointError::Event(_) | EndpointError::Events(_) => Some("event_types"),
            EndpointError::Seal(_) | EndpointError::Secret(_) => None,
        }
    }
}

impl Endpoint {
    /// A new endpoint and its secret, which is shown this once.
    ///
    /// # Errors
    /// A name, a URL or events that are not taken.
    pub fn create(
        wanted: &Wanted,
        key: &str,
        rules: &AddressRules,
        sealer: &SecretBox,
        random: &Random,
        now: Millis,
    ) -> Result<(Endpoint, Secret), EndpointError> {
        check_name(&wanted.name)?;
        Target::parse(&wanted.url, rules)?;
        let event_types = events_of(&wanted.event_types)?;
        let id = new_id("we_", now, random.id);
        let secret = Secret::new(random.secret);
        let endpoint = Endpoint {
            sealed_secret: sealer.seal(&id, &secret.reveal(), random.nonce)?,
            secret_hint: secret.hint(),
            id,
            key: key.to_owned(),
            name: wanted.name.clone(),
            url: wanted.url.clone(),
            event_types,
            created_at: now,
            updated_at: now,
            old_secret: None,
            status: Status::Enabled,
            disabled_reason: None,
            failing_since: None,
            busy_until: None,
        };
        Ok((endpoint, secret))
    }

    /// Changes what a client asks for, all or nothing; tells whether anything changed.
    ///
    /// # Errors
    /// As [`Endpoint::create`].
    pub fn update(
        &mut self,
        change: &Change,
        rules: &AddressRules,
        now: Millis,
    ) -> Result<bool, EndpointError> {
        let mut next = self.clone();
        if let Some(name) = &change.name {
            check_name(name)?;
            next.name.clone_from(name);
        }
        if let Some(url) = &change.url {
            Target::parse(url, rules)?;
            next.url.clone_from(url);
        }
        if let Some(names) = &change.event_types {
            next.event_types = events_of(names)?;
        }
        if let Some(status) = change.status {
            next.status = status;
            next.disabled_reason = None;
        }
        let changed = next != *self;
        if changed {
            // Whatever was wrong may be mended: the next message is tried as if nothing had failed.
            (next.failing_since, next.busy_until, next.updated_at) = (None, None, now);
            *self = next;
        }
        Ok(changed)
    }

    /// Replaces the secret; the old one signs beside it for a day if it is kept.
    ///
    /// # Errors
    /// A secret that cannot be sealed.
    pub fn rotate(
        &mut self,
        keep_old: bool,
        sealer: &SecretBox,
        random: &Random,
        now: Millis,
    ) -> Result<Secret, EndpointError> {
        let secret = Secret::new(random.secret);
        let sealed = sealer.seal(&self.id, &secret.reveal(), random.nonce)?;
        let old = std::mem::replace(&mut self.sealed_secret, sealed);
        self.old_secret =
            keep_old.then(|| OldSecret { sealed: old, until: now.saturating_add(OLD_SECRET_KEPT) });
        self.secret_hint = secret.hint();
        self.updated_at = now;
        Ok(secret)
    }

    /// The secrets that sign now, the newest first.
    ///
    /// # Errors
    /// A secret that was sealed by another key, or is damaged.
    pub fn secrets(&self, sealer: &SecretBox, now: Millis) -> Result<Vec<Secret>, EndpointError> {
        let old = self.old_secret.as_ref().filter(|old| now < old.until).map(|old| &old.sealed);
        let kept = std::iter::once(&self.sealed_secret).chain(old);
        kept.map(|sealed| Ok(Secret::parse(&sealer.open(&self.id, sealed)?)?)).collect()
    }

    /// Whether the endpoint is told of such events.
    pub fn wants(&self, kind: EventType) -> bool {
        self.status == Status::Enabled && self.event_types.contains(&kind)
    }

    /// Takes note of an attempt; tells whether the endpoint changed.
    pub fn follow(&mut self, consequence: Consequence, now: Millis) -> bool {
        let before = (self.failing_since, self.busy_until, self.status);
        match consequence {
            Consequence::Healthy => (self.failing_since, self.busy_until) = (None, None),
            Consequence::Failing => self.failing_since = self.failing_since.or(Some(now)),
            Consequence::Busy(until) => {
                self.failing_since = self.failing_since.or(Some(now));
                self.busy_until = Some(until);
            }
            Consequence::Gone => {
                self.status = Status::Disabled;
                self.disabled_reason = Some("it answered 410: it is gone".to_owned());
            }
        }
        before != (self.failing_since, self.busy_until, self.status)
    }

    /// Until when nothing is sent to the endpoint, as it asked.
    pub fn busy(&self, now: Millis) -> Option<Millis> {
        self.busy_until.filter(|until| now < *until)
    }

    /// The endpoint as the API shows it.
    pub fn object(&self) -> Value {
        json!({
            "id": self.id,
            "object": "webhook_endpoint",
            "name": self.name,
            "url": self.url,
            "event_types": self.event_types,
            "created_at": self.created_at.div_euclid(1_000),
            "updated_at": self.updated_at.div_euclid(1_000),
            "signing_secret_hint": self.secret_hint,
            "status": self.status,
            "disabled_reason": self.disabled_reason,
        })
    }

    /// The endpoint with its secret, as it is shown when it is made or its secret replaced.
    pub fn object_with_secret(&self, secret: &Secret) -> Value {
        let mut object = self.object();
        object["signing_secret"] = Value::String(secret.reveal());
        object
    }
}

fn check_name(name: &str) -> Result<(), EndpointError> {
    let count = name.chars().count();
    let taken = (1..=MOST_NAME_CHARACTERS).contains(&count) && !name.contains(char::is_control);
    if taken { Ok(()) } else { Err(EndpointError::Name(count)) }
}

fn events_of(names: &[String]) -> Result<Vec<EventType>, EndpointError> {
    if !(1..=MOST_EVENT_NAMES).contains(&names.len()) {
        return Err(EndpointError::Events(names.len()));
    }
    let mut kinds = Vec::new();
    for name in names {
        let kind: EventType = name.parse()?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
