//! What is read of requests: who asks, the query, the fields of a body.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::extract::{Query, Request};
use axum::http::{Extensions, HeaderMap, Uri, header};
use httpd::body::Media;
use inference::RequestContext;
use job_store::IdempotencyKey;
use jobs::idempotency::{fingerprint, idempotency_key};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use wire::Fault;
use wire::error::quote;

use super::fault::fault;
use crate::shared::Jobs;

/// The header that makes a repeated request one request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The most pairs of metadata, and the most characters of their names and values, as OpenAI has them.
const METADATA: (usize, usize, usize) = (16, 64, 512);

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The name of the API key; empty without keys.
    pub(crate) key: String,
    operator: bool,
}

impl Caller {
    /// The sender of a request with these extensions.
    pub(crate) fn of(jobs: &Jobs, extensions: &Extensions) -> Caller {
        let context = extensions.get::<Arc<RequestContext>>();
        let key = context.and_then(|context| context.key()).unwrap_or_default();
        let operator = jobs.is_operator(&key);
        Caller { key, operator }
    }

    /// Whose things it sees; none is everybody's.
    pub(crate) fn scope(&self) -> Option<&str> {
        (!self.operator).then_some(self.key.as_str())
    }

    /// As [`Caller::scope`], for filters.
    pub(crate) fn filter(&self) -> Option<String> {
        self.scope().map(str::to_owned)
    }
}

/// The query of a request; what is empty is not there.
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    /// Of a URI.
    ///
    /// # Errors
    /// A query that is none.
    pub(crate) fn of(uri: &Uri) -> Result<Params, Fault> {
        let read = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(pairs) = read.map_err(|error| Fault::body(format!("the query cannot be read: {error}")))?;
        Ok(Params(pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect()))
    }

    /// A value as it is.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// A whole number within a range.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Fault> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.map(Some).ok_or_else(|| {
            Fault::field(
                name,
                format!("{name} is {}; it must be a whole number from {least} to {most}", quote(text)),
            )
        })
    }

    /// Whether something is wanted.
    ///
    /// # Errors
    /// A value that says neither yes nor no.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Fault> {
        match self.0.get(name).map(String::as_str) {
            None => Ok(default),
            Some("1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(other) => {
                Err(Fault::field(name, format!("{name} is {}; it must be true or false", quote(other))))
            }
        }
    }

    /// A word of a set that serde knows.
    ///
    /// # Errors
    /// Another word.
    pub(crate) fn word<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        word(name, text).map(Some)
    }
}

/// A word of a set that serde knows.
fn word<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Fault> {
    let read = serde_json::from_value(text.into());
    read.map_err(|error: serde_json::Error| Fault::field(name, format!("{name} is {}: {error}", quote(text))))
}

/// The body of a request, bounded, as JSON whose fields are read one by one.
///
/// # Errors
/// What [`httpd::body::read`] refuses.
pub(crate) async fn body(jobs: &Jobs, request: Request) -> Result<Vec<u8>, Fault> {
    let bytes = httpd::body::read(&jobs.edge, request, Media::Json).await?;
    // The memory is free once the body was read; what follows of it is the store's.
    let (body, _memory) = bytes.decompressed(jobs.edge.options.body_bytes)?;
    Ok(body)
}

/// As [`body`]; no body is an empty object.
///
/// # Errors
/// As [`body`].
pub(crate) async fn optional_body(jobs: &Jobs, request: Request) -> Result<Vec<u8>, Fault> {
    let headers = request.headers();
    let length = headers.get(header::CONTENT_LENGTH).map(|length| length.as_bytes() != b"0");
    if !length.unwrap_or_else(|| headers.contains_key(header::TRANSFER_ENCODING)) {
        return Ok(b"{}".to_vec());
    }
    body(jobs, request).await
}

/// The fields of a JSON object.
pub(crate) struct Fields {
    /// The place of the object, with a dot; empty for the body.
    place: String,
    fields: BTreeMap<String, Box<RawValue>>,
}

impl Fields {
    /// Of a body.
    ///
    /// # Errors
    /// A body that is no JSON object, or has too many values.
    pub(crate) fn read(body: &[u8]) -> Result<Fields, Fault> {
        wire::scan::values(body)?;
        let fields = serde_json::from_slice(body).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Fault::body("the body is no JSON object"),
            _ => Fault::not_json(error),
        })?;
        Ok(Fields { place: String::new(), fields })
    }

    /// The path of a field in the body.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }

    /// The JSON of a field; `null` is as if it were not there.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.get()).filter(|value| *value != "null")
    }

    /// A field as a type that serde knows; `what` names the type.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str, what: &str) -> Result<Option<T>, Fault> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let path = self.path(name);
        serde_json::from_str(raw)
            .map(Some)
            .map_err(|_| Fault::field(path.clone(), format!("{path} is {}; it must be {what}", quote(raw))))
    }

    /// A text.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Fault> {
        self.get(name, "a string")
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// Another value, or none.
    pub(crate) fn required_text(&self, name: &str) -> Result<String, Fault> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| Fault::missing(self.path(name)))
    }

    /// A whole number within a range.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Fault> {
        let what = format!("a whole number from {} to {}", range.start(), range.end());
        let number: Option<i64> = self.get(name, &what)?;
        if let Some(number) = number.filter(|number| !range.contains(number)) {
            let path = self.path(name);
            return Err(Fault::field(path.clone(), format!("{path} is {number}; it must be {what}")));
        }
        Ok(number)
    }

    /// Whether something is wanted.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Fault> {
        Ok(self.get(name, "true or false")?.unwrap_or(false))
    }

    /// An object inside.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields>, Fault> {
        let fields = self.get(name, "an object")?;
        Ok(fields.map(|fields| Fields { place: format!("{}.", self.path(name)), fields }))
    }

    /// The client's own pairs, as OpenAI bounds them.
    ///
    /// # Errors
    /// Too many, too long, or not texts.
    pub(crate) fn metadata(&self) -> Result<BTreeMap<String, String>, Fault> {
        let pairs: BTreeMap<String, String> =
            self.get("metadata", "an object of strings")?.unwrap_or_default();
        let (most, name_most, value_most) = METADATA;
        if pairs.len() > most {
            let message = format!("metadata has {} pairs; {most} is the limit", pairs.len());
            return Err(Fault::field("metadata", message));
        }
        let long = |text: &str, most| text.chars().count() > most;
        if let Some((name, _)) = pairs.iter().find(|(k, v)| long(k, name_most) || long(v, value_most)) {
            let message = format!(
                "metadata {} is too long; names have {name_most} characters and values {value_most} at most",
                quote(name)
            );
            return Err(Fault::field("metadata", message));
        }
        Ok(pairs)
    }
}

/// The client's idempotency key, for a body of this fingerprint.
///
/// # Errors
/// A header that is no key, or none where one is required.
pub(crate) fn idempotency(
    jobs: &Jobs,
    caller: &Caller,
    headers: &HeaderMap,
    route: &str,
    body: impl FnOnce() -> String,
) -> Result<Option<IdempotencyKey>, Fault> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        if jobs.options.require_idempotency {
            let message = "this server takes such requests with the header Idempotency-Key only";
            return Err(fault(400, "idempotency_key_required", message));
        }
        return Ok(None);
    };
    let value = idempotency_key(value.as_bytes())
        .map_err(|error| fault(400, "invalid_idempotency_key", error.to_string()))?;
    Ok(Some(IdempotencyKey {
        key: caller.key.clone(),
        route: route.to_owned(),
        value: value.to_owned(),
        fingerprint: body(),
        expires_at: jobs.now() + jobs.options.retention.idempotency,
    }))
}

/// The fingerprint of a JSON body.
pub(crate) fn of_body(body: &[u8]) -> impl FnOnce() -> String + '_ {
    move || fingerprint(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_checked() {
        let params = Params::of(&"/x?limit=5&wait=61&dead=yes&a=%C3%A9&empty=".parse().unwrap()).unwrap();
        assert_eq!(params.number("limit", 1..=100).unwrap(), Some(5));
        assert_eq!(params.number("none", 1..=100).unwrap(), None);
        assert_eq!(params.number("wait", 0..=60).unwrap_err().param.as_deref(), Some("wait"));
        assert!(params.flag("dead", false).is_err());
        assert_eq!(params.text("a").as_deref(), Some("é"));
        assert_eq!(params.text("empty"), None);
    }

    #[test]
    fn fields_tell_their_place() {
        let fields =
            Fields::read(br#"{"a": 1, "b": {"c": "x"}, "n": null, "metadata": {"k": "v"}}"#).unwrap();
        assert_eq!(fields.number("a", 0..=1).unwrap(), Some(1));
        assert_eq!(fields.text("a").unwrap_err().param.as_deref(), Some("a"));
        let inner = fields.object("b").unwrap().unwrap();
        assert_eq!(inner.number("c", 0..=1).unwrap_err().param.as_deref(), Some("b.c"));
        assert!(fields.raw("n").is_none());
        assert_eq!(fields.metadata().unwrap().len(), 1);
        assert_eq!(Fields::read(b"[]").err().unwrap().status, 400);
        assert_eq!(Fields::read(b"{").err().unwrap().code, Some("invalid_json"));
    }

    #[test]
    fn metadata_is_bounded() {
        let many: BTreeMap<String, String> = (0..17).map(|n| (n.to_string(), String::new())).collect();
        let body = serde_json::json!({"metadata": many}).to_string();
        assert_eq!(Fields::read(body.as_bytes()).unwrap().metadata().unwrap_err().param.unwrap(), "metadata");
        let body = serde_json::json!({"metadata": {"k": "v".repeat(513)}}).to_string();
        assert!(Fields::read(body.as_bytes()).unwrap().metadata().is_err());
    }
}
