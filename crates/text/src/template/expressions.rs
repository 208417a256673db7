//! Rewrites the expressions of a template: see [`super::rewrite`].

use minijinja::machinery::ast::{self, BinOpKind, CompareOpKind, Expr, UnaryOpKind};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::operations as op;
use super::writer::{Place, Writer};

impl Writer {
    /// Writes an expression with a filter that charges for its value.
    pub(super) fn charged(&mut self, expression: &Expr<'_>, filter: &str) -> Result<(), Error> {
        self.expression(expression, Place::Filtered)?;
        self.put(" | ");
        self.put(filter);
        Ok(())
    }

    /// Writes an operand, charged unless it is a literal of the template.
    pub(super) fn operand(&mut self, expression: &Expr<'_>, filter: &str) -> Result<(), Error> {
        match expression {
            Expr::Const(_) => self.expression(expression, Place::Filtered),
            other => self.charged(other, filter),
        }
    }

    pub(super) fn expression(&mut self, expression: &Expr<'_>, place: Place) -> Result<(), Error> {
        self.skip_to(expression.span().start_line);
        match expression {
            Expr::Var(s) => self.put(s.id),
            Expr::Const(s) => self.constant(&s.value)?,
            Expr::GetAttr(s) => {
                self.expression(&s.expr, Place::Called)?;
                self.put(".");
                self.put(s.name);
            }
            Expr::GetItem(s) if is_short_key(&s.subscript_expr) => {
                self.expression(&s.expr, Place::Called)?;
                self.put("[");
                self.expression(&s.subscript_expr, Place::Filtered)?;
                self.put("]");
            }
            Expr::Call(s) => self.call(s)?,
            Expr::List(s) if s.as_const().is_some() => self.items(&s.items)?,
            Expr::Map(s) if s.as_const().is_some() => self.pairs(s)?,
            // The remaining kinds end in a filter, or have their own brackets.
            other => {
                let bracket = place == Place::Called;
                self.put(if bracket { "(" } else { "" });
                self.composed(other)?;
                self.put(if bracket { ")" } else { "" });
            }
        }
        Ok(())
    }

    fn composed(&mut self, expression: &Expr<'_>) -> Result<(), Error> {
        match expression {
            Expr::GetItem(s) => self.filter(&s.expr, op::ITEM, &[&s.subscript_expr])?,
            Expr::List(s) => {
                self.items(&s.items)?;
                self.put(" | ");
                self.put(op::MADE);
            }
            Expr::Map(s) => {
                self.pairs(s)?;
                self.put(" | ");
                self.put(op::MADE);
            }
            Expr::Slice(s) => {
                self.put("(");
                self.charged(&s.expr, op::SLICED)?;
                self.put(")[");
                for (at, bound) in [&s.start, &s.stop, &s.step].into_iter().enumerate() {
                    self.put(if at > 0 { ":" } else { "" });
                    if let Some(bound) = bound {
                        self.expression(bound, Place::Filtered)?;
                    }
                }
                self.put("] | ");
                self.put(op::SETTLED);
            }
            Expr::Filter(s) => {
                if let Some(before) = &s.expr {
                    self.expression(before, Place::Filtered)?;
                    self.put(" | ");
                }
                self.put(&s.name.replace(char::is_whitespace, ""));
                if !s.args.is_empty() {
                    self.arguments(&s.args, None)?;
                }
            }
            Expr::Test(s) => {
                self.put("(");
                self.expression(&s.expr, Place::Filtered)?;
                self.put(" is ");
                self.put(&s.name.replace(char::is_whitespace, ""));
                if !s.args.is_empty() {
                    self.arguments(&s.args, None)?;
                }
                self.put(")");
            }
            Expr::UnaryOp(s) => {
                self.put(match s.op {
                    UnaryOpKind::Not => "(not ",
                    UnaryOpKind::Neg => "(-",
                });
                // A minus binds tighter than a filter.
                let place = if matches!(s.op, UnaryOpKind::Neg) { Place::Called } else { Place::Filtered };
                self.expression(&s.expr, place)?;
                self.put(")");
            }
            Expr::BinOp(s) => self.operator(s)?,
            Expr::Compare(s) => {
                self.put("(");
                self.operand(&s.expr, op::COMPARED)?;
                for next in &s.ops {
                    self.put(comparison(next.op));
                    self.operand(&next.expr, op::COMPARED)?;
                }
                self.put(")");
            }
            Expr::IfExpr(first) => {
                self.put("(");
                let mut current = first;
                loop {
                    self.expression(&current.true_expr, Place::Filtered)?;
                    self.put(" if ");
                    self.expression(&current.test_expr, Place::Filtered)?;
                    match &current.false_expr {
                        None => break,
                        Some(Expr::IfExpr(next)) => {
                            self.put(" else ");
                            current = next;
                        }
                        Some(other) => {
                            self.put(" else ");
                            self.expression(other, Place::Filtered)?;
                            break;
                        }
                    }
                }
                self.put(")");
            }
            Expr::Var(_) | Expr::Const(_) | Expr::GetAttr(_) | Expr::Call(_) => {
                self.expression(expression, Place::Filtered)?;
            }
        }
        Ok(())
    }

    fn operator(&mut self, s: &ast::BinOp<'_>) -> Result<(), Error> {
        let words = match s.op {
            BinOpKind::Add => return self.filter(&s.left, op::ADD, &[&s.right]),
            BinOpKind::Concat => return self.filter(&s.left, op::CONCAT, &[&s.right]),
            BinOpKind::Mul => return self.filter(&s.left, op::MUL, &[&s.right]),
            BinOpKind::Sub => " - ",
            BinOpKind::Div => " / ",
            BinOpKind::FloorDiv => " // ",
            BinOpKind::Rem => " % ",
            BinOpKind::Pow => " ** ",
            BinOpKind::ScAnd => return self.chain(s, BinOpKind::ScAnd, " and "),
            BinOpKind::ScOr => return self.chain(s, BinOpKind::ScOr, " or "),
            BinOpKind::Eq => comparison(CompareOpKind::Eq),
            BinOpKind::Ne => comparison(CompareOpKind::Ne),
            BinOpKind::Lt => comparison(CompareOpKind::Lt),
            BinOpKind::Lte => comparison(CompareOpKind::Lte),
            BinOpKind::Gt => comparison(CompareOpKind::Gt),
            BinOpKind::Gte => comparison(CompareOpKind::Gte),
            BinOpKind::In => comparison(CompareOpKind::In),
        };
        // A comparison with a literal of the template reads no more than the literal's length.
        let compares = matches!(
            s.op,
            BinOpKind::Eq | BinOpKind::Ne | BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte
        );
        let short = |side: &Expr<'_>| matches!(side, Expr::Const(_));
        let charge = (compares && !short(&s.left) && !short(&s.right)) || matches!(s.op, BinOpKind::In);
        self.put("(");
        match charge {
            true => self.operand(&s.left, op::COMPARED)?,
            false => self.expression(&s.left, Place::Filtered)?,
        }
        self.put(words);
        match &s.right {
            Expr::List(list) if list.as_const().is_some() => self.items(&list.items)?,
            // Entries are compared with a literal: values inside them are not read.
            right if charge && matches!(s.op, BinOpKind::In) && short(&s.left) => {
                self.operand(right, op::LOOP)?;
            }
            right if charge => self.operand(right, op::COMPARED)?,
            right => self.expression(right, Place::Filtered)?,
        }
        self.put(")");
        Ok(())
    }

    /// Writes `a and b and c` without inner brackets: chains can be long, and nesting is limited.
    fn chain(&mut self, s: &ast::BinOp<'_>, op: BinOpKind, words: &str) -> Result<(), Error> {
        let same = |kind: BinOpKind| std::mem::discriminant(&kind) == std::mem::discriminant(&op);
        let mut operands = vec![&s.right];
        let mut left = &s.left;
        while let Expr::BinOp(inner) = left
            && same(inner.op)
        {
            operands.push(&inner.right);
            left = &inner.left;
        }
        operands.push(left);
        self.put("(");
        for (at, operand) in operands.into_iter().rev().enumerate() {
            self.put(if at > 0 { words } else { "" });
            self.expression(operand, Place::Filtered)?;
        }
        self.put(")");
        Ok(())
    }

    fn filter(&mut self, left: &Expr<'_>, name: &str, args: &[&Expr<'_>]) -> Result<(), Error> {
        self.expression(left, Place::Filtered)?;
        self.put(" | ");
        self.put(name);
        self.put("(");
        for (at, arg) in args.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expression(arg, Place::Filtered)?;
        }
        self.put(")");
        Ok(())
    }

    pub(super) fn call(&mut self, s: &ast::Spanned<ast::Call<'_>>) -> Result<(), Error> {
        self.expression(&s.expr, Place::Called)?;
        // `loop.changed` compares, and `loop(…)` iterates over a list; other calls charge by themselves.
        let charge = match &s.expr {
            Expr::GetAttr(attr) if attr.name == "changed" => Some(op::COMPARED),
            Expr::Var(var) if var.id == "loop" => Some(op::LOOP),
            _ => None,
        };
        self.arguments(&s.args, charge)
    }

    fn arguments(&mut self, args: &[ast::CallArg<'_>], charge: Option<&str>) -> Result<(), Error> {
        self.put("(");
        for (at, arg) in args.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            let (before, value) = match arg {
                ast::CallArg::Pos(value) => (String::new(), value),
                ast::CallArg::Kwarg(name, value) => (format!("{name}="), value),
                ast::CallArg::PosSplat(value) => ("*".to_owned(), value),
                ast::CallArg::KwargSplat(value) => ("**".to_owned(), value),
            };
            self.put(&before);
            match (charge, arg) {
                (_, ast::CallArg::PosSplat(_)) => self.charged(value, op::MADE)?,
                (Some(filter), ast::CallArg::Pos(_)) => self.charged(value, filter)?,
                _ => self.expression(value, Place::Filtered)?,
            }
        }
        self.put(")");
        Ok(())
    }

    fn items(&mut self, items: &[Expr<'_>]) -> Result<(), Error> {
        self.put("[");
        for (at, item) in items.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expression(item, Place::Filtered)?;
        }
        self.put("]");
        Ok(())
    }

    fn pairs(&mut self, s: &ast::Map<'_>) -> Result<(), Error> {
        self.put("{");
        for (at, (key, value)) in s.keys.iter().zip(&s.values).enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.operand(key, op::COMPARED)?;
            self.put(": ");
            self.expression(value, Place::Filtered)?;
        }
        self.put("}");
        Ok(())
    }

    fn constant(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Bool => self.put(if value.is_true() { "true" } else { "false" }),
            ValueKind::None => self.put("none"),
            ValueKind::Number if value.is_integer() => self.put(&format!("({value})")),
            ValueKind::Number => {
                let float = f64::try_from(value.clone()).unwrap_or_default();
                let text = float.to_string();
                if !float.is_finite() {
                    return Err(Error::new(ErrorKind::SyntaxError, "a number is too large"));
                }
                self.put(&if text.contains('.') { format!("({text})") } else { format!("({text}.0)") });
            }
            kind => {
                return Err(Error::new(ErrorKind::SyntaxError, format!("a constant of kind {kind}")));
            }
        }
        Ok(())
    }

    pub(super) fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '\n' => self.put("\\n"),
                '\r' => self.put("\\r"),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// Whether a key is a literal with constant lookup time: a short name, or a position near the start.
fn is_short_key(key: &Expr<'_>) -> bool {
    let Expr::Const(key) = key else { return false };
    key.value.as_str().is_some() || key.value.as_usize().is_some_and(|at| at < 16)
}

fn comparison(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => " == ",
        CompareOpKind::Ne => " != ",
        CompareOpKind::Lt => " < ",
        CompareOpKind::Lte => " <= ",
        CompareOpKind::Gt => " > ",
        CompareOpKind::Gte => " >= ",
        CompareOpKind::In => " in ",
        CompareOpKind::NotIn => " not in ",
    }
}
