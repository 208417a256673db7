//! Writes GGUF version 3.
//!
//! Used for files of random weights, with which other programs are measured, and for tests. Writing is atomic: a
//! temporary file is written, synced and renamed.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{Array, MAGIC, Metadata, Value};
use crate::opened::Tensor;

/// Writes `metadata` and `tensors` to `path`, replacing an existing file.
///
/// # Errors
/// The system's error; `InvalidInput` for an alignment that no reader accepts.
pub fn write(path: &Path, metadata: &Metadata, tensors: &[Tensor<'_>]) -> io::Result<()> {
    let alignment =
        super::alignment(metadata).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".tmp-");
    // Temporary files are private; this one gets the default mode, reduced by the process's umask.
    #[cfg(unix)]
    let readable: Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    temporary.permissions(readable);
    let mut file = temporary.tempfile_in(dir)?;
    {
        let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
        let head = head(metadata, tensors, u64::from(alignment));
        out.write_all(&head)?;
        pad(&mut out, head.len(), alignment as usize)?;
        for tensor in tensors {
            out.write_all(tensor.bytes)?;
            pad(&mut out, tensor.bytes.len(), alignment as usize)?;
        }
        out.flush()?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// The bytes before the data section.
fn head(metadata: &Metadata, tensors: &[Tensor<'_>], alignment: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata.iter() {
        string(&mut out, key);
        put_value(&mut out, value);
    }
    let mut offset = 0u64;
    for tensor in tensors {
        string(&mut out, tensor.name);
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        for &dimension in tensor.shape.iter().rev() {
            out.extend((dimension as u64).to_le_bytes());
        }
        out.extend(tensor.dtype.ggml_id().to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += (tensor.bytes.len() as u64).next_multiple_of(alignment);
    }
    out
}

fn pad(out: &mut impl Write, written: usize, alignment: usize) -> io::Result<()> {
    let zeros = written.next_multiple_of(alignment) - written;
    io::copy(&mut io::Read::take(io::repeat(0), zeros as u64), out).map(|_| ())
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut put = |id: u32, bytes: &[u8]| {
        out.extend(id.to_le_bytes());
        out.extend(bytes);
    };
    match value {
        Value::U8(v) => put(0, &[*v]),
        Value::I8(v) => put(1, &v.to_le_bytes()),
        Value::U16(v) => put(2, &v.to_le_bytes()),
        Value::I16(v) => put(3, &v.to_le_bytes()),
        Value::U32(v) => put(4, &v.to_le_bytes()),
        Value::I32(v) => put(5, &v.to_le_bytes()),
        Value::F32(v) => put(6, &v.to_le_bytes()),
        Value::Bool(v) => put(7, &[u8::from(*v)]),
        Value::U64(v) => put(10, &v.to_le_bytes()),
        Value::I64(v) => put(11, &v.to_le_bytes()),
        Value::F64(v) => put(12, &v.to_le_bytes()),
        Value::String(v) => {
            put(8, &[]);
            string(out, v);
        }
        Value::Array(v) => {
            put(9, &[]);
            put_array(out, v);
        }
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    fn begin(out: &mut Vec<u8>, id: u32, count: usize) {
        out.extend(id.to_le_bytes());
        out.extend((count as u64).to_le_bytes());
    }
    fn numbers<T: Copy, const N: usize>(out: &mut Vec<u8>, id: u32, all: &[T], bytes: fn(T) -> [u8; N]) {
        begin(out, id, all.len());
        out.extend(all.iter().flat_map(|&v| bytes(v)));
    }
    match array {
        Array::U8(v) => numbers(out, 0, v, u8::to_le_bytes),
        Array::I8(v) => numbers(out, 1, v, i8::to_le_bytes),
        Array::U16(v) => numbers(out, 2, v, u16::to_le_bytes),
        Array::I16(v) => numbers(out, 3, v, i16::to_le_bytes),
        Array::U32(v) => numbers(out, 4, v, u32::to_le_bytes),
        Array::I32(v) => numbers(out, 5, v, i32::to_le_bytes),
        Array::F32(v) => numbers(out, 6, v, f32::to_le_bytes),
        Array::Bool(v) => numbers(out, 7, v, |v| [u8::from(v)]),
        Array::U64(v) => numbers(out, 10, v, u64::to_le_bytes),
        Array::I64(v) => numbers(out, 11, v, i64::to_le_bytes),
        Array::F64(v) => numbers(out, 12, v, f64::to_le_bytes),
        Array::String(v) => {
            begin(out, 8, v.len());
            v.iter().for_each(|text| string(out, text));
        }
        Array::Array(v) => {
            begin(out, 9, v.len());
            v.iter().for_each(|inner| put_array(out, inner));
        }
    }
}
