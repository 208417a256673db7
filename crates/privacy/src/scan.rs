//! One pass over a text: words, numbers and signs, each handed to the detectors that can begin there.
//!
//! Every detector looks at a bounded number of bytes around its place, so the time is linear in the text's length.

use crate::numbers::{Groups, begins};
use crate::sink::Sink;
use crate::{accounts, codes, coins, dates, network, numbers, phones, secrets};

/// What a byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Letter,
    Digit,
    Sign,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    let mut at = 0;
    while at < 256 {
        classes[at] = match at as u8 {
            b'0'..=b'9' => Class::Digit,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Class::Letter,
            b'@' | b':' | b'=' | b'-' => Class::Sign,
            _ => Class::Plain,
        };
        at += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// Offers everything in the sink's text.
pub(crate) fn scan(sink: &mut Sink) {
    let text = sink.text;
    let mut scanner = Scanner { wide: 0, colons: 0 };
    let mut at = 0;
    while at < text.len() && !sink.full() {
        match class(text[at]) {
            Class::Plain => at += 1,
            Class::Sign => at = scanner.sign(sink, at),
            Class::Letter | Class::Digit => {
                let start = at;
                let mut digits = 0;
                while let Some(&byte) = text.get(at) {
                    match class(byte) {
                        Class::Digit => digits += 1,
                        Class::Letter => {}
                        Class::Plain | Class::Sign => break,
                    }
                    at += 1;
                }
                at = scanner.word(sink, start, at, digits);
            }
        }
    }
}

struct Scanner {
    /// Where the word with hyphens begins that the present word is a part of.
    wide: usize,
    /// Up to where colons were looked at.
    colons: usize,
}

impl Scanner {
    /// The word `start..end` with so many digits; returns where to go on.
    fn word(&mut self, sink: &mut Sink, start: usize, end: usize, digits: usize) -> usize {
        let text = sink.text;
        let byte = |at: usize| text.get(at).copied().unwrap_or(0);
        if start == 0 || text[start - 1] != b'-' || start == self.wide {
            self.wide = start;
        }
        let next = byte(end);
        if digits == end - start {
            number(sink, start, end);
        } else if digits > 0 {
            mixed(sink, start, end);
        } else if end - start == 4 && next == b'.' {
            network::mac_word(sink, start);
        } else if end - start == 6 && next == b' ' && text[start..end].eq_ignore_ascii_case(b"bearer") {
            secrets::bearer(sink, end);
        }
        let dotted = next == b'.' && matches!(&text[start..end], b"SG" | b"ya29" | b"hvs");
        if dotted {
            return secrets::word(sink, start, end);
        }
        // The word goes on behind a hyphen.
        if next == b'-' && matches!(class(byte(end + 1)), Class::Letter | Class::Digit) {
            return end;
        }
        let length = end - self.wide;
        if length < secrets::SHORTEST {
            return end;
        }
        if length == 17 {
            network::mac_word(sink, self.wide);
        }
        secrets::word(sink, self.wide, end)
    }

    fn sign(&mut self, sink: &mut Sink, at: usize) -> usize {
        let text = sink.text;
        let near = |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b':');
        match text[at] {
            b'@' => network::email(sink, at),
            b'=' => secrets::assigned(sink, at),
            b'-' if text[at..].starts_with(b"-----BEGIN ") => {
                return secrets::pem(sink, at).unwrap_or(at + 11).max(at + 1);
            }
            b':' if text[at..].starts_with(b"://") => network::url_credentials(sink, at),
            b':' => {
                if at >= self.colons && near(at + 1) && (at == 0 || near(at - 1) || text[at + 1] == b':') {
                    self.colons = network::colons(sink, at, self.colons);
                }
                secrets::assigned(sink, at);
            }
            _ => {}
        }
        at + 1
    }
}

/// A word of digits.
fn number(sink: &mut Sink, start: usize, end: usize) {
    let text = sink.text;
    codes::separated(sink, start, end);
    if end - start == 4 {
        dates::with_month(sink, start, end);
    }
    if end - start == 4 && text.get(end) == Some(&b'.') {
        network::mac_word(sink, start);
    }
    if !begins(text, start, end) {
        return;
    }
    let Some(groups) = Groups::read(text, start, end) else { return };
    for number in groups.numbers(text).filter(|number| number.digits.len() >= 4) {
        match number.digits.len() {
            4..=6 => dates::in_digits(sink, &number),
            _ => numbers::identities(sink, &number),
        }
        network::ipv4(sink, &number);
        if (7..=8).contains(&number.digits.len()) {
            dates::in_digits(sink, &number);
        }
        accounts::card(sink, &number);
        numbers::by_words(sink, &number);
    }
    phones::find(sink, &groups);
}

/// A word of letters and digits.
fn mixed(sink: &mut Sink, start: usize, end: usize) {
    let word = &sink.text[start..end];
    let letters = |at: usize| word.get(at).is_some_and(u8::is_ascii_alphabetic);
    let digit = |at: usize| word.get(at).is_some_and(u8::is_ascii_digit);
    if letters(0) && letters(1) && digit(2) && digit(3) {
        accounts::iban(sink, start);
    }
    match word.len() {
        4 if sink.text.get(end) == Some(&b'.') => network::mac_word(sink, start),
        6..=16 => codes::word(sink, start, end),
        _ => {}
    }
    if word.len() >= 14 {
        coins::word(sink, start, end);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::scan;
    use crate::context::Context;
    use crate::sink::Sink;

    /// Bytes of context that are read for a text, and findings.
    fn steps(context: &Context, text: &str) -> (usize, usize) {
        let mut sink = Sink::new(text.as_bytes(), (context, 0), (u128::MAX, 50), usize::MAX);
        scan(&mut sink);
        (sink.steps, sink.found.len())
    }

    #[test]
    fn hostile_texts_take_steps_in_proportion_to_their_length() {
        let context = Context::new(std::iter::empty()).unwrap();
        let near = [
            "7",
            "1234 ",
            "12-",
            "1 (2) ",
            "4111111111111112 ",
            "2024-03-15 10:30:45,123 ",
            "a@",
            "a.b@c.",
            "a:",
            "::1:",
            "://a:b@",
            "GB82 WEST 1234 5698 7654 33 ",
            "-----BEGIN PRIVATE KEY-----",
            "eyJhbGciOiAi.eyJ",
            "sk-",
            "password: ",
            "AB 12 34 56 C",
            "12345678-Z ",
            "March 4, 1990 ",
            "1.2.3.4.",
            "+49 30 1234567 ",
            "AA-BB-CC-DD-EE-",
            "0x",
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfN ",
        ];
        for pattern in near {
            let of = |bytes: usize| steps(&context, &pattern.repeat(bytes / pattern.len()));
            let ((small, found), (large, _)) = (of(1 << 14), of(1 << 16));
            assert!(
                large <= small * 9 / 2 + 4_096,
                "{pattern:?}: {small} steps, then {large} for four times the text"
            );
            // No byte is near more than a few candidates: each reads 88 bytes of context once.
            assert!(large <= (1 << 16) * 60, "{pattern:?}: {large} steps");
            assert!(found <= 1 << 14, "{pattern:?}: {found} findings");
        }
    }
}
