//! The configuration that is written: tables of the gateway's TOML.

use std::fmt::Write as _;

use super::deployment::{Deployment, Upstream};
use super::values::Remarks;

/// A model with its targets.
pub(super) struct Model {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) fallbacks: Vec<String>,
    targets: Vec<Target>,
}

struct Target {
    upstream: String,
    model: String,
    weight: Option<u64>,
    prices: [Option<String>; 4],
}

/// The tables.
#[derive(Default)]
pub(super) struct Output {
    pub(super) models: Vec<Model>,
    upstreams: Vec<(String, Upstream)>,
    pub(super) policy: &'static str,
    pub(super) attempts: Option<u64>,
    pub(super) content_filter: bool,
    pub(super) cache: bool,
    pub(super) cache_ms: Option<u64>,
    /// Environment variable of the admin's key.
    pub(super) master_key: Option<String>,
}

impl Output {
    pub(super) fn model(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    /// Adds a deployment as a target of its model.
    pub(super) fn add(&mut self, place: &str, deployment: Deployment, remarks: &mut Remarks) {
        let name = plain(&deployment.name);
        if name != deployment.name {
            remarks.add(format!("{place}: the name {:?} is written as {name:?}", deployment.name));
        }
        let upstream = self.upstream(deployment.upstream);
        let at = self.models.iter().position(|model| model.name == name).unwrap_or_else(|| {
            let (aliases, fallbacks, targets) = (Vec::new(), Vec::new(), Vec::new());
            self.models.push(Model { name: name.clone(), aliases, fallbacks, targets });
            self.models.len() - 1
        });
        let Some(model) = self.models.get_mut(at) else { return };
        let same = model.targets.iter_mut().find(|t| t.upstream == upstream && t.model == deployment.model);
        if let Some(same) = same {
            same.weight = Some(same.weight.unwrap_or(1).saturating_add(deployment.weight.unwrap_or(1)));
            remarks
                .add(format!("{place}: the same deployment of {name:?} twice is one target of both weights"));
            return;
        }
        model.targets.push(Target {
            upstream,
            model: deployment.model,
            weight: deployment.weight,
            prices: deployment.prices,
        });
    }

    /// The name of an upstream with these settings.
    fn upstream(&mut self, upstream: Upstream) -> String {
        if let Some((name, _)) = self.upstreams.iter().find(|(_, known)| *known == upstream) {
            return name.clone();
        }
        let base = upstream.provider.replace('_', "-");
        let count = self.upstreams.iter().filter(|(_, known)| known.provider == upstream.provider).count();
        let name = if count == 0 { base } else { format!("{base}-{}", count + 1) };
        self.upstreams.push((name.clone(), upstream));
        name
    }

    /// The configuration's text.
    pub(super) fn toml(&self) -> String {
        let mut text = String::from("# gateway.toml, imported from a LiteLLM proxy's config.yaml\n");
        if let Some(attempts) = self.attempts {
            let _ = write!(text, "\n[retry]\nattempts = {attempts}\n");
        }
        if self.content_filter {
            let head = if self.attempts.is_some() { "" } else { "\n[retry]\n" };
            let _ = writeln!(text, "{head}content_filter = true");
        }
        if let Some(ms) = self.cache_ms.filter(|_| self.cache) {
            let _ = write!(text, "\n[cache]\nkeep = \"{ms}ms\"\n");
        }
        for (name, upstream) in &self.upstreams {
            write_upstream(&mut text, name, upstream);
        }
        for model in &self.models {
            self.write_model(&mut text, model);
        }
        if let Some(variable) = &self.master_key {
            let _ = write!(text, "\n[[key]]\nname = \"master\"\nenv = {}\nadmin = true\n", quoted(variable));
        }
        text
    }

    fn write_model(&self, text: &mut String, model: &Model) {
        let _ = write!(text, "\n[[model]]\nname = {}\n", quoted(&model.name));
        for (name, list) in [("aliases", &model.aliases), ("fallbacks", &model.fallbacks)] {
            if !list.is_empty() {
                let list: Vec<String> = list.iter().map(|name| quoted(name)).collect();
                let _ = writeln!(text, "{name} = [{}]", list.join(", "));
            }
        }
        if model.targets.len() > 1 {
            let _ = writeln!(text, "policy = {}", quoted(self.policy));
        }
        if self.cache {
            text.push_str("cache = true\n");
        }
        text.push_str("targets = [\n");
        for target in &model.targets {
            let _ = write!(
                text,
                "  {{ upstream = {}, model = {}",
                quoted(&target.upstream),
                quoted(&target.model)
            );
            if let Some(weight) = target.weight {
                let _ = write!(text, ", weight = {weight}");
            }
            let names = ["input", "output", "cached", "cache_write"];
            let prices: Vec<String> = names
                .iter()
                .zip(&target.prices)
                .filter_map(|(name, price)| price.as_ref().map(|price| format!("{name} = \"{price}\"")))
                .collect();
            if !prices.is_empty() {
                let _ = write!(text, ", price = {{ {} }}", prices.join(", "));
            }
            text.push_str(" },\n");
        }
        text.push_str("]\n");
    }
}

fn write_upstream(text: &mut String, name: &str, upstream: &Upstream) {
    let _ = write!(
        text,
        "\n[[upstream]]\nname = {}\nurl = {}\nkind = {}\n",
        quoted(name),
        quoted(&upstream.url),
        quoted(upstream.kind)
    );
    if upstream.is_own {
        text.push_str("tier = \"own\"\n");
    }
    for (name, value) in [("key_env", &upstream.key_env), ("api_version", &upstream.api_version)] {
        if let Some(value) = value {
            let _ = writeln!(text, "{name} = {}", quoted(value));
        }
    }
    if let Some(limit) = upstream.max_in_flight {
        let _ = writeln!(text, "max_in_flight = {}", limit.min(u64::from(u32::MAX)));
    }
    let times: Vec<String> = [("total", upstream.total_ms), ("first_byte", upstream.first_byte_ms)]
        .iter()
        .filter_map(|(name, ms)| ms.map(|ms| format!("{name} = \"{}\"", time(ms))))
        .collect();
    if !times.is_empty() {
        let _ = writeln!(text, "timeouts = {{ {} }}", times.join(", "));
    }
    if !upstream.headers.is_empty() {
        let pairs: Vec<String> = upstream
            .headers
            .iter()
            .map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)))
            .collect();
        let _ = writeln!(text, "headers = {{ {} }}", pairs.join(", "));
    }
}

fn time(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

/// A name of the characters that names of the gateway have.
pub(super) fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@/:+".contains(c);
    name.chars().map(|c| if allowed(c) { c } else { '-' }).take(128).collect()
}

/// A TOML basic string: JSON's escapes are among its own, and DEL is one more that must be escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
