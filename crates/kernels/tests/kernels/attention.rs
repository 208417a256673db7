//! Attention against its formula.

use cpu::{Pool, Tier};
use kernels::{
    AttentionParams, BLOCK_TOKENS, Compute, KvDtype, KvHeads, KvPool, KvShape, Mask, SeqRows, attention,
};

/// Of layer 0, with neither window nor soft cap.
fn plain(heads: usize, scale: f32) -> AttentionParams<'static> {
    let mask = Mask::Causal { window: None };
    AttentionParams { layer: 0, heads, mask, scale, soft_cap: None, bias: None, sinks: None }
}

fn noise(seed: &mut u64) -> f32 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

struct Case {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    len: usize,
    window: Option<usize>,
    cap: Option<f32>,
    /// Whether each head has a sink.
    sinks: bool,
}

/// The sink of a head: from far below the scores to far above them.
fn sink(head: usize) -> f32 {
    [-30.0, 0.5, 3.0, 12.0][head % 4]
}

/// Attention as the formula says, for one sequence: `[len, heads · dim]`.
fn naive(case: &Case, q: &[f32], k: &[f32], v: &[f32], scale: f32) -> Vec<f64> {
    let Case { heads, kv_heads, dim, len, .. } = *case;
    let mut out = vec![0.0; len * heads * dim];
    for row in 0..len {
        for h in 0..heads {
            let kv = h / (heads / kv_heads);
            let from = case.window.map_or(0, |w| (row + 1).saturating_sub(w));
            let at = |x: &[f32], t: usize, n: usize, h: usize, d: usize| f64::from(x[(t * n + h) * dim + d]);
            let score = |t: usize| {
                let dot: f64 = (0..dim).map(|d| at(q, row, heads, h, d) * at(k, t, kv_heads, kv, d)).sum();
                let s = dot * f64::from(scale);
                case.cap.map_or(s, |c| f64::from(c) * (s / f64::from(c)).tanh()).exp()
            };
            let scores: Vec<f64> = (from..=row).map(score).collect();
            let sink = if case.sinks { f64::from(sink(h)).exp() } else { 0.0 };
            let total: f64 = sink + scores.iter().sum::<f64>();
            for d in 0..dim {
                let sum: f64 =
                    (from..).zip(&scores).map(|(t, score)| score * at(v, t, kv_heads, kv, d)).sum();
                out[(row * heads + h) * dim + d] = sum / total;
            }
        }
    }
    out
}

/// Heads of `dim` numbers as eight bits keep them: signed codes, a half-precision scale for each `group`.
fn in_eight_bits(x: &[f32], dim: usize, group: usize) -> Vec<f32> {
    let groups = x.chunks(dim).flat_map(|head| head.chunks(group));
    let rounded = groups.flat_map(|part| {
        let most = part.iter().fold(0.0f32, |most, v| most.max(v.abs()));
        let scale = half::f16::from_f32(most / 127.0).to_f32();
        part.iter().map(move |v| (v / scale).round_ties_even().clamp(-127.0, 127.0) * scale)
    });
    rounded.collect()
}

fn check(case: &Case, dtype: KvDtype) {
    let Case { heads, kv_heads, dim, len, window, cap, sinks } = *case;
    let sinks: Option<Vec<f32>> = sinks.then(|| (0..heads).map(sink).collect());
    let mut seed = 3;
    let mut random = |n: usize| -> Vec<f32> { (0..n).map(|_| noise(&mut seed)).collect() };
    let (q, k, v) = (random(len * heads * dim), random(len * kv_heads * dim), random(len * kv_heads * dim));
    let scale = 1.0 / (dim as f32).sqrt() * 3.0;
    let want = naive(case, &q, &k, &v, scale);
    // Half-precision keys move a score by 2^-11 of it, values likewise; the results are below one. bfloat16 has three bits
    // less, and queries and weights are rounded too. In eight bits a number moves by up to 1/254 of the largest beside it, any
    // of that as likely: a score, 3/√dim times the sum of dim products, by 1/254 (the standard deviation). Five of these, and
    // as much again for the values.
    let limit = match dtype {
        KvDtype::F32 => 3e-6,
        KvDtype::F16 => 4e-3,
        KvDtype::Bf16 => 3e-2,
        KvDtype::Q8_0 => 6.0 / 254.0,
    };
    // Beside the rounding of what is stored, queries move by 2^-15 of their largest and weights by 2^-15 of their block's
    // largest: a score by 3/√dim · dim · 2^-15 at most, which is less than 1e-3 for the widest head here.
    let exact = (dtype == KvDtype::Q8_0)
        .then(|| naive(case, &q, &in_eight_bits(&k, dim, 32), &in_eight_bits(&v, dim, dim), scale));
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        let count = len.div_ceil(BLOCK_TOKENS);
        // The layers around it have heads of other sizes.
        let others = [KvHeads { kv_heads: 3, head_dim: 24 }, KvHeads { kv_heads: 1, head_dim: 5 }];
        let layers = vec![others[0], KvHeads { kv_heads, head_dim: dim }, others[1]];
        let mut pool = KvPool::new(KvShape { layers, blocks: count + 2, dtype }).unwrap();
        // Unwritten and foreign memory must not matter: fill everything with NaN first.
        let poison = vec![f32::NAN; kv_heads * dim];
        for block in 0..count as u32 + 2 {
            for offset in 0..BLOCK_TOKENS as u32 {
                pool.write(&c, 1, &poison, &poison, &[(block, offset)]);
            }
        }
        let blocks: Vec<u32> = (0..count as u32).map(|b| (b * 5 + 1) % (count as u32 + 2)).collect();
        let blocks: Vec<u32> = if blocks.iter().collect::<std::collections::HashSet<_>>().len() == count {
            blocks
        } else {
            (0..count as u32).rev().collect()
        };
        let slot = |p: usize| (blocks[p / BLOCK_TOKENS], (p % BLOCK_TOKENS) as u32);
        let mut whole = Vec::new();
        // In chunks: all at once, one by one, and in uneven pieces.
        for chunk in [len, 1, 13] {
            let mut out = vec![0.0; q.len()];
            for first in (0..len).step_by(chunk) {
                let n = chunk.min(len - first);
                let kv = first * kv_heads * dim..(first + n) * kv_heads * dim;
                let slots: Vec<_> = (first..first + n).map(slot).collect();
                pool.write(&c, 1, &k[kv.clone()], &v[kv], &slots);
                let rows = first * heads * dim..(first + n) * heads * dim;
                let seq = SeqRows::last(0..n, first, &blocks);
                let o = &mut out[rows.clone()];
                for (layer, other) in [0, 2].into_iter().zip(others) {
                    let foreign = vec![f32::NAN; slots.len() * other.width()];
                    pool.write(&c, layer, &foreign, &foreign, &slots);
                }
                let params = AttentionParams {
                    layer: 1,
                    mask: Mask::Causal { window },
                    soft_cap: cap,
                    sinks: sinks.as_deref(),
                    ..plain(heads, scale)
                };
                attention(&c, &pool, params, &q[rows], &[seq], o);
            }
            for (i, (o, w)) in out.iter().zip(&want).enumerate() {
                assert!((f64::from(*o) - w).abs() < limit, "{tier} {dtype:?} at {i}: {o}, not {w}");
            }
            for (i, (o, w)) in out.iter().zip(exact.iter().flatten()).enumerate() {
                assert!((f64::from(*o) - w).abs() < 1e-3, "{tier}, of stored numbers, at {i}: {o}, not {w}");
            }
            if whole.is_empty() {
                whole = out;
            } else {
                assert_eq!(whole, out, "{tier}: chunks of {chunk}");
            }
        }
    }
}

#[test]
fn attention_matches_its_formula_in_any_chunks() {
    let base = Case { heads: 4, kv_heads: 2, dim: 16, len: 70, window: None, cap: None, sinks: false };
    for dtype in KvDtype::ALL {
        check(&base, dtype);
        check(&Case { heads: 9, kv_heads: 3, dim: 64, ..base }, dtype);
        check(&Case { heads: 12, kv_heads: 1, dim: 20, ..base }, dtype);
        check(&Case { dim: 7, ..base }, dtype);
        check(&Case { heads: 2, kv_heads: 2, dim: 80, window: Some(10), ..base }, dtype);
        check(&Case { window: Some(33), cap: Some(1.5), ..base }, dtype);
        check(&Case { window: Some(1), ..base }, dtype);
        check(&Case { heads: 9, kv_heads: 3, dim: 64, window: Some(33), sinks: true, ..base }, dtype);
        check(&Case { heads: 12, kv_heads: 1, dim: 32, sinks: true, ..base }, dtype);
        // More queries to a head than registers take at a time; in the emulator each case takes a while.
        if dtype == KvDtype::Bf16 {
            check(&Case { heads: 12, kv_heads: 1, dim: 32, window: Some(33), cap: Some(1.5), ..base }, dtype);
            // Three and four queries to a head, whose values may be read whole rows at a time, or are too wide for that.
            check(&Case { heads: 4, kv_heads: 1, dim: 128, ..base }, dtype);
            check(&Case { heads: 3, kv_heads: 1, dim: 128, ..base }, dtype);
            check(&Case { heads: 4, kv_heads: 1, dim: 256, ..base }, dtype);
        }
    }
}

#[test]
fn the_widest_heads_are_attended_to() {
    let base = Case { heads: 4, kv_heads: 2, dim: 512, len: 40, window: None, cap: None, sinks: false };
    for dtype in KvDtype::ALL {
        check(&base, dtype);
    }
    check(&Case { heads: 8, kv_heads: 1, dim: 512, window: Some(9), ..base }, KvDtype::Bf16);
    // Latent attention: one head for all queries.
    for dtype in KvDtype::ALL {
        check(&Case { heads: 16, kv_heads: 1, dim: 576, ..base }, dtype);
    }
    let wider = KvShape::alike(1, KvHeads { kv_heads: 1, head_dim: 577 }, 1, KvDtype::F16);
    assert!(KvPool::new(wider).is_err());
}

#[test]
fn a_block_has_the_bytes_of_all_its_layers() {
    let [narrow, wide] = [KvHeads { kv_heads: 4, head_dim: 64 }, KvHeads { kv_heads: 1, head_dim: 256 }];
    for dtype in KvDtype::ALL {
        let of = |layers: &[KvHeads]| KvShape { layers: layers.to_vec(), blocks: 3, dtype };
        let both = of(&[narrow, wide, narrow]);
        let alone = 2 * of(&[narrow]).block_bytes() + of(&[wide]).block_bytes();
        assert_eq!(both.block_bytes(), alone, "{dtype:?}");
        let layers: usize = (0..3).map(|layer| both.layer_bytes(layer)).sum();
        assert_eq!(both.block_bytes(), layers, "{dtype:?}");
        assert_eq!(KvPool::new(both).unwrap().bytes(), 3 * alone, "{dtype:?}");
    }
}

#[test]
fn eight_bits_take_rows_of_nothing_and_of_any_size_and_hide_no_overflow() {
    let (heads, dim) = (2, 40);
    let shape = KvShape::alike(1, KvHeads { kv_heads: 1, head_dim: dim }, 1, KvDtype::Q8_0);
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(1, None).unwrap());
        let attend = |q: f32, rows: &[(f32, f32)]| {
            let mut pool = KvPool::new(shape.clone()).unwrap();
            for (p, (k, v)) in rows.iter().enumerate() {
                pool.write(&c, 0, &[*k; 40], &[*v; 40], &[(0, p as u32)]);
            }
            let mut out = vec![0.0; heads * dim];
            let seq = SeqRows::last(0..1, rows.len() - 1, &[0]);
            attention(&c, &pool, plain(heads, 1.0), &vec![q; heads * dim], &[seq], &mut out);
            assert!(out.iter().all(|o| o.to_bits() == out[0].to_bits() || o.is_nan()), "{tier}: {out:?}");
            out[0]
        };
        assert_eq!(attend(0.0, &[(0.0, 0.0), (0.0, 0.0)]), 0.0, "{tier}");
        // Equal keys: the mean of the values.
        let mean = attend(1.0, &[(0.0, 4.0), (0.0, -2.0)]);
        assert!((mean - 1.0).abs() < 2e-3, "{tier}: {mean}");
        // As large as a half-precision scale holds, where it is subnormal, and less than that: nothing.
        for size in [1e6, 1e-3, 1e-12] {
            let got = attend(1e-7, &[(size, size), (size, size)]);
            assert!((got - size).abs() < size / 200.0 + 1e-9, "{tier}: {got}, not {size}");
        }
        assert!(attend(1e30, &[(0.0, 1.0)]).is_finite(), "{tier}: a large query");
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e9] {
            assert!(!attend(1.0, &[(0.0, 1.0), (0.0, value)]).is_finite(), "{tier}: {value} came out finite");
        }
    }
}

#[test]
fn eight_bits_take_half_the_memory() {
    let shape = |dtype| KvShape::alike(36, KvHeads { kv_heads: 8, head_dim: 128 }, 1, dtype);
    let bytes = |dtype| shape(dtype).block_bytes() / BLOCK_TOKENS;
    assert_eq!(bytes(KvDtype::Bf16), 36 * 8 * 2 * 128 * 2);
    // 128 codes and four scales of a key, 128 codes and one scale of a value.
    assert_eq!(bytes(KvDtype::Q8_0), 36 * 8 * (128 + 8 + 128 + 2));
}

#[test]
fn sequences_in_one_batch_do_not_touch_each_other() {
    for (tier, dtype) in
        Tier::available().into_iter().flat_map(|tier| KvDtype::ALL.map(|dtype| (tier, dtype)))
    {
        sequences_apart(tier, dtype);
    }
}

fn sequences_apart(tier: Tier, dtype: KvDtype) {
    let c = Compute::new(tier, Pool::new(2, None).unwrap());
    let (heads, dim, lens) = (4, 16, [5usize, 1, 40, 9]);
    let shape = KvShape::alike(1, KvHeads { kv_heads: 2, head_dim: dim }, 8, dtype);
    let mut seed = 1;
    let total: usize = lens.iter().sum();
    let mut random = |n: usize| -> Vec<f32> { (0..n).map(|_| noise(&mut seed)).collect() };
    let (q, k, v) = (random(total * heads * dim), random(total * 2 * dim), random(total * 2 * dim));
    let tables: [&[u32]; 4] = [&[3], &[0], &[5, 1], &[7]];
    let mut pool = KvPool::new(shape).unwrap();
    let (mut slots, mut seqs, mut at) = (Vec::new(), Vec::new(), 0);
    for (len, table) in lens.iter().zip(tables) {
        slots.extend((0..*len).map(|p| (table[p / BLOCK_TOKENS], (p % BLOCK_TOKENS) as u32)));
        seqs.push(SeqRows::last(at..at + len, 0, table));
        at += len;
    }
    pool.write(&c, 0, &k, &v, &slots);
    let mut together = vec![0.0; q.len()];
    attention(&c, &pool, plain(heads, 0.25), &q, &seqs, &mut together);
    for seq in &seqs {
        let rows = seq.rows.start * heads * dim..seq.rows.end * heads * dim;
        let mut alone = vec![0.0; rows.len()];
        let own = SeqRows { rows: 0..seq.rows.len(), ..seq.clone() };
        attention(&c, &pool, plain(heads, 0.25), &q[rows.clone()], &[own], &mut alone);
        assert_eq!(alone, together[rows]);
    }
    pool.copy_block(5, 6);
    let mut moved = vec![0.0; 40 * heads * dim];
    let seq = SeqRows::last(0..40, 0, &[6, 1]);
    let rows = 6 * heads * dim..46 * heads * dim;
    attention(&c, &pool, plain(heads, 0.25), &q[rows.clone()], &[seq], &mut moved);
    assert_eq!(moved, together[rows]);
}
