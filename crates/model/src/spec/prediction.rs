//! Whether layers that predict further tokens are read.

/// The layers of a file, after a model's own, that predict further tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// There are so many, which are left unread.
    LeftOut(usize),
    /// There is one, which is the last of [`Spec::layers`](super::Spec::layers); the model's own are those before it.
    Kept,
}

impl Prediction {
    /// How many layers are left unread.
    pub(crate) fn left_out(self) -> usize {
        match self {
            Prediction::LeftOut(count) => count,
            Prediction::Kept => 0,
        }
    }
}
