//! Real vocabularies word by word and by the library: the same tokens, also of texts that are long.

use crate::support;

use text::{Special, Tokenizer};
use weights::fetch::NoProgress;
use weights::store::ModelStore;

fn real(model: &str) {
    let home = ModelStore::from_env(|name| std::env::var_os(name)).expect("a home");
    let path = weights::store::resolve(model, &home, &mut NoProgress).expect("is pulled");
    let tokenizer = Tokenizer::open(&weights::opened::open(&path).expect("opens")).expect("has a tokenizer");
    assert!(
        tokenizer.fewest_tokens(&"7".repeat(1 << 20)) > 1_000,
        "{model}: a text's bytes bound its tokens"
    );
    let strings = support::strings();
    let prose = "The miller's daughter ground 1,234 sacks;\r\n\r\n  \t Größe 你好世界 e\u{301} 😀!\n";
    let units = [
        "7",
        "a",
        "aB",
        " ",
        "\n",
        "\r\n \n",
        "你",
        "한",
        "e\u{301}",
        "\u{1100}\u{1161}",
        "😀",
        "-",
        "(=)",
        prose,
    ];
    let long = units.map(|unit| unit.repeat(60_000 / unit.len()));
    for text in strings.iter().chain(&long).chain([&strings.concat()]) {
        for special in [Special::Parse, Special::Plain] {
            let walked = tokenizer.encode(text, special, false).expect("encodes");
            let whole = tokenizer.encode_whole(text, special).expect("encodes");
            assert!(
                walked == whole,
                "{model}, {special:?}: {:?}",
                text.chars().take(200).collect::<String>()
            );
        }
    }
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn real_smollm2() {
    real("smollm2-135m-instruct");
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn real_qwen2_5() {
    real("qwen2.5-coder-0.5b-instruct");
}

#[test]
#[ignore = "needs: gristmill pull gemma3-270m"]
fn real_gemma3() {
    real("gemma3-270m");
}
