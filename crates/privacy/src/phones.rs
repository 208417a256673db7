//! Phone numbers: international by calling code and length (ITU-T E.164), national by groups and words beside them.

use crate::kind::Kind;
use crate::numbers::{Groups, Number, date_like};
use crate::sink::{FAINT, SHAPE, Sink, WEAK};

/// Calling codes of one and two digits, with the digits that follow, at least and at most. Numbering plans by ITU-T, rounded
/// outwards where a plan has many lengths.
const CODES: &[(u8, u8, u8)] = &[
    (1, 10, 10),
    (7, 10, 10),
    (20, 8, 10),
    (27, 9, 9),
    (30, 10, 10),
    (31, 9, 9),
    (32, 8, 9),
    (33, 9, 9),
    (34, 9, 9),
    (36, 8, 9),
    (39, 6, 11),
    (40, 9, 9),
    (41, 9, 9),
    (43, 7, 12),
    (44, 9, 10),
    (45, 8, 8),
    (46, 7, 10),
    (47, 8, 8),
    (48, 9, 9),
    (49, 6, 12),
    (51, 8, 9),
    (52, 10, 11),
    (53, 8, 8),
    (54, 10, 11),
    (55, 10, 11),
    (56, 9, 9),
    (57, 8, 10),
    (58, 10, 10),
    (60, 8, 10),
    (61, 9, 9),
    (62, 8, 12),
    (63, 8, 10),
    (64, 8, 10),
    (65, 8, 8),
    (66, 8, 9),
    (81, 9, 10),
    (82, 8, 11),
    (84, 9, 10),
    (86, 10, 11),
    (90, 10, 10),
    (91, 10, 10),
    (92, 9, 10),
    (93, 9, 9),
    (94, 9, 9),
    (95, 7, 10),
    (98, 10, 10),
];

/// Whether calling codes of three digits begin so.
fn three(first: u8, second: u8) -> bool {
    matches!(
        (first, second),
        (2, 1..=6 | 9)
            | (3, 5 | 7 | 8)
            | (4, 2)
            | (5, 0 | 9)
            | (6, 7..=9)
            | (8, 0 | 5 | 7 | 8)
            | (9, 6 | 7 | 9)
    )
}

/// Whether digits after a plus, without a trunk zero in brackets, are a phone number's.
fn is_international(digits: &[u8]) -> bool {
    let [first, second, ..] = *digits else { return false };
    let plan = CODES.iter().find(|(code, ..)| *code == first || *code == first * 10 + second);
    match plan {
        // North America: neither area nor exchange begins with 0 or 1.
        Some((1, ..)) => digits.len() == 11 && nanp(&digits[1..]),
        Some(&(code, least, most)) => {
            let rest = digits.len() - if code < 10 { 1 } else { 2 };
            (usize::from(least)..=usize::from(most)).contains(&rest)
        }
        None => three(first, second) && (9..=15).contains(&digits.len()),
    }
}

/// The North American Numbering Plan: area code and exchange of three digits, neither beginning with 0 or 1.
fn nanp(digits: &[u8]) -> bool {
    digits.len() == 10 && digits[0] >= 2 && digits[3] >= 2 && !(digits[1] == 1 && digits[2] == 1)
}

/// Offers phone numbers that begin with the groups.
pub(crate) fn find(sink: &mut Sink, groups: &Groups) {
    if !sink.wants(Kind::Phone) {
        return;
    }
    let text = sink.text;
    let mut best = None;
    for number in groups.numbers(text).filter(|number| (7..=16).contains(&number.digits.len())) {
        let score = match number.lead {
            b'+' => international(&number),
            _ => national(&number),
        };
        // The longest that fits: a shorter one is a part of it.
        best = score.map(|score| (number.end, score)).or(best);
    }
    let Some((end, score)) = best else { return };
    let mut start = groups.numbers(text).next().map_or(0, |number| number.start);
    if groups.lead == b'+' || (groups.lead == b'(' && text[start..end].contains(&b')')) {
        start -= 1;
    }
    if groups.lead == b'(' && start >= 2 && text[start - 1].is_ascii_digit() && text[start - 2] == b'+' {
        return;
    }
    sink.offer(Kind::Phone, start, end, score);
}

fn international(number: &Number) -> Option<u8> {
    let mut digits = [0; 24];
    let (mut count, mut from) = (0, 0);
    for (at, &len) in number.lens.iter().enumerate() {
        let group = &number.digits[from..from + usize::from(len)];
        from += usize::from(len);
        let trunk = at > 0 && number.seps[at - 1] == b'(' && group == [0];
        if !trunk {
            digits[count..count + group.len()].copy_from_slice(group);
            count += group.len();
        }
    }
    is_international(&digits[..count]).then_some(85)
}

fn national(number: &Number) -> Option<u8> {
    let Number { digits, lens, seps, lead, .. } = *number;
    if crate::checks::uniform(digits) || date_like(number) || is_dotted_quad(number) || digits.len() > 13 {
        return None;
    }
    let sep = seps.first().copied().unwrap_or(0);
    let first = digits[0];
    let score = match lens {
        [3, 3, 4] if nanp(digits) => match sep {
            b')' if lead == b'(' => 70,
            b'-' | b'.' => SHAPE,
            _ => 50,
        },
        [1, 3, 3, 4] if first == 1 && nanp(&digits[1..]) => SHAPE,
        // France: five pairs.
        [2, 2, 2, 2, 2] if first == 0 && (1..=9).contains(&digits[1]) => SHAPE,
        // 00 in place of the plus.
        _ if digits.starts_with(&[0, 0]) && is_international(&digits[2..]) => SHAPE,
        // A trunk zero and groups: the UK, Germany, Japan, Korea, Australia.
        [3, 4, 4] | [5, 6] | [5, 3, 3] | [4, 3, 4] | [4, 3, 3] | [2, 4, 4] | [4, 6..=8] | [3, 6..=8]
            if first == 0 && digits[1] != 0 =>
        {
            55
        }
        // Brazil: the area in brackets.
        [2, 4..=5, 4] if lead == b'(' && sep == b')' => 65,
        // China and India: mobile numbers.
        [3, 4, 4] if first == 1 && digits[1] >= 3 => 50,
        [5, 5] if first >= 6 => 45,
        _ if lead == b'(' && sep == b')' && digits.len() >= 8 => 50,
        [_] if digits.len() == 11 && first == 1 && digits[1] >= 3 => WEAK,
        [_] if digits.len() >= 10 && digits.len() <= 11 => 20,
        [7..=9] => FAINT,
        [3, 4] if first >= 2 => WEAK,
        [_] => return None,
        _ if lens.iter().all(|&len| len <= 8) && digits.len() >= 7 && lens.len() <= 6 => 20,
        _ => return None,
    };
    Some(score)
}

fn is_dotted_quad(number: &Number) -> bool {
    number.lens.len() == 4
        && number.seps.iter().all(|&sep| sep == b'.')
        && number.lens.iter().all(|&len| len <= 3)
}
