//! Element types of tensors.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ElementType {
    F32,
    F64,
    F16,
    Bf16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
    String,
}

/// Each type with its number in files, its name, and the bytes that an element takes in files (0 for strings).
const TYPES: [(ElementType, i32, &str, usize); 14] = [
    (ElementType::F32, 1, "float32", 4),
    (ElementType::U8, 2, "uint8", 1),
    (ElementType::I8, 3, "int8", 1),
    (ElementType::U16, 4, "uint16", 2),
    (ElementType::I16, 5, "int16", 2),
    (ElementType::I32, 6, "int32", 4),
    (ElementType::I64, 7, "int64", 8),
    (ElementType::String, 8, "string", 0),
    (ElementType::Bool, 9, "bool", 1),
    (ElementType::F16, 10, "float16", 2),
    (ElementType::F64, 11, "float64", 8),
    (ElementType::U32, 12, "uint32", 4),
    (ElementType::U64, 13, "uint64", 8),
    (ElementType::Bf16, 16, "bfloat16", 2),
];

impl ElementType {
    /// The type with a number of `TensorProto.DataType`.
    ///
    /// # Errors
    /// The type's name, if it is one without values here (complex numbers, eight and four bits), or its number.
    pub(crate) fn from_number(number: i32) -> Result<ElementType, String> {
        match TYPES.iter().find(|row| row.1 == number) {
            Some(row) => Ok(row.0),
            None => Err(match number {
                0 => "its element type is not stated".to_owned(),
                14 => "complex64 is not supported".to_owned(),
                15 => "complex128 is not supported".to_owned(),
                17..=20 => "8-bit floats are not supported".to_owned(),
                21 | 22 => "4-bit integers are not supported".to_owned(),
                _ => format!("element type {number} is unknown"),
            }),
        }
    }

    fn row(self) -> &'static (ElementType, i32, &'static str, usize) {
        // Every type has a row: held by a test.
        TYPES.iter().find(|row| row.0 == self).unwrap_or(&TYPES[0])
    }

    /// The name, as NumPy spells it: `float32`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The bytes that an element takes in a file; 0 for strings.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.row().3
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_number() {
        for (element, number, name, bytes) in TYPES {
            assert_eq!(ElementType::from_number(number), Ok(element));
            assert_eq!((element.name(), element.bytes()), (name, bytes));
        }
        assert!(ElementType::from_number(15).is_err_and(|text| text.contains("complex128")));
        assert!(ElementType::from_number(-7).is_err_and(|text| text.contains("-7")));
    }
}
