//! What a tensor's elements are.

use std::fmt;

use tensor::Dtype;

/// What a tensor's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Weights in a format that can be computed with.
    Weights(Dtype),
    /// Something else that files carry and no matrix is made of (integers, 64-bit floats), by its name.
    Other(&'static str),
}

impl Element {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Element::Weights(dtype) => dtype.name(),
            Element::Other(name) => name,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
