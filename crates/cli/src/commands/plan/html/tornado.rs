//! A bar for each input, from the answer with a fifth less of it to the answer with a fifth more, the widest on top.

use super::drawing::{COLOURS, put, short};
use crate::commands::plan::report::Tornado;
use crate::svg::{escaped, ticks};

const WIDTH: f64 = 800.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 34.0;
const ROW: f64 = 34.0;
const BOTTOM: f64 = 50.0;

pub(super) fn svg(plot: &Tornado) -> String {
    let ends = || plot.swings.iter().flat_map(|swing| [swing.low, swing.high]).chain([plot.base]);
    let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(f64::NEG_INFINITY, f64::max));
    let height = TOP + ROW * plot.swings.len() as f64 + BOTTOM;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(&plot.title)
    );
    if high > low && low.is_finite() && high.is_finite() {
        let room = (high - low) * 0.14;
        let (low, high) = (low - room, high + room);
        let at = |value: f64| LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT);
        axis(&mut svg, plot, &at, (low, high), height - BOTTOM);
        for (index, swing) in plot.swings.iter().enumerate() {
            let y = TOP + ROW * index as f64;
            for (value, colour, sign) in [(swing.low, COLOURS[1], "−20 %"), (swing.high, COLOURS[0], "+20 %")]
            {
                bar(&mut svg, (at(plot.base), at(value)), y, colour, sign);
            }
            let name = escaped(&swing.input);
            put(
                &mut svg,
                format_args!(
                    "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n",
                    LEFT - 12.0,
                    y + 18.0
                ),
            );
        }
        let x = at(plot.base);
        let floor = height - BOTTOM;
        put(
            &mut svg,
            format_args!(
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{floor:.1}\"/>\n",
                TOP - 6.0
            ),
        );
        put(
            &mut svg,
            format_args!(
                "<text class=\"name\" x=\"{x:.1}\" y=\"16\" text-anchor=\"middle\">{} as planned</text>\n",
                short(plot.base)
            ),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn axis(svg: &mut String, plot: &Tornado, at: &dyn Fn(f64) -> f64, (low, high): (f64, f64), floor: f64) {
    for value in ticks(low, high, 6.0) {
        let x = at(value);
        put(
            svg,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{floor:.1}\"/>\n",
                TOP - 6.0
            ),
        );
        put(
            svg,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                floor + 17.0,
                short(value)
            ),
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    put(
        svg,
        format_args!(
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            floor + 38.0,
            escaped(&plot.x)
        ),
    );
}

fn bar(svg: &mut String, (from, to): (f64, f64), y: f64, colour: &str, sign: &str) {
    let (x, width) = (from.min(to), (to - from).abs());
    put(
        svg,
        format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"20\" fill=\"{colour}\"/>\n",
            y + 3.0
        ),
    );
    let (anchor, beside) = if to < from { ("end", to - 5.0) } else { ("start", to + 5.0) };
    if width > 3.0 {
        put(
            svg,
            format_args!(
                "<text x=\"{beside:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{sign}</text>\n",
                y + 17.5
            ),
        );
    }
}
