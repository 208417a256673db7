//! JSON strings as regular sets.

use super::language::{self, Script};
use super::term::Term;

/// Any string, with all JSON escapes.
pub(super) fn any_text() -> Term {
    let pair = r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}";
    let unit = format!(r"\\u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{{3}}|[dD][0-7][0-9a-fA-F]{{2}}|{pair})");
    Term::regex(format!(r#""(?:[^"\\\x00-\x1F]|\\["\\bfnrt/]|{unit})*""#))
}

/// Any key, in canonical escaping.
pub(super) fn any_key() -> Term {
    in_quotes(language::anything(Script::Json))
}

pub(super) fn in_quotes(term: Term) -> Term {
    let quote = || Term::Text("\"".into());
    quote().then(term.then(quote()))
}
