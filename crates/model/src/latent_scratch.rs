//! The buffers of latent attention's products by head, sized once; empty for a model without.

use crate::mixer::Mixer;
use crate::spec::Spec;
use cpu::AlignedVec;
use kernels::{Activations, MAX_GROUP};

/// The most rows of a batch whose heads are multiplied several at once.
const ROUND_ROWS: usize = 64;

/// The buffers of the products of each head's columns with a matrix of its own.
pub(crate) struct HeadBuffers {
    /// The columns of each head of a round, as they are multiplied.
    round: Vec<Activations>,
    /// The columns of one head `[rows, columns]`; before that, the latents of keys and values `[rows, rank]`.
    pub(crate) columns: AlignedVec<f32>,
    /// The products of the heads of a round, one after the other.
    pub(crate) products: AlignedVec<f32>,
}

impl HeadBuffers {
    pub(crate) fn new(spec: &Spec, rows: usize) -> HeadBuffers {
        let widest = widest(spec);
        let (count, few) = (if widest == 0 { 0 } else { MAX_GROUP }, rows.min(ROUND_ROWS));
        HeadBuffers {
            round: (0..count).map(|_| Activations::new(few, widest)).collect(),
            columns: AlignedVec::new(rows * widest),
            products: AlignedVec::new(rows.max(few * count) * widest),
        }
    }

    /// Bytes that [`HeadBuffers::new`] allocates, about.
    pub(crate) fn bytes(spec: &Spec, rows: u64) -> u64 {
        let (widest, few) = (widest(spec) as u64, rows.min(ROUND_ROWS as u64));
        let round = MAX_GROUP as u64 * few;
        (4 * (rows + rows.max(round)) + 10 * round) * widest.next_multiple_of(32)
    }

    /// Where the columns of heads are set to be multiplied, `rows` rows of each: several heads at once, or `one` at a time
    /// where that is work enough for all threads. Beside it [`HeadBuffers::columns`] and [`HeadBuffers::products`].
    pub(crate) fn round<'a>(
        &'a mut self,
        rows: usize,
        one: &'a mut Activations,
    ) -> (&'a mut [Activations], &'a mut [f32], &'a mut [f32]) {
        let round = if rows <= ROUND_ROWS { &mut self.round[..] } else { std::slice::from_mut(one) };
        (round, &mut self.columns, &mut self.products)
    }
}

/// The widest rows that a product of a head reads or gives.
fn widest(spec: &Spec) -> usize {
    let of_layer = |mixer: &Mixer| match mixer {
        Mixer::Latent(net) => net.widest_of_head(),
        _ => 0,
    };
    spec.layers.iter().map(|layer| of_layer(&layer.mixer)).max().unwrap_or(0)
}
