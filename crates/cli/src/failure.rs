//! How a command ends badly: one readable line and an exit code.

/// What a command hands back when it could not do what was asked. `main` prints `error: {message}` on standard error
/// and leaves with `code`.
///
/// It is deliberately not an [`std::error::Error`]: it ends a command, nothing wraps it. So `?` turns every library
/// error into one.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One line, naming the thing, the value and the limit. Empty: nothing is printed.
    pub(crate) message: String,
    /// The exit code: 1 for what went wrong, 2 for a command line that makes no sense.
    pub(crate) code: u8,
}

#[allow(dead_code, reason = "the constructors are for every command; not each build uses all")]
impl Failure {
    /// Something went wrong while doing what was asked: exit code 1.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: 1 }
    }

    /// What was asked makes no sense: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: 2 }
    }
}

/// Code 1, and the error with its sources joined by `": "` (a source whose words its parent already says is left out).
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let words = inner.to_string();
            if !message.contains(&words) {
                message.push_str(": ");
                message.push_str(&words);
            }
            source = inner.source();
        }
        Failure { message, code: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read model.gguf")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn sources_are_joined_once() {
        let failure = Failure::from(Outer(std::io::Error::other("disk on fire")));
        assert_eq!(failure.message, "cannot read model.gguf: disk on fire");
        assert_eq!(failure.code, 1);
        let plain = Failure::from(std::io::Error::other("disk on fire"));
        assert_eq!(plain.message, "disk on fire");
    }
}
