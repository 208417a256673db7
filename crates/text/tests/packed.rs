//! Packed tokenizers: what is written is what is read, and what is not one is refused.

use std::path::Path;

use text::{PackedTokenizer, Special, Tokenizer, TokenizerCache};

use crate::support;

const FILES: [&str; 12] = [
    "tiny/byte-level.json",
    "tiny/byte-level.gguf",
    "tiny/word-piece.json",
    "tiny/unigram.json",
    "tiny/sentencepiece-bpe.gguf",
    "tiny/sentencepiece-unigram.gguf",
    "encoders/bert",
    "encoders/mpnet",
    "encoders/deberta",
    "encoders/modernbert",
    "encoders/roberta",
    "encoders/xlmr.gguf",
];

fn open(name: &str) -> Tokenizer {
    Tokenizer::open_path(&support::fixtures().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Everything else that a tokenizer tells, for each kind of vocabulary.
#[test]
fn a_packed_tokenizer_tells_the_same() {
    for name in FILES {
        let (one, other) = (open(name), support::packed(&open(name)));
        assert_eq!(one.vocab_size(), other.vocab_size(), "{name}");
        assert_eq!((one.bos(), one.eos(), one.ends()), (other.bos(), other.eos(), other.ends()), "{name}");
        assert_eq!((one.adds_bos(), one.remarks()), (other.adds_bos(), other.remarks()), "{name}");
        for id in 0..one.vocab_size() as u32 + 2 {
            assert_eq!(one.token_text(id), other.token_text(id), "{name}: {id}");
            assert_eq!(one.token_bytes(id), other.token_bytes(id), "{name}: {id}");
            assert_eq!(one.is_special(id), other.is_special(id), "{name}: {id}");
            let text = one.token_text(id).unwrap_or("no token of any");
            assert_eq!(one.token_id(text), other.token_id(text), "{name}: {text:?}");
        }
        for text in ["", "a", "no end of words"] {
            assert_eq!(one.fewest_tokens(text), other.fewest_tokens(text), "{name}");
        }
        let long = "word".repeat(5_000) + &" \u{1f600}x".repeat(3_000);
        for special in [Special::Parse, Special::Plain] {
            let ids = |tokenizer: &Tokenizer| tokenizer.encode(&long, special, true).expect("encodes");
            assert!(ids(&one) == ids(&other), "{name}: a long text");
        }
    }
}

/// Neither any index nor any table may make a tokenizer panic, or tell a token that is not there.
#[test]
fn damaged_tables_are_refused_or_harmless() {
    for name in FILES {
        let good = open(name).to_packed("key").expect("packs");
        for at in (0..good.data.len()).step_by(good.data.len() / 60 + 1) {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                let end = bad.data.len().min(at + 70);
                bad.data[at..end].fill(value);
                exercise(name, bad);
            }
        }
        for length in [0, 64, good.data.len() / 2, good.data.len() - 1] {
            let cut = PackedTokenizer { data: good.data[..length].to_vec(), ..good.clone() };
            exercise(name, cut);
        }
        for at in (0..good.index.len()).step_by(good.index.len() / 200 + 1) {
            let mut bad = good.clone();
            bad.index[at] = b'9';
            exercise(name, bad);
        }
    }
}

fn exercise(name: &str, packed: PackedTokenizer) {
    let Ok(tokenizer) = Tokenizer::from_packed(packed, "key") else { return };
    for text in ["Hello, wor\u{301}ld 12 \u{1f600} \u{4f60}\u{597d}!", "<s>[CLS]</s> unknowable"] {
        for special in [Special::Parse, Special::Plain] {
            // An error is well; a panic inside the library is one too.
            let Ok(ids) = tokenizer.encode(text, special, true) else { continue };
            assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocab_size()), "{name}: {ids:?}");
            let _ = tokenizer.decode(&ids, false);
        }
    }
}

fn opened_cached(model: &Path, cache: &TokenizerCache) -> (Tokenizer, text::TokenizerCacheReport) {
    let opened = weights::opened::open(model).expect("opens");
    Tokenizer::open_cached(&opened, cache).expect("opens")
}

#[test]
fn a_file_is_written_once_and_then_read_or_mapped() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = support::fixtures().join("tiny/byte-level.gguf");
    let path = folder.path().join("tokenizer.packed");
    let cache = |key: &str, mapped| TokenizerCache { path: path.clone(), key: key.into(), mapped };
    let (tokenizer, report) = opened_cached(&model, &cache("one", true));
    let written = report.written.expect("is written");
    assert_eq!(written, (path.clone(), std::fs::metadata(&path).expect("is there").len()));
    assert!(!report.used && report.errors.is_empty());
    let want = tokenizer.encode("hello world", Special::Plain, true).expect("encodes");
    for mapped in [true, false] {
        let (tokenizer, report) = opened_cached(&model, &cache("one", mapped));
        assert!(report.used && report.written.is_none() && report.errors.is_empty());
        assert_eq!(tokenizer.encode("hello world", Special::Plain, true).expect("encodes"), want);
    }
    let (_, report) = opened_cached(&model, &cache("two", true));
    assert!(!report.used && report.written.is_some());
    assert!(report.errors[0].to_string().contains("made of other files"), "{:?}", report.errors);
    // The file is read-only: a damaged one comes in its place.
    std::fs::remove_file(&path).expect("removes");
    std::fs::write(&path, b"GRISTTOK and nothing else that makes sense here, for longer than")
        .expect("writes");
    let (_, report) = opened_cached(&model, &cache("two", true));
    assert!(!report.used && report.written.is_some() && report.errors.len() == 1);
    assert!(opened_cached(&model, &cache("two", true)).1.used);
}

/// A small tokenizer of each kind as the fuzz target `packed_tokenizer` reads them; `GRISTMILL_BLESS=1` writes its seeds.
#[test]
fn the_seeds_of_the_fuzz_target_are_tokenizers() {
    let byte_level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": true});
    let metaspace = serde_json::json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always",
        "split": true});
    let seeds = [
        (
            "words",
            serde_json::json!({"type": "Whitespace"}),
            serde_json::json!({"type": "WordLevel",
            "unk_token": "?", "vocab": {"?": 0, "ab": 1, "b": 2}}),
        ),
        (
            "word-piece",
            serde_json::json!({"type": "BertPreTokenizer"}),
            serde_json::json!({"type": "WordPiece",
            "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "a": 1, "##b": 2, "ab": 3}}),
        ),
        (
            "byte-pairs",
            byte_level,
            serde_json::json!({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u{120}": 3},
            "merges": ["a b"]}),
        ),
        (
            "unigram",
            metaspace,
            serde_json::json!({"type": "Unigram", "unk_id": 0, "byte_fallback": true,
            "vocab": [["<unk>", 0.0], ["\u{2581}a", -1.0], ["b", -2.0], ["<0x0A>", -3.0]]}),
        ),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/packed_tokenizer");
    for (name, pre_tokenizer, model) in seeds {
        let file = serde_json::json!({"version": "1.0", "added_tokens": [], "normalizer": {"type": "NFC"},
            "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null, "model": model});
        let tokenizer = Tokenizer::from_json(file.to_string().as_bytes()).expect("opens");
        let packed = tokenizer.to_packed("key").expect("packs");
        let mut seed = Vec::new();
        for part in [&packed.index, &packed.data] {
            seed.extend((part.len() as u32).to_le_bytes());
            seed.extend(part);
        }
        seed.extend(b"ab b\nc");
        if std::env::var_os("GRISTMILL_BLESS").is_some() {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(name), &seed).expect("writes");
        }
        let kept = std::fs::read(folder.join(name)).expect("is committed");
        assert!(kept == seed, "{name}: run with GRISTMILL_BLESS=1");
        let ids = |tokenizer: &Tokenizer| tokenizer.encode("ab b", Special::Plain, false).map_err(|_| ());
        let again = Tokenizer::from_packed(packed, "key").expect("opens");
        assert_eq!(ids(&tokenizer), ids(&again), "{name}");
    }
}
