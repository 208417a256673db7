//! Grammars of required calls, and of answers with a form in messages on channels: what they allow is what the models' own
//! templates write, and is read as calls.

use std::sync::Arc;

use serde_json::json;
use text::{
    AnswerConstraint, ConstraintCompiler, ReasoningFormat, RequiredToolCalls, Special, Tokenizer,
    ToolCallStyle,
};

use crate::answers::{Scripted, both, options, scripted, tags};
use crate::support;

/// Whether the grammar of required calls allows an answer, and is complete after it.
fn allowed(compiler: &ConstraintCompiler, style: ToolCallStyle, answer: &str) -> Result<bool, String> {
    let tools = options(style.name(), None, "").schemas;
    let tools = tools.iter().map(|(name, schema)| (name.clone(), schema.clone().into())).collect();
    let calls = AnswerConstraint::ToolCalls(RequiredToolCalls { style, tools, several: true });
    let mut matcher = compiler.guidance(Some(&calls), None, None)?.matcher();
    let tokenizer = tokenizer();
    let mut done = false;
    for token in tokenizer.encode(answer, Special::Plain, false).expect("encodes") {
        matcher.prepare()?;
        if matcher.allowed().is_some_and(|mask| mask[token as usize / 32] >> (token % 32) & 1 == 0) {
            return Ok(false);
        }
        done = matcher.accept(token, b"")?;
    }
    if !done {
        matcher.prepare()?;
        let end = tokenizer.ends().first().copied().unwrap_or(tokenizer.vocab_size() as u32);
        done = matcher.allowed().is_none_or(|mask| mask[end as usize / 32] >> (end % 32) & 1 == 1);
    }
    Ok(done)
}

fn tokenizer() -> Arc<Tokenizer> {
    let path = support::fixtures().join("tiny/byte-level.json");
    Arc::new(Tokenizer::open_path(&path).expect("the fixture"))
}

/// Required calls are written as the model's template writes them, but for styles whose values are no JSON, and those
/// that have ids, attributes or recipients which readers do not need.
#[test]
fn required_calls_have_the_models_own_syntax() {
    const OWN_FORM: [&str; 7] = ["gemma4", "lfm", "dsml", "cohere", "solar", "muse", "harmony"];
    // Templates of a style that write it with other white space or fewer brackets.
    const OTHERWISE: [&str; 4] =
        ["GigaChat3-10B-A1.8B", "MiniMax-M1", "Reka-Edge", "Mistral-Small-3.2-24B-Instruct-2506"];
    let compiler = ConstraintCompiler::new(tokenizer()).expect("compiles");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for Scripted { template, style, answer, content, reasoning, calls, .. } in scripted() {
        let plain = content.is_empty() && reasoning.is_empty() && !calls.is_empty();
        let known = OWN_FORM.contains(&style.as_str()) || OTHERWISE.contains(&template.as_str());
        if !plain || known {
            continue;
        }
        seen += 1;
        let style = ToolCallStyle::named(&style).expect("a style");
        // Some templates write reasoning although there is none.
        let call = answer.rsplit("</think>").next().unwrap_or_default().trim_start();
        let outcome = allowed(&compiler, style, call);
        if outcome != Ok(true) {
            wrong.push(format!("{template}: {outcome:?}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty() && seen > 20, "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

/// An answer that must have a form is a message of its own, after reasoning or without.
#[test]
fn a_form_is_held_in_messages_on_channels() {
    let compiler = ConstraintCompiler::new(tokenizer()).expect("compiles");
    let tokenizer = tokenizer();
    let form = AnswerConstraint::Choice(vec!["yes".into(), "no".into()]);
    let thought = ReasoningFormat { tags: tags("<|channel|>analysis<|message|>"), begun: false };
    let held = |pieces: &[&str]| -> Result<bool, String> {
        let mut matcher = compiler.guidance(Some(&form), Some(&thought), None)?.matcher();
        let mut done = false;
        for piece in pieces {
            for token in tokenizer.encode(piece, Special::Plain, false).expect("encodes") {
                matcher.prepare()?;
                if matcher.allowed().is_some_and(|mask| mask[token as usize / 32] >> (token % 32) & 1 == 0) {
                    return Err(format!("{piece} is not allowed"));
                }
                done = matcher.accept(token, tokenizer.token_bytes(token).unwrap_or_default())?;
            }
        }
        Ok(done)
    };
    let analysis = "<|channel|>analysis<|message|>";
    let answer = "<|channel|>final<|message|>";
    assert_eq!(held(&[answer, "yes"]), Ok(true));
    assert_eq!(held(&[analysis, "Hm. no", "<|end|>", "<|start|>assistant", answer, "no"]), Ok(true));
    assert_eq!(held(&[analysis, "Hm."]), Ok(false));
    assert!(held(&[answer, "maybe"]).is_err());
    assert!(held(&["yes"]).is_err());
    assert!(held(&[analysis, "Hm.", "<|end|>", "yes"]).is_err());
}

/// What the grammar of each style allows is read as calls.
#[test]
fn every_style_can_be_required() {
    let compiler = ConstraintCompiler::new(tokenizer()).expect("compiles");
    for (name, style) in ToolCallStyle::ALL {
        let tool = ("now".to_owned(), json!({"type": "object", "additionalProperties": false}).into());
        let calls = RequiredToolCalls { style, tools: vec![tool], several: false };
        let calls = AnswerConstraint::ToolCalls(calls);
        let mut matcher =
            compiler.guidance(Some(&calls), None, None).unwrap_or_else(|e| panic!("{name}: {e}")).matcher();
        let mut answer: Vec<u8> = Vec::new();
        let tokenizer = tokenizer();
        for _ in 0..400 {
            matcher.prepare().unwrap_or_else(|e| panic!("{name}: {e}"));
            let free = matcher.allowed().expect("a mask");
            let Some(token) =
                (0..tokenizer.vocab_size() as u32).find(|id| free[*id as usize / 32] >> (id % 32) & 1 == 1)
            else {
                break;
            };
            answer.extend(tokenizer.token_bytes(token).unwrap_or_default());
            if matcher.accept(token, b"").unwrap_or_else(|e| panic!("{name}: {e}")) {
                break;
            }
        }
        let answer = String::from_utf8(answer).expect("text");
        let sign = (style == ToolCallStyle::Harmony).then_some("<|channel|>analysis<|message|>");
        let got = both(&options(name, sign.map(tags), "<|start|>assistant"), &answer);
        let arguments = got.calls.first().map(|(_, arguments)| arguments.replace(char::is_whitespace, ""));
        assert_eq!(
            (got.calls.len(), arguments.as_deref(), got.content.as_str()),
            (1, Some("{}"), ""),
            "{name}: {answer}"
        );
    }
}
