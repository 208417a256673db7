//! Windows of budgets: days and months of the UTC calendar, and all time.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Seconds of a day; leap seconds do not exist in Unix time.
const DAY_SECONDS: i64 = 86_400;

/// Bounds of the clock: the years 1970 to 9999, so that calendar arithmetic cannot overflow.
const LAST_SECOND: i64 = 253_402_300_799;

/// How long a cap adds up before it starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// A day, from midnight UTC.
    Day,
    /// A month of the UTC calendar.
    Month,
    /// All time: the cap never starts anew.
    Total,
}

/// The numbers of the day and the month that a time falls into: which period of each window counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Days since 1970-01-01.
    pub day: i64,
    /// Months since 1970-01.
    pub month: i64,
}

impl Moment {
    pub(crate) fn at(seconds: i64) -> Moment {
        let day = seconds.clamp(0, LAST_SECOND) / DAY_SECONDS;
        let (year, month, _) = civil(day);
        Moment { day, month: (year - 1970) * 12 + month - 1 }
    }
}

impl Window {
    /// All windows, the shortest first.
    pub const ALL: [Window; 3] = [Window::Day, Window::Month, Window::Total];

    /// The word in files, messages and the store.
    pub fn word(self) -> &'static str {
        match self {
            Window::Day => "day",
            Window::Month => "month",
            Window::Total => "total",
        }
    }

    /// The number of the period: days or months since 1970, 0 for all time.
    pub(crate) fn period(self, moment: Moment) -> i64 {
        match self {
            Window::Day => moment.day,
            Window::Month => moment.month,
            Window::Total => 0,
        }
    }

    /// When a period ends, in Unix seconds; `None` for all time.
    pub fn end_of(self, period: i64) -> Option<i64> {
        match self {
            Window::Day => Some((period + 1) * DAY_SECONDS),
            Window::Month => {
                let next = period + 1;
                Some(days_before(1970 + next.div_euclid(12), next.rem_euclid(12) + 1) * DAY_SECONDS)
            }
            Window::Total => None,
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The day of a time as `2026-11-29`.
pub fn date(seconds: i64) -> String {
    let (year, month, day) = civil(seconds.clamp(0, LAST_SECOND) / DAY_SECONDS);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time as `2026-11-29T23:59:59Z`.
pub fn timestamp(seconds: i64) -> String {
    let second = seconds.clamp(0, LAST_SECOND) % DAY_SECONDS;
    format!("{}T{:02}:{:02}:{:02}Z", date(seconds), second / 3600, second / 60 % 60, second % 60)
}

/// Year, month (1 to 12) and day (1 to 31) of a day since 1970. Years begin in March here, so that the leap day is the
/// last (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// Days from 1970-01-01 to the first of a month: the inverse of [`civil`].
fn days_before(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every day of 1970 to 2400 against counting days one by one.
    #[test]
    fn days_and_months_follow_the_calendar() {
        let (mut year, mut month, mut day, mut months) = (1970, 1, 1, 0);
        for number in 0..157_000 {
            assert_eq!(civil(number), (year, month, day));
            let moment = Moment::at(number * DAY_SECONDS + 86_399);
            assert_eq!((moment.day, moment.month), (number, months));
            assert_eq!(Window::Day.end_of(number), Some((number + 1) * DAY_SECONDS));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                assert_eq!(Window::Month.end_of(months), Some((number + 1) * DAY_SECONDS));
                (day, month, months) = (1, month + 1, months + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn times_are_written_in_utc() {
        // From `date -u -d @1796083199`.
        assert_eq!(timestamp(1_796_083_199), "2026-11-30T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(timestamp(-5), "1970-01-01T00:00:00Z");
    }
}
