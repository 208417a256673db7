//! Grammars, expressions and schemas that a request may send, and the tokens that they allow. Input: a letter for the
//! form (`g` a grammar in either language, `r` a regular expression, anything else a JSON schema), the text, a zero byte, and
//! bytes that choose among the allowed tokens.
//!
//! Looks for: a panic that the server would not catch, a form that is compiled or followed without end, a mask that allows
//! what is no token, and an allowed token that is then refused.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use text::{AnswerConstraint, ConstraintCompiler, Tokenizer};
use wire::limits;

/// Tokens followed.
const TOKENS: usize = 12;

fn made() -> &'static (Arc<Tokenizer>, ConstraintCompiler) {
    static MADE: OnceLock<(Arc<Tokenizer>, ConstraintCompiler)> = OnceLock::new();
    MADE.get_or_init(|| {
        // libFuzzer's hook ends the process at once. The server lives on where a panic of the library is caught, so here only
        // those that nobody catches are findings.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
        let json = include_bytes!("../../crates/text/tests/fixtures/tiny/byte-level.json");
        let tokenizer = Arc::new(Tokenizer::from_json(json).expect("the fixture"));
        let grammars = ConstraintCompiler::new(tokenizer.clone()).expect("its grammars");
        (tokenizer, grammars)
    })
}

/// The form, within the bounds that the server puts on each.
fn form(kind: u8, text: &str) -> Option<AnswerConstraint> {
    match kind {
        b'g' if text.len() <= limits::GRAMMAR_BYTES => Some(AnswerConstraint::grammar(text.to_owned())),
        b'r' if text.len() <= limits::REGEX_BYTES => Some(AnswerConstraint::Regex(text.to_owned())),
        b'g' | b'r' => None,
        _ => {
            let schema: serde_json::Value = serde_json::from_str(text).ok()?;
            let fits = schema.is_object() && schema.to_string().len() <= limits::SCHEMA_BYTES;
            fits.then(|| AnswerConstraint::json(schema))
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let at = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let (text, choices) = rest.split_at(at);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (tokenizer, grammars) = made();
    let Some(form) = form(kind, text) else { return };
    let Ok(guidance) = grammars.guidance(Some(&form), None, None) else { return };
    let mut guide = guidance.matcher();
    let choices = choices.iter().skip(1).chain(std::iter::repeat(&0));
    for &choice in choices.take(TOKENS) {
        if guide.prepare().is_err() {
            return;
        }
        let mask = guide.allowed().expect("a grammar says which tokens may come");
        let bits = |word: u32| (0..32).filter(move |bit| word >> bit & 1 == 1);
        let allowed: Vec<u32> =
            (0..).zip(mask).flat_map(|(at, &word)| bits(word).map(move |bit| at * 32 + bit)).collect();
        // One past the vocabulary is the end that the library is given where a tokenizer has none.
        assert!(allowed.iter().all(|&id| id as usize <= tokenizer.vocab_size()), "{allowed:?}");
        let Some(&token) = allowed.get(usize::from(choice) % allowed.len().max(1)) else { return };
        if token as usize == tokenizer.vocab_size() {
            return;
        }
        match guide.accept(token, tokenizer.token_bytes(token).unwrap_or_default()) {
            Ok(false) => {}
            Ok(true) => return,
            Err(message) => panic!("token {token} was allowed and then refused: {message}"),
        }
    }
});
