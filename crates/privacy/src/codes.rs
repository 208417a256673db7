//! Identities with letters: check letters, and shapes that little else has.

use crate::checks::{is_date, number, weighted};
use crate::kind::Kind;
use crate::sink::{FAINT, LIKELY, SHAPE, SURE, Sink};

/// Check letters of Spanish numbers, by remainder of 23 (Orden INT/2058/2008).
const ES: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";

/// Check characters of Finnish codes, by remainder of 31 (Digital and Population Data Services Agency).
const FI: &[u8; 31] = b"0123456789ABCDEFHJKLMNPRSTUVWXY";

fn digit(byte: u8) -> u8 {
    byte.wrapping_sub(b'0')
}

fn digits(bytes: &[u8]) -> Option<Vec<u8>> {
    bytes.iter().all(u8::is_ascii_digit).then(|| bytes.iter().copied().map(digit).collect())
}

/// Offers what a word of letters and digits without separators may be.
pub(crate) fn word(sink: &mut Sink, start: usize, end: usize) {
    let text = sink.text;
    let word = &text[start..end];
    let mut offer = |kind: Kind, score: Option<u8>| {
        if let Some(score) = score {
            sink.offer(kind, start, end, score);
        }
    };
    let mut upper = [0_u8; 16];
    let upper = match word.len() {
        len @ 6..=16 => {
            upper[..len].copy_from_slice(word);
            upper[..len].make_ascii_uppercase();
            &upper[..len]
        }
        _ => return,
    };
    // In small letters a code is as likely a part of a hash or an identifier.
    let small = |score: u8| if word.iter().any(u8::is_ascii_lowercase) { score - 25 } else { score };
    match upper.len() {
        9 => {
            offer(Kind::EsNif, es_nif(upper).then(|| small(70)));
            offer(Kind::EsNie, es_nie(upper).then(|| small(LIKELY)));
            offer(Kind::SgNric, sg_nric(upper).then(|| small(LIKELY)));
            offer(Kind::UkNino, uk_nino(upper).then(|| small(75)));
        }
        10 => offer(Kind::InPan, in_pan(upper).then(|| small(65))),
        11 => offer(Kind::FiHetu, fi_hetu(upper).then_some(LIKELY)),
        15 => offer(Kind::FrNir, corsica(upper).then(|| small(LIKELY))),
        16 => {
            offer(Kind::ItFiscalCode, it_fiscal_code(upper).then_some(SURE));
            offer(Kind::DriverLicence, uk_licence(upper).then(|| small(SHAPE)));
        }
        _ => {}
    }
    let count = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    let capitals = word.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    // Germany's have few digits among letters without vowels.
    if capitals && (6..=10).contains(&word.len()) && count >= if word.len() == 9 { 2 } else { 4 } {
        offer(Kind::Passport, Some(FAINT));
    }
    if capitals && (6..=16).contains(&word.len()) && count >= 4 {
        offer(Kind::DriverLicence, Some(FAINT));
    }
}

/// Offers codes with separators that begin with the run of digits `start..end`, or whose letters stand before it.
pub(crate) fn separated(sink: &mut Sink, start: usize, end: usize) {
    let text = sink.text;
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let closed = |at: usize| !byte(at).is_ascii_alphanumeric();
    match end - start {
        // Finland: six digits, a sign, three digits, a check character.
        6 if matches!(byte(end), b'-' | b'+') && text.len() >= end + 5 && closed(end + 5) => {
            let mut code = [0; 11];
            code.copy_from_slice(&text[start..end + 5]);
            code.make_ascii_uppercase();
            if fi_hetu(&code) {
                sink.offer(Kind::FiHetu, start, end + 5, SURE);
            }
        }
        // Spain: the letter behind a hyphen or a space.
        8 if matches!(byte(end), b'-' | b' ') && byte(end + 1).is_ascii_uppercase() && closed(end + 2) => {
            let mut code = [0; 9];
            code[..8].copy_from_slice(&text[start..end]);
            code[8] = byte(end + 1);
            if es_nif(&code) {
                sink.offer(Kind::EsNif, start, end + 2, if byte(end) == b'-' { 75 } else { SHAPE });
            }
        }
        7 if start >= 2 && byte(start - 1) == b'-' && byte(end) == b'-' && closed(end + 2) => {
            let mut code = [0; 9];
            code[0] = byte(start - 2);
            code[1..8].copy_from_slice(&text[start..end]);
            code[8] = byte(end + 1);
            let opened = start == 2 || closed(start - 3);
            if opened && es_nie(&code) {
                sink.offer(Kind::EsNie, start - 2, end + 2, LIKELY);
            }
        }
        1 => corsica_in_groups(sink, start),
        2 => nino_in_pairs(sink, start),
        _ => {}
    }
}

/// "2 72 08 2A 123 456 78", from its first digit.
fn corsica_in_groups(sink: &mut Sink, start: usize) {
    const LENGTH: usize = 21;
    let text = sink.text;
    let is_corsica = |it: &&[u8]| it[8] == b'2' && matches!(it[9], b'A' | b'B');
    let Some(found) = text.get(start..start + LENGTH).filter(is_corsica) else { return };
    let mut code = [0; 15];
    let mut at = 0;
    for (place, &byte) in found.iter().enumerate() {
        if matches!(place, 1 | 4 | 7 | 10 | 14 | 18) {
            if byte != b' ' && byte != b'.' {
                return;
            }
        } else {
            code[at] = byte;
            at += 1;
        }
    }
    let closed = !text.get(start + LENGTH).is_some_and(u8::is_ascii_alphanumeric);
    if closed && corsica(&code) {
        sink.offer(Kind::FrNir, start, start + LENGTH, SURE);
    }
}

/// "AB 12 34 56 C", from its first digits.
fn nino_in_pairs(sink: &mut Sink, start: usize) {
    let text = sink.text;
    let Some(from) = start.checked_sub(3) else { return };
    let Some(found) = text.get(from..from + 13) else { return };
    let mut code = [0; 9];
    let mut at = 0;
    for (place, &byte) in found.iter().enumerate() {
        if matches!(place, 2 | 5 | 8 | 11) {
            if byte != b' ' && byte != b'-' {
                return;
            }
        } else {
            code[at] = byte;
            at += 1;
        }
    }
    let closed = |at: Option<usize>| !at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    if closed(from.checked_sub(1)) && closed(Some(from + 13)) && uk_nino(&code) {
        sink.offer(Kind::UkNino, from, from + 13, SURE);
    }
}

fn es_nif(code: &[u8]) -> bool {
    let Some(digits) = digits(&code[..8]) else { return false };
    ES[(number(&digits) % 23) as usize] == code[8]
}

fn es_nie(code: &[u8]) -> bool {
    let Some(first) = b"XYZ".iter().position(|byte| *byte == code[0]) else { return false };
    let Some(digits) = digits(&code[1..8]) else { return false };
    ES[((first as u64 * 10_000_000 + number(&digits)) % 23) as usize] == code[8]
}

/// Weights 2, 7, 6, 5, 4, 3, 2 and the letters of citizens, of foreigners (F, G) and of those since 2022 (M).
fn sg_nric(code: &[u8]) -> bool {
    let Some(digits) = digits(&code[1..8]) else { return false };
    let sum = weighted(&digits, &[2, 7, 6, 5, 4, 3, 2]);
    let (add, letters) = match code[0] {
        b'S' => (0, b"JZIHGFEDCBA"),
        b'T' => (4, b"JZIHGFEDCBA"),
        b'F' => (0, b"XWUTRQPNMLK"),
        b'G' => (4, b"XWUTRQPNMLK"),
        b'M' => (3, b"XWUTRQPNJLK"),
        _ => return false,
    };
    let rest = ((sum + add) % 11) as usize;
    letters[rest] == code[8]
}

/// HMRC, NIM39110: letters that are not used in each place, prefixes that are not given out, suffix A to D.
fn uk_nino(code: &[u8]) -> bool {
    let [a, b] = [code[0], code[1]];
    let letters = a.is_ascii_uppercase() && b.is_ascii_uppercase();
    let unused = b"DFIQUV".contains(&a) || b"DFIQUVO".contains(&b);
    let prefix = matches!(&[a, b], b"BG" | b"GB" | b"KN" | b"NK" | b"NT" | b"TN" | b"ZZ");
    letters
        && !unused
        && !prefix
        && code[2..8].iter().all(u8::is_ascii_digit)
        && matches!(code[8], b'A'..=b'D')
}

/// Income Tax Department: five letters of which the fourth says who holds it, four digits, a letter.
fn in_pan(code: &[u8]) -> bool {
    code[..5].iter().all(u8::is_ascii_uppercase)
        && b"ABCFGHJLPT".contains(&code[3])
        && code[5..9].iter().all(u8::is_ascii_digit)
        && code[9].is_ascii_uppercase()
}

fn fi_hetu(code: &[u8]) -> bool {
    let century = match code[6] {
        b'+' => 1800,
        b'-' | b'U'..=b'Y' => 1900,
        b'A'..=b'F' => 2000,
        _ => return false,
    };
    let (Some(date), Some(serial)) = (digits(&code[..6]), digits(&code[7..10])) else { return false };
    let part = |from: usize| number(&date[from..from + 2]) as u32;
    let rest = (number(&date) * 1000 + number(&serial)) % 31;
    is_date(century + part(4), part(2), part(0)) && number(&serial) >= 2 && FI[rest as usize] == code[10]
}

/// Departments 2A and 2B count as 19 and 18 in the key of a French number.
fn corsica(code: &[u8]) -> bool {
    let mut plain = [0; 15];
    plain.copy_from_slice(code);
    match &code[5..7] {
        b"2A" => plain[5..7].copy_from_slice(b"19"),
        b"2B" => plain[5..7].copy_from_slice(b"18"),
        _ => return false,
    }
    digits(&plain).is_some_and(|digits| crate::identities::fr_nir(&digits))
}

/// Decree 345 of 1976: letters in six places, digits (or the letters that replace them) in seven, a check letter.
fn it_fiscal_code(code: &[u8]) -> bool {
    const ODD: [u8; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let numeric = |byte: u8| byte.is_ascii_digit() || b"LMNPQRSTUV".contains(&byte);
    let shape = code.iter().enumerate().all(|(at, &byte)| match at {
        6 | 7 | 9 | 10 | 12..=14 => numeric(byte),
        8 => b"ABCDEHLMPRST".contains(&byte),
        _ => byte.is_ascii_uppercase(),
    });
    if !shape {
        return false;
    }
    let value = |byte: u8| if byte.is_ascii_digit() { digit(byte) } else { byte - b'A' };
    let sum: u32 = (code[..15].iter().enumerate())
        .map(|(at, &byte)| u32::from(if at % 2 == 0 { ODD[usize::from(value(byte))] } else { value(byte) }))
        .sum();
    u32::from(code[15] - b'A') == sum % 26
}

/// DVLA: five letters of the name, a digit of the year, month (50 more for women), day, year, initials.
fn uk_licence(code: &[u8]) -> bool {
    let letters = code[..5].iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'9') && code[0] != b'9';
    let Some(date) = digits(&code[5..11]) else { return false };
    let (month, day) = (number(&date[1..3]) % 50, number(&date[3..5]));
    let initials = code[11..13].iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'9');
    letters
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && initials
        && code[13].is_ascii_digit()
        && code[14..].iter().all(u8::is_ascii_uppercase)
}
