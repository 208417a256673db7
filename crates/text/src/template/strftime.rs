//! Dates for `strftime_now`, in UTC and English.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A date and time in the Gregorian calendar.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
}

/// The civil date of a day count; Howard Hinnant's `civil_from_days`.
fn moment(seconds: i64) -> Moment {
    let days = seconds.div_euclid(86_400);
    let rest = seconds.rem_euclid(86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * from_march + 2) / 153;
    let day = from_march - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][(month - 1) as usize];
    Moment {
        year,
        month,
        day,
        day_of_year: before + day + i64::from(leap && month > 2),
        weekday: days.rem_euclid(7) as usize,
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
    }
}

/// `format` at a number of seconds since 1970; directives unknown here stay as they are.
pub(super) fn strftime(format: &str, seconds: i64) -> String {
    // Limited to years of four digits.
    let now = moment(seconds.clamp(-62_135_596_800, 253_402_300_799));
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let rest = chars.as_str();
        let (padded, directive) = match rest.strip_prefix('-') {
            Some(after) => (false, after.chars().next()),
            None => (true, rest.chars().next()),
        };
        let Some(text) = directive.and_then(|directive| one(directive, padded, &now, seconds)) else {
            out.push('%');
            continue;
        };
        out.push_str(&text);
        chars.nth(if padded { 0 } else { 1 });
    }
    out
}

fn one(directive: char, padded: bool, now: &Moment, seconds: i64) -> Option<String> {
    let two = |n: i64| if padded { format!("{n:02}") } else { n.to_string() };
    let month = MONTHS[(now.month - 1) as usize];
    let hour12 = (now.hour + 11) % 12 + 1;
    Some(match directive {
        'Y' => now.year.to_string(),
        'y' => two(now.year % 100),
        'm' => two(now.month),
        'd' => two(now.day),
        'e' => format!("{:>2}", now.day),
        'H' => two(now.hour),
        'I' => two(hour12),
        'M' => two(now.minute),
        'S' => two(now.second),
        'j' if padded => format!("{:03}", now.day_of_year),
        'j' => now.day_of_year.to_string(),
        'B' => month.to_owned(),
        'b' | 'h' => month.chars().take(3).collect(),
        'A' => DAYS[now.weekday].to_owned(),
        'a' => DAYS[now.weekday].chars().take(3).collect(),
        'p' => if now.hour < 12 { "AM" } else { "PM" }.to_owned(),
        'F' => strftime("%Y-%m-%d", seconds),
        'T' | 'X' => strftime("%H:%M:%S", seconds),
        'D' | 'x' => strftime("%m/%d/%y", seconds),
        'R' => strftime("%H:%M", seconds),
        'c' => strftime("%a %b %e %H:%M:%S %Y", seconds),
        'w' => ((now.weekday + 4) % 7).to_string(),
        's' => seconds.to_string(),
        'f' => "000000".to_owned(),
        'Z' | 'z' => String::new(),
        '%' => "%".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn known_moments() {
        assert_eq!(strftime("%d %b %Y", 0), "01 Jan 1970");
        assert_eq!(
            strftime("%A, %B %-d, %Y %H:%M:%S %j %p %I", 1_709_210_096),
            "Thursday, February 29, 2024 12:34:56 060 PM 12"
        );
        assert_eq!(strftime("%a %w %y%%%q%", 951_782_400), "Tue 2 00%%q%");
        assert_eq!(strftime("%Y", i64::MAX), "9999");
    }
}
