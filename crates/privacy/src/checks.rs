//! Check digits: pure arithmetic on digits `0..=9`.

/// Luhn's check (ISO/IEC 7812-1, annex B) over all digits, the last being the check digit.
pub(crate) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = (digits.iter().rev().enumerate())
        .map(|(at, &digit)| {
            let digit = u32::from(digit);
            if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Sum of digits by their weights; the shorter of both ends it.
pub(crate) fn weighted(digits: &[u8], weights: &[u32]) -> u32 {
    digits.iter().zip(weights).map(|(&digit, weight)| u32::from(digit) * weight).sum()
}

/// The number that the digits write, for at most 18 of them.
pub(crate) fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |sum, &digit| sum * 10 + u64::from(digit))
}

/// Whether letters and digits give remainder 1 by 97, letters counting 10 to 35 (ISO/IEC 7064 MOD 97-10).
pub(crate) fn mod_97(characters: impl Iterator<Item = u8>) -> bool {
    let mut rest: u32 = 0;
    for byte in characters {
        rest = match byte {
            b'0'..=b'9' => rest * 10 + u32::from(byte - b'0'),
            b'A'..=b'Z' => rest * 100 + u32::from(byte - b'A') + 10,
            _ => return false,
        } % 97;
    }
    rest == 1
}

/// ISO/IEC 7064 MOD 11,10 over all digits, the last being the check digit.
pub(crate) fn mod_11_10(digits: &[u8]) -> bool {
    let Some((&last, body)) = digits.split_last() else { return false };
    let product = body.iter().fold(10, |product, &digit| {
        let sum = (product + u32::from(digit)) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == u32::from(last)
}

/// Verhoeff's check (Aadhaar): permutations and the dihedral group D5.
pub(crate) fn verhoeff(digits: &[u8]) -> bool {
    const PERMUTATION: [[u8; 10]; 8] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 5, 7, 6, 2, 8, 3, 0, 9, 4],
        [5, 8, 0, 3, 7, 9, 6, 1, 4, 2],
        [8, 9, 1, 6, 0, 4, 3, 5, 2, 7],
        [9, 4, 5, 3, 1, 2, 6, 8, 7, 0],
        [4, 2, 8, 6, 5, 7, 3, 9, 0, 1],
        [2, 7, 9, 3, 8, 0, 6, 4, 1, 5],
        [7, 0, 4, 6, 9, 1, 3, 2, 5, 8],
    ];
    let product = |a: u8, b: u8| match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => (a + b - 5) % 5 + 5,
        (false, true) => (a + 5 - b) % 5 + 5,
        (false, false) => (a + 5 - b) % 5,
    };
    let steps = digits.iter().rev().enumerate();
    steps.fold(0, |check, (at, &digit)| product(check, PERMUTATION[at % 8][usize::from(digit % 10)])) == 0
}

/// EAN-13's check digit: weights 1 and 3 in turn.
pub(crate) fn ean_13(digits: &[u8]) -> bool {
    digits.len() == 13 && weighted(digits, &[1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]).is_multiple_of(10)
}

/// Days of the month, with the 29th of February in leap years of the Gregorian calendar.
pub(crate) fn is_date(year: u32, month: u32, day: u32) -> bool {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Whether all digits are the same: what stands in forms, never a number that was given out.
pub(crate) fn uniform(digits: &[u8]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().map(|byte| byte - b'0').collect()
    }

    #[test]
    fn published_examples_pass_and_a_changed_digit_fails() {
        type Check = fn(&[u8]) -> bool;
        // The Wikipedia articles of Luhn and Verhoeff, ISO/IEC 7064's example 079 with check digit 2, Verhoeff's 236 3.
        let cases: [(Check, &str); 5] = [
            (luhn, "17893729974"),
            (luhn, "4111111111111111"),
            (verhoeff, "2363"),
            (mod_11_10, "0792"),
            (ean_13, "4006381333931"),
        ];
        for (check, text) in cases {
            let mut all = digits(text);
            assert!(check(&all), "{text}");
            let last = all.len() - 1;
            all[last] = (all[last] + 1) % 10;
            assert!(!check(&all), "{text} with another check digit");
        }
        assert!(mod_97(b"3214282912345698765432161182".iter().copied()));
        assert!(!mod_97(b"3214282912345698765432161183".iter().copied()));
        assert!(is_date(2000, 2, 29) && !is_date(1900, 2, 29) && !is_date(2023, 4, 31));
    }
}
