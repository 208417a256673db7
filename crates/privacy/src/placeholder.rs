//! The grammar of placeholders, for whoever writes them and whoever puts values back.
//!
//! A placeholder is `<NAME_N>`. Models and encoders change it: `<name_n>`, `&lt;NAME_N&gt;`, `\u003cNAME_N\u003e`, and `NAME_N`
//! without brackets, in capitals and as a word of its own, are read as the same.

/// Opening and closing brackets, as they are and as HTML and JSON escape them.
const BRACKETS: [(&[u8], &[u8]); 3] = [(b"<", b">"), (b"&lt;", b"&gt;"), (b"\\u003c", b"\\u003e")];

/// Bytes of a placeholder beside its name, at most.
pub(crate) const BESIDE: usize = 12;

/// What is known of some capital letters, digits and underscores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Neither a placeholder's name nor the begin of one.
    Never,
    /// The begin of one.
    Prefix,
    /// A placeholder's name, and perhaps the begin of another.
    Whole,
}

/// Names of placeholders.
pub(crate) trait Dictionary {
    fn look(&self, name: &[u8]) -> Look;
    /// Bytes of the longest name.
    fn longest(&self) -> usize;
}

/// What begins at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// No placeholder.
    No,
    /// Perhaps one: the text ends before that can be told.
    More,
    /// A placeholder of that many bytes, and its name in capitals.
    Is(usize, Vec<u8>),
}

/// How far a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// No more is to come.
    Final,
    /// More may come.
    Open,
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a sign begins there: `Some(true)`, it does; `None`, the text ends within it.
fn spelled(text: &[u8], sign: &[u8], end: End) -> Option<bool> {
    let seen = text.len().min(sign.len());
    if !text[..seen].eq_ignore_ascii_case(&sign[..seen]) {
        return Some(false);
    }
    if seen == sign.len() {
        Some(true)
    } else if end == End::Final {
        Some(false)
    } else {
        None
    }
}

/// What begins with the text, of which `opened` says whether a word may begin there.
fn parse(text: &[u8], opened: bool, end: End, names: &impl Dictionary) -> Parsed {
    for (open, close) in BRACKETS {
        match spelled(text, open, end) {
            Some(true) => return bracketed(text, open.len(), close, end, names),
            Some(false) => {}
            None => return Parsed::More,
        }
    }
    if !opened || !text.first().is_some_and(u8::is_ascii_uppercase) {
        return Parsed::No;
    }
    let name = name(text, names);
    if name.iter().any(u8::is_ascii_lowercase) {
        return Parsed::No;
    }
    match names.look(name) {
        look if name.len() == text.len() && end == End::Open && look != Look::Never => Parsed::More,
        Look::Whole => Parsed::Is(name.len(), name.to_vec()),
        Look::Never | Look::Prefix => Parsed::No,
    }
}

/// The letters, digits and underscores that a text begins with, one more than a name can have.
fn name<'t>(text: &'t [u8], names: &impl Dictionary) -> &'t [u8] {
    let long = text.iter().take(names.longest() + 1).take_while(|byte| is_part(**byte)).count();
    &text[..long]
}

fn bracketed(text: &[u8], open: usize, close: &[u8], end: End, names: &impl Dictionary) -> Parsed {
    let name = name(&text[open..], names).to_ascii_uppercase();
    let look = names.look(&name);
    let behind = &text[open + name.len()..];
    if behind.is_empty() && end == End::Open {
        return if look == Look::Never { Parsed::No } else { Parsed::More };
    }
    if look != Look::Whole {
        return Parsed::No;
    }
    match spelled(behind, close, end) {
        Some(true) => Parsed::Is(open + name.len() + close.len(), name),
        Some(false) => Parsed::No,
        None => Parsed::More,
    }
}

/// What a text holds next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A placeholder: where it begins, its bytes, its name.
    Found(usize, usize, Vec<u8>),
    /// None before this place, from which on more text must be waited for.
    Wait(usize),
}

/// The first placeholder of a text, behind a byte (0 for none).
pub(crate) fn next(text: &[u8], before: u8, end: End, names: &impl Dictionary) -> Next {
    let mut previous = before;
    for (at, &byte) in text.iter().enumerate() {
        let opened = !is_part(previous);
        previous = byte;
        if matches!(byte, b'<' | b'&' | b'\\') || (opened && byte.is_ascii_uppercase()) {
            match parse(&text[at..], opened, end, names) {
                Parsed::No => {}
                Parsed::More => return Next::Wait(at),
                Parsed::Is(length, name) => return Next::Found(at, length, name),
            }
        }
    }
    Next::Wait(text.len())
}
