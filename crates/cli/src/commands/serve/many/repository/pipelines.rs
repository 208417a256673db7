//! The pipeline of a folder: `pipeline.toml`, or the ensemble of a `config.pbtxt`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipeline::{Definition, MAX_BYTES};
use wire::error::quote;
use wire::oip::ModelConfig;

use super::settings::small_text;

/// The file of a pipeline.
pub(super) const PIPELINE: &str = "pipeline.toml";
/// Most bytes of a file that a pipeline names.
const NAMED_BYTES: u64 = 1 << 20;

/// A pipeline with the files that it names.
pub(super) struct Read {
    pub(super) definition: Arc<Definition>,
    pub(super) files: Vec<PathBuf>,
}

/// The pipeline of a folder, if it has one.
pub(super) fn read(folder: &Path, config: Option<&ModelConfig>) -> Result<Option<Read>, String> {
    let text = small_text(&folder.join(PIPELINE), MAX_BYTES as u64)?;
    let ensemble = config.filter(|config| config.is_ensemble());
    match (text, ensemble) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(format!("{PIPELINE} and config.pbtxt both say what the pipeline is")),
        (None, Some(config)) => {
            let definition = Definition::of_ensemble(config).map_err(|why| format!("config.pbtxt: {why}"))?;
            Ok(Some(Read { definition: Arc::new(definition), files: Vec::new() }))
        }
        (Some(text), None) => {
            let named = RefCell::new(Vec::new());
            let file = |name: &str| {
                let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
                if !name.split('/').all(is_plain) || name.contains('\\') {
                    return Err(format!("{} must be the name of a file inside the folder", quote(name)));
                }
                let path = folder.join(name);
                let text = small_text(&path, NAMED_BYTES)?;
                named.borrow_mut().push(path);
                text.ok_or_else(|| format!("there is no file {}", quote(name)))
            };
            let definition = Definition::parse(&text, &file).map_err(|why| format!("{PIPELINE}: {why}"))?;
            Ok(Some(Read { definition: Arc::new(definition), files: named.into_inner() }))
        }
    }
}
