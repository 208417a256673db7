//! Images of pipelines: PNG and JPEG files, decoded and brought into one size.
//!
//! Looks for: a panic, memory beyond the limits, and a tensor that is not of the size that was asked for.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pipeline::{Definition, Work};
use wire::oip::Tensor;

/// Steps with each way to fit an image into a size.
static STEPS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let step = |options: &str| {
        let text = format!(
            "[[input]]\nname = \"x\"\ndatatype = \"BYTES\"\nshape = [-1]\n[[output]]\nname = \"y\"\n[[step]]\n\
             kind = \"image\"\ninput = \"x\"\noutput = \"y\"\nwidth = 9\nheight = 7\n{options}"
        );
        Definition::parse(&text, &|_| Err(String::new())).expect("a step")
    };
    ["", "fit = \"cover\"\nfilter = \"lanczos\"", "fit = \"contain\"\ncolor = \"gray\"\nfilter = \"nearest\""]
        .map(step)
        .into()
});

fuzz_target!(|bytes: &[u8]| {
    for definition in STEPS.iter() {
        let Work::Own(operation) = &definition.steps[0].work else { continue };
        let input = Tensor::strings("x", vec![1], vec![bytes.to_vec().into()]).expect("one string");
        if let Ok(made) = operation.run(&[&input], &|| false) {
            assert!(made[0].shape == [1, 3, 7, 9] || made[0].shape == [1, 1, 7, 9]);
        }
    }
});
