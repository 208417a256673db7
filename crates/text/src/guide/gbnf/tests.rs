use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::syntax::{Expr, Grammar};
use super::{parse, to_lark};
use crate::{AnswerConstraint, ConstraintCompiler, Special, Tokenizer};

fn tokenizer() -> Arc<Tokenizer> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/byte-level.json");
    Arc::new(Tokenizer::open_path(&path).expect("the fixture"))
}

/// Whether an answer may be this text and end there.
fn takes(grammars: &ConstraintCompiler, gbnf: &str, text: &str) -> Result<bool, String> {
    let tokenizer = tokenizer();
    let mut guide = grammars.guidance(Some(&AnswerConstraint::Gbnf(gbnf.to_owned())), None, None)?.matcher();
    let allows =
        |words: &[u32], id: u32| words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
    let tokens = tokenizer.encode(text, Special::Plain, false).expect("bytes");
    let mut over = false;
    for id in tokens {
        if over {
            return Ok(false);
        }
        guide.prepare()?;
        if !guide.allowed().is_none_or(|words| allows(words, id)) {
            return Ok(false);
        }
        over = guide.accept(id, tokenizer.token_bytes(id).unwrap_or_default())?;
    }
    if over {
        return Ok(true);
    }
    guide.prepare()?;
    // Without an end token of its own the vocabulary has one beyond.
    let ends = tokenizer.ends().to_vec();
    let beyond = tokenizer.vocab_size() as u32;
    let ends = if ends.is_empty() { vec![beyond] } else { ends };
    Ok(guide.allowed().is_none_or(|words| ends.iter().any(|id| allows(words, *id))))
}

/// Where texts of a part that begin at `from` may end: the definition, taken literally.
fn ends(grammar: &Grammar, expr: &Expr, text: &[char], from: usize) -> BTreeSet<usize> {
    let all = |expr: &Expr, starts: &BTreeSet<usize>| -> BTreeSet<usize> {
        starts.iter().flat_map(|from| ends(grammar, expr, text, *from)).collect()
    };
    match expr {
        Expr::Class(chars) => {
            let taken = text.get(from).is_some_and(|c| chars.meets(&super::chars::Chars::one(*c)));
            taken.then_some(from + 1).into_iter().collect()
        }
        Expr::Rule(rule) => ends(grammar, &grammar.rules[*rule], text, from),
        Expr::Seq(parts) => parts.iter().fold(BTreeSet::from([from]), |starts, part| all(part, &starts)),
        Expr::Alt(parts) => parts.iter().flat_map(|part| ends(grammar, part, text, from)).collect(),
        Expr::Repeat(part, least, most) => {
            let (mut now, mut found) = (BTreeSet::from([from]), BTreeSet::new());
            for count in 0..=most.unwrap_or(u32::MAX) {
                let before = found.len();
                if count >= *least {
                    found.extend(&now);
                    if found.len() == before {
                        break;
                    }
                }
                now = all(part, &now);
            }
            found
        }
    }
}

fn means(gbnf: &str, text: &str) -> bool {
    let grammar = parse::parse(gbnf).expect("a grammar");
    let chars: Vec<char> = text.chars().collect();
    ends(&grammar, &Expr::Rule(0), &chars, 0).contains(&chars.len())
}

#[track_caller]
fn check(gbnf: &str, good: &[&str], bad: &[&str]) {
    let grammars = ConstraintCompiler::new(tokenizer()).expect("grammars");
    for (texts, wanted) in [(good, true), (bad, false)] {
        for text in texts {
            assert_eq!(means(gbnf, text), wanted, "the test itself is wrong about {text:?}");
            let lark = to_lark(gbnf).expect("Lark");
            assert_eq!(takes(&grammars, gbnf, text), Ok(wanted), "{text:?} of\n{lark}");
        }
    }
}

const JSON: &str = r#"
# JSON as llama.cpp's example has it: space is bounded, numbers too.
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

ws ::= | " " | "\n" [ \t]{0,20}
"#;

#[test]
fn json() {
    check(
        JSON,
        &[
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": [1, 2.5e-3, -10, true, null], "b": {"c": "d\n\u00e9"}} "#,
            "{\"é\": \"日本\",\n\t\"x\": [ ]}",
        ],
        &["", "[]", "{", r#"{"a": 01}"#, r#"{"a" 1}"#, r#"{"a": "\x"}"#, r#"{"a": 1},"#, "{\"a\": \"\n\"}"],
    );
    let lark = to_lark(JSON).expect("Lark");
    // Texts are lexemes, not letter by letter: else a mask would cost a hundred times as much.
    assert!(lark.lines().any(|line| line.starts_with('L') && line.ends_with(": R4")), "{lark}");
}

#[test]
fn arithmetic() {
    // llama.cpp's example in which spaces end a term, and a line end must follow them: no longest lexeme can tell.
    let gbnf = r#"
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"#;
    check(
        gbnf,
        &["a=1\n", "x1 +(2*y)= 34 \n\n", "a=b\nc=d\n", "((1)) = 1\n"],
        &["a=1", "a=\n", "a+=1\n", "(a=1\n", "1a=1\n", ""],
    );
}

#[test]
fn lists_and_chess() {
    let list = "root ::= item+\n\n# Excludes various line break characters\n\
                item ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"\n";
    check(list, &["- a\n", "- one two\n- é!\n"], &["", "- \n", "a\n", "- a", "- a\n-b\n"]);
    let chess = r#"
root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
# piece type, optional file/rank, optional capture, dest file & rank
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
# optional file & capture, dest file & rank, optional promotion
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle  ::= "O-O" "-O"?
"#;
    check(
        chess,
        &["1. e4 e5\n2. Nf3 Nc6\n", "1. d4 d5\n12. exd8=Q+ O-O-O\n3. Rae1 R1e2#\n"],
        &["1. e4 e5\n", "1. e4\n2. e5 e6\n", "1. e9 e5\n2. Nf3 Nc6\n"],
    );
}

#[test]
fn rules_that_refer_back() {
    // Left, right and in the middle; with words that begin alike.
    check("root ::= \"(\" root \")\" | \"\"", &["", "()", "((()))"], &["(", "())", ")("]);
    check(
        "root ::= \"a\" \"ab\" root? | \"aa\" \"c\" root?",
        &["aab", "aac", "aabaac"],
        &["a", "aa", "aaba"],
    );
    check("root ::= [a-z]+ \"x\" tail?\ntail ::= \";\" root", &["ax", "xxx;abx"], &["a", "x", "ax;", "ax;b"]);
    check(
        "root ::= \"if \" word \" then \" root | word\nword ::= [a-z]{1,4}",
        &["if", "abcd", "if a then then", "if if then if x then y"],
        &["abcde", "if ", "if a then ", "if abcde then b"],
    );
    check("root ::= . (\",\" root){0,2}", &["é", "a,b", "a,,,b", "\n,x,y"], &["", "ab", "a,"]);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (gbnf, words) in [
        ("start ::= \"a\"", "no rule named root"),
        ("root ::= \"a\" b\n", "line 1: the rule b is not defined"),
        ("root ::= \"a\n", "not closed"),
        ("root ::= \"a\"\nroot2 ::= [a", "line 2"),
        ("root ::= (\"a\"", "not closed"),
        ("root ::= \"a\"){", "the end of the rule root"),
        ("root ::= \"a\"{3,2}", "backward"),
        ("root ::= \"a\"{9999}", "2000"),
        ("root ::= \"a\"{}", "a number"),
        ("root ::= \"a\"**", "two signs"),
        ("root ::= [z-a]", "backward"),
        ("root ::= []", "without characters"),
        ("root ::= \"\\q\"", "\\q"),
        ("root ::= \"\\xZZ\"", "2 digits"),
        ("root ::= <think>", "not known here"),
        ("::= \"a\"", "name of a rule"),
    ] {
        let problem = to_lark(gbnf).expect_err(gbnf);
        assert!(problem.starts_with("GBNF") && problem.contains(words), "{gbnf:?}: {problem}");
    }
    let deep = format!("root ::= {}", "(".repeat(50_000));
    assert!(to_lark(&deep).expect_err("deep").contains("64 brackets"));
    let chain: String = (0..2_000).map(|n| format!("r{n} ::= r{}\n", n + 1)).collect();
    assert!(to_lark(&format!("root ::= r0\n{chain}")).expect_err("many").contains("1024 rules"));
    let chain: String = (0..900).map(|n| format!("r{n} ::= r{}? \"a\"\n", n + 1)).collect();
    assert!(to_lark(&format!("root ::= r0\n{chain}r900 ::= root?")).is_ok());
}

/// A part of a small grammar over a, b and c; rules only after a character, so that none is left-recursive.
fn part() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("\"a\"".to_owned()),
        Just("\"ab\"".to_owned()),
        Just("[bc]".to_owned()),
        Just("[^a]".to_owned()),
        Just("\"c\" root".to_owned()),
        Just("\"b\" one".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let sign = prop::sample::select(vec!["", "?", "*", "+", "{1,2}"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(|parts| parts.join(" ")),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|parts| format!("({})", parts.join(" | "))),
            (inner, sign).prop_map(|(part, sign)| format!("({part}){sign}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_too_strange(text in "(root ::= |one ::= |root|one|\"[a\\\\x]{0,2}\"|\\[\\^?[a-c\\\\-]{0,3}\\]|[()|*+?.#<!]|\\{[0-9,]{0,3}\\}| |\n|é){0,24}") {
        if let Err(problem) = to_lark(&text) {
            prop_assert!(problem.starts_with("GBNF"), "{}", problem);
        }
    }

    /// An answer may be exactly the texts that the grammar has, wherever lexemes were made.
    #[test]
    fn the_same_texts_as_by_definition(
        root in part(), one in part(), texts in prop::collection::vec("[abc]{0,6}", 12),
    ) {
        let gbnf = format!("root ::= {root}\none ::= {one}");
        let grammars = ConstraintCompiler::new(tokenizer()).expect("grammars");
        for text in texts {
            let wanted = means(&gbnf, &text);
            match takes(&grammars, &gbnf, &text) {
                Ok(taken) => prop_assert_eq!(taken, wanted, "{:?} of {}\n{}", text, gbnf, to_lark(&gbnf).expect("Lark")),
                // A grammar that only goes in circles has no text at all.
                Err(problem) => prop_assert!(!wanted, "{}: {}", gbnf, problem),
            }
        }
    }
}
