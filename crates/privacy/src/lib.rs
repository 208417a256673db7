//! What a text says about people and secrets: labels, detection rules, and redaction that can be undone.
//!
//! Deliberately absent: models, HTTP, storage.
