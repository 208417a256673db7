use std::sync::Arc;

use proptest::prelude::*;

use super::{Form, Grammars};
use crate::Tokenizer;

fn grammars() -> Grammars {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/byte-level.json");
    Grammars::new(Arc::new(Tokenizer::open_path(&path).expect("the fixture"))).expect("grammars")
}

#[test]
fn the_same_form_is_compiled_once() {
    let grammars = grammars();
    let form = |n: usize| Form::Choice(vec![format!("word{n}")]);
    for n in (0..40).chain([39, 39]) {
        grammars.guidance(Some(&form(n)), None, None).expect("a choice");
    }
    let kept = grammars.kept();
    assert_eq!(kept.len(), 32);
    assert!(kept.last().is_some_and(|lark| lark.contains("word39")), "{kept:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever a request sends as a grammar, there is an answer, and no panic.
    #[test]
    fn any_grammar_is_answered(
        lark in "(start: |[a-z]{1,3}: |\"[a-z]\" |/[a-z*+(\\[]{0,4}/ |\\| |\\n|\\{2,9\\}|%json|%ignore|<\\[[0-9]{1,3}\\]>|[(){}*?+]){0,14}",
        regex in "[a-c.*+?(){}\\[\\]|\\\\^$0-9,]{0,12}",
    ) {
        let grammars = grammars();
        for form in [Form::Lark(lark), Form::Regex(regex)] {
            match grammars.guidance(Some(&form), None, None) {
                Ok(guidance) => {
                    let mut guide = guidance.guide();
                    let outcome = guide.prepare();
                    prop_assert!(outcome.is_err() || guide.allowed().is_some());
                }
                Err(message) => prop_assert!(!message.is_empty()),
            }
        }
    }
}
