//! Attention in both directions, with biases of its scores, against its formula and against transformers.

use cpu::{Pool, Tier};
use kernels::{
    AttentionParams, BLOCK_TOKENS, Compute, DisentangledBias, DistanceBias, KvDtype, KvHeads, KvPool,
    KvShape, Mask, NO_STATE, PositionScores, RelativeIndex, ScoreBias, SeqRows, attention,
};

use crate::biases::{fixture, values};

/// A text and what its rows see.
struct Case {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    len: usize,
    reach: Option<usize>,
}

/// Queries, keys and values of a case, `[len, heads · dim]` and `[len, kv_heads · dim]`.
struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Case {
    fn inputs(&self) -> Inputs {
        let mut seed = 11u64;
        let mut random = |n: usize| -> Vec<f32> { (0..n).map(|_| noise(&mut seed)).collect() };
        let (q, kv) = (self.len * self.heads * self.dim, self.len * self.kv_heads * self.dim);
        Inputs { q: random(q), k: random(kv), v: random(kv) }
    }

    fn kv(&self) -> KvHeads {
        KvHeads { kv_heads: self.kv_heads, head_dim: self.dim }
    }

    fn scale(&self) -> f32 {
        3.0 / (self.dim as f32).sqrt()
    }

    fn params<'a>(&self, bias: Option<&'a dyn ScoreBias>) -> AttentionParams<'a> {
        let mask = Mask::Bidirectional { reach: self.reach };
        let (heads, scale) = (self.heads, self.scale());
        AttentionParams { layer: 0, heads, mask, scale, soft_cap: None, bias, sinks: None }
    }

    /// The formula: `bias(head, query, key)` is added to the scaled scores.
    fn naive(&self, inputs: &Inputs, bias: &dyn Fn(usize, usize, usize) -> f64) -> Vec<f64> {
        let Case { heads, kv_heads, dim, len, reach } = *self;
        let at = |x: &[f32], row: usize, count: usize, head: usize, d: usize| {
            f64::from(x[(row * count + head) * dim + d])
        };
        let mut out = vec![0.0; len * heads * dim];
        for (query, head) in (0..len).flat_map(|query| (0..heads).map(move |head| (query, head))) {
            let group = head / (heads / kv_heads);
            let seen: Vec<usize> =
                (0..len).filter(|key| reach.is_none_or(|reach| key.abs_diff(query) <= reach)).collect();
            let weight = |key: usize| {
                let product =
                    |d| at(&inputs.q, query, heads, head, d) * at(&inputs.k, key, kv_heads, group, d);
                let dot: f64 = (0..dim).map(product).sum();
                (dot * f64::from(self.scale()) + bias(head, query, key)).exp()
            };
            let weights: Vec<f64> = seen.iter().map(|key| weight(*key)).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..dim {
                let parts =
                    seen.iter().zip(&weights).map(|(key, w)| w * at(&inputs.v, *key, kv_heads, group, d));
                out[(query * heads + head) * dim + d] = parts.sum::<f64>() / total;
            }
        }
        out
    }
}

fn noise(seed: &mut u64) -> f32 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// As of `attention::check`: what is stored and multiplied is rounded, by format.
fn limit(dtype: KvDtype) -> f64 {
    match dtype {
        KvDtype::F32 => 3e-6,
        KvDtype::F16 => 4e-3,
        KvDtype::Bf16 => 3e-2,
        KvDtype::Q8_0 => 6.0 / 254.0,
    }
}

/// A pool of one layer with the keys and values of a text in its blocks; all else, of the last block too, is NaN.
fn pool(c: &Compute, case: &Case, inputs: &Inputs, blocks: &[u32], dtype: KvDtype) -> KvPool {
    let cols = case.kv_heads * case.dim;
    let shape = KvShape::alike(1, case.kv(), blocks.len() + 3, dtype);
    let mut pool = KvPool::new(shape).unwrap();
    let poison = vec![f32::NAN; cols];
    for slot in
        (0..blocks.len() as u32 + 3).flat_map(|block| (0..BLOCK_TOKENS as u32).map(move |o| (block, o)))
    {
        pool.write(c, 0, &poison, &poison, &[slot]);
    }
    let slots: Vec<_> =
        (0..case.len).map(|p| (blocks[p / BLOCK_TOKENS], (p % BLOCK_TOKENS) as u32)).collect();
    pool.write(c, 0, &inputs.k, &inputs.v, &slots);
    pool
}

/// Checks a case whose bias is `bias`, and `exact` by the formula: whole, and in blocks of rows.
fn check(
    case: &Case,
    dtype: KvDtype,
    bias: Option<&dyn ScoreBias>,
    exact: &dyn Fn(usize, usize, usize) -> f64,
) {
    let inputs = case.inputs();
    let want = case.naive(&inputs, exact);
    let blocks: Vec<u32> = (0..case.len.div_ceil(BLOCK_TOKENS) as u32).rev().collect();
    let cols = case.heads * case.dim;
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        let pool = pool(&c, case, &inputs, &blocks, dtype);
        let mut whole = vec![0.0; inputs.q.len()];
        let seq = SeqRows::last(0..case.len, 0, &blocks);
        attention(&c, &pool, case.params(bias), &inputs.q, &[seq], &mut whole);
        for (i, (got, want)) in whole.iter().zip(&want).enumerate() {
            let off = (f64::from(*got) - want).abs();
            assert!(off < limit(dtype), "{tier} {dtype:?} at {i}: {got}, not {want}");
        }
        // The rows of a long text are computed a part at a time, with all of its keys.
        for step in [1, 13, 40] {
            let mut parts = vec![0.0; inputs.q.len()];
            for first in (0..case.len).step_by(step) {
                let rows = first..case.len.min(first + step);
                let these = rows.start * cols..rows.end * cols;
                let seq = SeqRows {
                    rows: 0..rows.len(),
                    first_position: first,
                    keys: case.len,
                    blocks: &blocks,
                    state: NO_STATE,
                };
                let out = &mut parts[these.clone()];
                // A bias by batch row would take others here.
                attention(&c, &pool, case.params(bias), &inputs.q[these], &[seq], out);
            }
            assert_eq!(whole, parts, "{tier} {dtype:?}: {step} rows at a time");
        }
    }
}

fn no_bias(_: usize, _: usize, _: usize) -> f64 {
    0.0
}

#[test]
fn rows_see_both_sides_in_any_parts() {
    let base = Case { heads: 4, kv_heads: 2, dim: 16, len: 70, reach: None };
    for dtype in KvDtype::ALL {
        check(&base, dtype, None, &no_bias);
        // The shapes of MiniLM and BERT.
        check(&Case { heads: 3, kv_heads: 3, dim: 32, ..base }, dtype, None, &no_bias);
        check(&Case { heads: 2, kv_heads: 2, dim: 64, len: 100, ..base }, dtype, None, &no_bias);
        check(&Case { heads: 12, kv_heads: 1, dim: 20, ..base }, dtype, None, &no_bias);
        check(&Case { len: 1, ..base }, dtype, None, &no_bias);
        check(&Case { len: 32, ..base }, dtype, None, &no_bias);
        for reach in [0, 1, 10, 31, 32, 64, 69, 1000] {
            check(&Case { reach: Some(reach), ..base }, dtype, None, &no_bias);
        }
        // Blocks on both sides are out of reach.
        check(&Case { reach: Some(20), len: 200, heads: 2, kv_heads: 2, ..base }, dtype, None, &no_bias);
    }
}

#[test]
fn causal_rows_do_not_see_keys_that_follow() {
    let case = Case { heads: 2, kv_heads: 2, dim: 16, len: 70, reach: None };
    let inputs = case.inputs();
    let blocks = [2, 0, 1];
    for (tier, dtype) in
        Tier::available().into_iter().flat_map(|tier| KvDtype::ALL.map(|dtype| (tier, dtype)))
    {
        let c = Compute::new(tier, Pool::new(1, None).unwrap());
        let pool = pool(&c, &case, &inputs, &blocks, dtype);
        for window in [None, Some(1), Some(20)] {
            let params = AttentionParams { mask: Mask::Causal { window }, ..case.params(None) };
            let q = &inputs.q[..50 * 32];
            let mut out = [vec![0.0; q.len()], vec![0.0; q.len()]];
            for (keys, out) in [50, 70].into_iter().zip(&mut out) {
                let seq = SeqRows { rows: 0..50, first_position: 0, keys, blocks: &blocks, state: NO_STATE };
                attention(&c, &pool, params, q, &[seq], out);
            }
            assert_eq!(out[0], out[1], "{tier} {dtype:?} {window:?}");
        }
    }
}

#[test]
fn biases_of_distances_are_added() {
    let base = Case { heads: 4, kv_heads: 4, dim: 16, len: 70, reach: None };
    let slopes = [0.25, 0.0625, 0.015625, 0.00390625];
    let alibi = DistanceBias::alibi(base.heads, base.len);
    let exact = |head: usize, query: usize, key: usize| -slopes[head] * query.abs_diff(key) as f64;
    let table: Vec<f32> = (0..32 * 4).map(|i| ((i * 37 % 19) as f32 - 9.0) / 4.0).collect();
    let learned = DistanceBias::buckets(&table, 4, 32, 128);
    let bucket = &fixture("t5 32 128 -300 300");
    let of_bucket = |head: usize, query: usize, key: usize| {
        f64::from(table[bucket[key + 300 - query] as usize * 4 + head])
    };
    for dtype in KvDtype::ALL {
        check(&base, dtype, Some(&alibi), &exact);
        check(&Case { reach: Some(40), kv_heads: 2, ..base }, dtype, Some(&alibi), &exact);
        check(&base, dtype, Some(&learned), &of_bucket);
        // Beyond the largest distance of the table.
        check(&Case { len: 200, dim: 8, ..base }, dtype, Some(&learned), &of_bucket);
    }
}

#[test]
fn texts_of_a_batch_do_not_touch_each_other() {
    let lens = [5usize, 1, 40, 9, 64];
    let tables: [&[u32]; 5] = [&[3], &[0], &[5, 1], &[7], &[2, 6]];
    let case = Case { heads: 4, kv_heads: 4, dim: 32, len: lens.iter().sum(), reach: None };
    let (cols, inputs) = (case.heads * case.dim, case.inputs());
    let alibi = DistanceBias::alibi(case.heads, 64);
    for (tier, dtype) in
        Tier::available().into_iter().flat_map(|tier| KvDtype::ALL.map(|dtype| (tier, dtype)))
    {
        let shape = KvShape::alike(1, case.kv(), 8, dtype);
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        let mut pool = KvPool::new(shape).unwrap();
        let (mut seqs, mut slots) = (Vec::new(), Vec::new());
        for (len, table) in lens.iter().zip(tables) {
            seqs.push(SeqRows::last(slots.len()..slots.len() + len, 0, table));
            slots.extend((0..*len).map(|p| (table[p / BLOCK_TOKENS], (p % BLOCK_TOKENS) as u32)));
        }
        pool.write(&c, 0, &inputs.k, &inputs.v, &slots);
        let params = [
            case.params(None),
            case.params(Some(&alibi)),
            AttentionParams { mask: Mask::Bidirectional { reach: Some(7) }, ..case.params(None) },
        ];
        for params in params {
            let mut together = vec![0.0; inputs.q.len()];
            attention(&c, &pool, params, &inputs.q, &seqs, &mut together);
            let alone = Compute::new(tier, Pool::new(1, None).unwrap());
            for seq in &seqs {
                let these = seq.rows.start * cols..seq.rows.end * cols;
                let mut out = vec![0.0; these.len()];
                let own = SeqRows::last(0..seq.rows.len(), 0, seq.blocks);
                attention(&alone, &pool, params, &inputs.q[these.clone()], &[own], &mut out);
                assert_eq!(out, together[these], "{tier} {dtype:?} {:?}", seq.rows);
            }
        }
    }
}

/// DeBERTa's attention, by transformers: of `tools/fixtures/attention.py`, which has the same sizes and inputs.
#[test]
fn disentangled_attention_matches_transformers() {
    let (heads, dim, len, buckets, reach) = (2, 8, 45, 8, 24);
    let (width, embeddings) = (heads * dim, 2 * buckets);
    let hidden = values(len * 3 * width, 37);
    let part = |i: usize| -> Vec<f32> {
        hidden.chunks(3 * width).flat_map(|row| row[i * width..][..width].to_vec()).collect()
    };
    let case = Case { heads, kv_heads: heads, dim, len, reach: None };
    let inputs = Inputs { q: part(0), k: part(1), v: part(2) };
    let relative = values(embeddings * 2 * width, 29);
    let index = RelativeIndex::buckets(buckets, reach);
    assert_eq!(index.embeddings(), embeddings);
    // Another text before it in the batch: rows of the batch are not positions.
    let before = 3;
    for kinds in ["c2p", "p2c", "p2c|c2p"] {
        let want = fixture(&format!("disentangled {kinds}"));
        let scale = 1.0 / ((dim * (1 + kinds.split('|').count())) as f32).sqrt();
        // `[rows, heads, embeddings]` of queries, `[heads, rows, embeddings]` of keys.
        let product = |x: &[f32], from: usize, row: usize, head: usize, i: usize| {
            let relative = &relative[i * 2 * width + from + head * dim..][..dim];
            let x = &x[row * width + head * dim..][..dim];
            x.iter().zip(relative).map(|(x, r)| x * r).sum::<f32>() * scale
        };
        let mut c2p = vec![f32::NAN; before * heads * embeddings];
        let mut p2c = Vec::new();
        for row in 0..len {
            for head in 0..heads {
                c2p.extend((0..embeddings).map(|i| product(&inputs.q, 0, row, head, i)));
            }
        }
        for head in 0..heads {
            p2c.extend(vec![f32::NAN; before * embeddings]);
            for row in 0..len {
                p2c.extend((0..embeddings).map(|i| product(&inputs.k, width, row, head, i)));
            }
        }
        let queries =
            PositionScores { values: &c2p, row_stride: heads * embeddings, head_stride: embeddings };
        let keys =
            PositionScores { values: &p2c, row_stride: embeddings, head_stride: (before + len) * embeddings };
        let first_key_rows = vec![before as u32; before + len];
        let bias = DisentangledBias {
            index: &index,
            query_scores: kinds.contains("c2p").then_some(queries),
            key_scores: kinds.contains("p2c").then_some(keys),
            first_key_rows: &first_key_rows,
        };
        let mut q = vec![0.0; before * width];
        q.extend(&inputs.q);
        let blocks = [1, 0];
        for tier in Tier::available() {
            let c = Compute::new(tier, Pool::new(2, None).unwrap());
            let pool = pool(&c, &case, &inputs, &blocks, KvDtype::F32);
            let params = AttentionParams { scale, ..case.params(Some(&bias)) };
            let mut out = vec![0.0; q.len()];
            let seq = SeqRows::last(before..before + len, 0, &blocks);
            attention(&c, &pool, params, &q, &[seq], &mut out);
            for (i, (got, want)) in out[before * width..].iter().zip(&want).enumerate() {
                // Scores are up to 40, and so move by up to 40 · 2⁻²³ for each of some roundings; values are up to 3.
                let off = (f64::from(*got) - want).abs();
                assert!(off < 5e-5, "{tier} {kinds} at {i}: {got}, not {want}");
            }
        }
    }
}
