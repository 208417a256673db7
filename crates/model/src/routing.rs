//! The buffers of mixtures of experts, sized once; empty for a dense model.

use crate::spec::{FeedForward, Spec};
use cpu::AlignedVec;
use kernels::Activations;

/// The most experts whose products are computed in one round: gate and up of each.
pub(crate) const MAX_ROUND: usize = kernels::MAX_GROUP / 2;

/// The most rows of a batch whose experts run in rounds.
pub(crate) const ROUND_ROWS: usize = 8;

/// The most picks of a batch whose experts run in rounds.
pub(crate) const ROUND_PICKS: usize = 64;

/// The assignment of rows to experts, with its buffers.
pub(crate) struct Routing {
    /// Router logits, then scores `[rows, experts]`.
    pub(crate) scores: Vec<f32>,
    /// What the experts of one row are picked by `[experts]`.
    pub(crate) choice: Vec<f32>,
    /// Expert and weight of each pick `[rows, used]`, before grouping.
    pub(crate) picks: Vec<(u32, f32)>,
    /// Row and weight of each pick, grouped by expert, rows ascending `[rows * used]`.
    pub(crate) grouped: Vec<(u32, f32)>,
    /// Where each expert's group starts in `grouped`, and its end `[experts + 1]`.
    pub(crate) starts: Vec<u32>,
    /// The rows of one expert `[rows, width]`.
    pub(crate) gathered: AlignedVec<f32>,
    /// The output of one expert `[rows, width]`.
    pub(crate) expert_out: AlignedVec<f32>,
    /// The buffers of experts that run in rounds.
    pub(crate) few: FewRows,
}

/// The buffers of experts that run in rounds.
pub(crate) struct FewRows {
    /// The input of each expert of a round.
    pub(crate) activations: Vec<Activations>,
    /// The rows of one expert.
    pub(crate) gathered: AlignedVec<f32>,
    /// The gate projections of a round `[picks, width of an expert]`.
    pub(crate) gate: AlignedVec<f32>,
    /// The up projections of a round.
    pub(crate) up: AlignedVec<f32>,
    /// The outputs of all picks, grouped by expert `[picks, width]`.
    pub(crate) outputs: AlignedVec<f32>,
}

impl Routing {
    pub(crate) fn new(spec: &Spec, rows: usize) -> Routing {
        let (experts, used) = spec.experts();
        let sparse = experts > 0;
        let width = if sparse { spec.width } else { 0 };
        Routing {
            scores: vec![0.0; rows * experts],
            choice: vec![0.0; experts],
            picks: vec![(0, 0.0); rows * used],
            grouped: vec![(0, 0.0); rows * used],
            starts: vec![0; if sparse { experts + 1 } else { 0 }],
            gathered: AlignedVec::new(rows * width),
            expert_out: AlignedVec::new(rows * width),
            few: FewRows::new(spec, rows),
        }
    }

    /// Bytes that [`Routing::new`] allocates, about.
    pub(crate) fn bytes(spec: &Spec, rows: u64) -> u64 {
        let (experts, used) = spec.experts();
        if experts == 0 {
            return 0;
        }
        let few = Few::of(spec, usize::try_from(rows).unwrap_or(usize::MAX));
        let floats = rows * (experts + 4 * used + 2 * spec.width) as u64 + 2 * experts as u64;
        let activations = 10 * MAX_ROUND * few.rows * few.widest.next_multiple_of(32);
        4 * (floats + few.floats(spec.width) as u64) + activations as u64
    }
}

/// The sizes of [`FewRows`].
struct Few {
    rows: usize,
    picks: usize,
    /// Rows of gate and up of an expert.
    inner: usize,
    widest: usize,
}

impl Few {
    fn of(spec: &Spec, rows: usize) -> Few {
        let inner = spec.layers.iter().map(|layer| match layer.feed {
            FeedForward::None | FeedForward::Dense { .. } => 0,
            FeedForward::Experts(mixture) => mixture.width,
        });
        let inner = inner.max().unwrap_or(0);
        let rows = rows.min(ROUND_ROWS);
        let picks = (rows * spec.experts().1).min(ROUND_PICKS);
        Few { rows, picks, inner, widest: inner.max(spec.width) }
    }

    fn floats(&self, width: usize) -> usize {
        self.rows * width + self.picks * (2 * self.inner + width)
    }
}

impl FewRows {
    fn new(spec: &Spec, rows: usize) -> FewRows {
        let few = Few::of(spec, rows);
        let count = if few.picks == 0 { 0 } else { MAX_ROUND };
        FewRows {
            activations: (0..count).map(|_| Activations::new(few.rows, few.widest)).collect(),
            gathered: AlignedVec::new(if count == 0 { 0 } else { few.rows * spec.width }),
            gate: AlignedVec::new(few.picks * few.inner),
            up: AlignedVec::new(few.picks * few.inner),
            outputs: AlignedVec::new(few.picks * spec.width),
        }
    }
}
