//! Forms on a real model with a real vocabulary: a schema, an expression, a choice, GBNF; each answer read and checked.
//!
//! Run with `cargo test -p engine --release --test engine -- --ignored models_structured` after
//! `gristmill pull smollm2-135m-instruct`.

use crate::common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{ask, engine, request};
use engine::{Constrain, FinishReason, Handle, Limits, Params, Request};
use serde_json::{Value, json};
use text::{AnswerConstraint, ConstraintCompiler, Special, Tokenizer};

struct Model {
    handle: Handle,
    tokenizer: Arc<Tokenizer>,
    grammars: ConstraintCompiler,
}

fn load() -> Model {
    let home = weights::store::ModelStore::from_env(|name| std::env::var_os(name)).expect("a store");
    let path = weights::store::resolve("smollm2-135m-instruct", &home, &mut weights::fetch::NoProgress);
    let parts = common::load(&path.expect("the model"), 2);
    let tokenizer = parts.tokenizer.clone();
    let grammars = ConstraintCompiler::new(tokenizer.clone()).expect("grammars");
    Model { handle: engine(parts, Limits { context: 1024, ..Limits::default() }), tokenizer, grammars }
}

impl Model {
    /// Answers that have the form, at several temperatures and seeds. The last of them are as hot as can be.
    fn answers(
        &self,
        prompt: &str,
        form: &AnswerConstraint,
        max_tokens: usize,
    ) -> Vec<(String, FinishReason)> {
        let guidance: Arc<dyn Constrain> =
            Arc::new(self.grammars.guidance(Some(form), None, None).expect("a form"));
        let prompt = self.tokenizer.encode(prompt, Special::Plain, true).expect("tokens");
        let one = |seed: u64| {
            let temperature = [0.0, 0.8, 1.5, 4.0][seed as usize % 4];
            let params = Params { seed: Some(seed), temperature, ..Params::default() };
            Request { constrain: Some(guidance.clone()), ..request(prompt.clone(), max_tokens, params) }
        };
        let answers = ask(&self.handle, (0..8).map(one).collect());
        answers.into_iter().map(|answer| (answer.text, answer.reason)).collect()
    }
}

fn is_person(value: &Value) -> bool {
    let keys: BTreeSet<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys == BTreeSet::from(["name", "age", "tags"])
        && value["name"].as_str().is_some_and(|name| (1..=20).contains(&name.chars().count()))
        && value["age"].as_i64().is_some_and(|age| (0..=130).contains(&age))
        && value["tags"].as_array().is_some_and(|tags| {
            tags.len() <= 3 && tags.iter().all(|tag| ["kind", "tall", "old"].iter().any(|known| tag == known))
        })
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn each_form_is_held_by_a_real_model() {
    let model = load();
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "tags": {"type": "array", "items": {"enum": ["kind", "tall", "old"]}, "maxItems": 3},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": false,
    });
    for (text, reason) in
        model.answers("Ada Lovelace was 36 years old. As JSON:\n", &AnswerConstraint::json(schema), 400)
    {
        assert_eq!(reason, FinishReason::Stop, "{text}");
        assert!(is_person(&serde_json::from_str(&text).expect(&text)), "{text}");
    }

    let date = AnswerConstraint::Regex(r"(19|20)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])".into());
    for (text, reason) in model.answers("The first man walked on the moon on ", &date, 40) {
        assert_eq!(reason, FinishReason::Stop, "{text}");
        let parts: Vec<u32> = text.split('-').map(|part| part.parse().expect(&text)).collect();
        let [year, month, day] = parts[..] else { panic!("{text}") };
        assert!(
            (1900..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day),
            "{text}"
        );
        assert_eq!(text.len(), 10);
    }

    let cities = ["Paris", "Parma", "San José", "São Paulo"];
    let choice = AnswerConstraint::Choice(cities.map(String::from).to_vec());
    for (text, reason) in model.answers("The capital of France is ", &choice, 40) {
        assert!(reason == FinishReason::Stop && cities.contains(&text.as_str()), "{text}");
    }
}

/// Sums of products in brackets, with spaces that a rule refers to everywhere.
const SUMS: &str = r#"
root  ::= sum "\n"
sum   ::= term (" + " term){0,3}
term  ::= num | "(" sum ")"
num   ::= [1-9] [0-9]{0,3}
"#;

/// Whether brackets close, and numbers and signs take turns.
fn is_sum(text: &str) -> bool {
    let Some(line) = text.strip_suffix('\n') else { return false };
    let mut depth = 0i32;
    let fine = line.chars().all(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth >= 0 && "0123456789 +()".contains(c)
    });
    let flat: String = line.chars().filter(|c| !"()".contains(*c)).collect();
    let numbers = flat
        .split(" + ")
        .all(|n| !n.starts_with('0') && (1..=4).contains(&n.len()) && n.parse::<u32>().is_ok());
    fine && depth == 0 && numbers
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn gbnf_is_held_by_a_real_model() {
    let model = load();
    let mut ended = 0;
    for (text, reason) in model.answers("A sum: ", &AnswerConstraint::grammar(SUMS.into()), 120) {
        // Brackets may go on: an answer that was cut is none.
        if reason == FinishReason::Stop {
            assert!(is_sum(&text), "{text:?}");
            ended += 1;
        }
    }
    assert!(ended > 3, "{ended} of 8 answers came to an end");

    let json = r#"
root   ::= "{" pair ("," pair){0,2} "}"
pair   ::= string ":" value
value  ::= string | number | "[" (value ("," value){0,2})? "]"
string ::= "\"" [^"\\\x00-\x1F\x7F]{1,12} "\""
number ::= "0" | "-"? [1-9] [0-9]{0,5}
"#;
    let mut ended = 0;
    for (text, reason) in model.answers("Some JSON: ", &AnswerConstraint::grammar(json.into()), 200) {
        if reason == FinishReason::Stop {
            assert!(serde_json::from_str::<Value>(&text).expect(&text).is_object(), "{text}");
            ended += 1;
        }
    }
    assert!(ended > 3, "{ended} of 8 answers came to an end");
}
