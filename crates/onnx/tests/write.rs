//! Models written byte by byte, for files that no exporter writes.

/// A field of bytes.
pub(crate) fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    [varint(u64::from(number << 3 | 2)), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A field of a number.
pub(crate) fn int(number: u32, value: i64) -> Vec<u8> {
    [varint(u64::from(number << 3)), varint(value as u64)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A model of these fields of a graph, with both domains.
pub(crate) fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    let core = field(8, &int(2, 18));
    let ml = field(8, &[field(1, b"ai.onnx.ml"), int(2, 3)].concat());
    [int(1, 9), field(7, &graph.concat()), core, ml].concat()
}

/// A node of the default domain, as a field of a graph.
pub(crate) fn node(
    name: &str,
    operator: &str,
    inputs: &[&str],
    outputs: &[&str],
    more: &[Vec<u8>],
) -> Vec<u8> {
    let mut out: Vec<u8> = inputs.iter().flat_map(|input| field(1, input.as_bytes())).collect();
    out.extend(outputs.iter().flat_map(|output| field(2, output.as_bytes())));
    out.extend([field(3, name.as_bytes()), field(4, operator.as_bytes()), more.concat()].concat());
    field(1, &out)
}

/// The type of a `f32` tensor of these dimensions; negative ones have a name.
fn floats(dims: &[i64]) -> Vec<u8> {
    let dim = |&n: &i64| field(1, &if n < 0 { field(2, b"rows") } else { int(1, n) });
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    field(1, &[int(1, 1), field(2, &shape)].concat())
}

/// An input of `f32` (`11`) or an output (`12`), as a field of a graph.
pub(crate) fn value(number: u32, name: &str, dims: &[i64]) -> Vec<u8> {
    field(number, &[field(1, name.as_bytes()), field(2, &floats(dims))].concat())
}

/// A stored tensor of `f32` with these raw bytes, as a field of a graph.
pub(crate) fn stored(name: &str, dims: &[i64], raw: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&n| int(1, n)).collect();
    field(5, &[dims, int(2, 1), field(8, name.as_bytes()), field(9, raw)].concat())
}

/// A stored tensor of `f32` in another file.
pub(crate) fn external(name: &str, dims: &[i64], entries: &[(&str, &str)]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&n| int(1, n)).collect();
    let entry = |(key, value): &(&str, &str)| {
        field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
    };
    let entries: Vec<u8> = entries.iter().flat_map(entry).collect();
    field(5, &[dims, int(2, 1), field(8, name.as_bytes()), entries, int(14, 1)].concat())
}
