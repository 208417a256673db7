//! Errors of GGUF files.

use tensor::Dtype;

use super::limits::{MAX_ALIGNMENT, MAX_DIMENSIONS};

/// Why a file is not valid GGUF. Offsets are in bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error("the file is empty: its download did not end well; fetch it again")]
    Empty,
    #[error("the file starts with {}, not with the magic \"GGUF\"", hex(found))]
    Magic { found: Vec<u8> },
    #[error("GGUF version {version} is not supported; supported: 2, 3")]
    Version { version: u32 },
    #[error("the file is big-endian (version field {version:#010x}); only little-endian GGUF is supported")]
    BigEndian { version: u32 },
    #[error(
        "the file ends inside {what} at byte {offset}: {need} bytes needed, {have} left; its download may not have ended"
    )]
    Ends { what: &'static str, offset: usize, need: u64, have: usize },
    #[error("{what} at byte {offset} has the length {value}; the limit is {limit}")]
    TooMany { what: &'static str, offset: usize, value: u64, limit: u64 },
    #[error("{what} at byte {offset} is not UTF-8")]
    NotUtf8 { what: &'static str, offset: usize },
    #[error("metadata type {id} at byte {offset} is unknown; known: 0 to 12")]
    ValueType { id: u32, offset: usize },
    #[error("truth value {value} at byte {offset} is neither 0 nor 1")]
    NotABool { value: u8, offset: usize },
    #[error("arrays nested deeper than {limit} at byte {offset}")]
    TooDeep { offset: usize, limit: u32 },
    #[error("metadata key '{key}' occurs twice")]
    DuplicateKey { key: String },
    #[error("metadata key at byte {offset} is empty")]
    EmptyKey { offset: usize },
    #[error("general.alignment is {value}; it must be a power of two up to {MAX_ALIGNMENT}")]
    Alignment { value: String },
    #[error("tensor '{name}' occurs twice")]
    DuplicateTensor { name: String },
    #[error("tensor '{name}' has {dimensions} dimensions; the limit is {MAX_DIMENSIONS}")]
    Dimensions { name: String, dimensions: u32 },
    #[error("tensor '{name}' has the shape {shape:?}: {problem}")]
    Shape { name: String, shape: Vec<u64>, problem: &'static str },
    #[error(
        "tensor '{name}' has the type {type_name}, which is not supported; supported: {}",
        Dtype::supported()
    )]
    Unsupported { name: String, type_name: String },
    #[error("tensor '{name}' of type {type_name} has rows of {cols}, which are not whole blocks of {block}")]
    Blocks { name: String, type_name: &'static str, cols: u64, block: usize },
    #[error(
        "tensor '{name}' starts at data byte {offset}, which is not a multiple of the alignment {alignment}"
    )]
    Misaligned { name: String, offset: u64, alignment: u32 },
    #[error(
        "tensor '{name}' takes data bytes {offset} + {bytes}, but the data section has {data_bytes}; the file is cut short: its download may not have ended"
    )]
    OutOfFile { name: String, offset: u64, bytes: u64, data_bytes: u64 },
    #[error("tensors '{first}' and '{second}' overlap")]
    Overlap { first: String, second: String },
    #[error("{key} is {value}: {problem}")]
    Split { key: &'static str, value: String, problem: String },
}

/// Bytes in hexadecimal, such as `47 47 55 46`.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
