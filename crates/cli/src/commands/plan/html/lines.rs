//! Lines over one axis.

use super::drawing::{COLOURS, DASHES, put, short};
use crate::commands::plan::report::Lines;
use crate::svg::{escaped, ticks};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 390.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 48.0;
/// Of the legend's rows.
const LEGEND_ROW: f64 = 20.0;
const LEGEND_COLUMNS: usize = 4;

struct Frame {
    top: f64,
    x: (f64, f64),
    y_most: f64,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = (x - self.x.0) / (self.x.1 - self.x.0);
        let up = y / self.y_most;
        let height = HEIGHT - BOTTOM - self.top;
        (LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * height)
    }
}

/// The plot; amounts start at zero, so that a line twice as high is twice as much.
pub(super) fn svg(plot: &Lines) -> String {
    let points =
        || plot.series.iter().flat_map(|(_, points)| points).filter(|(x, y)| x.is_finite() && y.is_finite());
    let x_low = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let x_high = points().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
    let y_most = points().map(|(_, y)| *y).fold(0.0, f64::max) * 1.05;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(&plot.title)
    );
    if x_high > x_low && y_most > 0.0 {
        let rows = plot.series.len().div_ceil(LEGEND_COLUMNS) as f64;
        let frame = Frame { top: 34.0 + rows * LEGEND_ROW, x: (x_low, x_high), y_most };
        axes(&mut svg, &frame, plot);
        for (index, (_, points)) in plot.series.iter().enumerate() {
            line(&mut svg, &frame, index, points);
        }
        marks(&mut svg, &frame, plot);
        legend(&mut svg, plot);
    }
    svg.push_str("</svg>\n");
    svg
}

fn axes(svg: &mut String, frame: &Frame, plot: &Lines) {
    let (left, floor) = frame.at((frame.x.0, 0.0));
    let right = WIDTH - RIGHT;
    for value in ticks(0.0, frame.y_most, 5.0) {
        let (_, y) = frame.at((frame.x.0, value));
        put(
            svg,
            format_args!(
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n"
            ),
        );
        put(
            svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                left - 8.0,
                y + 4.0,
                short(value)
            ),
        );
    }
    for value in ticks(frame.x.0, frame.x.1, 7.0) {
        let (x, _) = frame.at((value, 0.0));
        put(
            svg,
            format_args!(
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{floor:.1}\" y2=\"{:.1}\"/>\n",
                floor + 5.0
            ),
        );
        put(
            svg,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                floor + 19.0,
                short(value)
            ),
        );
    }
    put(
        svg,
        format_args!(
            "<line class=\"axis\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{floor:.1}\" y2=\"{floor:.1}\"/>\n"
        ),
    );
    let middle = (left + right) / 2.0;
    put(
        svg,
        format_args!(
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            HEIGHT - 8.0,
            escaped(plot.x)
        ),
    );
    put(svg, format_args!("<text x=\"4\" y=\"{:.1}\">{}</text>\n", frame.top - 16.0, escaped(&plot.y)));
}

fn line(svg: &mut String, frame: &Frame, index: usize, points: &[(f64, f64)]) {
    let (colour, dash) = (COLOURS[index % COLOURS.len()], DASHES[index % DASHES.len()]);
    let mut path = String::new();
    for point in points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
        let (x, y) = frame.at(*point);
        put(&mut path, format_args!("{x:.1},{y:.1} "));
    }
    put(
        svg,
        format_args!(
            "<polyline class=\"line\" stroke=\"{colour}\" stroke-dasharray=\"{dash}\" points=\"{}\"/>\n",
            path.trim_end()
        ),
    );
}

/// Upright lines with their names beside their tops, each lower than the one before, so that neighbours can be read.
fn marks(svg: &mut String, frame: &Frame, plot: &Lines) {
    for (index, (value, name)) in plot.marks.iter().enumerate() {
        let (x, floor) = frame.at((*value, 0.0));
        if !(LEFT - 0.5..=WIDTH - RIGHT + 0.5).contains(&x) {
            continue;
        }
        let top = frame.top;
        put(
            svg,
            format_args!(
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{floor:.1}\"/>\n"
            ),
        );
        let (anchor, beside) = if x > WIDTH * 0.7 { ("end", x - 6.0) } else { ("start", x + 6.0) };
        let y = top + 12.0 + 17.0 * index as f64;
        put(
            svg,
            format_args!(
                "<text class=\"name\" x=\"{beside:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
                escaped(name)
            ),
        );
    }
}

fn legend(svg: &mut String, plot: &Lines) {
    let column = (WIDTH - 8.0) / LEGEND_COLUMNS.min(plot.series.len().max(1)) as f64;
    for (index, (name, _)) in plot.series.iter().enumerate() {
        let (colour, dash) = (COLOURS[index % COLOURS.len()], DASHES[index % DASHES.len()]);
        let x = 4.0 + (index % LEGEND_COLUMNS) as f64 * column;
        let y = 12.0 + (index / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        put(
            svg,
            format_args!(
                "<line class=\"line\" stroke=\"{colour}\" stroke-dasharray=\"{dash}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" \
                 y2=\"{y:.1}\"/>\n<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                x + 30.0,
                x + 37.0,
                y + 4.0,
                escaped(name)
            ),
        );
    }
}
