//! Numbers of a JSON text that a double cannot represent exactly: their positions and digits.

use crate::error::Fault;

/// Upper bound of the numbers returned by [`exact`].
const MAX_NUMBERS: usize = 1_024;

/// A JSON pointer, and the text of the number there.
pub type Exact = (String, String);

/// The numbers of `text`, which is valid JSON, whose value changes when parsed as a double or a 64-bit integer. At most
/// 1,024.
#[must_use]
pub fn exact(text: &[u8]) -> Vec<Exact> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut scan = NumberScan { text, at: 0, path: Vec::new(), found: Vec::new() };
    // Fast path: most bodies have no long number.
    if scan.any_long() {
        scan.value();
    }
    scan.found
}

/// Checks that the values listed by schemas (`const`, `enum`) are exact, for requests that are translated to another
/// API before parsing.
///
/// # Errors
/// The first number that is not exact.
pub fn refuse_in_schemas(text: &[u8]) -> Result<(), Fault> {
    let listed = |at: &str| at.contains("/const") || at.contains("/enum");
    match exact(text).into_iter().find(|(at, _)| listed(at)) {
        None => Ok(()),
        Some((at, digits)) => {
            let mut field = String::new();
            for step in at[1..].split('/') {
                let index = step.bytes().all(|byte| byte.is_ascii_digit());
                let dot = if field.is_empty() || index { "" } else { "." };
                field += &if index { format!("[{step}]") } else { format!("{dot}{step}") };
            }
            let message = format!("{field} is {digits}, which has more digits than can be held exactly here");
            Err(Fault::unsupported(field.clone(), message))
        }
    }
}

struct NumberScan<'t> {
    text: &'t [u8],
    at: usize,
    path: Vec<String>,
    found: Vec<Exact>,
}

impl NumberScan<'_> {
    /// Whether the text has a run of at least 16 characters of numbers.
    fn any_long(&self) -> bool {
        let number = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
        self.text.split(|byte| !number(byte)).any(|run| run.len() >= 16)
    }

    fn skip_whitespace(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn value(&mut self) {
        self.skip_whitespace();
        match self.text.get(self.at) {
            Some(b'{') => self.entries(b'}', true),
            Some(b'[') => self.entries(b']', false),
            Some(b'"') => {
                self.string();
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                while self.text.get(self.at).is_some_and(u8::is_ascii_alphabetic) {
                    self.at += 1;
                }
            }
        }
    }

    fn entries(&mut self, close: u8, keyed: bool) {
        self.at += 1;
        for index in 0.. {
            self.skip_whitespace();
            match self.text.get(self.at) {
                None => return,
                Some(byte) if *byte == close => {
                    self.at += 1;
                    return;
                }
                Some(b',') => {
                    self.at += 1;
                    self.skip_whitespace();
                }
                Some(_) => {}
            }
            let before = self.at;
            let step = if keyed {
                let key = self.string();
                self.skip_whitespace();
                self.at += 1;
                key.replace('~', "~0").replace('/', "~1")
            } else {
                index.to_string()
            };
            self.path.push(step);
            self.value();
            self.path.pop();
            if self.at == before {
                return;
            }
        }
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
        let end = self.at.min(self.text.len());
        serde_json::from_slice(&self.text[start..end]).unwrap_or_default()
    }

    fn number(&mut self) {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte)) {
            self.at += 1;
        }
        let Ok(digits) = std::str::from_utf8(&self.text[start..self.at]) else { return };
        if self.found.len() < MAX_NUMBERS && !round_trips(digits) {
            let path = self.path.iter().flat_map(|step| ["/", step.as_str()]).collect();
            self.found.push((path, digits.to_owned()));
        }
    }
}

/// Whether parsing and printing a number preserves its value.
fn round_trips(digits: &str) -> bool {
    if digits.len() < 16 {
        return true;
    }
    let read = serde_json::from_str::<serde_json::Number>(digits);
    read.is_ok_and(|number| significant(&number.to_string()) == significant(digits))
}

/// Sign, digits without leading and trailing zeros, and the decimal exponent of the first digit.
fn significant(text: &str) -> (bool, String, i64) {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) =
        digits.trim_start_matches('-').split_once('.').unwrap_or((digits.trim_start_matches('-'), ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let kept = all.trim_matches('0').to_owned();
    if kept.is_empty() {
        return (false, kept, 0);
    }
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
    (text.starts_with('-'), kept, whole.len() as i64 - leading as i64 + exponent)
}

#[cfg(test)]
mod tests {
    use super::exact;

    #[test]
    fn only_what_a_double_loses_is_found() {
        let text = br#"{"a": [1, 12345678901234567890123, "12345678901234567890123"], "b/c": {"d": 0.1000000000000000055511151231257827},
            "e": 1e22, "f": 18446744073709551615, "g": 10000000000000000000000, "h": -9223372036854775808, "i": 0.30000000000000004}"#;
        let found = exact(text);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(at, digits)| (at.as_str(), digits.as_str())).collect();
        let want = [("/a/1", "12345678901234567890123"), ("/b~1c/d", "0.1000000000000000055511151231257827")];
        assert_eq!(found, want);
    }
}
