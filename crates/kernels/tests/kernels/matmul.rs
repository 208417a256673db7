//! Matrix products against the definition, for each format, tier and number of rows.

use cpu::{Pool, Tier};
use kernels::{
    ActFormats, Activation, Activations, Compute, Error, Matrix, Precision, Product, RowNorm, gated, matmul,
    matmul_each, matmul_group,
};
use tensor::Dtype;

/// Activations that share a scale.
const BLOCK: usize = 32;

/// Pseudo-random 32-bit values.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }
    fn unit(&mut self) -> f32 {
        self.next() as f32 / (1u32 << 30) as f32 - 1.0
    }
}

/// Random rows of `dtype`: any codes and small scales, sane half-precision factors.
fn random_weights(dtype: Dtype, rows: usize, cols: usize, noise: &mut Noise) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..rows * dtype.row_bytes(cols).unwrap()).map(|_| noise.next() as u8).collect();
    let factors: &[usize] = match dtype {
        Dtype::Q4_0 | Dtype::Q5_0 | Dtype::Q8_0 | Dtype::IQ4_NL | Dtype::IQ4_XS => &[0],
        Dtype::Q4_1 | Dtype::Q5_1 | Dtype::Q4_K | Dtype::Q5_K => &[0, 2],
        Dtype::Q2_K => &[80, 82],
        Dtype::Q3_K => &[108],
        Dtype::Q6_K => &[208],
        Dtype::IQ1_S | Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S | Dtype::IQ3_XXS | Dtype::IQ3_S => &[0],
        Dtype::TQ1_0 => &[52],
        Dtype::TQ2_0 => &[64],
        Dtype::IQ1_M | Dtype::MXFP4 | Dtype::NVFP4 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => &[],
    };
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        for &at in factors {
            let v = half::f16::from_f32(noise.unit() * 0.05);
            block[at..at + 2].copy_from_slice(&v.to_le_bytes());
        }
        match dtype {
            Dtype::MXFP4 => block[0] = 120 + block[0] % 8,
            Dtype::NVFP4 => block[..4].iter_mut().for_each(|scale| *scale %= 64),
            // The upper half of the f16, which is in nibbles: 0.008 to 0.03 of either sign.
            Dtype::IQ1_M => {
                block[53] &= 0x7f;
                block[55] = block[55] & 0x8f | 0x20;
            }
            Dtype::F32 => block.copy_from_slice(&noise.unit().to_le_bytes()),
            Dtype::F16 => block.copy_from_slice(&half::f16::from_f32(noise.unit()).to_le_bytes()),
            Dtype::BF16 => block.copy_from_slice(&half::bf16::from_f32(noise.unit()).to_le_bytes()),
            _ => {}
        }
    }
    bytes
}

/// The product with rows that are all decode rows.
fn run(c: &Compute, w: &Matrix, x: &[f32]) -> Vec<f32> {
    mixed(c, w, x, x.len() / w.cols())
}

/// The product with rows of which the first `decode_rows` are decode rows, the others prefill rows.
fn mixed(c: &Compute, w: &Matrix, x: &[f32], decode_rows: usize) -> Vec<f32> {
    let rows = x.len() / w.cols();
    let mut a = Activations::new(rows, w.cols());
    a.set(c, x, w.cols(), w.activations(), decode_rows);
    let mut out = vec![0.0; rows * w.rows()];
    matmul(c, w, &a, &mut out);
    out
}

/// The budget: rounding each activation to eight bits moves it by at most half a step, so a product by at most
/// Σ |w| · step / 2; to bfloat16 by 2⁻⁸ of itself, to half precision by 2⁻¹¹. Weights made halves are off by 2⁻¹⁰ of the largest around
/// them: their bias is that much larger than they are. On top, rounding of the `f32` sum: 2⁻²² for each of its terms.
fn budget(needs: ActFormats, w: &[f32], x: &[f32]) -> f32 {
    let mut sum = 1e-6;
    for (w, x) in w.chunks(BLOCK).zip(x.chunks(BLOCK)) {
        let top = |of: &[f32]| of.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let (step, top) = (top(x) / 127.0, top(w));
        for (w, x) in w.iter().zip(x) {
            let activation =
                if needs.q8 { step * 0.5001 } else { x.abs() / 256.0 * f32::from(u8::from(needs.bf16)) };
            if needs.f16 {
                sum += (w.abs() / 2048.0 + top / 1024.0) * x.abs();
            }
            // The sum of a format with a bias runs through larger terms than its result has: |w| + the bias.
            sum += w.abs() * activation + (w.abs() * x.abs() + step) * 2e-6;
        }
    }
    sum
}

/// Decision 24: a row of a prompt has one result, whatever is computed beside it, and decode rows theirs.
#[test]
fn rows_of_prompts_are_within_budget_and_neither_batch_nor_answers_beside_them_matter() {
    let mut noise = Noise(24);
    for dtype in Dtype::ALL {
        // More panels than a block has, one alone at the end; no whole number of pieces where the format has short blocks.
        let cols = match dtype.block_weights() {
            256 => 768,
            64 => 576,
            _ => 544,
        };
        let outputs = if dtype == Dtype::Q4_K { 553 } else { 37 };
        let bytes = random_weights(dtype, outputs, cols, &mut noise);
        for tier in Tier::available() {
            let with = |threads| Compute {
                prompt_tiles: true,
                ..Compute::new(tier, Pool::new(threads, None).unwrap())
            };
            let c = with(2);
            let w = Matrix::pack(&c, dtype, outputs, cols, &bytes, Precision::Fast).unwrap();
            let many = if w.activations().q8_decode_bf16_prefill || w.activations().f16 { 530 } else { 40 };
            let x: Vec<f32> = (0..many * cols).map(|_| noise.unit() * 3.0).collect();
            let (prompts, decode_rows) = (mixed(&c, &w, &x, 0), run(&c, &w, &x));
            let mut row = vec![0.0; cols];
            let form = if w.activations().q8_decode_bf16_prefill {
                ActFormats { bf16: true, ..ActFormats::default() }
            } else {
                w.activations()
            };
            for r in 0..outputs {
                w.row_into(r, &mut row);
                // Weights are cut, which errs by up to two thirds of a last place, where rounding errs by half of one.
                let more = if w.activations().q8_decode_bf16_prefill { 1.0 + 4.0 / 3.0 } else { 1.0 };
                for (t, x) in x.chunks(cols).enumerate().step_by(7) {
                    let want: f64 = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let error = (f64::from(prompts[t * outputs + r]) - want).abs();
                    let limit = more * budget(form, &row, x);
                    assert!(
                        error <= f64::from(limit),
                        "{tier} {dtype:?} [{t}, {r}]: off by {error} of {limit}"
                    );
                }
            }
            for (first, count, beside) in [(0, 1, 0), (3, 7, 2), (0, 36, 5), (1, 39, 17)] {
                let alone = mixed(&c, &w, &x[first * cols..(first + count) * cols], beside);
                let (decode, prefill) = alone.split_at(beside * outputs);
                let at = (first + beside) * outputs;
                assert_eq!(decode, &decode_rows[first * outputs..at], "{tier} {dtype:?} {first}+{count}");
                assert_eq!(
                    prefill,
                    &prompts[at..(first + count) * outputs],
                    "{tier} {dtype:?} {first}+{count}"
                );
            }
            let one = with(1);
            assert_eq!(mixed(&one, &w, &x, 0), prompts, "{tier} {dtype:?} on one thread");
            let off = Compute::new(tier, Pool::new(2, None).unwrap());
            assert_eq!(mixed(&off, &w, &x, 0), decode_rows, "{tier} {dtype:?} without tiles");
        }
    }
}

/// Floats in eight bits × activations in seven: within half a step of the dequantized weights, alone as in a batch, on any number of
/// threads, and by the same integers on every tier.
#[test]
fn floats_quantized_at_load_are_within_budget_and_the_batch_does_not_matter() {
    const BLOCK: usize = 64;
    let mut noise = Noise(48);
    for (dtype, cols, outputs) in [(Dtype::F32, 384, 131), (Dtype::BF16, 312, 40), (Dtype::F16, 100, 9)] {
        let bytes = random_weights(dtype, outputs, cols, &mut noise);
        let mut floats = vec![0.0; outputs * cols];
        tensor::dequantize(dtype, &bytes, &mut floats).unwrap();
        // Values on both sides of zero, on one side only, and a block of zeros.
        let mut x: Vec<f32> = (0..150 * cols).map(|_| noise.unit() * 3.0).collect();
        x[cols..2 * cols].iter_mut().for_each(|x| *x = x.abs());
        x[2 * cols..2 * cols + BLOCK].fill(0.0);
        for tier in Tier::available() {
            let c = Compute::new(tier, Pool::new(2, None).unwrap());
            let w = Matrix::pack(&c, dtype, outputs, cols, &bytes, Precision::Int8).unwrap();
            assert_eq!(w.activations(), ActFormats { u7: true, ..ActFormats::default() });
            let out = run(&c, &w, &x);
            let mut row = vec![0.0; cols];
            for r in 0..outputs {
                w.row_into(r, &mut row);
                for (block, packed) in floats[r * cols..][..cols].chunks(BLOCK).zip(row.chunks(BLOCK)) {
                    let most = block.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                    let off = block.iter().zip(packed).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(
                        off <= most / 254.0 * 1.001,
                        "{tier} {dtype:?}: a weight is off by {off} of {most}"
                    );
                }
                for (t, x) in x.chunks(cols).enumerate() {
                    let (mut want, mut limit) = (0.0f64, 1e-5f64);
                    for (w, x) in row.chunks(BLOCK).zip(x.chunks(BLOCK)) {
                        let most = x.iter().fold(0.0f32, |most, v| most.max(*v));
                        let least = x.iter().fold(0.0f32, |least, v| least.min(*v));
                        let step = f64::from(most - least) / 127.0;
                        for (w, x) in w.iter().zip(x) {
                            // Half a step of the code, and half of one of the zero point, which moves no value but cuts the last.
                            want += f64::from(*w) * f64::from(*x);
                            limit += f64::from(w.abs()) * (step * 1.001 + f64::from(x.abs()) * 1e-6);
                        }
                    }
                    let error = (f64::from(out[t * outputs + r]) - want).abs();
                    assert!(error <= limit, "{tier} {dtype:?} [{t}, {r}]: off by {error} of {limit}");
                }
            }
            for (first, count) in [(0, 1), (3, 2), (1, 7), (5, 64), (17, 133)] {
                let alone = run(&c, &w, &x[first * cols..(first + count) * cols]);
                assert_eq!(
                    alone,
                    out[first * outputs..(first + count) * outputs],
                    "{tier} {dtype:?} {first}+{count}"
                );
            }
            let one = Compute::new(tier, Pool::new(1, None).unwrap());
            assert_eq!(run(&one, &w, &x), out, "{tier} {dtype:?} on one thread");
        }
    }
}

#[test]
fn every_format_tier_and_row_count_is_within_budget_and_the_batch_does_not_matter() {
    let mut noise = Noise(11);
    for dtype in Dtype::ALL {
        let (rows, cols) = (37, 512);
        let bytes = random_weights(dtype, rows, cols, &mut noise);
        // Tiles of bfloat16 go two by two from 32 rows on; more rows take long in the emulator.
        let counts: &[usize] = if dtype == Dtype::BF16 {
            &[1, 2, 3, 5, 6, 7, 8, 11, 33, 36]
        } else {
            &[1, 2, 3, 5, 6, 7, 8, 11]
        };
        let x: Vec<f32> = (0..(counts[counts.len() - 1] + 8) * cols).map(|_| noise.unit() * 3.0).collect();
        for tier in Tier::available() {
            let c = Compute::new(tier, Pool::new(2, None).unwrap());
            let w = Matrix::pack(&c, dtype, rows, cols, &bytes, Precision::Fast).unwrap();
            let truth = Matrix::pack(&c, dtype, rows, cols, &bytes, Precision::F32).unwrap();
            let (mut fast_row, mut row) = (vec![0.0; cols], vec![0.0; cols]);
            let all = run(&c, &w, &x);
            for r in 0..rows {
                truth.row_into(r, &mut row);
                w.row_into(r, &mut fast_row);
                assert_eq!(row, fast_row, "{tier} {dtype:?} row {r}");
                for (t, x) in x.chunks(cols).enumerate() {
                    let want: f64 = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let error = (f64::from(all[t * rows + r]) - want).abs();
                    let limit = budget(w.activations(), &row, x);
                    assert!(
                        error <= f64::from(limit),
                        "{tier} {dtype:?} [{t}, {r}]: off by {error} of {limit}"
                    );
                }
            }
            for &count in counts {
                for first in [0, 4, 8] {
                    let alone = run(&c, &w, &x[first * cols..(first + count) * cols]);
                    assert_eq!(
                        alone,
                        all[first * rows..(first + count) * rows],
                        "{tier} {dtype:?} rows {first}+{count}"
                    );
                }
            }
            let fine = Matrix::pack(&c, dtype, rows, cols, &bytes, Precision::Fine).unwrap();
            let finer = run(&c, &fine, &x);
            for (t, x) in x.chunks(cols).take(rows).enumerate() {
                truth.row_into(t, &mut row);
                let want: f64 = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                let error = (f64::from(finer[t * rows + t]) - want).abs();
                // A 254th of the step, and the f32 sums' rounding as before.
                let eight = ActFormats { q8: true, ..ActFormats::default() };
                let limit = if w.activations().q8 {
                    budget(eight, &row, x) / 254.0 + budget(ActFormats::default(), &row, x)
                } else {
                    budget(w.activations(), &row, x)
                };
                assert!(error <= f64::from(limit), "{tier} {dtype:?} fine [{t}]: off by {error} of {limit}");
            }
            assert_eq!(run(&c, &fine, &x[..3 * cols]), finer[..3 * rows], "{tier} {dtype:?} fine");
            let one = Compute::new(tier, Pool::new(1, None).unwrap());
            assert_eq!(run(&one, &w, &x), all, "{tier} {dtype:?} on one thread");
        }
    }
}

/// Decision 37: rows that are written in pieces are what they are one at a time, beyond the first piece and at the end of a last panel.
#[test]
fn few_rows_of_many_outputs_are_what_each_is_alone() {
    let mut noise = Noise(37);
    let (rows, cols) = (613, 256);
    for dtype in [Dtype::Q4_K, Dtype::Q6_K, Dtype::Q8_0] {
        let bytes = random_weights(dtype, rows, cols, &mut noise);
        let x: Vec<f32> = (0..9 * cols).map(|_| noise.unit() * 3.0).collect();
        for tier in Tier::available() {
            for threads in [1, 2] {
                let c = Compute::new(tier, Pool::new(threads, None).unwrap());
                for precision in [Precision::Fast, Precision::Fine] {
                    let w = Matrix::pack(&c, dtype, rows, cols, &bytes, precision).unwrap();
                    let each: Vec<f32> = x.chunks(cols).flat_map(|x| run(&c, &w, x)).collect();
                    for count in 2..=9 {
                        assert_eq!(
                            run(&c, &w, &x[..count * cols]),
                            each[..count * rows],
                            "{tier} {dtype:?} {count} rows"
                        );
                    }
                }
            }
        }
    }
}

/// Decision 25: with columns that are no whole number of groups, weights stay plain.
#[test]
fn twelve_bits_change_no_bit_of_a_product() {
    let mut noise = Noise(25);
    let outputs = 37;
    for cols in [32, 128, 160, 544] {
        // As trained weights are distributed, and now and then a weight that is far away from all others.
        let mut weights: Vec<half::bf16> = (0..outputs * cols)
            .map(|_| half::bf16::from_f32(0.02 * (0..4).map(|_| noise.unit()).sum::<f32>()))
            .collect();
        for (i, odd) in [0x0000, 0x8000, 0x0001, 0x7f7f, 0xff7f, 0x2b80, 0x6055].into_iter().enumerate() {
            weights[(i + 1) * outputs * cols / 8 + i] = half::bf16::from_bits(odd);
        }
        weights[outputs * cols - 1] = half::bf16::from_bits(0x1234);
        let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
        let wider: Vec<u8> = bytes.chunks(2 * cols).flat_map(|row| [row, &[0; 4]].concat()).collect();
        let x: Vec<f32> = (0..261 * cols).map(|_| noise.unit() * 3.0).collect();
        let wider_x: Vec<f32> = x.chunks(cols).flat_map(|row| [row, &[1.0, -1.0]].concat()).collect();
        for tier in Tier::available() {
            let c = Compute::new(tier, Pool::new(2, None).unwrap());
            let pack =
                |cols, bytes| Matrix::pack(&c, Dtype::BF16, outputs, cols, bytes, Precision::Fast).unwrap();
            let (w, plain) = (pack(cols, &bytes), pack(cols + 2, &wider));
            if cols > 512 && matches!(tier, Tier::Avx512 | Tier::Amx) {
                assert!(
                    w.bytes() * 4 < plain.bytes() * 3 + plain.bytes() / 8,
                    "{} of {}",
                    w.bytes(),
                    plain.bytes()
                );
            }
            let mut row = vec![0.0; cols];
            for (r, want) in weights.chunks(cols).enumerate() {
                w.row_into(r, &mut row);
                assert!(
                    row.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_f32().to_bits()),
                    "{tier} row {r}"
                );
            }
            // One by one, tile by tile, and above 64 and 256 rows in one part and in two (decision 40).
            for rows in [1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 70, 261] {
                let (x, wider_x) = (&x[..rows * cols], &wider_x[..rows * (cols + 2)]);
                assert_eq!(run(&c, &w, x), run(&c, &plain, wider_x), "{tier} {rows} rows of {cols}");
            }
        }
    }
}

/// Decision 25: what does not fit into twelve bits stays as it is.
#[test]
fn weights_unlike_trained_ones_stay_plain() {
    let mut noise = Noise(26);
    let (outputs, cols) = (40, 256);
    let weights: Vec<half::bf16> =
        (0..outputs * cols).map(|_| half::bf16::from_bits((noise.next() & 0xbfff) as u16)).collect();
    let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        let w = Matrix::pack(&c, Dtype::BF16, outputs, cols, &bytes, Precision::Fast).unwrap();
        assert!(w.bytes() >= bytes.len(), "{} bytes of {}", w.bytes(), bytes.len());
        let mut row = vec![0.0; cols];
        for (r, want) in weights.chunks(cols).enumerate() {
            w.row_into(r, &mut row);
            assert!(row.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_f32().to_bits()), "{tier} row {r}");
        }
    }
}

#[test]
fn float_weights_take_any_width() {
    let mut noise = Noise(5);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for cols in [1, 2, 7, 50] {
            let bytes = random_weights(dtype, 3, cols, &mut noise);
            let x: Vec<f32> = (0..2 * cols).map(|_| noise.unit()).collect();
            for tier in Tier::available() {
                let c = Compute::new(tier, Pool::new(1, None).unwrap());
                let w = Matrix::pack(&c, dtype, 3, cols, &bytes, Precision::Fast).unwrap();
                let out = run(&c, &w, &x);
                let mut row = vec![0.0; cols];
                for r in 0..3 {
                    w.row_into(r, &mut row);
                    for (t, x) in x.chunks(cols).enumerate() {
                        let want: f32 = row.iter().zip(x).map(|(w, x)| w * x).sum();
                        assert!((out[t * 3 + r] - want).abs() <= budget(w.activations(), &row, x));
                    }
                }
            }
        }
    }
}

#[test]
fn a_group_gives_what_its_members_give() {
    Tier::available().into_iter().for_each(group_and_members);
}

fn group_and_members(tier: Tier) {
    let mut noise = Noise(9);
    let c = Compute::new(tier, Pool::new(2, None).unwrap());
    let (cols, x) = (256, 5);
    let x: Vec<f32> = (0..x * cols).map(|_| noise.unit()).collect();
    let shapes = [(64, Dtype::Q4_K), (17, Dtype::Q6_K), (33, Dtype::Q8_0)];
    let w: Vec<Matrix> = shapes
        .iter()
        .map(|&(rows, dtype)| {
            let bytes = random_weights(dtype, rows, cols, &mut noise);
            Matrix::pack(&c, dtype, rows, cols, &bytes, Precision::Fast).unwrap()
        })
        .collect();
    let mut a = Activations::new(5, cols);
    a.set(&c, &x, cols, w.iter().fold(ActFormats::default(), |n, w| n | w.activations()), 5);
    let mut outs: Vec<Vec<f32>> = w.iter().map(|w| vec![0.0; 5 * w.rows()]).collect();
    let mut jobs: Vec<(&Matrix, &mut [f32])> = w.iter().zip(outs.iter_mut().map(Vec::as_mut_slice)).collect();
    matmul_group(&c, &mut jobs, &a);
    for (w, out) in w.iter().zip(&outs) {
        assert_eq!(&run(&c, w, &x), out, "{tier}");
    }
}

#[test]
fn products_of_rows_of_their_own_give_what_each_gives_alone() {
    let mut noise = Noise(52);
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(3, None).unwrap());
        for rows in [1, 3] {
            // As of experts: many matrices, not all of one size and format.
            let products: Vec<_> = (0..kernels::MAX_GROUP)
                .map(|i| {
                    let (outputs, cols) = ([70, 33][i % 2], [256, 512][i / 2 % 2]);
                    let dtype = [Dtype::Q4_K, Dtype::MXFP4][i % 2];
                    let bytes = random_weights(dtype, outputs, cols, &mut noise);
                    let w = Matrix::pack(&c, dtype, outputs, cols, &bytes, Precision::Fast).unwrap();
                    let x: Vec<f32> = (0..rows * cols).map(|_| noise.unit()).collect();
                    let mut a = Activations::new(rows, cols);
                    a.set(&c, &x, cols, w.activations(), rows);
                    (w, x, a)
                })
                .collect();
            let mut outs: Vec<Vec<f32>> = products.iter().map(|(w, ..)| vec![0.0; rows * w.rows()]).collect();
            let each = products.iter().zip(&mut outs);
            matmul_each(&c, each.map(|((weights, _, rows), out)| Product { weights, rows, out }));
            for ((w, x, _), out) in products.iter().zip(&outs) {
                assert_eq!(&run(&c, w, x), out, "{tier}");
            }
        }
    }
}

/// Decision 51: rows that threads have of their own are what each is alone, in a group too, with a last span and panel that are not full.
#[test]
fn rows_of_their_own_threads_are_what_each_is_alone() {
    let mut noise = Noise(51);
    let (rows, cols) = (203, 256);
    let x: Vec<f32> = (0..rows * cols).map(|_| noise.unit()).collect();
    for (tier, precision) in Tier::available()
        .into_iter()
        .flat_map(|tier| [Precision::Fast, Precision::Fine].map(|precision| (tier, precision)))
    {
        let c = Compute::new(tier, Pool::new(3, None).unwrap());
        let w = [(70, Dtype::Q4_K), (33, Dtype::Q8_0)].map(|(outputs, dtype)| {
            let bytes = random_weights(dtype, outputs, cols, &mut noise);
            Matrix::pack(&c, dtype, outputs, cols, &bytes, precision).unwrap()
        });
        let mut a = Activations::new(rows, cols);
        a.set(&c, &x, cols, w[0].activations() | w[1].activations(), rows);
        let mut outs = w.each_ref().map(|w| vec![0.0; rows * w.rows()]);
        let [first, second] = &mut outs;
        matmul_group(&c, &mut [(&w[0], first.as_mut_slice()), (&w[1], second.as_mut_slice())], &a);
        for (w, out) in w.iter().zip(&outs) {
            for (t, x) in x.chunks(cols).enumerate() {
                assert_eq!(run(&c, w, x), out[t * w.rows()..][..w.rows()], "{tier}, {precision:?}, row {t}");
            }
        }
    }
}

/// In each form that rows take, in one register and many, with whole blocks and without, alone, in part of a group and in many.
#[test]
fn rows_that_are_worked_out_on_the_way_have_the_bits_of_those_that_were_there() {
    let mut noise = Noise(41);
    for (tier, dtype, precision) in Tier::available().into_iter().flat_map(|tier| {
        [
            (tier, Dtype::Q8_0, Precision::Fast),
            (tier, Dtype::Q8_0, Precision::Fine),
            (tier, Dtype::BF16, Precision::Fast),
            (tier, Dtype::F32, Precision::Fast),
        ]
    }) {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for (rows, cols) in [(1, 1184), (3, 7168), (5, 96), (8, 1024), (21, 544), (70, 1056)] {
            let bytes = random_weights(dtype, 16, cols, &mut noise);
            let w = Matrix::pack(&c, dtype, 16, cols, &bytes, precision).unwrap();
            let mut values = |count: usize| -> Vec<f32> { (0..count).map(|_| noise.unit()).collect() };
            let (x, up, weight, bias) =
                (values(rows * cols), values(rows * cols), values(cols), values(cols));
            let decode_rows = rows / 3;
            let product = |set: &mut dyn FnMut(&mut Activations)| {
                let mut a = Activations::new(rows, cols);
                set(&mut a);
                let mut out = vec![0.0; rows * 16];
                matmul(&c, &w, &a, &mut out);
                out
            };
            let needs = w.activations();
            let place = format!("{tier}, {dtype:?} {precision:?}, {rows} rows of {cols}");
            for act in [Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::Relu] {
                let mut there = x.clone();
                gated(&c, act, &mut there, &up);
                let ours =
                    product(&mut |a| a.set_gated(&c, act, &mut x.clone(), &up, cols, needs, decode_rows));
                assert_eq!(ours, mixed(&c, &w, &there, decode_rows), "{place}, {act:?}");
            }
            for (bias, mean) in [(None, false), (None, true), (Some(&*bias), true)] {
                let norm = RowNorm { weight: &weight, bias, eps: 1e-5, mean };
                let mut there = vec![0.0; x.len()];
                norm.rows(&c, &x, &mut there);
                let mut room = vec![0.0; x.len()];
                let ours = product(&mut |a| a.set_normed(&c, norm, &x, &mut room, needs, decode_rows));
                assert_eq!(
                    ours,
                    mixed(&c, &w, &there, decode_rows),
                    "{place}, mean {mean}, {}",
                    bias.is_some()
                );
            }
        }
    }
}

#[test]
fn wrong_sizes_are_errors() {
    let c = Compute::new(Tier::best(), Pool::new(1, None).unwrap());
    let too_few = Matrix::pack(&c, Dtype::Q4_0, 2, 32, &[0; 35], Precision::Fast);
    assert!(matches!(too_few, Err(Error::Bytes { need: 36, got: 35, .. })));
    let broken = Matrix::pack(&c, Dtype::Q4_K, 1, 100, &[0; 144], Precision::Fast);
    assert!(matches!(broken, Err(Error::RowLength { block: 256, .. })));
}
