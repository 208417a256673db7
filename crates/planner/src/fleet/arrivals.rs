//! Arrivals of requests: random ones, and those of a log.

use super::lengths::Lengths;
use crate::error::{Error, positive};
use crate::random::Random;

/// A request's arrival time and lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// Arrival time, in seconds since the start.
    pub at_s: f64,
    /// Prompt tokens.
    pub input: u32,
    /// Generated tokens, at least 1.
    pub output: u32,
}

/// Upper bound of the requests of a log.
pub const MAX_ARRIVALS: usize = 1_000_000;

/// `count` arrivals of a Poisson process with a mean of `per_hour` an hour.
///
/// # Errors
/// A rate of zero or less, or invalid lengths.
pub fn poisson(
    per_hour: f64,
    count: usize,
    input: &Lengths,
    output: &Lengths,
    seed: u64,
) -> Result<Vec<Arrival>, Error> {
    positive("fleet.requests_per_hour", per_hour)?;
    input.check("fleet.input")?;
    output.check("fleet.output")?;
    // Separate random streams for times and lengths, so that the lengths do not depend on the rate.
    let (mut times, mut lengths) = (Random::new(seed), Random::new(seed ^ 0x5851_f42d_4c95_7f2d));
    let mut at_s = 0.0;
    let next = |_| {
        at_s += times.exponential(3600.0 / per_hour);
        let (input, output) = (input.draw(&mut lengths, 1), output.draw(&mut lengths, 1));
        Arrival { at_s, input, output }
    };
    Ok((0..count.min(MAX_ARRIVALS)).map(next).collect())
}

/// Parses a log: on each line seconds, prompt tokens and generated tokens, separated by commas. A header line and empty
/// lines are skipped. Times are shifted so that the first request arrives at 0.
///
/// # Errors
/// An invalid line, with its number; times that do not ascend; an empty log; more than [`MAX_ARRIVALS`] requests.
pub fn log(name: &str, text: &str) -> Result<Vec<Arrival>, Error> {
    let mut all: Vec<Arrival> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let named = index == 0 && line.contains(|c: char| c.is_ascii_alphabetic());
        if line.is_empty() || named {
            continue;
        }
        let at_line = |detail: String| Error::Text { what: format!("{name}, line {}", index + 1), detail };
        let arrival = parse(line)
            .ok_or_else(|| at_line("wants seconds, tokens in, tokens out, separated by commas".to_owned()))?;
        if let Some(last) = all.last().filter(|last| last.at_s > arrival.at_s) {
            return Err(at_line(format!("{} s comes after {} s", arrival.at_s, last.at_s)));
        }
        if all.len() == MAX_ARRIVALS {
            return Err(at_line(format!("a log has at most {MAX_ARRIVALS} requests")));
        }
        all.push(arrival);
    }
    let Some(first) = all.first().map(|first| first.at_s) else {
        return Err(Error::Empty { what: name.to_owned() });
    };
    for arrival in &mut all {
        arrival.at_s -= first;
    }
    Ok(all)
}

fn parse(line: &str) -> Option<Arrival> {
    let mut fields = line.split(',').map(str::trim);
    let at_s: f64 = fields.next()?.parse().ok()?;
    let (input, output): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let whole = fields.next().is_none() && at_s.is_finite() && at_s.abs() < 1e12;
    let short = input <= 10_000_000 && (1..=10_000_000).contains(&output);
    (whole && short).then_some(Arrival { at_s, input: input.max(1), output })
}

/// Mean requests an hour of `arrivals`; none for fewer than two, or all at one time.
#[must_use]
pub fn per_hour(arrivals: &[Arrival]) -> Option<f64> {
    let span = arrivals.last()?.at_s - arrivals.first()?.at_s;
    (span > 0.0).then(|| (arrivals.len() - 1) as f64 * 3600.0 / span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_the_seed_decides() {
        let draw = |seed| poisson(3600.0, 20_000, &Lengths::Fixed(5), &Lengths::Fixed(7), seed).unwrap();
        let rate = per_hour(&draw(1)).unwrap();
        assert!((rate / 3600.0 - 1.0).abs() < 0.02, "{rate}");
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(poisson(0.0, 1, &Lengths::Fixed(1), &Lengths::Fixed(1), 1).is_err());
    }

    #[test]
    fn a_log_is_read_by_its_lines() {
        let read = log("a.csv", "time,in,out\n100.5,10,20\n\n 101, 5,6\n").unwrap();
        assert_eq!(read[0], Arrival { at_s: 0.0, input: 10, output: 20 });
        assert_eq!(read[1], Arrival { at_s: 0.5, input: 5, output: 6 });
        let said = |text: &str| log("a.csv", text).unwrap_err().to_string();
        assert_eq!(said(""), "a.csv is empty");
        assert_eq!(said("time,in,out\n"), "a.csv is empty");
        assert_eq!(said("1,2,3\n0,2,3"), "a.csv, line 2: 0 s comes after 1 s");
        for bad in ["1,2", "1,2,0", "1,-2,3", "nan,1,1", "1,2,3,4", "1,2,99999999999"] {
            assert!(said(&format!("0,1,1\n{bad}")).contains("line 2: wants seconds"), "{bad}");
        }
    }
}
