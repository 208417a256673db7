//! A vocabulary for files with random weights: the 256 bytes, one merge, and placeholders. It is a valid GPT-2
//! byte-level BPE vocabulary, and encodes any text.

use weights::gguf::{Array, Metadata, Value};

/// Values of `tokenizer.ggml.token_type`: normal and control tokens.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;

/// Adds the metadata keys of a vocabulary of `size` tokens.
pub(super) fn put(keys: &mut Metadata, size: usize) {
    let mut tokens: Vec<String> = (0..=255).map(|byte| letter(byte).to_string()).collect();
    let space_t = format!("{}t", letter(b' '));
    tokens.push(space_t);
    let mut types = vec![NORMAL; tokens.len()];
    for id in tokens.len()..size {
        tokens.push(format!("<|{id}|>"));
        types.push(CONTROL);
    }
    let last = Value::U32(size.saturating_sub(1) as u32);
    let mut put = |key: &str, value| keys.insert(format!("tokenizer.ggml.{key}"), value);
    put("model", Value::String("gpt2".to_owned()));
    put("pre", Value::String("default".to_owned()));
    put("tokens", Value::Array(Array::String(tokens.into())));
    put("token_type", Value::Array(Array::I32(types)));
    put("merges", Value::Array(Array::String(vec![format!("{} t", letter(b' '))].into())));
    put("bos_token_id", last.clone());
    put("eos_token_id", last);
}

/// The character that stands for a byte in GPT-2's vocabularies: itself if it is printable, else one beyond Latin-1.
fn letter(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !printable(other)).count();
    char::from_u32(256 + before as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}
