//! A model that was found and read, before anything is planned or loaded.

use std::path::PathBuf;

use model::{Direction, LmHead, Spec};
use weights::Opened;

use crate::Failure;

/// An opened model with its spec.
pub(crate) struct Found {
    /// What it was asked for by.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) opened: Opened,
    pub(crate) spec: Spec,
}

impl Found {
    /// Finds the model (catalog name, path, or source), pulling it if need be, and reads its spec.
    ///
    /// # Errors
    /// No such model, or a damaged or unsupported file.
    pub(crate) fn find(model: &str) -> Result<Found, Failure> {
        let path = crate::store::resolve(model)?;
        let opened = weights::open(&path)?;
        let spec = Spec::read(&opened).map_err(|error| of(model, error))?;
        Ok(Found { name: model.to_owned(), path, opened, spec })
    }

    /// Whether it makes vectors or scores of texts. A decoder whose files name a pooling or a classifier was made for that,
    /// and is served so.
    pub(crate) fn encodes(&self) -> bool {
        self.spec.encoder.is_some()
    }
}

/// An error about a model's insides, with its name before it.
pub(crate) fn of(model: &str, error: model::Error) -> Failure {
    Failure::new(format!("{model}: {}", Failure::from(error).message))
}

/// Whether a model can continue a text.
pub(crate) fn generates(spec: &Spec) -> bool {
    spec.direction == Direction::Causal && spec.lm_head != LmHead::None
}

/// Refuses a model that cannot continue a text, for commands that need one which does.
///
/// # Errors
/// With what the model is for.
pub(crate) fn check_generates(model: &str, spec: &Spec) -> Result<(), Failure> {
    if generates(spec) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{model} is an encoder ({}): it makes vectors or scores of texts and does not continue them; embed, rerank, \
         classify and serve take it",
        spec.family
    )))
}
