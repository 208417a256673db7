//! What a text says about people and secrets: labels, detection rules, and redaction that can be undone.
//!
//! A [`Label`] says how far a request may travel; a [`Permit`] proves that it was compared with an upstream's
//! [`Clearance`]. [`Rules`] find personal data and secrets in one pass over a text: numbers with their check digits,
//! addresses, keys by their prefixes, and weaker shapes beside words that speak for them. A [`Redaction`] replaces findings
//! by placeholders, and a [`Restorer`] puts them back into an answer, also while it streams. [`Verdicts`] remembers what was
//! found in messages that are sent again with each turn.
//!
//! Deliberately absent: models, HTTP, storage, randomness and the clock. Texts are hostile: time is linear in their length, and
//! findings, caches and buffers are bounded.

mod accounts;
mod checks;
mod codes;
mod coins;
mod context;
mod dates;
mod identities;
mod json;
mod kind;
mod label;
mod network;
mod normal;
mod numbers;
mod own;
mod phones;
mod placeholder;
mod redaction;
mod restore;
mod rules;
mod scan;
mod secrets;
mod settings;
mod sink;
mod verdicts;

pub use json::{JsonFinding, JsonScan};
pub use kind::{Kind, MAX_OWN};
pub use label::{Clearance, Label, Permit, UnknownLabel};
pub use own::SettingsError;
pub use redaction::{RedactError, Redaction};
pub use restore::{Escape, Restorer};
pub use rules::{Finding, Rules, Scan};
pub use settings::{OwnList, OwnRule, Settings};
pub use verdicts::Verdicts;
