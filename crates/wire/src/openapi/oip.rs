//! Schemas of the Open Inference Protocol.

use serde_json::{Value, json};

use super::parts::object;
use crate::limits;
use crate::oip::Datatype;

fn parameters() -> Value {
    json!({"type": ["object", "null"], "maxProperties": limits::TENSOR_PARAMETERS,
        "additionalProperties": {"type": ["boolean", "number", "string"]}})
}

fn name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": limits::NAME_BYTES})
}

fn datatype() -> Value {
    let names: Vec<&str> = Datatype::ALL.iter().map(|datatype| datatype.name()).collect();
    json!({"enum": names})
}

fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// The schemas, by name.
pub(super) fn schemas() -> Value {
    let shape =
        json!({"type": "array", "maxItems": limits::TENSOR_RANK, "items": {"type": "integer", "minimum": 0}});
    let data = json!({"type": "array", "description": "The elements, nested by dimension or flat."});
    let input = object(
        json!({"name": name(), "datatype": datatype(), "shape": shape, "parameters": parameters(), "data": data}),
        json!({}),
        &["name", "datatype", "shape"],
    );
    let output = object(json!({"name": name(), "parameters": parameters()}), json!({}), &["name"]);
    let id = json!({"type": ["string", "null"], "maxLength": limits::NAME_BYTES});
    let infer = json!({
        "id": id,
        "parameters": parameters(),
        "inputs": {"type": "array", "minItems": 1, "maxItems": limits::TENSORS, "items": input},
        "outputs": {"type": ["array", "null"], "maxItems": limits::TENSORS, "items": output},
    });
    let tensor = json!({"name": {"type": "string"}, "datatype": datatype(), "shape": array(json!({"type": "integer"}))});
    let spec = object(tensor.clone(), json!({}), &["name", "datatype", "shape"]);
    let given = object(tensor, json!({"data": {"type": "array"}}), &["name", "datatype", "shape"]);
    let entry = json!({"name": {"type": "string"}, "version": {"type": "string"}, "reason": {"type": "string"},
        "state": {"enum": ["READY", "UNAVAILABLE", "LOADING", "UNLOADING"]}});
    let text = json!({"type": "string"});
    let of_model = json!({"model_name": text, "model_version": text, "id": text});
    json!({
        "InferRequest": object(infer, json!({}), &["inputs"]),
        "InferResponse": object(of_model.clone(), json!({"outputs": array(given)}), &["model_name", "outputs"]),
        "TextRequest": object(json!({"text_input": text, "parameters": {"type": ["object", "null"]}, "id": id}),
            json!({}), &["text_input"]),
        "TextResponse": object(of_model, json!({"text_output": text}), &["model_name", "text_output"]),
        "ServerMetadata": object(json!({"name": text, "version": text, "extensions": array(text.clone())}), json!({}),
            &["name", "version", "extensions"]),
        "ModelMetadata": object(json!({"name": text, "versions": array(text.clone()), "platform": text,
            "inputs": array(spec.clone()), "outputs": array(spec)}), json!({}), &["name", "platform", "inputs", "outputs"]),
        "ModelReadiness": object(json!({"name": text, "ready": {"const": true}}), json!({}), &["name", "ready"]),
        "ModelConfiguration": object(json!({"name": text, "platform": text, "max_batch_size": {"type": "integer"}}),
            json!({}), &["name", "platform", "max_batch_size", "input", "output"]),
        "ModelStatistics": object(json!({"model_stats": array(json!({"type": "object"}))}), json!({}), &["model_stats"]),
        "RepositoryIndexRequest": object(json!({"ready": {"type": ["boolean", "null"]}}), json!({}), &[]),
        "RepositoryIndex": array(object(entry, json!({}), &["name", "version", "state"])),
        "RepositoryModelRequest": object(json!({"parameters": parameters()}), json!({}), &[]),
        "OipError": object(json!({"error": text}), json!({}), &["error"]),
    })
}
