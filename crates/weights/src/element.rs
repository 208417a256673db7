//! The element type of a tensor: a weight format, or a type that cannot be computed with.

use std::fmt;

use tensor::Dtype;

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Weights in a supported format.
    Weights(Dtype),
    /// Another type (integers, 64-bit floats, unsupported quantizations), by its name.
    Other(&'static str),
}

impl Element {
    /// The name of the type, as the file format spells it.
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
