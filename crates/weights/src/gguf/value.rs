//! Metadata values and the map that holds them.

use std::collections::HashMap;

use super::Strings;

/// One metadata value, of the type the file gives it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types of the file format")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// A metadata array: all elements of one type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types of the file format")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    String(Strings),
    Array(Vec<Array>),
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::F64(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::String(v) => v.len(),
            Array::Array(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `index` as a value.
    pub fn get(&self, index: usize) -> Option<Value> {
        match self {
            Array::U8(v) => v.get(index).copied().map(Value::U8),
            Array::I8(v) => v.get(index).copied().map(Value::I8),
            Array::U16(v) => v.get(index).copied().map(Value::U16),
            Array::I16(v) => v.get(index).copied().map(Value::I16),
            Array::U32(v) => v.get(index).copied().map(Value::U32),
            Array::I32(v) => v.get(index).copied().map(Value::I32),
            Array::U64(v) => v.get(index).copied().map(Value::U64),
            Array::I64(v) => v.get(index).copied().map(Value::I64),
            Array::F32(v) => v.get(index).copied().map(Value::F32),
            Array::F64(v) => v.get(index).copied().map(Value::F64),
            Array::Bool(v) => v.get(index).copied().map(Value::Bool),
            Array::String(v) => v.get(index).cloned().map(Value::String),
            Array::Array(v) => v.get(index).cloned().map(Value::Array),
        }
    }

    /// The element type's name.
    pub fn type_name(&self) -> &'static str {
        match self {
            Array::U8(_) => "u8",
            Array::I8(_) => "i8",
            Array::U16(_) => "u16",
            Array::I16(_) => "i16",
            Array::U32(_) => "u32",
            Array::I32(_) => "i32",
            Array::U64(_) => "u64",
            Array::I64(_) => "i64",
            Array::F32(_) => "f32",
            Array::F64(_) => "f64",
            Array::Bool(_) => "bool",
            Array::String(_) => "string",
            Array::Array(_) => "array",
        }
    }
}

impl Value {
    /// The type's name.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(_) => "array",
        }
    }

    /// An integer of any type, if it fits an i64.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::U8(v) => Some(v.into()),
            Value::I8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::I16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::I32(v) => Some(v.into()),
            Value::U64(v) => v.try_into().ok(),
            Value::I64(v) => Some(v),
            _ => None,
        }
    }

    /// An integer of any type, if it fits a u64.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U64(v) => Some(v),
            _ => self.as_i64()?.try_into().ok(),
        }
    }

    /// A float or an integer, as the nearest f64.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(v) => Some(v.into()),
            Value::F64(v) => Some(v),
            _ => self.as_i64().map(|v| v as f64),
        }
    }
}

/// The key/value section of a GGUF file, in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Metadata {
    /// Adds an entry. Returns false and changes nothing if the key exists.
    pub fn insert(&mut self, key: String, value: Value) -> bool {
        if self.index.contains_key(&key) {
            return false;
        }
        self.index.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        true
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The value at `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&i| &self.entries[i].1)
    }

    /// An integer of any width that fits a u32.
    pub fn get_u32(&self, key: &str) -> Option<u32> {
        self.get(key)?.as_u64()?.try_into().ok()
    }

    /// An integer of any width that fits a u64.
    pub fn get_u64(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// An integer of any width that fits an i64.
    pub fn get_i64(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_i64()
    }

    /// An integer of any width that fits a usize.
    pub fn get_usize(&self, key: &str) -> Option<usize> {
        self.get(key)?.as_u64()?.try_into().ok()
    }

    /// A float or an integer as f32.
    pub fn get_f32(&self, key: &str) -> Option<f32> {
        match self.get(key)? {
            Value::F32(v) => Some(*v),
            other => other.as_f64().map(|v| v as f32),
        }
    }

    /// A boolean.
    pub fn get_bool(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(v) => Some(*v),
            _ => None,
        }
    }

    /// A string.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::String(v) => Some(v),
            _ => None,
        }
    }

    /// An array of any type.
    pub fn get_array(&self, key: &str) -> Option<&Array> {
        match self.get(key)? {
            Value::Array(v) => Some(v),
            _ => None,
        }
    }

    /// An array of strings.
    pub fn get_strings(&self, key: &str) -> Option<&[String]> {
        match self.get_array(key)? {
            Array::String(v) => Some(v),
            _ => None,
        }
    }

    /// An array of f32.
    pub fn get_f32s(&self, key: &str) -> Option<&[f32]> {
        match self.get_array(key)? {
            Array::F32(v) => Some(v),
            _ => None,
        }
    }

    /// An array of integers of any width, if all fit an i64.
    pub fn get_integers(&self, key: &str) -> Option<Vec<i64>> {
        let array = self.get_array(key)?;
        (0..array.len()).map(|i| array.get(i)?.as_i64()).collect()
    }

    /// An array of booleans, or of integers of which 0 is false.
    pub fn get_bools(&self, key: &str) -> Option<Vec<bool>> {
        match self.get_array(key)? {
            Array::Bool(v) => Some(v.clone()),
            Array::String(_) | Array::Array(_) => None,
            _ => Some(self.get_integers(key)?.into_iter().map(|v| v != 0).collect()),
        }
    }
}
