//! The Open Inference Protocol over gRPC: `inference.GRPCInferenceService`, behind the same layers as all other routes.
//!
//! Deliberately absent: shared memory, compression of answers.

mod call;
mod codec;
mod config;
mod infer;
mod manage;
mod stream;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{Version, header};
use axum::response::Response;
use wire::Fault;
use wire::oip::rpc::{FLAT, INFER};

use crate::faults;
use crate::state::State;
use call::unary;

/// `POST /inference.GRPCInferenceService/METHOD`.
pub(crate) async fn serve(
    Shared(state): Shared<Arc<State>>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    if request.version() != Version::HTTP_2 {
        return httpd::respond(&Fault::body("gRPC is spoken over HTTP/2; this request came over HTTP/1"));
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
        return faults::grpc(&Fault::media_type(kind));
    }
    let answered = match method.as_str() {
        "ServerLive" => unary(state, request, &FLAT, manage::server_live).await,
        "ServerReady" => unary(state, request, &FLAT, manage::server_ready).await,
        "ModelReady" => unary(state, request, &FLAT, manage::model_ready).await,
        "ServerMetadata" => unary(state, request, &FLAT, manage::server_metadata).await,
        "ModelMetadata" => unary(state, request, &FLAT, manage::model_metadata).await,
        "ModelConfig" => unary(state, request, &FLAT, config::model_config).await,
        "ModelStatistics" => unary(state, request, &FLAT, manage::model_statistics).await,
        "ModelInfer" => unary(state, request, &INFER, infer::model_infer).await,
        "ModelStreamInfer" => stream::model_stream_infer(state, request).await,
        "RepositoryIndex" => unary(state, request, &FLAT, manage::repository_index).await,
        "RepositoryModelLoad" => unary(state, request, &FLAT, manage::load).await,
        "RepositoryModelUnload" => unary(state, request, &FLAT, manage::unload).await,
        "SystemSharedMemoryStatus" | "CudaSharedMemoryStatus" => {
            unary(state, request, &FLAT, manage::memory_status).await
        }
        "SystemSharedMemoryRegister" | "CudaSharedMemoryRegister" => {
            unary(state, request, &FLAT, manage::memory_register).await
        }
        "SystemSharedMemoryUnregister" | "CudaSharedMemoryUnregister" => {
            unary(state, request, &FLAT, manage::memory_unregister).await
        }
        "TraceSetting" => unary(state, request, &FLAT, manage::trace_setting).await,
        "LogSettings" => unary(state, request, &FLAT, manage::log_settings).await,
        other => {
            let name = wire::error::quote(other);
            let message = format!("inference.GRPCInferenceService has no method {name}");
            return tonic::Status::unimplemented(message).into_http::<tonic::body::Body>().map(Body::new);
        }
    };
    answered.map(Body::new)
}
