//! What the layers must know of the routes: labels, what is open, and the shapes of faults.

use axum::http::Method;
use axum::response::Response;
use wire::Fault;
use wire::routes::{ErrorFormat, GRPC_LIVE, GRPC_READY, HEALTH, LIVE, METRICS, OIP_LIVE, OIP_READY, READY};

use crate::{faults, page};

/// What the layers know of the routes.
pub(crate) struct Paths {
    /// Whether the page is served.
    pub(crate) page: bool,
}

impl httpd::Site for Paths {
    fn label(&self, path: &str) -> Option<&'static str> {
        label(path)
    }

    fn is_open(&self, method: &Method, path: &str) -> bool {
        // `POST /` generates.
        let looks = [Method::GET, Method::HEAD].contains(method);
        [HEALTH, LIVE, READY, OIP_LIVE, OIP_READY, GRPC_LIVE, GRPC_READY].contains(&path)
            || (looks && self.page && page::path(path).is_some())
    }

    fn fault(&self, path: &str, fault: &Fault) -> Response {
        // A path below Anthropic's has its shape even where there is no route.
        let shape = wire::routes::at(path).next().map(|route| route.shape);
        match shape {
            _ if path.starts_with("/v1/messages") => faults::anthropic(fault),
            Some(ErrorFormat::Tgi) if path != "/" => faults::tgi(fault),
            Some(ErrorFormat::Tei) => faults::tei(fault),
            Some(ErrorFormat::Cohere) => faults::cohere(fault),
            Some(ErrorFormat::Oip) => faults::oip(fault),
            Some(ErrorFormat::Grpc) => faults::grpc(fault),
            _ => faults::of_path(path, fault),
        }
    }
}

/// A path's label in the metrics: one of a fixed set. None for those that are not counted.
pub(crate) fn label(path: &str) -> Option<&'static str> {
    if [HEALTH, LIVE, READY, METRICS, OIP_LIVE, OIP_READY].contains(&path) {
        return None;
    }
    let route = wire::routes::at(path).next().map(wire::routes::Route::label);
    route.or_else(|| page::path(path)).or(Some("none"))
}
