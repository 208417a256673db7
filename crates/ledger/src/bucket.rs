//! What a cap is on: a subject, a window and a unit; and what a request may cost at most.

use crate::amount::Amount;
use crate::calendar::Window;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of subject that a cap is on, in the order in which buckets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// An API key.
    Key,
    /// A team of keys.
    Team,
    /// A model, under the name that clients use.
    Model,
    /// All requests.
    Everything,
}

/// What a cap counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nano units of the currency.
    Money,
    /// Tokens of prompts and answers.
    Tokens,
    /// Requests.
    Requests,
}

impl Scope {
    /// All scopes, in their order.
    pub const ALL: [Scope; 4] = [Scope::Key, Scope::Team, Scope::Model, Scope::Everything];

    /// The word in files, messages and the store.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Key => "key",
            Scope::Team => "team",
            Scope::Model => "model",
            Scope::Everything => "everything",
        }
    }
}

impl Unit {
    /// All units.
    pub const ALL: [Unit; 3] = [Unit::Money, Unit::Tokens, Unit::Requests];

    /// The word in files, messages and the store.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Money => "money",
            Unit::Tokens => "tokens",
            Unit::Requests => "requests",
        }
    }

    /// A quantity of this unit as messages show it.
    pub fn show(self, quantity: i64) -> String {
        match self {
            Unit::Money => Amount::from_nano(quantity).to_string(),
            Unit::Tokens | Unit::Requests => quantity.to_string(),
        }
    }
}

/// What one cap adds up: the spending of a subject in a unit, anew in each period of a window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bucket {
    /// The kind of subject.
    pub scope: Scope,
    /// The subject's name; empty for [`Scope::Everything`].
    pub name: String,
    /// When it starts anew.
    pub window: Window,
    /// What it counts.
    pub unit: Unit,
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bucket { scope, name, window, unit } = self;
        match scope {
            Scope::Everything => write!(f, "{} per {window} of all requests", unit.word()),
            _ => write!(f, "{} per {window} of {} `{name}`", unit.word(), scope.word()),
        }
    }
}

/// A bucket and the most that it may hold in a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// What is counted.
    pub bucket: Bucket,
    /// The most in a period: nano units, tokens or requests. 0 refuses everything.
    pub limit: i64,
}

/// The most caps of a configuration; 10,000 keys with six caps each are below it.
pub const MAX_CAPS: usize = 65_536;

/// Length limit of a subject's name, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// The reason why caps cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapError {
    /// More caps than [`MAX_CAPS`].
    #[error("{0} caps; at most {MAX_CAPS} are possible")]
    TooMany(usize),
    /// Two caps on the same bucket.
    #[error("two caps on {0}: keep one")]
    Twice(Bucket),
    /// A limit below zero.
    #[error("the cap on {0} has the limit {1}, which is below zero")]
    Negative(Bucket, i64),
    /// A name that is missing, not allowed, or too long.
    #[error("the cap on {0} {1}")]
    Name(Bucket, &'static str),
}

/// Checks the caps of a configuration.
///
/// # Errors
/// Names the first cap that is wrong.
pub fn check_caps(caps: &[Cap]) -> Result<(), CapError> {
    if caps.len() > MAX_CAPS {
        return Err(CapError::TooMany(caps.len()));
    }
    let mut seen = std::collections::HashSet::new();
    for Cap { bucket, limit } in caps {
        let name = |reason| Err(CapError::Name(bucket.clone(), reason));
        if *limit < 0 {
            return Err(CapError::Negative(bucket.clone(), *limit));
        }
        match bucket.scope {
            Scope::Everything if !bucket.name.is_empty() => return name("is on all requests and has a name"),
            Scope::Key | Scope::Team | Scope::Model if bucket.name.is_empty() => return name("has no name"),
            _ if bucket.name.len() > MAX_NAME_BYTES => return name("has a name of more than 256 bytes"),
            _ if bucket.name.contains('\0') => return name("has a NUL character in its name"),
            _ => {}
        }
        if !seen.insert(bucket) {
            return Err(CapError::Twice(bucket.clone()));
        }
    }
    Ok(())
}

/// Whom a request is charged to.
#[derive(Clone, Copy, Debug)]
pub struct Subjects<'a> {
    /// The API key's name.
    pub key: &'a str,
    /// The key's team, if it has one.
    pub team: Option<&'a str>,
    /// The model's name as the client wrote it.
    pub model: &'a str,
}

/// The most that an attempt can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Its price at most; `None` if the price is not known, which a cap on money refuses.
    pub money: Option<Amount>,
    /// Tokens of its prompt and its answer at most.
    pub tokens: u64,
    /// 1 for a request's first attempt, 0 for its others.
    pub requests: u32,
}

/// What an attempt cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Its price.
    pub money: Amount,
    /// Tokens of its prompt and its answer.
    pub tokens: u64,
    /// 1 for a request's first attempt, 0 for its others.
    pub requests: u32,
}

impl Bounds {
    /// The bound as a cost; an unknown price is zero, which no cap on money has let through.
    pub(crate) fn as_cost(&self) -> Cost {
        Cost { money: self.money.unwrap_or(Amount::ZERO), tokens: self.tokens, requests: self.requests }
    }
}

impl Cost {
    /// The quantity in a unit.
    pub(crate) fn of(&self, unit: Unit) -> i64 {
        match unit {
            Unit::Money => self.money.nano(),
            Unit::Tokens => i64::try_from(self.tokens).unwrap_or(i64::MAX),
            Unit::Requests => i64::from(self.requests),
        }
    }
}
