//! Part by part and as a whole: the same tokens and offsets. Limits hold for any text.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::content::{Demand, tokenize};
use super::{EncodeOptions, EncoderTokenizer, PairTruncation, TextOrPair, TextTruncation};
use crate::safe_cuts::{PART_BYTES, SafeCuts};
use crate::{Special, Tokenizer};

const ALL: [&str; 10] = [
    "encoders/bert",
    "encoders/bert.gguf",
    "encoders/bert-cased",
    "encoders/mpnet",
    "encoders/xlmr",
    "encoders/xlmr.gguf",
    "encoders/deberta",
    "encoders/roberta",
    "encoders/modernbert",
    "tiny/sentencepiece-bpe.gguf",
];

static OPEN: LazyLock<Vec<(&'static str, EncoderTokenizer)>> = LazyLock::new(|| {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let open = |name| {
        let tokenizer = Tokenizer::open_path(&fixtures.join(name)).expect("opens");
        (name, EncoderTokenizer::new(Arc::new(tokenizer)).expect("has a layout"))
    };
    ALL.into_iter().map(open).collect()
});

/// All tokens of a text with their places, tokenized at once by the library.
fn at_once(tokenizer: &Tokenizer, text: &str, special: Special) -> Vec<(u32, usize, usize)> {
    let mut out = Vec::new();
    let mut put = |id, (start, end)| {
        let mut spelled = vec![id];
        if tokenizer.is_spelled(id, special) {
            spelled.clear();
            tokenizer.spell(id, &mut spelled).expect("spells");
        }
        out.extend(spelled.into_iter().map(|id| (id, start, end)));
        Ok(())
    };
    tokenizer.encode_part(text, special, true, &mut put).expect("encodes");
    out
}

fn by_parts(tokenizer: &Tokenizer, text: &str, special: Special, offsets: bool) -> Vec<(u32, usize, usize)> {
    let demand =
        Demand { keep: usize::MAX, from_end: false, refuse: false, special, offsets, should_stop: &|| false };
    let content = tokenize(tokenizer, text, &demand).expect("encodes");
    content.tokens().map(|token| (token.id, token.start as usize, token.end as usize)).collect()
}

/// Compares the tokens and, with `places`, their offsets. Where a character map removes characters, the library's
/// offsets go astray for the rest of what it is given: then those of parts are the better ones.
fn same(text: &str, places: bool) {
    for (name, encoder) in OPEN.iter() {
        let tokenizer = encoder.tokenizer();
        for special in [Special::Plain, Special::Parse] {
            let mut whole = at_once(tokenizer, text, special);
            let ids: Vec<u32> = whole.iter().map(|token| token.0).collect();
            let mut parts = by_parts(tokenizer, text, special, true);
            if !places {
                whole.iter_mut().chain(&mut parts).for_each(|token| (token.1, token.2) = (0, 0));
            }
            if let Some(at) = (0..whole.len().max(parts.len())).find(|at| whole.get(*at) != parts.get(*at)) {
                let (ours, want) = (&parts[at.min(parts.len())..], &whole[at.min(whole.len())..]);
                let place = want.first().map_or(0, |token| token.1.saturating_sub(20));
                let near = &text[text.floor_char_boundary(place)..text.ceil_char_boundary(place + 60)];
                let shown = format!("{:?}\n{:?}", &ours[..ours.len().min(5)], &want[..want.len().min(5)]);
                panic!("{name}, {special:?}: token {at} of {near:?}\n{shown}");
            }
            let fast: Vec<u32> =
                by_parts(tokenizer, text, special, false).into_iter().map(|token| token.0).collect();
            assert!(fast == ids, "{name}, {special:?}, without offsets: {:?}", text.get(..200));
        }
    }
}

#[test]
fn which_pipelines_are_cut() {
    let cuts: Vec<SafeCuts> = OPEN.iter().map(|(_, encoder)| encoder.tokenizer().safe_cuts()).collect();
    let (words, spaces) = (SafeCuts::Whitespace, SafeCuts::Spaces);
    assert_eq!(cuts, [words, words, words, words, words, spaces, spaces, spaces, spaces, SafeCuts::None]);
}

#[test]
fn parts_are_the_whole() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/strings.jsonl");
    let strings = std::fs::read_to_string(path).expect("committed");
    let strings = strings.lines().step_by(3).map(|line| serde_json::from_str::<String>(line).expect("JSON"));
    let joined = strings.collect::<Vec<_>>().join(" a b ");
    assert!(SafeCuts::Spaces.part(&joined) < joined.len());
    same(&joined[..joined.floor_char_boundary(PART_BYTES * 12)], false);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn parts_of_any_text_are_the_whole(
        pieces in prop::collection::vec(
            "([a-zA-Z]{1,5}[ \\n\\t]{1,2}[a-zA-Z]{1,5}|<mask>|\\[MASK\\]| ?</s>|\\PC{1,6}|e\u{301}|  |[.,!?]){1,12}", 1..8),
        repeat in 1_usize..60,
    ) {
        same(&pieces.concat().repeat(repeat), true);
    }

    #[test]
    fn any_limit_holds(
        first in "(\\PC{0,12}|[a-z ]{0,40}|[\u{0}-\u{20}]{0,5})",
        second in "(\\PC{0,12}|[a-z ]{0,40})",
        max_tokens in 5_usize..20,
        start: bool,
        longest: bool,
        pair: bool,
    ) {
        for (name, encoder) in OPEN.iter() {
            let text = if pair { TextOrPair::Pair(&first, &second) } else { TextOrPair::Text(&first) };
            let options = EncodeOptions {
                truncation: if start { TextTruncation::Start } else { TextTruncation::End },
                pair: if longest { PairTruncation::LongestFirst } else { PairTruncation::OnlySecond },
                offsets: true,
                ..EncodeOptions::new(max_tokens)
            };
            let whole = encoder.encode(&text, &EncodeOptions { max_tokens: usize::MAX, ..options }).expect("encodes");
            let input = match encoder.encode(&text, &options) {
                Ok(input) => input,
                Err(error) => {
                    prop_assert!(pair && !longest, "{name}: {error}");
                    continue;
                }
            };
            prop_assert!(input.tokens.len() <= max_tokens, "{name}");
            prop_assert_eq!(input.tokens.len() + input.truncated, whole.tokens.len(), "{}", name);
            prop_assert!(whole.tokens.len() <= max_tokens || input.tokens.len() == max_tokens, "{}", name);
            for input in [&whole, &input] {
                let length = input.tokens.len();
                let mut last = (0, 0);
                prop_assert_eq!((input.special.len(), input.offsets.len(), input.subword.len()), (length, length, length));
                prop_assert!(input.types.is_empty() || input.types.len() == length);
                for (at, place) in input.offsets.iter().enumerate().filter(|(at, _)| !input.special[*at]) {
                    let text = if at < input.second { &first } else { &second };
                    let place = (place.0 as usize, place.1 as usize);
                    prop_assert!(text.get(place.0..place.1).is_some(), "{}: {:?} of {:?}", name, place, text);
                    prop_assert!(at == input.second || place.0 >= last.0, "{}: {:?} of {:?}", name, input.offsets, text);
                    last = place;
                }
            }
        }
    }
}
