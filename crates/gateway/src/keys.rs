//! Who may ask for what: the keys of the configuration, and what is known of each.

use std::collections::HashMap;
use std::sync::Arc;

use httpd::{KeyLimits, Keys};
use privacy::Label;

use crate::config::{Class, Config};

/// What is known of a key.
#[derive(Debug)]
pub(crate) struct KeyPolicy {
    pub(crate) name: String,
    pub(crate) team: Option<String>,
    pub(crate) class: Class,
    pub(crate) label: Label,
    /// Names of models that it may ask for; none for all.
    pub(crate) models: Option<Vec<String>>,
    pub(crate) admin: bool,
}

impl KeyPolicy {
    /// Whether it may ask for a model, by any of its names.
    pub(crate) fn may_ask<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        self.models.as_ref().is_none_or(|allowed| names.any(|name| allowed.iter().any(|a| a == name)))
    }
}

/// The keys that open the gateway, and the policy of each by its name.
pub(crate) fn read(
    config: &Config,
    secret: &dyn Fn(&crate::secret::Secret<'_>) -> Result<String, String>,
) -> Result<(Keys, HashMap<String, Arc<KeyPolicy>>), String> {
    let mut keys = Keys::new(KeyLimits::default());
    let mut policies = HashMap::new();
    for key in &config.keys {
        let place = |why: String| format!("key {:?}: {why}", key.name);
        let source = match (&key.env, &key.file) {
            (Some(name), _) => crate::secret::Secret::Environment(name),
            (None, Some(path)) => crate::secret::Secret::File(path),
            (None, None) => return Err(place("needs env or file".to_owned())),
        };
        let text = secret(&source).map_err(place)?;
        let mut line = format!("{} name={}", text.trim(), key.name);
        for (word, limit) in [
            ("requests", key.requests_per_minute),
            ("tokens", key.tokens_per_minute),
            ("concurrent", key.concurrent),
        ] {
            if let Some(limit) = limit {
                line.push_str(&format!(" {word}={limit}"));
            }
        }
        keys.add_lines(&line).map_err(|error| place(error.to_string()))?;
        let policy = KeyPolicy {
            name: key.name.clone(),
            team: key.team.clone(),
            class: key.class,
            label: key.label.unwrap_or_default(),
            models: key.models.clone(),
            admin: key.admin,
        };
        policies.insert(key.name.clone(), Arc::new(policy));
    }
    Ok((keys, policies))
}
