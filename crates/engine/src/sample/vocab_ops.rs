//! Operations on the logits of a whole vocabulary. These loops are as long as a vocabulary, a hundred thousand and
//! more, for every token of every answer: each is one that the compiler turns into vector instructions.

use super::filter::{Candidate, top_k, top_p};

/// Logits that are looked at together.
const LANES: usize = 16;
/// Number of logits in a block, of which the maximum or the sum of weights is kept.
pub(super) const BLOCK: usize = 64;
/// Tokens that are likely enough for most of what `top_p` asks.
const NUCLEUS: usize = 256;
/// Least number of blocks for each requested token; with fewer, sorting all tokens is as fast.
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

/// Excludes every token whose bit (`id % 32` of word `id / 32`) is not set, and those beyond the words.
pub(super) fn apply_mask(allowed: &[u32], logits: &mut [f32]) {
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
pub(super) fn likeliest(logits: &[f32], k: usize, blocks: &mut Vec<f32>, candidates: &mut Vec<Candidate>) {
    let count = logits.len().div_ceil(BLOCK);
    if count < k.saturating_mul(FEW_BLOCKS) {
        all(logits, candidates);
        return top_k(candidates, k);
    }
    // Each of k blocks has a logit as large as the k-th largest of the blocks' largest, so none of the k likeliest is
    // less.
    candidates.clear();
    blocks.clear();
    blocks.extend(logits.chunks(BLOCK).map(largest));
    // One half is sorted by size, the other stays by block.
    blocks.extend_from_within(..);
    let (by_block, by_size) = blocks.split_at_mut(count);
    let (_, bound, _) = by_size.select_nth_unstable_by(k.saturating_sub(1), |a, b| b.total_cmp(a));
    let bound = bound.max(f32::MIN);
    for (block, (logits, largest)) in logits.chunks(BLOCK).zip(by_block).enumerate() {
        if *largest >= bound {
            add(logits, block * BLOCK, bound, candidates);
        }
    }
    top_k(candidates, k);
}

/// The shortest run of likeliest tokens whose probabilities sum to `p`, best first.
pub(super) fn nucleus(logits: &[f32], p: f32, blocks: &mut Vec<f32>, candidates: &mut Vec<Candidate>) {
    let most = largest(logits);
    let wanted = f64::from(p) * weigh(logits, most, 1.0, blocks);
    likeliest(logits, NUCLEUS, blocks, candidates);
    let mut sum = 0.0;
    let reached = candidates.iter().position(|candidate| {
        sum += f64::from(exp(candidate.logit - most));
        sum >= wanted
    });
    match reached {
        Some(last) => candidates.truncate(last + 1),
        None => {
            all(logits, candidates);
            top_p(candidates, p);
        }
    }
}

/// Those at least `p` times as likely as the likeliest, by id.
pub(super) fn at_least(logits: &[f32], p: f32, candidates: &mut Vec<Candidate>) {
    candidates.clear();
    let most = largest(logits);
    // However the sum is rounded, the likeliest stays.
    add(logits, 0, (most + p.ln()).clamp(f32::MIN, most.max(f32::MIN)), candidates);
}

/// Draws from all tokens in proportion to exp(logit / temperature); `unit` is from 0 to below 1. None if all are
/// banned.
pub(super) fn draw(logits: &[f32], temperature: f32, unit: f64, blocks: &mut Vec<f32>) -> Option<u32> {
    let most = largest(logits);
    if most == f32::NEG_INFINITY {
        return None;
    }
    let mut left = unit * weigh(logits, most, temperature, blocks);
    // Where roundings add up to nothing left, it is the last that can be drawn.
    let mut drawn = None;
    for (block, weight) in blocks.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        drawn = Some(block);
        if left < f64::from(*weight) {
            break;
        }
        left -= f64::from(*weight);
    }
    let first = drawn? * BLOCK;
    let mut last = None;
    for (id, logit) in (first as u32..).zip(&logits[first..]).take(BLOCK) {
        let weight = exp((logit - most) / temperature);
        if weight > 0.0 {
            last = Some(id);
            left -= f64::from(weight);
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

/// Into `blocks` the sum of exp((logit - most) / temperature) of each block; their sum.
fn weigh(logits: &[f32], most: f32, temperature: f32, blocks: &mut Vec<f32>) -> f64 {
    blocks.clear();
    blocks.extend(logits.chunks(BLOCK).map(|block| {
        let (chunks, rest) = block.as_chunks::<LANES>();
        let mut sums = [0.0f32; LANES];
        for chunk in chunks {
            for (sum, logit) in sums.iter_mut().zip(chunk) {
                *sum += exp((logit - most) / temperature);
            }
        }
        let rest = rest.iter().map(|logit| exp((logit - most) / temperature));
        sums.into_iter().chain(rest).sum::<f32>()
    }));
    blocks.iter().map(|sum| f64::from(*sum)).sum()
}

/// The exponential of what is not positive, to a millionth of probabilities that matter: two to the whole part, times
/// the series of the rest. Zero below two to the -125th, as of what is banned. No branch, so that many are computed at
/// once.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Added and taken away, it rounds to whole numbers, which are then the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2: f32 = std::f32::consts::LN_2;
    let x = x * std::f32::consts::LOG2_E;
    let kept = if x < -125.0 { -125.0 } else { x };
    let whole = kept + ROUND;
    let rest = (kept - (whole - ROUND)) * LN_2;
    let series = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0f32];
    let mut value = series[0];
    for term in &series[1..] {
        value = value * rest + term;
    }
    let power = f32::from_bits(whole.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x < -125.0 { 0.0 } else { value * power }
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
        apply_mask(&[1 << 7, 1 << 1], &mut [0.0; 40]);
        logits[33] = -5.0;
        logits[7] = -5.0;
        assert_eq!(best(&logits), Some(7));
        let mut found = Vec::new();
        all(&logits, &mut found);
        assert_eq!(found.iter().map(|c| c.id).collect::<Vec<_>>(), [7, 33]);
    }

    #[test]
    fn the_exponential_is_that_of_the_library() {
        for i in 0..=866_000 {
            let x = -(i as f32) / 10_000.0;
            let (found, right) = (f64::from(exp(x)), f64::from(x).exp());
            // The farther from zero, the more the rounding of x itself counts.
            assert!((found / right - 1.0).abs() < 3e-7 + 1e-7 * f64::from(-x), "{x}: {found}, {right}");
        }
        assert_eq!([0.0, -88.0, f32::MIN, f32::NEG_INFINITY].map(exp), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn draws_take_each_its_share_of_the_unit() {
        let mut logits: Vec<f32> = (0..777).map(|i| ((i * 7919) % 777) as f32 / 77.7).collect();
        for banned in [0, 63, 64, 500, 776] {
            logits[banned] = f32::NEG_INFINITY;
        }
        for temperature in [0.3f32, 1.0, 2.0] {
            let weights: Vec<f64> =
                logits.iter().map(|l| (f64::from(*l) / f64::from(temperature)).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut counts = vec![0.0; logits.len()];
            let mut blocks = Vec::new();
            for i in 0..100_000 {
                let unit = (f64::from(i) + 0.5) / 100_000.0;
                counts[draw(&logits, temperature, unit, &mut blocks).unwrap() as usize] += 1.0;
            }
            for (id, (count, weight)) in counts.iter().zip(&weights).enumerate() {
                let share = weight / total * 100_000.0;
                assert!((count - share).abs() < 1.5, "{id} at {temperature}: {count} of {share}");
                assert!(*weight > 0.0 || *count == 0.0, "{id} is banned");
            }
        }
    }

    #[test]
    fn the_ends_of_the_unit_are_drawn_from_what_is_allowed() {
        let mut blocks = Vec::new();
        let mut logits = vec![f32::NEG_INFINITY; 300];
        assert_eq!(draw(&logits, 1.0, 0.5, &mut blocks), None);
        logits[70] = 3.0;
        logits[199] = 3.0;
        let below_one = 1.0 - f64::EPSILON / 2.0;
        let drawn = [0.0, 0.49, 0.51, below_one].map(|unit| draw(&logits, 1.0, unit, &mut blocks));
        assert_eq!(drawn, [Some(70), Some(70), Some(199), Some(199)]);
        // A temperature that no division survives leaves the best.
        logits[199] = 4.0;
        assert_eq!(draw(&logits, 1e-40, below_one, &mut blocks), Some(199));
    }

    proptest! {
        #[test]
        fn what_is_gathered_is_what_the_filters_leave(
            values in prop::collection::vec(-8.0f32..8.0, 1..6_000),
            sharp in prop::sample::select(vec![0.1f32, 1.0, 6.0]),
            p in 0.01f32..1.0,
        ) {
            let logit = |v: &f32| if *v < -7.5 { f32::NEG_INFINITY } else { v * sharp };
            let logits: Vec<f32> = values.iter().map(logit).collect();
            let (mut wanted, mut found) = (Vec::new(), Vec::new());
            all(&logits, &mut wanted);
            top_p(&mut wanted, p);
            nucleus(&logits, p, &mut Vec::new(), &mut found);
            // The last one may fall to either side of a sum that is rounded otherwise.
            prop_assert!(found.len().abs_diff(wanted.len()) <= 1, "{} and {}", found.len(), wanted.len());
            let common = found.len().min(wanted.len());
            prop_assert_eq!(&found[..common], &wanted[..common]);
            all(&logits, &mut wanted);
            crate::sample::filter::min_p(&mut wanted, p);
            at_least(&logits, p, &mut found);
            prop_assert_eq!(&found, &wanted);
        }

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
