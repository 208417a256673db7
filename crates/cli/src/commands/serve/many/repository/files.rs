//! The model among the files of a folder, and the folders of its versions.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether a file is a model, or the first part of one.
pub(super) fn is_model_file(name: &str) -> bool {
    let is_part = name.contains("-of-") && !name.contains("-00001-of-");
    (name.ends_with(".gguf") || name.ends_with(".onnx")) && !is_part
}

/// The model of a folder: the folder itself, or the model file in it. Of several files it is that called `wanted`.
pub(super) fn model_in(folder: &Path, wanted: &str) -> Result<Option<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let names = entries.flatten().filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
    let mut files: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    if files.iter().any(|name| name == "config.json") {
        // Exports to ONNX have it too.
        let only_onnx = files.iter().any(|name| name.ends_with(".onnx"))
            && !files.iter().any(|name| name.ends_with(".safetensors"));
        if !only_onnx {
            return Ok(Some(folder.to_owned()));
        }
    }
    files.retain(|name| is_model_file(name) && !name.starts_with('.'));
    files.sort();
    match files.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(folder.join(only))),
        files if files.iter().any(|name| name == wanted) => Ok(Some(folder.join(wanted))),
        [first, second, ..] => {
            Err(format!("there are several models in {}: {first}, {second}", folder.display()))
        }
    }
}

/// The folders of versions, by number: those whose names are numbers as they are printed.
pub(super) fn versions_in(folder: &Path) -> Result<Vec<(u64, PathBuf)>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // `01` would be the same version as `1`.
        let number: u64 =
            name.parse().ok().filter(|number: &u64| *number > 0 && number.to_string() == name)?;
        Some((number, entry.path())).filter(|(_, path)| path.is_dir())
    };
    Ok(entries.flatten().filter_map(number).collect())
}
