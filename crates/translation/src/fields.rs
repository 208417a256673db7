//! Typed values of parsed JSON objects, with the path of the field in each error.

use serde_json::{Map, Value};
use wire::Fault;
use wire::error::quote;

/// An object and its path in the body.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The outermost object.
    pub(crate) fn of_body(value: &'a Value) -> Result<Fields<'a>, Fault> {
        match value {
            Value::Object(map) => Ok(Fields { map, path: String::new() }),
            _ => Err(Fault::body("the body must be a JSON object")),
        }
    }

    /// An object at a path.
    pub(crate) fn of(value: &'a Value, path: String) -> Result<Fields<'a>, Fault> {
        match value {
            Value::Object(map) => Ok(Fields { map, path }),
            other => Err(wrong(&path, other, "an object")),
        }
    }

    /// Names of the fields, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str)
    }

    /// The path of a field.
    pub(crate) fn path(&self, name: &str) -> String {
        match (self.path.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{name}", self.path),
        }
    }

    /// A value, unless it is `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// The first of several spellings of a field.
    pub(crate) fn either(&self, names: [&'static str; 2]) -> &'static str {
        let [first, second] = names;
        if self.get(first).is_none() && self.get(second).is_some() { second } else { first }
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path(name), other, "a string")),
        }
    }

    pub(crate) fn owned(&self, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    pub(crate) fn required(&self, name: &str) -> Result<&'a str, Fault> {
        self.text(name)?.ok_or_else(|| Fault::missing(self.path(name)))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(wrong(&self.path(name), other, "true or false")),
        }
    }

    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match whole(value) {
                Some(count) => Ok(Some(count)),
                None => Err(wrong(&self.path(name), value, "a whole number of at least 0")),
            },
        }
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(wrong(&self.path(name), value, "a whole number")),
            },
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(wrong(&self.path(name), value, "a number")),
            },
        }
    }

    /// The elements of a list, with their paths.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<(&'a Value, String)>, Fault> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                let path = self.path(name);
                Ok(list.iter().enumerate().map(|(at, value)| (value, format!("{path}[{at}]"))).collect())
            }
            Some(other) => Err(wrong(&self.path(name), other, "a list")),
        }
    }

    /// The objects of a list.
    pub(crate) fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>, Fault> {
        self.list(name)?.into_iter().map(|(value, path)| Fields::of(value, path)).collect()
    }

    /// The strings of a list.
    pub(crate) fn strings(&self, name: &str) -> Result<Vec<String>, Fault> {
        let texts = self.list(name)?.into_iter().map(|(value, path)| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(wrong(&path, other, "a string")),
        });
        texts.collect()
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => Fields::of(value, self.path(name)).map(Some),
        }
    }

    pub(crate) fn map(&self) -> &'a Map<String, Value> {
        self.map
    }

    /// The error for a value of an unsupported kind.
    pub(crate) fn unknown(&self, name: &str, value: &str, known: &str) -> Fault {
        let path = self.path(name);
        Fault::unsupported(path.clone(), format!("{path} is {}; translated are: {known}", quote(value)))
    }
}

/// A whole number, also of a float such as `40.0`.
fn whole(value: &Value) -> Option<u64> {
    if let Some(count) = value.as_u64() {
        return Some(count);
    }
    let number = value.as_f64()?;
    // Exact below 2^53.
    (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64)
}

pub(crate) fn wrong(path: &str, value: &Value, must: &str) -> Fault {
    let shown = match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => quote(text),
        other => other.to_string(),
    };
    Fault::field(path, format!("{path} is {shown}; it must be {must}"))
}

/// Refuses a field that the other dialect cannot say, and that would change the answer if it were left out.
pub(crate) fn refuse(field: &str, to: crate::Dialect) -> Fault {
    Fault::unsupported(field, format!("{field} cannot be translated: {to} has no counterpart"))
}

/// Writes a field if there is a value.
pub(crate) fn put<T: Into<Value>>(map: &mut Map<String, Value>, name: &str, value: Option<T>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), value.into());
    }
}
