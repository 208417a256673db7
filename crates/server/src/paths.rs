//! What the layers must know of the routes: labels, what is open, and the shapes of faults.

use axum::http::Method;
use axum::response::Response;
use wire::Fault;
use wire::routes::{ErrorFormat, HEALTH, LIVE, METRICS, READY};

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
        [HEALTH, LIVE, READY].contains(&path) || (looks && self.page && page::path(path).is_some())
    }

    fn fault(&self, path: &str, fault: &Fault) -> Response {
        // A path below Anthropic's has its shape even where there is no route.
        let shape = wire::routes::at(path).next().map(|route| route.shape);
        match shape {
            _ if path.starts_with("/v1/messages") => faults::anthropic(fault),
            Some(ErrorFormat::Tgi) if path != "/" => faults::tgi(fault),
            Some(ErrorFormat::Tei) => faults::tei(fault),
            Some(ErrorFormat::Cohere) => faults::cohere(fault),
            _ => faults::of_path(path, fault),
        }
    }
}

/// A path's label in the metrics: one of a fixed set. None for those that are not counted.
pub(crate) fn label(path: &str) -> Option<&'static str> {
    if [HEALTH, LIVE, READY, METRICS].contains(&path) {
        return None;
    }
    let route = wire::routes::at(path).next().map(|route| match route.id {
        "retrieveModel" => "/v1/models/{id}",
        "loadModel" => "/v1/models/{id}/load",
        "unloadModel" => "/v1/models/{id}/unload",
        "pinModel" => "/v1/models/{id}/pin",
        "unpinModel" => "/v1/models/{id}/unpin",
        _ => route.path,
    });
    route.or_else(|| page::path(path)).or(Some("none"))
}
