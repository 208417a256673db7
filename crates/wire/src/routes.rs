//! The table of routes, from which the router, the metrics' labels and the OpenAPI document are built.

mod encoders;
mod generation;
mod jobs;
mod oip;
mod other_apis;
mod route;

pub use oip::{GRPC_LIVE, GRPC_READY, LIVE as OIP_LIVE, READY as OIP_READY};
pub use route::{ErrorFormat, HEALTH, LIVE, METRICS, READY, ResponseMode, Route};

/// The parts of the table.
const PARTS: [&[Route]; 5] =
    [generation::ROUTES, encoders::ROUTES, oip::ROUTES, other_apis::ROUTES, jobs::ROUTES];

/// All routes of the API, without those of the web page.
pub const ROUTES: &[Route] = &{
    const COUNT: usize = {
        let (mut count, mut part) = (0, 0);
        while part < PARTS.len() {
            count += PARTS[part].len();
            part += 1;
        }
        count
    };
    let mut all = [route::GET; COUNT];
    let (mut part, mut at) = (0, 0);
    while part < PARTS.len() {
        let mut index = 0;
        while index < PARTS[part].len() {
            all[at] = PARTS[part][index];
            (index, at) = (index + 1, at + 1);
        }
        part += 1;
    }
    all
};

/// The routes that match a path, one for each method.
pub fn at(path: &str) -> impl Iterator<Item = &'static Route> {
    let exact = ROUTES.iter().any(|route| route.path == path);
    ROUTES.iter().filter(move |route| if exact { route.path == path } else { route.matches(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_its_route() {
        let ids = |path: &str| at(path).map(|route| route.id).collect::<Vec<_>>();
        assert_eq!(ids("/v1/chat/completions"), ["createChatCompletion"]);
        assert_eq!(ids("/v1/responses"), ["createResponse"]);
        assert_eq!(ids("/v1/responses/resp_1"), ["getResponse", "deleteResponse"]);
        assert_eq!(ids("/v1/responses/resp_1/cancel"), ["cancelResponse"]);
        assert_eq!(ids("/v1/models/org/name"), ["retrieveModel"]);
        assert_eq!(ids("/v1/models/org/name/load"), ["loadModel", "retrieveModel"]);
        assert_eq!(ids("/v2/models/org/name/versions/1/infer")[0], "oipInferVersion");
        assert_eq!(ids("/v2/models/org/name/infer"), ["oipInfer", "oipModel"]);
        assert_eq!(ids("/v2/models/stats"), ["oipAllStatistics"]);
        assert_eq!(ids("/v1/jobs/stats"), ["jobStats"]);
        assert_eq!(ids("/v1/jobs/job_1"), ["getJob", "deleteJob"]);
        assert_eq!(ids("/v1/messages/batches"), ["createMessageBatch", "listMessageBatches"]);
        for none in
            ["", "/v1", "/v1/models/", "/v1/responses/", "/v1/responses/a/b/c", "/v1/chat/completions/"]
        {
            assert!(ids(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = ROUTES.iter().map(|route| route.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }
}
