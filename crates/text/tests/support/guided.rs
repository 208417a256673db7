//! Follows a form token by token.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use text::{Form, Grammars, Guidance, Guide, Special, Tokenizer};

/// A vocabulary of whole words and bytes, and its grammars.
pub struct Checker {
    pub tokenizer: Arc<Tokenizer>,
    pub grammars: Grammars,
}

impl Checker {
    pub fn new() -> Checker {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/byte-level.json");
        let tokenizer = Arc::new(Tokenizer::open_path(&path).expect("the fixture"));
        let grammars = Grammars::new(tokenizer.clone()).expect("grammars");
        Checker { tokenizer, grammars }
    }

    pub fn guidance(&self, schema: &Value) -> Result<Guidance, String> {
        self.of(&Form::json(schema.clone()))
    }

    pub fn of(&self, form: &Form) -> Result<Guidance, String> {
        self.grammars.guidance(Some(form), None, None)
    }

    fn may(guide: &Guide, token: u32) -> bool {
        guide.allowed().is_none_or(|mask| mask[token as usize / 32] >> (token % 32) & 1 == 1)
    }

    /// Whether an answer may be this text, written as the vocabulary writes it.
    pub fn accepts(&self, guidance: &Guidance, text: &str) -> bool {
        let tokens = self.tokenizer.encode(text, Special::Plain, false).expect("tokens");
        let mut guide = guidance.guide();
        let last = tokens.len() - 1;
        for (i, token) in tokens.into_iter().enumerate() {
            guide.prepare().expect("a mask");
            if !Checker::may(&guide, token) {
                return false;
            }
            let bytes = self.tokenizer.token_bytes(token).expect("bytes");
            if guide.accept(token, bytes).expect("a token that is allowed") {
                return i == last;
            }
        }
        guide.prepare().expect("a mask");
        let past = self.tokenizer.vocab_size() as u32;
        self.tokenizer.ends().iter().any(|end| Checker::may(&guide, *end))
            || guide.allowed().is_some_and(|mask| mask.get(past as usize / 32).is_some_and(|word| word >> (past % 32) & 1 == 1))
    }
}
