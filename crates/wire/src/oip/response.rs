//! Inference answers: JSON, with the elements of tensors in it or behind it as binary data.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Datatype, OutputRequest, Parameters, Tensor, TensorData, elements, push_binary};
use crate::error::{Fault, quote};
use crate::limits;
use crate::vectors::push_json;

/// What of an answer is not a tensor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResponseHead {
    /// The name of the model.
    pub model: String,
    /// The version of the model.
    pub version: String,
    /// The client's id of the request.
    pub id: Option<String>,
    /// Parameters of the answer.
    pub parameters: Parameters,
}

/// An answer's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseBody {
    /// The bytes: JSON, then binary data.
    pub bytes: Vec<u8>,
    /// Bytes of the JSON where binary data follows; none where all is JSON.
    pub header: Option<usize>,
}

/// Writes an answer; `binary` says which outputs are sent as binary data.
///
/// # Errors
/// An output in JSON whose elements have no form there.
pub fn write_response(
    head: &ResponseHead,
    outputs: &[Tensor],
    binary: &dyn Fn(&str) -> bool,
) -> Result<ResponseBody, Fault> {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"model_name\":");
    push_json(&mut out, &head.model);
    out.extend_from_slice(b",\"model_version\":");
    push_json(&mut out, &head.version);
    if let Some(id) = &head.id {
        out.extend_from_slice(b",\"id\":");
        push_json(&mut out, id);
    }
    if !head.parameters.0.is_empty() {
        out.extend_from_slice(b",\"parameters\":");
        push_json(&mut out, &parameters_json(&head.parameters));
    }
    out.extend_from_slice(b",\"outputs\":[");
    for (at, output) in outputs.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_output(&mut out, output, binary(&output.name))?;
    }
    out.extend_from_slice(b"]}");
    let is_binary = |output: &&Tensor| binary(&output.name);
    let header = outputs.iter().any(|output| binary(&output.name)).then_some(out.len());
    outputs.iter().filter(is_binary).for_each(|output| push_binary(&mut out, output));
    Ok(ResponseBody { bytes: out, header })
}

/// Parameters as a JSON object.
pub fn parameters_json(parameters: &Parameters) -> Value {
    parameters
        .0
        .iter()
        .map(|(name, value)| (name.clone(), value.to_json()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn write_output(out: &mut Vec<u8>, output: &Tensor, binary: bool) -> Result<(), Fault> {
    let described = json!({"name": output.name, "datatype": output.datatype.name(), "shape": output.shape});
    push_json(out, &described);
    // The object is not empty: what follows goes before its end.
    out.pop();
    if binary {
        out.extend_from_slice(b",\"parameters\":");
        push_json(out, &json!({"binary_data_size": output.byte_size()}));
    } else {
        out.extend_from_slice(b",\"data\":");
        super::elements::write(out, output)?;
    }
    out.push(b'}');
    Ok(())
}

/// The outputs as the request wants them: classes in place of tensors where it asks for them (Triton's classification
/// extension: `"score:index:label"` in BYTES, by descending score).
///
/// # Errors
/// Classes of a tensor that has no numbers to compare.
pub fn as_wanted(
    outputs: Vec<Tensor>,
    wanted: &[OutputRequest],
    labels: &dyn Fn(&str, usize) -> Option<String>,
) -> Result<Vec<Tensor>, Fault> {
    let shaped = |output: Tensor| match wanted.iter().find(|wanted| wanted.name == output.name) {
        Some(OutputRequest { classes: most @ 1.., .. }) => classes(&output, *most, labels),
        _ => Ok(output),
    };
    outputs.into_iter().map(shaped).collect()
}

/// The best classes of each row; a row is the last dimension.
fn classes(
    output: &Tensor,
    most: usize,
    labels: &dyn Fn(&str, usize) -> Option<String>,
) -> Result<Tensor, Fault> {
    let scores: Vec<f64> = match (&output.data, output.datatype) {
        (TensorData::Raw(bytes), Datatype::Fp32) => {
            let value = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().unwrap_or_default()));
            bytes.chunks_exact(4).map(value).collect()
        }
        (TensorData::Raw(bytes), Datatype::Fp64) => {
            bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default())).collect()
        }
        _ => {
            let message =
                format!("classification is for FP32 and FP64; the output is {}", output.described());
            return Err(Fault::field("classification", message));
        }
    };
    let width = output.shape.last().copied().unwrap_or(1);
    let most = most.min(width);
    let mut strings = Vec::new();
    for row in scores.chunks_exact(width.max(1)) {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        for index in order.into_iter().take(most) {
            let label = labels(&output.name, index).map_or_else(String::new, |label| format!(":{label}"));
            strings.push(Bytes::from(format!("{:.6}:{index}{label}", row[index])));
        }
    }
    let mut shape = output.shape.clone();
    match shape.last_mut() {
        Some(last) => *last = most,
        None => shape.push(1),
    }
    Tensor::strings(output.name.clone(), shape, strings).map_err(Fault::internal)
}

/// The outputs of these that are wanted, in the order of the request; all if it names none.
///
/// # Errors
/// An output that the model does not have.
pub fn selected(outputs: Vec<Tensor>, wanted: &[OutputRequest]) -> Result<Vec<Tensor>, Fault> {
    if wanted.is_empty() {
        return Ok(outputs);
    }
    let mut left: Vec<Option<Tensor>> = outputs.into_iter().map(Some).collect();
    let names = || left.iter().flatten().map(|tensor| tensor.name.clone()).collect::<Vec<_>>().join(", ");
    let known = names();
    let mut out = Vec::with_capacity(wanted.len());
    for (at, OutputRequest { name, .. }) in wanted.iter().enumerate() {
        let slot = left.iter_mut().find(|tensor| tensor.as_ref().is_some_and(|tensor| tensor.name == *name));
        match slot.and_then(Option::take) {
            Some(tensor) => out.push(tensor),
            None => {
                let message = format!("outputs[{at}].name is {}; the outputs are: {known}", quote(name));
                return Err(Fault::field(format!("outputs[{at}].name"), message));
            }
        }
    }
    Ok(out)
}

/// Checks that a tensor of an answer is within the limits.
///
/// # Errors
/// In words.
pub fn check_output(tensor: &Tensor) -> Result<(), String> {
    elements(&tensor.shape).map(drop)?;
    let (bytes, most) = (tensor.byte_size(), limits::TENSOR_BYTES);
    if bytes > most {
        return Err(format!(
            "the output {} has {bytes} bytes; at most {most} are allowed",
            tensor.described()
        ));
    }
    Ok(())
}
