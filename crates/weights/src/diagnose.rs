//! Explains why a directory is not a loadable model, and what to do instead.

use std::path::Path;

use serde_json::Value;

/// The most directory entries that are examined.
const MAX_NAMES: usize = 10_000;
/// The most names in a message.
const SHOWN: usize = 5;
/// The largest adapter configuration that is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The names of a directory's entries, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().take(MAX_NAMES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn listed(names: &[&String]) -> String {
    let mut text = names.iter().take(SHOWN).map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// The base model that an adapter's configuration names.
fn base(dir: &Path) -> Option<String> {
    use std::io::Read;
    let path = dir.join("adapter_config.json");
    let mut text = String::new();
    std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    std::fs::File::open(path).ok()?.take(MAX_CONFIG_BYTES).read_to_string(&mut text).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    config.get("base_model_name_or_path")?.as_str().map(|name| name.chars().take(200).collect())
}

/// The message for a directory that holds only a LoRA adapter.
fn adapter(dir: &Path, names: &[String]) -> Option<String> {
    names.iter().any(|name| name == "adapter_config.json" || name.starts_with("adapter_model.")).then(|| {
        let of = base(dir).map_or(String::new(), |base| format!(" for {base}"));
        format!("it holds a LoRA adapter{of} and no model; merge it into its base model (peft: merge_and_unload), and serve the result")
    })
}

/// Why a directory without config.json is not a model.
pub(crate) fn without_config(dir: &Path) -> String {
    let names = names(dir);
    let ending = |end: &str| names.iter().filter(|name| name.ends_with(end)).collect::<Vec<_>>();
    let has = |name: &str| names.iter().any(|n| n == name);
    if let Some(adapter) = adapter(dir, &names) {
        return adapter;
    }
    let files = ending(".gguf");
    if !files.is_empty() {
        let each =
            if files.len() == 1 { "the path of its GGUF file" } else { "the path of one of its GGUF files" };
        return format!("give {each}: {}", listed(&files));
    }
    if has("model_index.json") {
        return "it holds a diffusers pipeline, which makes pictures; a language model is needed".to_owned();
    }
    if has("params.json") && names.iter().any(|name| name.starts_with("consolidated")) {
        return "it has the publisher's own form (params.json, consolidated…); take the model in transformers' form, with \
                a config.json"
            .to_owned();
    }
    if has("snapshots") {
        return "it is a folder of the hub's cache; give the folder below its snapshots".to_owned();
    }
    if !ending(".safetensors").is_empty() || !ending(".bin").is_empty() {
        return "it has weights and no config.json; download all files of the model".to_owned();
    }
    if names.is_empty() {
        return "it has no config.json; the folder is empty".to_owned();
    }
    "it has no config.json; a model is a GGUF file, or a folder with config.json and model.safetensors"
        .to_owned()
}

/// Why a directory with config.json has no readable weights.
pub(crate) fn without_weights(dir: &Path) -> String {
    let names = names(dir);
    if let Some(adapter) = adapter(dir, &names) {
        return adapter;
    }
    let shards: Vec<&String> =
        names.iter().filter(|n| n.starts_with("model-") && n.ends_with(".safetensors")).collect();
    if !shards.is_empty() {
        return format!(
            "it has parts of the weights ({}) and no model.safetensors.index.json, which says what each holds; download \
             all files of the model",
            listed(&shards)
        );
    }
    let pickled = [".bin", ".pt", ".pth", ".ckpt", ".pkl"];
    let pickles: Vec<&String> = names
        .iter()
        .filter(|n| pickled.iter().any(|end| n.trim_end_matches(".index.json").ends_with(end)))
        .collect();
    if !pickles.is_empty() {
        return format!(
            "its weights are a PyTorch pickle ({}); only safetensors are read: take a revision of the model that has \
             them, or save it anew with transformers (save_pretrained)",
            listed(&pickles)
        );
    }
    let with =
        |ends: &[&str]| names.iter().filter(|n| ends.iter().any(|end| n.ends_with(end))).collect::<Vec<_>>();
    let gguf = with(&[".gguf"]);
    if !gguf.is_empty() {
        return format!("it has no safetensors; give the path of its GGUF file: {}", listed(&gguf));
    }
    let others = with(&[".h5", ".msgpack", ".onnx", ".npz", ".mlpackage", ".tflite"]);
    // Where conversions for a runtime of ONNX are kept beside the original weights, which are not there.
    let converted: Vec<String> = self::names(&dir.join("onnx")).iter().map(|n| format!("onnx/{n}")).collect();
    let converted: Vec<&String> = converted.iter().filter(|name| name.ends_with(".onnx")).collect();
    let foreign = if others.is_empty() { converted } else { others };
    if !foreign.is_empty() {
        return format!("its weights are in a form that is not read ({}); safetensors are", listed(&foreign));
    }
    let tensors = with(&[".safetensors"]);
    if !tensors.is_empty() {
        return format!("its weights are not named model.safetensors: {}", listed(&tensors));
    }
    "it has neither model.safetensors nor model.safetensors.index.json; download all files of the model"
        .to_owned()
}
