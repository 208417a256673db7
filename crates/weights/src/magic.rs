//! Recognizes files that are not models by their first bytes (magic numbers), and says what to do instead.

use std::path::Path;

/// The bytes at the start of a file that are examined.
pub(crate) const HEAD_BYTES: usize = 1024;

/// Signatures of files that are commonly mistaken for models, with the message for each.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "a gzip archive; unpack it, and give the model file in it"),
    (b"BZh", "a bzip2 archive; unpack it, and give the model file in it"),
    (b"\xfd7zXZ\0", "an xz archive; unpack it, and give the model file in it"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it, and give the model file in it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it, and give the model file in it"),
    (b"Rar!", "a RAR archive; unpack it, and give the model file in it"),
    (b"\x89HDF", "an HDF5 file (TensorFlow or Keras); a model in GGUF or safetensors is needed"),
    (b"\x93NUMPY", "a NumPy array; a model in GGUF or safetensors is needed"),
    (b"lmgg", "a file of GGML's old form, before GGUF; take or convert a newer file"),
    (b"fmgg", "a file of GGML's old form, before GGUF; take or convert a newer file"),
    (b"tjgg", "a file of GGML's old form (GGJT), before GGUF; take or convert a newer file"),
    (b"algg", "a LoRA adapter of GGML's old form; merge it into its base model"),
    (b"\x7fELF", "a program; the model file is needed"),
    (b"%PDF", "a PDF; the model file is needed"),
];

const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

/// The message for a Git LFS pointer; `None` for other files.
pub(crate) fn lfs_pointer(head: &[u8]) -> Option<&'static str> {
    head.starts_with(LFS).then_some(
        "a Git LFS pointer and not the file itself; fetch the file with `git lfs pull`, or the whole model with \
         `gristmill pull hf:ORG/NAME`",
    )
}

/// The message for an HTML page that was saved as the file; `None` for other files.
pub(crate) fn html_page(head: &[u8]) -> Option<&'static str> {
    let text = head.trim_ascii_start();
    let begins =
        |with: &str| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    ["<!doctype html", "<html", "<head", "<!--"].into_iter().any(begins).then_some(
        "a web page (HTML) saved under this name; download the file itself, on a hub from its `resolve` address and \
         not `blob`, with a token if the model is gated",
    )
}

/// The kind of a file by its first [`HEAD_BYTES`]; `None` if it is unknown or a GGUF.
pub(crate) fn describe(head: &[u8]) -> Option<String> {
    if let Some(known) = lfs_pointer(head).or_else(|| html_page(head)) {
        return Some(known.to_owned());
    }
    if head.starts_with(b"PK\x03\x04") {
        let pickle = head.windows(8).any(|w| w == b"data.pkl");
        return Some(if pickle {
            "a PyTorch file (pickle); only GGUF and safetensors are read".to_owned()
        } else {
            "a ZIP archive; unpack it, and give the model file in it".to_owned()
        });
    }
    if let [0x80, 2..=5, ..] = head {
        return Some("a Python pickle (PyTorch); only GGUF and safetensors are read".to_owned());
    }
    if let Some((_, what)) = SIGNATURES.iter().find(|(start, _)| head.starts_with(start)) {
        return Some((*what).to_owned());
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some("a tar archive; unpack it, and give the model file in it".to_owned());
    }
    if is_safetensors(head) {
        return Some("a safetensors file; give the folder that holds it and its config.json".to_owned());
    }
    if head.len() >= 64 && head.iter().all(|byte| *byte == 0) {
        return Some(
            "empty at its beginning (zeros): its download did not end well; fetch it again".to_owned(),
        );
    }
    text(head)
}

/// The first [`HEAD_BYTES`] of a file.
pub(crate) fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(HEAD_BYTES)]
}

/// The kind of a file that was expected to be safetensors; `None` if it is unknown.
pub(crate) fn in_place_of_safetensors(bytes: &[u8]) -> Option<String> {
    describe(head(bytes)).filter(|what| !what.starts_with("a safetensors file"))
}

/// Adds to `what` the advice to give the directory, if `path` is a file of a Hugging Face model.
pub(crate) fn with_directory_advice(path: &Path, what: String) -> String {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.join("config.json").is_file()
        && (what.starts_with("a safetensors") || what.starts_with("a JSON"))
    {
        let kind = what.split(';').next().unwrap_or_default();
        return format!("{kind} of a Hugging Face model; give its folder: {}", folder.display());
    }
    what
}

/// Whether the bytes start like safetensors: a small length, then JSON.
fn is_safetensors(head: &[u8]) -> bool {
    let Some((length, rest)) = head.split_first_chunk::<8>() else { return false };
    (2..1 << 32).contains(&u64::from_le_bytes(*length)) && rest.first() == Some(&b'{')
}

/// The message for a text file, such as a server's error that was saved as the model.
fn text(head: &[u8]) -> Option<String> {
    const SHOWN: usize = 60;
    let whole = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The examined bytes may end inside a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let readable = !whole.trim().is_empty()
        && whole.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\u{feff}'));
    if !readable {
        return None;
    }
    if whole.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return Some("a JSON file; a model is a GGUF file, or the folder of a Hugging Face model".to_owned());
    }
    let start: String = whole.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect();
    Some(format!("a text that begins with '{start}'; a model file is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_model_is_named() {
        let mut tar = vec![b'x'; 600];
        tar[257..262].copy_from_slice(b"ustar");
        let cases: [(&[u8], &str); 16] = [
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
            (b"<!DOCTYPE html><html>", "web page"),
            (b"\n  <HTML lang=en>", "web page"),
            (b"PK\x03\x04................archive/data.pkl", "PyTorch"),
            (b"PK\x03\x04................model.gguf", "ZIP"),
            (b"\x80\x02}q\x00", "pickle"),
            (b"\x1f\x8b\x08\0", "gzip"),
            (b"BZh9", "bzip2"),
            (&tar, "tar"),
            (b"tjgg\x03\0\0\0", "before GGUF"),
            (b"\x89HDF\r\n", "HDF5"),
            (b"\x10\0\0\0\0\0\0\0{\"a\":1}", "safetensors"),
            (b"{\"error\": \"not found\"}", "JSON"),
            (b"Entry not found", "'Entry not found'"),
            (b"Invalid username or password.\n", "Invalid username"),
            (&[0; 100], "did not end well"),
        ];
        for (bytes, what) in cases {
            let said = describe(bytes).unwrap_or_default();
            assert!(said.contains(what), "{what}: {said}");
        }
        for none in [&b""[..], &[0xff; 40], b"\x01\x02\x03", b"GGU\0\0\0\0"] {
            assert_eq!(describe(none), None);
        }
    }
}
