//! A report as one page that needs nothing else: no script, no font, no address. Good on a screen and on paper.

mod lines;
mod tornado;

use std::fmt::Write as _;

use planner::Currency;

use super::report::{Part, Report, Table};
use crate::svg::{escaped, ticks};

const STYLE: &str = include_str!("html/style.css");

/// Colours of lines that stay apart in print and for most eyes (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"];
/// With them, dashes: a line is told by either.
const DASHES: [&str; 7] = ["", "7 4", "2 3", "10 3 2 3", "4 2", "1 2", "12 4"];

/// Rows of a table that is kept on one page.
const SHORT: usize = 15;

/// The page of a report, with the plan that it was computed from and the command that made it.
pub(super) fn page(report: &Report, currency: Currency, plan: &str, made_by: &str) -> String {
    let mut body = String::new();
    for part in &report.parts {
        match part {
            Part::Text(text) => put(&mut body, format_args!("<p>{}</p>\n", escaped(text))),
            Part::Table(found) => table(&mut body, found),
            Part::Lines(plot) => figure(&mut body, &plot.title, &lines::svg(plot)),
            Part::Tornado(plot) => figure(&mut body, &plot.title, &tornado::svg(plot)),
        }
    }
    let title = escaped(&report.title);
    let plan = inputs(report.command, plan.trim(), made_by);
    let (command, version) = (report.command, env!("CARGO_PKG_VERSION"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<p class=\"by\">gristmill \
         {command}, version {version}; amounts in {}</p>\n</header>\n{body}<section class=\"plan\">\n{plan}</section>\n\
         </body>\n</html>\n",
        currency.name()
    )
}

/// What somebody else needs to get the same numbers.
fn inputs(command: &str, plan: &str, made_by: &str) -> String {
    let made_by = escaped(made_by);
    if plan.is_empty() {
        return format!("<p>Made by <code>{made_by}</code>, without a plan.</p>\n");
    }
    format!(
        "<h2>The plan</h2>\n<p>All inputs. Saved as <code>plan.toml</code>, <code>gristmill {command} --input plan.toml</code> gives \
         these numbers again. Made by <code>{made_by}</code>.</p>\n<pre>{}</pre>\n",
        escaped(plan)
    )
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all that is written");
}

fn figure(out: &mut String, title: &str, svg: &str) {
    put(out, format_args!("<figure>\n<figcaption>{}</figcaption>\n{svg}</figure>\n", escaped(title)));
}

fn table(out: &mut String, found: &Table) {
    if !found.title.is_empty() {
        put(out, format_args!("<h2>{}</h2>\n", escaped(&found.title)));
    }
    // Paper does not break a short one, and begins each page of a long one with its heads.
    let class = if found.rows.len() <= SHORT { " class=\"short\"" } else { "" };
    put(out, format_args!("<div class=\"wide\"><table{class}>\n"));
    if found.heads.iter().any(|head| !head.is_empty()) {
        out.push_str("<thead>\n");
        row(out, "th", found, &found.heads);
        out.push_str("</thead>\n");
    }
    for cells in &found.rows {
        row(out, "td", found, cells);
    }
    put(out, format_args!("</table></div>\n"));
}

fn row(out: &mut String, tag: &str, found: &Table, cells: &[String]) {
    put(out, format_args!("<tr>"));
    for (column, cell) in cells.iter().enumerate() {
        let class = if found.is_words(column) { " class=\"words\"" } else { "" };
        put(out, format_args!("<{tag}{class}>{}</{tag}>", escaped(cell)));
    }
    put(out, format_args!("</tr>\n"));
}

/// `1.5 M`, `250 k`, `0.05`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = if scaled.abs() >= 100.0 || scaled.fract().abs() < 1e-9 { 0 } else { 2 };
    let text = format!("{scaled:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::plan::report::Lines;

    #[test]
    fn labels_are_short() {
        let all: Vec<String> = [0.0, 0.05, 2.5, 1500.0, 25_000.0, 1.5e6, -4e9].map(short).to_vec();
        assert_eq!(all, ["0", "0.05", "2.5", "1500", "25 k", "1.5 M", "-4 G"]);
    }

    #[test]
    fn a_page_is_whole_and_holds_nothing_foreign() {
        let mut report = Report::new("plan cost", "<Costs> & more");
        report.text("a < b");
        report.table("T", &["", "x"], vec![vec!["one".to_owned(), "1.00 USD".to_owned()]]);
        let series = vec![("line".to_owned(), vec![(0.0, 1.0), (10.0, 5.0)])];
        let marks = vec![(5.0, "here".to_owned())];
        report.parts.push(Part::Lines(Lines {
            title: "P".to_owned(),
            x: "x",
            y: "y".to_owned(),
            series,
            marks,
        }));
        let page = page(&report, Currency::USD, "[own]\nprice_per_hour = 1 # <note>", "gristmill plan cost");
        assert!(page.contains("&lt;Costs&gt; &amp; more") && page.contains("# &lt;note&gt;"));
        assert!(page.contains("<svg") && page.contains("</html>"));
        for foreign in ["http:", "https:", "<script", "url(", "@import", "NaN"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
