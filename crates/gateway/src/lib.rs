//! Many machines as one: requests go to whoever answers soonest for the least money within the rules.
//!
//! A request's way: [`httpd`] (connection, key, body) → `asked` (model, label, class, sizes) → `exchange` (budget →
//! policy → attempt, again until there is an answer) → `relay` (bytes as they are where the dialects match, translated
//! where they do not). What is decided is decided by crates without clock or sockets: [`routing`] (which upstream),
//! [`ledger`] (what it may cost), [`privacy`] (how far it may travel), [`translation`] (how it is said).
//!
//! Deliberately absent: the engine, files and the environment (whoever starts the gateway reads them).

mod address;
mod admin;
mod admission;
mod api;
mod asked;
mod budget;
mod cache;
pub mod calibrate;
mod cascade;
mod client;
mod clock;
mod coalesced;
pub mod config;
mod detection;
mod discovery;
mod exchange;
mod explain;
mod hashing;
mod jobs;
mod keys;
pub mod litellm;
mod nodes;
mod page;
mod receipt;
mod redaction;
mod registration;
mod route;
mod secret;
mod server;
mod snapshot;
mod state;
mod tls;
mod translate;
mod upstream;
mod wishes;

pub use config::Config;
pub use secret::{Secret, Secrets};
pub use server::{ConfigError, Gateway, read_config};
