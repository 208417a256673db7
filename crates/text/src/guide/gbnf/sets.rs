//! Computes FIRST, continuation and FOLLOW sets of a grammar's parts.

use super::chars::Chars;
use super::syntax::{Expr, Grammar};

/// The most rounds of the fixed-point iteration, more than the nesting of loops in real grammars.
const ROUNDS: usize = 64;

/// The properties of a part that do not depend on its context.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    /// Whether the part matches the empty text.
    pub(super) nullable: bool,
    /// Characters with which the part may begin (FIRST set).
    pub(super) first: Chars,
    /// Characters that may extend a text of this part to a longer one; all characters if that cannot be determined.
    pub(super) tail: Chars,
    /// Whether the part is regular: none of its rules is recursive.
    pub(super) regular: bool,
}

pub(super) struct Sets {
    /// The shape of each rule; empty for rules that `root` does not reach.
    rules: Vec<Shape>,
    /// The characters that may follow each rule (FOLLOW set).
    pub(super) follow: Vec<Chars>,
    /// The rules that `root` reaches, each after those that it refers to, except in cycles.
    pub(super) order: Vec<usize>,
}

impl Sets {
    pub(super) fn of(grammar: &Grammar) -> Result<Sets, String> {
        let count = grammar.rules.len();
        let order = order(grammar);
        let mut sets =
            Sets { rules: vec![Shape::default(); count], follow: vec![Chars::default(); count], order };
        sets.settle(|sets| {
            let mut changed = false;
            for at in 0..sets.order.len() {
                let rule = sets.order[at];
                let shape = sets.shape(&grammar.rules[rule]);
                let known = &mut sets.rules[rule];
                changed |= known.first.add(&shape.first) | (known.nullable != shape.nullable);
                known.nullable = shape.nullable;
                // In this order the first round has visited everything that a regular rule refers to.
                known.regular = shape.regular;
                known.tail = shape.tail;
            }
            changed
        })?;
        sets.settle(|sets| {
            let mut changed = false;
            for at in (0..sets.order.len()).rev() {
                let rule = sets.order[at];
                let after = sets.follow[rule].clone();
                changed |= sets.follow_in(&grammar.rules[rule], &after);
            }
            changed
        })?;
        Ok(sets)
    }

    fn settle(&mut self, mut round: impl FnMut(&mut Sets) -> bool) -> Result<(), String> {
        for _ in 0..ROUNDS {
            if !round(self) {
                return Ok(());
            }
        }
        Err("GBNF: the rules refer to one another in too many circles".into())
    }

    pub(super) fn shape(&self, expr: &Expr) -> Shape {
        match expr {
            Expr::Class(chars) => Shape { first: chars.clone(), regular: true, ..Shape::default() },
            Expr::Rule(rule) => self.rules[*rule].clone(),
            Expr::Seq(parts) => {
                let empty = Shape { nullable: true, regular: true, ..Shape::default() };
                parts.iter().fold(empty, |before, part| before.then(&self.shape(part)))
            }
            Expr::Alt(parts) => {
                let mut all = Shape { regular: true, ..Shape::default() };
                let mut clear = true;
                for shape in parts.iter().map(|part| self.shape(part)) {
                    clear &= !all.first.meets(&shape.first);
                    all.first.add(&shape.first);
                    all.tail.add(&shape.tail);
                    all.nullable |= shape.nullable;
                    all.regular &= shape.regular;
                }
                if all.nullable {
                    all.tail.add(&all.first.clone());
                }
                if !clear {
                    all.tail = Chars::all();
                }
                all
            }
            Expr::Repeat(_, _, Some(0)) => Shape { nullable: true, regular: true, ..Shape::default() },
            Expr::Repeat(part, least, most) => {
                let mut shape = self.shape(part);
                shape.nullable |= *least == 0;
                if *most != Some(1) && shape.tail.meets(&shape.first) {
                    shape.tail = Chars::all();
                } else if *most != Some(*least) || shape.nullable {
                    shape.tail.add(&shape.first.clone());
                }
                shape
            }
        }
    }

    /// The characters that may follow each part of a sequence, which itself is followed by `after`.
    pub(super) fn after_each(&self, parts: &[Expr], after: &Chars) -> Vec<Chars> {
        let mut next = after.clone();
        let mut all: Vec<Chars> = parts
            .iter()
            .rev()
            .map(|part| {
                let shape = self.shape(part);
                let mut here = shape.first;
                if shape.nullable {
                    here.add(&next);
                }
                std::mem::replace(&mut next, here)
            })
            .collect();
        all.reverse();
        all
    }

    /// The characters that may follow the part of a repetition.
    pub(super) fn after_one(&self, part: &Expr, most: Option<u32>, after: &Chars) -> Chars {
        let mut after = after.clone();
        if most != Some(1) {
            after.add(&self.shape(part).first);
        }
        after
    }

    fn follow_in(&mut self, expr: &Expr, after: &Chars) -> bool {
        match expr {
            Expr::Class(_) => false,
            Expr::Rule(rule) => self.follow[*rule].add(after),
            Expr::Seq(parts) => {
                let afters = self.after_each(parts, after);
                parts
                    .iter()
                    .zip(&afters)
                    .fold(false, |changed, (part, after)| self.follow_in(part, after) | changed)
            }
            Expr::Alt(parts) => {
                parts.iter().fold(false, |changed, part| self.follow_in(part, after) | changed)
            }
            Expr::Repeat(part, _, most) => {
                let after = self.after_one(part, *most, after);
                self.follow_in(part, &after)
            }
        }
    }
}

impl Shape {
    /// The shape of this part followed by `next`.
    pub(super) fn then(mut self, next: &Shape) -> Shape {
        let clear = !self.tail.meets(&next.first);
        if next.nullable {
            self.tail.add(&next.tail);
            self.tail.add(&next.first);
        } else {
            self.tail = next.tail.clone();
        }
        if !clear {
            self.tail = Chars::all();
        }
        if self.nullable {
            self.first.add(&next.first);
        }
        self.nullable &= next.nullable;
        self.regular &= next.regular;
        self
    }

    /// Whether the part, followed by `after`, can be one lexeme.
    pub(super) fn is_lexeme(&self, after: &Chars) -> bool {
        self.regular && !self.nullable && !self.tail.meets(after)
    }
}

/// The rules that `root` reaches, depth first; with an explicit stack, because chains of rules may be long.
fn order(grammar: &Grammar) -> Vec<usize> {
    let mut seen = vec![false; grammar.rules.len()];
    let (mut order, mut stack) = (Vec::new(), vec![(0, references(&grammar.rules[0]))]);
    seen[0] = true;
    while let Some((rule, left)) = stack.last_mut() {
        match left.pop() {
            Some(next) if !std::mem::replace(&mut seen[next], true) => {
                stack.push((next, references(&grammar.rules[next])));
            }
            Some(_) => {}
            None => {
                order.push(*rule);
                stack.pop();
            }
        }
    }
    order
}

fn references(expr: &Expr) -> Vec<usize> {
    match expr {
        Expr::Class(_) => Vec::new(),
        Expr::Rule(rule) => vec![*rule],
        Expr::Seq(parts) | Expr::Alt(parts) => parts.iter().flat_map(references).collect(),
        Expr::Repeat(part, ..) => references(part),
    }
}
