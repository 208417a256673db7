//! Biases of attention scores against transformers: `tools/fixtures/attention.py`.

use kernels::{DistanceBias, RelativeIndex, ScoreBias};

/// The numbers of a line of the fixture.
pub(crate) fn fixture(name: &str) -> Vec<f64> {
    let text = include_str!("../fixtures/attention-biases.txt");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let runs = line.unwrap_or_else(|| panic!("no {name}")).split(' ').map(|run| match run.split_once('*') {
        Some((number, count)) => (number, count.parse().unwrap()),
        None => (run, 1),
    });
    runs.flat_map(|(number, count)| vec![number.parse::<f64>().unwrap(); count]).collect()
}

/// The inputs of the fixture's attention.
pub(crate) fn values(count: usize, factor: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * factor % 101) as f32 - 50.0) / 16.0).collect()
}

/// What is added to the scores of `count` keys from `first_key` on.
fn added(bias: &DistanceBias, head: usize, position: usize, first_key: usize, count: usize) -> Vec<f32> {
    let mut scores = vec![0.0; count];
    bias.add(head, 0, position, first_key, &mut scores);
    scores
}

#[test]
fn alibi_has_the_slopes_of_its_paper() {
    for heads in [1, 8, 12, 16, 20] {
        let bias = DistanceBias::alibi(heads, 100);
        let slopes = fixture(&format!("alibi {heads}"));
        assert_eq!(slopes.len(), heads);
        for (head, slope) in slopes.into_iter().enumerate() {
            let slope = slope as f32;
            let got = added(&bias, head, 50, 40, 32);
            let want: Vec<f32> = (40usize..72).map(|key| -slope * key.abs_diff(50) as f32).collect();
            let near = |(got, want): (&f32, &f32)| (got - want).abs() <= want.abs() * 1e-6;
            assert!(got.iter().zip(&want).all(near), "{heads} heads, {head}: {got:?}, not {want:?}");
        }
    }
}

#[test]
fn distances_have_the_buckets_of_transformers() {
    for (buckets, max_distance) in [(32, 128), (64, 256), (16, 20), (32, 100)] {
        let table: Vec<f32> = (0..2 * buckets).map(|i| (i / 2 + i % 2 * 1000) as f32).collect();
        let bias = DistanceBias::buckets(&table, 2, buckets, max_distance);
        for name in ["t5", "mpnet"] {
            let want = fixture(&format!("{name} {buckets} {max_distance} -300 300"));
            for head in 0..2 {
                for first in [0, 150, 300, 299, 569] {
                    let got = added(&bias, head, 300, first, 32);
                    let want: Vec<f32> =
                        want[first..first + 32].iter().map(|b| *b as f32 + head as f32 * 1000.0).collect();
                    assert_eq!(got, want, "{name} {buckets} {max_distance}, head {head}, from {first}");
                }
                let all: Vec<f32> =
                    (0..601).flat_map(|key| added(&bias, head, 300, key, 1)).map(|b| b % 1000.0).collect();
                assert!(all.iter().zip(&want).all(|(got, want)| f64::from(*got) == *want), "{all:?}");
            }
        }
    }
}

#[test]
fn relative_positions_have_the_embeddings_of_deberta() {
    for (name, index) in [
        ("256 512", RelativeIndex::buckets(256, 512)),
        ("8 24", RelativeIndex::buckets(8, 24)),
        ("64 4096", RelativeIndex::buckets(64, 4096)),
        ("-1 20", RelativeIndex::exact(20)),
    ] {
        let want = fixture(&format!("deberta {name} -600 600"));
        assert_eq!(want.len(), 1201);
        for (at, want) in want.iter().enumerate() {
            // The query is `at − 600` after the key.
            let (query, key) = (at, 600);
            assert_eq!(index.of(query, key) as f64, *want, "{name}: {query} after {key}");
            assert!(index.of(query, key) < index.embeddings());
        }
    }
}
