//! A deployment of `model_list`: which provider it is at, and what of its settings is carried over.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::values::{Defaults, Remarks, seconds, text, variable};

/// How a provider of LiteLLM is asked by the gateway.
struct Provider {
    name: &'static str,
    kind: &'static str,
    /// Base URL unless the deployment has one; none where it must.
    url: Option<&'static str>,
    /// Environment variable of the key unless the deployment names one.
    key: Option<&'static str>,
}

const fn at(name: &'static str, url: &'static str, key: &'static str) -> Provider {
    Provider { name, kind: "openai", url: Some(url), key: Some(key) }
}

const fn own(name: &'static str) -> Provider {
    Provider { name, kind: "openai", url: None, key: None }
}

/// Providers that speak an API of the gateway's, with their addresses.
const PROVIDERS: [Provider; 25] = [
    at("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    at("text-completion-openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    at("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    at("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    at("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    at("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    at("together_ai", "https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    at("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    at("fireworks_ai", "https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY"),
    at("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    at("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    at("nvidia_nim", "https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    Provider {
        name: "anthropic",
        kind: "anthropic",
        url: Some("https://api.anthropic.com"),
        key: Some("ANTHROPIC_API_KEY"),
    },
    Provider {
        name: "gemini",
        kind: "gemini",
        url: Some("https://generativelanguage.googleapis.com"),
        key: Some("GEMINI_API_KEY"),
    },
    Provider { name: "azure", kind: "azure", url: None, key: Some("AZURE_API_KEY") },
    own("hosted_vllm"),
    own("vllm"),
    Provider { name: "ollama", kind: "openai", url: Some("http://localhost:11434"), key: None },
    Provider { name: "ollama_chat", kind: "openai", url: Some("http://localhost:11434"), key: None },
    own("openai_like"),
    own("custom_openai"),
    own("lm_studio"),
    own("llamafile"),
    own("litellm_proxy"),
    own("xinference"),
];

/// The version of Azure's API where the file has none.
const AZURE_VERSION: &str = "2024-10-21";

/// An upstream that deployments with the same settings share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upstream {
    /// What its name is made of.
    pub(super) provider: &'static str,
    pub(super) kind: &'static str,
    pub(super) url: String,
    pub(super) is_own: bool,
    pub(super) key_env: Option<String>,
    pub(super) api_version: Option<String>,
    pub(super) max_in_flight: Option<u64>,
    /// Milliseconds.
    pub(super) total_ms: Option<u64>,
    pub(super) first_byte_ms: Option<u64>,
    pub(super) headers: BTreeMap<String, String>,
}

/// A deployment that can be carried over.
#[derive(Debug, Clone)]
pub(super) struct Deployment {
    /// The name that clients ask for.
    pub(super) name: String,
    /// The model's name at the upstream.
    pub(super) model: String,
    pub(super) upstream: Upstream,
    /// Share of requests: `weight`, or what stands for it.
    pub(super) weight: Option<u64>,
    /// Prices for a million tokens: input, output, cached input, written to the cache.
    pub(super) prices: [Option<String>; 4],
}

/// Settings of `litellm_params` that are carried over or remarked on.
const KNOWN: [&str; 19] = [
    "model",
    "api_base",
    "base_url",
    "api_key",
    "api_version",
    "organization",
    "extra_headers",
    "headers",
    "timeout",
    "stream_timeout",
    "weight",
    "rpm",
    "tpm",
    "max_parallel_requests",
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "custom_llm_provider",
];

impl Deployment {
    /// Reads an entry of `model_list`; none, with a remark, for one that the gateway cannot ask.
    ///
    /// # Errors
    /// An entry without name or parameters.
    pub(super) fn read(
        place: &str,
        entry: &Map<String, Value>,
        defaults: &Defaults,
        remarks: &mut Remarks,
    ) -> Result<Option<Deployment>, String> {
        let name = text(entry, "model_name").ok_or_else(|| format!("{place}.model_name is missing"))?;
        let Some(Value::Object(params)) = entry.get("litellm_params") else {
            return Err(format!("{place}.litellm_params is missing"));
        };
        let full = text(params, "model").ok_or_else(|| format!("{place}.litellm_params.model is missing"))?;
        let place = format!("{place} ({name})");
        if name.contains('*') || full.contains('*') {
            remarks.add(format!("{place}: wildcard names are not there; name each model"));
            return Ok(None);
        }
        let Some((provider, model)) = provider(&full, params) else {
            remarks.add(format!("{place}: left out, as the gateway has no upstream for {full:?}"));
            return Ok(None);
        };
        remarks.rest(&place, entry, &["model_name", "litellm_params", "model_info"]);
        remarks.rest(&format!("{place}.litellm_params"), params, &KNOWN);
        let info = match entry.get("model_info") {
            Some(Value::Object(info)) => Some(info),
            _ => None,
        };
        let Some(upstream) = upstream(&place, provider, params, defaults, remarks) else { return Ok(None) };
        Ok(Some(Deployment {
            weight: weight(&place, params, remarks),
            prices: prices(&place, params, info, remarks),
            model,
            upstream,
            name,
        }))
    }
}

/// The provider of a model's full name, and the name without it.
fn provider(full: &str, params: &Map<String, Value>) -> Option<(&'static Provider, String)> {
    let find = |name: &str| PROVIDERS.iter().find(|provider| provider.name == name);
    if let Some(custom) = text(params, "custom_llm_provider") {
        let model = full.strip_prefix(&format!("{custom}/")).unwrap_or(full);
        return Some((find(&custom)?, model.to_owned()));
    }
    if let Some((prefix, model)) = full.split_once('/') {
        return Some((find(prefix)?, model.to_owned()));
    }
    // Names that LiteLLM knows without a prefix.
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| full.starts_with(prefix));
    let name = if starts(&["gpt-", "o1", "o3", "o4", "chatgpt-", "text-embedding-"]) {
        "openai"
    } else if starts(&["claude-"]) {
        "anthropic"
    } else {
        return None;
    };
    Some((find(name)?, full.to_owned()))
}

fn upstream(
    place: &str,
    provider: &'static Provider,
    params: &Map<String, Value>,
    defaults: &Defaults,
    remarks: &mut Remarks,
) -> Option<Upstream> {
    let url = url(place, provider, params, remarks)?;
    let is_own = is_private(&url);
    if is_own {
        remarks.add(format!(
            "{place}: {url} is an address of an own network, so it is written as tier \"own\", which may get requests \
             of every label; change it if the machine is not yours"
        ));
    }
    let api_version = (provider.kind == "azure").then(|| {
        text(params, "api_version").filter(|version| variable(version).is_none()).unwrap_or_else(|| {
            remarks.add(format!("{place}: api_version is not in the file; {AZURE_VERSION} is written"));
            AZURE_VERSION.to_owned()
        })
    });
    if provider.kind != "azure" && params.contains_key("api_version") {
        remarks.add(format!("{place}.litellm_params.api_version is not carried over: it is for Azure"));
    }
    let limit = |name: &str| params.get(name).and_then(seconds);
    Some(Upstream {
        provider: provider.name,
        kind: provider.kind,
        url,
        is_own,
        key_env: key(place, provider, params, remarks),
        api_version,
        max_in_flight: params.get("max_parallel_requests").and_then(Value::as_u64).filter(|n| *n > 0),
        total_ms: limit("timeout").or(defaults.total_ms),
        first_byte_ms: limit("stream_timeout").or(defaults.first_byte_ms),
        headers: headers(place, params, remarks),
    })
}

/// The base URL of a deployment.
fn url(
    place: &str,
    provider: &Provider,
    params: &Map<String, Value>,
    remarks: &mut Remarks,
) -> Option<String> {
    let given = text(params, "api_base").or_else(|| text(params, "base_url"));
    let url = match (given, provider.url) {
        (Some(given), _) if variable(&given).is_some() => {
            remarks.add(format!(
                "{place}: api_base is taken from the environment ({given}), which the gateway's url is not: write it \
                 where the configuration has to-be-written.invalid"
            ));
            "http://to-be-written.invalid/v1".to_owned()
        }
        (Some(given), _) => given,
        (None, Some(usual)) => usual.to_owned(),
        (None, None) => {
            remarks.add(format!("{place}: left out, as it has no api_base"));
            return None;
        }
    };
    let mut url = url.trim_end_matches('/').to_owned();
    if let Some((before, _)) = url.split_once('?') {
        remarks.add(format!("{place}: the query of api_base is not carried over"));
        url = before.to_owned();
    }
    if let Err(why) = crate::address::Address::parse(&url) {
        remarks.add(format!("{place}: left out, as api_base {url:?} {why}"));
        return None;
    }
    Some(url)
}

/// The environment variable of a deployment's key. A key that stands in the file is not repeated.
fn key(
    place: &str,
    provider: &Provider,
    params: &Map<String, Value>,
    remarks: &mut Remarks,
) -> Option<String> {
    let own = provider.key;
    match text(params, "api_key") {
        None => own.map(str::to_owned),
        Some(given) => Some(match variable(&given) {
            Some(name) => name.to_owned(),
            // Servers of one's own take any word where they check none.
            None if own.is_none()
                && ["none", "fake-key", "empty", "dummy", "anything", "not-needed"]
                    .contains(&given.to_ascii_lowercase().as_str()) =>
            {
                return None;
            }
            None => {
                let name = own.map_or_else(|| variable_name(provider.name), str::to_owned);
                remarks.add(format!(
                    "{place}: a key stands in the file; it is not repeated: put it into the environment variable {name}"
                ));
                name
            }
        }),
    }
}

fn variable_name(provider: &str) -> String {
    format!("{}_API_KEY", provider.to_ascii_uppercase().replace('-', "_"))
}

fn headers(place: &str, params: &Map<String, Value>, remarks: &mut Remarks) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for table in ["extra_headers", "headers"] {
        let Some(Value::Object(map)) = params.get(table) else { continue };
        for (name, value) in map {
            match value.as_str().filter(|value| variable(value).is_none()) {
                // The value may be a secret, which does not belong into a remark.
                None => remarks.add(format!("{place}: the header {name} has no text of its own; write it")),
                Some(value) => {
                    headers.insert(name.to_ascii_lowercase(), value.to_owned());
                }
            }
        }
    }
    if let Some(organization) = text(params, "organization") {
        match variable(&organization) {
            None => {
                headers.insert("openai-organization".to_owned(), organization);
            }
            Some(name) => {
                remarks.add(format!(
                    "{place}: organization is in {name}; write it as header openai-organization"
                ));
            }
        }
    }
    headers
}

/// The share of requests: a weight, else a limit, by which LiteLLM weighs too.
fn weight(place: &str, params: &Map<String, Value>, remarks: &mut Remarks) -> Option<u64> {
    let number = |name: &str| params.get(name).and_then(Value::as_f64).filter(|number| *number > 0.0);
    for limit in ["rpm", "tpm"] {
        if number(limit).is_some() {
            remarks.add(format!(
                "{place}: {limit} of a deployment is not enforced, and is written as its weight; limits are of keys \
                 (requests_per_minute, tokens_per_minute) and upstreams (max_in_flight)"
            ));
        }
    }
    let weight = number("weight").or_else(|| number("rpm")).or_else(|| number("tpm"));
    // Weights are whole numbers here; those below ten keep two digits.
    weight.map(|weight| {
        let scaled = if weight.fract() == 0.0 { weight } else { (weight * 100.0).round() };
        (scaled.clamp(1.0, 1e9)) as u64
    })
}

/// Prices for a million tokens, from those for one.
fn prices(
    place: &str,
    params: &Map<String, Value>,
    info: Option<&Map<String, Value>>,
    remarks: &mut Remarks,
) -> [Option<String>; 4] {
    let names = [
        "input_cost_per_token",
        "output_cost_per_token",
        "cache_read_input_token_cost",
        "cache_creation_input_token_cost",
    ];
    if let Some(info) = info {
        let told: Vec<&str> = info.keys().map(String::as_str).filter(|name| !names.contains(name)).collect();
        if !told.is_empty() {
            remarks.add(format!("{place}.model_info: {} not carried over", told.join(", ")));
        }
    }
    let mut prices = names.map(|name| {
        let value = params.get(name).or_else(|| info.and_then(|info| info.get(name)))?;
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
        // Nine decimals of the currency for a million tokens are exact to 1e-15 for one.
        let text = format!("{:.9}", number * 1e6);
        let text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
        (0.0..1e3).contains(&number).then_some(text)
    });
    if prices[0].is_some() != prices[1].is_some() {
        remarks.add(format!("{place}: one of input and output price is missing; none is written"));
        prices = [None, None, None, None];
    }
    prices
}

/// Whether a URL's host is on this machine or in an own network: private addresses (RFC 1918, RFC 4193) and names that
/// no public DNS has.
fn is_private(url: &str) -> bool {
    let Ok(address) = crate::address::Address::parse(url) else { return false };
    let host = address.host.as_str();
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(ip)) => ip.is_private() || ip.is_loopback(),
        Ok(std::net::IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Err(_) => {
            let ends = [".local", ".internal", ".lan", ".svc", ".cluster.local", ".localhost"];
            !host.contains('.') || ends.iter().any(|end| host.ends_with(end))
        }
    }
}
