//! `ModelStreamInfer`: requests and answers in one call. A request for text may have several answers, one for each piece.
//!
//! Requests of a stream are answered one after the other. One that fails is answered with its error; the others go on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::http::Response;
use bytes::Bytes;
use inference::{Event, Generate, Operation, Output, Part};
use service::{ModelVersion, Takes};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tokio_stream::Stream;
use tonic::server::StreamingService;
use tonic::{Status, Streaming};
use wire::Fault;
use wire::oip::grpc::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use wire::oip::rpc::{INFER, request_of, response_of};
use wire::oip::{
    InferRequest, Parameter, Parameters, ResponseHead, Tensor, TextRequest, plain_name, text_request,
};

use super::call::{Call, Incoming, framing};
use super::infer::{answered, checked};
use crate::faults::status;
use crate::oip::shorter;
use crate::state::State;

/// Answers that a stream is ahead of its reader.
const AHEAD: usize = 16;
/// How long a stream stays open without a request.
const IDLE: Duration = Duration::from_secs(600);
/// Between two looks whether the server shuts down.
const TICK: Duration = Duration::from_secs(1);
/// The parameter that asks for an empty last answer, and the one that tells which answer is the last.
const WANTS_FINAL: &str = "triton_enable_empty_final_response";
const IS_FINAL: &str = "triton_final_response";

type Outbox = Sender<Result<ModelStreamInferResponse, Status>>;

/// Answers a call.
pub(super) async fn model_stream_infer(state: Arc<State>, request: Request) -> Response<tonic::body::Body> {
    let begun: Result<(Call, Incoming), Fault> = Call::begin(&state, request, false);
    match begun {
        Ok((call, request)) => framing(&state, &INFER).streaming(Handler(call), request).await,
        Err(fault) => status(&fault).into_http(),
    }
}

struct Handler(Call);

impl StreamingService<ModelInferRequest> for Handler {
    type Response = ModelStreamInferResponse;
    type ResponseStream = Answers;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Answers>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Streaming<ModelInferRequest>>) -> Self::Future {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let task = tokio::spawn(serve(self.0.clone(), request.into_inner(), sender));
        Box::pin(async move { Ok(tonic::Response::new(Answers { receiver, task })) })
    }
}

/// The answers of a stream. Dropped, what computes them ends.
struct Answers {
    receiver: Receiver<Result<ModelStreamInferResponse, Status>>,
    task: JoinHandle<()>,
}

impl Stream for Answers {
    type Item = Result<ModelStreamInferResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers the requests of a stream until it ends, the client leaves, or the server shuts down.
async fn serve(call: Call, mut requests: Streaming<ModelInferRequest>, outbox: Outbox) {
    loop {
        let message = match next(&call, &mut requests).await {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(status) => {
                // A reader that has left needs no status.
                let _ = outbox.send(Err(status)).await;
                return;
            }
        };
        let id = message.id.clone();
        let failed = match answer(&call, message, &outbox).await {
            Ok(()) => continue,
            Err(fault) => ModelStreamInferResponse {
                error_message: fault.message,
                infer_response: Some(ModelInferResponse { id, ..ModelInferResponse::default() }),
            },
        };
        if outbox.send(Ok(failed)).await.is_err() {
            return;
        }
    }
}

/// The next request of a stream; none at its end.
async fn next(
    call: &Call,
    requests: &mut Streaming<ModelInferRequest>,
) -> Result<Option<ModelInferRequest>, Status> {
    let end = Instant::now() + IDLE;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = timeout_at(end, requests.message()) => {
                return message.unwrap_or_else(|_| {
                    let seconds = IDLE.as_secs();
                    Err(Status::deadline_exceeded(format!("the stream had no request for {seconds} s")))
                });
            }
            _ = ticks.tick() => call.state.service.is_ready().map_err(|fault| status(&fault))?,
        }
    }
}

/// Answers one request.
async fn answer(call: &Call, message: ModelInferRequest, outbox: &Outbox) -> Result<(), Fault> {
    let model = checked(call, &message)?;
    let generates = call.state.can(Some(&model.name), "generate")?;
    let (bytes, memory) = call.memory.take();
    let admitted = call.state.service.admit(Takes::Texts, &call.context, bytes).await?;
    let reading = admitted.run(move |admitted, _| {
        admitted.hold(memory);
        let request = request_of(message)?;
        let is_text = generates && request.inputs.iter().any(|input| input.name == "text_input");
        let text = is_text.then(|| text_request(None, &request.inputs, &request.parameters)).transpose()?;
        Ok((request, text))
    });
    let (admitted, (request, text)) = call.state.service.counted(reading.await)?;
    let wants_final = request.parameters.boolean("parameters", WANTS_FINAL)?.unwrap_or(false);
    let id = request.id.clone();
    match text.filter(|text| text.stream) {
        Some(text) => streamed(call, &model, request, text, admitted, outbox, wants_final).await?,
        None => {
            let mut response = answered(call, model.name.clone(), request, admitted).await?;
            if wants_final {
                response = with_final(response, false);
            }
            send(outbox, response).await?;
        }
    }
    if wants_final {
        let (model, version) = (plain_name(&model.name).to_owned(), model.version.to_string());
        let head = ResponseHead { model, version, id, ..ResponseHead::default() };
        send(outbox, with_final(response_of(head, &[]), true)).await?;
    }
    Ok(())
}

/// Sends the pieces of a text as they come.
async fn streamed(
    call: &Call,
    model: &ModelVersion,
    request: InferRequest,
    text: TextRequest,
    admitted: service::Admitted,
    outbox: &Outbox,
    wants_final: bool,
) -> Result<(), Fault> {
    let mut completion = text.completion;
    completion.model = Some(model.name.clone());
    if completion.prompts.len() > 1 {
        let message = format!("text_input has {} texts; a stream has 1", completion.prompts.len());
        return Err(Fault::field("text_input", message));
    }
    let operation = Operation::Generate(Generate { field: "text_input", ..Generate::text(completion) });
    let time_limit = shorter(call.time_limit, request.timeout_us.map(Duration::from_micros));
    let asked = inference::Request { operation, context: call.context.clone(), time_limit };
    let Output::Generation(mut generation) = call.state.service.answer(asked, admitted).await? else {
        return Err(Fault::internal("an answer was asked for, and something else came"));
    };
    while !generation.is_over() {
        let (_, event) = generation.next().await?;
        let is_prompt = matches!(event, Event::Prompt(_));
        let (parts, end) = event.split();
        let mut piece = String::new();
        for part in parts {
            match part {
                Part::Content(more) | Part::Reasoning(more) => piece.push_str(&more),
                Part::Call { .. } | Part::Arguments { .. } => {}
            }
        }
        if is_prompt || (piece.is_empty() && end.is_none()) {
            continue;
        }
        let head = ResponseHead {
            model: plain_name(&generation.model).to_owned(),
            version: model.version.to_string(),
            id: request.id.clone(),
            ..ResponseHead::default()
        };
        let string = vec![Bytes::from(piece.into_bytes())];
        let tensor = Tensor::strings("text_output", vec![1], string).map_err(Fault::internal)?;
        let mut response = response_of(head, &[tensor]);
        if wants_final {
            response = with_final(response, false);
        }
        send(outbox, response).await?;
    }
    Ok(())
}

fn with_final(response: ModelInferResponse, last: bool) -> ModelInferResponse {
    let parameters = Parameters(vec![(IS_FINAL.to_owned(), Parameter::Bool(last))]);
    let told = response_of(ResponseHead { parameters, ..ResponseHead::default() }, &[]).parameters;
    ModelInferResponse { parameters: told, ..response }
}

async fn send(outbox: &Outbox, response: ModelInferResponse) -> Result<(), Fault> {
    let response = ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) };
    outbox.send(Ok(response)).await.map_err(|_| Fault::unavailable("client_left", "the client left", 1))
}
