//! YAML read into JSON values, bounded in size, depth and what aliases multiply.
//!
//! Scalars mean what they mean to PyYAML, which reads the files that come here: `yes` is true, a quoted number is text.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// Most bytes of a file.
const MOST_BYTES: usize = 1 << 20;
/// Most values of a file, those that aliases repeat included. A long text counts as one for each [`TEXT_BYTES`].
const MOST_VALUES: usize = 100_000;
/// Bytes of text that count as a value.
const TEXT_BYTES: usize = 64;
/// Most levels of lists and mappings.
const MOST_LEVELS: usize = 32;

/// A list or mapping that is not complete yet.
struct Open {
    value: Value,
    /// The key whose value comes next.
    key: Option<String>,
    anchor: usize,
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    /// Values with an anchor, and how many values each holds.
    anchors: HashMap<usize, (Value, usize)>,
    values: usize,
    whole: Option<Value>,
}

/// The first document of a YAML text.
///
/// # Errors
/// A text that is no YAML, has a second document, or exceeds a limit, with its line.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("the file has {} bytes; at most {MOST_BYTES} are read", text.len()));
    }
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        reader.take(event).map_err(|why| format!("line {}: {why}", span.start.line()))?;
    }
    Ok(reader.whole.unwrap_or(Value::Null))
}

impl Reader {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                let value = if is_text { Value::from(text.as_ref()) } else { plain(&text) };
                let size = count(&value);
                self.add(value, anchor, size)
            }
            Event::SequenceStart(anchor, _) => self.begin(Value::Array(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => self.begin(Value::Object(Map::new()), anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let done = self.open.pop().ok_or("a list or mapping ends that never began")?;
                self.add(done.value, done.anchor, 1)
            }
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor);
                let (value, size) = known.ok_or("an alias stands for a value that is not complete")?;
                let size = *size;
                // Counted before it is copied.
                room(self.values, size)?;
                let value = value.clone();
                self.add(value, 0, size)
            }
            Event::DocumentStart(_) if self.whole.is_some() => {
                Err("a second document begins; one is read".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        if self.open.len() >= MOST_LEVELS {
            return Err(format!("lists and mappings are nested more than {MOST_LEVELS} deep"));
        }
        self.open.push(Open { value, key: None, anchor });
        Ok(())
    }

    /// Adds a complete value, which stands for `size` values, to what is open.
    fn add(&mut self, value: Value, anchor: usize, size: usize) -> Result<(), String> {
        self.values = room(self.values, size)?;
        if anchor != 0 {
            let size = count(&value);
            self.values = room(self.values, size)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        let Some(open) = self.open.last_mut() else {
            self.whole = Some(value);
            return Ok(());
        };
        match &mut open.value {
            Value::Array(items) => items.push(value),
            Value::Object(map) => match open.key.take() {
                None => open.key = Some(key(value)?),
                Some(key) if key == "<<" => merge(map, value)?,
                Some(key) => {
                    // A key of the mapping itself goes before a merged one, wherever it stands.
                    map.insert(key, value);
                }
            },
            _ => {}
        }
        Ok(())
    }
}

/// The number of values with these further ones.
fn room(values: usize, more: usize) -> Result<usize, String> {
    let sum = values.saturating_add(more);
    let wrong = || format!("there are more than {MOST_VALUES} values, those of aliases included");
    (sum <= MOST_VALUES).then_some(sum).ok_or_else(wrong)
}

fn count(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / TEXT_BYTES,
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(map) => {
            1 + map.iter().map(|(key, value)| key.len() / TEXT_BYTES + count(value)).sum::<usize>()
        }
        _ => 1,
    }
}

fn key(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err("a key of a mapping is a list or a mapping itself".to_owned()),
    }
}

/// Merges a mapping, or several, whose keys do not replace those that are there.
fn merge(map: &mut Map<String, Value>, value: Value) -> Result<(), String> {
    let maps = match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    for value in maps {
        let Value::Object(other) = value else { return Err("<< merges what is no mapping".to_owned()) };
        for (key, value) in other {
            map.entry(key).or_insert(value);
        }
    }
    Ok(())
}

/// A scalar without quotes.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE_".contains(&b));
    if is_number {
        if let Ok(number) = text.parse::<i64>() {
            return Value::from(number);
        }
        if let Some(number) = text.parse::<f64>().ok().and_then(Number::from_f64) {
            return Value::Number(number);
        }
    }
    Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_pyyamls() {
        let value =
            parse("a: yes\nb: 'yes'\nc: 0.5\nd: 12\ne: ~\nf: sk-1\ng: 1e-6\nh: \"7\"\ni: |\n  x\n").unwrap();
        let expected = serde_json::json!({
            "a": true, "b": "yes", "c": 0.5, "d": 12, "e": null, "f": "sk-1", "g": 1e-6, "h": "7", "i": "x\n"
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn anchors_and_merges_are_read() {
        let text = "base: &base {rpm: 5, timeout: 3}\nlist:\n  - <<: *base\n    timeout: 9\n  - *base\n";
        let value = parse(text).unwrap();
        assert_eq!(value["list"][0], serde_json::json!({"rpm": 5, "timeout": 9}));
        assert_eq!(value["list"][1]["rpm"], 5);
    }

    #[test]
    fn bombs_depth_and_size_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let last = level - 1;
            let items = vec![format!("*a{last}"); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        let error = parse(&bomb).unwrap_err();
        assert!(error.contains("more than 100000 values") && error.starts_with("line 5"), "{error}");
        let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(500_000), vec!["*a"; 100].join(", "));
        assert!(parse(&long).unwrap_err().contains("more than 100000 values"));
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&deep(MOST_LEVELS)).is_ok());
        assert!(parse(&deep(MOST_LEVELS + 1)).unwrap_err().contains("32 deep"));
        assert!(parse(&deep(100_000)).is_err());
        assert!(parse(&" ".repeat(MOST_BYTES + 1)).unwrap_err().contains("bytes"));
        assert!(parse("a: 1\n---\nb: 2\n").unwrap_err().contains("second document"));
        assert!(parse("a: [1,\n").is_err() && parse("a: *b\n").is_err() && parse("? [a]\n: b\n").is_err());
        assert!(parse("a: &a [*a]\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-a-z0-9:{}\\[\\]&*!|>'\"#%@`,?<~ \n\t]{0,200}") {
            let _ = parse(&text);
        }
    }
}
