//! Files that lie, end early or are made of noise. What the `gguf` package writes is in `tests/opened.rs`.

use proptest::prelude::*;

use super::*;

/// Writes GGUF files field by field, wrong ones too.
struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    fn new(version: u32, tensors: u64, entries: u64) -> Builder {
        Builder { bytes: Vec::new() }.raw(b"GGUF").u32(version).u64(tensors).u64(entries)
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn u32(self, v: u32) -> Self {
        self.raw(&v.to_le_bytes())
    }

    fn u64(self, v: u64) -> Self {
        self.raw(&v.to_le_bytes())
    }

    fn string(self, s: &str) -> Self {
        self.u64(s.len() as u64).raw(s.as_bytes())
    }

    fn u32_entry(self, key: &str, value: u32) -> Self {
        self.string(key).u32(4).u32(value)
    }

    fn tensor(self, name: &str, dimensions: &[u64], type_id: u32, offset: u64) -> Self {
        let mut b = self.string(name).u32(dimensions.len() as u32);
        for &d in dimensions {
            b = b.u64(d);
        }
        b.u32(type_id).u64(offset)
    }

    /// Pads to 32 and adds `len` bytes of data.
    fn data(mut self, len: usize) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(32), 0);
        self.bytes.extend((0..len).map(|i| i as u8));
        self.bytes
    }
}

/// One entry of each kind and two tensors.
fn good() -> Vec<u8> {
    Builder::new(3, 2, 4)
        .u32_entry("general.alignment", 32)
        .string("name")
        .u32(8)
        .string("mill")
        .string("list")
        .u32(9)
        .u32(8)
        .u64(2)
        .string("a")
        .string("bc")
        .string("nested")
        .u32(9)
        .u32(9)
        .u64(1)
        .u32(0)
        .u64(3)
        .raw(&[1, 2, 3])
        .tensor("a", &[32, 2], 8, 0)
        .tensor("b", &[3], 0, 96)
        .data(96 + 12)
}

fn error(bytes: &[u8]) -> String {
    parse(bytes).expect_err("the file is wrong").to_string()
}

/// A file of one tensor with 64 bytes of data.
fn one(dimensions: &[u64], type_id: u32, offset: u64) -> Vec<u8> {
    Builder::new(3, 1, 0).tensor("w", dimensions, type_id, offset).data(64)
}

#[test]
fn reads_what_it_is_given() {
    for version in [2u32, 3] {
        let mut bytes = good();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        let file = parse(&bytes).unwrap();
        assert_eq!(file.version, version);
        assert_eq!(file.metadata.get_str("name"), Some("mill"));
        assert_eq!(file.metadata.get_strings("list").unwrap(), ["a", "bc"]);
        assert_eq!(file.metadata.get_array("nested"), Some(&Array::Array(vec![Array::U8(vec![1, 2, 3])])));
        let [a, b] = &file.tensors[..] else { panic!("two tensors") };
        assert_eq!((a.element, &a.shape[..]), (Element::Weights(Dtype::Q8_0), &[2, 32][..]));
        assert_eq!(a.range.len(), 68);
        assert_eq!(b.range, bytes.len() - 12..bytes.len());
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = good();
    for len in 0..bytes.len() {
        assert!(parse(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
}

#[test]
fn a_file_that_is_not_one_is_named() {
    assert!(error(b"").starts_with("the file is empty"));
    assert!(error(b"GG").contains("magic"));
    assert!(error(b"PK\x03\x04 a zip").starts_with("the file starts with 50 4b 03 04,"));
    assert!(error(&Builder::new(1, 0, 0).bytes).contains("version 1 is not supported; supported: 2, 3"));
    assert!(error(&Builder::new(4, 0, 0).bytes).contains("version 4"));
    assert!(error(&Builder::new(3u32.swap_bytes(), 0, 0).bytes).contains("big-endian"));
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_reserved() {
    for count in [100, u64::MAX, u64::MAX / 24, 1 << 63] {
        assert!(error(&Builder::new(3, count, 0).bytes).contains("tensor count"), "{count}");
        assert!(error(&Builder::new(3, 0, count).bytes).contains("metadata count"), "{count}");
        let string = Builder::new(3, 0, 1).string("k").u32(8).u64(count).raw(b"abc");
        assert!(error(&string.bytes).contains("metadata string"), "{count}");
        for element in (0..13).filter(|&e| e != 7) {
            let array = Builder::new(3, 0, 1).string("k").u32(9).u32(element).u64(count).raw(b"abc");
            assert!(error(&array.bytes).contains("array"), "{element} {count}");
        }
    }
}

#[test]
fn metadata_that_is_not_the_format_is_refused() {
    let value = |id: u32| Builder::new(3, 0, 1).string("k").u32(id);
    assert!(error(&value(13).u64(0).bytes).contains("metadata type 13"));
    assert!(error(&value(9).u32(77).u64(0).bytes).contains("metadata type 77"));
    assert!(error(&value(7).raw(&[2]).bytes).contains("truth value 2"));
    assert!(error(&value(9).u32(7).u64(2).raw(&[1, 3]).bytes).contains("truth value 3"));
    assert!(error(&value(8).u64(2).raw(&[0xff, 0xfe]).bytes).contains("not UTF-8"));
    assert!(error(&Builder::new(3, 0, 1).string("").u32(4).u32(0).bytes).contains("empty"));
    let twice = Builder::new(3, 0, 2).u32_entry("k", 1).u32_entry("k", 2);
    assert!(error(&twice.bytes).contains("'k' occurs twice"));
}

#[test]
fn arrays_in_arrays_end_somewhere() {
    let nested = |depth: usize| {
        let mut b = Builder::new(3, 0, 1).string("k").u32(9);
        for _ in 1..depth {
            b = b.u32(9).u64(1);
        }
        b.u32(0).u64(1).raw(&[5]).bytes
    };
    assert!(parse(&nested(4)).is_ok());
    assert!(error(&nested(5)).contains("nested deeper than 4"));
    assert!(error(&nested(200_000)).contains("nested deeper than 4"));
}

#[test]
fn alignments_are_powers_of_two() {
    for bad in [0, 3, 48, 1 << 21, u32::MAX] {
        let bytes = Builder::new(3, 0, 1).u32_entry("general.alignment", bad).data(0);
        assert!(error(&bytes).contains("power of two"), "{bad}");
    }
    let text = Builder::new(3, 0, 1).string("general.alignment").u32(8).string("32").data(0);
    assert!(error(&text).contains("power of two"));
}

#[test]
fn shapes_are_checked() {
    assert!(parse(&one(&[16], 0, 0)).is_ok());
    assert!(parse(&one(&[], 0, 0)).unwrap().tensors[0].shape.is_empty());
    assert!(error(&one(&[0], 0, 0)).contains("dimension is zero"));
    assert!(error(&one(&[1, 1, 1, 1, 1], 0, 0)).contains("5 dimensions; the limit is 4"));
    assert!(error(&one(&[33], 8, 0)).contains("Q8_0 has rows of 33, which are not whole blocks of 32"));
    for huge in
        [&[u64::MAX][..], &[1 << 32, 1 << 32], &[1 << 63, 2], &[2, 1 << 63], &[1 << 20, 1 << 20, 1 << 20, 16]]
    {
        assert!(error(&one(huge, 0, 0)).contains("overflows"), "{huge:?}");
    }
    let many = Builder::new(3, 1, 0).string("w").u32(u32::MAX).data(64);
    assert!(error(&many).contains("dimensions"));
}

#[test]
fn types_that_are_not_supported_are_named_with_those_that_are() {
    let text = error(&one(&[256], 41, 0));
    assert!(
        text.contains("tensor 'w' has the type Q1_0 (ggml type 41)") && text.contains("Q4_K, Q5_K, Q6_K"),
        "{text}"
    );
    assert!(error(&one(&[256], 4, 0)).contains("Q4_2"));
    assert!(error(&one(&[256], 9999, 0)).contains("ggml type 9999"));
    // Integers are no weights, but no reason to refuse the file either.
    assert_eq!(parse(&one(&[8], 27, 0)).unwrap().tensors[0].element, Element::Other("I64"));
}

#[test]
fn tensors_lie_in_the_file_aligned_and_apart() {
    assert!(error(&one(&[17], 0, 0)).contains("takes data bytes 0 + 68, but the data section has 64"));
    assert!(error(&one(&[1], 0, 64)).contains("data section"));
    assert!(error(&one(&[1], 0, u64::MAX - 31)).contains("data section"));
    assert!(error(&one(&[1], 0, 16)).contains("not a multiple of the alignment 32"));
    let overlap = Builder::new(3, 2, 0).tensor("a", &[10], 0, 0).tensor("b", &[4], 0, 32).data(64);
    assert!(error(&overlap).contains("'a' and 'b' overlap"));
    let same = Builder::new(3, 2, 0).tensor("a", &[8], 0, 0).tensor("a", &[8], 0, 32).data(64);
    assert!(error(&same).contains("'a' occurs twice"));
    let name = "n".repeat(2000);
    assert!(error(&Builder::new(3, 1, 0).tensor(&name, &[1], 0, 0).data(64)).contains("the limit is 1024"));
}

#[test]
fn split_keys_that_contradict_themselves_are_refused() {
    let split = |number: Option<u32>, count: u32, tensors: Option<u32>| {
        let entries = 1 + u64::from(number.is_some()) + u64::from(tensors.is_some());
        let mut b = Builder::new(3, 0, entries).u32_entry("split.count", count);
        if let Some(n) = number {
            b = b.u32_entry("split.no", n);
        }
        if let Some(n) = tensors {
            b = b.u32_entry("split.tensors.count", n);
        }
        parse(&b.bytes).unwrap().split()
    };
    assert_eq!(split(Some(1), 3, Some(7)), Ok(Some(Split { number: 1, count: 3, tensors: 7 })));
    assert_eq!(split(Some(0), 1, None), Ok(None));
    assert_eq!(split(None, 0, None), Ok(None));
    assert!(split(Some(3), 3, Some(7)).unwrap_err().to_string().contains("split.no is 3"));
    assert!(split(None, 3, Some(7)).unwrap_err().to_string().contains("split.no is missing"));
    assert!(split(Some(0), 3, None).unwrap_err().to_string().contains("split.tensors.count is missing"));
    assert!(split(Some(0), u32::MAX, Some(1)).unwrap_err().to_string().contains("the limit is 4096"));
}

/// What must hold of anything that parses.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(file) = parse(bytes) else { return Ok(()) };
    let _ = file.split();
    for t in &file.tensors {
        prop_assert!(t.range.start >= file.data_start && t.range.end <= bytes.len());
        prop_assert!(t.range.start <= t.range.end);
        let Element::Weights(dtype) = t.element else { continue };
        let count: usize = t.shape.iter().product();
        prop_assert_eq!(dtype.row_bytes(count), Some(t.range.len()));
    }
    Ok(())
}

proptest! {
    #[test]
    fn noise_after_the_header_never_panics(tail in proptest::collection::vec(any::<u8>(), 0..400), t in 0u64..4, m in 0u64..4) {
        check(&Builder::new(3, t, m).raw(&tail).bytes)?;
    }

    #[test]
    fn a_good_file_with_bytes_changed_is_refused_or_consistent(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = good();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        check(&bytes)?;
    }

    #[test]
    fn a_good_file_with_a_number_changed_is_refused_or_consistent(
        at in any::<prop::sample::Index>(),
        value in prop_oneof![Just(u64::MAX), Just(1 << 63), Just(i64::MAX as u64), Just(1 << 32), any::<u64>(), 0u64..200],
    ) {
        let mut bytes = good();
        let at = at.index(bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        check(&bytes)?;
    }
}
