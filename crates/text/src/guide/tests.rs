use std::sync::Arc;

use proptest::prelude::*;

use super::{AnswerConstraint, ConstraintCompiler, RequiredToolCalls};
use crate::tools::ToolCallStyle;
use crate::{Special, Tokenizer};

fn tokenizer() -> Arc<Tokenizer> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/byte-level.json");
    Arc::new(Tokenizer::open_path(&path).expect("the fixture"))
}

fn grammars() -> ConstraintCompiler {
    ConstraintCompiler::new(tokenizer()).expect("grammars")
}

#[test]
fn the_same_form_is_compiled_once() {
    let grammars = grammars();
    let form = |n: usize| AnswerConstraint::Choice(vec![format!("word{n}")]);
    for n in (0..40).chain([39, 39]) {
        grammars.guidance(Some(&form(n)), None, None).expect("a choice");
    }
    let kept = grammars.kept();
    assert_eq!(kept.len(), 32);
    assert!(kept.last().is_some_and(|lark| lark.contains("word39")), "{kept:?}");
}

/// Lets a form's answer be `tokens`, as they come, and gives what is foreseen after them.
fn foreseen(grammars: &ConstraintCompiler, form: AnswerConstraint, tokens: &[u32]) -> Vec<u32> {
    let mut guide = grammars.guidance(Some(&form), None, None).expect("a form").matcher();
    for token in tokens {
        guide.prepare().expect("a mask");
        assert!(!guide.accept(*token, b"").expect("a token that is allowed"));
    }
    let mut foreseen = Vec::new();
    guide.forced_tokens(&mut foreseen);
    guide.prepare().expect("a mask");
    let allowed = |id: &u32| guide.allowed().is_none_or(|mask| mask[*id as usize / 32] >> (id % 32) & 1 == 1);
    assert!(foreseen.first().is_none_or(allowed), "the first of {foreseen:?} is not allowed");
    foreseen
}

#[test]
fn what_a_form_leaves_no_choice_about_is_foreseen() {
    let grammars = grammars();
    let tokenizer = tokenizer();
    let encode = |text: &str| tokenizer.encode(text, Special::Plain, false).expect("tokens");
    let calls = |tools: &[&str]| {
        let tool = |name: &&str| {
            (name.to_string(), serde_json::json!({"type": "object", "additionalProperties": false}).into())
        };
        AnswerConstraint::ToolCalls(RequiredToolCalls {
            style: ToolCallStyle::Hermes,
            tools: tools.iter().map(tool).collect(),
            several: false,
        })
    };
    let text = |ids: &[u32]| -> Vec<u8> {
        ids.iter().flat_map(|id| tokenizer.token_bytes(*id).expect("text").to_vec()).collect()
    };
    // A text that must be there, from its start and from its middle; where there is a choice, as far as that.
    let choice =
        |texts: &[&str]| AnswerConstraint::Choice(texts.iter().map(|text| text.to_string()).collect());
    assert_eq!(foreseen(&grammars, choice(&["the weather"]), &[]), encode("the weather"));
    let both = choice(&["the weather today", "the weather there"]);
    assert_eq!(text(&foreseen(&grammars, both, &[])), b"the weather t");
    let rest = foreseen(&grammars, choice(&["a long way"]), &encode("a"));
    assert_eq!(text(&rest), b" long way");
    assert!(foreseen(&grammars, choice(&["yes", "no"]), &[]).is_empty());
    // All of a call's frame but the arguments, if there is one tool.
    let said = String::from_utf8(text(&foreseen(&grammars, calls(&["get_weather"]), &[]))).expect("text");
    assert!(said.contains("get_weather") && said.contains("arguments"), "{said:?}");
    let said = String::from_utf8(text(&foreseen(&grammars, calls(&["now", "then"]), &[]))).expect("text");
    assert!(!said.contains("now") && !said.contains("then"), "{said:?}");
    // Nothing is foreseen in a schema where space may come, and no half of a character.
    assert!(
        foreseen(&grammars, AnswerConstraint::json(serde_json::json!({"type": "object"})), &encode("{"))
            .is_empty()
    );
    assert!(foreseen(&grammars, choice(&["ä", "ö"]), &[]).is_empty());
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
        for form in [AnswerConstraint::Lark(lark), AnswerConstraint::Regex(regex)] {
            match grammars.guidance(Some(&form), None, None) {
                Ok(guidance) => {
                    let mut guide = guidance.matcher();
                    let outcome = guide.prepare();
                    prop_assert!(outcome.is_err() || guide.allowed().is_some());
                }
                Err(message) => prop_assert!(!message.is_empty()),
            }
        }
    }
}
