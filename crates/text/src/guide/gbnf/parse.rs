//! Parses GBNF.

use std::collections::HashMap;

use super::chars::Chars;
use super::syntax::{Expr, Grammar};

/// The deepest nesting of parentheses.
const DEPTH: usize = 64;
/// The most rules, and the most parts of all rules together: later passes visit each several times.
const RULES: usize = 1_024;
const PARTS: usize = 16_384;
/// The largest repetition count, as in llama.cpp.
const REPEATS: u32 = 2_000;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    names: HashMap<&'a str, usize>,
    /// Each rule's name, its body once defined, and the offset of its first mention.
    rules: Vec<(&'a str, Option<Expr>, usize)>,
    parts: usize,
}

/// Parses a grammar.
pub(super) fn parse(text: &str) -> Result<Grammar, String> {
    let mut reader = Reader { text, at: 0, names: HashMap::new(), rules: Vec::new(), parts: 0 };
    reader.rule("root")?;
    reader.space(true);
    while reader.at < text.len() {
        reader.definition()?;
        reader.space(true);
    }
    let mut rules = Vec::with_capacity(reader.rules.len());
    for (name, body, at) in std::mem::take(&mut reader.rules) {
        match body {
            Some(body) => rules.push(body),
            None if name == "root" => return Err("GBNF: there is no rule named root".into()),
            None => {
                reader.at = at;
                return Err(reader.problem(&format!("the rule {name} is not defined")));
            }
        }
    }
    Ok(Grammar { rules })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

impl<'a> Reader<'a> {
    fn problem(&self, what: &str) -> String {
        let line = self.text.get(..self.at).map_or(0, |before| before.matches('\n').count());
        format!("GBNF, line {}: {what}", line + 1)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    /// Skips spaces and comments, and line ends if `lines`.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.at += 1,
                '\n' | '\r' if lines => self.at += 1,
                '#' => self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len()),
                _ => return,
            }
        }
    }

    fn name(&mut self) -> Result<&'a str, String> {
        let rest = self.rest();
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (name, _) = rest.split_at(end);
        if name.is_empty() {
            let found = self.peek().map_or("the end".to_owned(), |c| format!("{c:?}"));
            return Err(self.problem(&format!("the name of a rule is expected, not {found}")));
        }
        self.at += end;
        Ok(name)
    }

    fn rule(&mut self, name: &'a str) -> Result<usize, String> {
        if let Some(known) = self.names.get(name) {
            return Ok(*known);
        }
        if self.rules.len() >= RULES {
            return Err(self.problem(&format!("more than {RULES} rules")));
        }
        self.rules.push((name, None, self.at));
        self.names.insert(name, self.rules.len() - 1);
        Ok(self.rules.len() - 1)
    }

    fn definition(&mut self) -> Result<(), String> {
        let name = self.name()?;
        self.space(false);
        if !self.take("::=") {
            return Err(self.problem(&format!("::= is expected after {name}")));
        }
        self.space(true);
        let rule = self.rule(name)?;
        let body = self.alternatives(0)?;
        self.space(false);
        if !matches!(self.peek(), None | Some('\n' | '\r')) {
            let found = self.peek().unwrap_or_default();
            return Err(self.problem(&format!("the end of the rule {name} is expected, not {found:?}")));
        }
        // As in llama.cpp, a later definition replaces an earlier one.
        self.rules[rule].1 = Some(body);
        Ok(())
    }

    fn alternatives(&mut self, depth: usize) -> Result<Expr, String> {
        let mut all = vec![self.sequence(depth)?];
        loop {
            let before = self.at;
            // A line that begins with a bar continues the rule.
            self.space(true);
            if !self.take("|") {
                if depth == 0 {
                    self.at = before;
                }
                break;
            }
            self.space(true);
            all.push(self.sequence(depth)?);
        }
        Ok(if all.len() == 1 { all.swap_remove(0) } else { Expr::Alt(all) })
    }

    fn sequence(&mut self, depth: usize) -> Result<Expr, String> {
        let mut parts: Vec<Expr> = Vec::new();
        loop {
            self.space(depth > 0);
            let from = parts.len();
            match self.peek() {
                Some('"') => self.literal(&mut parts)?,
                Some('[') => parts.push(self.class()?),
                Some('.') => {
                    self.at += 1;
                    parts.push(Expr::Class(Chars::all()));
                }
                Some('(') if depth >= DEPTH => {
                    return Err(self.problem(&format!("more than {DEPTH} brackets in one another")));
                }
                Some('(') => {
                    self.at += 1;
                    self.space(true);
                    let inner = self.alternatives(depth + 1)?;
                    self.space(true);
                    if !self.take(")") {
                        return Err(self.problem("a bracket is not closed"));
                    }
                    parts.push(inner);
                }
                Some('<' | '!') => return Err(self.problem("tokens by name or number are not known here")),
                Some(c) if is_of_name(c) => {
                    let name = self.name()?;
                    parts.push(Expr::Rule(self.rule(name)?));
                }
                _ => break,
            }
            self.repeat(&mut parts, from, depth)?;
            self.parts += parts.len() - from;
            if self.parts > PARTS {
                return Err(self.problem(&format!("more than {PARTS} parts")));
            }
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Expr::Seq(parts) })
    }

    /// Applies `*`, `+`, `?`, `{m}`, `{m,}` or `{m,n}` to the parts from `from` on, which are one literal or one part.
    fn repeat(&mut self, parts: &mut Vec<Expr>, from: usize, depth: usize) -> Result<(), String> {
        let Some((least, most)) = self.sign(depth)? else { return Ok(()) };
        let mut repeated: Vec<Expr> = parts.drain(from..).collect();
        self.parts += repeated.len();
        let one = if repeated.len() == 1 { repeated.swap_remove(0) } else { Expr::Seq(repeated) };
        parts.push(Expr::Repeat(Box::new(one), least, most));
        match self.sign(depth)? {
            None => Ok(()),
            Some(_) => Err(self.problem("two signs of repetition: put brackets between them")),
        }
    }

    fn sign(&mut self, depth: usize) -> Result<Option<(u32, Option<u32>)>, String> {
        self.space(depth > 0);
        let bounds = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => self.bounds()?,
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(bounds))
    }

    /// Parses the bounds between braces, up to the closing brace.
    fn bounds(&mut self) -> Result<(u32, Option<u32>), String> {
        self.at += 1;
        let least = self.count()?;
        let most = if self.take(",") { self.count()? } else { least };
        if self.peek() != Some('}') {
            return Err(self.problem("{m}, {m,} or {m,n} is expected"));
        }
        match (least, most) {
            (None, None) => Err(self.problem("a number is expected in {}")),
            (least, Some(most)) if least.unwrap_or(0) > most => {
                Err(self.problem(&format!("{{{},{most}}} is backward", least.unwrap_or(0))))
            }
            (least, most) => Ok((least.unwrap_or(0), most)),
        }
    }

    fn count(&mut self) -> Result<Option<u32>, String> {
        self.space(true);
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, _) = rest.split_at(end);
        self.at += end;
        self.space(true);
        match digits.parse::<u32>() {
            _ if digits.is_empty() => Ok(None),
            Ok(count) if count <= REPEATS => Ok(Some(count)),
            _ => Err(self.problem(&format!("{digits} repetitions; at most {REPEATS} are allowed"))),
        }
    }

    fn literal(&mut self, parts: &mut Vec<Expr>) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.next() {
                None | Some('\n') => return Err(self.problem("a text in quotes is not closed")),
                Some('"') => return Ok(()),
                Some(c) => {
                    let c = self.unescaped(c)?;
                    parts.push(Expr::Class(Chars::one(c)));
                }
            }
        }
    }

    fn class(&mut self) -> Result<Expr, String> {
        self.at += 1;
        let negated = self.take("^");
        let mut ranges = Vec::new();
        loop {
            let low = match self.next() {
                None | Some('\n') => return Err(self.problem("a set of characters is not closed")),
                Some(']') => break,
                Some(c) => self.unescaped(c)?,
            };
            let mut high = low;
            // A dash before the closing bracket is literal.
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                let end = self.next().ok_or_else(|| self.problem("a set of characters is not closed"))?;
                high = self.unescaped(end)?;
                if high < low {
                    return Err(self.problem(&format!("the range {low:?} to {high:?} is backward")));
                }
            }
            ranges.push((low as u32, high as u32));
        }
        let chars = Chars::of(ranges);
        let chars = if negated { chars.negated() } else { chars };
        if chars.is_empty() { Err(self.problem("a set without characters")) } else { Ok(Expr::Class(chars)) }
    }

    fn unescaped(&mut self, c: char) -> Result<char, String> {
        if c != '\\' {
            return Ok(c);
        }
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(other) => return Err(self.problem(&format!("the escape \\{other} is not known"))),
            None => return Err(self.problem("a backslash is the end")),
        };
        let hex = self.rest().get(..digits).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let c = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
        let c = c.ok_or_else(|| self.problem(&format!("{digits} digits of a character are expected")))?;
        self.at += digits;
        Ok(c)
    }
}
