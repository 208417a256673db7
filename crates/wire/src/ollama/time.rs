//! Times as Ollama writes them: RFC 3339, and durations as Go spells them.

use std::time::Duration;

use serde_json::Value;

use crate::error::Fault;
use crate::fields::{Fields, show, wrong};

/// From so many on a time is for ever: Go's durations are nanoseconds in 64 bits, 292 years.
const LONGEST_SECONDS: f64 = 9.2e9;

/// How long a model stays loaded after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepAlive {
    /// So long; zero unloads it.
    For(Duration),
    /// Until its memory is wanted, or the server ends.
    Forever,
}

impl KeepAlive {
    /// Whether the model is to be unloaded at once.
    pub fn unloads(self) -> bool {
        self == KeepAlive::For(Duration::ZERO)
    }

    /// `keep_alive`: seconds as a number, or a duration such as `"1h30m"`; any negative one is for ever.
    pub(super) fn read(body: &Fields<'_>) -> Result<Option<KeepAlive>, Fault> {
        let name = "keep_alive";
        let Some(value) = body.get(name) else { return Ok(None) };
        let seconds = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok().or_else(|| go_seconds(text)),
            other => return Err(wrong(name, other, "a number of seconds or a duration such as \"5m\"")),
        };
        let seconds = seconds.filter(|seconds| !seconds.is_nan()).ok_or_else(|| {
            let message = format!(
                "{name} is {}; it must be a number of seconds or a duration such as \"5m\"",
                show(value)
            );
            Fault::field(name, message)
        })?;
        if seconds < 0.0 {
            return Ok(Some(KeepAlive::Forever));
        }
        // Longer than any server runs, and than Ollama's durations.
        if seconds >= LONGEST_SECONDS {
            return Ok(Some(KeepAlive::Forever));
        }
        Ok(Some(Duration::try_from_secs_f64(seconds).map_or(KeepAlive::Forever, KeepAlive::For)))
    }
}

/// Seconds of a duration as Go spells it: numbers with units, a sign before all of them.
fn go_seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit);
        let each = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * each;
        rest = next;
    }
    Some(sign * seconds)
}

/// A time since 1970, in UTC, as RFC 3339 with microseconds.
pub fn rfc3339(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = since_1970.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of the Gregorian calendar, of a day since 1970. Eras of 400 years that begin in March have 146,097
/// days each.
fn date(day: u64) -> (u64, u64, u64) {
    let days = day + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Months from March, whose lengths repeat every five: 153 days.
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Option<KeepAlive>, Fault> {
        let body = json!({"keep_alive": value});
        KeepAlive::read(&Fields::body(&body).unwrap())
    }

    #[test]
    fn all_spellings_of_a_time_to_live() {
        let seconds = |seconds| Some(KeepAlive::For(Duration::from_secs_f64(seconds)));
        for (value, kept) in [
            (json!(300), seconds(300.0)),
            (json!(0.5), seconds(0.5)),
            (json!("5m"), seconds(300.0)),
            (json!("1h30m"), seconds(5_400.0)),
            (json!("1.5h"), seconds(5_400.0)),
            (json!("250ms"), seconds(0.25)),
            (json!("60"), seconds(60.0)),
            (json!(0), seconds(0.0)),
            (json!("0"), seconds(0.0)),
            (json!("0s"), seconds(0.0)),
            (json!(-1), Some(KeepAlive::Forever)),
            (json!("-1"), Some(KeepAlive::Forever)),
            (json!("-1m"), Some(KeepAlive::Forever)),
            (json!(1e300), Some(KeepAlive::Forever)),
            (json!(u64::MAX), Some(KeepAlive::Forever)),
            (json!("2000000h"), seconds(7.2e9)),
            (Value::Null, None),
        ] {
            assert_eq!(read(value.clone()).unwrap(), kept, "{value}");
        }
        assert!(read(json!("0s")).unwrap().unwrap().unloads());
        for bad in [
            json!("soon"),
            json!(""),
            json!("5 m"),
            json!("5x"),
            json!("m"),
            json!("-"),
            json!("1.2.3s"),
            json!("NaN"),
            json!(true),
            json!([5]),
        ] {
            assert_eq!(read(bad.clone()).unwrap_err().param.as_deref(), Some("keep_alive"), "{bad}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
            (1_795_803_553, "2026-11-27T18:19:13.000000Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
        }
        assert!(rfc3339(Duration::from_micros(1_500_042)).ends_with(":01.500042Z"));
    }
}
