//! The arithmetic through the public API. In one program, and apart from the library: unit tests would compile all of
//! it a second time, which takes minutes.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod activations;
mod attention;
mod attention_encoder;
mod biases;
mod elementwise;
mod matmul;
mod norm;
mod panels;
mod recurrent;
mod rope;
mod tuning;

/// The manifest says `test = false` of the library: a test beside the code would never run.
#[test]
fn no_test_lies_in_the_library() {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("#[test]") && !text.contains("cfg(test)"), "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files > 10, "{files} files");
}
