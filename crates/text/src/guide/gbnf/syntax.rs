//! The syntax tree of a grammar.

use super::chars;

/// A parsed grammar. Rule 0 is `root`.
pub(super) struct Grammar {
    pub(super) rules: Vec<Expr>,
}

/// A part of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// One character of a set.
    Class(chars::Chars),
    /// A sequence; an empty one matches the empty text.
    Seq(Vec<Expr>),
    /// One of several alternatives.
    Alt(Vec<Expr>),
    /// A repetition with a least and an optional largest count.
    Repeat(Box<Expr>, u32, Option<u32>),
    /// A rule, by number.
    Rule(usize),
}
