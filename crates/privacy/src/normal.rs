//! Text as the rules read it: digits and letters of other forms as ASCII, invisible characters left out, and the way back
//! to the bytes of the original.

use std::borrow::Cow;
use std::ops::Range;

/// The zeros of Unicode's decimal digits (general category Nd), each followed by its nine others.
const ZEROS: [u32; 68] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
    0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x10d40, 0x11066,
    0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950,
    0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec,
    0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e950, 0x1fbf0,
];

/// What becomes of a character that is not ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Same,
    Gone,
    To(u8),
}

fn fold(character: char) -> Fold {
    let code = u32::from(character);
    match code {
        // Latin, Greek and Cyrillic letters: what most text that is not ASCII is made of.
        0xC0..=0x34E | 0x350..=0x61B | 0x61D..=0x65F => Fold::Same,
        // Soft hyphen, joiners, directions, invisible operators, variation selectors, tags.
        0xAD | 0x34F | 0x61C | 0x180B..=0x180F | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F => {
            Fold::Gone
        }
        0xFE00..=0xFE0F | 0xFEFF | 0xE0000..=0xE0FFF => Fold::Gone,
        0xA0 | 0x1680 | 0x2000..=0x200A | 0x202F | 0x205F | 0x3000 => Fold::To(b' '),
        0x2010..=0x2015 | 0x2212 | 0xFE58 | 0xFE63 => Fold::To(b'-'),
        0x2024 | 0x3002 | 0xFE52 | 0xFF61 => Fold::To(b'.'),
        0xFE6B => Fold::To(b'@'),
        0x24EA => Fold::To(b'0'),
        0x2460..=0x2468 => Fold::To(b'1' + (code - 0x2460) as u8),
        // Fullwidth ASCII: its digits, letters and signs.
        0xFF01..=0xFF5E => Fold::To((code - 0xFF01) as u8 + b'!'),
        // Mathematical alphabets, 26 capital and 26 small letters each.
        0x1D400..=0x1D6A3 => match (code - 0x1D400) % 52 {
            at @ 0..26 => Fold::To(b'A' + at as u8),
            at => Fold::To(b'a' + (at - 26) as u8),
        },
        _ => match ZEROS.binary_search(&code) {
            Ok(_) => Fold::To(b'0'),
            Err(0) => Fold::Same,
            Err(at) if code - ZEROS[at - 1] < 10 => Fold::To(b'0' + (code - ZEROS[at - 1]) as u8),
            Err(_) => Fold::Same,
        },
    }
}

/// A text as the rules read it.
#[derive(Debug)]
pub(crate) struct Normal<'a> {
    pub text: Cow<'a, str>,
    /// Offsets in `text` and in the original, rising, from which both advance together.
    steps: Vec<(usize, usize)>,
}

impl<'a> Normal<'a> {
    /// The normal form of a text. One that needs no change is borrowed.
    pub(crate) fn of(original: &'a str) -> Self {
        let first =
            (original.char_indices().filter(|(_, c)| !c.is_ascii())).find(|(_, c)| fold(*c) != Fold::Same);
        let plain = original.is_ascii() || first.is_none();
        let Some((first, _)) = first.filter(|_| !plain) else {
            return Normal { text: Cow::Borrowed(original), steps: Vec::new() };
        };
        let mut text = String::with_capacity(original.len());
        text.push_str(&original[..first]);
        let mut steps = Vec::new();
        for (at, character) in original[first..].char_indices() {
            let at = first + at;
            let folded = if character.is_ascii() { Fold::Same } else { fold(character) };
            if folded == Fold::Same {
                text.push(character);
                continue;
            }
            if steps.last() != Some(&(text.len(), at)) {
                steps.push((text.len(), at));
            }
            if let Fold::To(byte) = folded {
                text.push(char::from(byte));
            }
            steps.push((text.len(), at + character.len_utf8()));
        }
        Normal { text: Cow::Owned(text), steps }
    }

    /// The range of the original that a range of the text was made of, without invisible characters at its ends.
    pub(crate) fn original(&self, range: &Range<usize>) -> Range<usize> {
        self.start(range.start)..self.end(range.end)
    }

    fn start(&self, at: usize) -> usize {
        let next = self.steps.partition_point(|step| step.0 <= at);
        self.after_step(next, at)
    }

    fn end(&self, at: usize) -> usize {
        let next = self.steps.partition_point(|step| step.0 < at);
        match self.steps.get(next) {
            Some(&(place, original)) if place == at => original,
            _ => self.after_step(next, at),
        }
    }

    fn after_step(&self, next: usize, at: usize) -> usize {
        next.checked_sub(1).map_or(at, |step| self.steps[step].1 + (at - self.steps[step].0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    #[test]
    fn zeros_rise_so_that_they_can_be_searched() {
        assert!(ZEROS.windows(2).all(|pair| pair[0] + 10 <= pair[1]));
    }

    #[test]
    fn digits_of_other_scripts_are_ascii_and_lead_back_to_their_bytes() {
        let original = "n\u{ba} ４１\u{200b}\u{661}é\u{a0}x\u{feff}";
        let normal = Normal::of(original);
        assert_eq!(normal.text, "n\u{ba} 411é x");
        let at = normal.text.find("411").unwrap();
        assert_eq!(&original[normal.original(&(at..at + 3))], "４１\u{200b}\u{661}");
        assert_eq!(&original[normal.original(&(at + 1..at + 2))], "１");
        assert_eq!(&original[normal.original(&(at + 2..at + 3))], "\u{661}");
        let x = normal.text.find('x').unwrap();
        assert_eq!(&original[normal.original(&(x..x + 1))], "x");
    }

    #[test]
    fn plain_text_is_borrowed() {
        for text in ["", "plain", "Grüße, мир"] {
            assert!(matches!(Normal::of(text).text, Cow::Borrowed(_)), "{text}");
        }
    }
}
