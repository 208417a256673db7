//! A grammar as a tree.

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
    /// One after the other; empty is the empty text.
    Seq(Vec<Expr>),
    /// Any of them.
    Alt(Vec<Expr>),
    /// So many times.
    Repeat(Box<Expr>, u32, Option<u32>),
    /// A rule, by number.
    Rule(usize),
}
