//! Elements of tensors as JSON, nested by dimension or flat.

use bytes::Bytes;
use serde_json::Value;

use super::tensor::{describe, elements};
use super::{Datatype, Tensor, TensorData};
use crate::error::Fault;
use crate::fields::{show, wrong};
use crate::limits;
use crate::vectors::{push_json, push_list};

/// The tensor of the elements in `data`, which stands at `param`.
pub(super) fn read(
    param: &str,
    name: &str,
    datatype: Datatype,
    shape: Vec<usize>,
    data: &Value,
) -> Result<Tensor, Fault> {
    let described = describe(name, datatype, &shape);
    let fault = |why: String| Fault::field(param, format!("{param}: the tensor {described} {why}"));
    if !datatype.has_json() {
        return Err(fault("has no form in JSON; send its elements as binary data".into()));
    }
    let count = elements(&shape).map_err(fault)?;
    let mut flat = Vec::with_capacity(count.min(limits::BODY_VALUES));
    flatten(data, &mut flat);
    if flat.len() != count {
        return Err(fault(format!("has {} elements in {param}; its shape has {count}", flat.len())));
    }
    if datatype == Datatype::Bytes {
        let text = |value: &&Value| match value {
            Value::String(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
            other => Err(wrong(param, other, "strings")),
        };
        let strings = flat.iter().map(text).collect::<Result<Vec<Bytes>, Fault>>()?;
        return Tensor::strings(name, shape, strings).map_err(fault);
    }
    let mut bytes = Vec::with_capacity(count * datatype.size().unwrap_or(1));
    for (at, value) in flat.iter().enumerate() {
        if push(&mut bytes, datatype, value).is_none() {
            return Err(fault(format!(
                "has {} at element {at}, which is no {}",
                show(value),
                datatype.name()
            )));
        }
    }
    Tensor::raw(name, datatype, shape, bytes.into()).map_err(fault)
}

/// The innermost values, in order. JSON nests at most 128 levels.
fn flatten<'a>(data: &'a Value, flat: &mut Vec<&'a Value>) {
    match data {
        Value::Array(entries) => entries.iter().for_each(|entry| flatten(entry, flat)),
        other => flat.push(other),
    }
}

/// Appends an element; none if it is not of the datatype.
fn push(out: &mut Vec<u8>, datatype: Datatype, value: &Value) -> Option<()> {
    // Python's clients send whole numbers as such, others may write 1.0.
    let signed = || value.as_i64().or_else(|| whole(value));
    let unsigned = || value.as_u64().or_else(|| whole(value).and_then(|whole| u64::try_from(whole).ok()));
    match datatype {
        Datatype::Bool => out.push(u8::from(value.as_bool()?)),
        Datatype::Uint8 => out.extend(u8::try_from(unsigned()?).ok()?.to_le_bytes()),
        Datatype::Uint16 => out.extend(u16::try_from(unsigned()?).ok()?.to_le_bytes()),
        Datatype::Uint32 => out.extend(u32::try_from(unsigned()?).ok()?.to_le_bytes()),
        Datatype::Uint64 => out.extend(unsigned()?.to_le_bytes()),
        Datatype::Int8 => out.extend(i8::try_from(signed()?).ok()?.to_le_bytes()),
        Datatype::Int16 => out.extend(i16::try_from(signed()?).ok()?.to_le_bytes()),
        Datatype::Int32 => out.extend(i32::try_from(signed()?).ok()?.to_le_bytes()),
        Datatype::Int64 => out.extend(signed()?.to_le_bytes()),
        Datatype::Fp32 => {
            #[expect(clippy::cast_possible_truncation, reason = "the number nearest to it is meant")]
            let rounded = value.as_f64()? as f32;
            out.extend(rounded.is_finite().then_some(rounded)?.to_le_bytes());
        }
        Datatype::Fp64 => out.extend(value.as_f64()?.to_le_bytes()),
        Datatype::Fp16 | Datatype::Bf16 | Datatype::Bytes => return None,
    }
    Some(())
}

/// A float that is a whole number.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15)?;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within ±9e15")]
    return Some(number as i64);
}

/// Appends the elements as a flat JSON array.
///
/// # Errors
/// Elements that JSON has no form for: half floats, floats that are not finite, bytes that are not UTF-8.
pub(super) fn write(out: &mut Vec<u8>, tensor: &Tensor) -> Result<(), Fault> {
    let refused = |what: &str| {
        let message = format!(
            "the output {} has {what}, which JSON has no form for; ask for it as binary data",
            tensor.described()
        );
        Err(Fault::field("outputs", message))
    };
    let bytes = match &tensor.data {
        TensorData::Strings(strings) => {
            if strings.iter().any(|string| std::str::from_utf8(string).is_err()) {
                return refused("strings that are not UTF-8");
            }
            let text = |string| std::str::from_utf8(string).unwrap_or_default();
            push_list(out, strings, |out, string| push_json(out, text(string)));
            return Ok(());
        }
        TensorData::Raw(bytes) => bytes,
    };
    macro_rules! list {
        ($kind:ty) => {
            push_list(out, bytes.chunks_exact(size_of::<$kind>()), |out, element| {
                push_json(out, &<$kind>::from_le_bytes(element.try_into().unwrap_or_default()));
            })
        };
    }
    macro_rules! floats {
        ($kind:ty) => {{
            let value = |element: &[u8]| <$kind>::from_le_bytes(element.try_into().unwrap_or_default());
            if bytes.chunks_exact(size_of::<$kind>()).any(|element| !value(element).is_finite()) {
                return refused("floats that are not finite");
            }
            push_list(out, bytes.chunks_exact(size_of::<$kind>()), |out, element| {
                push_json(out, &value(element))
            });
        }};
    }
    match tensor.datatype {
        Datatype::Bool => push_list(out, bytes.iter(), |out, byte| push_json(out, &(*byte != 0))),
        Datatype::Uint8 => list!(u8),
        Datatype::Uint16 => list!(u16),
        Datatype::Uint32 => list!(u32),
        Datatype::Uint64 => list!(u64),
        Datatype::Int8 => list!(i8),
        Datatype::Int16 => list!(i16),
        Datatype::Int32 => list!(i32),
        Datatype::Int64 => list!(i64),
        Datatype::Fp32 => floats!(f32),
        Datatype::Fp64 => floats!(f64),
        Datatype::Fp16 | Datatype::Bf16 | Datatype::Bytes => return refused("half floats"),
    }
    Ok(())
}
