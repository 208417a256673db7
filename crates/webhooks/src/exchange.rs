//! A request and its answer on a connection: HTTP/1.1, one exchange, bounded in what is read.

use std::future::Future;
use std::pin::{Pin, pin};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Duration, timeout};

use crate::explain::{Phase, Steps};
use crate::target::Target;

/// Bytes of an answer's body that are read.
pub const MOST_BODY_BYTES: usize = 4 << 10;
/// Bytes of an answer's head.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Lines of an answer's head.
const MOST_HEADERS: usize = 64;
/// Characters of a `Retry-After`; a date has 29.
const MOST_RETRY_AFTER_BYTES: usize = 64;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its `Retry-After`, as it came.
    pub retry_after: Option<String>,
    /// The beginning of its body, at most 4 KiB. For the owner of the endpoint only.
    pub body: Bytes,
}

/// An answer whose body is still to be read.
pub(crate) struct Opened {
    response: Response<Incoming>,
    driver: Driver,
    /// The connection ends without it.
    _sender: SendRequest<Full<Bytes>>,
}

/// The connection, which moves only while it is polled: nothing is left behind when the attempt ends.
struct Driver {
    running: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

/// The request for a message.
pub(crate) fn request(
    target: &Target,
    headers: &[(&str, String)],
    body: Bytes,
) -> Result<Request<Full<Bytes>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("the request cannot be made: {error}");
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(&target.path)
        .body(Full::new(body))
        .map_err(|error| wrong(&error))?;
    let fields = request.headers_mut();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(&error))?;
        fields.insert(name, HeaderValue::from_str(value).map_err(|error| wrong(&error))?);
    }
    let host = HeaderValue::from_str(&target.authority()).map_err(|error| wrong(&error))?;
    fields.insert(HOST, host);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("gristmill-webhooks/", env!("CARGO_PKG_VERSION"))),
    );
    fields.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

/// Sends a request and waits for the head of its answer.
pub(crate) async fn open<T>(
    stream: T,
    request: Request<Full<Bytes>>,
    headers: &[(&str, String)],
    steps: &mut Steps,
) -> Result<Opened, String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    steps.begin(Phase::Request, "");
    let mut builder = Builder::new();
    builder.max_buf_size(MOST_HEAD_BYTES).max_headers(MOST_HEADERS);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| shown(&error))?;
    let running = Box::pin(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a receiver ended");
        }
    });
    let mut driver = Driver { running, ended: false };
    let names: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    steps.pass(names.join(", "));
    steps.begin(Phase::Answer, "");
    let sent = driver.until(sender.send_request(request)).await;
    let response = sent.map_err(|error| shown(&error))?;
    steps.pass(response.status().to_string());
    Ok(Opened { response, driver, _sender: sender })
}

impl Opened {
    /// The answer, with as much of its body as comes in time. The status has decided already.
    pub(crate) async fn answer(mut self, most: Duration) -> Answer {
        let status = self.response.status().as_u16();
        let retry_after = self.response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.filter(|text| text.len() <= MOST_RETRY_AFTER_BYTES).map(str::to_owned);
        let mut body = Vec::new();
        let reading = self.driver.until(read(self.response.body_mut(), &mut body));
        // Late, broken or too long: what came is kept.
        let _ = timeout(most, reading).await;
        Answer { status, retry_after, body: Bytes::from(body) }
    }
}

impl Driver {
    /// Awaits `work` while the connection runs.
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if !self.ended {
            tokio::select! {
                done = &mut work => return done,
                () = &mut self.running => self.ended = true,
            }
        }
        work.await
    }
}

async fn read(from: &mut Incoming, body: &mut Vec<u8>) {
    while let Some(Ok(frame)) = from.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let room = MOST_BODY_BYTES - body.len();
        body.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() >= room {
            return;
        }
    }
}

/// An error with its causes, which hyper keeps apart.
fn shown(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::AddressRules;

    #[test]
    fn abuse_headers_of_the_caller_do_not_change_those_of_the_request() {
        let target = Target::parse("https://hooks.example:8443/a?b", &AddressRules::default()).unwrap();
        let headers = [("host", "127.0.0.1".to_owned()), ("connection", "keep-alive".to_owned())];
        let request = request(&target, &headers, Bytes::new()).unwrap();
        assert_eq!(request.headers()[HOST], "hooks.example:8443");
        assert_eq!(request.headers().get_all(HOST).iter().count(), 1);
        assert_eq!(request.headers()[CONNECTION], "close");
        assert_eq!(request.uri(), "/a?b");
    }

    proptest::proptest! {
        #[test]
        fn every_url_that_is_taken_makes_a_request(rest in "[ -~]{0,60}") {
            if let Ok(target) = Target::parse(&format!("https://hooks.example/{rest}"), &AddressRules::default()) {
                let request = request(&target, &[], Bytes::new()).unwrap();
                proptest::prop_assert_eq!(request.uri().to_string(), format!("/{rest}"));
            }
        }
    }
}
