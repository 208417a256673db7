//! The name under which a model is served: what a client writes into `model`, without a path's or an address's rest.

use std::path::{Component, Path};

use weights::fetch::ModelSource;

/// The name of MODEL: of a file its stem (of a split one, without its number), of a folder its own name, of a source the
/// repository's or the file's; a name of the catalog as it is.
pub(super) fn of(model: &str) -> String {
    let named = match ModelSource::has_source_prefix(model).then(|| ModelSource::parse(model)) {
        Some(Ok(ModelSource::Hub(hub))) => match hub.file.filter(|file| file.ends_with(".gguf")) {
            Some(file) => stem(Path::new(&file)),
            None => Some(hub.repo),
        },
        Some(Ok(ModelSource::Url(url))) => {
            let address = url.url.split(['?', '#']).next().unwrap_or_default().to_owned();
            stem(Path::new(address.rsplit('/').next().unwrap_or_default()))
        }
        Some(Ok(ModelSource::Python(python))) => python.parts.into_iter().next().map(|part| part.name),
        Some(Err(_)) => None,
        None if Path::new(model).exists() => path(Path::new(model)),
        None => None,
    };
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| model.to_owned())
}

fn path(path: &Path) -> Option<String> {
    if path.is_file() {
        return stem(path);
    }
    // `.`, `..` and links say nothing.
    let plain = matches!(path.components().next_back(), Some(Component::Normal(_)));
    let real = if plain { path.to_owned() } else { path.canonicalize().ok()? };
    // The hub's cache: models--ORG--NAME/snapshots/COMMIT.
    let cache = real.parent().filter(|dir| dir.ends_with("snapshots")).and_then(Path::parent);
    let repository = cache.and_then(|dir| dir.file_name()?.to_str()?.strip_prefix("models--"));
    match repository {
        Some(name) => Some(name.replacen("--", "/", 1)),
        None => Some(real.file_name()?.to_string_lossy().into_owned()),
    }
}

/// A file's name without `.gguf` or `.onnx`, and without `-00001-of-00003`.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let whole = [".gguf", ".onnx"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let mut parts = whole.rsplitn(4, '-');
    let (count, of, number, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
    match (count, of, number, rest) {
        (Some(count), Some("of"), Some(number), Some(rest)) if digits(count) && digits(number) => {
            Some(rest.to_owned())
        }
        _ => Some(whole.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_a_file_is_served_under_a_clean_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for file in ["model.gguf", "trees.onnx", "big-q4-00001-of-00003.gguf", "odd.bin"] {
            std::fs::write(at(file), b"").unwrap();
        }
        let snapshot = at("models--Qwen--Qwen3-0.6B/snapshots/0123abcd");
        for dir in [&at("my-model"), &snapshot] {
            std::fs::create_dir_all(dir).unwrap();
        }
        for (model, name) in [
            (at("model.gguf").as_str(), "model"),
            (&at("trees.onnx"), "trees"),
            (&at("big-q4-00001-of-00003.gguf"), "big-q4"),
            (&at("odd.bin"), "odd.bin"),
            (&at("my-model"), "my-model"),
            (&at("my-model/"), "my-model"),
            (&at("my-model/../my-model/."), "my-model"),
            (&snapshot, "Qwen/Qwen3-0.6B"),
            ("smollm2-135m-instruct", "smollm2-135m-instruct"),
            ("hf:Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
            ("hf:Qwen/Qwen3-0.6B-GGUF:Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B-Q8_0"),
            ("hf:Qwen/Qwen3-0.6B-GGUF:Q8_0", "Qwen/Qwen3-0.6B-GGUF"),
            ("https://h/a/b.gguf?token=s3cret", "b"),
            ("no-such-file", "no-such-file"),
        ] {
            assert_eq!(of(model), name, "{model}");
        }
    }
}
