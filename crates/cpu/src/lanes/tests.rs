use super::*;
use half::f16;

/// Everything a tier can do on fixed pseudo-random input, as plain numbers.
struct Everything;

fn noise(seed: &mut u64) -> u32 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as u32
}

impl Job for Everything {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (n, mut seed) = (S::LANES, 7);
        for _ in 0..200 {
            let f: Vec<f32> = (0..n).map(|_| noise(&mut seed) as f32 / 1e8 - 10.0).collect();
            let w: Vec<u8> = (0..4 * n).map(|_| noise(&mut seed) as u8).collect();
            let x: Vec<i8> =
                (0..4 * n).map(|_| (noise(&mut seed) % 255) as i8).map(|v| v.max(-127)).collect();
            let mut out = vec![0.0; n];
            s.store(s.exp(s.load(&f)), &mut out);
            for (o, v) in out.iter().zip(&f) {
                assert!((o / v.exp() - 1.0).abs() < 4e-7, "exp({v}) = {o}, not {}", v.exp());
            }
            let mut halves = vec![0u16; n];
            s.store_f16(s.load(&f), &mut halves);
            assert!(halves.iter().zip(&f).all(|(h, v)| *h == f16::from_f32(*v).to_bits()));
            s.store(s.load_f16(&halves), &mut out);
            assert!(out.iter().zip(&halves).all(|(o, h)| *o == f16::from_bits(*h).to_f32()));
            assert_eq!(s.max_lane(s.load(&f)), f.iter().fold(f32::MIN, |a, &b| a.max(b)));
            assert!((s.sum(s.load(&f)) - f.iter().sum::<f32>()).abs() < 1e-4);
            let mut small = vec![0i8; n];
            s.store_i8(s.load(&f), &mut small);
            assert!(small.iter().zip(&f).all(|(i, v)| f32::from(*i) == v.round_ties_even()));

            let wv = s.load_bytes(&w);
            let narrow = s.and(wv, s.splat_b(0x7f));
            let xv = s.splat4(&x);
            let dots = |zero: i32, mask: u8| -> Vec<f32> {
                (0..n)
                    .map(|i| {
                        let one = |j: usize| (i32::from(w[4 * i + j] & mask) - zero) * i32::from(x[j]);
                        ((0..4).map(one).sum::<i32>() - 5) as f32
                    })
                    .collect()
            };
            s.store(s.to_f(s.dot(s.splat_i(-5), narrow, xv)), &mut out);
            assert_eq!(out, dots(0, 0x7f));
            s.store(s.to_f(s.dot_wide(s.splat_i(-5), wv, xv)), &mut out);
            assert_eq!(out, dots(S::WIDE_ZERO, 0xff));

            let table: [u8; 16] = std::array::from_fn(|i| (i * 11 + 3) as u8);
            let index = s.and(s.shr::<4>(wv), s.splat_b(15));
            let picked = s.lookup(&table, index);
            s.store(
                s.to_f(s.dot(s.splat_i(0), s.and(picked, s.splat_b(127)), s.splat4(&[1, 1, 1, 1]))),
                &mut out,
            );
            for i in 0..n {
                let want: i32 = (0..4).map(|j| i32::from(table[usize::from(w[4 * i + j] >> 4)] & 127)).sum();
                assert_eq!(out[i], want as f32);
            }
        }
    }
}

#[test]
fn each_tier_computes_what_the_scalar_definition_says() {
    for tier in Tier::available() {
        dispatch(tier, Everything);
    }
}
