//! Hugging Face model directories: JSON files and one or several safetensors files.

mod files;
mod modules;
mod quantized;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::diagnose;
use crate::opened::Error;
use files::{MAX_CONFIG_BYTES, SINGLE, bytes, json};

pub use files::LazyFile;
pub use modules::Module;
pub(crate) use modules::{ExtraWeights, extra_weights};
pub use quantized::Quantization;
pub(crate) use quantized::{Method, method};

/// Largest tokenizer.json or shard index, in bytes; the largest in use have about 40 MB.
const MAX_LIST_BYTES: u64 = 256 << 20;
/// Most shards a model may have.
const MAX_SHARDS: usize = 4096;

const INDEX: &str = "model.safetensors.index.json";

/// The metadata files of a model directory, parsed.
///
/// In a sentence-transformers directory whose network has a folder of its own (`0_Transformer`), the files of the
/// network and of its tokenizer are those of that folder.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The content of `config.json`.
    pub config: Value,
    /// The content of `tokenizer_config.json`, if present.
    pub tokenizer_config: Option<Value>,
    /// The content of `generation_config.json`, if present.
    pub generation_config: Option<Value>,
    /// The content of `special_tokens_map.json`, if present.
    pub special_tokens_map: Option<Value>,
    /// The chat template from `chat_template.jinja`, else from `chat_template.json`, else the (default) one of
    /// `tokenizer_config.json`: the order of transformers.
    pub chat_template: Option<String>,
    /// `tokenizer.json`, if present.
    pub tokenizer_json: Option<LazyFile>,
    /// `vocab.txt`, a WordPiece vocabulary with one token a line, if present.
    pub vocab_txt: Option<LazyFile>,
    /// The modules of `modules.json` in their order, if present.
    pub modules: Option<Vec<Module>>,
    /// The content of `sentence_bert_config.json` (or of its namesakes, such as `sentence_roberta_config.json`), if
    /// present.
    pub sentence_bert_config: Option<Value>,
    /// The content of `config_sentence_transformers.json`, if present.
    pub sentence_transformers: Option<Value>,
}

impl Metadata {
    /// Reads the files of `dir`. Only the network's `config.json` is required.
    ///
    /// # Errors
    /// A file that cannot be read, is larger than its limit, or is not JSON, by name; a list of modules that is not
    /// one.
    pub fn read(dir: &Path) -> Result<Metadata, Error> {
        let modules = modules::read(dir)?;
        let network = modules::network_dir(dir, modules.as_deref());
        let config = json(&network.join("config.json"), MAX_CONFIG_BYTES)?.ok_or_else(|| {
            Error::NotAModel { path: network.clone(), problem: diagnose::without_config(&network) }
        })?;
        let tokenizer_config = json(&network.join("tokenizer_config.json"), MAX_CONFIG_BYTES)?;
        let chat_template = chat_template(&network, tokenizer_config.as_ref())?;
        Ok(Metadata {
            config,
            generation_config: json(&network.join("generation_config.json"), MAX_CONFIG_BYTES)?,
            special_tokens_map: json(&network.join("special_tokens_map.json"), MAX_CONFIG_BYTES)?,
            tokenizer_config,
            chat_template,
            tokenizer_json: LazyFile::find(network.join("tokenizer.json"), MAX_LIST_BYTES)?,
            vocab_txt: LazyFile::find(network.join("vocab.txt"), MAX_LIST_BYTES)?,
            sentence_bert_config: modules::settings(&network)?,
            sentence_transformers: json(&dir.join("config_sentence_transformers.json"), MAX_CONFIG_BYTES)?,
            modules,
        })
    }

    /// The folder of the network's own files: `dir`, or the one below it that `modules.json` names.
    pub(crate) fn network_dir(&self, dir: &Path) -> PathBuf {
        modules::network_dir(dir, self.modules.as_deref())
    }
}

fn chat_template(dir: &Path, tokenizer_config: Option<&Value>) -> Result<Option<String>, Error> {
    let path = dir.join("chat_template.jinja");
    if let Some(bytes) = bytes(&path, MAX_CONFIG_BYTES)? {
        let text = String::from_utf8(bytes);
        return text.map(Some).map_err(|_| Error::NotUtf8 { path });
    }
    let file = json(&dir.join("chat_template.json"), MAX_CONFIG_BYTES)?;
    let beside = file.as_ref().and_then(template_in);
    Ok(beside.or_else(|| tokenizer_config.and_then(template_in)))
}

/// The template in a `chat_template` value: a string, or the "default" of a list of `{name, template}`.
fn template_in(value: &Value) -> Option<String> {
    match value.get("chat_template")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let default = list.iter().find(|t| t.get("name").and_then(Value::as_str) == Some("default"))?;
            default.get("template")?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// The safetensors files of `dir`, each with its tensors according to the shard index.
///
/// # Errors
/// No weights, weights in another format, or an invalid index.
pub(crate) fn shards(dir: &Path) -> Result<BTreeMap<PathBuf, Vec<String>>, Error> {
    let path = dir.join(INDEX);
    let Some(index) = json(&path, MAX_LIST_BYTES)? else {
        return Ok(BTreeMap::from([(single(dir)?, Vec::new())]));
    };
    let bad = |problem: String| Error::Index { path: path.clone(), problem };
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| bad("it has no object 'weight_map'".to_owned()))?;
    let mut shards: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| bad(format!("the file of '{tensor}' is not a string")))?;
        // A shard must be in the same directory: an index must not be able to name any file of the machine, or itself.
        let plain =
            file.ends_with(".safetensors") && !file.contains(['/', '\\', '\0']) && !file.starts_with('.');
        if !plain {
            return Err(bad(format!("'{file}' is not the plain name of a .safetensors file")));
        }
        shards.entry(dir.join(file)).or_default().push(tensor.clone());
        if shards.len() > MAX_SHARDS {
            return Err(bad(format!("it names more than {MAX_SHARDS} files")));
        }
    }
    if shards.is_empty() {
        return Err(bad("it names no tensors".to_owned()));
    }
    let missing: Vec<_> = shards.keys().filter(|file| !file.exists()).collect();
    if let Some(first) = missing.first() {
        let name = first.file_name().unwrap_or_default().to_string_lossy();
        return Err(bad(format!(
            "{} of the {} files that it names are missing, the first is {name}; download all files of the model",
            missing.len(),
            shards.len()
        )));
    }
    Ok(shards)
}

/// The one safetensors file of a directory without a shard index.
fn single(dir: &Path) -> Result<PathBuf, Error> {
    let path = dir.join(SINGLE);
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::NotAModel { path: dir.to_owned(), problem: diagnose::without_weights(dir) })
}
