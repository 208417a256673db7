//! Meters a template run: bytes that it creates, and bytes that it reads.
//!
//! minijinja counts steps, but one step may double a string or compare two long ones. So every operation that creates
//! or reads data of variable length is charged here before it runs: `rewrite` turns operators into metered filters,
//! `operations` has these filters and the charged forms of all filters, tests and functions, `methods` those of strings
//! and dicts. Freed bytes are not refunded, so the sum bounds memory as well as time.
//!
//! Each run has its own thread, so the meter is thread-local.

use std::cell::Cell;
use std::fmt;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Bytes that a run may create, plus [`MADE_PER_BYTE`] for each byte of input.
const MADE: u64 = 32 << 20;
const MADE_PER_BYTE: u64 = 16;
/// Bytes that a run may read, plus [`READ_PER_BYTE`] for each byte of input.
const READ: u64 = 64 << 20;
const READ_PER_BYTE: u64 = 64;
/// Bytes that are charged for an entry of a list, and of a map.
pub(super) const ENTRY: u64 = 32;
pub(super) const PAIR: u64 = 96;
/// The least bytes that are charged for an operation.
const STEP: u64 = 32;
/// The deepest nesting of values that are read; JSON of a request is no deeper.
pub(super) const MAX_DEPTH: usize = 128;

#[derive(Clone, Copy)]
struct Meter {
    made: u64,
    read: u64,
}

thread_local! {
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Starts the meter of this thread's run with `input` bytes of input; its base allowance is divided by `parts`.
pub(super) fn start(input: u64, parts: u64) {
    let allow = |base: u64, each: u64| base / parts.max(1) + input.saturating_mul(each);
    METER.set(Some(Meter { made: allow(MADE, MADE_PER_BYTE), read: allow(READ, READ_PER_BYTE) }));
}

/// The error of a run that exceeded its allowance.
#[derive(Debug)]
pub(super) struct Spent(&'static str);

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Spent {}

fn spend(bytes: u64, part: impl Fn(&mut Meter) -> &mut u64, words: &'static str) -> Result<(), Error> {
    let Some(mut meter) = METER.get() else { return Ok(()) };
    let left = part(&mut meter);
    let enough = *left >= bytes;
    *left = left.saturating_sub(bytes);
    METER.set(Some(meter));
    if enough {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOperation, words).with_source(Spent(words)))
}

/// Charges for bytes that an operation is about to create.
pub(super) fn charge_created(bytes: u64) -> Result<(), Error> {
    spend(bytes, |meter| &mut meter.made, "makes too many bytes: 32 MiB and 16 times its input are the limit")
}

/// Charges for bytes that an operation is about to read.
pub(super) fn charge_read(bytes: u64) -> Result<(), Error> {
    let bytes = bytes.saturating_add(STEP);
    spend(
        bytes,
        |meter| &mut meter.read,
        "takes too long: it works on more than 64 MiB and 64 times its input",
    )
}

/// The size of a value without inner values: bytes of a string, or entries of a list or map times their charge.
pub(super) fn shallow_size(value: &Value) -> u64 {
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => value
            .as_str()
            .map_or_else(|| value.as_bytes().map_or(0, |bytes| bytes.len() as u64), |text| text.len() as u64),
        ValueKind::Seq | ValueKind::Iterable => value.len().unwrap_or(0) as u64 * ENTRY,
        ValueKind::Map => value.len().unwrap_or(0) as u64 * PAIR,
        _ => 8,
    }
}

/// Charges for reading a value completely, inner values as often as they occur.
pub(super) fn charge_read_all(value: &Value) -> Result<u64, Error> {
    let bytes = all(value, 0)?;
    charge_read(0)?;
    Ok(bytes)
}

fn all(value: &Value, depth: usize) -> Result<u64, Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let own = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => 16,
        _ => shallow_size(value).saturating_add(16),
    };
    spend(
        own,
        |meter| &mut meter.read,
        "takes too long: it works on more than 64 MiB and 64 times its input",
    )?;
    let mut sum = own;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                sum = sum.saturating_add(all(&item, depth + 1)?);
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                sum = sum.saturating_add(all(&key, depth + 1)?);
                sum = sum.saturating_add(all(&value.get_item(&key)?, depth + 1)?);
            }
        }
        _ => {}
    }
    Ok(sum)
}

pub(super) fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a value is nested deeper than {MAX_DEPTH}"))
}

/// Materializes a lazy sequence as a list: nested lazy sequences would take no memory but unbounded time.
pub(super) fn materialized(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        charge_created(ENTRY)?;
        items.push(item);
    }
    Ok(Value::from(items))
}
