//! sentence-transformers directories: `modules.json`, the modules' folders, and weights beside those of the network.
//!
//! `modules.json` lists what a text passes through: the network (kind `Transformer`), then pooling, dense layers and
//! the like, each with a folder of its own. A folder's name is checked before it becomes a path.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::files::{MAX_CONFIG_BYTES, SINGLE, json};
use crate::opened::Error;

/// Most modules of a model.
const MAX_MODULES: usize = 16;
/// Longest name of a module's folder or kind, in bytes.
const MAX_NAME_BYTES: usize = 128;

const LIST: &str = "modules.json";
const PICKLE: &str = "pytorch_model.bin";
/// The kinds of the module that is the network itself; the second has a head that predicts words.
const NETWORKS: [&str; 2] = ["Transformer", "MLMTransformer"];
/// Weights of heads in the model's own folder, without their extension; BGE-M3 has these.
const HEADS: [&str; 2] = ["sparse_linear", "colbert_linear"];
/// Names of the network's own settings, in the order of sentence-transformers.
const SETTINGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// One step of a sentence-transformers model.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Position in `modules.json`.
    pub index: usize,
    /// Name of the module's folder below the model's; empty for the model's own.
    pub path: String,
    /// Last component of the module's Python type, such as `Transformer`, `Pooling`, `Dense` or `Normalize`.
    pub kind: String,
    /// The content of the folder's `config.json`; null if it has none.
    pub config: Value,
}

/// A file of weights, and what precedes the names of its tensors.
pub(crate) struct ExtraWeights {
    pub(crate) file: PathBuf,
    pub(crate) prefix: String,
}

/// The modules that `modules.json` of `dir` lists, if it is there.
pub(super) fn read(dir: &Path) -> Result<Option<Vec<Module>>, Error> {
    let path = dir.join(LIST);
    let Some(list) = json(&path, MAX_CONFIG_BYTES)? else { return Ok(None) };
    let bad = |problem: String| Error::Modules { path: path.clone(), problem };
    let list = list.as_array().ok_or_else(|| bad("it is not a list".to_owned()))?;
    if list.len() > MAX_MODULES {
        return Err(bad(format!("it lists {} modules; the limit is {MAX_MODULES}", list.len())));
    }
    let mut modules: Vec<Module> = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        let (folder, kind) = names(entry).map_err(|problem| bad(format!("module {index}: {problem}")))?;
        if let Some(other) = modules.iter().find(|other| !folder.is_empty() && other.path == folder) {
            return Err(bad(format!("modules {} and {index} are both in {folder}", other.index)));
        }
        let config = json(&dir.join(&folder).join("config.json"), MAX_CONFIG_BYTES)?.unwrap_or(Value::Null);
        modules.push(Module { index, path: folder, kind, config });
    }
    Ok(Some(modules))
}

/// Folder and kind of a module.
fn names(entry: &Value) -> Result<(String, String), String> {
    let text = |key: &str| {
        let text =
            entry.get(key).and_then(Value::as_str).ok_or_else(|| format!("'{key}' is not a string"))?;
        if text.len() > MAX_NAME_BYTES {
            return Err(format!("'{key}' has {} bytes; the limit is {MAX_NAME_BYTES}", text.len()));
        }
        Ok(text)
    };
    let folder = match text("path")? {
        "." => "",
        folder => folder,
    };
    // A list must not be able to name any folder of the machine.
    let plain = !folder.starts_with('.')
        && !folder.contains(['/', '\\', ':'])
        && !folder.chars().any(char::is_control);
    if !plain {
        return Err(format!("{folder:?} is not the plain name of a folder"));
    }
    let kind = text("type")?.rsplit('.').next().unwrap_or_default();
    if kind.is_empty() {
        return Err("'type' names no type".to_owned());
    }
    Ok((folder.to_owned(), kind.to_owned()))
}

/// The folder of the network: `dir`, or that of the first network below it.
pub(super) fn network_dir(dir: &Path, modules: Option<&[Module]>) -> PathBuf {
    match network(modules.unwrap_or_default()) {
        Some(module) if !module.path.is_empty() => dir.join(&module.path),
        _ => dir.to_owned(),
    }
}

fn network(modules: &[Module]) -> Option<&Module> {
    modules.iter().find(|module| NETWORKS.contains(&module.kind.as_str()))
}

/// The settings of the network in `network`, if it has any.
pub(super) fn settings(network: &Path) -> Result<Option<Value>, Error> {
    for name in SETTINGS {
        if let Some(value) = json(&network.join(name), MAX_CONFIG_BYTES)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The files of weights beside the network's own: of the modules, and of heads in `dir` itself.
///
/// # Errors
/// Weights that are there as a pickle only.
pub(crate) fn extra_weights(dir: &Path, modules: &[Module]) -> Result<Vec<ExtraWeights>, Error> {
    let network = network(modules).map(|module| module.index);
    let with_folder =
        modules.iter().filter(|module| !module.path.is_empty() && Some(module.index) != network);
    let of_modules = with_folder
        .map(|module| (module.path.as_str(), dir.join(&module.path), SINGLE.to_owned(), PICKLE.to_owned()));
    let of_heads =
        HEADS.map(|head| (head, dir.to_owned(), format!("{head}.safetensors"), format!("{head}.pt")));
    let mut found = Vec::new();
    for (name, folder, tensors, pickle) in of_modules.chain(of_heads) {
        let file = folder.join(&tensors);
        let pickle = folder.join(pickle);
        if file.is_file() {
            found.push(ExtraWeights { file, prefix: format!("{name}/") });
        } else if pickle.is_file() {
            return Err(Error::Foreign { path: pickle.clone(), what: pickled(&pickle, &tensors) });
        }
    }
    Ok(found)
}

/// The message for pickled weights of a module, with the command that converts them.
fn pickled(pickle: &Path, tensors: &str) -> String {
    let name = pickle.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "a PyTorch pickle; pickled weights are not read, because reading them would run code. To convert them, run in \
         its folder: python -c \"import torch, safetensors.torch as s; s.save_file({{k: v.contiguous() for k, v in \
         torch.load('{name}', weights_only=True).items()}}, '{tensors}')\""
    )
}
