//! Real models from the store: guesses ahead change no token, and come true.
//!
//! Run with `cargo test -p engine --release --test engine -- --ignored models_speculation` after pulling the models named.

use crate::common;

use common::{Parts, ask, request};
use engine::{Device, DraftModel, Engine, Handle, Limits, Params, Setup, Speculation};
use text::Special;

const PROMPTS: [&str; 3] = [
    "def area(width, height):\n    return width * height\n\ndef area(width, height):\n",
    "Once upon a time, in a village by the sea, there lived",
    "one two three four five, one two three four five, one two three",
];

fn load(name: &str) -> Parts {
    let home = weights::store::ModelStore::from_env(|name| std::env::var_os(name)).expect("a store");
    let path = weights::store::resolve(name, &home, &mut weights::fetch::NoProgress).expect("the model");
    common::load(&path, 2)
}

fn engine(parts: Parts, draft: Option<Parts>, speculation: Speculation) -> Handle {
    let draft = draft.map(|draft| DraftModel { model: draft.model, vocabulary: draft.tokenizer });
    let limits = Limits { context: 256, kv_bytes: 1 << 30, speculation, ..Limits::default() };
    let device = Device::of_one(parts.compute);
    Engine::start_on(&device, parts.model, draft, Setup::new(parts.tokenizer, limits)).expect("an engine")
}

/// Asks for so many tokens, greedily and with seeds, alone and together; returns proposed and accepted tokens.
fn same_with_guesses(name: &str, draft: Option<&str>, tokens: usize) -> (u64, u64) {
    let parts = load(name);
    let requests: Vec<_> = (0..6)
        .map(|i| {
            let prompt = parts.tokenizer.encode(PROMPTS[i / 2], Special::Plain, true).expect("tokens");
            let params = Params { temperature: [0.0, 0.9][i % 2], seed: Some(i as u64), ..Params::default() };
            request(prompt, tokens, params)
        })
        .collect();
    let expected = ask(&engine(parts, None, Speculation::OFF), requests.clone());
    let speculation = Speculation { lookup: draft.is_none(), tokens: 6, always: true };
    let guessing = engine(load(name), draft.map(load), speculation);
    let alone: Vec<_> = requests.iter().map(|r| ask(&guessing, vec![r.clone()]).remove(0)).collect();
    assert_eq!(alone, expected, "one at a time");
    assert_eq!(ask(&guessing, requests), expected, "together");
    let stats = guessing.stats();
    (stats.proposed_tokens, stats.accepted_tokens)
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2_says_the_same_with_lookup() {
    let (proposed, accepted) = same_with_guesses("smollm2-135m-instruct", None, 48);
    assert!(accepted > 0 && accepted < proposed, "{accepted} of {proposed}");
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-1.5b-instruct, gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen_coder_says_the_same_with_a_draft() {
    let (proposed, accepted) =
        same_with_guesses("qwen2.5-coder-1.5b-instruct", Some("qwen2.5-coder-0.5b-instruct"), 24);
    assert!(accepted * 5 > proposed, "{accepted} of {proposed}: less than a fifth");
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct, gristmill pull smollm2-135m-instruct"]
fn a_draft_of_another_vocabulary_is_refused() {
    let (main, draft) = (load("qwen2.5-coder-0.5b-instruct"), load("smollm2-135m-instruct"));
    let draft = DraftModel { model: draft.model, vocabulary: draft.tokenizer };
    let limits = Limits { context: 256, ..Limits::default() };
    let setup = Setup::new(main.tokenizer, limits);
    let started = Engine::start_on(&Device::of_one(main.compute), main.model, Some(draft), setup);
    let message = started.err().expect("refused").to_string();
    assert!(message.contains("vocabulary of 49152 tokens and the model one of 151936"), "{message}");
}
