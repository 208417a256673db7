//! Times of day in UTC, as logs and file names write them.

use std::time::{Duration, SystemTime};

/// A moment in UTC, by the proleptic Gregorian calendar.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    /// `seconds` after 1970 began. Civil from days: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    fn new(seconds: u64) -> Civil {
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let z = days + 719_468;
        let (era, day_of_era) = (z / 146_097, z % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Civil {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// `2026-11-21T19:01:38.250Z` (RFC 3339).
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let since = since_1970(at);
    let Civil { year, month, day, hour, minute, second } = Civil::new(since.as_secs());
    let ms = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// `20261121-190138`, for names of files.
pub(crate) fn stamp(at: SystemTime) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::new(since_1970(at).as_secs());
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    /// As `date -u -d @N` writes them.
    #[test]
    fn times() {
        assert_eq!(stamp(at(0)), "19700101-000000");
        assert_eq!(stamp(at(951_827_696_000)), "20000229-123456");
        assert_eq!(rfc3339(at(1_795_287_698_250)), "2026-11-21T19:01:38.250Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_secs(5)), "1970-01-01T00:00:00.000Z");
    }
}
