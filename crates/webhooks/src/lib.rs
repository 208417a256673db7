//! Webhooks by Standard Webhooks 1.0.0: who is told of what, signed, retried over days, and never sent to where it must
//! not go.
//!
//! - [`event`]: what happened, and the body that tells it.
//! - [`endpoint`]: who wants to be told, kept as a JSON document.
//! - [`secret`], [`pair`] and [`sealed`]: what messages are signed with, and how that is kept.
//! - [`target`], [`addresses`] and [`ranges`]: where a message may go.
//! - [`delivery`]: one message to one receiver, as a state machine over its attempts.
//! - [`sender`]: one attempt.
//! - [`explain`]: the steps of an attempt, for people.
//!
//! A message is delivered at least once: a receiver tells repeated ones by their `webhook-id`.
//!
//! Time and random numbers are arguments, except for how long an attempt took. Sockets are opened by [`sender`] only.

pub mod addresses;
mod base64;
pub mod delivery;
pub mod endpoint;
pub mod event;
mod exchange;
pub mod explain;
mod names;
pub mod pair;
pub mod ranges;
pub mod resolve;
pub mod sealed;
pub mod secret;
pub mod sender;
pub mod target;
