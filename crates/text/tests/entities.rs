//! Entities of token classification against transformers' pipeline (`tools/fixtures/entities.py`), and by hand for
//! BIOES, which the pipeline does not know.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use text::{
    ClassifiedTokens, EncodeOptions, EncoderTokenizer, EntityStrategy, TextEntity, TextOrPair, Tokenizer,
    entities,
};

use crate::support;

/// The difference of scores that is allowed: expected ones have six decimals.
const BUDGET: f32 = 2e-6;

#[derive(Deserialize)]
struct Case {
    tokenizer: String,
    text: String,
    labels: Vec<String>,
    scores: Vec<Vec<f32>>,
    expected: HashMap<String, Vec<(String, f32, usize, usize)>>,
}

const STRATEGIES: [(&str, EntityStrategy); 5] = [
    ("none", EntityStrategy::None),
    ("simple", EntityStrategy::Simple),
    ("first", EntityStrategy::First),
    ("max", EntityStrategy::Max),
    ("average", EntityStrategy::Average),
];

fn open(name: &str) -> EncoderTokenizer {
    let path = support::fixtures().join("encoders").join(name);
    let tokenizer = Tokenizer::open_path(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    EncoderTokenizer::new(Arc::new(tokenizer)).expect("has a layout")
}

#[test]
fn as_the_pipeline_of_transformers() {
    let text = std::fs::read_to_string(support::fixtures().join("entities.json")).expect("committed");
    let cases: Vec<Case> = serde_json::from_str(&text).expect("a list of cases");
    let mut compared = 0;
    for case in &cases {
        let encoder = open(&case.tokenizer);
        let options = EncodeOptions { offsets: true, ..EncodeOptions::new(999) };
        let input = encoder.encode(&TextOrPair::Text(&case.text), &options).expect("encodes");
        assert_eq!(input.tokens.len(), case.scores.len(), "{}: {:?}", case.tokenizer, case.text);
        let scores = case.scores.concat();
        let tokens = ClassifiedTokens {
            text: &case.text,
            scores: &scores,
            offsets: &input.offsets,
            special: &input.special,
            subword: &input.subword,
        };
        for (name, strategy) in STRATEGIES {
            let ours = entities(&tokens, &case.labels, strategy, &["O".to_owned()]);
            let want = &case.expected[name];
            let shown = format!("{}, {name}: {:?}\n{ours:?}\n{want:?}", case.tokenizer, case.text);
            assert_eq!(ours.len(), want.len(), "{shown}");
            for (ours, (label, score, start, end)) in ours.iter().zip(want) {
                assert_eq!((&ours.label, &ours.chars), (label, &(*start..*end)), "{shown}");
                assert!((ours.score - score).abs() <= BUDGET, "{shown}");
                let chars = case.text.chars().skip(*start).take(end - start);
                assert_eq!(case.text[ours.bytes.clone()], chars.collect::<String>(), "{shown}");
                assert!(ours.token < input.tokens.len() && !input.special[ours.token]);
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

/// Entities of words with the given labels, each certain.
fn by_labels(words: &[&str]) -> Vec<TextEntity> {
    let mut labels: Vec<String> = words.iter().map(|label| (*label).to_owned()).collect();
    labels.sort();
    labels.dedup();
    let text = "ab ".repeat(words.len());
    let scores: Vec<f32> = words
        .iter()
        .flat_map(|word| labels.iter().map(move |label| f32::from(u8::from(label == word))))
        .collect();
    let offsets: Vec<(u32, u32)> = (0..words.len() as u32).map(|at| (at * 3, at * 3 + 2)).collect();
    let none = vec![false; words.len()];
    let tokens =
        ClassifiedTokens { text: &text, scores: &scores, offsets: &offsets, special: &none, subword: &none };
    entities(&tokens, &labels, EntityStrategy::Simple, &["O".to_owned()])
}

#[test]
fn bioes_and_bilou() {
    let spans = |words: &[&str]| -> Vec<(String, std::ops::Range<usize>)> {
        by_labels(words).into_iter().map(|entity| (entity.label, entity.bytes)).collect()
    };
    let per = |bytes| ("PER".to_owned(), bytes);
    assert_eq!(spans(&["B-PER", "I-PER", "E-PER", "I-PER"]), [per(0..8), per(9..11)]);
    assert_eq!(
        spans(&["S-PER", "S-PER", "O", "S-PER", "I-PER"]),
        [per(0..2), per(3..5), per(9..11), per(12..14)]
    );
    assert_eq!(spans(&["U-PER", "B-PER", "L-PER", "L-PER"]), [per(0..2), per(3..8), per(9..11)]);
    assert_eq!(spans(&["B-PER", "E-LOC"]), [per(0..2), ("LOC".to_owned(), 3..5)]);
    assert_eq!(spans(&["B-PER", "B-PER", "PER"]), [per(0..2), per(3..8)]);
}

#[test]
fn no_labels_no_entities() {
    let tokens = ClassifiedTokens { text: "a", scores: &[], offsets: &[], special: &[], subword: &[] };
    assert_eq!(entities(&tokens, &[], EntityStrategy::Average, &[]), []);
    let labels = ["A".to_owned()];
    let tokens = ClassifiedTokens { scores: &[1.0, 1.0], ..tokens };
    let found = entities(&tokens, &labels, EntityStrategy::Average, &[]);
    assert_eq!(found.len(), 1, "lists that are too short count as 0 and no");
}
