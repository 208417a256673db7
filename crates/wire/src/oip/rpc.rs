//! Requests and answers of the protocol over gRPC: from messages to the types of all dialects, and back.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::grpc::{
    InferInputTensor, InferOutputTensor, InferParameter, InferParameterChoice, InferTensorContents,
    ModelInferRequest, ModelInferResponse,
};
use super::parameters::check_name;
use super::request::datatype_of;
use super::tensor::describe;
use super::{
    Datatype, InferRequest, OutputRequest, Parameter, Parameters, ResponseHead, Tensor, from_binary,
    push_binary,
};
use crate::error::{Fault, quote};
use crate::limits;

/// Fields of a message, counted at the places that [`check_fields`] is told of.
const MOST_FIELDS: usize = limits::TENSOR_STRINGS + 4_096;

/// Fields that are messages themselves, by number, and theirs.
pub struct Nested(&'static [(u64, Nested)]);

/// Messages without messages in them that could be many.
pub const FLAT: Nested = Nested(&[]);
/// Those of [`ModelInferRequest`]: parameters, inputs with parameters and elements, outputs with parameters.
pub const INFER: Nested =
    Nested(&[(4, FLAT), (5, Nested(&[(4, FLAT), (5, FLAT)])), (6, Nested(&[(2, FLAT)]))]);

/// Checks that a message has no more fields than are decoded: a field of two bytes may take some 200 when it is.
///
/// # Errors
/// Too many fields, or a message that breaks off.
pub fn check_fields(message: &[u8], nested: &Nested) -> Result<(), Fault> {
    let mut left = MOST_FIELDS;
    count_fields(message, nested, &mut left)
}

fn count_fields(mut bytes: &[u8], nested: &Nested, left: &mut usize) -> Result<(), Fault> {
    let broken = || Fault::body("the message is not valid protobuf");
    while !bytes.is_empty() {
        let key = varint(&mut bytes).ok_or_else(broken)?;
        *left = left.checked_sub(1).ok_or_else(|| {
            let message = format!("the message has more than {MOST_FIELDS} fields, the limit");
            Fault { status: 413, code: Some("body_too_complex"), ..Fault::body(message) }
        })?;
        let length = match key & 7 {
            0 => {
                varint(&mut bytes).ok_or_else(broken)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes).ok_or_else(broken)?).map_err(|_| broken())?,
            5 => 4,
            _ => return Err(broken()),
        };
        let (value, rest) = bytes.split_at_checked(length).ok_or_else(broken)?;
        if let Some((_, inner)) = nested.0.iter().find(|(field, _)| *field == key >> 3 && key & 7 == 2) {
            // What an entry of the list takes, beside its own fields.
            *left = left.saturating_sub(64);
            count_fields(value, inner, left)?;
        }
        bytes = rest;
    }
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 127).checked_shl(shift)?;
        if first & 128 == 0 {
            return Some(value);
        }
    }
    None
}

fn parameters_of(path: &str, map: BTreeMap<String, InferParameter>) -> Result<Parameters, Fault> {
    if map.len() > limits::TENSOR_PARAMETERS {
        return Err(crate::fields::too_many(path, map.len(), limits::TENSOR_PARAMETERS));
    }
    let value = |(name, parameter): (String, InferParameter)| {
        let value = match parameter.parameter_choice? {
            InferParameterChoice::BoolParam(value) => Parameter::Bool(value),
            InferParameterChoice::Int64Param(value) => Parameter::Int(value),
            InferParameterChoice::StringParam(value) => Parameter::Text(value),
            InferParameterChoice::DoubleParam(value) => Parameter::Float(value),
            InferParameterChoice::Uint64Param(value) => Parameter::Uint(value),
        };
        Some((name, value))
    };
    Ok(Parameters(map.into_iter().filter_map(value).collect()))
}

/// The request of a message.
///
/// # Errors
/// A field with an invalid value, or elements that are not those of the tensors.
pub fn request_of(message: ModelInferRequest) -> Result<InferRequest, Fault> {
    let ModelInferRequest { id, parameters, inputs, outputs, raw_input_contents: raw, .. } = message;
    let parameters = parameters_of("parameters", parameters)?;
    for (name, count) in [("inputs", inputs.len()), ("outputs", outputs.len())] {
        if count > limits::TENSORS {
            return Err(crate::fields::too_many(name, count, limits::TENSORS));
        }
    }
    if inputs.is_empty() {
        return Err(Fault::field("inputs", "inputs is an empty list; it must have at least 1 tensor"));
    }
    if !raw.is_empty() && raw.len() != inputs.len() {
        let message = format!(
            "raw_input_contents has {} entries; there are {} inputs, each of which must have one",
            raw.len(),
            inputs.len()
        );
        return Err(Fault::field("raw_input_contents", message));
    }
    let mut raw = raw.into_iter();
    let mut tensors: Vec<Tensor> = Vec::with_capacity(inputs.len());
    for (at, input) in inputs.into_iter().enumerate() {
        let tensor = tensor_of(&format!("inputs[{at}]"), input, raw.next())?;
        if tensors.iter().any(|known| known.name == tensor.name) {
            let message = format!("inputs[{at}].name is {}, as that of an input before", quote(&tensor.name));
            return Err(Fault::field(format!("inputs[{at}].name"), message));
        }
        tensors.push(tensor);
    }
    let mut wanted = Vec::with_capacity(outputs.len());
    for (at, output) in outputs.into_iter().enumerate() {
        let path = format!("outputs[{at}]");
        check_name(&format!("{path}.name"), &output.name)?;
        let place = format!("{path}.parameters");
        let parameters = parameters_of(&place, output.parameters)?;
        wanted.push(OutputRequest::new(&output.name, &parameters, &place)?);
    }
    if id.len() > limits::NAME_BYTES {
        let message = format!("id has {} bytes; at most {} are allowed", id.len(), limits::NAME_BYTES);
        return Err(Fault::field("id", message));
    }
    Ok(InferRequest {
        id: Some(id).filter(|id| !id.is_empty()),
        inputs: tensors,
        outputs: wanted,
        binary_output: true,
        timeout_us: parameters.count("parameters", "timeout")?.filter(|timeout| *timeout > 0),
        parameters,
    })
}

fn tensor_of(path: &str, input: InferInputTensor, raw: Option<Bytes>) -> Result<Tensor, Fault> {
    let InferInputTensor { name, datatype, shape, parameters, contents } = input;
    check_name(&format!("{path}.name"), &name)?;
    let datatype = datatype_of(&format!("{path}.datatype"), &datatype)?;
    let place = format!("{path}.parameters");
    parameters_of(&place, parameters)?.refuse_shared_memory(&place)?;
    let described = describe(&name, datatype, &shape);
    let fault = |why: String| Fault::field(path, format!("{path}: the tensor {described} {why}"));
    let dimensions = shape.iter().map(|length| usize::try_from(*length)).collect::<Result<Vec<usize>, _>>();
    let dimensions = dimensions.map_err(|_| fault("has a negative dimension".into()))?;
    let filled = contents.filter(|contents| *contents != InferTensorContents::default());
    match (raw, filled) {
        (Some(_), Some(_)) => {
            Err(fault("has contents and raw_input_contents; a request has one of both for all inputs".into()))
        }
        (Some(raw), None) => from_binary(name, datatype, dimensions, raw).map_err(fault),
        (None, contents) => {
            let contents = contents.unwrap_or_default();
            if datatype == Datatype::Bytes {
                return Tensor::strings(name, dimensions, contents.bytes_contents).map_err(fault);
            }
            let bytes = elements_of(datatype, &contents).map_err(fault)?;
            Tensor::raw(name, datatype, dimensions, bytes.into()).map_err(fault)
        }
    }
}

/// The elements of a datatype of fixed size, little-endian.
fn elements_of(datatype: Datatype, contents: &InferTensorContents) -> Result<Vec<u8>, String> {
    fn narrow<const N: usize, T: Copy + ToString>(
        values: &[T],
        datatype: Datatype,
        bytes: impl Fn(T) -> Option<[u8; N]>,
    ) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(values.len() * N);
        for (at, value) in values.iter().enumerate() {
            let refused =
                || format!("has {} at element {at}, which is no {}", value.to_string(), datatype.name());
            out.extend(bytes(*value).ok_or_else(refused)?);
        }
        Ok(out)
    }
    let InferTensorContents { int_contents: ints, uint_contents: uints, .. } = contents;
    match datatype {
        Datatype::Bool => Ok(contents.bool_contents.iter().map(|value| u8::from(*value)).collect()),
        Datatype::Int8 => narrow(ints, datatype, |n| Some(i8::try_from(n).ok()?.to_le_bytes())),
        Datatype::Int16 => narrow(ints, datatype, |n| Some(i16::try_from(n).ok()?.to_le_bytes())),
        Datatype::Int32 => narrow(ints, datatype, |n| Some(n.to_le_bytes())),
        Datatype::Int64 => narrow(&contents.int64_contents, datatype, |n| Some(n.to_le_bytes())),
        Datatype::Uint8 => narrow(uints, datatype, |n| Some(u8::try_from(n).ok()?.to_le_bytes())),
        Datatype::Uint16 => narrow(uints, datatype, |n| Some(u16::try_from(n).ok()?.to_le_bytes())),
        Datatype::Uint32 => narrow(uints, datatype, |n| Some(n.to_le_bytes())),
        Datatype::Uint64 => narrow(&contents.uint64_contents, datatype, |n| Some(n.to_le_bytes())),
        Datatype::Fp32 => narrow(&contents.fp32_contents, datatype, |n| Some(n.to_le_bytes())),
        Datatype::Fp64 => narrow(&contents.fp64_contents, datatype, |n| Some(n.to_le_bytes())),
        Datatype::Fp16 | Datatype::Bf16 => Err("has no form in contents; use raw_input_contents".to_owned()),
        Datatype::Bytes => Err("is of strings".to_owned()),
    }
}

/// The message of an answer, with the elements in `raw_output_contents`.
pub fn response_of(head: ResponseHead, outputs: &[Tensor]) -> ModelInferResponse {
    let binary = |tensor: &Tensor| {
        let mut out = Vec::with_capacity(tensor.byte_size());
        push_binary(&mut out, tensor);
        Bytes::from(out)
    };
    let described = |tensor: &Tensor| InferOutputTensor {
        name: tensor.name.clone(),
        datatype: tensor.datatype.name().to_owned(),
        shape: tensor.shape.iter().map(|length| i64::try_from(*length).unwrap_or(i64::MAX)).collect(),
        ..InferOutputTensor::default()
    };
    let parameter = |(name, value): (String, Parameter)| {
        let choice = match value {
            Parameter::Bool(value) => InferParameterChoice::BoolParam(value),
            Parameter::Int(value) => InferParameterChoice::Int64Param(value),
            Parameter::Uint(value) => InferParameterChoice::Uint64Param(value),
            Parameter::Float(value) => InferParameterChoice::DoubleParam(value),
            Parameter::Text(value) => InferParameterChoice::StringParam(value),
        };
        (name, InferParameter { parameter_choice: Some(choice) })
    };
    ModelInferResponse {
        model_name: head.model,
        model_version: head.version,
        id: head.id.unwrap_or_default(),
        parameters: head.parameters.0.into_iter().map(parameter).collect(),
        outputs: outputs.iter().map(described).collect(),
        raw_output_contents: outputs.iter().map(binary).collect(),
    }
}
