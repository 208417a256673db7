//! Payment cards and IBANs.

use crate::checks::{luhn, mod_97, number, uniform};
use crate::kind::Kind;
use crate::numbers::Number;
use crate::sink::{SURE, Sink};

/// Offers a payment card: issuer range and length (ISO/IEC 7812, the networks' tables), Luhn, the groups of cards.
pub(crate) fn card(sink: &mut Sink, number: &Number) {
    let digits = number.digits;
    if !(12..=19).contains(&digits.len()) || number.lead == b'+' || !number.uniform() || uniform(digits) {
        return;
    }
    let grouped = number.seps.first().is_none_or(|sep| matches!(sep, b' ' | b'-'));
    let groups = matches!(
        number.lens,
        [_] | [4, 4, 4, 4] | [4, 4, 4, 4, 3] | [4, 6, 5] | [4, 6, 4] | [4, 4, 5] | [4, 4, 4, 1..=2]
    );
    if grouped && groups && luhn(digits) {
        let score = issuer(digits);
        sink.offer(Kind::CreditCard, number.start, number.end, score);
    }
}

/// The score of an issuer's range with that length, 0 for none.
fn issuer(digits: &[u8]) -> u8 {
    let (two, three, four) = (number(&digits[..2]), number(&digits[..3]), number(&digits[..4]));
    let six = number(&digits[..6]);
    match digits.len() {
        16 if digits[0] == 4 => SURE,
        16 if matches!(two, 51..=55) || matches!(four, 2221..=2720) => SURE,
        15 if matches!(two, 34 | 37) => SURE,
        16..=19 if four == 6011 || matches!(three, 644..=649) || two == 65 => SURE,
        16..=19 if matches!(four, 3528..=3589) => 90,
        // The rest of JCB's block.
        16 if two == 35 => 75,
        16..=19 if two == 62 || two == 81 || two == 82 || two == 60 => 90,
        14..=19 if matches!(three, 300..=305 | 309) || matches!(two, 36 | 38 | 39) => 75,
        16..=19 if matches!(four, 2200..=2204) || four == 9792 || three == 508 => 80,
        16..=19 if matches!(six, 500_000..=509_999 | 560_000..=589_999 | 630_000..=639_999 | 670_000..=679_999) => {
            75
        }
        13 | 19 if digits[0] == 4 => 40,
        12..=15 if matches!(two, 50 | 56..=58 | 63 | 67) => 30,
        _ => 0,
    }
}

/// Lengths by country: SWIFT's IBAN registry, release 99.
const IBAN: &[(&[u8; 2], u8)] = &[
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BI", 27),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DJ", 27),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FK", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HN", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MN", 20),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NI", 28),
    (b"NL", 18),
    (b"NO", 15),
    (b"OM", 23),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"RU", 33),
    (b"SA", 24),
    (b"SC", 31),
    (b"SD", 18),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"SO", 23),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
    (b"YE", 30),
];

/// Offers an IBAN that begins there, in groups or not, in capitals or not.
pub(crate) fn iban(sink: &mut Sink, start: usize) {
    let text = sink.text;
    let upper = |at: usize| text.get(at).map_or(0, u8::to_ascii_uppercase);
    let country = [upper(start), upper(start + 1)];
    let Ok(at) = IBAN.binary_search_by(|(code, _)| code[..].cmp(&country)) else { return };
    let length = usize::from(IBAN[at].1);
    if start > 0 && text[start - 1] == b'-' {
        return;
    }
    let (mut letters, mut count, mut end) = ([0_u8; 34], 0, start);
    while count < length {
        match upper(end) {
            byte @ (b'0'..=b'9' | b'A'..=b'Z') => {
                letters[count] = byte;
                count += 1;
            }
            // Groups have four characters.
            b' ' | b'-' if count % 4 == 0 && upper(end + 1).is_ascii_alphanumeric() => {}
            _ => return,
        }
        end += 1;
    }
    let follows = upper(end);
    if follows.is_ascii_alphanumeric() || follows == b'_' {
        return;
    }
    if mod_97(letters[4..length].iter().chain(&letters[..4]).copied()) {
        sink.offer(Kind::Iban, start, end, SURE);
    }
}

#[cfg(test)]
mod tests {
    use super::IBAN;

    #[test]
    fn countries_rise_so_that_they_can_be_searched() {
        assert!(IBAN.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
