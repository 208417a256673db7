//! How another library quantized a directory's weights, as `quantization_config` of its `config.json` says.

use serde_json::Value;

/// The quantization of a directory's weights, and whether they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// The method, as the file names it.
    pub method: String,
    /// Why the weights are not read: the key or the tensor, its value, and what would be read.
    pub refused: Option<String>,
}

/// A way to quantize whose tensors are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// GPTQ: `qweight`, `qzeros`, `scales`, `g_idx`.
    Gptq {
        /// Bits of a code.
        bits: u32,
        /// What is added to stored zero points.
        plus: u32,
    },
    /// AWQ: `qweight`, `qzeros`, `scales` in its own order.
    Awq,
    /// compressed-tensors and FP8: `weight_packed`, or `weight` of 8 bits, with `weight_scale` or `weight_scale_inv`.
    Scaled {
        /// Rows and columns that share a scale, where the file says so.
        block: Option<(usize, usize)>,
    },
}

/// The methods that are read, for messages.
const KNOWN: &str = "awq, compressed-tensors, fp8 and gptq are read";
/// Formats of compressed-tensors that are read.
const COMPRESSED: [&str; 6] =
    ["pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "dense", "mixed-precision"];

/// The method's name, and the method or why it is not read; `None` if the weights are not quantized.
pub(crate) fn method(config: &Value) -> Option<(String, Result<Method, String>)> {
    let inner = config.get("text_config");
    let places = [Some(config), inner].into_iter().flatten();
    let found = places.flat_map(|place| {
        ["quantization_config", "compression_config"].into_iter().map(move |key| (key, place.get(key)))
    });
    let (key, settings) = found
        .filter_map(|(key, value)| Some((key, value?)))
        .find(|(_, value)| !value.is_null() && !off(value))?;
    let text = |name: &str| settings.get(name).and_then(Value::as_str);
    let named = text("quant_method").or_else(|| text("quant_algo")).or_else(|| text("format"));
    let method = match text("quant_method") {
        Some("gptq") => gptq(settings),
        Some("awq") => awq(settings),
        Some("compressed-tensors") => compressed(settings),
        Some("fp8") => fp8(settings),
        _ => Err(format!("{key} in config.json; {KNOWN}")),
    };
    Some((named.unwrap_or("a method without a name").to_owned(), method))
}

/// Whether the settings are those of a training that left the weights as they were.
fn off(settings: &Value) -> bool {
    let off = |name: &str| settings.get(name).and_then(Value::as_bool) == Some(false);
    off("load_in_4bit") && off("load_in_8bit")
}

/// `key` if it is there and not what is read.
fn other(settings: &Value, key: &str, read: &[&str]) -> Result<(), String> {
    let Some(value) = settings.get(key).filter(|value| !value.is_null()) else { return Ok(()) };
    let said = value.as_str().map_or_else(|| value.to_string(), str::to_lowercase);
    if read.contains(&said.as_str()) {
        return Ok(());
    }
    Err(format!("{key} in quantization_config is {said}; read: {}", read.join(", ")))
}

/// `key` if it is an object or a list that is not empty.
fn not_empty(settings: &Value, key: &str) -> Result<(), String> {
    let empty = match settings.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    };
    if empty { Ok(()) } else { Err(format!("{key} in quantization_config is not read")) }
}

fn gptq(settings: &Value) -> Result<Method, String> {
    other(settings, "bits", &["4", "8"])?;
    other(settings, "checkpoint_format", &["gptq", "gptq_v2"])?;
    not_empty(settings, "dynamic")?;
    let bits = if settings.get("bits").and_then(Value::as_u64) == Some(8) { 8 } else { 4 };
    let second = settings.get("checkpoint_format").and_then(Value::as_str) == Some("gptq_v2");
    Ok(Method::Gptq { bits, plus: u32::from(!second) })
}

fn awq(settings: &Value) -> Result<Method, String> {
    other(settings, "bits", &["4"])?;
    other(settings, "w_bit", &["4"])?;
    other(settings, "version", &["gemm"])?;
    Ok(Method::Awq)
}

fn compressed(settings: &Value) -> Result<Method, String> {
    other(settings, "format", &COMPRESSED)?;
    let sparsity = settings.get("sparsity_config").and_then(|sparse| sparse.get("format"));
    if let Some(format) = sparsity.and_then(Value::as_str).filter(|format| *format != "dense") {
        return Err(format!("sparsity_config.format in quantization_config is {format}; read: dense"));
    }
    if let Some(transform) = settings.get("transform_config") {
        not_empty(transform, "config_groups")?;
    }
    let groups = settings.get("config_groups").and_then(Value::as_object);
    for group in groups.into_iter().flat_map(|groups| groups.values()) {
        other(group, "format", &COMPRESSED)?;
    }
    let block = groups
        .into_iter()
        .flat_map(|groups| groups.values())
        .find_map(|group| pair(group.get("weights")?.get("block_structure")?));
    Ok(Method::Scaled { block })
}

fn fp8(settings: &Value) -> Result<Method, String> {
    other(settings, "fmt", &["e4m3", "float8_e4m3fn"])?;
    Ok(Method::Scaled { block: settings.get("weight_block_size").and_then(pair) })
}

/// Two sizes that are not zero.
fn pair(value: &Value) -> Option<(usize, usize)> {
    let size = |at: usize| value.get(at)?.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    Some((size(0)?, size(1)?))
}
