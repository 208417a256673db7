//! Writes a grammar as lexemes and rules in llguidance's Lark.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;

use serde_json::Value;

use super::chars::Chars;
use super::sets::{Sets, Shape};
use super::syntax::{Expr, Grammar};

/// The most rounds of splitting ambiguous lexemes; after them every character is a lexeme.
const ROUNDS: usize = 32;

/// The Lark text of a grammar. Rule n is `rn`; as a lexeme, or part of one, `Rn`.
pub(super) fn write(grammar: &Grammar, sets: &Sets) -> String {
    let mut out = String::new();
    let mut inside = BTreeSet::new();
    if sets.shape(&Expr::Rule(0)).regular {
        // The whole grammar is one lexeme.
        out.push_str("start: R0\n");
        inside.insert(0);
    } else {
        let mut split = HashSet::new();
        let mut writer = Writer { grammar, sets, split: &split, only_characters: false, lexemes: Vec::new() };
        let mut rules = writer.rules();
        for round in 0..=ROUNDS {
            let alike = writer.alike();
            if alike.is_empty() {
                break;
            }
            split.extend(alike);
            writer = Writer {
                grammar,
                sets,
                split: &split,
                only_characters: round == ROUNDS,
                lexemes: Vec::new(),
            };
            rules = writer.rules();
        }
        out.push_str("start: r0\n");
        out.push_str(&rules);
        for lexeme in &writer.lexemes {
            let _ = writeln!(out, "{}: {}", lexeme.name, lexeme.text);
            inside.extend(&lexeme.rules);
        }
    }
    // The lexemes' rules, in reverse order of dependency, so that every referenced rule is found.
    for rule in sets.order.iter().rev() {
        if inside.contains(rule) {
            let text = text(&grammar.rules[*rule], &mut inside);
            let _ = writeln!(out, "R{rule}: {text}");
        }
    }
    out
}

struct Lexeme {
    name: String,
    text: String,
    first: Chars,
    /// Whether the lexeme may have more than one character.
    long: bool,
    /// Rules that the lexeme refers to.
    rules: BTreeSet<usize>,
}

struct Writer<'a> {
    grammar: &'a Grammar,
    sets: &'a Sets,
    /// Texts that must not be lexemes, because they are ambiguous.
    split: &'a HashSet<String>,
    only_characters: bool,
    lexemes: Vec<Lexeme>,
}

impl Writer<'_> {
    /// Writes the rules that are not lexemes.
    fn rules(&mut self) -> String {
        let mut out = String::new();
        let (mut wanted, mut done) = (vec![0], BTreeSet::from([0]));
        while let Some(rule) = wanted.pop() {
            let mut named = BTreeSet::new();
            let body = self.part(&self.grammar.rules[rule], &self.sets.follow[rule], &mut named);
            let _ = writeln!(out, "r{rule}: {body}");
            wanted.extend(named.into_iter().filter(|rule| done.insert(*rule)));
        }
        out
    }

    /// The longer of each two lexemes with a common beginning, which a lexer could not distinguish at once.
    fn alike(&self) -> HashSet<String> {
        let mut alike = HashSet::new();
        for (at, one) in self.lexemes.iter().enumerate() {
            for other in &self.lexemes[..at] {
                if (one.long || other.long) && one.first.meets(&other.first) {
                    let weight = |lexeme: &Lexeme| (lexeme.long, lexeme.text.len());
                    let longer = if weight(one) >= weight(other) { one } else { other };
                    alike.insert(longer.text.clone());
                }
            }
        }
        alike
    }

    fn lexeme(&mut self, expr: &Expr, shape: Shape) -> Option<String> {
        let long = !matches!(expr, Expr::Class(_));
        let mut rules = BTreeSet::new();
        let text = text(expr, &mut rules);
        if long && (self.only_characters || self.split.contains(&text)) {
            return None;
        }
        if let Some(known) = self.lexemes.iter().find(|lexeme| lexeme.text == text) {
            return Some(known.name.clone());
        }
        let name = format!("L{}", self.lexemes.len());
        self.lexemes.push(Lexeme { name: name.clone(), text, first: shape.first, long, rules });
        Some(name)
    }

    fn part(&mut self, expr: &Expr, after: &Chars, named: &mut BTreeSet<usize>) -> String {
        let shape = self.sets.shape(expr);
        if (matches!(expr, Expr::Class(_)) || shape.is_lexeme(after))
            && let Some(name) = self.lexeme(expr, shape)
        {
            return name;
        }
        match expr {
            // A single character is always a lexeme.
            Expr::Class(_) => String::new(),
            Expr::Rule(rule) => {
                named.insert(*rule);
                format!("r{rule}")
            }
            Expr::Alt(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.part(part, after, named)).collect();
                format!("({})", parts.join(" | "))
            }
            Expr::Repeat(part, least, most) => {
                let after = self.sets.after_one(part, *most, after);
                let part = self.part(part, &after, named);
                format!("({part}){}", sign(*least, *most))
            }
            Expr::Seq(parts) => self.sequence(parts, after, named),
        }
    }

    fn sequence(&mut self, parts: &[Expr], after: &Chars, named: &mut BTreeSet<usize>) -> String {
        let afters = self.sets.after_each(parts, after);
        let mut out = Vec::new();
        let mut from = 0;
        while from < parts.len() {
            match self.run(parts, &afters, from) {
                Some((name, end)) => {
                    out.push(name);
                    from = end;
                }
                None => {
                    out.push(self.part(&parts[from], &afters[from], named));
                    from += 1;
                }
            }
        }
        if out.is_empty() { "\"\"".into() } else { out.join(" ") }
    }

    /// The longest run of at least two parts that can be one lexeme, and its end.
    fn run(&mut self, parts: &[Expr], afters: &[Chars], from: usize) -> Option<(String, usize)> {
        let mut shape = self.sets.shape(&parts[from]);
        let mut best = None;
        for at in from + 1..parts.len() {
            shape = shape.then(&self.sets.shape(&parts[at]));
            if !shape.regular {
                break;
            }
            if shape.is_lexeme(&afters[at]) {
                best = Some((at + 1, shape.clone()));
            }
        }
        let (end, shape) = best?;
        let name = self.lexeme(&Expr::Seq(parts[from..end].to_vec()), shape)?;
        Some((name, end))
    }
}

/// A part as a regular expression in Lark's syntax; adds the rules that it refers to to `rules`.
fn text(expr: &Expr, rules: &mut BTreeSet<usize>) -> String {
    match expr {
        Expr::Class(chars) => match chars.single() {
            Some(c) => literal(&c.to_string()),
            None => format!("/{}/", chars.regex()),
        },
        Expr::Rule(rule) => {
            rules.insert(*rule);
            format!("R{rule}")
        }
        Expr::Alt(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| text(part, rules)).collect();
            format!("({})", parts.join(" | "))
        }
        Expr::Repeat(part, least, most) => format!("({}){}", text(part, rules), sign(*least, *most)),
        Expr::Seq(parts) => {
            let mut out: Vec<String> = Vec::new();
            let mut letters = String::new();
            for part in parts {
                match part {
                    Expr::Class(chars) if chars.single().is_some() => letters.extend(chars.single()),
                    part => {
                        if !letters.is_empty() {
                            out.push(literal(&std::mem::take(&mut letters)));
                        }
                        out.push(text(part, rules));
                    }
                }
            }
            if !letters.is_empty() || out.is_empty() {
                out.push(literal(&letters));
            }
            format!("({})", out.join(" "))
        }
    }
}

fn sign(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}

fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
