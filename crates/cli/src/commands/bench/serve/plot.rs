//! Small plots as inline SVG. Colours come from the page's style sheet, so that they follow light and dark.

use std::fmt::Write;

use crate::svg::{escaped, ticks};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 38.0;
/// Points of a curve: more are not seen.
const MAX_POINTS: usize = 400;
/// Ticks of an axis, about.
const TICKS: f64 = 5.0;

/// An empty plot with axes from 0 to the largest values.
pub(super) struct Plot {
    svg: String,
    x_max: f64,
    y_max: f64,
    width: f64,
    height: f64,
}

impl Plot {
    /// `x_label` and `y_label` are plain text.
    pub(super) fn new(x_max: f64, y_max: f64, x_label: &str, y_label: &str) -> Plot {
        Plot::sized(WIDTH, HEIGHT, x_max, y_max, x_label, y_label)
    }

    /// Twice as wide, and `height` pixels high.
    pub(super) fn wide(height: f64, x_max: f64, y_max: f64, x_label: &str, y_label: &str) -> Plot {
        Plot::sized(WIDTH * 2.0, height, x_max, y_max, x_label, y_label)
    }

    fn sized(width: f64, height: f64, x_max: f64, y_max: f64, x_label: &str, y_label: &str) -> Plot {
        let positive = |value: f64| if value.is_finite() && value > 0.0 { value } else { 1.0 };
        let (x_max, y_max) = (positive(x_max), positive(y_max));
        let svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{} over {}\">\n",
            escaped(y_label),
            escaped(x_label)
        );
        let mut plot = Plot { svg, x_max, y_max, width, height };
        plot.axes(x_label, y_label);
        plot
    }

    fn axes(&mut self, x_label: &str, y_label: &str) {
        let (base, right) = (self.height - BOTTOM, self.width - RIGHT);
        for tick in ticks(0.0, self.x_max, TICKS) {
            let x = self.x(tick);
            self.put(format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{base}\"/>"
            ));
            let text = number(tick);
            self.put(format_args!(
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                base + 14.0
            ));
        }
        for tick in ticks(0.0, self.y_max, TICKS) {
            let y = self.y(tick);
            self.put(format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            ));
            let text = number(tick);
            self.put(format_args!(
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                y + 4.0
            ));
        }
        let middle = (LEFT + right) / 2.0;
        let label = escaped(x_label);
        self.put(format_args!(
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            self.height - 6.0
        ));
        let (middle, label) = ((TOP + base) / 2.0, escaped(y_label));
        self.put(format_args!(
            "<text transform=\"translate(12 {middle}) rotate(-90)\" text-anchor=\"middle\">{label}</text>"
        ));
    }

    /// A line through points `(x, y)` in ascending x.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let step = points.len().div_ceil(MAX_POINTS).max(1);
        let last = points.len().saturating_sub(1);
        let mut path = String::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            if index % step == 0 || index == last {
                // Writing into a string does not fail.
                let _ = write!(path, "{:.1},{:.1} ", self.x(x), self.y(y));
            }
        }
        self.put(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", path.trim_end()));
    }

    /// A filled box between two values of each axis.
    pub(super) fn area(&mut self, class: &str, x: (f64, f64), y: (f64, f64)) {
        let (left, right) = (self.x(x.0), self.x(x.1));
        let (top, bottom) = (self.y(y.1), self.y(y.0));
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            (right - left).max(0.5),
            (bottom - top).max(0.5)
        ));
    }

    /// A dashed upright line at `x`, with its name.
    pub(super) fn mark(&mut self, x: f64, name: &str) {
        let at = self.x(x);
        let base = self.height - BOTTOM;
        self.put(format_args!(
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{base}\"/>"
        ));
        let (anchor, shift) = if at > self.width / 2.0 { ("end", -4.0) } else { ("start", 4.0) };
        self.put(format_args!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            at + shift,
            base - 6.0,
            escaped(name)
        ));
    }

    pub(super) fn done(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value / self.x_max).clamp(0.0, 1.0) * (self.width - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let base = self.height - BOTTOM;
        base - (value / self.y_max).clamp(0.0, 1.0) * (base - TOP)
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into a string does not fail.
        let _ = writeln!(self.svg, "{element}");
    }
}

/// As short as it can be said.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        _ => format!("{value:.3}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let said: Vec<String> = [0.0, 0.25, 3.0, 3.27, 1234.5].into_iter().map(number).collect();
        assert_eq!(said, ["0", "0.25", "3", "3.3", "1234"]);
    }

    #[test]
    fn nothing_escapes_the_frame() {
        let mut plot = Plot::new(f64::NAN, 0.0, "a<b", "\"y\"");
        plot.line("curve", &[(0.0, 0.0), (1e9, f64::INFINITY)]);
        plot.mark(5e9, "</svg>");
        let svg = plot.done();
        assert!(
            svg.contains("a&lt;b")
                && svg.contains("&lt;/svg&gt;")
                && !svg.contains("NaN")
                && !svg.contains("inf")
        );
        assert_eq!(svg.matches("</svg>").count(), 1);
    }

    #[test]
    fn long_curves_are_thinned() {
        let points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), f64::from(i))).collect();
        let mut plot = Plot::new(1e5, 1e5, "x", "y");
        plot.line("curve", &points);
        assert!(plot.done().len() < 12_000);
    }
}
