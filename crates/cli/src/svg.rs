//! What all pages with plots need: text that is safe in them, and round numbers for axes.

/// Text between tags or in an attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

/// Round numbers from `low` to `high`, some `about` of them: steps of 1, 2 or 5 times a power of ten.
pub(crate) fn ticks(low: f64, high: f64, about: f64) -> Vec<f64> {
    let raw = (high - low) / about;
    if !(raw > 0.0 && raw.is_finite()) {
        return vec![low];
    }
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= raw);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|k| k as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 100.0, 5.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(-30.0, 30.0, 4.0), [-20.0, 0.0, 20.0]);
        assert_eq!(ticks(5.0, 5.0, 4.0), [5.0]);
        assert!(ticks(0.0, f64::NAN, 4.0).len() == 1);
    }

    #[test]
    fn no_text_becomes_a_tag() {
        assert_eq!(escaped("a < b & \"c\" 'd'"), "a &lt; b &amp; &quot;c&quot; &#39;d&#39;");
    }
}
