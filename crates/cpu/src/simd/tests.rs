use super::*;
use crate::Tier;
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
            let bytes: Vec<u8> = w[..n].to_vec();
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
            assert_eq!(s.reduce_max(s.load(&f)), f.iter().fold(f32::MIN, |a, &b| a.max(b)));
            assert!((s.reduce_sum(s.load(&f)) - f.iter().sum::<f32>()).abs() < 1e-4);
            for nan in 0..n {
                let mut f = f.clone();
                f[nan] = f32::NAN;
                let most = f.iter().fold(f32::MIN, |a, &b| a.max(b));
                assert_eq!(s.reduce_max(s.load(&f)), most, "NaN in lane {nan} of {f:?}");
            }
            let mut small = vec![0i8; n];
            s.store_i8(s.load(&f), &mut small);
            assert!(small.iter().zip(&f).all(|(i, v)| f32::from(*i) == v.round_ties_even()));

            let wv = s.load_bytes(&w);
            let mut copy = vec![0; 4 * n];
            s.store_bytes(wv, &mut copy);
            assert_eq!(copy, w[..4 * n]);
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
            s.store(s.to_f(s.dot_u8(s.splat_i(-5), wv, xv)), &mut out);
            assert_eq!(out, dots(S::U8_ZERO_POINT, 0xff));

            let (quads, _) = x.as_chunks::<4>();
            let x32: [i8; 32] =
                std::array::from_fn(|i| quads[i / 4 % n][i % 4].wrapping_add(i as i8).max(-127));
            let w = |i: usize, j: usize| i32::from(w[4 * i + j]);
            let mut w8 = [wv; 8];
            w8.iter_mut().zip(0..).for_each(|(v, j)| *v = s.or(*v, s.splat_i(0x0101_0101 * j)));
            let narrow8 = w8.map(|v| s.and(v, s.splat_b(0x7f)));
            let sums = |quads: std::ops::Range<usize>, wide: bool| -> Vec<f32> {
                let code = |i, j, quad: usize| match wide {
                    true => (w(i, j) | quad as i32) - S::U8_ZERO_POINT,
                    false => (w(i, j) | quad as i32) & 0x7f,
                };
                let one = |i, quad| -> i32 {
                    (0..4).map(|j| code(i, j, quad) * i32::from(x32[4 * quad + j])).sum()
                };
                (0..n).map(|i| (quads.clone().map(|quad| one(i, quad)).sum::<i32>() + 9) as f32).collect()
            };
            let nine = s.splat_i(9);
            s.store(s.to_f(s.dot_quads::<8, 7>(nine, &narrow8, &x32, 0)), &mut out);
            assert_eq!(out, sums(0..8, false));
            s.store(s.to_f(s.dot_quads::<8, 8>(nine, &w8, &x32, 0)), &mut out);
            assert_eq!(out, sums(0..8, true));
            for from in [0, 4] {
                s.store(s.to_f(s.dot_quads::<4, 7>(nine, &narrow8, &x32, from)), &mut out);
                assert_eq!(out, sums(from..from + 4, false));
                s.store(s.to_f(s.dot_quads::<4, 8>(nine, &w8, &x32, from)), &mut out);
                assert_eq!(out, sums(from..from + 4, true));
            }
            for (load, zero) in [(s.load_u8(&bytes), 0), (s.load_i8(&bytes), 128)] {
                s.store(load, &mut out);
                let want = |b: &u8| f32::from(*b ^ zero) - f32::from(zero);
                assert!(out.iter().zip(&bytes).all(|(o, b)| *o == want(b)));
            }

            // Sixteen registers of whole numbers, one of them with a lane that is no number.
            let all: [Vec<f32>; 16] = std::array::from_fn(|i| {
                (0..n)
                    .map(|lane| x32[(5 * i + lane) % 32].into())
                    .map(|v: f32| v * (i as f32 - 7.0))
                    .collect()
            });
            let mut registers = [s.splat(0.0); 16];
            for (register, values) in registers.iter_mut().zip(&all) {
                *register = s.load(values);
            }
            let want = all.each_ref().map(|values| values.iter().sum::<f32>());
            assert_eq!(s.reduce_sum16(&registers), want);
            let most = all.each_ref().map(|values| values.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            assert_eq!(s.reduce_max16(&registers), most);
            let mut odd = all[3].clone();
            odd[n / 2] = f32::NAN;
            registers[3] = s.load(&odd);
            let mut most = most;
            most[3] = odd.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(s.reduce_max16(&registers), most);

            let table: [[i32; 16]; 8] =
                std::array::from_fn(|r| std::array::from_fn(|c| (16 * r + c) as i32 - 9));
            let turned: [[i32; 8]; 16] = std::array::from_fn(|c| std::array::from_fn(|r| table[r][c]));
            assert_eq!(s.transpose_8x16(&table), turned);

            let near: Vec<f32> = f.iter().map(|v| v * 3000.0).collect();
            let mut halves = [vec![0i8; n], vec![0i8; n]];
            let [even, odd] = &mut halves;
            s.store_i16_split(s.load(&near), even, odd);
            let word = |i: usize| {
                let bytes = &halves[i % 2][i / 2 * 2..][..2];
                i16::from_le_bytes([bytes[0].cast_unsigned(), bytes[1].cast_unsigned()])
            };
            let whole = |v: &f32| v.round_ties_even() as i16;
            assert!(near.iter().enumerate().all(|(i, v)| word(i) == whole(v)), "words of {near:?}");
            let dot = |odd: usize, signed: bool, factor: &[i8]| -> Vec<f32> {
                let byte = |i, j| if signed { i32::from(w(i, j) as i8) } else { w(i, j) };
                let factor = |j: usize| {
                    let bytes = &factor[2 * j..][..2];
                    i32::from(i16::from_le_bytes([bytes[0].cast_unsigned(), bytes[1].cast_unsigned()]))
                };
                (0..n).map(|i| (byte(i, odd) * factor(0) + byte(i, 2 + odd) * factor(1) - 7) as f32).collect()
            };
            let factor = s.splat4(&halves[0]);
            for (words, odd, signed) in [
                (s.widen_bytes::<false, false>(wv), 0, false),
                (s.widen_bytes::<true, false>(wv), 1, false),
                (s.widen_bytes::<false, true>(wv), 0, true),
                (s.widen_bytes::<true, true>(wv), 1, true),
            ] {
                s.store(s.to_f(s.dot_i16(s.splat_i(-7), words, factor)), &mut out);
                assert_eq!(out, dot(odd, signed, &halves[0]), "bytes {odd} of two, signed: {signed}");
            }

            let table: [u8; 16] = std::array::from_fn(|i| (i * 11 + 3) as u8);
            let index = s.and(s.shr::<4>(wv), s.splat_b(15));
            let picked = s.lookup(&table, index);
            s.store(
                s.to_f(s.dot(s.splat_i(0), s.and(picked, s.splat_b(127)), s.splat4(&[1, 1, 1, 1]))),
                &mut out,
            );
            for i in 0..n {
                let want: i32 = (0..4).map(|j| i32::from(table[w(i, j) as usize >> 4] & 127)).sum();
                assert_eq!(out[i], want as f32);
            }
        }
    }
}

/// Products at the ends of what bytes hold, where sums of sixteen bits would run over.
struct Extremes;

impl Extremes {
    /// Sums of quads of the largest codes of so many bits.
    #[inline(always)]
    fn quads<S: Simd, const BITS: u32>(s: S) {
        let (code, mut out) = ((1 << BITS) - 1, vec![0.0; S::LANES]);
        let w = [s.splat_b(code); 8];
        for x in [-128i8, -127, 127] {
            let each = 4 * i32::from(code) * i32::from(x);
            s.store(s.to_f(s.dot_quads::<8, BITS>(s.splat_i(1), &w, &[x; 32], 0)), &mut out);
            assert!(out.iter().all(|o| *o == (8 * each + 1) as f32), "8 quads of {code} · {x}: {out:?}");
            s.store(s.to_f(s.dot_quads::<4, BITS>(s.splat_i(1), &w, &[x; 32], 4)), &mut out);
            assert!(out.iter().all(|o| *o == (4 * each + 1) as f32), "4 quads of {code} · {x}: {out:?}");
            // A scale a lane, the ends of a byte among them.
            let scales: Vec<i8> = (0..S::LANES).map(|lane| [-128, 127, 1, -3][lane % 4]).collect();
            let bytes: Vec<u8> = scales.iter().map(|scale| scale.cast_unsigned()).collect();
            let scaled = s.dot_scaled::<4, BITS>(s.splat_i(1), &w, &[x; 32], 4, s.load_i8_dup_i16(&bytes));
            s.store(s.to_f(scaled), &mut out);
            let want: Vec<f32> =
                scales.iter().map(|scale| (4 * each * i32::from(*scale) + 1) as f32).collect();
            assert_eq!(out, want, "4 quads of {code} · {x} · {scales:?}");
            // As many quads as words take.
            let mut short = s.splat_i(0);
            for w in &w[..i16_quads(BITS)] {
                short = s.maddubs_i16(short, *w, s.splat4(&[x; 4]));
            }
            let widened = s.madd_i16_to_i32(s.splat_i(1), short, s.load_i8_dup_i16(&bytes));
            s.store(s.to_f(widened), &mut out);
            let quads = i16_quads(BITS) as i32;
            let want: Vec<f32> =
                scales.iter().map(|scale| (quads * each * i32::from(*scale) + 1) as f32).collect();
            assert_eq!(out, want, "{quads} quads of {code} · {x} in words · {scales:?}");
        }
    }
}

impl Job for Extremes {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        Extremes::quads::<S, 4>(s);
        Extremes::quads::<S, 5>(s);
        Extremes::quads::<S, 6>(s);
        Extremes::quads::<S, 7>(s);
        let mut out = vec![0.0; S::LANES];
        for x in [-128i8, -127, 127] {
            let four = s.splat4(&[x; 4]);
            for w in [0u8, 1, 127, 128, 255] {
                if w <= 127 {
                    s.store(s.to_f(s.dot(s.splat_i(0), s.splat_b(w), four)), &mut out);
                    assert!(out.iter().all(|o| *o == (4 * i32::from(w) * i32::from(x)) as f32), "{w} · {x}");
                }
                if x > -128 {
                    s.store(s.to_f(s.dot_u8(s.splat_i(0), s.splat_b(w), four)), &mut out);
                    let want = 4 * (i32::from(w) - S::U8_ZERO_POINT) * i32::from(x);
                    assert!(out.iter().all(|o| *o == want as f32), "wide {w} · {x}: {out:?}, not {want}");
                }
            }
        }
    }
}

/// Arithmetic on half-precision floats, against that of the `half` crate.
struct Halves;

impl Job for Halves {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (n, mut seed) = (S::LANES, 35);
        let mut all = || -> [Vec<f16>; 3] {
            // Some of them denormal.
            std::array::from_fn(|_| {
                let each = |seed: &mut u64| f32::exp2(noise(seed) as f32 / 1e8 - 18.0);
                (0..2 * n)
                    .map(|_| f16::from_f32(each(&mut seed) * (1.0 - (noise(&mut seed) % 2 * 2) as f32)))
                    .collect()
            })
        };
        let bytes = |of: &[f16]| -> Vec<u8> { of.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let mut out = vec![0; 4 * n];
        for _ in 0..100 {
            let of = all();
            let [a, b, c] = [0, 1, 2].map(|i| s.load_bytes(&bytes(&of[i])));
            for (got, f) in [
                (s.f16_sub(a, b), (|a, b, _| a - b) as fn(f64, f64, f64) -> f64),
                (s.f16_mul(a, b), |a, b, _| a * b),
                (s.f16_fma(a, b, c), |a, b, c| a * b + c),
            ] {
                s.store_bytes(got, &mut out);
                let want = (0..2 * n)
                    .map(|i| f16::from_f64(f(of[0][i].to_f64(), of[1][i].to_f64(), of[2][i].to_f64())));
                assert_eq!(out, bytes(&want.collect::<Vec<f16>>()), "{of:?}");
            }
            let floats: Vec<f32> = of[0][..n].iter().map(|v| v.to_f32() * 1.000_3).collect();
            s.store_bytes(s.to_f16_pair(s.load(&floats)), &mut out);
            let want: Vec<f16> = floats.iter().flat_map(|v| [f16::from_f32(*v); 2]).collect();
            assert_eq!(out, bytes(&want), "{floats:?}");
        }
    }
}

#[test]
fn halves_are_those_of_the_definition() {
    for tier in Tier::available() {
        dispatch(tier, Halves);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(halves) = amx::AmxFp16::new() {
        halves.avx512().call(Halves);
        halves.avx512().call(Everything);
    }
}

struct RoundedPairs;

impl Job for RoundedPairs {
    type Out = ();
    const DOT_KIND: DotKind = DotKind::Bf16;
    fn run<S: Simd>(self, s: S) {
        let mut seed = 11;
        let mut number = || {
            let x = f32::from_bits(noise(&mut seed).rotate_left(1));
            if x.is_finite() && x.abs() < 1e38 { x } else { 0.0 }
        };
        let mut out = [0; 64];
        for _ in 0..1_000 {
            let [low, high]: [[f32; 16]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| number()));
            s.store_bytes(s.pack_bf16_pair(s.load(&low), s.load(&high)), &mut out);
            for (got, x) in out[..4 * S::LANES]
                .as_chunks::<2>()
                .0
                .iter()
                .zip(low.iter().zip(&high).flat_map(|(l, h)| [l, h]))
            {
                let (got, nearest) =
                    (half::bf16::from_le_bytes(*got).to_f32(), half::bf16::from_f32(*x).to_f32());
                // Halfway between two either is as near.
                assert_eq!((got - x).abs(), (nearest - x).abs(), "{x:e} as {got:e}, nearest is {nearest:e}");
            }
        }
    }
}

#[test]
fn pairs_are_rounded_to_the_nearest() {
    for tier in Tier::available() {
        dispatch(tier, RoundedPairs);
        let zen4 = dispatch_zen4_bf16_in_unit::<(), _>(tier, RoundedPairs).is_ok();
        assert!(!zen4 || has_bf16_dot(tier), "{tier}");
    }
}

#[test]
fn products_of_the_largest_bytes_are_exact() {
    for tier in Tier::available() {
        dispatch(tier, Extremes);
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(s) = neon::Neon::<false, false>::new() {
        s.call(Extremes);
    }
}

#[test]
fn each_tier_computes_what_the_scalar_definition_says() {
    for tier in Tier::available() {
        dispatch(tier, Everything);
    }
    // Lanes that `dispatch` takes on Zen 4 only.
    #[cfg(target_arch = "x86_64")]
    if let Some(s) = avx512::Avx512::<true>::new() {
        s.for_zen4().call(Everything);
        s.for_zen4().call(RoundedPairs);
    }
}

/// A tier may have several sets of lanes, of which [`dispatch`] takes the best.
#[test]
#[cfg(target_arch = "aarch64")]
fn each_set_of_lanes_of_neon_computes_the_same() {
    let [plain, dotprod, i8mm] = [
        neon::Neon::<false, false>::new().map(|s| s.call(Everything)),
        neon::Neon::<true, false>::new().map(|s| s.call(Everything)),
        neon::Neon::<true, true>::new().map(|s| s.call(Everything)),
    ];
    let has = |feature: bool| feature.then_some(());
    assert_eq!(plain, Some(()));
    assert_eq!(dotprod, has(std::arch::is_aarch64_feature_detected!("dotprod")));
    assert_eq!(i8mm, has(std::arch::is_aarch64_feature_detected!("i8mm")));
}
