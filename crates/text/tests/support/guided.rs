//! Follows a form token by token.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use text::{AnswerConstraint, CompiledConstraint, ConstraintCompiler, ConstraintMatcher, Special, Tokenizer};

/// A vocabulary of whole words and bytes, and its grammars.
pub struct Checker {
    pub tokenizer: Arc<Tokenizer>,
    pub grammars: ConstraintCompiler,
}

impl Checker {
    pub fn new() -> Checker {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/byte-level.json");
        let tokenizer = Arc::new(Tokenizer::open_path(&path).expect("the fixture"));
        let grammars = ConstraintCompiler::new(tokenizer.clone()).expect("grammars");
        Checker { tokenizer, grammars }
    }

    pub fn guidance(&self, schema: &Value) -> Result<CompiledConstraint, String> {
        self.of(&AnswerConstraint::json(schema.clone()))
    }

    pub fn of(&self, form: &AnswerConstraint) -> Result<CompiledConstraint, String> {
        self.grammars.guidance(Some(form), None, None)
    }

    fn byte(&self, byte: u8) -> u32 {
        let all = 0..self.tokenizer.vocab_size() as u32;
        let one = |id: &u32| self.tokenizer.token_bytes(*id) == Some(&[byte]);
        all.into_iter().find(one).expect("a token for each byte")
    }

    fn may(guide: &ConstraintMatcher, token: u32) -> bool {
        guide.allowed().is_none_or(|mask| mask[token as usize / 32] >> (token % 32) & 1 == 1)
    }

    /// Whether an answer may be this text, written as the vocabulary writes it.
    pub fn accepts(&self, guidance: &CompiledConstraint, text: &str) -> bool {
        let mut tokens = self.tokenizer.encode(text, Special::Plain, false).expect("tokens");
        let said = tokens.iter().flat_map(|id| self.tokenizer.token_bytes(*id).unwrap_or_default());
        if !said.eq(text.as_bytes()) {
            // The vocabulary composes characters: byte by byte it does not.
            tokens = text.bytes().map(|byte| self.byte(byte)).collect();
        }
        let mut guide = guidance.matcher();
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
            || guide.allowed().is_some_and(|mask| {
                mask.get(past as usize / 32).is_some_and(|word| word >> (past % 32) & 1 == 1)
            })
    }
}

/// Random numbers that are the same each time.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % count.max(1) as u64) as usize
    }
}

impl Checker {
    /// An answer of tokens that were drawn from those allowed; after some, such that end something are preferred.
    pub fn walk(&self, guidance: &CompiledConstraint, dice: &mut Dice, tokens: usize) -> Option<String> {
        let mut guide = guidance.matcher();
        let mut said = Vec::new();
        for step in 0..tokens {
            guide.prepare().expect("a mask");
            let mask = guide.allowed().expect("a form says what may come").to_vec();
            let allowed: Vec<u32> = (0..)
                .zip(&mask)
                .flat_map(|(at, word)| {
                    (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 32 + bit)
                })
                .collect();
            assert!(!allowed.is_empty(), "nothing may follow {:?}", String::from_utf8_lossy(&said));
            let bytes = |id: u32| self.tokenizer.token_bytes(id).unwrap_or_default();
            let ends =
                |id: &u32| *id as usize >= self.tokenizer.vocab_size() || self.tokenizer.ends().contains(id);
            let closes = |id: &u32| ends(id) || matches!(bytes(*id), [b'"' | b'}' | b']', ..]);
            let few: Vec<u32> = allowed.iter().copied().filter(closes).collect();
            let plain: Vec<u32> = allowed
                .iter()
                .copied()
                .filter(|id| bytes(*id).iter().all(|b| (b' '..0x7f).contains(b)))
                .collect();
            let from = if step > 24 && !few.is_empty() && dice.below(4) > 0 {
                &few
            } else if !plain.is_empty() && dice.below(8) > 0 {
                &plain
            } else {
                &allowed
            };
            let token = from[dice.below(from.len())];
            if ends(&token) {
                return Some(String::from_utf8(said).expect("text"));
            }
            said.extend_from_slice(bytes(token));
            if guide.accept(token, bytes(token)).expect("a token that is allowed") {
                return Some(String::from_utf8(said).expect("text"));
            }
        }
        None
    }
}
