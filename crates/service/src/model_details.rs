//! What a model's file is.

/// What a model's file is, for clients that list models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelDetails {
    /// `gguf` or `safetensors`.
    pub format: String,
    /// The family's name as a GGUF spells it, such as `llama`.
    pub family: String,
    /// Parameters of the whole model.
    pub parameters: u64,
    /// The format of most of its weights, such as `Q4_K`.
    pub quantization: String,
    /// Bytes of its weights in the file.
    pub weight_bytes: u64,
    /// Numbers of a token's embedding.
    pub width: usize,
    /// Layers.
    pub layers: usize,
}
