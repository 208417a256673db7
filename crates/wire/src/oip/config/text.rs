//! Protocol buffers' text format, as a tree of fields: what can be read without knowing the messages.
//!
//! Deliberately absent: names in brackets (extensions and `Any`), which no configuration of a model has.

use super::error::ConfigError;

/// Most bytes of a text.
pub const MAX_BYTES: usize = 256 << 10;
/// Most fields of a text, elements of lists included.
const MAX_FIELDS: usize = 16_384;
/// Most messages inside one another.
const MAX_DEPTH: usize = 16;

/// A field with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    /// The line that it stands in, from 1.
    pub(super) line: usize,
    /// Whether it is an element of a list in brackets, which only repeated fields have.
    pub(super) listed: bool,
    pub(super) value: Value,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A message: its fields, in their order.
    Message(Vec<Field>),
    /// Strings, joined; the bytes behind their escapes.
    Text(Vec<u8>),
    /// A number, or a name such as `true` or `TYPE_FP32`, as it is written.
    Word(String),
}

/// The fields of a text.
///
/// # Errors
/// A text that is not in the format, or beyond the limits; with its line.
pub(super) fn parse(text: &str) -> Result<Vec<Field>, ConfigError> {
    if text.len() > MAX_BYTES {
        return Err(ConfigError::at(1, format!("it has {} bytes; the limit is {MAX_BYTES}", text.len())));
    }
    let mut parser = Parser { rest: text, line: 1, fields: 0 };
    let mut fields = Vec::new();
    parser.message(&mut fields, None, 0)?;
    Ok(fields)
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
    fields: usize,
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, ConfigError> {
        Err(ConfigError::at(self.line, message))
    }

    /// Leaves out white space and comments; gives back the next character.
    fn peek(&mut self) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            match next {
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                '\n' => {
                    self.line += 1;
                    self.rest = &self.rest[1..];
                }
                _ if next.is_ascii_whitespace() || next == '\u{b}' => self.rest = &self.rest[1..],
                _ => return Some(next),
            }
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    /// The next bytes that are of a kind.
    fn span(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|byte| !is_part(byte)).unwrap_or(self.rest.len());
        let (span, rest) = self.rest.split_at(end);
        self.rest = rest;
        span
    }

    /// The fields of a message up to its end: a bracket, or the end of the text.
    fn message(&mut self, into: &mut Vec<Field>, end: Option<char>, depth: usize) -> Result<(), ConfigError> {
        if depth > MAX_DEPTH {
            return self.wrong(format!("messages are more than {MAX_DEPTH} deep"));
        }
        loop {
            match (self.peek(), end) {
                (None, None) => return Ok(()),
                (None, Some(end)) => return self.wrong(format!("the text ends before '{end}'")),
                (Some(next), Some(end)) if next == end => {
                    self.take(end);
                    return Ok(());
                }
                (Some(next), _) if next.is_ascii_alphabetic() || next == '_' => self.field(into, depth)?,
                (Some(next), _) => {
                    return self.wrong(format!("{next:?} stands where a field's name must be"));
                }
            }
        }
    }

    fn field(&mut self, into: &mut Vec<Field>, depth: usize) -> Result<(), ConfigError> {
        let line = self.line;
        let name = self.span(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let colon = self.take(':');
        if self.take('[') {
            if !self.take(']') {
                loop {
                    self.add(into, name, (line, true), colon, depth)?;
                    if self.take(']') {
                        break;
                    }
                    if !self.take(',') {
                        return self.wrong(format!("the list of {name} must go on with ',' or ']'"));
                    }
                }
            }
        } else {
            self.add(into, name, (line, false), colon, depth)?;
        }
        if !self.take(',') {
            self.take(';');
        }
        Ok(())
    }

    /// Reads a value, and adds the field with it.
    fn add(
        &mut self,
        into: &mut Vec<Field>,
        name: &str,
        (line, listed): (usize, bool),
        colon: bool,
        depth: usize,
    ) -> Result<(), ConfigError> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return self.wrong(format!("there are more than {MAX_FIELDS} fields"));
        }
        let value = match self.peek() {
            Some(open @ ('{' | '<')) => {
                self.take(open);
                let mut inner = Vec::new();
                self.message(&mut inner, Some(if open == '{' { '}' } else { '>' }), depth + 1)?;
                Value::Message(inner)
            }
            _ if !colon => return self.wrong(format!("{name} must be followed by ':' or '{{'")),
            Some('"' | '\'') => Value::Text(self.strings()?),
            Some(next) if next.is_ascii_alphanumeric() || "+-._".contains(next) => Value::Word(self.word()?),
            Some(next) => return self.wrong(format!("{next:?} stands where the value of {name} must be")),
            None => return self.wrong(format!("the text ends before the value of {name}")),
        };
        into.push(Field { name: name.to_owned(), line, listed, value });
        Ok(())
    }

    fn word(&mut self) -> Result<String, ConfigError> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
        let mut word = self.span(is_part).to_owned();
        // A sign may stand apart from its number.
        if word == "-" {
            self.peek();
            word.push_str(self.span(is_part));
        }
        Ok(word)
    }

    /// Strings that follow one another are one.
    fn strings(&mut self) -> Result<Vec<u8>, ConfigError> {
        let mut bytes = Vec::new();
        while let Some(quote @ ('"' | '\'')) = self.peek() {
            self.rest = &self.rest[1..];
            loop {
                let Some(next) = self.rest.chars().next() else {
                    return self.wrong("the text ends inside a string");
                };
                self.rest = &self.rest[next.len_utf8()..];
                match next {
                    '\n' => return self.wrong("a string must end in the line that it begins in"),
                    '\\' => self.escape(&mut bytes)?,
                    _ if next == quote => break,
                    _ => bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
        }
        Ok(bytes)
    }

    /// What stands behind a backslash.
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), ConfigError> {
        let Some(next) = self.rest.chars().next() else {
            return self.wrong("the text ends inside a string");
        };
        if next.is_digit(8) {
            let digits = self.digits(3, 8);
            // As other readers do: the upper bit of \777 is lost.
            bytes.push((self.number(digits, 8)? & 0xff) as u8);
            return Ok(());
        }
        self.rest = &self.rest[next.len_utf8()..];
        match next {
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'v' => bytes.push(11),
            '\\' | '\'' | '"' | '?' => bytes.push(next as u8),
            'x' | 'X' => {
                let digits = self.digits(2, 16);
                bytes.push((self.number(digits, 16)? & 0xff) as u8);
            }
            'u' | 'U' => {
                let length = if next == 'u' { 4 } else { 8 };
                let digits = self.digits(length, 16);
                let code = if digits.len() == length { self.number(digits, 16)? } else { u32::MAX };
                let Some(read) = char::from_u32(code) else {
                    return self
                        .wrong(format!("\\{next} must be followed by {length} digits of a character"));
                };
                bytes.extend_from_slice(read.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => return self.wrong(format!("\\{} is no escape", other.escape_default())),
        }
        Ok(())
    }

    /// At most so many digits.
    fn digits(&mut self, most: usize, radix: u32) -> &'a str {
        let digits = self.rest.bytes().take(most).take_while(|byte| char::from(*byte).is_digit(radix));
        let (digits, rest) = self.rest.split_at(digits.count());
        self.rest = rest;
        digits
    }

    fn number(&self, digits: &str, radix: u32) -> Result<u32, ConfigError> {
        u32::from_str_radix(digits, radix)
            .or_else(|_| self.wrong("an escape in a string must have digits behind it"))
    }
}
