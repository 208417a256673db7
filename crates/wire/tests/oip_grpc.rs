//! Messages of gRPC: those that Triton's own client serialized (`tools/fixtures/oip_grpc.py`), and bad ones.

use prost::Message;
use prost::bytes::Bytes;
use serde_json::Value;
use wire::oip::grpc::{self, InferInputTensor, InferTensorContents, ModelInferRequest};
use wire::oip::rpc::{FLAT, INFER, check_fields, request_of, response_of};
use wire::oip::{Datatype, ResponseHead, Tensor};

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// A message decoded and encoded again.
fn again<M: Message + Default>(bytes: &[u8]) -> Vec<u8> {
    M::decode(bytes).unwrap().encode_to_vec()
}

/// As [`again`], for a message of this name.
fn again_of(name: &str, bytes: &[u8]) -> Vec<u8> {
    match name {
        "InferParameter" => again::<grpc::InferParameter>(bytes),
        "InferTensorContents" => again::<grpc::InferTensorContents>(bytes),
        "InferInputTensor" => again::<grpc::InferInputTensor>(bytes),
        "InferRequestedOutputTensor" => again::<grpc::InferRequestedOutputTensor>(bytes),
        "ModelInferRequest" => again::<grpc::ModelInferRequest>(bytes),
        "InferOutputTensor" => again::<grpc::InferOutputTensor>(bytes),
        "ModelInferResponse" => again::<grpc::ModelInferResponse>(bytes),
        "ModelStreamInferResponse" => again::<grpc::ModelStreamInferResponse>(bytes),
        "ServerLiveRequest" => again::<grpc::ServerLiveRequest>(bytes),
        "ServerLiveResponse" => again::<grpc::ServerLiveResponse>(bytes),
        "ServerReadyRequest" => again::<grpc::ServerReadyRequest>(bytes),
        "ServerReadyResponse" => again::<grpc::ServerReadyResponse>(bytes),
        "ModelReadyRequest" => again::<grpc::ModelReadyRequest>(bytes),
        "ModelReadyResponse" => again::<grpc::ModelReadyResponse>(bytes),
        "ServerMetadataRequest" => again::<grpc::ServerMetadataRequest>(bytes),
        "ServerMetadataResponse" => again::<grpc::ServerMetadataResponse>(bytes),
        "ModelMetadataRequest" => again::<grpc::ModelMetadataRequest>(bytes),
        "TensorMetadata" => again::<grpc::TensorMetadata>(bytes),
        "ModelMetadataResponse" => again::<grpc::ModelMetadataResponse>(bytes),
        "ModelConfigRequest" => again::<grpc::ModelConfigRequest>(bytes),
        "ModelInput" => again::<grpc::ModelInput>(bytes),
        "ModelOutput" => again::<grpc::ModelOutput>(bytes),
        "ModelTransactionPolicy" => again::<grpc::ModelTransactionPolicy>(bytes),
        "ModelVersionsLatest" => again::<grpc::ModelVersionsLatest>(bytes),
        "ModelVersionsAll" => again::<grpc::ModelVersionsAll>(bytes),
        "ModelVersionsSpecific" => again::<grpc::ModelVersionsSpecific>(bytes),
        "ModelVersionPolicy" => again::<grpc::ModelVersionPolicy>(bytes),
        "ModelInstanceGroup" => again::<grpc::ModelInstanceGroup>(bytes),
        "ModelParameter" => again::<grpc::ModelParameter>(bytes),
        "ModelEnsemblingStep" => again::<grpc::ModelEnsemblingStep>(bytes),
        "ModelEnsembling" => again::<grpc::ModelEnsembling>(bytes),
        "ModelConfig" => again::<grpc::ModelConfig>(bytes),
        "ModelConfigResponse" => again::<grpc::ModelConfigResponse>(bytes),
        "ModelStatisticsRequest" => again::<grpc::ModelStatisticsRequest>(bytes),
        "StatisticDuration" => again::<grpc::StatisticDuration>(bytes),
        "InferStatistics" => again::<grpc::InferStatistics>(bytes),
        "ModelStatistics" => again::<grpc::ModelStatistics>(bytes),
        "ModelStatisticsResponse" => again::<grpc::ModelStatisticsResponse>(bytes),
        "ModelRepositoryParameter" => again::<grpc::ModelRepositoryParameter>(bytes),
        "RepositoryIndexRequest" => again::<grpc::RepositoryIndexRequest>(bytes),
        "ModelIndex" => again::<grpc::ModelIndex>(bytes),
        "RepositoryIndexResponse" => again::<grpc::RepositoryIndexResponse>(bytes),
        "RepositoryModelLoadRequest" => again::<grpc::RepositoryModelLoadRequest>(bytes),
        "RepositoryModelLoadResponse" => again::<grpc::RepositoryModelLoadResponse>(bytes),
        "RepositoryModelUnloadRequest" => again::<grpc::RepositoryModelUnloadRequest>(bytes),
        "RepositoryModelUnloadResponse" => again::<grpc::RepositoryModelUnloadResponse>(bytes),
        "SharedMemoryStatusRequest" => again::<grpc::SharedMemoryStatusRequest>(bytes),
        "SharedMemoryStatusResponse" => again::<grpc::SharedMemoryStatusResponse>(bytes),
        "SharedMemoryRegisterRequest" => again::<grpc::SharedMemoryRegisterRequest>(bytes),
        "SharedMemoryRegisterResponse" => again::<grpc::SharedMemoryRegisterResponse>(bytes),
        "SharedMemoryUnregisterRequest" => again::<grpc::SharedMemoryUnregisterRequest>(bytes),
        "SharedMemoryUnregisterResponse" => again::<grpc::SharedMemoryUnregisterResponse>(bytes),
        "TraceSettingValue" => again::<grpc::TraceSettingValue>(bytes),
        "TraceSettingRequest" => again::<grpc::TraceSettingRequest>(bytes),
        "TraceSettingResponse" => again::<grpc::TraceSettingResponse>(bytes),
        "LogSettingValue" => again::<grpc::LogSettingValue>(bytes),
        "LogSettingsRequest" => again::<grpc::LogSettingsRequest>(bytes),
        "LogSettingsResponse" => again::<grpc::LogSettingsResponse>(bytes),
        other => panic!("{other} is not known"),
    }
}

#[test]
fn messages_are_those_of_tritons_client() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("fixtures/oip_grpc.json")).unwrap();
    assert!(cases.len() > 50, "{}", cases.len());
    for case in &cases {
        let (name, bytes) = (case["message"].as_str().unwrap(), unhex(case["bytes"].as_str().unwrap()));
        assert_eq!(again_of(name, &bytes), bytes, "{name}: a field is lost or has another number or type");
        check_fields(&bytes, &FLAT).unwrap();
        check_fields(&bytes, &INFER).map_err(drop).ok();
    }
}

fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    let (name, datatype) = (name.to_owned(), datatype.to_owned());
    InferInputTensor { name, datatype, shape: shape.to_vec(), ..InferInputTensor::default() }
}

fn request(inputs: Vec<InferInputTensor>, raw: &[&'static [u8]]) -> ModelInferRequest {
    let raw_input_contents = raw.iter().copied().map(Bytes::from_static).collect();
    ModelInferRequest { inputs, raw_input_contents, ..ModelInferRequest::default() }
}

#[test]
fn elements_come_raw_or_by_type() {
    let raw = request(
        vec![input("a", "INT16", &[2]), input("b", "BYTES", &[1])],
        &[b"\x01\0\x02\0", b"\x01\0\0\0z"],
    );
    let read = request_of(raw).unwrap();
    assert_eq!(read.inputs[0].integers().unwrap(), [1, 2]);
    assert_eq!(read.inputs[1].texts().unwrap(), ["z"]);
    let contents = InferTensorContents { int_contents: vec![1, -2], ..InferTensorContents::default() };
    let typed = InferInputTensor { contents: Some(contents), ..input("a", "INT16", &[2]) };
    assert_eq!(request_of(request(vec![typed.clone()], &[])).unwrap().inputs[0].integers().unwrap(), [1, -2]);
    let wide = InferTensorContents { int_contents: vec![1, 40_000], ..InferTensorContents::default() };
    let wide = InferInputTensor { contents: Some(wide), ..input("a", "INT16", &[2]) };
    for (message, words) in [
        (request(vec![], &[]), &["at least 1"][..]),
        (
            request(vec![input("a", "INT16", &[2]), input("b", "INT8", &[1])], &[b"\0\0\0\0"]),
            &["1 entries", "2 inputs"],
        ),
        (request(vec![input("a", "FP32", &[2])], &[b"\0\0\0\0"]), &["4 bytes", "take 8"]),
        (request(vec![input("a", "FP32", &[-1])], &[b"\0\0\0\0"]), &["negative"]),
        (request(vec![input("a", "FP99", &[1])], &[b"\0\0\0\0"]), &["FP99"]),
        (request(vec![typed], &[b"\0\0\0\0"]), &["contents", "raw_input_contents"]),
        (request(vec![wide], &[]), &["40000", "INT16"]),
        (request(vec![input("a", "FP16", &[1])], &[]), &["raw_input_contents"]),
        (request(vec![input("a", "INT8", &[1]), input("a", "INT8", &[1])], &[b"\0", b"\0"]), &["before"]),
    ] {
        let fault = request_of(message).unwrap_err();
        assert_eq!(fault.status, 400, "{fault}");
        words.iter().for_each(|word| assert!(fault.message.contains(word), "{word} is not in: {fault}"));
    }
}

#[test]
fn many_small_fields_are_refused_before_they_are_decoded() {
    // An empty input: two bytes that become a struct of some 200.
    let inputs = b"\x2a\0".repeat(100_000);
    let fault = check_fields(&inputs, &INFER).unwrap_err();
    assert_eq!((fault.status, fault.code), (413, Some("body_too_complex")));
    check_fields(&b"\x2a\0".repeat(64), &INFER).unwrap();
    // The elements of a tensor are no fields, whatever they look like.
    let raw = request(vec![input("a", "INT8", &[1 << 20])], &[]);
    let raw = ModelInferRequest { raw_input_contents: vec![vec![8; 1 << 20].into()], ..raw };
    check_fields(&raw.encode_to_vec(), &INFER).unwrap();
    for broken in [&b"\x2a"[..], b"\x2a\x05\0", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x2b"] {
        assert_eq!(check_fields(broken, &INFER).unwrap_err().status, 400);
    }
}

#[test]
fn answers_have_their_elements_raw() {
    let tensor = Tensor::floats("y", vec![1, 2], &[1.0, 2.0]).unwrap();
    let head = ResponseHead {
        model: "m".into(),
        version: "1".into(),
        id: Some("i".into()),
        ..ResponseHead::default()
    };
    let answer = response_of(head, &[tensor]);
    assert_eq!(
        (answer.outputs[0].datatype.as_str(), &answer.outputs[0].shape),
        (Datatype::Fp32.name(), &vec![1, 2])
    );
    assert_eq!(answer.raw_output_contents[0], [1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat());
}
