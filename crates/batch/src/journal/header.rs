//! What tells a run from others: a journal is continued only by the same one.

use crate::fault::shortened;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names and values of what decides the answers of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header(BTreeMap<String, String>);

impl Header {
    /// Adds what was chosen; nothing for what was not.
    pub(crate) fn set(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// What is different from an earlier run, a sentence each.
    pub(crate) fn differences(&self, earlier: &Header) -> Vec<String> {
        let mut names: Vec<&String> = self.0.keys().chain(earlier.0.keys()).collect();
        names.sort();
        names.dedup();
        let shown = |header: &Header, name: &str| {
            header.0.get(name).map_or("absent".to_owned(), |value| shortened(value))
        };
        names
            .into_iter()
            .filter(|name| self.0.get(*name) != earlier.0.get(*name))
            .map(|name| format!("{name} was {}, is {}", shown(earlier, name), shown(self, name)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_both_values() {
        let (mut now, mut earlier) = (Header::default(), Header::default());
        now.set("model", Some("a".to_owned()));
        now.set("system", Some("s".to_owned()));
        now.set("version", Some("1".to_owned()));
        earlier.set("model", Some("b".to_owned()));
        earlier.set("version", Some("1".to_owned()));
        assert_eq!(now.differences(&earlier), ["model was b, is a", "system was absent, is s"]);
        assert!(now.differences(&now).is_empty());
    }
}
