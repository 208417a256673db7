//! Parses regular expressions of requests: ECMA-262, with extensions of Python and Rust.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The deepest nesting of groups.
const MAX_DEPTH: usize = 64;
/// The largest repetition count.
const MAX_REPEATS: u32 = 100_000;

/// A part of an expression.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Nothing,
    /// One character of this set.
    Set(ClassUnicode),
    Sequence(Vec<Part>),
    Either(Vec<Part>),
    Repeat(Box<Part>, u32, Option<u32>),
    /// `^`
    Start,
    /// `$`
    End,
    /// `(?=…)`, `(?!…)`
    Ahead {
        negative: bool,
        inner: Box<Part>,
        text: String,
    },
    /// An assertion or back reference with this source text, which cannot be enforced.
    Beyond(String),
}

/// The dialect of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A schema's `pattern`.
    Schema,
    /// A stand-alone regular expression: `.` is any character except a line feed.
    Whole,
}

/// Parses an expression.
///
/// # Errors
/// The problem, and its character position.
pub(super) fn read(text: &str, dialect: Dialect) -> Result<Part, String> {
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0, dialect, fold: false, dot_all: false, depth: 0 };
    let part = reader.alternatives()?;
    if reader.at < chars.len() {
        return Err(reader.wrong("a closing bracket that nothing opened"));
    }
    Ok(part)
}

impl Part {
    /// Whether the part has lookaround, anchors or back references.
    pub(super) fn looks(&self) -> bool {
        match self {
            Part::Nothing | Part::Set(_) => false,
            Part::Start | Part::End | Part::Ahead { .. } | Part::Beyond(_) => true,
            Part::Sequence(parts) | Part::Either(parts) => parts.iter().any(Part::looks),
            Part::Repeat(part, ..) => part.looks(),
        }
    }

    /// Whether the part consumes no character.
    pub(super) fn takes_nothing(&self) -> bool {
        match self {
            Part::Nothing | Part::Start | Part::End | Part::Ahead { .. } => true,
            Part::Beyond(text) => text.starts_with("(?<") || text.eq_ignore_ascii_case("\\b"),
            Part::Set(_) => false,
            Part::Sequence(parts) | Part::Either(parts) => parts.iter().all(Part::takes_nothing),
            Part::Repeat(part, ..) => part.takes_nothing(),
        }
    }

    /// Whether the part matches the empty text; only for parts without lookaround.
    pub(super) fn nullable(&self) -> bool {
        match self {
            Part::Set(_) => false,
            Part::Sequence(parts) => parts.iter().all(Part::nullable),
            Part::Either(parts) => parts.iter().any(Part::nullable),
            Part::Repeat(part, least, _) => *least == 0 || part.nullable(),
            _ => true,
        }
    }
}

struct Reader<'t> {
    chars: &'t [char],
    at: usize,
    dialect: Dialect,
    /// `(?i)`
    fold: bool,
    /// `(?s)`
    dot_all: bool,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    fn take(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn wrong(&self, what: &str) -> String {
        format!("{what} at character {}", self.at + 1)
    }

    fn alternatives(&mut self) -> Result<Part, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} groups in one another"));
        }
        let (fold, dot_all) = (self.fold, self.dot_all);
        let mut options = vec![self.sequence()?];
        while self.take("|") {
            options.push(self.sequence()?);
        }
        (self.fold, self.dot_all) = (fold, dot_all);
        self.depth -= 1;
        Ok(if options.len() == 1 { options.remove(0) } else { Part::Either(options) })
    }

    fn sequence(&mut self) -> Result<Part, String> {
        let mut parts = Vec::new();
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let atom = self.atom()?;
            parts.push(self.repeated(atom)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Part::Sequence(parts) })
    }

    fn repeated(&mut self, mut part: Part) -> Result<Part, String> {
        loop {
            let (least, most) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => match self.counts()? {
                    Some(counts) => counts,
                    None => return Ok(part),
                },
                _ => return Ok(part),
            };
            // `counts` stops at the closing brace.
            self.at += 1;
            // Greediness does not change the set of matched texts.
            self.take("?");
            if most.is_some_and(|most| most < least) {
                return Err(self.wrong("a repetition whose bounds are the wrong way round"));
            }
            if least > MAX_REPEATS || most.is_some_and(|most| most > MAX_REPEATS) {
                return Err(self.wrong(&format!("a repetition past {MAX_REPEATS}")));
            }
            part = if matches!(part, Part::Start | Part::End) {
                return Err(self.wrong("a repeated anchor"));
            } else {
                Part::Repeat(Box::new(part), least, most)
            };
        }
    }

    /// Parses `{m}`, `{m,}` or `{m,n}`, and stops at the closing brace. Other braces are literal.
    fn counts(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let rest = &self.chars[self.at + 1..];
        let Some(len) = rest.iter().position(|c| *c == '}') else { return Ok(None) };
        let inner: String = rest[..len].iter().collect();
        let number = |text: &str| {
            (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
                .then(|| text.parse::<u32>().unwrap_or(u32::MAX))
        };
        let counts = match inner.split_once(',') {
            None => number(&inner).map(|n| (n, Some(n))),
            Some((least, "")) => number(least).map(|n| (n, None)),
            // Python's `{,n}`.
            Some(("", most)) if self.dialect == Dialect::Whole => number(most).map(|n| (0, Some(n))),
            Some((least, most)) => number(least).zip(number(most)).map(|(a, b)| (a, Some(b))),
        };
        if counts.is_some() {
            self.at += 1 + len;
        }
        Ok(counts)
    }

    fn atom(&mut self) -> Result<Part, String> {
        let start = self.at;
        match self.next().unwrap_or_default() {
            '^' => Ok(Part::Start),
            '$' => Ok(Part::End),
            '.' => Ok(Part::Set(self.dot())),
            '(' => self.group(start),
            '[' => self.class().map(|set| self.set(set)),
            '\\' => self.escape(),
            '*' | '+' | '?' => {
                self.at -= 1;
                Err(self.wrong("a repetition of nothing"))
            }
            '{' => {
                self.at -= 1;
                if self.counts()?.is_some() {
                    return Err(self.wrong("a repetition of nothing"));
                }
                self.at += 1;
                Ok(self.set(one('{')))
            }
            c => Ok(self.set(one(c))),
        }
    }

    fn set(&self, mut set: ClassUnicode) -> Part {
        if self.fold {
            let _ = set.try_case_fold_simple();
        }
        Part::Set(set)
    }

    fn dot(&self) -> ClassUnicode {
        let ends: &[char] = match self.dialect {
            _ if self.dot_all => &[],
            Dialect::Schema => &['\n', '\r', '\u{2028}', '\u{2029}'],
            Dialect::Whole => &['\n'],
        };
        let mut set = ClassUnicode::new(ends.iter().map(|c| ClassUnicodeRange::new(*c, *c)));
        set.negate();
        set
    }

    fn group(&mut self, start: usize) -> Result<Part, String> {
        let ahead = if self.take("?=") {
            Some(false)
        } else if self.take("?!") {
            Some(true)
        } else {
            None
        };
        if let Some(negative) = ahead {
            let inner = Box::new(self.alternatives()?);
            self.close(start)?;
            let text = self.chars[start..self.at].iter().collect();
            return Ok(Part::Ahead { negative, inner, text });
        }
        if self.take("?<=") || self.take("?<!") {
            self.alternatives()?;
            self.close(start)?;
            return Ok(Part::Beyond(self.chars[start..self.at].iter().collect()));
        }
        let (fold, dot_all) = (self.fold, self.dot_all);
        if self.take("?P<") || self.take("?<") {
            while self.next().ok_or_else(|| self.wrong("a group's name without an end"))? != '>' {}
        } else if self.take("?") && !self.take(":") && self.flags()? {
            // `(?i)`: for what follows in the group around it.
            return Ok(Part::Nothing);
        }
        let inner = self.alternatives()?;
        (self.fold, self.dot_all) = (fold, dot_all);
        self.close(start)?;
        Ok(inner)
    }

    /// Parses flags; returns whether they end the group.
    fn flags(&mut self) -> Result<bool, String> {
        let mut on = true;
        loop {
            match self.next() {
                Some('-') => on = false,
                Some('i') => self.fold = on,
                Some('s') => self.dot_all = on,
                // Matching is always Unicode-aware, and greediness makes no difference.
                Some('u' | 'U' | 'a') => {}
                Some(')') => return Ok(true),
                Some(':') => return Ok(false),
                _ => {
                    self.at = self.at.saturating_sub(1);
                    return Err(self.wrong("a kind of group that is not known"));
                }
            }
        }
    }

    fn close(&mut self, start: usize) -> Result<(), String> {
        if self.take(")") { Ok(()) } else { Err(format!("( at character {} is not closed", start + 1)) }
    }

    /// Parses a character class after its opening bracket.
    fn class(&mut self) -> Result<ClassUnicode, String> {
        let start = self.at;
        let negated = self.take("^");
        let mut set = ClassUnicode::empty();
        let mut first = true;
        loop {
            let c = self.next().ok_or_else(|| format!("[ at character {start} is not closed"))?;
            if c == ']' && !(first && self.dialect == Dialect::Whole) {
                break;
            }
            first = false;
            if c == '[' && self.chars.get(self.at) == Some(&':') {
                set.union(&self.named()?);
                continue;
            }
            let low = self.class_part(c, negated)?;
            let dash = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']');
            match (single(&low), dash) {
                (Some(from), true) => {
                    self.at += 1;
                    let c = self.next().unwrap_or_default();
                    let high = self.class_part(c, negated)?;
                    match single(&high) {
                        Some(to) if from <= to => set.push(ClassUnicodeRange::new(from, to)),
                        Some(_) => return Err(self.wrong("a range whose ends are the wrong way round")),
                        // `[a-\d]`: three parts.
                        None => {
                            set.union(&low);
                            set.union(&one('-'));
                            set.union(&high);
                        }
                    }
                }
                _ => set.union(&low),
            }
        }
        if self.fold {
            let _ = set.try_case_fold_simple();
        }
        if negated {
            set.negate();
        }
        Ok(set)
    }

    /// Parses `[:alpha:]` inside a class, after its first bracket.
    fn named(&mut self) -> Result<ClassUnicode, String> {
        let rest: String = self.chars[self.at..].iter().take(12).collect();
        let Some(len) = rest.find(":]") else { return Ok(one('[')) };
        let set = library(&format!("[[{}:]]", &rest[..len]));
        match set {
            Some(set) => {
                self.at += len + 2;
                Ok(set)
            }
            None => Ok(one('[')),
        }
    }

    fn class_part(&mut self, c: char, negated: bool) -> Result<ClassUnicode, String> {
        if c != '\\' {
            return Ok(one(c));
        }
        match self.peek() {
            Some('b') => {
                self.at += 1;
                Ok(one('\u{8}'))
            }
            Some('B') => Err(self.wrong("\\B in a set")),
            _ => self.escaped(negated)?.ok_or_else(|| self.wrong("an escape that a set cannot have")),
        }
    }

    fn escape(&mut self) -> Result<Part, String> {
        let start = self.at - 1;
        if let Some(set) = self.escaped(false)? {
            return Ok(self.set(set));
        }
        match self.next() {
            Some('A') => return Ok(Part::Start),
            Some('z' | 'Z') => return Ok(Part::End),
            Some('b' | 'B') => {}
            Some('k') if self.take("<") => while self.next().is_some_and(|c| c != '>') {},
            Some(c) if c.is_ascii_digit() => {
                while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    self.at += 1
                }
            }
            Some(c) => {
                self.at -= 1;
                return Err(self.wrong(&format!("\\{c}, an escape that is not known,")));
            }
            None => return Err(self.wrong("a backslash with nothing after it")),
        }
        Ok(Part::Beyond(self.chars[start..self.at].iter().collect()))
    }

    /// The character set of an escape, after its backslash; `None`, without consuming anything, for other escapes.
    fn escaped(&mut self, negated: bool) -> Result<Option<ClassUnicode>, String> {
        let Some(c) = self.peek() else { return Err(self.wrong("a backslash with nothing after it")) };
        let start = self.at;
        self.at += 1;
        let set = match c {
            'd' => library("[0-9]"),
            'D' => library("[^0-9]"),
            'w' => library("[0-9A-Za-z_]"),
            'W' => library("[^0-9A-Za-z_]"),
            // Validators differ in what counts as white space: `\s` generates the fewest characters, `\S` excludes the
            // most.
            's' if negated => library(r"[\s\x{feff}]"),
            's' => library(r"[ \t\n\r\f\v]"),
            'S' if negated => library(r"[^ \t\n\r\f\v]"),
            'S' => library(r"[^\s\x{feff}]"),
            'n' => Some(one('\n')),
            'r' => Some(one('\r')),
            't' => Some(one('\t')),
            'v' => Some(one('\u{b}')),
            'f' => Some(one('\u{c}')),
            'a' if self.dialect == Dialect::Whole => Some(one('\u{7}')),
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => Some(one('\0')),
            'c' if self.peek().is_some_and(|c| c.is_ascii_alphabetic()) => {
                self.next().map(|c| one((c as u8 % 32) as char))
            }
            'x' => Some(one(self.code(2)?)),
            'u' => Some(one(self.code(4)?)),
            'U' if self.dialect == Dialect::Whole => Some(one(self.code(8)?)),
            'p' | 'P' => Some(self.property(c == 'P')?),
            c if !c.is_ascii_alphanumeric() => Some(one(c)),
            _ => None,
        };
        if set.is_none() {
            self.at = start;
        }
        Ok(set)
    }

    /// A character by its code point: `digits` hexadecimal digits, or any number of them in braces.
    fn code(&mut self, digits: usize) -> Result<char, String> {
        let at = self.at;
        let hex = |reader: &mut Self, most: usize| {
            let mut text = String::new();
            while text.len() < most && reader.peek().is_some_and(|c| c.is_ascii_hexdigit()) {
                text.extend(reader.next());
            }
            text
        };
        let text = if self.take("{") {
            let text = hex(self, 8);
            if !self.take("}") { String::new() } else { text }
        } else {
            Some(hex(self, digits)).filter(|text| text.len() == digits).unwrap_or_default()
        };
        let mut code = u32::from_str_radix(&text, 16).ok();
        if let Some(high @ 0xd800..0xdc00) = code
            && self.take("\\u")
        {
            let low =
                u32::from_str_radix(&hex(self, 4), 16).ok().filter(|low| (0xdc00..0xe000).contains(low));
            code = low.map(|low| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        }
        code.and_then(char::from_u32).ok_or_else(|| {
            self.at = at;
            self.wrong("the number of no character")
        })
    }

    fn property(&mut self, negated: bool) -> Result<ClassUnicode, String> {
        let at = self.at;
        let name: String = if self.take("{") {
            let mut name = String::new();
            while let Some(c) = self.next().filter(|c| *c != '}') {
                name.push(c);
            }
            name
        } else {
            self.next().into_iter().collect()
        };
        let known = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_=- ".contains(&b));
        let set = library(&format!("\\p{{{name}}}")).filter(|_| known && !name.is_empty());
        let mut set = set.ok_or_else(|| {
            self.at = at;
            self.wrong("\\p with a property that is not known")
        })?;
        if negated {
            set.negate();
        }
        Ok(set)
    }
}

fn one(c: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(c, c)])
}

fn single(set: &ClassUnicode) -> Option<char> {
    match set.ranges() {
        [range] if range.start() == range.end() => Some(range.start()),
        _ => None,
    }
}

/// A character class in the syntax of the regex crate.
fn library(text: &str) -> Option<ClassUnicode> {
    let hir = regex_syntax::parse(text).ok()?;
    match hir.kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set.clone()),
        HirKind::Class(Class::Bytes(set)) => set.to_unicode_class(),
        HirKind::Literal(literal) => {
            let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
            chars.next().map(one)
        }
        _ => None,
    }
}
