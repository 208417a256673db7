//! Inputs of encoders against transformers: tokens, token types, offsets, pairs and truncation, of small tokenizers as
//! their families publish them. `tools/fixtures/encoder_tokens.py` makes them.

use std::path::PathBuf;
use std::sync::Arc;

use text::{
    EncodeOptions, EncoderError, EncoderInput, EncoderTokenizer, PairTruncation, Special, TextOrPair,
    TextTruncation, Tokenizer,
};

use crate::support;

/// The second text of all pairs.
const PAIR_WITH: &str = "Größe und wow 你好, the end.";

fn open(name: &str) -> EncoderTokenizer {
    let path: PathBuf = support::fixtures().join("encoders").join(name);
    let tokenizer = Tokenizer::open_path(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    EncoderTokenizer::new(Arc::new(tokenizer)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn options(max_tokens: usize) -> EncodeOptions<'static> {
    EncodeOptions { offsets: true, ..EncodeOptions::new(max_tokens) }
}

fn cut(max_tokens: usize, truncation: TextTruncation, pair: PairTruncation) -> EncodeOptions<'static> {
    EncodeOptions { truncation, pair, ..options(max_tokens) }
}

fn numbers(values: impl IntoIterator<Item = u32>) -> String {
    format!("{:08x}", support::fnv(values.into_iter().flat_map(u32::to_le_bytes)))
}

fn types(input: &EncoderInput) -> String {
    let zeros = vec![0; input.tokens.len()];
    let types = if input.types.is_empty() { &zeros } else { &input.types };
    numbers(types.iter().map(|kind| u32::from(*kind)))
}

fn places(input: &EncoderInput) -> String {
    numbers(input.offsets.iter().flat_map(|(start, end)| [*start, *end]))
}

const NAMES: [&str; 12] = [
    "text",
    "types",
    "offsets",
    "pair",
    "types of the pair",
    "end",
    "start",
    "only_second, end",
    "only_second, start",
    "longest_first, end",
    "longest_first, start",
    "offsets after the start is cut",
];

/// What `encoder_tokens.py` writes of a text.
fn line(encoder: &EncoderTokenizer, text: &str) -> Vec<String> {
    let encode = |text: TextOrPair<'_>, options: EncodeOptions<'_>| encoder.encode(&text, &options);
    let plain = |text| encode(text, options(usize::MAX)).expect("encodes");
    let (one, two) = (TextOrPair::Text(text), TextOrPair::Pair(text, PAIR_WITH));
    let (single, pair) = (plain(one), plain(two));
    let ids = |found: Result<EncoderInput, EncoderError>, whole: &EncoderInput| match found {
        Err(EncoderError::FirstTooLong { .. }) => "-".to_owned(),
        Err(other) => panic!("{text:?}: {other}"),
        Ok(input) => {
            assert_eq!(input.tokens.len() + input.truncated, whole.tokens.len(), "{text:?}");
            numbers(input.tokens)
        }
    };
    let (end, start) = (TextTruncation::End, TextTruncation::Start);
    let (second, longest) = (PairTruncation::OnlySecond, PairTruncation::LongestFirst);
    let mut out = vec![
        numbers(single.tokens.iter().copied()),
        types(&single),
        places(&single),
        numbers(pair.tokens.iter().copied()),
        types(&pair),
        ids(encode(one, cut(12, end, longest)), &single),
        ids(encode(one, cut(12, start, longest)), &single),
    ];
    for strategy in [second, longest] {
        for side in [end, start] {
            out.push(ids(encode(two, cut(16, side, strategy)), &pair));
        }
    }
    out.push(places(&encode(one, cut(12, start, longest)).expect("cut")));
    out
}

/// Compares all strings; `but`: texts whose tokens differ on purpose.
fn compare(name: &str, expected: &str, but: impl Fn(&str, usize) -> bool) {
    let encoder = open(name);
    compare_with(&encoder, name, expected, &but);
    let packed = Arc::new(support::packed(encoder.tokenizer()));
    let packed = EncoderTokenizer::new(packed).expect("a layout");
    compare_with(&packed, &format!("{name}, packed"), expected, &but);
}

fn compare_with(encoder: &EncoderTokenizer, name: &str, expected: &str, but: &dyn Fn(&str, usize) -> bool) {
    let path = support::fixtures().join(format!("expected/encoder-{expected}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let strings: Vec<String> = support::strings().into_iter().step_by(5).collect();
    assert_eq!(strings.len(), expected.lines().count(), "{name}: a line a string");
    let mut wrong = Vec::new();
    for (text, want) in strings.iter().zip(expected.lines()) {
        let ours = line(encoder, text);
        let want: Vec<&str> = want.split(' ').collect();
        assert_eq!(want.len(), NAMES.len());
        for (at, what) in NAMES.iter().enumerate() {
            if ours[at] != want[at] && !but(text, at) {
                let options = options(usize::MAX);
                let input = encoder.encode(&TextOrPair::Text(text), &options).expect("encodes");
                wrong.push(format!("{text:?}: {what}\n  {:?}\n  {:?}", input.tokens, input.offsets));
                break;
            }
        }
    }
    let shown = wrong[..wrong.len().min(8)].join("\n");
    assert!(wrong.is_empty(), "{name}: {} of {} differ:\n{shown}", wrong.len(), strings.len());
}

/// Unigram models of the library find control tokens in plain text; here they are spelled.
fn named(text: &str) -> bool {
    ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
        .iter()
        .any(|name| text.contains(name))
}

#[test]
fn bert_json() {
    compare("bert", "bert", |_, _| false);
}

#[test]
fn bert_gguf() {
    compare("bert.gguf", "bert", |_, _| false);
}

#[test]
fn bert_vocab_txt() {
    compare("bert-cased", "bert-cased", |_, _| false);
}

#[test]
fn mpnet_vocab_txt() {
    compare("mpnet", "mpnet", |_, _| false);
}

#[test]
fn unigram_json() {
    compare("xlmr", "xlmr", |text, _| named(text));
    compare("deberta", "deberta", |text, _| named(text));
}

#[test]
fn byte_level_json() {
    compare("roberta", "roberta", |_, _| false);
    compare("modernbert", "modernbert", |_, _| false);
}

/// A GGUF has no offsets to trim and no types, but the same tokens in the same layout.
#[test]
fn gguf_has_the_tokens_of_json() {
    for (gguf, json) in [("xlmr.gguf", "xlmr"), ("roberta.gguf", "roberta")] {
        let (gguf, json) = (open(gguf), open(json));
        for text in support::strings().iter().step_by(5).filter(|text| !named(text)) {
            for input in [TextOrPair::Text(text), TextOrPair::Pair(text, PAIR_WITH)] {
                let [ours, want] = [&gguf, &json]
                    .map(|encoder| encoder.encode(&input, &options(usize::MAX)).expect("encodes").tokens);
                assert_eq!(ours, want, "{text:?}");
            }
        }
    }
}

#[test]
fn control_tokens_in_texts() {
    let encoder = open("bert");
    let text = TextOrPair::Text("a [SEP] b");
    let plain = encoder.encode(&text, &options(99)).expect("encodes");
    assert_eq!(plain.tokens.iter().filter(|id| **id == 3).count(), 1, "the last");
    let parsed = encoder.encode(&text, &EncodeOptions { special: Special::Parse, ..options(99) });
    assert_eq!(parsed.expect("encodes").tokens.iter().filter(|id| **id == 3).count(), 2);
}

#[test]
fn empty_texts_are_special_tokens() {
    let encoder = open("bert");
    let empty = encoder.encode(&TextOrPair::Text(""), &options(99)).expect("encodes");
    assert_eq!((empty.tokens, empty.special), (vec![2, 3], vec![true, true]));
    let pair = encoder.encode(&TextOrPair::Pair("", ""), &options(99)).expect("encodes");
    assert_eq!((pair.tokens, pair.types, pair.second), (vec![2, 3, 3], vec![0, 0, 1], 2));
}

#[test]
fn refusals_say_tokens_and_limit() {
    let encoder = open("bert");
    let refuse = |text: TextOrPair<'_>, options: EncodeOptions<'_>| {
        encoder.encode(&text, &options).expect_err("is refused")
    };
    let long = "a ".repeat(100);
    let error = refuse(TextOrPair::Text(&long), options(50));
    assert_eq!(error, EncoderError::TooLong { tokens: 102, exact: true, limit: 50 });
    assert!(error.to_string().contains("102") && error.to_string().contains("50"), "{error}");
    let error = refuse(TextOrPair::Text(&"a ".repeat(1 << 20)), options(50));
    assert!(
        matches!(error, EncoderError::TooLong { tokens: 51..5000, exact: false, limit: 50 }),
        "{error:?}"
    );
    let both = cut(50, TextTruncation::End, PairTruncation::OnlySecond);
    let error = refuse(TextOrPair::Pair(&long, "b"), both);
    assert_eq!(error, EncoderError::FirstTooLong { tokens: 103, limit: 50 });
    assert_eq!(
        refuse(TextOrPair::Text("a"), options(2)),
        EncoderError::LimitTooSmall { limit: 2, special: 2 }
    );
    let stopped = EncodeOptions { should_stop: &|| true, ..options(50) };
    assert_eq!(refuse(TextOrPair::Text("a"), stopped), EncoderError::Stopped);
}

#[test]
fn a_long_second_text_is_cut_first() {
    let encoder = open("bert");
    let long = "b ".repeat(100);
    let few = EncodeOptions { max_second: Some(5), ..options(50) };
    let input = encoder.encode(&TextOrPair::Pair("a a", &long), &few).expect("fits then");
    assert_eq!((input.tokens.len(), input.truncated, input.second), (2 + 5 + 3, 95, 4));
}

/// As sentence-transformers counts it: the prompt's tokens alone, and the special tokens before.
#[test]
fn prompts_are_read_with_the_text() {
    for name in ["bert", "xlmr", "modernbert"] {
        let encoder = open(name);
        let prompt = EncodeOptions { prompt: Some("query: "), ..options(99) };
        let input = encoder.encode(&TextOrPair::Text("wow Größe"), &prompt).expect("encodes");
        let whole = encoder.encode(&TextOrPair::Text("query: wow Größe"), &options(99)).expect("encodes");
        let alone = encoder.encode(&TextOrPair::Text("query: "), &options(99)).expect("encodes");
        assert_eq!(input.tokens, whole.tokens, "{name}");
        assert_eq!(input.skip, alone.tokens.len() - 1, "{name}");
        let last = input.offsets.iter().rev().find(|place| place.1 > 0).expect("a token");
        assert_eq!(last.1 as usize, "wow Größe".len(), "{name}: offsets are of the text");
        let cut = EncodeOptions { max_tokens: 4, truncation: TextTruncation::Start, ..prompt };
        let cut = encoder.encode(&TextOrPair::Text(&"wow ".repeat(50)), &cut).expect("encodes");
        assert_eq!((cut.tokens.len(), cut.skip), (4, 1), "{name}: the prompt is cut away");
    }
}

#[test]
fn windows_cover_the_text() {
    let encoder = open("xlmr");
    let text = "Größe wow café the end ".repeat(40);
    let options = EncodeOptions { prompt: Some("query: "), ..EncodeOptions::new(30) };
    let whole = encoder.encode(&TextOrPair::Text(&text), &EncodeOptions { max_tokens: 9999, ..options });
    let whole = whole.expect("encodes");
    let windows = encoder.encode_windows(&text, &options, 99).expect("encodes");
    assert!(windows.len() > 5);
    let mut joined = whole.tokens[..whole.skip].to_vec();
    for window in &windows {
        assert!(window.tokens.len() <= 30 && window.skip == whole.skip);
        assert_eq!(window.tokens[..window.skip], whole.tokens[..whole.skip]);
        joined.extend(&window.tokens[window.skip..window.tokens.len() - 1]);
    }
    joined.push(*whole.tokens.last().expect("a token"));
    assert_eq!(joined, whole.tokens);
    assert!(matches!(encoder.encode_windows(&text, &options, 3), Err(EncoderError::TooLong { .. })));
    assert_eq!(encoder.encode_windows("", &options, 3).expect("encodes").len(), 1);
}
