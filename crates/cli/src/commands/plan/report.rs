//! An answer for people: texts, tables and plots, first for the terminal.

use crate::term::{Colour, out, paint};

/// One command's answer.
pub(super) struct Report {
    /// `plan cost`.
    pub(super) command: &'static str,
    /// Of the page.
    pub(super) title: String,
    pub(super) parts: Vec<Part>,
}

pub(super) enum Part {
    Text(String),
    Table(Table),
    Lines(Lines),
    Tornado(Tornado),
}

/// Cells, the first column to the left and the others to the right.
pub(super) struct Table {
    pub(super) title: String,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Lines over one axis.
pub(super) struct Lines {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: String,
    pub(super) series: Vec<(String, Vec<(f64, f64)>)>,
    /// Places on the x axis that a reader looks for.
    pub(super) marks: Vec<(f64, String)>,
}

/// What a fifth less and a fifth more of each input does to an answer.
pub(super) struct Tornado {
    pub(super) title: String,
    pub(super) x: String,
    /// The answer as the inputs are.
    pub(super) base: f64,
    pub(super) swings: Vec<planner::sensitivity::Swing>,
}

impl Report {
    pub(super) fn new(command: &'static str, title: impl Into<String>) -> Report {
        Report { command, title: title.into(), parts: Vec::new() }
    }

    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(text.into()));
    }

    pub(super) fn table(&mut self, title: &str, heads: &[&str], rows: Vec<Vec<String>>) {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        self.parts.push(Part::Table(Table { title: title.to_owned(), heads, rows }));
    }

    /// A table of names and values.
    pub(super) fn facts(&mut self, title: &str, rows: Vec<(String, String)>) {
        self.table(title, &["", ""], rows.into_iter().map(|(name, value)| vec![name, value]).collect());
    }

    /// Prints texts and tables; plots are for the page.
    pub(super) fn print(&self) {
        out!("{}", paint(Colour::Bold, &self.title));
        for part in &self.parts {
            match part {
                Part::Text(text) => {
                    out!("");
                    out!("{text}");
                }
                Part::Table(table) => table.print(),
                Part::Lines(_) | Part::Tornado(_) => {}
            }
        }
    }
}

impl Table {
    /// Whether a column is read from the left: the first, and sentences. Numbers stand at the right.
    pub(super) fn is_words(&self, column: usize) -> bool {
        const SENTENCE: usize = 28;
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        column == 0 || cells.any(|cell| cell.chars().count() > SENTENCE)
    }

    fn print(&self) {
        let all = || std::iter::once(&self.heads).chain(&self.rows);
        let columns = all().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if self.is_words(column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        out!("");
        if !self.title.is_empty() {
            out!("{}", paint(Colour::Bold, &self.title));
        }
        if self.heads.iter().any(|head| !head.is_empty()) {
            out!("{}", paint(Colour::Dim, &line(&self.heads)));
        }
        for row in &self.rows {
            out!("{}", line(row));
        }
    }
}

/// `12.3 %` of a share.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A count with its thousands separated, rounded.
pub(super) fn count(number: f64) -> String {
    planner::thousands(number.max(0.0).round() as u128)
}

/// A rate with the digits that matter.
pub(super) fn rate(number: f64) -> String {
    if number >= 100.0 { count(number) } else { format!("{number:.1}") }
}

/// Milliseconds, as seconds from ten of them on.
pub(super) fn time(ms: f64) -> String {
    if ms >= 10_000.0 { format!("{:.1} s", ms / 1e3) } else { format!("{ms:.0} ms") }
}
