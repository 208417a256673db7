//! Tensors of requests as values of ONNX, and back.

use bytes::Bytes;
use onnx::{Data, ElementType, Value};
use wire::Fault;
use wire::oip::{Datatype, Tensor, TensorData};

/// The datatype of an element type.
pub(super) fn datatype(element: ElementType) -> Datatype {
    match element {
        ElementType::F32 => Datatype::Fp32,
        ElementType::F64 => Datatype::Fp64,
        ElementType::F16 => Datatype::Fp16,
        ElementType::Bf16 => Datatype::Bf16,
        ElementType::I8 => Datatype::Int8,
        ElementType::I16 => Datatype::Int16,
        ElementType::I32 => Datatype::Int32,
        ElementType::I64 => Datatype::Int64,
        ElementType::U8 => Datatype::Uint8,
        ElementType::U16 => Datatype::Uint16,
        ElementType::U32 => Datatype::Uint32,
        ElementType::U64 => Datatype::Uint64,
        ElementType::Bool => Datatype::Bool,
        ElementType::String => Datatype::Bytes,
    }
}

/// The elements of little-endian bytes.
fn numbers<const N: usize, T>(bytes: &Bytes, number: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect()
}

/// The value of a request's tensor.
///
/// # Errors
/// Strings that are not UTF-8; names the tensor.
pub(super) fn read(tensor: &Tensor) -> Result<Value, Fault> {
    let data = match &tensor.data {
        TensorData::Strings(_) => Data::String(tensor.texts()?.into_iter().map(str::to_owned).collect()),
        TensorData::Raw(bytes) => match tensor.datatype {
            Datatype::Bool => Data::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
            Datatype::Uint8 => Data::U8(bytes.to_vec()),
            Datatype::Uint16 => Data::U16(numbers(bytes, u16::from_le_bytes)),
            Datatype::Uint32 => Data::U32(numbers(bytes, u32::from_le_bytes)),
            Datatype::Uint64 => Data::U64(numbers(bytes, u64::from_le_bytes)),
            Datatype::Int8 => Data::I8(numbers(bytes, i8::from_le_bytes)),
            Datatype::Int16 => Data::I16(numbers(bytes, i16::from_le_bytes)),
            Datatype::Int32 => Data::I32(numbers(bytes, i32::from_le_bytes)),
            Datatype::Int64 => Data::I64(numbers(bytes, i64::from_le_bytes)),
            Datatype::Fp16 => Data::F16(numbers(bytes, half::f16::from_le_bytes)),
            Datatype::Bf16 => Data::Bf16(numbers(bytes, half::bf16::from_le_bytes)),
            Datatype::Fp32 => Data::F32(numbers(bytes, f32::from_le_bytes)),
            Datatype::Fp64 => Data::F64(numbers(bytes, f64::from_le_bytes)),
            Datatype::Bytes => Data::String(Vec::new()),
        },
    };
    let made = onnx::Tensor::new(tensor.shape.clone(), data);
    made.map(Value::Tensor).map_err(|error| Fault::field(tensor.name.clone(), error.to_string()))
}

/// The tensor of an output. A sequence of maps is a row for each, its values in the order of their keys.
///
/// # Errors
/// In words: maps of different keys, or a shape beyond the limits.
pub(super) fn write(name: &str, value: Value) -> Result<Tensor, String> {
    match value {
        Value::Tensor(tensor) => {
            let (shape, data) = tensor.into_parts();
            of(name, shape, data)
        }
        Value::Map(map) => of(name, vec![map.values.len()], map.values),
        Value::Maps(maps) => {
            let width = maps.first().map_or(0, |map| map.values.len());
            if maps.iter().any(|map| map.values.len() != width) {
                return Err(format!("output '{name}': its maps have different keys"));
            }
            let shape = vec![maps.len(), width];
            let mut rows = maps.into_iter().map(|map| map.values);
            let Some(mut all) = rows.next() else { return of(name, shape, Data::F32(Vec::new())) };
            rows.try_for_each(|row| append(&mut all, row))
                .map_err(|why| format!("output '{name}': {why}"))?;
            of(name, shape, all)
        }
    }
}

fn append(all: &mut Data, row: Data) -> Result<(), String> {
    match (all, row) {
        (Data::F32(all), Data::F32(row)) => all.extend(row),
        (Data::F64(all), Data::F64(row)) => all.extend(row),
        (Data::I64(all), Data::I64(row)) => all.extend(row),
        (Data::String(all), Data::String(row)) => all.extend(row),
        (all, row) => return Err(format!("maps of {} and {}", all.element(), row.element())),
    }
    Ok(())
}

fn of(name: &str, shape: Vec<usize>, data: Data) -> Result<Tensor, String> {
    fn bytes<const N: usize, T: Copy>(all: &[T], number: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        all.iter().flat_map(|value| number(*value)).collect()
    }
    let datatype = datatype(data.element());
    let raw = match data {
        Data::String(strings) => {
            return Tensor::strings(name, shape, strings.into_iter().map(Bytes::from).collect());
        }
        Data::Bool(all) => all.into_iter().map(u8::from).collect(),
        Data::U8(all) => all,
        Data::U16(all) => bytes(&all, u16::to_le_bytes),
        Data::U32(all) => bytes(&all, u32::to_le_bytes),
        Data::U64(all) => bytes(&all, u64::to_le_bytes),
        Data::I8(all) => bytes(&all, i8::to_le_bytes),
        Data::I16(all) => bytes(&all, i16::to_le_bytes),
        Data::I32(all) => bytes(&all, i32::to_le_bytes),
        Data::I64(all) => bytes(&all, i64::to_le_bytes),
        Data::F16(all) => bytes(&all, half::f16::to_le_bytes),
        Data::Bf16(all) => bytes(&all, half::bf16::to_le_bytes),
        Data::F32(all) => bytes(&all, f32::to_le_bytes),
        Data::F64(all) => bytes(&all, f64::to_le_bytes),
    };
    Tensor::raw(name, datatype, shape, raw.into()).map_err(|why| format!("output '{name}' {why}"))
}
