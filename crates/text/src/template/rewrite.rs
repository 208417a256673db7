//! Rewrites a template so that its operators are metered.
//!
//! minijinja has no hook for operators. So a template is parsed and written again with `a + b` as `a | __add(b)`, and
//! so on. Line numbers are kept for error messages. Operators whose result cannot be long are unchanged.

use minijinja::machinery::ast::{self, Expr, Stmt};
use minijinja::machinery::{WhitespaceConfig, parse};
use minijinja::{Error, ErrorKind};

use super::operations as op;
use super::writer::{Place, Writer};

/// Rewrites a template with metered operators.
///
/// # Errors
/// A syntax error with its line; statements that reach other templates.
pub(super) fn metered(source: &str) -> Result<String, Error> {
    let spaces = WhitespaceConfig { lstrip_blocks: true, trim_blocks: true, ..WhitespaceConfig::default() };
    let tree = parse(source, "chat", Default::default(), spaces)?;
    let mut writer = Writer { out: String::with_capacity(source.len() * 2), line: 1 };
    writer.statement(&tree)?;
    Ok(writer.out)
}

impl Writer {
    fn open(&mut self, line: u16, words: &str) {
        self.put("{% ");
        self.skip_to(line);
        self.put(words);
    }

    fn body(&mut self, body: &[Stmt<'_>], end: &str) -> Result<(), Error> {
        body.iter().try_for_each(|statement| self.statement(statement))?;
        self.put("{% ");
        self.put(end);
        self.put(" %}");
        Ok(())
    }

    fn statement(&mut self, statement: &Stmt<'_>) -> Result<(), Error> {
        match statement {
            Stmt::Template(s) => return s.children.iter().try_for_each(|child| self.statement(child)),
            Stmt::EmitExpr(s) => {
                self.put("{{ ");
                self.skip_to(s.span().start_line);
                self.expression(&s.expr, Place::Filtered)?;
                self.put(" }}");
            }
            Stmt::EmitRaw(s) => {
                self.put("{{ ");
                self.string(s.raw);
                self.put(" }}");
            }
            Stmt::ForLoop(s) => {
                self.open(s.span().start_line, "for ");
                self.target(&s.target)?;
                self.put(" in ");
                self.charged(&s.iter, op::LOOP)?;
                if let Some(filter) = &s.filter_expr {
                    self.put(" if ");
                    self.expression(filter, Place::Filtered)?;
                }
                self.put(if s.recursive { " recursive %}" } else { " %}" });
                s.body.iter().try_for_each(|statement| self.statement(statement))?;
                if !s.else_body.is_empty() {
                    self.put("{% else %}");
                    s.else_body.iter().try_for_each(|statement| self.statement(statement))?;
                }
                self.put("{% endfor %}");
            }
            Stmt::IfCond(s) => self.condition(s)?,
            Stmt::WithBlock(s) => {
                self.open(s.span().start_line, "with");
                for (at, (target, value)) in s.assignments.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { " " });
                    self.target(target)?;
                    self.put(" = ");
                    self.expression(value, Place::Filtered)?;
                }
                self.put(" %}");
                self.body(&s.body, "endwith")?;
            }
            Stmt::Set(s) => {
                self.open(s.span().start_line, "set ");
                self.target(&s.target)?;
                self.put(" = ");
                if matches!(s.target, Expr::GetAttr(_)) && !matches!(s.expr, Expr::Const(_)) {
                    self.charged(&s.expr, op::KEPT)?;
                } else {
                    self.expression(&s.expr, Place::Filtered)?;
                }
                self.put(" %}");
            }
            Stmt::SetBlock(s) => {
                self.open(s.span().start_line, "set ");
                self.target(&s.target)?;
                if let Some(filter) = &s.filter {
                    self.put(" | ");
                    self.expression(filter, Place::Filtered)?;
                }
                self.put(" %}");
                self.body(&s.body, "endset")?;
            }
            Stmt::AutoEscape(s) => {
                self.open(s.span().start_line, "autoescape ");
                self.expression(&s.enabled, Place::Filtered)?;
                self.put(" %}");
                self.body(&s.body, "endautoescape")?;
            }
            Stmt::FilterBlock(s) => {
                self.open(s.span().start_line, "filter ");
                self.expression(&s.filter, Place::Filtered)?;
                self.put(" %}");
                self.body(&s.body, "endfilter")?;
            }
            Stmt::Block(s) => {
                self.open(s.span().start_line, "block ");
                self.put(s.name);
                self.put(if s.required { " required %}" } else { " %}" });
                self.body(&s.body, "endblock")?;
            }
            Stmt::Macro(s) => {
                self.open(s.span().start_line, "macro ");
                self.put(s.name);
                self.parameters(s)?;
                self.put(" %}");
                self.body(&s.body, "endmacro")?;
            }
            Stmt::CallBlock(s) => {
                self.open(s.span().start_line, "call");
                self.parameters(&s.macro_decl)?;
                self.put(" ");
                self.call(&s.call)?;
                self.put(" %}");
                self.body(&s.macro_decl.body, "endcall")?;
            }
            Stmt::Do(s) => {
                self.open(s.span().start_line, "do ");
                self.call(&s.call)?;
                self.put(" %}");
            }
            Stmt::Continue(_) => self.put("{% continue %}"),
            Stmt::Break(_) => self.put("{% break %}"),
            Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {
                let words = "there are no other templates to include, import or extend";
                return Err(Error::new(ErrorKind::InvalidOperation, words));
            }
        }
        Ok(())
    }

    /// Writes an `if`, and an `if` that is alone in its `else` as `elif`: such chains can be long, and nesting is
    /// limited.
    fn condition(&mut self, first: &ast::Spanned<ast::IfCond<'_>>) -> Result<(), Error> {
        let mut current = first;
        self.open(current.span().start_line, "if ");
        loop {
            self.expression(&current.expr, Place::Filtered)?;
            self.put(" %}");
            current.true_body.iter().try_for_each(|statement| self.statement(statement))?;
            match current.false_body.as_slice() {
                [] => break,
                [Stmt::IfCond(next)] => {
                    self.open(next.span().start_line, "elif ");
                    current = next;
                }
                body => {
                    self.put("{% else %}");
                    body.iter().try_for_each(|statement| self.statement(statement))?;
                    break;
                }
            }
        }
        self.put("{% endif %}");
        Ok(())
    }

    fn parameters(&mut self, of: &ast::Macro<'_>) -> Result<(), Error> {
        let plain = of.args.len().saturating_sub(of.defaults.len());
        self.put("(");
        for (at, name) in of.args.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.target(name)?;
            if let Some(default) = at.checked_sub(plain).and_then(|at| of.defaults.get(at)) {
                self.put("=");
                self.expression(default, Place::Filtered)?;
            }
        }
        self.put(")");
        Ok(())
    }

    /// Writes the target of an assignment.
    fn target(&mut self, target: &Expr<'_>) -> Result<(), Error> {
        match target {
            Expr::Var(s) => self.put(s.id),
            Expr::GetAttr(s) => {
                self.target(&s.expr)?;
                self.put(".");
                self.put(s.name);
            }
            Expr::List(s) => {
                self.put("(");
                for item in &s.items {
                    self.target(item)?;
                    self.put(", ");
                }
                self.put(")");
            }
            other => {
                let words = format!("cannot assign to {}", other.description());
                return Err(Error::new(ErrorKind::SyntaxError, words));
            }
        }
        Ok(())
    }
}
