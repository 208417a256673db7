//! The keys that a gateway's configuration names, read from the environment and from files.

use gateway::Secret;

use crate::files;

/// Longest file of a key or of certificates.
const MAX_BYTES: u64 = 1 << 20;

/// A secret's text. The message of an error never holds it.
pub(super) fn read(secret: &Secret<'_>) -> Result<String, String> {
    match secret {
        Secret::Environment(name) => match std::env::var(name) {
            Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Ok(_) => Err(format!("the environment variable {name} is empty")),
            Err(_) => Err(format!("the environment variable {name} is not set")),
        },
        Secret::File(path) => {
            let file = files::read("file", path, MAX_BYTES).map_err(|failure| failure.message)?;
            file.guarded("file", path).map_err(|failure| failure.message)?;
            let text = file.text("file", path).map_err(|failure| failure.message)?;
            if text.trim().is_empty() {
                return Err(format!("{} is empty", path.display()));
            }
            Ok(text.to_owned())
        }
    }
}
