//! The smallest collector: keeps the spans that are posted to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;

use crate::support::served::within;

/// A batch as it arrived.
#[derive(Clone)]
pub(super) struct Batch {
    /// The request's line and headers.
    pub(super) head: String,
    /// As it was encoded.
    pub(super) bytes: Vec<u8>,
    /// All of it is of one resource and one scope.
    pub(super) spans: ResourceSpans,
}

pub(super) struct Collector {
    pub(super) address: String,
    batches: Arc<Mutex<Vec<Batch>>>,
}

impl Collector {
    pub(super) fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let batches: Arc<Mutex<Vec<Batch>>> = Arc::default();
        let kept = batches.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                kept.lock().unwrap().push(take(stream.unwrap()));
            }
        });
        Collector { address, batches }
    }

    pub(super) fn batches(&self) -> Vec<Batch> {
        self.batches.lock().unwrap().clone()
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let scopes = self.batches().into_iter().flat_map(|batch| batch.spans.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// Waits for so many spans.
    pub(super) fn until(&self, count: usize) -> Vec<Span> {
        within(&format!("{count} spans"), || self.spans().len() >= count);
        let spans = self.spans();
        assert_eq!(spans.len(), count, "{spans:?}");
        spans
    }
}

fn take(stream: TcpStream) -> Batch {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "half a head: {head:?}");
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut bytes = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut bytes).unwrap();
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    let mut request = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
    assert_eq!(request.resource_spans.len(), 1);
    Batch { head, bytes, spans: request.resource_spans.remove(0) }
}

/// An attribute as text.
pub(super) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(shown(found.value.as_ref().unwrap()))
}

fn shown(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::ArrayValue(array) => array.values.iter().map(shown).collect::<Vec<_>>().join(","),
        other => panic!("{other:?} is no attribute of ours"),
    }
}
