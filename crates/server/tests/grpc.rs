//! The Open Inference Protocol over gRPC, and HTTP/2 beside HTTP/1.1, by a client of frames.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::client::{SendRequest, handshake};
use prost::Message;
use prost::bytes::Bytes;
use server::{KeyLimits, Keys, LoadedModel, Options};
use service::fake::{FAILS, FakeTensors};
use tokio::net::TcpStream;
use wire::oip::grpc::{
    InferInputTensor, InferParameter, InferParameterChoice, ModelInferRequest, ModelInferResponse,
    ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse,
    ModelStreamInferResponse, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
    ServerReadyRequest, ServerReadyResponse,
};

use crate::frame::{Answer, Running, options, ready, unready};

fn tensors(options: Options) -> Running {
    let running = unready(options, Duration::from_secs(5));
    let model = Arc::new(FakeTensors::default());
    running.server.ready(LoadedModel::tensor_model(vec!["org/fake".to_owned()], model), Instant::now());
    running
}

/// What a call gave: its status, its message, and the messages of its answer.
#[derive(Debug)]
struct Called {
    status: u16,
    code: i32,
    said: String,
    messages: Vec<Bytes>,
}

impl Called {
    fn one<M: Message + Default>(&self) -> M {
        assert_eq!((self.status, self.code, self.messages.len()), (200, 0, 1), "{self:?}");
        M::decode(self.messages[0].clone()).unwrap()
    }
}

async fn connect(running: &Running) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (client, connection) = handshake(stream).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

/// One call on a connection, with all messages sent at once.
async fn call(
    client: &SendRequest<Bytes>,
    method: &str,
    headers: &[(&str, &str)],
    messages: &[Vec<u8>],
) -> Called {
    let path = format!("http://127.0.0.1/inference.GRPCInferenceService/{method}");
    let mut request = axum::http::Request::post(path).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut client = client.clone().ready().await.unwrap();
    let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let all: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
    body.send_data(all.into(), true).unwrap();
    let answer = answer.await.unwrap();
    let (status, mut told) = (answer.status().as_u16(), answer.headers().clone());
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    told.extend(body.trailers().await.unwrap().unwrap_or_default());
    let text = |name: &str| told.get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut messages = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        messages.push(Bytes::copy_from_slice(&after[..length]));
        rest = &after[length..];
    }
    let code = text("grpc-status").map_or(-1, |code| code.parse().unwrap());
    Called { status, code, said: text("grpc-message").unwrap_or_default(), messages }
}

fn numbers(model: &str, id: &str, values: [f32; 3]) -> Vec<u8> {
    let input = InferInputTensor {
        name: "numbers".into(),
        datatype: "FP32".into(),
        shape: vec![1, 3],
        ..InferInputTensor::default()
    };
    let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (model_name, id) = (model.to_owned(), id.to_owned());
    let message = ModelInferRequest {
        model_name,
        id,
        inputs: vec![input],
        raw_input_contents: vec![raw.into()],
        ..ModelInferRequest::default()
    };
    message.encode_to_vec()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

#[test]
fn tensors_over_grpc() {
    let running = tensors(options());
    run(async {
        let client = connect(&running).await;
        let answer = call(&client, "ModelInfer", &[], &[numbers("org/fake", "mine", [1.0, 2.0, 3.0])]).await;
        let answer: ModelInferResponse = answer.one();
        assert_eq!((answer.model_name.as_str(), answer.id.as_str()), ("org/fake", "mine"));
        let doubles: Vec<u8> = [2.0_f32, 4.0, 6.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(answer.raw_output_contents, [Bytes::from(doubles)]);
        for (message, code, words) in [
            (numbers("nobody", "", [0.0; 3]), 5, "nobody"),
            (numbers("a/../b", "", [0.0; 3]), 3, ".."),
            (numbers("org/fake", "", [FAILS; 3]), 3, "refused"),
            (b"\x2a\x05\0".to_vec(), 3, "protobuf"),
            (b"\x2a\0".repeat(100_000), 8, "fields"),
        ] {
            let refused = call(&client, "ModelInfer", &[], &[message]).await;
            assert_eq!((refused.status, refused.code), (200, code), "{refused:?}");
            assert!(refused.said.contains(words), "{refused:?}");
        }
        let unknown = call(&client, "Nothing", &[], &[Vec::new()]).await;
        assert_eq!(unknown.code, 12, "{unknown:?}");
        let stats = ModelStatisticsRequest::default().encode_to_vec();
        let stats: ModelStatisticsResponse = call(&client, "ModelStatistics", &[], &[stats]).await.one();
        assert_eq!(stats.model_stats[0].inference_count, 1);
        let model = ModelReadyRequest { name: "org/fake".into(), ..ModelReadyRequest::default() };
        let is_ready = call(&client, "ModelReady", &[], &[model.encode_to_vec()]).await;
        assert!(is_ready.one::<ModelReadyResponse>().ready);
        let index = RepositoryIndexRequest::default().encode_to_vec();
        let index: RepositoryIndexResponse = call(&client, "RepositoryIndex", &[], &[index]).await.one();
        assert_eq!((index.models[0].name.as_str(), index.models[0].state.as_str()), ("org/fake", "READY"));
        let load = RepositoryModelLoadRequest {
            model_name: "org/fake".into(),
            parameters: BTreeMap::from([("config".to_owned(), Default::default())]),
            ..RepositoryModelLoadRequest::default()
        };
        let refused = call(&client, "RepositoryModelLoad", &[], &[load.encode_to_vec()]).await;
        assert!(refused.code == 3 && refused.said.contains("config"), "{refused:?}");
    });
}

#[test]
fn requests_of_a_stream_are_answered_in_their_order() {
    let running = tensors(options());
    run(async {
        let client = connect(&running).await;
        let good = |id: &str| numbers("org/fake", id, [1.0, 2.0, 3.0]);
        let messages = [good("a"), numbers("nobody", "b", [0.0; 3]), good("c")];
        let called = call(&client, "ModelStreamInfer", &[], &messages).await;
        assert_eq!((called.code, called.messages.len()), (0, 3), "{called:?}");
        let answers =
            called.messages.iter().map(|bytes| ModelStreamInferResponse::decode(bytes.clone()).unwrap());
        let answers: Vec<(String, bool)> = answers
            .map(|answer| {
                let failed = answer.error_message.contains("nobody");
                assert_eq!(answer.error_message.is_empty(), !failed);
                (answer.infer_response.unwrap().id, failed)
            })
            .collect();
        assert_eq!(answers, [("a".to_owned(), false), ("b".to_owned(), true), ("c".to_owned(), false)]);
    });
}

#[test]
fn text_is_streamed_in_pieces() {
    let running = ready(options(), Duration::ZERO);
    let whole = running.completion(serde_json::json!({"max_tokens": 6})).json()["choices"][0]["text"].clone();
    let parameter = |choice| InferParameter { parameter_choice: Some(choice) };
    let input = InferInputTensor {
        name: "text_input".into(),
        datatype: "BYTES".into(),
        shape: vec![1],
        ..InferInputTensor::default()
    };
    let message = ModelInferRequest {
        model_name: "tiny".into(),
        inputs: vec![input],
        raw_input_contents: vec![Bytes::from_static(b"\x05\0\0\0hello")],
        parameters: BTreeMap::from([
            ("stream".to_owned(), parameter(InferParameterChoice::BoolParam(true))),
            ("max_tokens".to_owned(), parameter(InferParameterChoice::Int64Param(6))),
            ("temperature".to_owned(), parameter(InferParameterChoice::DoubleParam(0.0))),
            (
                "triton_enable_empty_final_response".to_owned(),
                parameter(InferParameterChoice::BoolParam(true)),
            ),
        ]),
        ..ModelInferRequest::default()
    };
    run(async {
        let client = connect(&running).await;
        let called = call(&client, "ModelStreamInfer", &[], &[message.encode_to_vec()]).await;
        let answers =
            called.messages.iter().map(|bytes| ModelStreamInferResponse::decode(bytes.clone()).unwrap());
        let answers: Vec<ModelInferResponse> = answers.map(|answer| answer.infer_response.unwrap()).collect();
        let (last, pieces) = answers.split_last().unwrap();
        assert!(last.outputs.is_empty() && pieces.len() > 3, "{answers:?}");
        let is_final = |answer: &ModelInferResponse| {
            answer.parameters["triton_final_response"].parameter_choice
                == Some(InferParameterChoice::BoolParam(true))
        };
        assert!(is_final(last) && !pieces.iter().any(is_final));
        let text: Vec<u8> =
            pieces.iter().flat_map(|piece| piece.raw_output_contents[0][4..].to_vec()).collect();
        assert_eq!(String::from_utf8(text).unwrap(), whole.as_str().unwrap());
    });
}

#[test]
fn keys_open_grpc_too_and_probes_need_none() {
    let mut keys = Keys::new(KeyLimits::default());
    keys.add("secret").unwrap();
    let mut options = options();
    options.http.keys = keys;
    let running = tensors(options);
    run(async {
        let client = connect(&running).await;
        let infer = [numbers("org/fake", "", [1.0, 2.0, 3.0])];
        let refused = call(&client, "ModelInfer", &[], &infer).await;
        assert_eq!((refused.code, refused.messages.len()), (16, 0), "{refused:?}");
        let key = [("authorization", "Bearer secret")];
        call(&client, "ModelInfer", &key, &infer).await.one::<ModelInferResponse>();
        let probe = call(&client, "ServerReady", &[], &[ServerReadyRequest {}.encode_to_vec()]).await;
        assert!(probe.one::<ServerReadyResponse>().ready);
    });
}

/// All of the API is there over HTTP/2, with the checks of its heads.
#[test]
fn http2_serves_all_routes() {
    let running = tensors(options());
    let get = async |client: &SendRequest<Bytes>, request: axum::http::request::Builder| {
        let mut client = client.clone().ready().await.unwrap();
        let (answer, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
        answer.await.unwrap().status().as_u16()
    };
    run(async {
        let client = connect(&running).await;
        let to = |url: &str| axum::http::Request::get(url);
        assert_eq!(get(&client, to("http://127.0.0.1/v1/models")).await, 200);
        assert_eq!(get(&client, to("http://evil.example/v1/models")).await, 421);
        assert_eq!(get(&client, to("http://127.0.0.1/v1/models").header("host", "evil.example")).await, 400);
        let many = (0..120)
            .fold(to("http://127.0.0.1/v1/models"), |request, at| request.header(format!("x-{at}"), "1"));
        assert_eq!(get(&client, many).await, 431);
        assert_eq!(get(&client, to("http://127.0.0.1/v2/health/ready")).await, 200, "the connection goes on");
    });
    // gRPC over HTTP/1 says what it needs.
    let headers = [("content-type", "application/grpc")];
    let answer = running.send("POST", "/inference.GRPCInferenceService/ServerLive", &headers, b"");
    assert!(answer.status == 400 && answer.body.contains("HTTP/2"), "{answer:?}");
}

#[test]
fn a_drain_ends_connections_of_http2() {
    let mut running = tensors(options());
    run(async {
        let client = connect(&running).await;
        call(&client, "ServerReady", &[], &[ServerReadyRequest {}.encode_to_vec()]).await;
        running.stop();
        let gone = async {
            while let Ok(client) = client.clone().ready().await {
                drop(client);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    });
    assert_eq!(running.join(), 0, "connections that had to be cut");
}

#[test]
fn a_preface_that_does_not_come_is_not_waited_for() {
    let mut options = options();
    options.http.head_timeout = Duration::from_millis(200);
    let running = tensors(options);
    for start in [&b""[..], b"PRI * HT"] {
        let mut stream = running.connect();
        stream.write_all(start).unwrap();
        let mut rest = Vec::new();
        // The server ends it; the client's own limit is 20 s.
        let read = std::io::Read::read_to_end(&mut stream, &mut rest);
        assert!(read.is_ok() || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
        assert!(rest.is_empty());
    }
    // What begins like the preface and is none is a request of HTTP/1.
    let mut stream = running.connect();
    stream.write_all(b"PRIME / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let answer = Answer::read(&mut stream);
    assert!([404, 405, 501].contains(&answer.status), "{answer:?}");
}
