//! What stands for `traces` in a build without the feature `otlp`: nothing, said clearly.

use std::sync::Arc;
use std::time::Duration;

use server::Audit;

use crate::Failure;

/// There are none.
pub(super) enum Traces {}

impl Traces {
    /// # Errors
    /// An endpoint that nothing would be sent to.
    pub(super) fn start(endpoint: Option<&str>, _scheme: &'static str) -> Result<Option<Traces>, Failure> {
        match endpoint {
            None => Ok(None),
            Some(endpoint) => Err(Failure::usage(format!(
                "--otlp-endpoint {endpoint}: this gristmill was built without traces; \
                 build one with `cargo build --release --features otlp`"
            ))),
        }
    }

    pub(super) fn endpoint(&self) -> &str {
        match *self {}
    }

    pub(super) fn audit(&self) -> Arc<dyn Audit> {
        match *self {}
    }

    pub(super) fn finish(self, _at_most: Duration) {
        match self {}
    }
}
