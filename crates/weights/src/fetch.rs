//! Downloads models: the kinds of sources, and resumable, verified transfers.
//!
//! There are three kinds of [`ModelSource`]: a repository of the Hugging Face hub, a plain URL, and Python packages
//! that contain model files. Each writes into a directory of the store, and records its progress in a `journal`, so
//! that a killed download can be resumed. All received bytes are counted, limited and hashed while they stream.
//!
//! Never done: running code of a package, following a redirect from https to http, sending a token to another host than
//! its own, or trusting a declared size.

mod config;
mod delivery;
mod download;
mod error;
mod hex;
mod http;
mod hub;
mod journal;
mod pip;
mod progress;
mod python;
mod reserved;
mod source;
mod url;
mod wheel;

use std::path::Path;

use sha2::{Digest, Sha256};

pub use config::{FetchConfig, Hub, Limits, PythonInterpreters};
pub use delivery::{Checked, InlineFile, MAX_FILE_BYTES, Pinned};
pub use error::{DISK_MARGIN_BYTES, Error};
pub use hub::escaped;
pub use progress::{Event, NoProgress, Progress};
pub use source::{HubSource, ModelSource, PythonPart, PythonSource, UrlSource};

pub(crate) use delivery::{FetchedModel, ReceivedFile, RequestedFiles, check};
pub(crate) use error::reserve;
pub(crate) use hex::{hex, is_sha256};
pub use journal::write_whole;
pub(crate) use journal::{Journal, digest, hash_prefix};
pub(crate) use progress::pause;
pub(crate) use source::{check_relative, shown};

/// Downloads the requested files from `source` into `dir`, resuming what is already there.
pub(crate) fn fetch(
    source: &ModelSource,
    want: &RequestedFiles,
    dir: &Path,
    config: &FetchConfig,
    progress: &mut dyn Progress,
) -> Result<FetchedModel, Error> {
    let mut delivery = match source {
        ModelSource::Hub(hub) => hub::fetch(hub, want, dir, config, progress)?,
        ModelSource::Url(url) => url::fetch(url, want, dir, config, progress)?,
        ModelSource::Python(python) => python::fetch(python, want, dir, config, progress)?,
    };
    for pin in &want.pinned {
        let got = delivery.files.iter().find(|file| file.name == pin.name);
        let got = got.ok_or_else(|| Error::NotAModel {
            file: pin.name.clone(),
            reason: "the source does not hold it".to_owned(),
        })?;
        check(pin, &got.sha256, got.size_bytes)?;
    }
    for file in &delivery.files {
        reserved::check_not_reserved(&file.name)?;
        look_like_a_model(dir, &file.name)?;
    }
    write_inline(dir, &want.inline, &mut delivery)?;
    Ok(delivery)
}

/// Writes the catalog's own small files that the source has not delivered.
fn write_inline(dir: &Path, inline: &[InlineFile], delivery: &mut FetchedModel) -> Result<(), Error> {
    for file in inline {
        if delivery.files.iter().any(|delivered| delivered.name == file.name) {
            continue;
        }
        let path = dir.join(&file.name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        write_whole(&path, file.text.as_bytes())?;
        delivery.files.push(ReceivedFile {
            name: file.name.clone(),
            sha256: hex(&Sha256::digest(&file.text)),
            size_bytes: file.text.len() as u64,
            checked: Checked::Pinned,
        });
    }
    Ok(())
}

/// Checks the first bytes of a GGUF. A login page saved as `model.gguf` is the most common wrong download.
fn look_like_a_model(dir: &Path, name: &str) -> Result<(), Error> {
    if !name.ends_with(".gguf") {
        return Ok(());
    }
    let path = dir.join(name);
    let mut head = Vec::new();
    let file = std::fs::File::open(&path).map_err(Error::io("open", &path))?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, crate::magic::HEAD_BYTES as u64), &mut head)
        .map_err(Error::io("read", &path))?;
    if head.starts_with(b"GGUF") || head.starts_with(b"FUGG") {
        return Ok(());
    }
    let _ = std::fs::remove_file(&path);
    Err(Error::NotAModel {
        file: name.to_owned(),
        reason: match crate::magic::describe(&head) {
            Some(what) => format!("it is not a GGUF file but {what}"),
            None => {
                let start = hex(&head[..head.len().min(8)]);
                format!("it is not a GGUF file: it begins with the bytes {start}")
            }
        },
    })
}
