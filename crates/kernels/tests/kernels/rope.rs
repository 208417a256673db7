//! Rotary embedding: both pairings.

use cpu::{Pool, Tier};
use kernels::{Compute, Pairing, RopeTable, rope};

#[test]
fn both_pairings_turn_by_the_same_angles_and_keep_the_rest() {
    let c = Compute::new(Tier::best(), Pool::new(1, None).unwrap());
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
    rope(&c, &mut turned, &table, 2, 5, Pairing::Halves);
    rope(&c, &mut adjacent, &table, 2, 5, Pairing::Adjacent);
    assert_eq!(swap(&turned), adjacent);
    assert_eq!(turned[..10], halves[..10], "position 0 turns nothing");
    assert!(turned.chunks(5).zip(halves.chunks(5)).all(|(t, h)| t[4] == h[4]));
    let (x, y) = (halves[10], halves[12]);
    let (sin, cos) = 10f32.sin_cos();
    assert_eq!((turned[10], turned[12]), (x * cos - y * sin, y * cos + x * sin));
}
