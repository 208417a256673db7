//! Dates of birth: dates in digits or with the name of a month, beside a word that says birth.

use crate::checks::{is_date, number};
use crate::kind::Kind;
use crate::numbers::Number;
use crate::sink::{FAINT, Sink};

/// Years in which people were born.
const YEARS: std::ops::RangeInclusive<u32> = 1900..=2035;

/// Offers a date in three groups of digits.
pub(crate) fn in_digits(sink: &mut Sink, number: &Number) {
    if !number.uniform() || !number.seps.first().is_some_and(|sep| matches!(sep, b'-' | b'/' | b'.')) {
        return;
    }
    let [first, second, third] = *number.lens else { return };
    let part = |from: u8, len: u8| {
        crate::checks::number(&number.digits[usize::from(from)..usize::from(from + len)]) as u32
    };
    let (a, b, c) = (part(0, first), part(first, second), part(first + second, third));
    let year_of_two = third == 2 && first <= 2 && second <= 2 && b.max(a) <= 31;
    let valid = match (first, third) {
        (4, 1..=2) => YEARS.contains(&a) && is_date(a, b, c),
        (1..=2, 4) => YEARS.contains(&c) && (is_date(c, b, a) || is_date(c, a, b)),
        _ => year_of_two && (is_date(2000, b, a) || is_date(2000, a, b)),
    };
    if valid {
        sink.offer(Kind::DateOfBirth, number.start, number.end, FAINT);
    }
}

/// Names of months: the first letters that tell them from other words, in lower case.
const MONTHS: &str = "january jan february feb march mar april apr may june jun july jul august aug september sept sep october oct \
    november nov december dec januar februar märz mai juni juli oktober dezember jänner janvier février mars avril juin \
    juillet août septembre octobre novembre décembre enero febrero marzo abril mayo junio julio agosto septiembre octubre \
    noviembre diciembre gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre janeiro fevereiro março maio \
    junho julho setembro outubro dezembro januari februari maart mei augustus";

fn is_month(word: &[u8]) -> bool {
    let Ok(word) = std::str::from_utf8(word) else { return false };
    let word = word.to_lowercase();
    MONTHS.split_ascii_whitespace().any(|month| month == word)
}

/// The word or number that ends before a place, without signs and spaces between: its range.
fn before(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let skipped =
        text[..at].iter().rev().take(4).take_while(|byte| matches!(byte, b' ' | b',' | b'.')).count();
    let end = at - skipped;
    let long = text[..end]
        .iter()
        .rev()
        .take(12)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte >= 0x80)
        .count();
    (long > 0 && long < 12).then_some((end - long, end))
}

/// The number of a day: one or two digits, perhaps with a suffix.
fn is_day(word: &[u8]) -> bool {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let day = word[..digits.min(2)].iter().fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0'));
    let suffix = matches!(&word[digits..], b"" | b"st" | b"nd" | b"rd" | b"th" | b"er");
    (1..=2).contains(&digits) && (1..=31).contains(&day) && suffix
}

/// Offers a date whose year is the run of digits `start..end`: "March 4, 1990", "4 March 1990", "4 de marzo de 1990".
pub(crate) fn with_month(sink: &mut Sink, start: usize, end: usize) {
    let text = sink.text;
    let digits: Vec<u8> = text[start..end].iter().map(|byte| byte - b'0').collect();
    if !sink.wants(Kind::DateOfBirth) || digits.len() != 4 || !YEARS.contains(&(number(&digits) as u32)) {
        return;
    }
    let is_of = |word: &[u8]| matches!(word, b"de" | b"of" | b"del");
    let skip = |at: usize| match before(text, at) {
        Some((from, to)) if is_of(&text[from..to]) => before(text, from),
        found => found,
    };
    let Some((from, to)) = skip(start) else { return };
    let other = if is_month(&text[from..to]) {
        skip(from).filter(|&(from, to)| is_day(&text[from..to]))
    } else if is_day(&text[from..to]) {
        skip(from).filter(|&(from, to)| is_month(&text[from..to]))
    } else {
        None
    };
    if let Some((first, _)) = other {
        sink.offer(Kind::DateOfBirth, first, end, FAINT);
    }
}
