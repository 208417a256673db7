//! Values of the configuration that are written as text: durations and prices.

use std::time::Duration;

use ledger::Amount;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A duration such as `250ms`, `2s`, `10m` or `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration(&text).map(Time).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is not a duration; write 250ms, 2s, 10m or 1h, at most 24h"))
        })
    }
}

/// Longest duration of a setting.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(at);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit.trim() {
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST)
}

/// An amount of money in billionths of the currency's unit, written as decimal text: `"0.15"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Nanos(pub i64);

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        let text = String::deserialize(deserializer)?;
        nanos(&text).map(Nanos).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is not an amount; write it as text with at most nine decimals, such as \"0.15\", at most \
                 1000000000"
            ))
        })
    }
}

/// Largest amount of a setting: a thousand million units.
const MOST_UNITS: i64 = 1_000_000_000;

fn nanos(text: &str) -> Option<i64> {
    let amount = Amount::parse(text.strip_suffix('.').unwrap_or(text)).ok()?;
    Some(amount.nano()).filter(|nanos| nanos / 1_000_000_000 <= MOST_UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("2h"), Some(Duration::from_secs(7200)));
        for wrong in ["", "5", "s", "-1s", "1d", "25h", "1e9s", "nans"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn amounts_are_exact() {
        assert_eq!(nanos("0.15"), Some(150_000_000));
        assert_eq!(nanos("12"), Some(12_000_000_000));
        assert_eq!(nanos("0.000000001"), Some(1));
        for wrong in ["", ".5", "1.", "-1", "1e3", "0.0000000001", "2000000000", "1,5"] {
            assert_eq!(nanos(wrong), if wrong == "1." { Some(1_000_000_000) } else { None }, "{wrong}");
        }
    }
}
