//! Several residual streams of which a layer computes one (Gemma 3n).

use crate::error::{Error, require};

/// The most streams.
pub(crate) const MAX_STREAMS: usize = 8;

/// Alternating updates (Baykal et al., 2023): the residual is several streams. A layer predicts all of them from all of
/// them, computes the active one, and corrects the others by what the computed one differs from its prediction. Beside
/// attention, the active stream has a low-rank map added to it (LAuReL, Menghani et al., 2024).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltUp {
    /// The number of streams.
    pub streams: usize,
    /// The index of the stream that layers compute.
    pub active: usize,
    /// Whether what the layer's own embeddings are gated by is scaled, column by column.
    pub scaled: bool,
    /// Rank of the low-rank map.
    pub laurel_rank: usize,
}

impl AltUp {
    /// Checks the ranges.
    pub(super) fn check(&self) -> Result<(), Error> {
        let AltUp { streams, active, laurel_rank, .. } = *self;
        require((1..=MAX_STREAMS).contains(&streams), "streams", streams, &format!("1 to {MAX_STREAMS}"))?;
        require(active < streams, "active stream", active, &format!("one of the {streams} streams"))?;
        require((1..=1 << 16).contains(&laurel_rank), "rank of LAuReL", laurel_rank, "1 to 65536")
    }
}
