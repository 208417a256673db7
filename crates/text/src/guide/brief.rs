//! The grammar library's messages, shortened.

/// Longest error that is passed on.
const ERROR_BYTES: usize = 600;

/// The library's words without its state and its grammar.
pub(super) fn brief(message: &str) -> String {
    let message = message.split("\n<").next().unwrap_or_default().trim();
    match message.char_indices().nth(ERROR_BYTES) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}
