//! One call: what its handler knows of it, and the way from HTTP to the handler and back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response};
use httpd::body::MessageMemory;
use inference::RequestContext;
use prost::Message;
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tonic::server::{Grpc, UnaryService};
use wire::Fault;
use wire::oip::rpc::Nested;

use super::codec::Checked;
use crate::faults::status;
use crate::state::State;

/// Bytes of the message of an answer.
const ANSWER_BYTES: usize = 256 << 20;

/// A call, as its handler knows it.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) state: Arc<State>,
    pub(super) context: Arc<RequestContext>,
    /// The client's deadline, from the beginning of the call.
    pub(super) time_limit: Option<Duration>,
    /// The memory of messages that were read.
    pub(super) memory: MessageMemory,
}

impl Call {
    /// The call of a request, whose body's memory is counted from now on; `timed` bodies must come in time.
    pub(super) fn begin(state: &Arc<State>, request: Request, timed: bool) -> Result<(Call, Request), Fault> {
        state.service.open_or_reject()?;
        let context = httpd::context(&request).cloned();
        let context = context.ok_or_else(|| Fault::internal("a request without a context"))?;
        let time_limit = timeout(request.headers());
        let (request, memory) = httpd::body::counted(&state.edge, request, timed);
        Ok((Call { state: state.clone(), context, time_limit, memory }, request))
    }
}

/// The framing of a method's messages.
pub(super) fn framing<E, D>(state: &State, nested: &'static Nested) -> Grpc<Checked<E, D>>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    Grpc::new(Checked::new(nested))
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(state.edge.options.body_bytes)
        .max_encoding_message_size(ANSWER_BYTES)
}

/// A handler of one message.
struct Handler<F> {
    call: Call,
    work: F,
}

impl<D, E, F, W> UnaryService<D> for Handler<F>
where
    E: Message + 'static,
    F: FnMut(Call, D) -> W,
    W: Future<Output = Result<E, Fault>> + Send + 'static,
{
    type Response = E;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<tonic::Response<E>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<D>) -> Self::Future {
        let done = (self.work)(self.call.clone(), request.into_inner());
        Box::pin(async move { done.await.map(tonic::Response::new).map_err(|fault| status(&fault)) })
    }
}

/// Answers a call of one message with one message.
pub(super) async fn unary<E, D, F, W>(
    state: Arc<State>,
    request: Request,
    nested: &'static Nested,
    work: F,
) -> Response<tonic::body::Body>
where
    E: Message + 'static,
    D: Message + Default + 'static,
    F: FnMut(Call, D) -> W + Send,
    W: Future<Output = Result<E, Fault>> + Send + 'static,
{
    match Call::begin(&state, request, true) {
        Ok((call, request)) => framing(&state, nested).unary(Handler { call, work }, request).await,
        Err(fault) => status(&fault).into_http(),
    }
}

/// `grpc-timeout`: up to eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// A body as tonic takes it.
pub(super) type Incoming = axum::http::Request<Body>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_units() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            timeout(&headers)
        };
        assert_eq!(of("5S"), Some(Duration::from_secs(5)));
        assert_eq!(of("99999999H"), Some(Duration::from_secs(359_999_996_400)));
        assert_eq!([of("20m"), of("7u")], [Some(Duration::from_millis(20)), Some(Duration::from_micros(7))]);
        assert_eq!([of("123456789S"), of("S"), of("5"), of("-5S"), of("5Q")], [None; 5]);
    }
}
