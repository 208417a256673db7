//! Downloads a GGUF, or all files of a split one, from a plain URL.

use std::path::Path;

use ureq::http::Uri;

use super::download::{DownloadRequest, download};
use super::http::Client;
use super::hub::split_names;
use super::source::{check_relative, shown};
use super::{Checked, Error, FetchConfig, FetchedModel, Journal, Progress, RequestedFiles, UrlSource, check};

pub(super) fn fetch(
    source: &UrlSource,
    want: &RequestedFiles,
    dir: &Path,
    config: &FetchConfig,
    progress: &mut dyn Progress,
) -> Result<FetchedModel, Error> {
    let client = Client::new(config, None)?;
    let named = file_name(&source.url);
    let parts = named.as_deref().and_then(split_names);
    let shown = shown(&source.url);
    let mut journal = Journal::open(dir, &source.url)?;
    let mut delivery = FetchedModel { origin: shown, file: None, files: Vec::new(), network_bytes: 0 };
    let single = [want.file.clone().or(named.clone()).unwrap_or_else(|| "model.gguf".to_owned())];
    let names = parts.as_deref().unwrap_or(&single);
    for name in names {
        let url = match &named {
            Some(named) if parts.is_some() => source.url.replace(named.as_str(), name),
            _ => source.url.clone(),
        };
        let pin = want.pin(name);
        let listed = (source.sha256.as_deref().filter(|_| names.len() == 1), None);
        let order = DownloadRequest { url: &url, name, pin, listed };
        let (mut file, bytes) = download(&client, &order, &mut journal, progress)?;
        if order.sha256().is_some() {
            file.checked = Checked::Pinned;
        }
        delivery.network_bytes += bytes;
        delivery.files.push(file);
    }
    delivery.file = names.first().cloned();
    if let (Some(pin), Some(file)) = (want.pinned.first(), delivery.files.first()) {
        check(pin, &file.sha256, file.size_bytes)?;
    }
    Ok(delivery)
}

/// The last part of a URL's path, if it can be a file name.
fn file_name(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let name = uri.path().rsplit('/').next()?.to_owned();
    (name.contains('.') && check_relative(&name).is_ok() && !name.starts_with('.')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_paths_only_when_they_are_names() {
        assert_eq!(file_name("https://h/a/b.gguf?download=1"), Some("b.gguf".to_owned()));
        for url in ["https://h/", "https://h/a/..", "https://h/resolve/main", "https://h/.gguf"] {
            assert_eq!(file_name(url), None, "{url}");
        }
    }
}
