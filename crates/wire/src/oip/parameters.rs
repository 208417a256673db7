//! Parameters of requests and tensors: names with a boolean, number or text.

use serde_json::Value;

use crate::error::{Fault, quote};
use crate::fields::{self, Fields};
use crate::limits;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number beyond `i64`.
    Uint(u64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
}

impl Parameter {
    /// The value in JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Parameter::Bool(value) => (*value).into(),
            Parameter::Int(value) => (*value).into(),
            Parameter::Uint(value) => (*value).into(),
            Parameter::Float(value) => (*value).into(),
            Parameter::Text(value) => value.as_str().into(),
        }
    }
}

/// Parameters by name, in the order of the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters(pub Vec<(String, Parameter)>);

impl Parameters {
    /// The parameter of this name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A boolean parameter.
    ///
    /// # Errors
    /// Another type; `path` is where the parameters are.
    pub fn boolean(&self, path: &str, name: &str) -> Result<Option<bool>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Parameter::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(wrong(path, name, "true or false")),
        }
    }

    /// A count; text of digits is one too.
    ///
    /// # Errors
    /// Another type, or a negative number.
    pub fn count(&self, path: &str, name: &str) -> Result<Option<u64>, Fault> {
        let value = match self.get(name) {
            None => return Ok(None),
            Some(Parameter::Int(value)) => u64::try_from(*value).ok(),
            Some(Parameter::Uint(value)) => Some(*value),
            Some(Parameter::Text(text)) => text.parse().ok(),
            Some(Parameter::Bool(_) | Parameter::Float(_)) => None,
        };
        value.map(Some).ok_or_else(|| wrong(path, name, "a whole number that is not negative"))
    }

    /// Refuses tensors in shared memory, which only this machine's processes could have.
    pub(super) fn refuse_shared_memory(&self, path: &str) -> Result<(), Fault> {
        match self.0.iter().find(|(name, _)| name.starts_with("shared_memory")) {
            None => Ok(()),
            Some((name, _)) => {
                let message =
                    "tensors in shared memory are not supported by this server; send them as binary data";
                Err(Fault::unsupported(format!("{path}.{name}"), message))
            }
        }
    }

    /// Reads the object `parameters` of `body`.
    pub(super) fn read(body: &Fields<'_>) -> Result<Parameters, Fault> {
        let Some(map) = body.object("parameters", limits::TENSOR_PARAMETERS)? else {
            return Ok(Parameters::default());
        };
        let path = body.param("parameters");
        let entry = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::Bool(value) => Parameter::Bool(*value),
                Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                    (Some(value), _) => Parameter::Int(value),
                    (None, Some(value)) => Parameter::Uint(value),
                    (None, None) => Parameter::Float(number.as_f64().unwrap_or_default()),
                },
                Value::String(text) => Parameter::Text(text.clone()),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    let param = format!("{path}.{}", fields::shown_name(name));
                    return Err(fields::wrong(&param, value, "true or false, a number or a string"));
                }
            };
            Ok((name.clone(), value))
        };
        Ok(Parameters(map.iter().map(entry).collect::<Result<_, Fault>>()?))
    }
}

fn wrong(path: &str, name: &str, expected: &str) -> Fault {
    let param = format!("{path}.{name}");
    let message = format!("{param} must be {expected}");
    Fault::field(param, message)
}

/// The fault of a name that is too long.
pub(super) fn check_name(param: &str, name: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::field(param, format!("{param} is empty; it must have at least 1 character")));
    }
    if name.len() > limits::NAME_BYTES {
        let message = format!(
            "{param} is {} and has {} bytes; at most {} are allowed",
            quote(name),
            name.len(),
            limits::NAME_BYTES
        );
        return Err(Fault::field(param, message));
    }
    Ok(())
}
