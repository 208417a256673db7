//! Shortens error messages of the grammar library (llguidance).

/// The longest message that is passed on, in bytes.
const ERROR_BYTES: usize = 600;

/// The message without the dump of the library's state and grammar.
pub(super) fn brief(message: &str) -> String {
    let message = message.split("\n<").next().unwrap_or_default().trim();
    match message.char_indices().nth(ERROR_BYTES) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}
