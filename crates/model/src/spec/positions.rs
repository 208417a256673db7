//! How positions enter a model, and which of them a row attends to.

/// The positions that a row attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Itself and those before it.
    Causal,
    /// All of its text.
    Bidirectional,
}

/// How positions enter a model beside rope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Positions {
    /// By rope, or not at all.
    Rope,
    /// By a learned embedding of `rows` positions; the first position is row `first`.
    Learned {
        /// Rows of the embedding.
        rows: usize,
        /// The row of position 0: 2 for RoBERTa and MPNet.
        first: usize,
    },
    /// By a bias of the scores that falls with distance (ALiBi, Press et al. 2022), the same in both directions.
    Alibi,
    /// By a learned embedding and a bias of the scores, by buckets of distance (T5, MPNet).
    Buckets {
        /// Rows of the embedding.
        rows: usize,
        /// The row of position 0.
        first: usize,
        /// Buckets, half of them for each direction.
        buckets: usize,
        /// The distance from which all are in the last bucket.
        max_distance: usize,
    },
    /// Disentangled attention (DeBERTa-v2, He et al. 2021): content to position and position to content.
    Disentangled {
        /// Buckets of each direction; 0 for one for each distance.
        buckets: usize,
        /// The largest distance.
        max_distance: usize,
        /// Whether positions use the projections of content (`share_att_key`).
        shared: bool,
        /// Whether queries meet the keys of positions (`c2p` of `pos_att_type`).
        c2p: bool,
        /// Whether keys meet the queries of positions (`p2c`).
        p2c: bool,
        /// Whether the relative embeddings are normalised.
        norm: bool,
        /// Rows of the absolute embedding that is added to the tokens (`position_biased_input`); 0 for none.
        rows: usize,
    },
}

impl Positions {
    /// Rows of the learned position embedding, and the row of position 0.
    pub(crate) fn learned(self) -> Option<(usize, usize)> {
        match self {
            Positions::Learned { rows, first } | Positions::Buckets { rows, first, .. } => {
                Some((rows, first))
            }
            Positions::Disentangled { rows, .. } if rows > 0 => Some((rows, 0)),
            Positions::Rope | Positions::Alibi | Positions::Disentangled { .. } => None,
        }
    }

    /// Rows of the relative embedding of disentangled attention.
    pub(crate) fn relative_rows(self) -> usize {
        match self {
            Positions::Disentangled { buckets: 0, max_distance, .. } => 2 * max_distance,
            Positions::Disentangled { buckets, .. } => 2 * buckets,
            _ => 0,
        }
    }
}
