//! Inference requests: JSON, with the elements of tensors in it or behind it as binary data.

use bytes::Bytes;
use serde_json::Value;

use super::parameters::check_name;
use super::tensor::{describe, from_binary};
use super::{Datatype, Parameters, Tensor, elements};
use crate::error::{Fault, quote};
use crate::fields::{self, Fields};
use crate::{json, limits, scan};

/// An inference request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InferRequest {
    /// The client's id of the request, which the answer repeats.
    pub id: Option<String>,
    /// Parameters of the request.
    pub parameters: Parameters,
    /// The inputs.
    pub inputs: Vec<Tensor>,
    /// The outputs that are wanted; empty is all.
    pub outputs: Vec<OutputRequest>,
    /// Whether outputs that say nothing else are sent as binary data.
    pub binary_output: bool,
    /// Microseconds after which an unfinished request fails.
    pub timeout_us: Option<u64>,
}

/// An output that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputRequest {
    /// The name.
    pub name: String,
    /// Whether it is sent as binary data; none is as the request says.
    pub binary: Option<bool>,
    /// The number of classes to send in its place, by descending score; 0 sends the tensor.
    pub classes: usize,
}

impl InferRequest {
    /// Reads a body, of which the first `header` bytes are JSON; without a header all of it is. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, a field with an invalid value, or binary data that is not that of the tensors.
    pub fn parse(body: Bytes, header: Option<usize>) -> Result<InferRequest, Fault> {
        let length = header.unwrap_or(body.len());
        if length > body.len() {
            let message =
                format!("inference-header-content-length is {length}; the body has {} bytes", body.len());
            return Err(Fault::field("inference-header-content-length", message));
        }
        let mut binary = body;
        let text = binary.split_to(length);
        if text.is_empty() && !binary.is_empty() {
            let message = "inference-header-content-length is 0; requests without JSON are not supported";
            return Err(Fault::unsupported("inference-header-content-length", message));
        }
        scan::values(&text)?;
        let value = json::read(&text)?;
        InferRequest::read(&Fields::body(&value)?, binary)
    }

    fn read(body: &Fields<'_>, mut binary: Bytes) -> Result<InferRequest, Fault> {
        let parameters = Parameters::read(body)?;
        let whole = binary.len();
        let inputs = body.list("inputs", limits::TENSORS)?.ok_or_else(|| Fault::missing("inputs"))?;
        if inputs.is_empty() {
            return Err(Fault::field("inputs", "inputs is an empty list; it must have at least 1 tensor"));
        }
        let mut tensors: Vec<Tensor> = Vec::with_capacity(inputs.len());
        for (at, input) in inputs.iter().enumerate() {
            let param = format!("inputs[{at}]");
            let tensor = read_input(&Fields::at(input, param.clone())?, &param, &mut binary, whole)?;
            if tensors.iter().any(|known| known.name == tensor.name) {
                let message = format!("{param}.name is {}, as that of an input before", quote(&tensor.name));
                return Err(Fault::field(format!("{param}.name"), message));
            }
            tensors.push(tensor);
        }
        if !binary.is_empty() {
            let used = whole - binary.len();
            let message = format!("the body has {whole} bytes of binary data; its inputs take {used}");
            return Err(Fault::body(message));
        }
        Ok(InferRequest {
            id: body.text("id", limits::NAME_BYTES)?.filter(|id| !id.is_empty()).map(str::to_owned),
            inputs: tensors,
            outputs: read_outputs(body)?,
            binary_output: parameters.boolean("parameters", "binary_data_output")?.unwrap_or(false),
            timeout_us: parameters.count("parameters", "timeout")?.filter(|timeout| *timeout > 0),
            parameters,
        })
    }

    /// Whether an output is sent as binary data.
    pub fn is_binary(&self, output: &str) -> bool {
        let wanted = self.outputs.iter().find(|wanted| wanted.name == output);
        wanted.and_then(|wanted| wanted.binary).unwrap_or(self.binary_output)
    }
}

fn read_input(input: &Fields<'_>, param: &str, binary: &mut Bytes, whole: usize) -> Result<Tensor, Fault> {
    let (name, datatype) = (required(input, "name")?, required(input, "datatype")?);
    check_name(&input.param("name"), name)?;
    let datatype = datatype_of(&input.param("datatype"), datatype)?;
    let shape =
        input.list("shape", limits::TENSOR_RANK)?.ok_or_else(|| Fault::missing(input.param("shape")))?;
    let dimension = |(at, value)| {
        let param = format!("{}[{at}]", input.param("shape"));
        fields::integer(&param, value, 0..=i64::MAX).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    };
    let shape = shape.iter().enumerate().map(dimension).collect::<Result<Vec<usize>, Fault>>()?;
    let parameters = Parameters::read(input)?;
    let place = input.param("parameters");
    parameters.refuse_shared_memory(&place)?;
    let described = describe(name, datatype, &shape);
    let fault = |why: String| Fault::field(param, format!("{param}: the tensor {described} {why}"));
    elements(&shape).map_err(fault)?;
    let size = parameters.count(&place, "binary_data_size")?;
    match (input.get("data"), size) {
        (Some(_), Some(_)) => {
            Err(fault("has data in JSON and a binary_data_size; it must have one of both".into()))
        }
        (None, None) => Err(fault("has no data; it must have data or parameters.binary_data_size".into())),
        (Some(data), None) => super::elements::read(&input.param("data"), name, datatype, shape, data),
        (None, Some(size)) => {
            let left = binary.len();
            let Some(size) = usize::try_from(size).ok().filter(|size| *size <= left) else {
                return Err(fault(format!(
                    "has binary_data_size {size}; {left} bytes are left of the {whole} behind the JSON"
                )));
            };
            from_binary(name, datatype, shape, binary.split_to(size)).map_err(fault)
        }
    }
}

fn required<'a>(input: &Fields<'a>, name: &str) -> Result<&'a str, Fault> {
    input.text(name, usize::MAX)?.ok_or_else(|| Fault::missing(input.param(name)))
}

/// The datatype of this name, which stands at `param`.
pub(super) fn datatype_of(param: &str, name: &str) -> Result<Datatype, Fault> {
    Datatype::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Datatype::ALL.iter().map(|datatype| datatype.name()).collect();
        Fault::field(param, format!("{param} is {}; it must be one of {}", quote(name), known.join(", ")))
    })
}

fn read_outputs(body: &Fields<'_>) -> Result<Vec<OutputRequest>, Fault> {
    let outputs = body.list("outputs", limits::TENSORS)?.unwrap_or_default();
    let read = |(at, output): (usize, &Value)| {
        let output = Fields::at(output, format!("outputs[{at}]"))?;
        let name = required(&output, "name")?;
        check_name(&output.param("name"), name)?;
        let parameters = Parameters::read(&output)?;
        OutputRequest::new(name, &parameters, &output.param("parameters"))
    };
    outputs.iter().enumerate().map(read).collect()
}

impl OutputRequest {
    /// The output of this name, as its parameters say, which stand at `path`.
    ///
    /// # Errors
    /// Shared memory, or a parameter with an invalid value.
    pub fn new(name: &str, parameters: &Parameters, path: &str) -> Result<OutputRequest, Fault> {
        parameters.refuse_shared_memory(path)?;
        let classes = parameters.count(path, "classification")?.unwrap_or_default();
        Ok(OutputRequest {
            name: name.to_owned(),
            binary: parameters.boolean(path, "binary_data")?,
            classes: usize::try_from(classes).unwrap_or(usize::MAX),
        })
    }
}
