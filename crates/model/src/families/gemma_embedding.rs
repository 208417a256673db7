//! EmbeddingGemma: Gemma 3 whose attention is bidirectional, its local layers half a window to each side.

use super::gemma3;
use crate::error::Error;
use crate::source::Source;
use crate::spec::{Direction, LmHead, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = gemma3::read(source)?;
    spec.family = "gemma-embedding";
    spec.direction = Direction::Bidirectional;
    spec.lm_head = LmHead::None;
    for layer in &mut spec.layers {
        // The configuration counts both sides and the position itself.
        layer.window = layer.window.map(|window| window / 2);
    }
    Ok(spec)
}
