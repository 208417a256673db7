//! What a path below `/v2/models/` asks for: a model, its version, and what of it.

use service::ModelVersion;
use wire::Fault;
use wire::oip::check_model_name;

use crate::state::State;

/// What a path behind a model's name may ask for by `GET`, and by `POST`.
const LOOKS: [&str; 4] = ["ready", "config", "stats", "trace/setting"];
const ASKS: [&str; 4] = ["infer", "generate", "generate_stream", "trace/setting"];

/// A model of a path, and what is asked of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The name of the model.
    pub(super) name: String,
    /// One of [`LOOKS`] or [`ASKS`]; empty for the model itself.
    pub(super) action: &'static str,
    version: String,
}

impl Target {
    /// Reads what stands behind `/v2/models/`.
    ///
    /// # Errors
    /// An action of the other method, or a name that no model has.
    pub(super) fn read(rest: &str, method: &'static str) -> Result<Target, Fault> {
        let (own, other) = if method == "GET" { (&LOOKS, &ASKS) } else { (&ASKS, &LOOKS) };
        let end = |actions: &[&'static str]| {
            let found = actions.iter().find_map(|action| {
                let name = rest.strip_suffix(action)?.strip_suffix('/')?;
                Some((name.to_owned(), *action))
            });
            found.filter(|(name, _)| !name.is_empty())
        };
        let (path, action) = match (end(own), end(other)) {
            (Some(found), _) => found,
            (None, None) if method == "GET" => (rest.to_owned(), ""),
            (None, _) => return Err(Fault::method(method, &format!("/v2/models/{rest}"))),
        };
        let (name, version) = path.rsplit_once("/versions/").unwrap_or((&path, ""));
        check_model_name(name)?;
        Ok(Target { name: name.to_owned(), action, version: version.to_owned() })
    }

    /// The model.
    ///
    /// # Errors
    /// There is no such model, or no such version of it.
    pub(super) fn find(&self, state: &State) -> Result<ModelVersion, Fault> {
        state.service.open_or_reject()?;
        state.service.find_version(&self.name, &self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_model_a_version_and_an_action() {
        let read = |rest, method| {
            Target::read(rest, method).map(|target| (target.name, target.version, target.action))
        };
        let of = |name: &str, version: &str, action| Ok((name.to_owned(), version.to_owned(), action));
        assert_eq!(read("tiny", "GET"), of("tiny", "", ""));
        assert_eq!(read("org/name/versions/1/ready", "GET"), of("org/name", "1", "ready"));
        assert_eq!(read("ready", "GET"), of("ready", "", ""));
        assert_eq!(read("org/name/infer", "POST"), of("org/name", "", "infer"));
        assert_eq!(read("tiny/versions/x/generate_stream", "POST"), of("tiny", "x", "generate_stream"));
        for (rest, method) in [("tiny/infer", "GET"), ("tiny/stats", "POST"), ("tiny", "POST")] {
            assert_eq!(read(rest, method).unwrap_err().status, 405, "{method} {rest}");
        }
        for rest in ["../infer", "a/../b/infer", "/infer", "a//b/infer", "a\\b/infer", "./infer"] {
            let fault = read(rest, "POST").unwrap_err();
            assert!(fault.status == 400 || fault.status == 405, "{rest}: {fault}");
        }
    }
}
