//! Translates llama.cpp's grammars (GBNF) to llguidance's Lark.
//!
//! GBNF matches characters, llguidance lexemes, which are greedy (maximal munch). A part of a grammar becomes a lexeme
//! only if that makes no difference: no character that may follow it can also extend it, and no other lexeme has the
//! same beginning. Other parts are matched character by character, which is slower but exact.
//!
//! The format is that of llama.cpp's `grammars/README.md`, without token literals (`<think>`, `<[1000]>`).

mod chars;
mod lark;
mod parse;
mod sets;
mod syntax;

/// Translates a GBNF grammar to Lark.
///
/// # Errors
/// Why the grammar is invalid or cannot be translated, with the line.
pub(super) fn to_lark(gbnf: &str) -> Result<String, String> {
    let grammar = parse::parse(gbnf)?;
    let sets = sets::Sets::of(&grammar)?;
    Ok(lark::write(&grammar, &sets))
}

/// Whether a grammar is GBNF rather than Lark, which defines rules by a colon.
pub(super) fn is_gbnf(grammar: &str) -> bool {
    grammar.contains("::=")
}

#[cfg(test)]
mod tests;
