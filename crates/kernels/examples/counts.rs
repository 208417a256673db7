//! Runs one hot kernel on fixed data, for counting its instructions: `cargo xtask counts`.
//!
//! ```text
//! counts                        names the kernels, and how many multiply-adds (or values) a call has
//! counts KERNEL TIER CALLS      calls one of them so many times, on one thread
//! ```
//!
//! Everything before the calls is the same for any number of them, so the difference of two runs is the kernel alone.

use std::hint::black_box;
use std::io::Write;

use cpu::{Pool, Tier};
use kernels::{
    Activation, Activations, AttentionParams, BLOCK_TOKENS, Compute, KvDtype, KvHeads, KvPool, KvShape, Mask,
    Matrix, Pairing, Precision, RopeTable, RowNorm, SeqRows, attention, matmul, rope,
};
use tensor::Dtype;

/// Weights of the products: `[ROWS, COLS]`. The rows are whole panels of every tier.
const ROWS: usize = 256;
const COLS: usize = 1024;
const FORMATS: [(&str, Dtype, Precision); 9] = [
    ("q4_k", Dtype::Q4_K, Precision::Fast),
    ("q5_k", Dtype::Q5_K, Precision::Fast),
    ("q6_k", Dtype::Q6_K, Precision::Fast),
    ("q8_0", Dtype::Q8_0, Precision::Fast),
    ("q4_0", Dtype::Q4_0, Precision::Fast),
    ("q4_1", Dtype::Q4_1, Precision::Fast),
    ("bf16", Dtype::BF16, Precision::Fast),
    ("f16", Dtype::F16, Precision::Fast),
    ("int8", Dtype::BF16, Precision::Int8),
];
/// Rows of activations: one stream, a few, and a tile of every tier or more.
const BATCHES: [usize; 3] = [1, 4, 16];

/// Attention over a sequence of so many positions: the last row of it, the last rows as a chunk of a prompt, and rows
/// that see all of it.
const POSITIONS: usize = 512;
const PROMPT: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 64;

/// Rows of [`COLS`] that are quantized, gated, normed, or turned.
const VALUES_ROWS: usize = 4;

type Problem = Box<dyn std::error::Error>;

#[derive(Clone, Copy)]
enum Kernel {
    Product {
        dtype: Dtype,
        precision: Precision,
        batch: usize,
    },
    Attention {
        rows: usize,
        dtype: Option<KvDtype>,
    },
    Encoder,
    /// For these weights, packed as [`Precision::Int8`].
    Quantize(Dtype),
    Gated,
    Activated,
    RmsNorm,
    AddNorm,
    Rope,
}

impl Kernel {
    fn all() -> Vec<(String, Kernel)> {
        let mut all = Vec::new();
        for (name, dtype, precision) in FORMATS {
            for batch in BATCHES {
                all.push((format!("product/{name}/{batch}"), Kernel::Product { dtype, precision, batch }));
            }
        }
        for (name, dtype) in [("attention", None), ("attention/q8_0", Some(KvDtype::Q8_0))] {
            all.push((format!("{name}/decode"), Kernel::Attention { rows: 1, dtype }));
            all.push((format!("{name}/prompt"), Kernel::Attention { rows: PROMPT, dtype }));
        }
        for (name, kernel) in [
            ("attention/encoder", Kernel::Encoder),
            ("quantize", Kernel::Quantize(Dtype::Q8_0)),
            ("quantize/int8", Kernel::Quantize(Dtype::BF16)),
            ("gated", Kernel::Gated),
            ("activated", Kernel::Activated),
            ("rms_norm", Kernel::RmsNorm),
            ("add_norm", Kernel::AddNorm),
            ("rope", Kernel::Rope),
        ] {
            all.push((name.to_owned(), kernel));
        }
        all
    }

    /// Multiply-adds of a call; values for what multiplies nothing.
    fn work(self) -> usize {
        match self {
            Kernel::Product { batch, .. } => batch * ROWS * COLS,
            Kernel::Attention { rows, .. } => {
                let seen: usize = (POSITIONS - rows..POSITIONS).map(|position| position + 1).sum();
                2 * seen * HEADS * HEAD_DIM
            }
            Kernel::Encoder => 2 * PROMPT * POSITIONS * HEADS * HEAD_DIM,
            Kernel::Quantize(_)
            | Kernel::Gated
            | Kernel::Activated
            | Kernel::RmsNorm
            | Kernel::AddNorm
            | Kernel::Rope => VALUES_ROWS * COLS,
        }
    }

    fn run(self, c: &Compute, calls: usize) -> Result<(), Problem> {
        match self {
            Kernel::Product { dtype, precision, batch } => products(c, (dtype, precision), batch, calls),
            Kernel::Attention { rows, dtype } => {
                let mask = Mask::Causal { window: None };
                attentions(c, rows, mask, dtype.unwrap_or(KvDtype::fastest(c.tier)), calls)
            }
            Kernel::Encoder => {
                let mask = Mask::Bidirectional { reach: None };
                attentions(c, PROMPT, mask, KvDtype::fastest(c.tier), calls)
            }
            Kernel::Quantize(dtype) => quantizes(c, dtype, calls),
            Kernel::Gated => gates(c, calls),
            Kernel::Activated => activates(c, calls),
            Kernel::RmsNorm => norms(c, calls),
            Kernel::AddNorm => added_norms(c, calls),
            Kernel::Rope => ropes(c, calls),
        }
    }
}

fn main() -> Result<(), Problem> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, tier, calls] = args.as_slice() else {
        let mut out = std::io::stdout().lock();
        for (name, kernel) in Kernel::all() {
            writeln!(out, "{name} {}", kernel.work())?;
        }
        return Ok(());
    };
    let all = Kernel::all();
    let (_, kernel) =
        all.iter().find(|(known, _)| known == name).ok_or_else(|| format!("{name}: no such kernel"))?;
    let tier: Tier = tier.parse()?;
    if !tier.is_available() {
        return Err(format!("tier {tier}: this CPU has no {}", tier.missing().join(", ")).into());
    }
    kernel.run(&Compute::new(tier, Pool::new(1, None)?), calls.parse()?)
}

fn products(
    c: &Compute,
    (dtype, precision): (Dtype, Precision),
    batch: usize,
    calls: usize,
) -> Result<(), Problem> {
    let w = Matrix::pack(c, dtype, ROWS, COLS, &weights(dtype)?, precision)?;
    let mut x = Activations::new(batch, COLS);
    x.set(c, &values(batch * COLS), COLS, w.activations(), batch);
    let mut out = vec![0.0; batch * ROWS];
    for _ in 0..calls {
        matmul(c, &w, &x, black_box(&mut out));
    }
    Ok(())
}

fn attentions(c: &Compute, rows: usize, mask: Mask, dtype: KvDtype, calls: usize) -> Result<(), Problem> {
    let blocks: Vec<u32> = (0..).take(POSITIONS / BLOCK_TOKENS).collect();
    let shape = KvShape::alike(1, KvHeads { kv_heads: KV_HEADS, head_dim: HEAD_DIM }, blocks.len(), dtype);
    let mut kv = KvPool::new(shape)?;
    let keys = values(POSITIONS * KV_HEADS * HEAD_DIM);
    let slots: Vec<(u32, u32)> =
        blocks.iter().flat_map(|&b| (0..).take(BLOCK_TOKENS).map(move |o| (b, o))).collect();
    kv.write(c, 0, &keys, &keys, &slots);
    let q = values(rows * HEADS * HEAD_DIM);
    let mut out = vec![0.0; q.len()];
    let seq = SeqRows::last(0..rows, POSITIONS - rows, &blocks);
    let params = AttentionParams {
        layer: 0,
        heads: HEADS,
        mask,
        scale: 0.125,
        soft_cap: None,
        bias: None,
        sinks: None,
    };
    for _ in 0..calls {
        attention(c, &kv, params, &q, std::slice::from_ref(&seq), black_box(&mut out));
    }
    Ok(())
}

fn quantizes(c: &Compute, dtype: Dtype, calls: usize) -> Result<(), Problem> {
    // What such weights read is what is measured; quantized ones are packed as they are.
    let w = Matrix::pack(c, dtype, ROWS, COLS, &weights(dtype)?, Precision::Int8)?;
    let rows = values(VALUES_ROWS * COLS);
    let mut x = Activations::new(VALUES_ROWS, COLS);
    for _ in 0..calls {
        black_box(&mut x).set(c, &rows, COLS, w.activations(), VALUES_ROWS);
    }
    Ok(())
}

fn norms(c: &Compute, calls: usize) -> Result<(), Problem> {
    let (rows, weight) = (values(VALUES_ROWS * COLS), values(COLS));
    let norm = RowNorm { weight: &weight, bias: None, eps: 1e-5, mean: false };
    let mut out = vec![0.0; rows.len()];
    for _ in 0..calls {
        norm.rows(c, &rows, black_box(&mut out));
    }
    Ok(())
}

fn gates(c: &Compute, calls: usize) -> Result<(), Problem> {
    let w = Matrix::pack(c, Dtype::Q8_0, ROWS, COLS, &weights(Dtype::Q8_0)?, Precision::Fast)?;
    let (gate, up) = (values(VALUES_ROWS * COLS), values(VALUES_ROWS * COLS));
    let mut x = Activations::new(VALUES_ROWS, COLS);
    for _ in 0..calls {
        // It may write over the gate's values.
        let mut gate = gate.clone();
        black_box(&mut x).set_gated(c, Activation::Silu, &mut gate, &up, COLS, w.activations(), VALUES_ROWS);
    }
    Ok(())
}

fn activates(c: &Compute, calls: usize) -> Result<(), Problem> {
    let w = Matrix::pack(c, Dtype::Q8_0, ROWS, COLS, &weights(Dtype::Q8_0)?, Precision::Fast)?;
    let (up, bias) = (values(VALUES_ROWS * COLS), values(COLS));
    let mut x = Activations::new(VALUES_ROWS, COLS);
    for _ in 0..calls {
        // It may write over them.
        let (mut up, act, formats) = (up.clone(), Activation::Gelu, w.activations());
        black_box(&mut x).set_activated(c, act, Some(&bias), &mut up, COLS, formats, VALUES_ROWS);
    }
    Ok(())
}

fn added_norms(c: &Compute, calls: usize) -> Result<(), Problem> {
    let (mut x, y, weight) = (values(VALUES_ROWS * COLS), values(VALUES_ROWS * COLS), values(COLS));
    let norm = RowNorm { weight: &weight, bias: Some(&weight), eps: 1e-12, mean: true };
    for _ in 0..calls {
        norm.add_rows(c, black_box(&mut x), &y, Some(&weight));
    }
    Ok(())
}

fn ropes(c: &Compute, calls: usize) -> Result<(), Problem> {
    let half = HEAD_DIM / 2;
    let mut table = RopeTable::new(VALUES_ROWS, half);
    let frequencies: Vec<f32> = (0..half).map(|i| 0.75f32.powi(i as i32)).collect();
    (0..VALUES_ROWS).for_each(|row| table.set_row(row, 100 + row, &frequencies, 1.0));
    let (mut x, weight) = (values(VALUES_ROWS * COLS), values(HEAD_DIM));
    for _ in 0..calls {
        let norm = Some((weight.as_slice(), 1e-6));
        rope(c, black_box(&mut x), &table, COLS / HEAD_DIM, HEAD_DIM, Pairing::Halves, norm);
    }
    Ok(())
}

/// The same pseudo-random numbers on every run.
fn noise() -> impl FnMut() -> u32 {
    let mut state = 7u64;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    }
}

/// Floats from -1 to 1.
fn values(count: usize) -> Vec<f32> {
    let mut next = noise();
    (0..count).map(|_| next() as f32 / (1u32 << 30) as f32 - 1.0).collect()
}

/// Random codes; bytes below 64, so that no half-precision factor and no bfloat16 weight is NaN or infinite.
fn weights(dtype: Dtype) -> Result<Vec<u8>, Problem> {
    let bytes = dtype.row_bytes(COLS).ok_or_else(|| format!("{dtype:?} has no rows of {COLS}"))?;
    let mut next = noise();
    Ok((0..ROWS * bytes).map(|_| next() as u8 & 0x3f).collect())
}
