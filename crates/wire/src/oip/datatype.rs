//! The datatypes of tensors.

/// The datatype of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Datatype {
    /// A byte, 0 or 1.
    Bool,
    /// An unsigned byte.
    Uint8,
    /// Two bytes, unsigned.
    Uint16,
    /// Four bytes, unsigned.
    Uint32,
    /// Eight bytes, unsigned.
    Uint64,
    /// A signed byte.
    Int8,
    /// Two bytes, signed.
    Int16,
    /// Four bytes, signed.
    Int32,
    /// Eight bytes, signed.
    Int64,
    /// IEEE 754 binary16. Has no form in JSON.
    Fp16,
    /// The upper half of an IEEE 754 binary32. Has no form in JSON.
    Bf16,
    /// IEEE 754 binary32.
    Fp32,
    /// IEEE 754 binary64.
    Fp64,
    /// A string of bytes.
    Bytes,
}

impl Datatype {
    /// All of them.
    pub const ALL: [Datatype; 14] = [
        Datatype::Bool,
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
        Datatype::Int8,
        Datatype::Int16,
        Datatype::Int32,
        Datatype::Int64,
        Datatype::Fp16,
        Datatype::Bf16,
        Datatype::Fp32,
        Datatype::Fp64,
        Datatype::Bytes,
    ];

    /// The protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Datatype::Bool => "BOOL",
            Datatype::Uint8 => "UINT8",
            Datatype::Uint16 => "UINT16",
            Datatype::Uint32 => "UINT32",
            Datatype::Uint64 => "UINT64",
            Datatype::Int8 => "INT8",
            Datatype::Int16 => "INT16",
            Datatype::Int32 => "INT32",
            Datatype::Int64 => "INT64",
            Datatype::Fp16 => "FP16",
            Datatype::Bf16 => "BF16",
            Datatype::Fp32 => "FP32",
            Datatype::Fp64 => "FP64",
            Datatype::Bytes => "BYTES",
        }
    }

    /// The name in Triton's model configuration: `TYPE_FP32`.
    pub fn config_name(self) -> String {
        match self {
            Datatype::Bytes => "TYPE_STRING".to_owned(),
            other => format!("TYPE_{}", other.name()),
        }
    }

    /// The number in Triton's model configuration (`DataType` of `model_config.proto`).
    pub fn config_number(self) -> i32 {
        match self {
            Datatype::Bool => 1,
            Datatype::Uint8 => 2,
            Datatype::Uint16 => 3,
            Datatype::Uint32 => 4,
            Datatype::Uint64 => 5,
            Datatype::Int8 => 6,
            Datatype::Int16 => 7,
            Datatype::Int32 => 8,
            Datatype::Int64 => 9,
            Datatype::Fp16 => 10,
            Datatype::Fp32 => 11,
            Datatype::Fp64 => 12,
            Datatype::Bytes => 13,
            Datatype::Bf16 => 14,
        }
    }

    /// The datatype of this name.
    pub fn parse(name: &str) -> Option<Datatype> {
        Datatype::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// Bytes of an element; none for strings, which have lengths of their own.
    pub fn size(self) -> Option<usize> {
        Some(match self {
            Datatype::Bool | Datatype::Uint8 | Datatype::Int8 => 1,
            Datatype::Uint16 | Datatype::Int16 | Datatype::Fp16 | Datatype::Bf16 => 2,
            Datatype::Uint32 | Datatype::Int32 | Datatype::Fp32 => 4,
            Datatype::Uint64 | Datatype::Int64 | Datatype::Fp64 => 8,
            Datatype::Bytes => return None,
        })
    }

    /// Whether elements have a form in JSON.
    pub fn has_json(self) -> bool {
        !matches!(self, Datatype::Fp16 | Datatype::Bf16)
    }
}
