//! Names and types of a model's inputs and outputs.

use std::fmt;

use crate::element::ElementType;
use crate::error::Error;
use crate::proto::{DimensionValue, TensorShapeProto, TypeKind, TypeProto, ValueInfoProto};
use crate::value::Value;

/// The most dimensions of a tensor.
pub(crate) const MAX_DIMENSIONS: usize = 16;

/// An input or output of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueInfo {
    /// The name.
    pub name: String,
    /// The type.
    pub kind: ValueType,
}

/// The type of an input or output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// A tensor.
    Tensor {
        /// The elements' type.
        element: ElementType,
        /// The dimensions; none if the model does not state how many.
        shape: Option<Vec<Dim>>,
    },
    /// A map.
    Map {
        /// The keys' type.
        key: ElementType,
        /// The values' type.
        value: ElementType,
    },
    /// A sequence of maps.
    Maps {
        /// The keys' type.
        key: ElementType,
        /// The values' type.
        value: ElementType,
    },
}

/// A dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dim {
    /// A number.
    Fixed(usize),
    /// Any number, with a name.
    Named(String),
    /// Any number.
    Any,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(n) => write!(f, "{n}"),
            Dim::Named(name) => f.write_str(name),
            Dim::Any => f.write_str("?"),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Tensor { element, shape: None } => write!(f, "{element} of any shape"),
            ValueType::Tensor { element, shape: Some(dims) } => {
                let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
                write!(f, "{element} [{}]", dims.join(", "))
            }
            ValueType::Map { key, value } => write!(f, "map of {key} to {value}"),
            ValueType::Maps { key, value } => write!(f, "sequence of maps of {key} to {value}"),
        }
    }
}

impl ValueInfo {
    pub(crate) fn read(proto: &ValueInfoProto) -> Result<ValueInfo, Error> {
        let graph = |problem: String| Error::Graph(format!("input or output '{}': {problem}", proto.name));
        let kind = proto.r#type.as_ref().ok_or_else(|| graph("it has no type".to_owned()))?;
        Ok(ValueInfo { name: proto.name.clone(), kind: value_type(kind).map_err(graph)? })
    }

    /// Checks a value against the type.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Error> {
        let wrong = |problem: String| Error::Input { name: self.name.clone(), problem };
        match (&self.kind, value) {
            (ValueType::Tensor { element, shape }, Value::Tensor(tensor)) => {
                let given = tensor.data().element();
                if given != *element {
                    return Err(wrong(format!("its elements are {element}, not {given}")));
                }
                let fits = shape.as_ref().is_none_or(|dims| {
                    dims.len() == tensor.shape().len()
                        && dims.iter().zip(tensor.shape()).all(|(dim, &n)| match dim {
                            Dim::Fixed(fixed) => *fixed == n,
                            Dim::Named(_) | Dim::Any => true,
                        })
                });
                if fits {
                    return Ok(());
                }
                Err(wrong(format!("shape {:?} is not {}", tensor.shape(), self.kind)))
            }
            (ValueType::Map { key, value: element }, Value::Map(map)) => {
                if map.keys.element() == *key && map.values.element() == *element {
                    return Ok(());
                }
                let given = format!("map of {} to {}", map.keys.element(), map.values.element());
                Err(wrong(format!("it is a {}, not a {given}", self.kind)))
            }
            _ => Err(wrong(format!("it is a {}, not the kind of value that was given", self.kind))),
        }
    }
}

fn value_type(proto: &TypeProto) -> Result<ValueType, String> {
    match &proto.kind {
        Some(TypeKind::Tensor(tensor)) => {
            let element = ElementType::from_number(tensor.elem_type)?;
            Ok(ValueType::Tensor { element, shape: tensor.shape.as_ref().map(shape).transpose()? })
        }
        Some(TypeKind::Map(_)) => {
            let (key, value) = map_types(proto)?;
            Ok(ValueType::Map { key, value })
        }
        Some(TypeKind::Sequence(of)) => match &of.elem_type {
            Some(element) => {
                let (key, value) = map_types(element)?;
                Ok(ValueType::Maps { key, value })
            }
            None => Err("a sequence of an unstated type".to_owned()),
        },
        Some(TypeKind::Sparse(_)) => Err("sparse tensors are not supported".to_owned()),
        Some(TypeKind::Optional(_)) => Err("optional values are not supported".to_owned()),
        None => Err("it has no type".to_owned()),
    }
}

/// The types of a map's keys and values.
fn map_types(proto: &TypeProto) -> Result<(ElementType, ElementType), String> {
    let Some(TypeKind::Map(map)) = &proto.kind else {
        return Err("sequences of anything but maps are not supported".to_owned());
    };
    let key = ElementType::from_number(map.key_type)?;
    if !matches!(key, ElementType::I64 | ElementType::String) {
        return Err(format!("maps with keys of {key} are not supported"));
    }
    match map.value_type.as_ref().and_then(|value| value.kind.as_ref()) {
        Some(TypeKind::Tensor(tensor)) => Ok((key, ElementType::from_number(tensor.elem_type)?)),
        _ => Err("maps of anything but numbers and strings are not supported".to_owned()),
    }
}

fn shape(proto: &TensorShapeProto) -> Result<Vec<Dim>, String> {
    if proto.dim.len() > MAX_DIMENSIONS {
        return Err(format!("{} dimensions; the limit is {MAX_DIMENSIONS}", proto.dim.len()));
    }
    let dim = |value: &Option<DimensionValue>| match value {
        // Some exporters write -1 for a dimension that they do not know.
        Some(DimensionValue::Value(n)) => usize::try_from(*n).map_or(Dim::Any, Dim::Fixed),
        Some(DimensionValue::Param(name)) if !name.is_empty() => Dim::Named(name.clone()),
        Some(DimensionValue::Param(_)) | None => Dim::Any,
    };
    Ok(proto.dim.iter().map(|one| dim(&one.value)).collect())
}
