//! Rotary embedding: both pairings.

use cpu::{Pool, Tier};
use kernels::{Compute, Pairing, RopeTable, rms_norm_in_place, rope};

#[test]
fn both_pairings_turn_by_the_same_angles_and_keep_the_rest() {
    Tier::available().into_iter().for_each(both_pairings);
}

fn both_pairings(tier: Tier) {
    let c = Compute::new(tier, Pool::new(1, None).unwrap());
    let mut table = RopeTable::new(3, 2);
    for row in 0..3 {
        table.set_row(row, 10 * row, &[1.0, 0.1], 1.0);
    }
    let halves: Vec<f32> = (0..3 * 2 * 5).map(|i| i as f32).collect();
    // The same pairs in the other order: (0, 2), (1, 3) against (0, 1), (2, 3).
    let order = [0, 2, 1, 3, 4];
    let swap = |x: &[f32]| -> Vec<f32> { x.chunks(5).flat_map(|h| order.map(|i| h[i])).collect() };
    let mut adjacent = swap(&halves);
    let mut turned = halves.clone();
    rope(&c, &mut turned, &table, 2, 5, Pairing::Halves, None);
    rope(&c, &mut adjacent, &table, 2, 5, Pairing::Adjacent, None);
    assert_eq!(swap(&turned), adjacent);
    assert_eq!(turned[..10], halves[..10], "position 0 turns nothing");
    assert!(turned.chunks(5).zip(halves.chunks(5)).all(|(t, h)| t[4] == h[4]));
    let (x, y) = (halves[10], halves[12]);
    let (sin, cos) = 10f32.sin_cos();
    assert_eq!((turned[10], turned[12]), (x * cos - y * sin, y * cos + x * sin));
}

#[test]
fn norms_on_the_way_have_the_bits_of_those_before() {
    let (rows, heads, dim, eps) = (150, 3, 38, 1e-6);
    let mut table = RopeTable::new(rows, 17);
    let frequencies: Vec<f32> = (0..17).map(|i| 0.7f32.powi(i)).collect();
    for row in 0..rows {
        table.set_row(row, 3 * row, &frequencies, 1.5);
    }
    let x: Vec<f32> = (0..rows * heads * dim).map(|i| (i as f32 * 0.37).sin()).collect();
    let weight: Vec<f32> = (0..dim).map(|i| 1.0 + i as f32 / 64.0).collect();
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for pairing in [Pairing::Halves, Pairing::Adjacent] {
            let (mut once, mut apart) = (x.clone(), x.clone());
            rope(&c, &mut once, &table, heads, dim, pairing, Some((&weight, eps)));
            rms_norm_in_place(&c, &mut apart, &weight, eps, dim);
            rope(&c, &mut apart, &table, heads, dim, pairing, None);
            assert_eq!(once, apart, "{tier}, {pairing:?}");
        }
    }
}
