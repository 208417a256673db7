//! Fallbacks: which model answers when another cannot.

use serde_json::{Map, Value};

use super::output::Output;
use super::values::Remarks;

/// Reads all lists of fallbacks, of both sections that may have them.
///
/// # Errors
/// A list of another form.
pub(super) fn read(
    router: Option<&Map<String, Value>>,
    general: Option<&Map<String, Value>>,
    output: &mut Output,
    remarks: &mut Remarks,
) -> Result<(), String> {
    for (place, table) in [("router_settings", router), ("litellm_settings", general)] {
        let Some(table) = table else { continue };
        for name in ["fallbacks", "context_window_fallbacks", "content_policy_fallbacks"] {
            let Some(value) = table.get(name).filter(|value| !value.is_null()) else { continue };
            let place = format!("{place}.{name}");
            for (from, to) in pairs(&place, value)? {
                add(&place, &from, &to, output, remarks);
            }
            match name {
                "context_window_fallbacks" => remarks.add(format!(
                    "{place}: written as fallbacks, which answer for every failure, prompts that are too long included"
                )),
                "content_policy_fallbacks" => {
                    output.content_filter = true;
                    remarks.add(format!(
                        "{place}: written as fallbacks with retry.content_filter, which holds for all models"
                    ));
                }
                _ => {}
            }
        }
        if let Some(value) = table.get("default_fallbacks").filter(|value| !value.is_null()) {
            let place = format!("{place}.default_fallbacks");
            let to = names(&place, value)?;
            let without: Vec<String> = output
                .models
                .iter()
                .filter(|model| model.fallbacks.is_empty() && !to.contains(&model.name))
                .map(|model| model.name.clone())
                .collect();
            without.iter().for_each(|from| add(&place, from, &to, output, remarks));
        }
    }
    Ok(())
}

/// The entries of a list of mappings from a model to its fallbacks.
fn pairs(place: &str, value: &Value) -> Result<Vec<(String, Vec<String>)>, String> {
    let wrong = || format!("{place} is no list of mappings from a model to its fallbacks");
    let mut pairs = Vec::new();
    for entry in value.as_array().ok_or_else(wrong)? {
        for (from, to) in entry.as_object().ok_or_else(wrong)? {
            pairs.push((from.clone(), names(place, to)?));
        }
    }
    Ok(pairs)
}

fn names(place: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("{place} has fallbacks that are no names of models");
    let list = value.as_array().ok_or_else(wrong)?;
    list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// Adds fallbacks of a model, but those that would lead back to it.
fn add(place: &str, from: &str, to: &[String], output: &mut Output, remarks: &mut Remarks) {
    if output.model(from).is_none() {
        remarks
            .add(format!("{place}: {from:?} is no model of this file; its fallbacks are not carried over"));
        return;
    }
    for name in to {
        if output.model(name).is_none() {
            remarks.add(format!("{place}: fallback {name:?} of {from:?} is no model of this file"));
        } else if leads(output, name, from) {
            remarks.add(format!(
                "{place}: {from:?} does not fall back to {name:?}, which falls back to {from:?}: cycles are refused"
            ));
        } else if let Some(model) = output.models.iter_mut().find(|model| model.name == from)
            && !model.fallbacks.contains(name)
        {
            model.fallbacks.push(name.clone());
        }
    }
}

/// Whether the fallbacks of a model lead to another, or are it.
fn leads(output: &Output, from: &str, to: &str) -> bool {
    let mut seen = vec![from.to_owned()];
    let mut at = 0;
    while let Some(name) = seen.get(at).cloned() {
        if name == to {
            return true;
        }
        for next in output.model(&name).map(|model| model.fallbacks.as_slice()).unwrap_or_default() {
            if !seen.contains(next) {
                seen.push(next.clone());
            }
        }
        at += 1;
    }
    false
}
