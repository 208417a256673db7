//! Tensors as files store them: the check of shape against bytes, and their values.

use bytes::Bytes;
use half::{bf16, f16};

use crate::element::ElementType;
use crate::file::Beside;
use crate::info::MAX_DIMENSIONS;
use crate::proto::TensorProto;
use crate::value::{Data, Tensor, count};

/// The value of `data_location` for data in another file.
const EXTERNAL: i32 = 1;

/// The shape and raw bytes of a stored tensor, checked against each other; no bytes where typed fields hold the values.
struct Checked {
    element: ElementType,
    shape: Vec<usize>,
    elements: usize,
    raw: Option<Bytes>,
}

/// Checks a tensor without reading its values; returns the bytes that they take.
pub(crate) fn check(proto: &TensorProto, beside: &Beside) -> Result<u64, String> {
    // Types that have no values here may still go through another runtime, which checks their bytes itself.
    if ElementType::from_number(proto.data_type).is_err() {
        shape(&proto.dims)?;
        return Ok(proto.raw_data.as_ref().map_or(0, |raw| raw.len() as u64));
    }
    let checked = checked(proto, beside)?;
    let text: usize = proto.string_data.iter().map(|text| text.len() + size_of::<String>()).sum();
    Ok((checked.elements * checked.element.bytes() + text) as u64)
}

fn shape(dims: &[i64]) -> Result<Vec<usize>, String> {
    if dims.len() > MAX_DIMENSIONS {
        return Err(format!("it has {} dimensions; the limit is {MAX_DIMENSIONS}", dims.len()));
    }
    dims.iter().map(|&dim| usize::try_from(dim).map_err(|_| format!("its shape is {dims:?}"))).collect()
}

fn checked(proto: &TensorProto, beside: &Beside) -> Result<Checked, String> {
    let element = ElementType::from_number(proto.data_type)?;
    let shape = shape(&proto.dims)?;
    let elements = count(&shape).filter(|n| n.checked_mul(element.bytes().max(1)).is_some());
    let elements = elements.ok_or_else(|| format!("shape {shape:?} has too many elements"))?;
    let raw = if proto.data_location == EXTERNAL {
        Some(beside.window(&proto.external_data)?)
    } else {
        proto.raw_data.clone()
    };
    match &raw {
        Some(_) if element == ElementType::String => {
            return Err("strings are stored as raw bytes".to_owned());
        }
        Some(raw) if raw.len() != elements * element.bytes() => {
            return Err(format!(
                "{element} of shape {shape:?} takes {} bytes, and it has {}",
                elements * element.bytes(),
                raw.len()
            ));
        }
        Some(_) => {}
        None => {
            let stored = typed(proto, element);
            if stored != elements {
                return Err(format!(
                    "{element} of shape {shape:?} has {elements} values, and {stored} are there"
                ));
            }
        }
    }
    Ok(Checked { element, shape, elements, raw })
}

/// Number of values in the typed field of `element`.
fn typed(proto: &TensorProto, element: ElementType) -> usize {
    match element {
        ElementType::F32 => proto.float_data.len(),
        ElementType::F64 => proto.double_data.len(),
        ElementType::I64 => proto.int64_data.len(),
        ElementType::U32 | ElementType::U64 => proto.uint64_data.len(),
        ElementType::String => proto.string_data.len(),
        ElementType::F16
        | ElementType::Bf16
        | ElementType::I8
        | ElementType::I16
        | ElementType::I32
        | ElementType::U8
        | ElementType::U16
        | ElementType::Bool => proto.int32_data.len(),
    }
}

/// The tensor with its values, copied from the file.
pub(crate) fn read(proto: &TensorProto, beside: &Beside) -> Result<Tensor, String> {
    let Checked { element, shape, raw, .. } = checked(proto, beside)?;
    let data = match raw {
        Some(raw) => from_raw(&raw, element),
        None => from_typed(proto, element)?,
    };
    Tensor::new(shape, data).map_err(|mismatch| mismatch.to_string())
}

fn from_raw(raw: &[u8], element: ElementType) -> Data {
    fn each<const N: usize, T>(raw: &[u8], f: impl Fn([u8; N]) -> T) -> Vec<T> {
        raw.as_chunks::<N>().0.iter().map(|&bytes| f(bytes)).collect()
    }
    match element {
        ElementType::F32 => Data::F32(each(raw, f32::from_le_bytes)),
        ElementType::F64 => Data::F64(each(raw, f64::from_le_bytes)),
        ElementType::F16 => Data::F16(each(raw, f16::from_le_bytes)),
        ElementType::Bf16 => Data::Bf16(each(raw, bf16::from_le_bytes)),
        ElementType::I8 => Data::I8(each(raw, i8::from_le_bytes)),
        ElementType::I16 => Data::I16(each(raw, i16::from_le_bytes)),
        ElementType::I32 => Data::I32(each(raw, i32::from_le_bytes)),
        ElementType::I64 => Data::I64(each(raw, i64::from_le_bytes)),
        ElementType::U8 => Data::U8(raw.to_vec()),
        ElementType::U16 => Data::U16(each(raw, u16::from_le_bytes)),
        ElementType::U32 => Data::U32(each(raw, u32::from_le_bytes)),
        ElementType::U64 => Data::U64(each(raw, u64::from_le_bytes)),
        ElementType::Bool => Data::Bool(raw.iter().map(|&byte| byte != 0).collect()),
        // `checked` has refused it.
        ElementType::String => Data::String(Vec::new()),
    }
}

fn from_typed(proto: &TensorProto, element: ElementType) -> Result<Data, String> {
    let ints = &proto.int32_data;
    // Small types are stored as 32-bit integers, of which the low bits are the value.
    Ok(match element {
        ElementType::F32 => Data::F32(proto.float_data.clone()),
        ElementType::F64 => Data::F64(proto.double_data.clone()),
        ElementType::F16 => Data::F16(ints.iter().map(|&n| f16::from_bits(n as u16)).collect()),
        ElementType::Bf16 => Data::Bf16(ints.iter().map(|&n| bf16::from_bits(n as u16)).collect()),
        ElementType::I8 => Data::I8(ints.iter().map(|&n| n as i8).collect()),
        ElementType::I16 => Data::I16(ints.iter().map(|&n| n as i16).collect()),
        ElementType::I32 => Data::I32(ints.clone()),
        ElementType::I64 => Data::I64(proto.int64_data.clone()),
        ElementType::U8 => Data::U8(ints.iter().map(|&n| n as u8).collect()),
        ElementType::U16 => Data::U16(ints.iter().map(|&n| n as u16).collect()),
        ElementType::U32 => Data::U32(proto.uint64_data.iter().map(|&n| n as u32).collect()),
        ElementType::U64 => Data::U64(proto.uint64_data.clone()),
        ElementType::Bool => Data::Bool(ints.iter().map(|&n| n != 0).collect()),
        ElementType::String => Data::String(strings(&proto.string_data)?),
    })
}

/// Stored byte strings as texts.
pub(crate) fn strings(stored: &[Bytes]) -> Result<Vec<String>, String> {
    stored.iter().map(|bytes| text(bytes)).collect()
}

/// A stored byte string as text.
pub(crate) fn text(bytes: &[u8]) -> Result<String, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(format!("a string is not UTF-8: {}", String::from_utf8_lossy(bytes))),
    }
}
