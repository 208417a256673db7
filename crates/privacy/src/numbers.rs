//! Numbers in groups of digits: where they begin and end, and which kinds have that many digits in such groups.

use crate::identities::{Form, NUMBERS};
use crate::kind::Kind;
use crate::sink::Sink;

/// Groups that are looked at as one number.
const GROUPS: usize = 10;

/// Digits of them together.
const DIGITS: usize = 24;

/// Groups of digits with what is between them.
#[derive(Debug)]
pub(crate) struct Groups {
    count: usize,
    /// By group: its first byte, its digits, and the separator before it: `)` stands for "closing bracket and space" too.
    starts: [usize; GROUPS],
    lens: [u8; GROUPS],
    seps: [u8; GROUPS],
    digits: [u8; DIGITS],
    /// The byte before the first group: `+` and `(` matter; 0 at the text's begin.
    pub lead: u8,
}

/// The first groups of several, taken as one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<'g> {
    pub digits: &'g [u8],
    pub lens: &'g [u8],
    /// Separators between the groups.
    pub seps: &'g [u8],
    pub start: usize,
    pub end: usize,
    pub lead: u8,
}

/// The separator that begins there and its length, if a group of digits follows.
fn separator(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
    let (sep, len) = match (byte(0), byte(1)) {
        (b')', b' ' | b'-') => (b')', 2),
        (b' ', b'(') => (b'(', 2),
        (b' ' | b'-' | b'.' | b'/' | b')' | b'(' | b'+', _) => (byte(0), 1),
        _ => return None,
    };
    byte(len).is_ascii_digit().then_some((sep, len))
}

impl Groups {
    /// The groups that begin with the run of digits `start..end`. A run that letters follow ends them before itself.
    pub(crate) fn read(text: &[u8], start: usize, end: usize) -> Option<Self> {
        let lead = start.checked_sub(1).map_or(0, |at| text[at]);
        let mut all = Groups {
            count: 0,
            starts: [0; GROUPS],
            lens: [0; GROUPS],
            seps: [0; GROUPS],
            digits: [0; DIGITS],
            lead,
        };
        let (mut start, mut end, mut sep, mut taken) = (start, end, 0, 0);
        loop {
            let len = end - start;
            if all.count == GROUPS || taken + len > DIGITS {
                break;
            }
            for (to, from) in all.digits[taken..].iter_mut().zip(&text[start..end]) {
                *to = from - b'0';
            }
            (all.starts[all.count], all.lens[all.count], all.seps[all.count]) = (start, len as u8, sep);
            all.count += 1;
            taken += len;
            let Some((next, width)) = separator(text, end) else { break };
            (sep, start) = (next, end + width);
            let ahead = text[start..].iter().take(DIGITS + 1);
            end = start + ahead.take_while(|byte| byte.is_ascii_digit()).count();
            // An "x" before a phone's extension may follow.
            if text
                .get(end)
                .is_some_and(|byte| *byte != b'x' && (byte.is_ascii_alphanumeric() || *byte == b'_'))
            {
                break;
            }
        }
        (all.count > 0).then_some(all)
    }

    fn number(&self, groups: usize) -> Number<'_> {
        let digits = self.lens[..groups].iter().map(|&len| usize::from(len)).sum();
        Number {
            digits: &self.digits[..digits],
            lens: &self.lens[..groups],
            seps: &self.seps[1..groups],
            start: self.starts[0],
            end: self.starts[groups - 1] + usize::from(self.lens[groups - 1]),
            lead: self.lead,
        }
    }

    /// The numbers that begin with the first group and end where a number can end, the shortest first.
    pub(crate) fn numbers<'g>(&'g self, text: &'g [u8]) -> impl Iterator<Item = Number<'g>> + 'g {
        (1..=self.count).map(|groups| self.number(groups)).filter(|number| ends(text, number))
    }
}

impl Number<'_> {
    /// Whether the number is written as the form says.
    pub(crate) fn has(&self, form: &Form) -> bool {
        self.lens == form.lens
            && match form.seps.strip_prefix('=') {
                Some(exactly) => self.seps == exactly.as_bytes(),
                None => {
                    self.uniform() && self.seps.first().is_none_or(|sep| form.seps.as_bytes().contains(sep))
                }
            }
    }

    /// Whether one separator stands between all groups.
    pub(crate) fn uniform(&self) -> bool {
        self.seps.windows(2).all(|pair| pair[0] == pair[1])
    }
}

/// Whether a number can begin with the run of digits that begins there: not inside a decimal, a date, a path, an amount.
pub(crate) fn begins(text: &[u8], start: usize, end: usize) -> bool {
    let byte = |back: usize| start.checked_sub(back).map_or(0, |at| text[at]);
    let before = byte(2);
    match byte(1) {
        b'.' | b':' | b'\'' => !before.is_ascii_digit(),
        b'/' => !before.is_ascii_alphanumeric(),
        b'-' => !(before == b'-' || word_has_digit(text, start - 1)),
        b',' => !(before.is_ascii_digit() && end - start == 3),
        b'$' | b'^' | b'*' if before.is_ascii_digit() => false,
        b'$' => false,
        // A group of the same length before belongs to the same number.
        b' ' if before.is_ascii_digit() => run_before(text, start - 1) != end - start,
        // The signs of pounds, euros and yen in UTF-8.
        0xA3 | 0xA5 if before == 0xC2 => false,
        0xAC if before == 0x82 => false,
        _ => true,
    }
}

/// Digits directly before a place, counted up to 25.
fn run_before(text: &[u8], at: usize) -> usize {
    text[..at].iter().rev().take(DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count()
}

/// Whether the word that ends there has a digit: a part of a longer code then, such as a UUID.
fn word_has_digit(text: &[u8], at: usize) -> bool {
    let word = text[..at].iter().rev().take(12).take_while(|byte| byte.is_ascii_alphanumeric());
    word.clone().any(u8::is_ascii_digit)
}

fn ends(text: &[u8], number: &Number) -> bool {
    let byte = |ahead: usize| text.get(number.end + ahead).copied().unwrap_or(0);
    let digits =
        |from: usize| text[number.end + from..].iter().take(25).take_while(|b| b.is_ascii_digit()).count();
    let last = usize::from(*number.lens.last().unwrap_or(&0));
    match byte(0) {
        // A port may follow an address.
        b':' if number.seps == b"..." => true,
        b'.' | b':' | b'\'' => !byte(1).is_ascii_digit(),
        // A prefix length may follow an address.
        b'/' if number.seps == b"..." => true,
        b'-' | b'/' | b'+' => !byte(1).is_ascii_alphanumeric(),
        b',' => !(last <= 3 && digits(1) == 3),
        b' ' if byte(1).is_ascii_digit() => digits(1) != last,
        b'%' => false,
        _ => true,
    }
}

/// Offers the kinds whose digits, groups and check fit.
pub(crate) fn identities(sink: &mut Sink, number: &Number) {
    if number.lead == b'+' || number.digits.len() < 7 || crate::checks::uniform(number.digits) {
        return;
    }
    for rule in NUMBERS.iter().filter(|rule| rule.digits == number.digits.len()) {
        if let Some(form) = rule.forms.iter().find(|form| number.has(form))
            && (rule.check)(number.digits)
        {
            sink.offer(rule.kind, number.start, number.end, form.score);
        }
    }
}

/// Offers numbers of any form whose kind only a word beside them tells.
pub(crate) fn by_words(sink: &mut Sink, number: &Number) {
    use crate::sink::FAINT;
    let plain = number.lens.len() == 1;
    if number.lead == b'+' || !(plain || number.uniform()) {
        return;
    }
    let (start, end, count) = (number.start, number.end, number.digits.len());
    if plain && (8..=9).contains(&count) {
        sink.offer(Kind::Passport, start, end, FAINT);
    }
    if plain && (7..=12).contains(&count) {
        sink.offer(Kind::DriverLicence, start, end, FAINT);
    }
    let grouped = number.seps.first().is_some_and(|sep| matches!(sep, b'-' | b' '));
    let sort_code = number.lens == [2, 2, 2] && grouped;
    if sort_code || ((6..=17).contains(&count) && (plain || grouped) && !date_like(number)) {
        let routing = plain && count == 9 && aba(number.digits);
        sink.offer(Kind::BankAccount, start, end, if routing || sort_code { FAINT + 10 } else { FAINT });
    }
}

/// The check of US routing numbers: weights 3, 7, 1.
fn aba(digits: &[u8]) -> bool {
    crate::checks::weighted(digits, &[3, 7, 1, 3, 7, 1, 3, 7, 1]).is_multiple_of(10)
}

/// Whether the groups are those of a date in digits.
pub(crate) fn date_like(number: &Number) -> bool {
    matches!(number.lens, [4, 1..=2, 1..=2] | [1..=2, 1..=2, 4] | [4, 2, 2, ..])
}
