//! A report as one page that needs nothing else: no script, no font, no address. Good on a screen and on paper.

mod drawing;
mod lines;
mod tornado;

use planner::Currency;

use super::report::{Part, Report, Table};
use crate::svg::escaped;
use drawing::put;

const STYLE: &str = include_str!("html/style.css");

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::plan::report::Lines;

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
