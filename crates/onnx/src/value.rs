//! Values: tensors, maps, and sequences of maps.

use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};

use crate::element::ElementType;

/// An input or output of a model.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A map, as `DictVectorizer` and `CastMap` take.
    Map(Map),
    /// A sequence of maps, as `ZipMap` gives.
    Maps(Vec<Map>),
}

/// A dense tensor, row-major.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

/// The elements of a tensor, or the values of a map.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Data {
    F32(Vec<f32>),
    F64(Vec<f64>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
    String(Vec<String>),
}

/// A map from sorted, distinct keys to as many values.
#[derive(Clone, PartialEq, Debug)]
pub struct Map {
    /// The keys, which many maps may share.
    pub keys: Arc<Keys>,
    /// The values, in the order of the keys.
    pub values: Data,
}

/// The keys of a map, ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Keys {
    I64(Vec<i64>),
    String(Vec<String>),
}

impl Keys {
    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Keys::I64(keys) => keys.len(),
            Keys::String(keys) => keys.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys' type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        match self {
            Keys::I64(_) => ElementType::I64,
            Keys::String(_) => ElementType::String,
        }
    }
}

/// Runs `$body` with `$v` bound to the vector of any variant.
macro_rules! with_data {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            Data::F32($v) => $body,
            Data::F64($v) => $body,
            Data::F16($v) => $body,
            Data::Bf16($v) => $body,
            Data::I8($v) => $body,
            Data::I16($v) => $body,
            Data::I32($v) => $body,
            Data::I64($v) => $body,
            Data::U8($v) => $body,
            Data::U16($v) => $body,
            Data::U32($v) => $body,
            Data::U64($v) => $body,
            Data::Bool($v) => $body,
            Data::String($v) => $body,
        }
    };
}

/// As `with_data`, for a body that makes another vector of the same type; gives data of that type.
macro_rules! map_data {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            $crate::value::Data::F32($v) => $crate::value::Data::F32($body),
            $crate::value::Data::F64($v) => $crate::value::Data::F64($body),
            $crate::value::Data::F16($v) => $crate::value::Data::F16($body),
            $crate::value::Data::Bf16($v) => $crate::value::Data::Bf16($body),
            $crate::value::Data::I8($v) => $crate::value::Data::I8($body),
            $crate::value::Data::I16($v) => $crate::value::Data::I16($body),
            $crate::value::Data::I32($v) => $crate::value::Data::I32($body),
            $crate::value::Data::I64($v) => $crate::value::Data::I64($body),
            $crate::value::Data::U8($v) => $crate::value::Data::U8($body),
            $crate::value::Data::U16($v) => $crate::value::Data::U16($body),
            $crate::value::Data::U32($v) => $crate::value::Data::U32($body),
            $crate::value::Data::U64($v) => $crate::value::Data::U64($body),
            $crate::value::Data::Bool($v) => $crate::value::Data::Bool($body),
            $crate::value::Data::String($v) => $crate::value::Data::String($body),
        }
    };
}
pub(crate) use map_data;

impl Data {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        with_data!(self, v => v.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements' type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        match self {
            Data::F32(_) => ElementType::F32,
            Data::F64(_) => ElementType::F64,
            Data::F16(_) => ElementType::F16,
            Data::Bf16(_) => ElementType::Bf16,
            Data::I8(_) => ElementType::I8,
            Data::I16(_) => ElementType::I16,
            Data::I32(_) => ElementType::I32,
            Data::I64(_) => ElementType::I64,
            Data::U8(_) => ElementType::U8,
            Data::U16(_) => ElementType::U16,
            Data::U32(_) => ElementType::U32,
            Data::U64(_) => ElementType::U64,
            Data::Bool(_) => ElementType::Bool,
            Data::String(_) => ElementType::String,
        }
    }

    /// Bytes of memory that the elements take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Data::String(v) => v.iter().map(|text| size_of::<String>() + text.len()).sum(),
            _ => self.len() * self.element().bytes(),
        }
    }
}

/// Number of elements of a shape.
#[must_use]
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    // A dimension of 0 makes the product 0, however large the others.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))
}

impl Tensor {
    /// A tensor of `shape`.
    ///
    /// # Errors
    /// When the shape has another number of elements than `data`.
    pub fn new(shape: Vec<usize>, data: Data) -> Result<Tensor, ShapeMismatch> {
        match count(&shape) {
            Some(n) if n == data.len() => Ok(Tensor { shape, data }),
            _ => Err(ShapeMismatch { shape, elements: data.len() }),
        }
    }

    /// A tensor of one dimension.
    #[must_use]
    pub fn vector(data: Data) -> Tensor {
        Tensor { shape: vec![data.len()], data }
    }

    /// The shape, outermost dimension first; empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements, row-major.
    #[must_use]
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The shape and the elements.
    #[must_use]
    pub fn into_parts(self) -> (Vec<usize>, Data) {
        (self.shape, self.data)
    }

    /// Rows and columns as the operators of `ai.onnx.ml` count them: one dimension is one row.
    pub(crate) fn matrix(&self) -> Result<(usize, usize), String> {
        match self.shape[..] {
            [cols] => Ok((1, cols)),
            [rows, cols] => Ok((rows, cols)),
            _ => Err(format!("an input of shape {:?} is not a matrix", self.shape)),
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}

/// A shape that does not fit the elements.
#[derive(Debug, PartialEq, Eq)]
pub struct ShapeMismatch {
    /// The shape.
    pub shape: Vec<usize>,
    /// Number of elements given.
    pub elements: usize,
}

impl fmt::Display for ShapeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shape {:?} does not have {} elements", self.shape, self.elements)
    }
}

impl std::error::Error for ShapeMismatch {}

impl From<ShapeMismatch> for crate::error::Problem {
    fn from(mismatch: ShapeMismatch) -> Self {
        crate::error::Problem::Said(mismatch.to_string())
    }
}
