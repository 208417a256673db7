use super::*;

/// Small pseudo-random numbers.
fn noise(seed: &mut u32) -> i8 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*seed >> 24) as i8
}

#[test]
fn pairs_are_summed_apart_and_then_together_whatever_the_shape() {
    let Some(amx) = Amx::new() else { return };
    let mut seed = 2;
    let mut values = |count: usize| -> Vec<half::bf16> {
        (0..count).map(|_| half::bf16::from_f32(f32::from(noise(&mut seed)) * 1.37)).collect()
    };
    for (rows, width) in [(16, 64), (7, 64), (5, 32), (1, 4)] {
        let (a, b) = (values(rows * 40), values(width * 8));
        let mut out = [[7.0; 16]; ROWS];
        let tiles = Tiles::new(amx, rows, width);
        tiles.zero::<3>();
        for _ in 0..2 {
            tiles.load_a::<1, _>(&a, 40, 8);
            tiles.load_b::<0, _>(&b, 32);
            tiles.dot_bf16::<3, 1, 0>();
        }
        tiles.store_c::<3>(out.as_flattened_mut(), 16);
        for (m, n) in (0..ROWS).flat_map(|m| (0..16).map(move |n| (m, n))) {
            let got = out[m][n];
            if m >= rows {
                assert_eq!(got, 7.0);
                continue;
            }
            let mut sum = 0.0f32;
            for _ in 0..2 {
                let mut apart = [0.0f32; 2];
                for k in 0..width / 2 {
                    let (x, w) = (a[m * 40 + 4 + k].to_f32(), b[k / 2 * 32 + 2 * n + k % 2].to_f32());
                    apart[k % 2] = x.mul_add(w, apart[k % 2]);
                }
                sum += apart[0] + apart[1];
            }
            assert_eq!(got, sum, "[{m}, {n}] of {rows} × {width}");
        }
    }
}

/// Decision 35: single rows and whole tiles have the same sums, in the same order as those of bfloat16, and small numbers count.
#[test]
fn halves_are_summed_apart_and_then_together_whatever_the_shape() {
    let Some(halves) = AmxFp16::new() else { return };
    let mut seed = 3;
    let mut values = |count: usize, step: f32| -> Vec<half::f16> {
        (0..count).map(|_| half::f16::from_f32(f32::from(noise(&mut seed)) * step)).collect()
    };
    for step in [1.37, 300.0, 1.0 / 131_072.0] {
        for (rows, width) in [(16, 64), (7, 64), (5, 32), (1, 4)] {
            let (a, b) = (values(rows * 40, 1.0), values(width * 8, step));
            let mut out = [[7.0; 16]; ROWS];
            let tiles = Tiles::new(halves.amx(), rows, width);
            tiles.zero::<3>();
            for _ in 0..2 {
                tiles.load_a::<1, _>(&a, 40, 8);
                tiles.load_b::<0, _>(&b, 32);
                tiles.dot_f16::<3, 1, 0>(halves);
            }
            tiles.store_c::<3>(out.as_flattened_mut(), 16);
            for (m, n) in (0..ROWS).flat_map(|m| (0..16).map(move |n| (m, n))) {
                let got = out[m][n];
                if m >= rows {
                    assert_eq!(got, 7.0);
                    continue;
                }
                let mut sum = 0.0f32;
                for _ in 0..2 {
                    let mut apart = [0.0f32; 2];
                    for k in 0..width / 2 {
                        let (x, w) = (a[m * 40 + 4 + k].to_f32(), b[k / 2 * 32 + 2 * n + k % 2].to_f32());
                        apart[k % 2] = x.mul_add(w, apart[k % 2]);
                    }
                    sum += apart[0] + apart[1];
                }
                assert_eq!(got, sum, "[{m}, {n}] of {rows} × {width}, weights of up to {}", 128.0 * step);
            }
        }
    }
}

#[test]
fn sums_are_carried_on_where_they_lie() {
    let Some(amx) = Amx::new() else { return };
    let (rows, step) = (3, 40);
    let one = half::bf16::ONE;
    let mut sums: Vec<f32> = (0..rows * step).map(|i| i as f32).collect();
    let before = sums.clone();
    let tiles = Tiles::new(amx, rows, 64);
    tiles.load_a::<0, _>(&vec![one; rows * 32], 32, 0);
    // Every other row of 64 bytes.
    let b: Vec<half::bf16> = (0..32 * 32).map(|i| if i / 32 % 2 == 0 { one } else { -one }).collect();
    tiles.load_b::<0, _>(&b, 64);
    tiles.load_c::<2>(&sums[8..], step);
    tiles.dot_bf16::<2, 0, 0>();
    tiles.store_c::<2>(&mut sums[8..], step);
    for (i, (sum, before)) in sums.iter().zip(before).enumerate() {
        let added = if (8..24).contains(&(i % step)) { 32.0 } else { 0.0 };
        assert_eq!(*sum, before + added, "{i}");
    }
}

#[test]
fn threads_have_tiles_of_their_own_once() {
    let Some(amx) = Amx::new() else { return };
    let _tiles = Tiles::new(amx, 16, 64);
    let there = std::thread::spawn(move || Tiles::new(amx, 3, 32).rows());
    assert_eq!(there.join().unwrap(), 3);
    let twice = std::panic::catch_unwind(|| Tiles::new(amx, 16, 64).rows());
    assert!(twice.is_err());
}

#[test]
fn rows_beyond_their_memory_are_refused() {
    let Some(amx) = Amx::new() else { return };
    let tiles = Tiles::new(amx, 4, 32);
    let fits = |len: usize, from: usize| {
        let x = vec![0u8; len];
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tiles.load_a::<0, _>(&x, 40, from))).is_ok()
    };
    assert!(fits(152, 0) && !fits(151, 0) && !fits(152, 1));
}
