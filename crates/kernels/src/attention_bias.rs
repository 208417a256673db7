//! Biases of attention scores: by the distance of key and query ([`DistanceBias`]: ALiBi, T5, MPNet), and by the
//! distance and what is there ([`DisentangledBias`]: DeBERTa).

use std::fmt::Debug;

/// What is added to attention scores.
pub trait ScoreBias: Debug + Sync {
    /// Adds the bias of `head` to `scores`, those of the query at batch row `row` and `position` with the keys at the
    /// positions from `first_key` on, of the same sequence; at most [`BLOCK_TOKENS`](crate::BLOCK_TOKENS).
    fn add(&self, head: usize, row: usize, position: usize, first_key: usize, scores: &mut [f32]);
}

/// A bias for each head and distance of the key from the query.
#[derive(Clone, Debug)]
pub struct DistanceBias {
    /// `[heads, 2 · reach + 1]`, from the key that is `reach` before the query to that `reach` after it.
    table: Vec<f32>,
    reach: usize,
}

impl DistanceBias {
    /// ALiBi (Press, Smith and Lewis, 2022), symmetric as in JinaBERT: `−slope · |distance|`. Keys further away than
    /// `reach` count as at `reach`, so that it should be the longest text.
    pub fn alibi(heads: usize, reach: usize) -> DistanceBias {
        let bias = |slope: f32| (0..=2 * reach).map(move |at| -slope * at.abs_diff(reach) as f32);
        DistanceBias { table: alibi_slopes(heads).into_iter().flat_map(bias).collect(), reach }
    }

    /// The learned biases of T5 and MPNet: `table`, `[buckets, heads]`. Half of the buckets are for keys after the
    /// query; half of those hold one distance each, the rest grow to `max_distance`, from which on all share the last.
    ///
    /// # Panics
    /// When `table` has another shape, when `buckets` is no multiple of 4, or when `max_distance` is not beyond the
    /// buckets of one distance.
    pub fn buckets(table: &[f32], heads: usize, buckets: usize, max_distance: usize) -> DistanceBias {
        assert_eq!(table.len(), buckets * heads, "a table of {buckets} buckets for {heads} heads");
        assert!(buckets > 0 && buckets.is_multiple_of(4), "{buckets} buckets, not a multiple of 4");
        assert!(max_distance > buckets / 4, "{max_distance} as the largest distance of {buckets} buckets");
        let reach = max_distance;
        let bucket = |at: usize| {
            let side = if at > reach { buckets / 2 } else { 0 };
            side + distance_bucket(at.abs_diff(reach), buckets / 2, max_distance)
        };
        let bias = |head: usize| (0..=2 * reach).map(move |at| table[bucket(at) * heads + head]);
        DistanceBias { table: (0..heads).flat_map(bias).collect(), reach }
    }
}

impl ScoreBias for DistanceBias {
    fn add(&self, head: usize, _: usize, position: usize, first_key: usize, scores: &mut [f32]) {
        let width = 2 * self.reach + 1;
        let biases = &self.table[head * width..][..width];
        // Of the first key; those outside take the first or last of the table.
        let at = (first_key + self.reach).checked_sub(position);
        if let Some(biases) = at.and_then(|at| biases.get(at..at + scores.len())) {
            scores.iter_mut().zip(biases).for_each(|(score, bias)| *score += bias);
        } else {
            for (key, score) in (first_key..).zip(scores) {
                *score += biases[(key + self.reach).saturating_sub(position).min(width - 1)];
            }
        }
    }
}

/// The slopes of ALiBi's heads: a geometric sequence down to 2⁻⁸ for a power of two; for other numbers that of the power
/// below, and every second one of the power above.
fn alibi_slopes(heads: usize) -> Vec<f32> {
    let sequence = |count: usize| (1..=count).map(move |i| (-8.0 * i as f64 / count as f64).exp2() as f32);
    let below = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    sequence(below).chain(sequence(2 * below).step_by(2)).take(heads).collect()
}

/// The bucket among `buckets` of a distance in one direction.
fn distance_bucket(distance: usize, buckets: usize, max_distance: usize) -> usize {
    let exact = buckets / 2;
    if distance < exact {
        return distance;
    }
    let growth = (distance as f64 / exact as f64).ln() / (max_distance as f64 / exact as f64).ln();
    // A distance that begins a bucket must not fall into the one before by rounding.
    let further = (growth * (buckets - exact) as f64 + 1e-6) as usize;
    (exact + further).min(buckets - 1)
}

/// Which of DeBERTa's relative embeddings is that of a distance, for the two in use: all distances up to a limit, or
/// buckets that grow.
#[derive(Clone, Debug)]
pub struct RelativeIndex {
    /// Of the distances `query − key` from `−reach` to `reach`.
    table: Vec<u32>,
    reach: usize,
    embeddings: usize,
}

impl RelativeIndex {
    /// The index of DeBERTa-v2 and v3: `buckets` for each direction (`position_buckets`), half of which hold one
    /// distance each, the others growing to `max_distance` (`max_relative_positions`).
    ///
    /// # Panics
    /// When `buckets` is not even, less than 4, or `max_distance` not beyond half of them.
    pub fn buckets(buckets: usize, max_distance: usize) -> RelativeIndex {
        let middle = buckets / 2;
        assert!(buckets >= 4 && buckets.is_multiple_of(2), "{buckets} buckets: even, and 4 at least");
        assert!(max_distance > middle + 1, "{max_distance} as the largest distance of {buckets} buckets");
        // At `max_distance` and beyond all share the last embedding of their side.
        RelativeIndex::new(buckets, max_distance, |distance| log_bucket(distance, middle, max_distance))
    }

    /// The index where each distance up to `max_distance` has an embedding of its own.
    pub fn exact(max_distance: usize) -> RelativeIndex {
        RelativeIndex::new(max_distance, max_distance, |distance| distance)
    }

    fn new(span: usize, reach: usize, bucket: impl Fn(usize) -> usize) -> RelativeIndex {
        let index = |at: usize| {
            let bucket = bucket(at.abs_diff(reach));
            let index =
                if at < reach { span.saturating_sub(bucket) } else { (span + bucket).min(2 * span - 1) };
            index as u32
        };
        RelativeIndex { table: (0..=2 * reach).map(index).collect(), reach, embeddings: 2 * span }
    }

    /// Relative embeddings: an index is less than that.
    pub fn embeddings(&self) -> usize {
        self.embeddings
    }

    /// The index of the query's position relative to the key's.
    #[inline]
    pub fn of(&self, query: usize, key: usize) -> usize {
        self.table[(query + self.reach).saturating_sub(key).min(2 * self.reach)] as usize
    }
}

/// The bucket of a distance in one direction: exact up to `middle`, then logarithmic to `2 · middle − 1` at
/// `max_distance − 1`.
fn log_bucket(distance: usize, middle: usize, max_distance: usize) -> usize {
    if distance <= middle {
        return distance;
    }
    let growth = (distance as f64 / middle as f64).ln() / ((max_distance - 1) as f64 / middle as f64).ln();
    // A distance that ends a bucket must not fall into the next one by rounding.
    middle + (growth * (middle - 1) as f64 - 1e-6).ceil() as usize
}

/// Products of each row and head with each relative embedding.
#[derive(Clone, Copy, Debug)]
pub struct PositionScores<'a> {
    /// The products: that of `row`, `head` and embedding `i` is at `row · row_stride + head · head_stride + i`.
    pub values: &'a [f32],
    /// From a row to the next.
    pub row_stride: usize,
    /// From a head to the next.
    pub head_stride: usize,
}

impl<'a> PositionScores<'a> {
    /// The products of a row and head, and what follows them.
    #[inline(always)]
    fn at(self, row: usize, head: usize) -> &'a [f32] {
        &self.values[row * self.row_stride + head * self.head_stride..]
    }
}

/// The bias of disentangled attention (DeBERTa; He, Liu, Gao and Chen, 2021): content to position and position to
/// content, of one layer and batch, both scaled as the scores are.
#[derive(Clone, Copy, Debug)]
pub struct DisentangledBias<'a> {
    /// The embedding of a distance.
    pub index: &'a RelativeIndex,
    /// Products of the batch rows' queries with the keys of relative embeddings (`c2p`).
    pub query_scores: Option<PositionScores<'a>>,
    /// Products of keys with the queries of relative embeddings (`p2c`), the rows of a sequence in order of position.
    pub key_scores: Option<PositionScores<'a>>,
    /// For each batch row, the row of `key_scores` of its sequence's position 0.
    pub first_key_rows: &'a [u32],
}

impl ScoreBias for DisentangledBias<'_> {
    fn add(&self, head: usize, row: usize, position: usize, first_key: usize, scores: &mut [f32]) {
        let keys = first_key..;
        if let Some(products) = self.query_scores {
            let products = products.at(row, head);
            for (key, score) in keys.clone().zip(&mut *scores) {
                *score += products[self.index.of(position, key)];
            }
        }
        if let Some(products) = self.key_scores {
            let first_row = self.first_key_rows[row] as usize;
            for (key, score) in keys.zip(scores) {
                *score += products.at(first_row + key, head)[self.index.of(position, key)];
            }
        }
    }
}
