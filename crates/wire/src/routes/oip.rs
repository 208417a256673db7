//! Routes of the Open Inference Protocol, version 2. Of two that match a path, the first counts.

use super::route::{ErrorFormat, GET, POST, PROBE, ResponseMode, Route};

/// Path of the protocol's liveness probe.
pub const LIVE: &str = "/v2/health/live";
/// Path of the protocol's readiness probe.
pub const READY: &str = "/v2/health/ready";
/// Paths of the probes over gRPC.
pub const GRPC_LIVE: &str = "/inference.GRPCInferenceService/ServerLive";
/// The readiness probe over gRPC.
pub const GRPC_READY: &str = "/inference.GRPCInferenceService/ServerReady";

const LOOK: Route = Route { tag: Some("inference"), shape: ErrorFormat::Oip, ..GET };
const ASK: Route = Route { tag: Some("inference"), shape: ErrorFormat::Oip, ..POST };
/// What is there for clients that ask, and told by the manual only.
const ASIDE: Route = Route { shape: ErrorFormat::Oip, ..PROBE };
const INFER: Route = Route {
    summary: "Computes the outputs of a model for input tensors.",
    answers: "The output tensors.",
    request: Some("InferRequest"),
    answer: "InferResponse",
    ..ASK
};
const GENERATE: Route = Route {
    summary: "Generates a continuation of a text (Triton).",
    answers: "The continuation.",
    request: Some("TextRequest"),
    answer: "TextResponse",
    ..ASK
};
const STREAM: Route = Route {
    summary: "Streams a continuation of a text (Triton).",
    answers: "An event for each piece of text.",
    sent: ResponseMode::Streamed,
    ..GENERATE
};
const METADATA: Route = Route {
    summary: "Describes the inputs and outputs of a model.",
    answers: "The names, datatypes and shapes of its tensors.",
    answer: "ModelMetadata",
    ..LOOK
};
const READINESS: Route = Route {
    summary: "Tells whether a model is loaded and answers.",
    answers: "The model is ready.",
    answer: "ModelReadiness",
    ..LOOK
};
const CONFIG: Route = Route {
    summary: "Tells the configuration of a model (Triton).",
    answers: "The configuration.",
    answer: "ModelConfiguration",
    ..LOOK
};
const STATISTICS: Route = Route {
    summary: "Tells what models have done since the start (Triton).",
    answers: "Counts and times.",
    answer: "ModelStatistics",
    ..LOOK
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/v2",
        id: "oipServer",
        summary: "Describes the server.",
        answers: "Its name, version and extensions of the protocol.",
        answer: "ServerMetadata",
        ..LOOK
    },
    Route { path: LIVE, id: "oipLive", ..ASIDE },
    Route { path: READY, id: "oipReady", ..ASIDE },
    Route { path: "/v2/models/stats", id: "oipAllStatistics", ..STATISTICS },
    Route {
        path: "/v2/models/{*id}/versions/{version}/infer",
        label: "/v2/models/{id}/versions/{version}/infer",
        id: "oipInferVersion",
        ..INFER
    },
    Route {
        path: "/v2/models/{*id}/versions/{version}/generate",
        label: "/v2/models/{id}/versions/{version}/generate",
        id: "oipGenerateVersion",
        ..GENERATE
    },
    Route {
        path: "/v2/models/{*id}/versions/{version}/generate_stream",
        label: "/v2/models/{id}/versions/{version}/generate_stream",
        id: "oipStreamVersion",
        ..STREAM
    },
    Route {
        path: "/v2/models/{*id}/versions/{version}/ready",
        label: "/v2/models/{id}/versions/{version}/ready",
        id: "oipModelReadyVersion",
        ..READINESS
    },
    Route {
        path: "/v2/models/{*id}/versions/{version}/config",
        label: "/v2/models/{id}/versions/{version}/config",
        id: "oipConfigVersion",
        ..CONFIG
    },
    Route {
        path: "/v2/models/{*id}/versions/{version}/stats",
        label: "/v2/models/{id}/versions/{version}/stats",
        id: "oipStatisticsVersion",
        ..STATISTICS
    },
    Route {
        path: "/v2/models/{*id}/versions/{version}",
        label: "/v2/models/{id}/versions/{version}",
        id: "oipModelVersion",
        ..METADATA
    },
    Route { path: "/v2/models/{*id}/infer", label: "/v2/models/{id}/infer", id: "oipInfer", ..INFER },
    Route {
        path: "/v2/models/{*id}/generate",
        label: "/v2/models/{id}/generate",
        id: "oipGenerate",
        ..GENERATE
    },
    Route {
        path: "/v2/models/{*id}/generate_stream",
        label: "/v2/models/{id}/generate_stream",
        id: "oipStream",
        ..STREAM
    },
    Route {
        path: "/v2/models/{*id}/ready",
        label: "/v2/models/{id}/ready",
        id: "oipModelReady",
        ..READINESS
    },
    Route { path: "/v2/models/{*id}/config", label: "/v2/models/{id}/config", id: "oipConfig", ..CONFIG },
    Route {
        path: "/v2/models/{*id}/stats",
        label: "/v2/models/{id}/stats",
        id: "oipStatistics",
        ..STATISTICS
    },
    Route {
        path: "/v2/models/{*id}/trace/setting",
        label: "/v2/models/{id}/trace/setting",
        id: "oipModelTrace",
        ..ASIDE
    },
    Route { path: "/v2/models/{*id}", label: "/v2/models/{id}", id: "oipModel", ..METADATA },
    Route { path: "/v2/trace/setting", id: "oipTrace", ..ASIDE },
    Route { path: "/v2/logging", id: "oipLogging", ..ASIDE },
    Route {
        path: "/v2/systemsharedmemory/{*id}",
        label: "/v2/systemsharedmemory/{id}",
        id: "oipSystemMemory",
        ..ASIDE
    },
    Route {
        path: "/v2/cudasharedmemory/{*id}",
        label: "/v2/cudasharedmemory/{id}",
        id: "oipCudaMemory",
        ..ASIDE
    },
    Route {
        path: "/inference.GRPCInferenceService/{method}",
        method: "POST",
        id: "oipGrpc",
        shape: ErrorFormat::Grpc,
        ..PROBE
    },
    Route {
        path: "/v2/repository/index",
        id: "oipIndex",
        summary: "Lists the models (Triton).",
        answers: "The models with their states.",
        request: Some("RepositoryIndexRequest"),
        answer: "RepositoryIndex",
        ..ASK
    },
    Route {
        path: "/v2/repository/models/{*id}/load",
        label: "/v2/repository/models/{id}/load",
        id: "oipLoad",
        summary: "Loads a model (Triton).",
        answers: "The model is loaded.",
        request: Some("RepositoryModelRequest"),
        ..ASK
    },
    Route {
        path: "/v2/repository/models/{*id}/unload",
        label: "/v2/repository/models/{id}/unload",
        id: "oipUnload",
        summary: "Unloads a model that is not in use (Triton).",
        answers: "The model is being unloaded.",
        request: Some("RepositoryModelRequest"),
        ..ASK
    },
];
