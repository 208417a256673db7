//! Versions of models: the default one has the model's names, the others are found by name and number.

use std::sync::Arc;

use wire::Fault;
use wire::oip::{no_version, plain_name, versioned_name};

use crate::registry::ModelId;
use crate::service::Service;

/// A version of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelVersion {
    /// Which one it is.
    pub id: ModelId,
    /// The name that requests find it by.
    pub name: String,
    /// The version.
    pub version: Arc<str>,
}

impl Service {
    /// A version of the model of this name; the default one if the version is empty.
    ///
    /// # Errors
    /// There is no such model, or no such version of it.
    pub fn find_version(&self, name: &str, version: &str) -> Result<ModelVersion, Fault> {
        let id = self.find(Some(name))?;
        let default = self.registry().version(id);
        if version.is_empty() || *default == *version {
            return Ok(ModelVersion { id, name: name.to_owned(), version: default });
        }
        let versions = self.versions(id);
        match versions.iter().find(|other| *other.version == *version) {
            Some(found) => Ok(found.clone()),
            None => {
                let known: Vec<String> = versions.iter().map(|known| known.version.to_string()).collect();
                Err(no_version(name, version, &known))
            }
        }
    }

    /// All versions of a model, the lowest first; of a version, those of its model.
    pub fn versions(&self, id: ModelId) -> Vec<ModelVersion> {
        let registry = self.registry();
        let all = registry.facts();
        let Some(own) = all.iter().find(|facts| facts.id == id).map(|facts| plain_name(&facts.names[0]))
        else {
            return Vec::new();
        };
        let of_model = all.iter().filter(|facts| plain_name(&facts.names[0]) == own);
        let mut versions: Vec<ModelVersion> = of_model
            .map(|facts| ModelVersion {
                id: facts.id,
                name: facts.names[0].clone(),
                version: registry.version(facts.id),
            })
            .collect();
        // The default one may be there under both names.
        versions.retain({
            let name = |version: &ModelVersion| versioned_name(own, &version.version);
            let default = versions.iter().find(|version| version.name == own).map(name);
            move |version| Some(&version.name) != default.as_ref()
        });
        versions.sort_by_key(|version| version.version.parse::<u64>().unwrap_or(0));
        versions
    }
}
