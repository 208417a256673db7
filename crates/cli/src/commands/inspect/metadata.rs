//! A model's metadata as JSON, its long parts cut.

use serde_json::{Map, Value, json};
use weights::Metadata;
use weights::gguf::{Array, Value as Entry};

/// Elements that are shown of a longer array.
const SHOWN_ELEMENTS: usize = 4;
/// Longest array that is shown whole.
const MAX_ELEMENTS: usize = 16;
/// Longest text that is shown whole, in characters.
const MAX_CHARS: usize = 400;

/// The metadata of either kind of model: a GGUF's keys, or a directory's files under their names.
pub(super) fn read(metadata: &Metadata, full: bool) -> Map<String, Value> {
    let mut out = Map::new();
    match metadata {
        Metadata::Gguf(entries) => {
            for (key, entry) in entries.iter() {
                out.insert(key.to_owned(), value(entry, full));
            }
        }
        Metadata::HuggingFace(files) => {
            let mut put = |name: &str, value: Option<&Value>| {
                if let Some(value) = value {
                    let value = if full { value.clone() } else { cut(value) };
                    out.insert(name.to_owned(), value);
                }
            };
            put("config.json", Some(&files.config));
            put("generation_config.json", files.generation_config.as_ref());
            put("tokenizer_config.json", files.tokenizer_config.as_ref());
            put("special_tokens_map.json", files.special_tokens_map.as_ref());
            put("chat_template", files.chat_template.clone().map(Value::String).as_ref());
            let size = files.tokenizer_json.as_ref().map(|file| json!({"bytes": file.size()}));
            put("tokenizer.json", size.as_ref());
        }
    }
    out
}

fn value(entry: &Entry, full: bool) -> Value {
    match entry {
        Entry::Bool(v) => json!(v),
        Entry::F32(v) => float(*v),
        Entry::F64(v) => {
            if v.is_finite() {
                json!(v)
            } else {
                json!(v.to_string())
            }
        }
        Entry::U64(v) => json!(v),
        Entry::String(text) if full => json!(text),
        Entry::String(text) => shorten(text),
        Entry::Array(array) => elements(array, full),
        integer => json!(integer.as_i64()),
    }
}

/// An f32 in its own digits (0.1 and not 0.10000000149); text for what JSON cannot hold.
fn float(v: f32) -> Value {
    let text = v.to_string();
    match text.parse::<f64>() {
        Ok(wide) if wide.is_finite() => json!(wide),
        _ => json!(text),
    }
}

fn elements(array: &Array, full: bool) -> Value {
    let shown = if full || array.len() <= MAX_ELEMENTS { array.len() } else { SHOWN_ELEMENTS };
    let first: Vec<Value> = (0..shown).filter_map(|i| array.get(i)).map(|v| value(&v, full)).collect();
    if shown == array.len() {
        return Value::Array(first);
    }
    json!({"array_of": array.type_name(), "length": array.len(), "first": first})
}

/// As [`value`] does, for JSON that is JSON already.
fn cut(value: &Value) -> Value {
    match value {
        Value::String(text) => shorten(text),
        Value::Array(list) if list.len() > MAX_ELEMENTS => {
            let first: Vec<Value> = list.iter().take(SHOWN_ELEMENTS).map(cut).collect();
            json!({"array_of": "json", "length": list.len(), "first": first})
        }
        Value::Array(list) => list.iter().map(cut).collect(),
        Value::Object(map) if map.len() > 8 * MAX_ELEMENTS => json!({"object_of": map.len()}),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), cut(value))).collect(),
        plain => plain.clone(),
    }
}

fn shorten(text: &str) -> Value {
    let length = text.chars().count();
    if length <= MAX_CHARS {
        return json!(text);
    }
    json!({"text_of_chars": length, "first": text.chars().take(MAX_CHARS / 4).collect::<String>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arrays_and_texts_are_cut_unless_asked_for() {
        let mut entries = weights::gguf::Metadata::default();
        entries.insert("short".to_owned(), Entry::Array(Array::I32(vec![1, -2])));
        entries.insert("long".to_owned(), Entry::Array(Array::String(vec!["t".to_owned(); 50_000].into())));
        entries.insert("text".to_owned(), Entry::String("é".repeat(1000)));
        entries.insert("eps".to_owned(), Entry::F32(1e-5));
        entries.insert("nan".to_owned(), Entry::F32(f32::NAN));
        entries.insert("inf".to_owned(), Entry::F64(f64::NEG_INFINITY));
        entries.insert("big".to_owned(), Entry::U64(u64::MAX));
        let metadata = Metadata::Gguf(entries);
        let cut = read(&metadata, false);
        assert_eq!(cut["short"], json!([1, -2]));
        assert_eq!(
            cut["long"],
            json!({"array_of": "string", "length": 50_000, "first": ["t", "t", "t", "t"]})
        );
        assert_eq!(cut["text"]["text_of_chars"], 1000);
        assert_eq!(cut["eps"].to_string(), "0.00001");
        assert_eq!((&cut["nan"], &cut["inf"]), (&json!("NaN"), &json!("-inf")));
        assert_eq!(cut["big"], json!(u64::MAX));
        let full = read(&metadata, true);
        assert_eq!(full["long"].as_array().map(Vec::len), Some(50_000));
        assert_eq!(full["text"].as_str().map(str::len), Some(2000));
    }

    #[test]
    fn json_is_cut_at_every_depth() {
        let deep = json!({"a": {"b": (0..100).collect::<Vec<_>>()}, "c": ["x".repeat(500)]});
        let cut = cut(&deep);
        assert_eq!(cut["a"]["b"]["length"], 100);
        assert_eq!(cut["c"][0]["text_of_chars"], 500);
    }
}
