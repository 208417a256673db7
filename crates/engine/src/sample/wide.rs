//! What touches the logits of a whole vocabulary. These loops are as long as a vocabulary, a hundred thousand and more,
//! for every token of every answer: each is one that the compiler turns into vector instructions.

use super::filter::{Candidate, top_k};

/// Logits that are looked at together.
const LANES: usize = 16;
/// Logits whose largest is kept.
pub(super) const BLOCK: usize = 64;
/// With fewer blocks than so many for each token that is wanted, sorting all is as fast.
const FEW_BLOCKS: usize = 8;

/// The first logit that is infinite or not a number, with its token.
pub(super) fn not_finite(logits: &[f32]) -> Option<(u32, f32)> {
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for chunk in chunks {
        for (sum, logit) in sums.iter_mut().zip(chunk) {
            // 0 for what is finite, and not a number for what is not.
            *sum += logit * 0.0;
        }
    }
    let fine = sums.iter().chain(rest).all(|value| value.is_finite());
    if fine {
        return None;
    }
    (0u32..).zip(logits).map(|(id, logit)| (id, *logit)).find(|(_, logit)| !logit.is_finite())
}

/// Takes every token away whose bit is not set: bit `id % 32` of word `id / 32`. Those beyond the words go.
pub(super) fn hold_to(allowed: &[u32], logits: &mut [f32]) {
    let words = allowed.iter().copied().chain(std::iter::repeat(0));
    for (logits, word) in logits.chunks_mut(32).zip(words) {
        if word == u32::MAX {
            continue;
        }
        for (bit, logit) in logits.iter_mut().enumerate() {
            if word >> bit & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}

/// The likeliest token, the lowest of equals; none if all are banned.
pub(super) fn best(logits: &[f32]) -> Option<u32> {
    let most = largest(logits);
    let found = || (0u32..).zip(logits).find(|(_, logit)| **logit == most).map(|(id, _)| id);
    if most > f32::NEG_INFINITY { found() } else { None }
}

/// All that are not banned, by id.
pub(super) fn all(logits: &[f32], candidates: &mut Vec<Candidate>) {
    candidates.clear();
    add(logits, 0, f32::MIN, candidates);
}

/// The `k` likeliest that are not banned, best first; of equals the lower ids.
pub(super) fn likeliest(logits: &[f32], k: usize, maxima: &mut Vec<f32>, candidates: &mut Vec<Candidate>) {
    let blocks = logits.len().div_ceil(BLOCK);
    if blocks < k.saturating_mul(FEW_BLOCKS) {
        all(logits, candidates);
        return top_k(candidates, k);
    }
    // Each of k blocks has a logit as large as the k-th largest of the blocks' largest, so none of the k likeliest is less.
    candidates.clear();
    maxima.clear();
    maxima.extend(logits.chunks(BLOCK).map(largest));
    // One half is sorted by size, the other stays by block.
    maxima.extend_from_within(..);
    let (by_block, by_size) = maxima.split_at_mut(blocks);
    let (_, bound, _) = by_size.select_nth_unstable_by(k.saturating_sub(1), |a, b| b.total_cmp(a));
    let bound = bound.max(f32::MIN);
    for (block, (logits, largest)) in logits.chunks(BLOCK).zip(by_block).enumerate() {
        if *largest >= bound {
            add(logits, block * BLOCK, bound, candidates);
        }
    }
    top_k(candidates, k);
}

/// Those of at least `bound`.
fn add(logits: &[f32], first: usize, bound: f32, candidates: &mut Vec<Candidate>) {
    let some = (first as u32..).zip(logits).filter(|(_, logit)| **logit >= bound);
    candidates.extend(some.map(|(id, logit)| Candidate { id, logit: *logit, key: 0.0 }));
}

/// The largest of them; minus infinity of none.
fn largest(logits: &[f32]) -> f32 {
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (most, logit) in most.iter_mut().zip(chunk) {
            *most = if *logit > *most { *logit } else { *most };
        }
    }
    most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_finite_is_found_wherever_it_is() {
        for len in [1, 15, 16, 17, 200] {
            for at in 0..len {
                let mut logits = vec![1e38f32; len];
                assert_eq!(not_finite(&logits), None);
                for wrong in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                    logits[at] = wrong;
                    let (id, logit) = not_finite(&logits).unwrap();
                    assert_eq!((id as usize, logit.to_bits()), (at, wrong.to_bits()));
                }
            }
        }
    }

    #[test]
    fn what_is_banned_is_never_the_best() {
        assert_eq!(best(&[f32::NEG_INFINITY; 40]), None);
        let mut logits = [f32::NEG_INFINITY; 40];
        hold_to(&[1 << 7, 1 << 1], &mut [0.0; 40]);
        logits[33] = -5.0;
        logits[7] = -5.0;
        assert_eq!(best(&logits), Some(7));
        let mut found = Vec::new();
        all(&logits, &mut found);
        assert_eq!(found.iter().map(|c| c.id).collect::<Vec<_>>(), [7, 33]);
    }

    proptest! {
        /// Few different values, so that many are equal; some banned.
        #[test]
        fn the_likeliest_are_those_of_a_full_sort(
            coarse in prop::collection::vec(-40i32..40, 1..3_000),
            step in prop::sample::select(vec![0.37f32, 1e-6, 1e30]),
            k in 0usize..50,
        ) {
            let logit = |v: &i32| if *v < -35 { f32::NEG_INFINITY } else { *v as f32 * step };
            let logits: Vec<f32> = coarse.iter().map(logit).collect();
            let (mut wanted, mut found) = (Vec::new(), Vec::new());
            all(&logits, &mut wanted);
            top_k(&mut wanted, k);
            likeliest(&logits, k, &mut Vec::new(), &mut found);
            prop_assert_eq!(&found, &wanted);
            likeliest(&logits, 1, &mut Vec::new(), &mut found);
            prop_assert_eq!(best(&logits), found.first().map(|c| c.id));
        }
    }
}
