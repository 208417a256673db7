//! A row's result never depends on the batch around it: bit for bit, in the fast precision too.

use crate::runner;

use cpu::Tier;
use kernels::{KvDtype, Precision};
use runner::{Run, Runner, Sequence, cases, prompts};

/// Sequences that decode, of eight.
const DECODING: usize = 5;

/// Eight sequences: some decode one token a batch, as answers, others are in the midst of a prompt.
fn eight_together(runner: &mut Runner, prompts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let vocab = runner.model.spec.vocab;
    let mut sequences: Vec<Sequence> = prompts.iter().map(|_| Sequence::default()).collect();
    let mut done = vec![0; prompts.len()];
    let mut logits = vec![Vec::new(); prompts.len()];
    let mut step = 0;
    while done.iter().zip(prompts).any(|(d, p)| *d < p.len()) {
        let take: Vec<usize> = (0..prompts.len())
            .map(|i| {
                let chunk = if i < DECODING { 1 } else { 3 + (step + i) % 14 };
                chunk.min(prompts[i].len() - done[i])
            })
            .collect();
        let mut runs = Vec::new();
        for (i, sequence) in sequences.iter_mut().enumerate() {
            if take[i] > 0 {
                runs.push(Run { sequence, tokens: &prompts[i][done[i]..done[i] + take[i]] });
            }
        }
        runner.decode_rows = take[..DECODING].iter().sum();
        let rows = runner.step(&mut runs);
        let mut rows = rows.chunks_exact(vocab);
        for i in 0..prompts.len() {
            for _ in 0..take[i] {
                logits[i].extend_from_slice(rows.next().expect("a row"));
            }
            done[i] += take[i];
        }
        step += 1;
    }
    runner.decode_rows = 0;
    sequences.into_iter().for_each(|s| runner.end(s));
    logits
}

#[test]
fn a_sequence_among_seven_others_gets_the_bits_it_gets_alone() {
    for tier in Tier::available() {
        for case in cases() {
            let fast = [KvDtype::F16, KvDtype::Bf16, KvDtype::Q8_0].map(|kv| (Precision::Fast, kv));
            for (precision, kv) in fast.into_iter().chain([(Precision::F32, KvDtype::F32)]) {
                let mut runner = Runner::load(&case, tier, precision, kv, None);
                let whole = &prompts(&case)[0];
                let eight: Vec<Vec<u32>> = (0..8)
                    .map(|i| whole.iter().cycle().skip(i * 5).take(whole.len() - 2 * i).copied().collect())
                    .collect();
                let together = eight_together(&mut runner, &eight);
                for (i, (prompt, together)) in eight.iter().zip(&together).enumerate() {
                    runner.decode_rows = if i < DECODING { prompt.len() } else { 0 };
                    let alone = runner.prompt(prompt, prompt.len());
                    assert_same_bits(&alone, together, &format!("{tier} {precision:?} {}", case.display()));
                }
            }
        }
    }
}

#[test]
fn logits_of_wanted_rows_are_those_of_all_rows() {
    for case in cases() {
        let mut runner = Runner::load(&case, Tier::best(), Precision::Fast, KvDtype::F16, None);
        let vocab = runner.model.spec.vocab;
        let tokens = &prompts(&case)[0];
        let all = runner.prompt(tokens, tokens.len());
        let want = [3, 4, tokens.len() - 1];
        let mut sequence = Sequence::default();
        let some = runner.step_wanting(&mut [Run { sequence: &mut sequence, tokens }], &want);
        runner.end(sequence);
        for (row, &index) in some.chunks_exact(vocab).zip(&want) {
            assert_same_bits(row, &all[index * vocab..(index + 1) * vocab], &case.display().to_string());
        }
        let mut sequence = Sequence::default();
        let none = runner.step_wanting(&mut [Run { sequence: &mut sequence, tokens: &tokens[..9] }], &[]);
        assert!(none.is_empty());
        let rest = runner.step(&mut [Run { sequence: &mut sequence, tokens: &tokens[9..] }]);
        assert_same_bits(&rest, &all[9 * vocab..], "after rows that nobody wanted");
    }
}

fn assert_same_bits(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let differs = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
    assert!(differs.is_none(), "{what}: value {differs:?} differs");
}
