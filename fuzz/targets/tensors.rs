//! Bodies of inference requests. Input: a letter, two bytes that say how long the JSON is, and the body; with another
//! letter, a message of gRPC.
//!
//! Looks for: a panic, an overflow, an allocation by a length that the body only states, a refusal that is not a client
//! error with one readable line, and tensors whose bytes are not those of their shapes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Fault;
use wire::oip::rpc::{INFER, check_fields, request_of};
use wire::oip::{InferRequest, ResponseHead, Tensor, elements, from_binary, push_binary, write_response};

fn check(fault: &Fault) {
    assert!((400..500).contains(&fault.status), "{fault}");
    assert!(fault.message.len() < 2_048, "{} bytes: {fault}", fault.message.len());
    assert!(!fault.message.chars().any(char::is_control), "{fault:?}");
}

fn check_tensor(tensor: &Tensor) {
    assert_eq!(elements(&tensor.shape), Ok(tensor.elements()));
    let mut bytes = Vec::new();
    push_binary(&mut bytes, tensor);
    assert_eq!(bytes.len(), tensor.byte_size());
    let again = from_binary(tensor.name.clone(), tensor.datatype, tensor.shape.clone(), bytes.into());
    assert_eq!(again.as_ref(), Ok(tensor));
}

fn check_request(request: &InferRequest) {
    request.inputs.iter().for_each(check_tensor);
    let head = ResponseHead::default();
    if let Err(fault) = write_response(&head, &request.inputs, &|name| request.is_binary(name)) {
        check(&fault);
    }
    let written = write_response(&head, &request.inputs, &|_| true);
    assert!(written.is_ok_and(|body| body.header.is_some()));
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([kind, high, low], body)) = bytes.split_first_chunk::<3>() else { return };
    let outcome = if *kind == b'g' {
        let message = bytes.get(1..).unwrap_or_default();
        if let Err(fault) = check_fields(message, &INFER) {
            return check(&fault);
        }
        let decoded = prost::Message::decode(prost::bytes::Bytes::copy_from_slice(message));
        let Ok(message) = decoded else { return };
        request_of(message)
    } else {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        InferRequest::parse(prost::bytes::Bytes::copy_from_slice(body), (*kind == b'b').then_some(length))
    };
    match outcome {
        Ok(request) => check_request(&request),
        Err(fault) => check(&fault),
    }
});
