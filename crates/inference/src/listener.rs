//! Who hears of an answer while it is made.

/// Hears of an answer while it is made, from an async thread; it must not block.
pub trait Listener: Send + Sync {
    /// The prompts have so many tokens together.
    fn prompt(&self, tokens: usize);

    /// A token of a choice came.
    fn token(&self, choice: usize, id: u32);

    /// A piece of a choice's text came, without reasoning and calls.
    fn text(&self, choice: usize, text: &str);
}
