//! Times as text.

use crate::time::Millis;

const DAY: i64 = 24 * 60 * 60 * 1_000;
/// 0001-01-01 and the last millisecond of 9999: years of four digits.
const RANGE: std::ops::RangeInclusive<Millis> = -62_135_596_800_000..=253_402_300_799_999;

/// A time in UTC, such as `2024-08-20T18:37:24.100Z`. Times outside of the years 1 to 9999 become the nearest one inside.
pub fn rfc3339(time: Millis) -> String {
    let time = time.clamp(*RANGE.start(), *RANGE.end());
    let (year, month, day) = date(time.div_euclid(DAY));
    let millis = time.rem_euclid(DAY);
    let (hours, minutes, seconds) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", millis % 1_000)
}

/// The date of a day since 1 January 1970, in the Gregorian calendar from year 1 on.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + days_before(1970);
    // At first too early by the leap years that are missing: some twenty years at the end of the calendar.
    let mut year = days / 366 + 1;
    while days_before(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before(year);
    let mut month = 1;
    while day >= days_of_month(year, month) {
        day -= days_of_month(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

/// Days from 1 January of year 1 to that of another year.
fn days_before(year: i64) -> i64 {
    let years = year - 1;
    365 * years + years / 4 - years / 100 + years / 400
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_724_179_044_100), "2024-08-20T18:37:24.100Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(i64::MIN), "0001-01-01T00:00:00.000Z");
    }
}
