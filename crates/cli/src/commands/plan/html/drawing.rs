//! What pages and plots are drawn with.

use std::fmt::Write as _;

/// Colours of lines that stay apart in print and for most eyes (Okabe and Ito, 2008).
pub(super) const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"];
/// With them, dashes: a line is told by either.
pub(super) const DASHES: [&str; 7] = ["", "7 4", "2 3", "10 3 2 3", "4 2", "1 2", "12 4"];

pub(super) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all that is written");
}

/// `1.5 M`, `250 k`, `0.05`.
pub(super) fn short(value: f64) -> String {
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

    #[test]
    fn labels_are_short() {
        let all: Vec<String> = [0.0, 0.05, 2.5, 1500.0, 25_000.0, 1.5e6, -4e9].map(short).to_vec();
        assert_eq!(all, ["0", "0.05", "2.5", "1500", "25 k", "1.5 M", "-4 G"]);
    }
}
