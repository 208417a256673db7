//! `pipeline.toml`: the tables, the graph of steps, and its check against models that take and give anything.
//!
//! Looks for: a panic, steps in an order in which one takes what is not made yet, a run of steps on small tensors that
//! makes another number of tensors than was checked.
#![no_main]

use std::collections::HashSet;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pipeline::{Definition, Plan, Work};
use wire::oip::{Datatype, Signature, Tensor, TensorSpec};

/// A tensor of a known datatype and shape; open dimensions are 2.
fn tensor(spec: &TensorSpec) -> Option<Tensor> {
    let length = |dim: &i64| usize::try_from(*dim).unwrap_or(2);
    let shape: Vec<usize> = spec.shape.iter().map(length).collect();
    let count =
        shape.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim)).filter(|count| *count <= 4_096)?;
    match spec.datatype.size() {
        None => Tensor::strings("", shape, vec!["x".into(); count]).ok(),
        Some(size) => Tensor::raw("", spec.datatype, shape, vec![1; count * size].into()).ok(),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(definition) = Definition::parse(text, &|_| Ok("a\nb\nc\n".into())) else { return };
    let mut made: HashSet<&str> = definition.inputs.iter().map(|input| input.name.as_str()).collect();
    for step in &definition.steps {
        assert!(step.inputs.iter().all(|name| made.contains(name.as_str())));
        assert!(step.outputs.iter().all(|name| made.insert(name)));
    }
    let model = Signature {
        inputs: vec![TensorSpec::new("input_ids", Datatype::Int64, &[-1, -1]).optional()],
        outputs: vec![TensorSpec::new("out", Datatype::Fp32, &[-1, 3])],
        ..Signature::default()
    };
    let model = Arc::new(model);
    let Ok(plan) = Plan::new(definition, &|_, _| Ok(model.clone())) else { return };
    let all: Vec<usize> = (0..plan.definition.steps.len()).collect();
    assert!(plan.needed(&[]).iter().all(|at| all.contains(at)));
    // The first step, if it takes only inputs of the request.
    let step = &plan.definition.steps[0];
    let Work::Own(operation) = &step.work else { return };
    let of = |name: &String| plan.signature.inputs.iter().find(|spec| spec.name == *name).and_then(tensor);
    let Some(inputs) = step.inputs.iter().map(of).collect::<Option<Vec<_>>>() else { return };
    let taken: Vec<&Tensor> = inputs.iter().collect();
    if let Ok(outputs) = operation.run(&taken, &|| false) {
        assert_eq!(outputs.len(), step.outputs.len());
    }
});
