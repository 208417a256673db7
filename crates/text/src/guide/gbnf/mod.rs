//! llama.cpp's grammars (GBNF), told in llguidance's words.
//!
//! GBNF speaks of characters, llguidance of lexemes: each as long as it can be, whatever would come after it. So a part
//! of a grammar becomes a lexeme only where that makes no difference: where no character that may follow it could also
//! prolong it, and no other lexeme begins alike. The rest stays character by character, which is slower and exact.
//!
//! The format is that of llama.cpp's `grammars/README.md`. Left out are its token literals (`<think>`, `<[1000]>`).

mod chars;
mod lark;
mod parse;
mod sets;
mod syntax;

/// A grammar in Lark for one in GBNF.
///
/// # Errors
/// Where and why the grammar cannot be told, with its line.
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
