//! Chunks of any text: within the size, and together the text.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::{ChunkError, ChunkMethod, ChunkOptions, TextChunk};
use crate::{EncoderError, EncoderTokenizer, Tokenizer};

static OPEN: LazyLock<Vec<EncoderTokenizer>> = LazyLock::new(|| {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let open = |name| {
        let tokenizer = Tokenizer::open_path(&fixtures.join(name)).expect("opens");
        EncoderTokenizer::new(Arc::new(tokenizer)).expect("has a layout")
    };
    ["encoders/bert", "encoders/xlmr", "encoders/roberta", "tiny/sentencepiece-bpe.gguf"].map(open).into()
});

const METHODS: [ChunkMethod; 3] = [ChunkMethod::Tokens, ChunkMethod::Sentences, ChunkMethod::Headings];

fn options(method: ChunkMethod, size: usize, overlap: usize) -> ChunkOptions<'static> {
    ChunkOptions { method, size, overlap, should_stop: &|| false }
}

fn parts<'a>(text: &'a str, chunks: &[TextChunk]) -> Vec<&'a str> {
    chunks.iter().map(|chunk| &text[chunk.bytes.clone()]).collect()
}

#[test]
fn sentences_are_packed_and_repeated() {
    let text = "One two. Three four five. Six? Seven eight nine ten eleven. Twelve.";
    let chunks =
        |overlap| OPEN[1].chunk(text, &options(ChunkMethod::Sentences, 30, overlap)).expect("chunks");
    let alone = parts(text, &chunks(0)).concat();
    assert_eq!(alone, text);
    let repeated = chunks(1);
    assert!(repeated.len() > 1 && repeated.windows(2).any(|two| two[1].bytes.start < two[0].bytes.end));
    for chunk in &repeated {
        let before = text[..chunk.bytes.start].trim_end();
        assert!(before.is_empty() || before.ends_with(['.', '?']), "{before:?}");
    }
}

#[test]
fn wrapped_lines_are_one_sentence() {
    let text = "This sentence is\nwrapped, and\ngoes on.\n\n- a list\n- of two\n\nlast";
    let found = super::sentences::bounds(text, 0..text.len());
    let sentences: Vec<&str> = found.windows(2).map(|two| text[two[0]..two[1]].trim()).collect();
    let sentences: Vec<&str> = sentences.into_iter().filter(|sentence| !sentence.is_empty()).collect();
    assert_eq!(sentences, ["This sentence is\nwrapped, and\ngoes on.", "- a list", "- of two", "last"]);
}

#[test]
fn sections_carry_their_headings() {
    let text = "before\n# Größe\nOne.\n## B b\nTwo. Three.\n# C\n";
    let chunks = OPEN[0].chunk(text, &options(ChunkMethod::Headings, 50, 0)).expect("chunks");
    let paths: Vec<String> = chunks.iter().map(|chunk| chunk.headings.join("/")).collect();
    assert_eq!(paths, ["", "Größe", "Größe/B b", "C"]);
    assert_eq!(chunks[1].bytes, 7..22);
    assert_eq!((chunks[2].chars.clone(), chunks[2].bytes.start), (20..39, 22));
}

#[test]
fn bounds_are_errors() {
    let refuse =
        |text: &str, options: ChunkOptions<'_>| OPEN[0].chunk(text, &options).expect_err("is refused");
    assert_eq!(refuse("a", options(ChunkMethod::Tokens, 0, 0)), ChunkError::Size);
    let overlap = refuse("a", options(ChunkMethod::Tokens, 10, 6));
    assert_eq!(overlap, ChunkError::Overlap { overlap: 6, size: 10 });
    assert!(matches!(
        refuse(&"a".repeat((16 << 20) + 1), options(ChunkMethod::Tokens, 9, 0)),
        ChunkError::TooManyBytes { .. }
    ));
    assert!(matches!(
        refuse(&"a ".repeat(40_000), options(ChunkMethod::Tokens, 1, 0)),
        ChunkError::TooManyChunks { .. }
    ));
    let stopped = ChunkOptions { should_stop: &|| true, ..options(ChunkMethod::Tokens, 9, 0) };
    assert_eq!(refuse("a", stopped), ChunkError::Encoder(EncoderError::Stopped));
    assert_eq!(OPEN[0].chunk("", &options(ChunkMethod::Tokens, 9, 0)), Ok(Vec::new()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_cover_any_text(
        text in "((\\PC{1,12}|[a-z]{1,9} |[A-Z][a-z ]{1,20}[.!?] |\\n#{1,3} [a-z]{1,5}\\n|\\n\\n|😀|你好。|\\r\\n|```\\n)){0,30}",
        size in 1_usize..40,
        overlap in 0_usize..20,
    ) {
        for encoder in OPEN.iter() {
            for method in METHODS {
                let overlap = if method == ChunkMethod::Tokens { overlap.min(size / 2) } else { overlap };
                let alone = encoder.chunk(&text, &options(method, size, 0)).expect("chunks");
                prop_assert_eq!(parts(&text, &alone).concat(), text.as_str());
                let repeated = encoder.chunk(&text, &options(method, size, overlap)).expect("chunks");
                let mut done = 0;
                for chunk in alone.iter().chain(&repeated) {
                    let part = &text[chunk.bytes.clone()];
                    prop_assert!(!part.is_empty());
                    prop_assert!(chunk.tokens <= size || part.chars().count() == 1, "{} > {}: {:?}", chunk.tokens, size, part);
                    prop_assert_eq!(text[..chunk.bytes.start].chars().count(), chunk.chars.start);
                    prop_assert_eq!(part.chars().count(), chunk.chars.len());
                }
                for chunk in &repeated {
                    prop_assert!(chunk.bytes.start <= done && chunk.bytes.end > done, "{:?} after {}", chunk, done);
                    done = chunk.bytes.end;
                }
                prop_assert_eq!(done, text.len());
            }
        }
    }
}
