//! What makes a model ready, and what is told of it when it is registered.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use residency::ModelId;
use wire::oip::VERSION;

use crate::LoadedModel;

/// Makes a model ready.
pub trait Loader: Send + Sync {
    /// Bytes of memory that the model takes when it is loaded: weights, KV cache, buffers.
    ///
    /// # Errors
    /// In words, when it cannot be found or planned.
    fn need_bytes(&self) -> Result<u64, String>;

    /// Loads it; `progress` is told how far it is. It may take minutes, and is called on a thread that may block.
    ///
    /// # Errors
    /// In words, when it cannot be loaded.
    fn load(&self, progress: &dyn Fn(String)) -> Result<LoadedModel, String>;

    /// Names of the operations that the model will support, as far as that is known before it is loaded
    /// (`inference::Operation::name`).
    fn operations(&self) -> Vec<&'static str> {
        vec!["generate", "tokenize"]
    }

    /// The model's version.
    fn version(&self) -> Arc<str> {
        Arc::from(VERSION)
    }

    /// Why it will not load, if that is known before anybody asks for it: the model is then failed from the start.
    fn problem(&self) -> Option<String> {
        None
    }

    /// The names of the models that it is made of, if it is a pipeline. Their tensors are known when it is loaded, as far
    /// as they can be.
    fn parts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it can be loaded at all; a model that cannot is never unloaded.
    fn can_load(&self) -> bool {
        true
    }
}

/// What a new generation of a model must pass before it answers; the fault says what it did not.
pub type Check = Box<dyn FnOnce(ModelId) -> Checked + Send>;
/// The outcome of a [`Check`], in words if it was not passed.
pub type Checked = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A model that can be loaded.
pub struct Registration {
    /// The names that it goes by; the first is the one that answers carry.
    pub names: Vec<String>,
    /// Whether it stays loaded whatever else is asked for.
    pub pinned: bool,
    /// How long it stays loaded without a request; none is until its memory is wanted.
    pub keep_alive: Option<Duration>,
    /// What makes it ready.
    pub loader: Arc<dyn Loader>,
}

/// The loader of a model that is loaded already, and stays so.
pub(super) struct Never;

impl Loader for Never {
    fn need_bytes(&self) -> Result<u64, String> {
        Ok(0)
    }

    fn load(&self, _progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        Err("it was not loaded by this server".into())
    }

    fn can_load(&self) -> bool {
        false
    }
}
