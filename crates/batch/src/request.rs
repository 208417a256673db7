//! Requests, as they are made of rows.

use crate::endpoint::Endpoint;
use crate::fault::{Fault, listed, shortened};
use crate::input::row::{Reading, Row};
use crate::template::Template;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// What tells a request from all others.
pub(crate) type Key = [u8; 32];

/// How rows become requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Rows are lines of OpenAI's batches: `custom_id`, `method`, `url`, `body`.
    OpenAi,
    /// A row fills a template, which is the prompt.
    Template,
    /// A row is the body of a request.
    Body,
}

impl Form {
    /// Its name in the journal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::OpenAi => "openai",
            Form::Template => "template",
            Form::Body => "body",
        }
    }
}

/// How rows become requests.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) form: Form,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) model: Option<String>,
    pub(crate) template: Template,
    pub(crate) system: Option<String>,
    pub(crate) params: Map<String, Value>,
    /// Columns that are written to the output. They are no fields of a body.
    pub(crate) keep: Vec<String>,
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) endpoint: Endpoint,
    pub(crate) body: Map<String, Value>,
    pub(crate) custom_id: Option<String>,
}

impl Recipe {
    /// The request of a record, which begins on line `at` of the input.
    pub(crate) fn request(&self, reading: &Reading, at: u64, record: &[u8]) -> Result<Request, Fault> {
        let mut request = match self.form {
            Form::OpenAi => self.line(at, record)?,
            Form::Template => self.filled(&reading.row(record)?)?,
            Form::Body => self.body(reading.row(record)?),
        };
        if let Some(model) = &self.model {
            request.body.insert("model".to_owned(), json!(model));
        }
        for (name, value) in &self.params {
            request.body.insert(name.clone(), value.clone());
        }
        if request.body.get("stream").is_some_and(|stream| *stream == json!(true)) {
            return Err(Fault::new("stream_not_supported", "a request of a batch cannot be streamed"));
        }
        Ok(request)
    }

    fn line(&self, at: u64, record: &[u8]) -> Result<Request, Fault> {
        let line = jobs::parse_line(at, record, self.endpoint.map(Endpoint::path))
            .map_err(|error| Fault::new(&error.code, error.message))?;
        if let Some(fault) = line.fault {
            return Err(Fault::new(&fault.code, fault.message));
        }
        let unknown = || {
            let (url, known) = (shortened(&line.url), listed(Endpoint::paths()));
            Fault::new("invalid_url", format!("the url of line {at} is {url:?}; it must be one of {known}"))
        };
        let endpoint = Endpoint::by_path(&line.url).ok_or_else(unknown)?;
        let invalid =
            |error| Fault::new("invalid_request", format!("the body of line {at} cannot be read: {error}"));
        let body = serde_json::from_slice(&line.body).map_err(invalid)?;
        Ok(Request { endpoint, body, custom_id: Some(line.custom_id) })
    }

    fn filled(&self, row: &Row) -> Result<Request, Fault> {
        let endpoint = self.endpoint.unwrap_or(Endpoint::Chat);
        let prompt = self.template.render(row)?;
        let mut body = Map::new();
        match endpoint {
            Endpoint::Chat | Endpoint::Messages => {
                let system = self.system.as_ref().filter(|_| endpoint == Endpoint::Chat);
                let mut messages: Vec<Value> =
                    system.map(|text| json!({"role": "system", "content": text})).into_iter().collect();
                messages.push(json!({"role": "user", "content": prompt}));
                body.insert("messages".to_owned(), messages.into());
            }
            Endpoint::Completions => drop(body.insert("prompt".to_owned(), prompt.into())),
            _ => drop(body.insert("input".to_owned(), prompt.into())),
        }
        if let Some((field, text)) = system_field(endpoint).zip(self.system.as_ref()) {
            body.insert(field.to_owned(), json!(text));
        }
        Ok(Request { endpoint, body, custom_id: None })
    }

    fn body(&self, mut row: Row) -> Request {
        row.retain(|name, _| !self.keep.contains(name));
        Request { endpoint: self.endpoint.unwrap_or(Endpoint::Chat), body: row, custom_id: None }
    }
}

/// The field of a request that holds the system's text, where it is no message.
fn system_field(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::Responses => Some("instructions"),
        Endpoint::Messages => Some("system"),
        _ => None,
    }
}

impl Request {
    /// What tells this request from all others: SHA-256 of its path and its body with sorted fields.
    pub(crate) fn key(&self) -> Key {
        let mut hash = Sha256::new();
        hash.update(self.endpoint.path());
        hash.update([0]);
        hash.update(canonical(&Value::Object(self.body.clone())).to_string());
        hash.finalize().into()
    }

    /// Whether asking twice gives the same answer: nothing is drawn, or the seed is told.
    pub(crate) fn is_repeatable(&self) -> bool {
        let drawn = self.body.get("temperature").and_then(Value::as_f64) != Some(0.0);
        !self.endpoint.generates() || !drawn || self.has_seed()
    }

    fn has_seed(&self) -> bool {
        self.body.get("seed").is_some_and(|seed| !seed.is_null())
    }

    /// The body that is sent: with a seed derived from the key, if it has none.
    pub(crate) fn into_body(mut self, key: &Key) -> Vec<u8> {
        if self.endpoint.takes_seed() && !self.has_seed() {
            self.body.insert("seed".to_owned(), json!(seed(key)));
        }
        Value::Object(self.body).to_string().into_bytes()
    }

    /// The most tokens that the answer may have, where told.
    pub(crate) fn output_limit(&self) -> Option<u64> {
        let field = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
        field.iter().find_map(|name| self.body.get(*name)?.as_u64())
    }
}

/// The key of the copy number `copy` of a request that is drawn anew each time: each copy gets its own seed. The first one
/// is the request itself.
pub(crate) fn copy_key(key: &Key, copy: u64) -> Key {
    if copy == 0 {
        return *key;
    }
    let mut hash = Sha256::new();
    hash.update(key);
    hash.update(copy.to_be_bytes());
    hash.finalize().into()
}

/// A seed that every reader of JSON holds exactly: 53 bits of the key.
fn seed(key: &Key) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&key[..8]);
    u64::from_be_bytes(first) >> 11
}

/// The same value with the fields of objects sorted by name.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            sorted.into_iter().map(|(name, value)| (name.clone(), canonical(value))).collect()
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(form: Form) -> Recipe {
        Recipe {
            form,
            endpoint: None,
            model: Some("m".to_owned()),
            template: Template::parse("Say {x}").unwrap(),
            system: Some("Be short.".to_owned()),
            params: Map::new(),
            keep: vec!["id".to_owned()],
        }
    }

    fn request(recipe: &Recipe, row: &Value) -> Result<Request, Fault> {
        recipe.request(&Reading::Json, 3, row.to_string().as_bytes())
    }

    fn body(recipe: &Recipe, row: Value) -> Value {
        Value::Object(request(recipe, &row).unwrap().body)
    }

    fn fault(row: Value) -> String {
        request(&recipe(Form::OpenAi), &row).unwrap_err().code
    }

    #[test]
    fn a_template_becomes_a_chat_with_a_system_message() {
        let messages =
            json!([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Say hi"}]);
        let body = body(&recipe(Form::Template), json!({"x": "hi", "id": 7}));
        assert_eq!(body, json!({"messages": messages, "model": "m"}));
    }

    #[test]
    fn other_endpoints_have_their_own_fields() {
        for (endpoint, wanted) in [
            (Endpoint::Completions, json!({"prompt": "Say 1", "model": "m"})),
            (Endpoint::Embeddings, json!({"input": "Say 1", "model": "m"})),
            (Endpoint::Responses, json!({"input": "Say 1", "instructions": "Be short.", "model": "m"})),
        ] {
            let recipe = Recipe { endpoint: Some(endpoint), ..recipe(Form::Template) };
            assert_eq!(body(&recipe, json!({"x": 1})), wanted);
        }
    }

    #[test]
    fn kept_columns_are_no_fields_of_a_body() {
        assert_eq!(
            body(&recipe(Form::Body), json!({"id": 1, "prompt": "p"})),
            json!({"prompt": "p", "model": "m"})
        );
    }

    #[test]
    fn a_line_of_openai_gets_the_model_and_keeps_its_body() {
        let line =
            json!({"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"input": "x"}});
        let request = request(&recipe(Form::OpenAi), &line).unwrap();
        assert_eq!((request.endpoint, request.custom_id.as_deref()), (Endpoint::Embeddings, Some("a")));
        assert_eq!(Value::Object(request.body), json!({"input": "x", "model": "m"}));
    }

    #[test]
    fn lines_that_are_no_requests_are_faults() {
        let line =
            |url: &str, body: Value| json!({"custom_id": "a", "method": "POST", "url": url, "body": body});
        assert_eq!(fault(line("/v1/audio", json!({}))), "invalid_url");
        assert_eq!(fault(line("/v1/completions", json!({"stream": true}))), "stream_not_supported");
        assert_eq!(fault(json!({"method": "POST"})), "missing_required_parameter");
    }

    #[test]
    fn keys_do_not_depend_on_the_order_of_fields() {
        let of = |body: Value| {
            Request { endpoint: Endpoint::Chat, body: body.as_object().unwrap().clone(), custom_id: None }
                .key()
        };
        assert_eq!(
            of(json!({"a": [{"c": 1, "d": 2}], "b": 1.5})),
            of(json!({"b": 1.5, "a": [{"d": 2, "c": 1}]}))
        );
        assert_ne!(of(json!({"a": 1})), of(json!({"a": 2})));
    }

    #[test]
    fn a_request_without_a_seed_gets_one_of_its_key() {
        let request = Request { endpoint: Endpoint::Chat, body: Map::new(), custom_id: None };
        let key = request.key();
        assert!(!request.is_repeatable());
        let sent: Value = serde_json::from_slice(&request.clone().into_body(&key)).unwrap();
        assert_eq!(sent["seed"], json!(seed(&key)));
        assert_ne!(seed(&copy_key(&key, 1)), seed(&key));
        let told = Request { body: json!({"seed": 5}).as_object().unwrap().clone(), ..request };
        assert!(told.is_repeatable());
        assert_eq!(told.into_body(&key), b"{\"seed\":5}");
    }
}
