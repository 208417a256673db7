//! Import of a LiteLLM proxy's `config.yaml`: the same models, upstreams and fallbacks as a configuration of the gateway.
//!
//! Every setting is either carried over or named in a remark; keys that stand in the file are not written to the new one.
//! The names of settings and providers are LiteLLM's documentation's (docs.litellm.ai, November 2026).

mod deployment;
mod fallbacks;
mod output;
mod settings;
mod values;
mod yaml;

use serde_json::{Map, Value};

use crate::server::read_config;
use deployment::Deployment;
use output::Output;
use values::Remarks;

/// An imported configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The configuration, which [`read_config`] accepts.
    pub toml: String,
    /// What was not carried over or is to be looked at, one sentence each.
    pub remarks: Vec<String>,
}

/// Most deployments of a file.
const MOST: usize = 1_024;

/// A section of the file; none if it is missing.
fn section<'a>(file: &'a Map<String, Value>, name: &str) -> Result<Option<&'a Map<String, Value>>, String> {
    match file.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(format!("{name} is no mapping")),
    }
}

/// The configuration that does what a LiteLLM proxy's `config.yaml` does.
///
/// # Errors
/// A text that is no YAML or exceeds a limit, a file without models, and one of which no target can be carried over.
pub fn import(text: &str) -> Result<Imported, String> {
    let file = match yaml::parse(text)? {
        Value::Object(file) => file,
        _ => return Err("the file is no mapping with model_list".to_owned()),
    };
    let list = match file.get("model_list") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        _ => return Err("model_list is missing or empty: there is nothing to import".to_owned()),
    };
    if list.len() > MOST {
        return Err(format!("model_list has {} deployments; at most {MOST} are read", list.len()));
    }
    let mut remarks = Remarks::default();
    let mut output = Output::default();
    let sections =
        ["model_list", "router_settings", "litellm_settings", "general_settings", "environment_variables"];
    remarks.rest("file", &file, &sections);
    let router = section(&file, "router_settings")?;
    let general = section(&file, "litellm_settings")?;
    let defaults = settings::read(router, general, &mut output, &mut remarks);
    for (at, entry) in list.iter().enumerate() {
        let place = format!("model_list[{at}]");
        let Value::Object(entry) = entry else { return Err(format!("{place} is no mapping")) };
        if let Some(deployment) = Deployment::read(&place, entry, &defaults, &mut remarks)? {
            output.add(&place, deployment, &mut remarks);
        }
    }
    if output.models.is_empty() {
        let why = remarks.0.join("\n");
        return Err(format!("no deployment of model_list can be carried over:\n{why}"));
    }
    fallbacks::read(router, general, &mut output, &mut remarks)?;
    settings::aliases(router, &mut output, &mut remarks);
    if let Some(table) = section(&file, "general_settings")? {
        settings::general(table, &mut output, &mut remarks);
    }
    if let Some(table) = section(&file, "environment_variables")? {
        for name in table.keys() {
            remarks.add(format!("environment_variables.{name}: set it where the gateway is started"));
        }
    }
    let toml = output.toml();
    // What is written must be read: else the import is at fault, and says where.
    read_config(&toml)
        .map_err(|error| format!("what would be written is not accepted: {error}\n\n{toml}"))?;
    Ok(Imported { toml, remarks: remarks.0 })
}
