//! The tensors that a model takes and gives, and what a request asks of them.

use inference::Infer;
use wire::Fault;
use wire::error::quote;
use wire::oip::{Datatype, Signature, Tensor, TensorSpec, show_shape};

use crate::encode::EncoderHeads;

/// What computes the models of texts.
const PLATFORM: &str = "gristmill";
/// Options of generating models that are one number or boolean, with their datatypes.
const OPTIONS: [(&str, Datatype); 13] = [
    ("max_tokens", Datatype::Int32),
    ("min_tokens", Datatype::Int32),
    ("temperature", Datatype::Fp32),
    ("top_p", Datatype::Fp32),
    ("top_k", Datatype::Int32),
    ("min_p", Datatype::Fp32),
    ("repetition_penalty", Datatype::Fp32),
    ("presence_penalty", Datatype::Fp32),
    ("frequency_penalty", Datatype::Fp32),
    ("seed", Datatype::Int64),
    ("stream", Datatype::Bool),
    ("exclude_input_in_output", Datatype::Bool),
    ("sampling_parameters", Datatype::Bytes),
];

/// The tensors that a model of texts takes and gives: an encoder with these heads, a generating model, or both.
pub(crate) fn of_texts(heads: Option<&EncoderHeads>, generates: bool) -> Signature {
    let mut signature = Signature { platform: PLATFORM.to_owned(), ..Signature::default() };
    if let Some(heads) = heads {
        add_encoder(&mut signature, heads);
    }
    if generates {
        add_generated(&mut signature);
    }
    signature
}

fn add_encoder(signature: &mut Signature, heads: &EncoderHeads) {
    let ids = |name| TensorSpec::new(name, Datatype::Int64, &[-1, -1]).optional();
    let text = |name| TensorSpec::new(name, Datatype::Bytes, &[-1]).optional();
    signature.inputs.extend([text("text"), text("text_pair")]);
    signature.inputs.extend(["input_ids", "attention_mask", "token_type_ids"].map(ids));
    if let Some(dense) = &heads.dense {
        let width = i64::try_from(dense.width).unwrap_or(-1);
        signature.outputs.push(TensorSpec::new("embedding", Datatype::Fp32, &[-1, width]));
    }
    if let Some(classifier) = &heads.classifier {
        let labels = i64::try_from(classifier.labels.len()).unwrap_or(-1);
        if heads.ranks() {
            signature.outputs.push(TensorSpec::new("score", Datatype::Fp32, &[-1]));
        } else {
            signature.outputs.push(TensorSpec::new("scores", Datatype::Fp32, &[-1, labels]));
            signature.outputs.push(TensorSpec::new("labels", Datatype::Bytes, &[labels]));
        }
    }
}

fn add_generated(signature: &mut Signature) {
    signature.inputs.push(TensorSpec::new("text_input", Datatype::Bytes, &[-1]));
    let option = |(name, datatype)| TensorSpec::new(name, datatype, &[1]).optional();
    signature.inputs.extend(OPTIONS.map(option));
    let words = |name| TensorSpec::new(name, Datatype::Bytes, &[-1]).optional();
    signature.inputs.extend(["stop", "bad_words"].map(words));
    signature.outputs.push(TensorSpec::new("text_output", Datatype::Bytes, &[-1]));
    signature.outputs.push(TensorSpec::new("finish_reason", Datatype::Bytes, &[-1]));
    signature.outputs.push(TensorSpec::new("num_input_tokens", Datatype::Uint32, &[-1]));
    signature.outputs.push(TensorSpec::new("num_output_tokens", Datatype::Uint32, &[-1]));
    signature.decoupled = true;
}

/// Checks a request against a signature.
///
/// # Errors
/// An input that is missing, not known, of another datatype or shape; an output that is not known.
pub(crate) fn check(model: &str, signature: &Signature, infer: &Infer) -> Result<(), Fault> {
    for input in &infer.inputs {
        match signature.inputs.iter().find(|spec| spec.name == input.name) {
            Some(spec) => check_input(model, spec, input)?,
            None => {
                let known = names(&signature.inputs);
                let message = format!(
                    "{} is not an input of the model {model}; its inputs are: {known}",
                    quote(&input.name)
                );
                return Err(Fault::field(input.name.clone(), message));
            }
        }
    }
    let is_missing =
        |spec: &&TensorSpec| !spec.optional && !infer.inputs.iter().any(|input| input.name == spec.name);
    if let Some(spec) = signature.inputs.iter().find(is_missing) {
        let message = format!(
            "the input {} ({}, shape {}) of the model {model} is missing",
            quote(&spec.name),
            spec.datatype.name(),
            show_shape(&spec.shape)
        );
        return Err(Fault::field(spec.name.clone(), message));
    }
    check_outputs(model, signature, &infer.outputs)
}

/// Checks that a model has these outputs.
///
/// # Errors
/// One that it does not have.
pub(crate) fn check_outputs(model: &str, signature: &Signature, outputs: &[String]) -> Result<(), Fault> {
    match outputs.iter().find(|name| !signature.outputs.iter().any(|spec| spec.name == **name)) {
        None => Ok(()),
        Some(name) => {
            let known = names(&signature.outputs);
            let message =
                format!("{} is not an output of the model {model}; its outputs are: {known}", quote(name));
            Err(Fault::field("outputs", message))
        }
    }
}

fn check_input(model: &str, spec: &TensorSpec, input: &Tensor) -> Result<(), Fault> {
    let fits = |(wanted, found): (&i64, &usize)| *wanted < 0 || usize::try_from(*wanted) == Ok(*found);
    let same_rank = spec.shape.len() == input.shape.len();
    if input.datatype == spec.datatype && same_rank && spec.shape.iter().zip(&input.shape).all(fits) {
        return Ok(());
    }
    let message = format!(
        "the input {} does not fit the model {model}, which takes {} of shape {}",
        input.described(),
        spec.datatype.name(),
        show_shape(&spec.shape)
    );
    Err(Fault::field(input.name.clone(), message))
}

fn names(specs: &[TensorSpec]) -> String {
    specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(", ")
}
